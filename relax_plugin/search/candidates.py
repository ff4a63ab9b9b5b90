"""Candidates: what a search knows of the queries of a batch: valid rows, and misses that a proposer may go on from."""

import time
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer
from relax_plugin.problem import Problem

NONE = 10**6  # changes of a query without a valid candidate
LATE = "the time was over before one was found"
KEPT = 8  # valid candidates that one question may add for a query
AT_ONCE = 65_536  # rows of one model call: bounds the memory
MIXED = np.int64(0x1E3779B97F4A7C15)  # an odd number, whose multiples spread over all 64 bits


class Rows(NamedTuple):
    """Candidate rows and whose they are, in the order of their worth."""

    values: Values
    owner: Integers
    changes: Integers
    distance: Floats
    features: Integers  # a number for the set of features that are changed
    source: Array  # the name of the proposer
    scores: Floats | None

    def take(self, index: Integers | Booleans) -> "Rows":
        parts: list[Any] = [None if part is None else part[index] for part in self]
        return Rows(*parts)


class Judged(NamedTuple):
    """What the model says to candidates, which may have been repaired: whether they meet the goal, and their gaps.

    Candidates that were not asked about miss the goal by an infinite gap; their answers are those of the queries.
    """

    values: Values
    met: Booleans
    gap: Floats
    answer: Answer


class Misses(NamedTuple):
    """Rows that miss the goal, and by how much."""

    values: Values
    owner: Integers
    gap: Floats

    def take(self, index: Integers) -> "Misses":
        return Misses(self.values[index], self.owner[index], self.gap[index])


@dataclass(frozen=True)
class Budget:
    """What a search may spend: model rows for one query, and time."""

    rows: int | Integers | None = None  # for one query, or for each
    until: float = np.inf  # as `time.perf_counter` tells

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.until


@dataclass
class Candidates:
    """Valid candidates of a batch of queries, and the model's answers on the way to them.

    Whatever is asked goes through `ask`, which keeps the valid rows. `fewest` and `closest` are the changes and the
    distance of each query's best candidate so far.
    """

    problem: Problem
    budget: Budget = field(default_factory=Budget)
    below: Floats | None = None  # the distance of each query's best row that is known already
    source: str | Array = ""  # the proposer at work, or that of each query while candidates are polished

    def __post_init__(self) -> None:
        n, d = self.problem.start.shape
        self.fewest = np.full(n, NONE)
        self.closest = np.full(n, np.inf) if self.below is None else self.below.copy()
        self.enough = np.full(n, NONE)  # changes of the sparsest valid row that changes too much
        self.gain: Floats | None = None  # (queries, moves): by how much each single change closes the gap
        self.valid: list[Rows] = []
        self.missed: list[Misses] = []
        self.nearest_miss = Misses(self.problem.start.copy(), np.arange(n), np.full(n, np.inf))
        self.numbers = np.random.default_rng(0).integers(1, 2**62, d)

    def ask(self, values: Values, owner: Integers, base: Values | None = None) -> Judged:
        """Ask the model about candidates of their owners, and keep the valid ones.

        With the rows they were made of, their `base`, candidates that break a rule are repaired first, but not back to
        these. Where the least distance is the objective, the model is not asked about rows that are farther than the
        best known; nor about those that the budget does not allow. These count as misses with an infinite gap.
        """
        problem = self.problem
        values = values if base is None else problem.mended(values, owner, base)
        met, gap = np.zeros(len(values), dtype=bool), np.full(len(values), np.inf)
        asked = np.arange(len(values))
        if problem.by_distance and len(values):
            asked = np.flatnonzero(self.length(values, owner) < self.closest[owner])
        if self.budget.rows is not None and len(asked):
            price = np.full(len(asked), problem.blackbox.rows_per_question)
            asked = asked[affordable(problem, owner[asked], price, np.broadcast_to(self.budget.rows, len(problem)))]
        answers = []
        every = len(asked) == len(values)  # then nothing needs to be picked, which copies
        for first in range(0, len(asked), AT_ONCE):
            if self.budget.is_over:
                asked = asked[:first]
                break
            some: Any = slice(first, first + AT_ONCE) if every else asked[first : first + AT_ONCE]
            met[some], gap[some], told = problem.judge_fully(values[some], owner[some])
            answers.append(told)
        answer = reduce(Answer.joined, answers) if answers else problem.before.take(owner)
        if answers and len(asked) < len(values):
            known, place = np.zeros(len(values), dtype=bool), np.zeros(len(values), dtype=np.int64)
            known[asked], place[asked] = True, np.arange(len(asked))
            answer = problem.before.take(owner).replaced(known, answer.take(place))
        good = np.flatnonzero(met)
        if len(good):
            self._keep(values[good], owner[good], None if answer.scores is None else answer.scores[good])
        return Judged(values, met, gap, answer)

    def accept(self, values: Values, owner: Integers) -> None:
        """Keep rows that are known to be valid, without asking the model; note how many changes others have."""
        if len(values) == 0:
            return
        np.minimum.at(self.enough, owner, self.problem.changed(values, owner).sum(axis=1))
        before = self.problem.before.scores
        self._keep(values, owner, None if before is None else np.full((len(values), before.shape[1]), np.nan))

    def note_misses(self, values: Values, owner: Integers, gap: Floats) -> None:
        """Remember misses, from which further changes may be made."""
        known = np.isfinite(gap)  # others were not asked about
        values, owner, gap = values[known], owner[known], gap[known]
        if len(values) == 0:
            return
        self.missed.append(Misses(values, owner, gap))
        order = np.lexsort((gap, owner))
        first = order[np.unique(owner[order], return_index=True)[1]]
        nearer = first[gap[first] < self.nearest_miss.gap[owner[first]]]
        self.nearest_miss.values[owner[nearer]] = values[nearer]
        self.nearest_miss.gap[owner[nearer]] = gap[nearer]

    def bases(self, changes: int, width: int) -> Misses:
        """The best `width` misses with so many changes of each query that may have a better answer than its best.

        Of several that change the same features only the best one counts.
        """
        if not self.missed:
            return Misses(self.problem.start[:0], np.zeros(0, dtype=np.int64), np.zeros(0))
        values, owner, gap = (np.concatenate(part) for part in zip(*self.missed, strict=True))
        changed = self.problem.changed(values, owner)
        some = self.open(changes + 1)[owner] & (changed.sum(axis=1) == changes)
        values, owner, gap, features = values[some], owner[some], gap[some], changed[some] @ self.numbers
        order = np.lexsort((self.cost(values, owner, gap), owner))
        order = _first_of_features(owner, features, order, width)
        return Misses(values[order], owner[order], gap[order])

    def cost(self, values: Values, owner: Integers, gap: Floats) -> Floats:
        """What sorts misses, the best first: by the gap that is left.

        Where the least distance is the objective, by the share of the gap that is left, and the share of the best
        distance that is spent.
        """
        if not self.problem.by_distance:
            return gap
        return gap / np.maximum(self.problem.gap[owner], 1e-12) + self.length(values, owner) / self.closest[owner]

    def open(self, changes: int) -> Booleans:
        """Which queries a row with so many changes may still be the best one of."""
        if self.problem.by_distance:
            return np.full(len(self.fewest), changes <= self.problem.max_changes)
        return np.asarray((self.fewest > changes) & (changes <= self.problem.max_changes))

    def top(self, most: int, spare: int = 0) -> Rows | None:
        """The best candidates of each query that change distinct features; None if there is none at all.

        Of those with up to `spare` changes more than the sparsest, unless the least distance is the objective.
        """
        if not self.valid:
            return None
        parts: list[Any] = [_joined(part) for part in zip(*self.valid, strict=True)]
        rows = Rows(*parts)
        self.valid = [rows]
        if not self.problem.by_distance:
            few = rows.changes <= self.fewest[rows.owner] + spare
            rows = rows if few.all() else rows.take(few)
        return rows.take(_first_of_features(rows.owner, rows.features, self._order(rows), most))

    def length(self, values: Values, owner: Integers) -> Floats:
        """The distance of each candidate; of equally far ordered categories the nearest has the least."""
        start = self.problem.start[owner]
        distance = self.problem.space.distance(values, start)
        for j in self.problem.space.ordered:
            distance = distance + 1e-6 * np.abs(values[:, j] - start[:, j])
        return distance

    def on_grid(self, values: Floats, owner: Integers, feature: Integers) -> Floats:
        """The nearest numbers that cells of these features can hold under their owners' limits; shapes broadcast."""
        low, high = (end[owner, feature] for end in self.problem.span)
        return np.clip(self.problem.limits.grid.nearest(values, feature), low, high)

    def _keep(self, values: Values, owner: Integers, scores: Floats | None) -> None:
        changed = self.problem.changed(values, owner)
        count = changed.sum(axis=1)
        few = (count > 0) & (count <= self.problem.max_changes)
        if not self.problem.by_distance:
            few &= count <= self.fewest[owner] + 1
        if not few.all():
            values, owner, changed, count = values[few], owner[few], changed[few], count[few]
            scores = None if scores is None else scores[few]
        if len(values) == 0:
            return
        source = np.broadcast_to(self.source, len(self.fewest))[owner].astype(object)
        rows = Rows(values, owner, count, self.length(values, owner), changed @ self.numbers, source, scores)
        rows = rows.take(_first_of_features(owner, rows.features, self._order(rows), KEPT))
        np.minimum.at(self.fewest, rows.owner, rows.changes)
        np.minimum.at(self.closest, rows.owner, rows.distance)
        self.valid.append(rows)

    def _order(self, rows: Rows) -> Integers:
        keys = (rows.changes, rows.distance) if self.problem.by_distance else (rows.distance, rows.changes)
        return np.lexsort((*keys, rows.owner))


def _joined(parts: tuple[Array | None, ...]) -> Array | None:
    return None if parts[0] is None else np.concatenate([part for part in parts if part is not None])


def _first_of_features(owner: Integers, features: Integers, order: Integers, most: int) -> Integers:
    """Of rows in this order, by owner, the first `most` of each owner that change distinct features."""
    _, first = np.unique((features + owner * MIXED)[order], return_index=True)
    order = order[np.sort(first)]
    return order[np.arange(len(order)) - np.searchsorted(owner[order], owner[order]) < most]


def with_cells(values: Values, row: Integers, feature: Integers, cells: Floats) -> Values:
    """Copies of some of the rows with one cell changed in each."""
    values = values.take(row, axis=0)
    values[np.arange(len(row)), feature] = cells
    return values


def affordable(problem: Problem, owner: Integers, price: Integers, most_rows: Integers) -> Booleans:
    """Of candidates in the order of their promise, those whose prices their query can still pay, one after another."""
    order = np.argsort(owner, kind="stable")
    total = np.cumsum(price[order])
    first = np.searchsorted(owner[order], owner[order])
    bill = total - (total - price[order])[first]
    paid = np.empty(len(owner), dtype=bool)
    paid[order] = bill <= (most_rows - problem.spent)[owner[order]]
    return paid
