"""Searcher: one counterfactual a query by search, a wider search, and a rescue of what is left.

An explainer that ranks actions builds one for each call: ReLAX, and what it is compared with in the very same search.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.base import flag, real_number, whole_number
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.beam import Budget, Ranker, guided_search
from relax_plugin.search.rescue import Rescue
from relax_plugin.search.state import Observer

MOST_ROWS = 10**9  # that a search, or a rescue, may spend on one query
WIDER = 4  # a query unsolved by the search is searched again with so many times its rows


@dataclass(frozen=True)
class Searcher:
    """Finds one counterfactual a query, guided by a ranking of actions.

    Attributes
    ----------
    ranker : callable
        Makes the ranking for one search; it is told whether that is the wider one, for what was left unsolved.
    observer : Observer
    rows_per_instance : int
        Model rows the search may spend on one query, the query itself and the confirmation of its answer included.
    rescue : Rescue, optional
        What queries still unsolved get after a wider search; without it, one search is all.
    """

    ranker: Callable[[bool], Ranker]
    observer: Observer
    rows_per_instance: int
    rescue: Rescue | None

    def search(self, problem: Problem) -> Proposals:
        """One counterfactual a query: search, a wider search for what is left, and the rescue for what is still."""
        made = self.ordinary_search(problem)
        if self.rescue is not None:
            self.rescue.save(problem, made)
        return made

    def ordinary_search(self, problem: Problem) -> Proposals:
        """One counterfactual a query without the rescue, which is too dear for what may be done without."""
        made, blackbox = Proposals.empty(problem, 1), problem.blackbox
        # The query itself and the confirmation of its answer are asked too: scores and `predict` each time.
        overhead = 4 if blackbox.reader.labels_apart and blackbox.has_scores else 2
        rows = max(self.rows_per_instance - overhead, 4)
        for stage, budget in (("search", Budget.of(rows)), ("wide search", Budget.of(WIDER * rows))):
            open_ = np.flatnonzero(~made.offered[:, 0])
            if len(open_) == 0 or (stage == "wide search" and self.rescue is None):
                break
            part = problem.part(open_)
            values, met = guided_search(part, self.ranker(stage == "wide search"), self.observer, budget)
            made.values[open_, 0], made.offered[open_, 0] = values, met
            made.stage[open_[met], 0] = stage
        return made


def check_search_options(rows_per_instance: Any, fallback: Any, rescue_rows: Any) -> None:
    """Refuse what a user may have set these options of a search to, by a sentence."""
    for name, value, least in (("rows_per_instance", rows_per_instance, 5), ("rescue_rows", rescue_rows, 0)):
        real_number(name, whole_number(name, value, least), least, MOST_ROWS)
    flag("fallback", fallback)
