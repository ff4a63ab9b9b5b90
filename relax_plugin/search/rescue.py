"""Rescue: what is tried, at a price of its own, for the queries that a search leaves unsolved.

First, where the model gives scores, greedy search over quantiles; then the nearest training rows of the goal, of whose
changes as many as possible are taken back; at last a hundred near rows, whose changes are taken back one by one. The
first and the last are the baselines `greedy` and `nearest-ct`: what they solve is solved, as far as the price goes.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from relax_plugin.arrays import Booleans, Integers, Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves, greedy_search
from relax_plugin.search.neighbours import AnsweredRows, Guess, Neighbours
from relax_plugin.search.refine import affordable, most_rows_of_refining, refine, undo, undo_many

RESCUE_ROWS = 100_000  # model rows for one query at most: greedy search over a thousand features
ROW_BY_ROW = 0.1  # share of them that is spent on many near rows, one change at a time: few are solved by that alone
QUANTILES = 20  # values of each number that greedy search tries: as many as the baseline `greedy`
NEAR_ROWS = (3, 10, 20)  # training rows of the goal whose changes are taken back many at a time, until they do
EVERY_ROW = tuple(range(10, 111, 10))  # and one by one: as many as `nearest-ct` tries
FURTHER_CHANGES = 2  # beyond the limit, tried only to say how many would do
SIDE_BY_SIDE = 256  # queries: bounds the memory

Stage = Callable[[Problem, Integers], tuple[Values, Booleans]]


class Rescue:
    """Finds a counterfactual for each query that has none yet, made for one call.

    Parameters
    ----------
    neighbours : Neighbours
        The training rows; those of the goal are starting points.
    moves : Moves
        What greedy search tries: `Moves.quantiles` of the training rows, `QUANTILES` of each number.
    rows : int
        Model rows that may be spent on one query at most.
    expected : callable, optional
        What a world model expects the model to answer: it says which training rows are worth asking about first.
    """

    def __init__(self, neighbours: Neighbours, moves: Moves, rows: int, expected: Guess | None = None) -> None:
        self.answered, self.moves, self.rows = AnsweredRows(neighbours, expected), moves, rows

    def save(self, problem: Problem, made: Proposals) -> None:
        """Fill in what is found for the queries whose first slot is empty; of others note how many changes would do."""
        open_ = np.flatnonzero(~made.offered[:, 0])
        if self.rows == 0 or len(open_) == 0:
            return
        books, enough = problem.part(open_), np.full(len(open_), np.inf)
        stages: list[tuple[str, Stage]] = [("near row", self._near_rows), ("row by row", self._row_by_row)]
        if problem.blackbox.has_scores:  # which show the way: fewer changes than of near rows, at some times the rows
            stages.insert(0, ("greedy", self._greedy))
        for stage, find in stages:
            left = np.flatnonzero(enough > problem.max_changes)
            for first in range(0, len(left), SIDE_BY_SIDE):
                queries = left[first : first + SIDE_BY_SIDE]
                part, most_rows = books.part(queries), self.rows - books.spent[queries]
                if stage == "row by row":
                    most_rows = np.minimum(most_rows, int(ROW_BY_ROW * self.rows))
                values, met = find(part, most_rows)
                changes = np.where(met, (values != part.start).sum(axis=1), np.inf)
                enough[queries] = np.minimum(enough[queries], changes)
                solved = np.flatnonzero(changes <= problem.max_changes)
                made.values[open_[queries[solved]], 0] = _refined(part, values[solved], solved, most_rows)
                if made.scores is not None:
                    made.scores[open_[queries[solved]], 0] = np.nan  # those of the closest attempt, if any
                made.offered[open_[queries[solved]], 0] = True
                made.stage[open_[queries[solved]], 0] = stage
        for query in np.flatnonzero(np.isfinite(enough) & (enough > problem.max_changes)):
            note = f"{problem.none} was found within {problem.max_changes} changes; {enough[query]:.0f} would do"
            made.note[open_[query]] = note

    def _near_rows(self, problem: Problem, most_rows: Integers) -> tuple[Values, Booleans]:
        """The best of a few near rows of the goal, with changes taken back many at a time."""
        return self._from_rows(problem, most_rows, NEAR_ROWS, True, undo_many)

    def _row_by_row(self, problem: Problem, most_rows: Integers) -> tuple[Values, Booleans]:
        """The best of the nearest rows of the goal, with changes taken back one by one down to the limit."""

        def one_by_one(part: Problem, values: Values, owner: Integers, most_rows: Integers) -> Values:
            return undo(part, values, owner, part.max_changes, most_rows)[0]

        return self._from_rows(problem, most_rows, EVERY_ROW, False, one_by_one)

    def _greedy(self, problem: Problem, most_rows: Integers) -> tuple[Values, Booleans]:
        """What greedy search finds within the limit, or with a few changes more."""
        values, met = problem.start.copy(), np.zeros(len(problem), dtype=bool)
        for changes in (problem.max_changes, FURTHER_CHANGES):
            steps = (most_rows - problem.spent) // (len(self.moves.feature) * problem.blackbox.rows_per_question)
            steps = np.where(met, 0, np.minimum(steps, changes))
            for count in np.unique(steps[steps > 0]):  # nearly always one: who has few rows left takes fewer
                queries = np.flatnonzero(steps == count)
                part = problem.part(queries)
                values[queries], met[queries] = greedy_search(part, self.moves, int(count), begin=values[queries])
        return values, met

    def _from_rows(
        self,
        problem: Problem,
        most_rows: Integers,
        counts: tuple[int, ...],
        promising_first: bool,
        take_back: Callable[[Problem, Values, Integers, Integers], Values],
    ) -> tuple[Values, Booleans]:
        """The best valid row made of near rows of the goal: a few, more while none is sparse enough.

        At most half of the rows that are left are spent on asking which training rows are of the goal.
        """
        best, changes = problem.start.copy(), np.full(len(problem), np.inf)
        for tried, count in pairwise((0, *counts)):
            open_ = np.flatnonzero(changes > problem.max_changes)
            if len(open_) == 0:
                break
            part, left = problem.part(open_), (most_rows - problem.spent)[open_]
            order, available = self.answered.nearest(part, count, left // 2, promising_first)
            owner, place = np.nonzero(np.arange(tried, order.shape[1]) < available[:, None])
            values = self.answered.neighbours.rows[order[owner, tried + place]]
            values, owner = _valid(part, values, owner, left)
            values = take_back(part, values, owner, left)
            size = part.changed(values, owner).sum(axis=1)
            # Of those within the limit the best, as the objective says; of others the sparsest.
            over = np.where(size > problem.max_changes, size, 0)
            ranked = np.lexsort((*part.ranks(values, owner), over, owner))
            first = ranked[np.unique(owner[ranked], return_index=True)[1]]
            first = first[size[first] < changes[open_[owner[first]]]]
            best[open_[owner[first]]], changes[open_[owner[first]]] = values[first], size[first]
        return best, np.isfinite(changes)


def _valid(problem: Problem, values: Values, owner: Integers, most_rows: Integers) -> tuple[Values, Integers]:
    """The rows moved within the limits that meet the goal, each once, as far as their query can pay for asking."""
    values = problem.within_limits(values, owner)
    _, first = np.unique(np.column_stack([owner, values]), axis=0, return_index=True)
    first = np.sort(first[(values[first] != problem.start[owner[first]]).any(axis=1)])
    values, owner = values[first], owner[first]
    paid = affordable(problem, owner, np.full(len(owner), problem.blackbox.rows_per_question), most_rows)
    values, owner = values[paid], owner[paid]
    met, _ = problem.judge(values, owner)
    return values[met], owner[met]


def _refined(problem: Problem, values: Values, owner: Integers, most_rows: Integers) -> Values:
    """The answers made sparser and closer, as far as their queries can pay for it."""
    price = most_rows_of_refining((values != problem.start[owner]).sum(axis=1)) * problem.blackbox.rows_per_question
    paid = affordable(problem, owner, price, most_rows)
    values[paid] = refine(problem, values[paid], owner[paid])
    return values
