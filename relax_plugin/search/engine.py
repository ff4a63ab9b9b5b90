"""The search engine: proposers offer candidate rows, the model judges them, polish makes the best of them better."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Floats, Integers
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.candidates import LATE, NONE, Budget, Candidates
from relax_plugin.search.moves import Moves
from relax_plugin.search.polish import polish, snap, touch_up
from relax_plugin.search.proposers import Proposer, RankedChanges
from relax_plugin.search.state import Observer, Ranker

PASSES = 4  # further ones for a closer row, at most, where the least distance is the objective
KEPT_BACK = 5  # rows of a query, to see which of its changes are needed
CELLS = 24_000_000  # of candidate rows held at once: queries are worked on in parts of so many
WIDTH = 4  # actions that the model judges at each step,
WIDER = 16  # and of queries that these leave without a counterfactual


def rows_of_search(problem: Problem, max_queries: int | None) -> int | None:
    """The model rows that a search may spend on one query, of those that the query may cost altogether.

    The query itself and the confirmation of its counterfactual are asked too, at last the counterfactual without each
    of its changes.
    """
    if max_queries is None:
        return None
    blackbox = problem.blackbox
    by_both = 2 if blackbox.reader.labels_apart and blackbox.has_scores else 1  # ways of asking
    return max(int(max_queries) - 2 * by_both - min(problem.max_changes, KEPT_BACK) * blackbox.rows_per_question, 1)


@dataclass(frozen=True)
class Engine:
    """Finds one counterfactual for each query of a problem, in the order of its proposers.

    Parameters
    ----------
    proposers : sequence of Proposer
        Each offers candidates for the queries that may have a better one.
    wider : sequence of Proposer
        For the queries that are still without a counterfactual.
    moves : Moves, optional
        The more there are, the fewer queries are worked on at once.
    natural : array of floats, optional
        The steps that people count each number in; numbers stay as they are found without.
    seen : sequence of arrays
        The values that a number without such a step takes in the training rows, if these are few; else none.
    rows : int, optional
        Model rows that one query may cost.
    until : float
        When a search is over, as `time.perf_counter` tells; what is found by then is delivered.
    polished : callable
        What is done with the candidates at the end.
    """

    proposers: Sequence[Proposer]
    wider: Sequence[Proposer] = ()
    moves: Moves | None = None
    natural: Floats | None = None
    seen: Sequence[Floats] = ()
    rows: int | None = None
    until: float = np.inf
    polished: Callable[[Candidates], None] = polish

    def search(self, problem: Problem) -> Proposals:
        """One counterfactual for each query, or its closest attempt."""
        made = Proposals.empty(problem, 1)
        moves = 1 if self.moves is None else len(self.moves.feature)
        for queries, part in problem.parts(max(1, CELLS // (moves * len(problem.space)))):
            made.put(queries, self._search(part))
        return made

    def _search(self, problem: Problem) -> Proposals:
        made, budget = Proposals.empty(problem, 1), Budget(self.rows, self.until)
        everyone, gap = np.arange(len(problem)), problem.gap.copy()
        left = self._offer(made, problem, everyone, self.proposers, budget, gap)
        if self.wider and len(left) and not problem.preferred:
            left = self._offer(made, problem.part(left), left, self.wider, self._rest(problem, left), gap)
        if problem.by_distance:
            self._come_closer(made, problem)
        if budget.is_over:
            made.note[left] = LATE
        return made

    def _rest(self, problem: Problem, queries: Integers) -> Budget:
        """What may still be spent on these queries."""
        rows = None if self.rows is None else np.maximum(self.rows - problem.spent[queries], 0)
        return Budget(rows, self.until)

    def _come_closer(self, made: Proposals, problem: Problem) -> None:
        """Search again for less than the distance that was reached, as long as that is found."""
        queries = np.flatnonzero(made.offered[:, 0])
        for _ in range(PASSES):
            if len(queries) == 0:
                return
            again = Proposals.empty(problem, 1)
            below, part = problem.distance(made.values[queries, 0], queries), problem.part(queries)
            rest, gap = self._rest(problem, queries), problem.gap.copy()
            self._offer(again, part, queries, self.proposers, rest, gap, below)
            closer = problem.distance(again.values[queries, 0], queries) < below
            queries = queries[closer & again.offered[queries, 0]]
            made.put(queries, again.of(queries))

    def _offer(
        self,
        made: Proposals,
        problem: Problem,
        queries: Integers,
        proposers: Sequence[Proposer],
        budget: Budget,
        gap: Floats,
        below: Floats | None = None,
    ) -> Integers:
        """Let the proposers work on these queries; returns those that are left without a counterfactual.

        `gap` is that of each query's closest attempt so far.
        """
        candidates = Candidates(problem, budget, below)
        for proposer in proposers:
            candidates.source = proposer.name
            proposer.propose(candidates)
        found = candidates.top(1)
        if found is not None:  # what polish makes of a candidate is still its proposer's
            candidates.source = np.full(len(problem), "", dtype=object)
            candidates.source[found.owner] = found.source
        self.polished(candidates)
        best = candidates.top(1)
        missed = candidates.nearest_miss
        nearer = missed.gap < gap[queries]
        gap[queries[nearer]], made.values[queries[nearer], 0] = missed.gap[nearer], missed.values[nearer]
        for query in np.flatnonzero((candidates.enough > problem.max_changes) & (candidates.enough < NONE)):
            told = f"{problem.none} was found within {problem.max_changes} changes; {candidates.enough[query]} would do"
            made.note[queries[query]] = told
        if best is None:
            return queries
        if self.natural is not None and not problem.by_distance:
            best = snap(candidates, best, self.natural, self.seen)
        whose = queries[best.owner]
        made.values[whose, 0], made.offered[whose, 0], made.stage[whose, 0] = best.values, True, best.source
        made.note[whose] = ""
        if made.scores is not None and best.scores is not None:
            made.scores[whose, 0] = best.scores
        return np.setdiff1d(queries, whose)


def best_actions(ranker: Ranker, observer: Observer, name: str) -> list[Proposer]:
    """The actions ranked highest, and the path of the highest alone, since scores may mislead."""
    return [RankedChanges(ranker, observer, WIDTH, name), RankedChanges(ranker, observer, 1, name)]


def refined(
    ranker: Ranker,
    observer: Observer,
    name: str,
    rows: int | None = None,
    until: float = np.inf,
    fallback: tuple[Proposer, ...] = (),
) -> Engine:
    """An engine of few model evaluations; what it leaves unsolved goes to more actions, and to the `fallback`."""
    wider = (RankedChanges(ranker, observer, WIDER, name), *fallback)
    return Engine(best_actions(ranker, observer, name), wider, rows=rows, until=until, polished=touch_up)
