"""Searcher: one counterfactual a query by search, a wider search, a greedy fallback, and honest notes.

An explainer that ranks actions builds one for each call: ReLAX, and what it is compared with in the very same search.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Integers, Values
from relax_plugin.base import flag, real_number, whole_number
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.beam import Budget, Ranker, guided_search
from relax_plugin.search.greedy import Moves, greedy_search
from relax_plugin.search.refine import refine
from relax_plugin.search.state import Observer

MOST_ROWS = 10**9  # that a search may spend on one query
WIDER = 4  # a query unsolved by the search is searched again with so many times its rows
FURTHER_CHANGES = 2  # beyond the limit, tried only to say how many would do
FALLBACK_VALUES = 3  # low, median, high of each feature


@dataclass(frozen=True)
class Searcher:
    """Finds one counterfactual a query, guided by a ranking of actions.

    Attributes
    ----------
    ranker : callable
        Makes the ranking for one search; it is told whether that is the wider one, for what was left unsolved.
    observer : Observer
    moves : Moves
        What the fallback tries: `Moves.quantiles` of the training rows, `FALLBACK_VALUES` of each feature.
    rows_per_instance : int
        Model rows the search may spend on one query, the query itself and the confirmation of its answer included.
    fallback : bool
        Whether queries still unsolved are tried with more rows: by a wider search, then, where the model gives scores,
        by greedy search over low, median and high of every feature.
    """

    ranker: Callable[[bool], Ranker]
    observer: Observer
    moves: Moves
    rows_per_instance: int
    fallback: bool

    def search(self, problem: Problem) -> Proposals:
        """One counterfactual a query: search, a wider search for what is left, and the fallback for what is still."""
        made = self.ordinary_search(problem)
        if self.fallback and problem.blackbox.has_scores:
            self._fall_back(problem, made)
        return made

    def ordinary_search(self, problem: Problem) -> Proposals:
        """One counterfactual a query without the fallback, which is too dear for what may be done without."""
        made, blackbox = Proposals.empty(problem, 1), problem.blackbox
        # The query itself and the confirmation of its answer are asked too: scores and `predict` each time.
        overhead = 4 if blackbox.reader.labels_apart and blackbox.has_scores else 2
        rows = max(self.rows_per_instance - overhead, 4)
        for stage, budget in (("search", Budget.of(rows)), ("wide search", Budget.of(WIDER * rows))):
            open_ = np.flatnonzero(~made.offered[:, 0])
            if len(open_) == 0 or (stage == "wide search" and not self.fallback):
                break
            part = problem.part(open_)
            values, met = guided_search(part, self.ranker(stage == "wide search"), self.observer, budget)
            made.values[open_, 0], made.offered[open_, 0] = values, met
            made.stage[open_[met], 0] = stage
        return made

    def _fall_back(self, problem: Problem, made: Proposals) -> None:
        """Greedy search for what is unsolved; where even that fails, say how many changes would do."""
        open_ = np.flatnonzero(~made.offered[:, 0])
        if len(open_) == 0:
            return
        part = problem.part(open_)
        values, met = greedy_search(part, self.moves, part.max_changes)
        solved = np.flatnonzero(met)
        values[solved] = refine(part, values[solved], solved)
        made.values[open_[solved], 0], made.offered[open_[solved], 0] = values[solved], True
        made.stage[open_[solved], 0] = "fallback"
        self._say_what_would_do(part, values, np.flatnonzero(~met), open_, made)

    def _say_what_would_do(
        self, part: Problem, values: Values, failed: Integers, open_: Integers, made: Proposals
    ) -> None:
        """Note for the queries that failed how many changes are enough, if a few more are."""
        if len(failed) == 0:
            return
        further = part.part(failed)
        beyond, reached = greedy_search(further, self.moves, FURTHER_CHANGES, begin=values[failed])
        count = (beyond != further.start).sum(axis=1)
        for query in np.flatnonzero(reached):
            note = f"none was found within {part.max_changes} changes; {count[query]} would do"
            made.note[open_[failed[query]]] = note


def check_search_options(rows_per_instance: Any, fallback: Any) -> None:
    """Refuse what a user may have set these two options of a search to, by a sentence."""
    real_number("rows_per_instance", whole_number("rows_per_instance", rows_per_instance, 8), 8, MOST_ROWS)
    flag("fallback", fallback)
