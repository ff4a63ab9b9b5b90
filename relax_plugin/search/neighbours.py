"""Neighbours: the training rows nearest to each query whose answers meet its goal, and what asking about them costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.metrics import pairwise_distances

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.cached import cached_property
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem
from relax_plugin.search.candidates import affordable
from relax_plugin.search.moves import repeated_values

MOST_TRAINING_ROWS = 100_000  # kept for a search: 16 MB at 20 features, and some 10 ms a query to sort by distance
DISTANCES = 4_000_000  # between queries and training rows that are held at once: bounds the memory
TRAINING_CHUNK = 16_384  # training rows whose columns are held at once
ASKED = 65_536  # training rows asked about at once: bounds what the model needs for its answer


@dataclass(frozen=True)
class Neighbours:
    """The distinct training rows, in an order of their own; they know no answers."""

    rows: Values

    @classmethod
    def of(cls, values: Values, most: int | None = None) -> "Neighbours":
        """The distinct ones of the training rows, or of `most` of them, evenly spaced."""
        if most is not None and len(values) > most:
            values = values[np.linspace(0, len(values) - 1, most).astype(np.int64)]
        return cls(np.unique(values, axis=0))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def repeated(self) -> list[Floats]:
        return repeated_values(self.rows)

    def pieces(self, problem: Problem) -> Iterator[Integers]:
        """The queries in pieces whose distances to all rows fit in memory."""
        size = max(1, DISTANCES // max(len(self), 1))
        for first in range(0, len(problem), size):
            yield np.arange(first, min(first + size, len(problem)))

    def distances(self, problem: Problem, index: Integers, unit: Floats | None = None) -> Floats:
        """From some queries to every row (queries, rows), over the features that may change.

        Filled in piece by piece: what is needed on the way, above all the columns of categories, would be far larger.
        A `unit` of each number may be given, in place of its standard deviation.
        """
        movable = np.asarray(~np.broadcast_to(problem.limits.frozen, problem.start.shape).all(axis=0))
        gaps = self._gaps(problem.space) or bool((problem.start[index] == problem.space.missing_codes).any())
        queries = _l1_columns(problem.space, problem.start[index], movable, gaps, unit)
        distance = np.empty((len(index), len(self)))
        for rows in self._chunks():
            columns = _l1_columns(problem.space, self.rows[rows], movable, gaps, unit)
            distance[:, rows] = pairwise_distances(queries, columns, metric="manhattan")
        return distance

    def meet(self, problem: Problem, index: Integers, answers: Answer) -> Booleans:
        """Whether the answers to all rows would meet the goals of some queries (queries, rows)."""
        met = np.empty((len(index), len(self)), dtype=bool)
        for rows in self._chunks():
            every = np.tile(np.arange(len(self))[rows], len(index))
            met[:, rows] = _met(problem, np.repeat(index, len(every) // len(index)), answers, every).reshape(
                len(index), -1
            )
        return met

    def _gaps(self, space: FeatureSpace) -> bool:
        return any(bool((self.rows[rows] == space.missing_codes).any()) for rows in self._chunks())

    def _chunks(self) -> Iterator[slice]:
        for first in range(0, len(self), TRAINING_CHUNK):
            yield slice(first, first + TRAINING_CHUNK)


class AnsweredRows:
    """The model's answers to training rows: asked when a query wants them, and once for all queries of a call."""

    def __init__(self, neighbours: Neighbours) -> None:
        self.neighbours = neighbours
        self.known = np.zeros(len(neighbours), dtype=bool)
        self.answers = Answer(np.zeros(len(neighbours)))

    def ask(self, blackbox: BlackBox, rows: Integers) -> None:
        """Ask the model about these rows, and keep its answers."""
        for first in range(0, len(rows), ASKED):
            asked = rows[first : first + ASKED]
            answer = blackbox.ask(self.neighbours.rows[asked], mark_refused=True)
            if answer.scores is not None and self.answers.scores is None:
                scores = np.zeros((len(self.neighbours), answer.scores.shape[1]))
                self.answers = replace(self.answers, scores=scores)
            self.answers.output[asked] = answer.output
            if answer.scores is not None and self.answers.scores is not None:
                self.answers.scores[asked] = answer.scores
            if answer.refused is not None:
                refused = self.answers.refused
                refused = np.full(len(self.neighbours), "", dtype=object) if refused is None else refused
                refused[asked] = answer.refused
                self.answers = replace(self.answers, refused=refused)
            self.known[asked] = True

    def nearest(
        self, problem: Problem, count: int, most_rows: Integers | None = None, unit: Floats | None = None
    ) -> tuple[Integers, Integers]:
        """Positions of the rows that meet each query's goal (queries, count), nearest first; and how many there are.

        Of equally far ones the first. Rows not asked about yet are asked, nearest first, until `count` of them meet
        the goal, or the query has spent its `most_rows`. `unit` is that of `Neighbours.distances`.
        """
        count = min(count, len(self.neighbours))
        order, available = np.zeros((len(problem), count), dtype=np.int64), np.zeros(len(problem), dtype=np.int64)
        for index in self.neighbours.pieces(problem) if count else ():
            distance = self.neighbours.distances(problem, index, unit)
            if most_rows is not None:
                self._ask_in_order(problem, index, distance, count, most_rows)
            distance[~(self.known & self.neighbours.meet(problem, index, self.answers))] = np.inf
            order[index] = _smallest(distance, count)
            available[index] = np.minimum(np.isfinite(distance).sum(axis=1), count)
        return order, available

    def _ask_in_order(
        self, problem: Problem, index: Integers, distance: Floats, count: int, most_rows: Integers
    ) -> None:
        """Ask in growing pieces until enough rows meet each goal; the first query that wants a row pays for it."""
        open_, length = np.arange(len(index)), 2 * count
        while len(open_):
            length = min(length, len(self.neighbours))
            rows = _smallest(distance[open_], length)
            query, place = np.nonzero(~self.known[rows])
            wanted, owner = rows[query, place], index[open_[query]]
            paid = affordable(problem, owner, np.full(len(owner), problem.blackbox.rows_per_question), most_rows)
            fresh, first = np.unique(wanted[paid], return_index=True)
            problem.charge(owner[paid][first], problem.blackbox.rows_per_question)
            self.ask(problem.blackbox, fresh)
            met = _met(problem, np.repeat(index[open_], length), self.answers, rows.ravel()).reshape(rows.shape)
            enough = (met & self.known[rows]).sum(axis=1) >= count
            if length == len(self.neighbours):
                return
            open_, length = open_[~enough & self.known[rows].all(axis=1)], 2 * length


def _met(problem: Problem, query: Integers, answers: Answer, row: Integers) -> Booleans:
    goal = problem.goal.take(query)
    whole = goal.needs_scores or answers.refused is not None
    return goal.met(answers.take(row) if whole else Answer(answers.output[row]))


def _smallest(keys: Floats, count: int) -> Integers:
    """Positions of the `count` smallest keys of each row in ascending order; of equal ones the first."""
    highest = np.partition(keys, count - 1, axis=1)[:, [count - 1]]
    row, column = np.nonzero(keys <= highest)
    order = np.lexsort((keys[row, column], row))  # stable, and columns ascend: of equal ones the first
    firsts = np.searchsorted(row, np.arange(len(keys)))
    return np.asarray(column[order[firsts[:, None] + np.arange(count)]])


def _l1_columns(
    space: FeatureSpace, values: Values, movable: Booleans, gaps: bool, unit: Floats | None = None
) -> Floats:
    """Columns whose Manhattan distance is that of the space over movable features: numbers, and halved indicators.

    With `gaps` a missing number lies at the mean, and one farther: what it is worth cannot be told by one column.
    """
    numbers, weight = ~space.is_categorical, movable * space.prices
    unit = space.scale if unit is None else unit
    missing = values[:, numbers] == space.missing_codes[numbers]
    known = np.where(missing, space.mean[numbers], values[:, numbers])
    columns = [known / unit[numbers] * weight[numbers]]
    if gaps:
        columns.append(missing * weight[numbers])
    for j in np.flatnonzero(space.is_categorical):
        columns.append(0.5 * weight[j] * (values[:, [j]] == np.arange(len(space.features[j].categories))))
    return np.concatenate(columns, axis=1)
