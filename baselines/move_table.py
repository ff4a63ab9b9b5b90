"""`move-table`: the search of ReLAX guided by a table of mean effects instead of a trained agent.

For each predicted class, the mean change of the model's scores when each feature of some training rows is moved to
each bound. No learning: what it reaches is what an agent has to beat.
"""

from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import MOST_TRAINING_ROWS, Neighbours
from relax_plugin.search.rescue import QUANTILES, RESCUE_ROWS, Rescue
from relax_plugin.search.searcher import Searcher, check_search_options
from relax_plugin.search.state import Episodes, Observer
from relax_plugin.wishes.plausibility import Plausible

TABLE_ROWS = 300  # training rows the effects are averaged over


class MoveTable(CounterfactualExplainer):
    """Actions in the order of their mean effect on rows of the same predicted class; needs scores.

    Parameters
    ----------
    model, space, goal, max_changes, plausible, seed
        As for every explainer.
    rows_per_instance : int
        Model rows the search may spend on one query.
    fallback : bool
        Whether queries still unsolved get more rows: for a wider search, then for a rescue by greedy search, where
        the model gives scores, and from near training rows.
    rescue_rows : int
        Model rows that the rescue may spend on one query at most; 0: there is none.
    """

    supports = Supports(labels_only=False)

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = 5,
        plausible: Plausible = None,
        rows_per_instance: int = 40,
        fallback: bool = True,
        rescue_rows: int = RESCUE_ROWS,
        seed: int = 0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, plausible=plausible, seed=seed)
        self.rows_per_instance = rows_per_instance
        self.fallback = fallback
        self.rescue_rows = rescue_rows

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        actions = ActionTable(self.space_)
        self.observer_ = Observer(self.space_, actions, self._most_changes(), gap_scale=1.0)
        self.moves_ = Moves.quantiles(values, self.space_, QUANTILES)
        self.neighbours_ = Neighbours.of(values, MOST_TRAINING_ROWS)
        rows = values[rng.permutation(len(values))[:TABLE_ROWS]]
        before = self.blackbox_.ask(rows)
        scores = self._scores(before)
        limits = self.space_.limits()
        span = limits.span(rows)
        allowed = actions.allowed(rows, np.zeros(rows.shape, dtype=bool), span, limits)
        groups = scores.shape[1] if self.blackbox_.task == "classification" else 1
        self.table_ = np.zeros((groups, len(actions), scores.shape[1]))
        for action in range(len(actions)):  # a loop over actions, not rows: each is one batched question
            able = np.flatnonzero(allowed[:, action])
            if len(able) == 0:
                continue
            taken, extent = np.full(len(able), action), np.ones(len(able))
            part_span = (span[0][able], span[1][able])
            moved = actions.apply(rows[able], rows[able], part_span, limits, taken, extent)
            effect = self._scores(self.blackbox_.ask(moved)) - scores[able]
            group = before.output[able].astype(int) if groups > 1 else np.zeros(len(able), dtype=int)
            count = np.maximum(np.bincount(group, minlength=groups), 1)
            np.add.at(self.table_[:, action], group, effect / count[group, None])

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        ranker = TableRanker(self.table_, self.observer_, self.blackbox_.task == "regression")
        rescue = Rescue(self.neighbours_, self.moves_, int(self.rescue_rows)) if self.fallback else None
        searcher = Searcher(lambda _: ranker, self.observer_, int(self.rows_per_instance), rescue)
        return fill_slots(problem, n, searcher.search, searcher.ordinary_search)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_search_options(self.rows_per_instance, self.fallback, self.rescue_rows)

    def _scores(self, answer: Any) -> Floats:
        if self.blackbox_.task == "regression":
            return np.asarray(answer.output[:, None])
        return self.blackbox_.logits(answer.scores)


class TableRanker:
    """The table as a ranking: how much each action is expected to close the gap, always by a full move."""

    exact = False

    def __init__(self, table: Floats, observer: Observer, regression: bool) -> None:
        self.table, self.observer, self.regression = table, observer, regression

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        value = self._towards(episodes) if self.regression else self._to_wanted(episodes)
        return np.where(allowed, value, -np.inf), np.ones(allowed.shape)

    def _to_wanted(self, episodes: Episodes) -> Floats:
        wanted = episodes.goal.wanted
        assert wanted is not None
        effect = self.table[episodes.answer.output.astype(int)]  # (rows, actions, classes)
        to = np.where(wanted[:, None], effect, -np.inf).max(axis=2)
        away = np.where(wanted[:, None], -np.inf, effect).max(axis=2)
        return np.asarray(to - away)

    def _towards(self, episodes: Episodes) -> Floats:
        goal, output = episodes.goal, episodes.answer.output
        assert goal.lower is not None and goal.upper is not None
        if goal.inside:
            sign = np.where(output < goal.lower, 1.0, -1.0)
            return sign[:, None] * self.table[0, :, 0]
        # Either side will do: go on where the answer has already moved to, begin with the largest effect.
        moved = np.sign(np.round(output - 0.5 * (goal.lower + goal.upper), 12))[:, None]
        return np.where(moved == 0, np.abs(self.table[0, :, 0]), moved * self.table[0, :, 0])
