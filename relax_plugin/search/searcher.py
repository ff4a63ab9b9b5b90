"""GuidedExplainer: what explainers that rank actions share: search, a wider search, a fallback, honest notes."""

from abc import abstractmethod
from typing import Any

import numpy as np

from relax_plugin.arrays import Integers, Values
from relax_plugin.base import CounterfactualExplainer, flag, real_number, whole_number
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.beam import Budget, Ranker, guided_search
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.greedy import Moves, greedy_search
from relax_plugin.search.refine import refine
from relax_plugin.search.state import Observer

MOST_ROWS = 10**9  # that a search may spend on one query
WIDER = 4  # a query unsolved by the search is searched again with so many times its rows
FURTHER_CHANGES = 2  # beyond the limit, tried only to say how many would do
FALLBACK_VALUES = 3  # low, median, high of each feature


class GuidedExplainer(CounterfactualExplainer):
    """An explainer that searches by a ranking of actions.

    Parameters
    ----------
    model, space, goal, max_changes, seed
        As for every explainer.
    rows_per_instance : int
        Model rows the search may spend on one query, the query itself and the confirmation of its answer included.
    fallback : bool
        Whether queries still unsolved are tried with more rows: by a wider search, then, where the model gives scores,
        by greedy search over low, median and high of every feature.
    """

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = 5,
        rows_per_instance: int = 40,
        fallback: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.rows_per_instance = rows_per_instance
        self.fallback = fallback

    @abstractmethod
    def _ranker(self, wide: bool) -> Ranker:
        """The ranking of actions that guides the search, or the wider search for what it left unsolved."""

    def _prepare(self, values: Values, style: Any = "directional", gap_scale: float = 1.0) -> None:
        """What the search needs besides the ranking: actions, observer, fallback moves."""
        changes = self._most_changes()
        self.actions_ = ActionTable(self.space_, style)
        self.observer_ = Observer(self.space_, self.actions_, changes, gap_scale)
        self.moves_ = Moves.quantiles(values, self.space_, FALLBACK_VALUES)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        real_number("rows_per_instance", whole_number("rows_per_instance", self.rows_per_instance, 8), 8, MOST_ROWS)
        flag("fallback", self.fallback)

    def _most_changes(self) -> int:
        return min(int(self.max_changes or len(self.space_)), len(self.space_))

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve, rng)

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Proposals:
        """One counterfactual a query: search, a wider search for what is left, and the fallback for what is still."""
        made = Proposals.empty(problem, 1)
        # The query itself and the confirmation of its answer are asked too: scores and `predict` each time.
        overhead = 4 if self.blackbox_.reader.labels_apart and self.blackbox_.has_scores else 2
        rows = max(int(self.rows_per_instance) - overhead, 4)
        for stage, budget in (("search", Budget.of(rows)), ("wide search", Budget.of(WIDER * rows))):
            open_ = np.flatnonzero(~made.offered[:, 0])
            if len(open_) == 0 or (stage == "wide search" and not self.fallback):
                break
            part = problem.part(open_)
            ranker = self._ranker(wide=stage == "wide search")
            values, met = guided_search(part, ranker, self.observer_, budget)
            made.values[open_, 0], made.offered[open_, 0] = values, met
            made.stage[open_[met], 0] = stage
        if self.fallback and self.blackbox_.has_scores:
            self._fall_back(problem, made)
        return made

    def _fall_back(self, problem: Problem, made: Proposals) -> None:
        """Greedy search for what is unsolved; where even that fails, say how many changes would do."""
        open_ = np.flatnonzero(~made.offered[:, 0])
        if len(open_) == 0:
            return
        part = problem.part(open_)
        values, met = greedy_search(part, self.moves_, part.max_changes)
        solved = np.flatnonzero(met)
        values[solved] = refine(part, values[solved], solved)
        made.values[open_[solved], 0], made.offered[open_[solved], 0] = values[solved], True
        made.stage[open_[solved], 0] = "fallback"
        self._say_what_would_do(part, values, np.flatnonzero(~met), open_, made)

    def _say_what_would_do(self, part: Problem, values: Values, failed: Integers, open_: Integers, made: Any) -> None:
        """Note for the queries that failed how many changes are enough, if a few more are."""
        if len(failed) == 0:
            return
        further = part.part(failed)
        beyond, reached = greedy_search(further, self.moves_, FURTHER_CHANGES, begin=values[failed])
        count = (beyond != further.start).sum(axis=1)
        for query in np.flatnonzero(reached):
            note = f"none was found within {part.max_changes} changes; {count[query]} would do"
            made.note[open_[failed[query]]] = note
