"""`random-order`: the search of ReLAX with actions in random order, each to its bound.

A control that keeps comparisons honest: what the search reaches by itself, guided by something that has not learned.
"""

from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.beam import Ranker
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import MOST_TRAINING_ROWS, Neighbours
from relax_plugin.search.rescue import QUANTILES, RESCUE_ROWS, Rescue
from relax_plugin.search.searcher import Searcher, check_search_options
from relax_plugin.search.state import Episodes, Observer
from relax_plugin.wishes.plausibility import Plausible


class RandomOrder(CounterfactualExplainer):
    """Actions in random order, each to its bound: a control, not a method to use.

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
        self.observer_ = Observer(self.space_, ActionTable(self.space_), self._most_changes(), gap_scale=1.0)
        self.moves_ = Moves.quantiles(values, self.space_, QUANTILES)
        self.neighbours_ = Neighbours.of(values, MOST_TRAINING_ROWS)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        rescue = Rescue(self.neighbours_, self.moves_, int(self.rescue_rows)) if self.fallback else None
        searcher = Searcher(self._ranker, self.observer_, int(self.rows_per_instance), rescue)
        return fill_slots(problem, n, searcher.search, searcher.ordinary_search)

    def _ranker(self, wide: bool) -> Ranker:
        return RandomRanker(self.observer_, np.random.default_rng(int(self.seed)))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_search_options(self.rows_per_instance, self.fallback, self.rescue_rows)


class RandomRanker:
    """A random value for every allowed action."""

    exact = False

    def __init__(self, observer: Observer, rng: np.random.Generator) -> None:
        self.observer, self.rng = observer, rng

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        return np.where(allowed, self.rng.random(allowed.shape), -np.inf), np.ones(allowed.shape)
