"""`random-order`: a search that tries actions in random order, each to its bound.

A control that keeps comparisons honest: what a search reaches by itself, guided by something that has not learned.
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, most_changes
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.engine import refined, rows_of_search
from relax_plugin.search.moves import Moves
from relax_plugin.search.neighbours import MOST_TRAINING_ROWS, AnsweredRows, Neighbours
from relax_plugin.search.proposers import GreedyChanges, NearRows
from relax_plugin.search.state import Episodes, Observer, Ranker

QUANTILES = 20  # of each number that greedy search tries: as many as the baseline `greedy`
NEAR_ROWS = 110  # whose changes are undone one by one: as many as `nearest-ct` tries
LEAST_QUERIES, MOST_QUERIES = 5, 10**9


@with_parameters
class RankedSearch(CounterfactualExplainer):
    """The model judges the four actions that a ranking puts first at each step; a subclass makes the ranking.

    What the ranking leaves unsolved is searched by greedy search, where the model gives scores, then from near training
    rows.
    """

    max_changes: int | None = most_changes(5, "")
    max_queries: int | None = param(
        None, "Model evaluations that one query may cost. None: no limit.", whole(LEAST_QUERIES, MOST_QUERIES)
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.observer_ = Observer(self.space_, ActionTable(self.space_), self._most_changes(), gap_scale=1.0)
        self.moves_ = Moves.quantiles(values, self.space_, QUANTILES)
        self.neighbours_ = Neighbours.of(values, MOST_TRAINING_ROWS)

    def _polishes(self) -> bool:
        return True

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        fallback = (
            GreedyChanges(self.moves_, every_feature=True),
            NearRows(AnsweredRows(self.neighbours_), self.moves_, undone=NEAR_ROWS),
        )
        rows = rows_of_search(problem, self.max_queries)
        engine = refined(self._ranker(), self.observer_, "ranked", rows, fallback=fallback)
        return fill_slots(problem, n, engine.search, replace(engine, wider=()).search)

    @abstractmethod
    def _ranker(self) -> Ranker:
        """The ranking of one call."""


class RandomOrder(RankedSearch):
    """Actions in random order, each to its bound: a control, not a method to use."""

    def _ranker(self) -> Ranker:
        return RandomRanker(self.observer_, np.random.default_rng(int(self.seed)))


class RandomRanker:
    """A random value for every allowed action."""

    def __init__(self, observer: Observer, rng: np.random.Generator) -> None:
        self.observer, self.rng = observer, rng

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        return np.where(allowed, self.rng.random(allowed.shape), -np.inf), np.ones(allowed.shape)
