"""Probed regions: of any model, by asking it. Ends are found by bisection, and random rows in between are tested.

Every step is one call of the model for all answers at once. Where all values of a cell are few, each is asked, and
nothing is left to chance. A joint box lies within what its cells may be alone: it grows as long as the rows that are
asked of each step will do, then random rows test it, and it ends before those that are wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.regions.growing import Axis, Cells, Growing, evenly, write_box
from relax_plugin.regions.question import Question
from relax_plugin.regions.spans import Spans

FAN = 8  # values between an answer and the end of what is allowed that are asked before bisecting
BISECTIONS = 12  # of the gap between two of them
CELL_ROUNDS = 4  # of random rows, as long as some are wrong
BOX_ROUNDS = 8
PROBES = 24  # rows that are asked about a step of a box, half of them corners
OTHER_CATEGORY = 0.75  # how far away another category counts, of the way to the end of the box


@dataclass
class Tested:
    """Spans that were tested: of each cell alone, or of all together."""

    spans: Spans
    points: Integers  # rows that were asked in what was the region then,
    wrong: Integers  # those of them that were wrong: the region was made smaller and is without them
    proved: Booleans  # whether every value was asked

    @classmethod
    def nothing(cls, question: Question, shape: tuple[int, ...]) -> "Tested":
        points, wrong = np.zeros((2, *shape), dtype=np.int64)
        return cls(Spans.of_points(question.space, question.values), points, wrong, np.zeros(shape, dtype=bool))

    def put(self, index: Integers, part: "Tested", some: Any = slice(None)) -> None:
        """Take over what was found for some of the answers of a part."""
        self.spans.put(index, part.spans.take(some))
        self.points[index] += part.points[some]
        self.wrong[index] += part.wrong[some]
        self.proved[index] = part.proved[some]


def probe_cells(question: Question, points: int, rng: np.random.Generator) -> Tested:
    """How far each changed cell may go, all others as delivered."""
    tested = Tested.nothing(question, question.values.shape)
    tested.proved |= question.vanished
    _probe_categories(question, tested)
    answer, feature = np.nonzero(question.open)
    low, high = (end[answer, feature] for end in question.span)
    few = _count(question, feature, low, high) <= points
    _ask_all(question, answer[few], feature[few], tested)
    # No further than to the query's own value, at which the goal does not hold.
    start, value = question.start[answer, feature], question.values[answer, feature]
    low = np.where(start < value, np.maximum(low, start), low)
    high = np.where(start > value, np.minimum(high, start), high)
    line = Line(question, answer[~few], feature[~few], low[~few], high[~few])
    line.find_ends()
    line.test_inside(points, rng)
    where = line.answer, line.feature
    tested.spans.low[where], tested.spans.high[where] = line.low, line.high
    tested.points[where], tested.wrong[where] = line.points, line.wrong
    return tested


def _count(question: Question, feature: Integers, low: Floats, high: Floats) -> Floats:
    """How many values there are from low to high; infinitely many where there is no grid."""
    step = question.space.grid.step[feature]
    return np.where(
        step > 0, np.rint((high - low) / np.where(step > 0, step, 1.0)) + 1, np.where(low < high, np.inf, 1)
    )


def _probe_categories(question: Question, tested: Tested) -> None:
    offsets = question.space.category_offsets
    answer, position = np.nonzero(question.choices)
    feature = np.searchsorted(offsets, position, side="right") - 1
    rows = question.values[answer].copy()
    rows[np.arange(len(rows)), feature] = position - offsets[feature]
    own = (rows == question.values[answer]).all(axis=1)  # what was delivered has been confirmed
    held = own.copy()
    held[~own] = question.holds(rows[~own], answer[~own])
    tested.spans.choices[answer, position] = held
    np.add.at(tested.points, (answer, feature), (~own).astype(np.int64))
    tested.proved |= question.changed & question.space.is_categorical


def _ask_all(question: Question, answer: Integers, feature: Integers, tested: Tested) -> None:
    if len(answer) == 0:
        return
    grid = question.space.grid
    low, high = (end[answer, feature] for end in question.span)
    count = _count(question, feature, low, high).astype(np.int64)
    item = np.repeat(np.arange(len(answer)), count)
    place = np.arange(len(item)) - np.repeat(np.cumsum(count) - count, count)
    value = grid.nearest(low[item] + place * grid.step[feature[item]], feature[item])
    value = np.clip(value, low[item], high[item])
    rows = question.values[answer[item]].copy()
    delivered = rows[np.arange(len(rows)), feature[item]]
    rows[np.arange(len(rows)), feature[item]] = value
    held = value == delivered
    held[~held] = question.holds(rows[~held], answer[item][~held])
    centre, below, above = question.values[answer, feature], low.copy(), high.copy()
    # The region ends before the nearest value on either side at which the goal does not hold.
    last_bad, first_bad = np.full(len(answer), -np.inf), np.full(len(answer), np.inf)
    bad = ~held
    under, over = bad & (value < delivered), bad & (value > delivered)
    np.maximum.at(last_bad, item[under], value[under])
    np.minimum.at(first_bad, item[over], value[over])
    good = held & (value > last_bad[item]) & (value < first_bad[item])
    below[:], above[:] = centre, centre
    np.minimum.at(below, item[good], value[good])
    np.maximum.at(above, item[good], value[good])
    tested.spans.low[answer, feature], tested.spans.high[answer, feature] = below, above
    tested.points[answer, feature], tested.proved[answer, feature] = count - 1, True


class Line:
    """Cells with many values: their ends by bisection, what lies between by random values."""

    def __init__(self, question: Question, answer: Integers, feature: Integers, low: Floats, high: Floats) -> None:
        self.question, self.answer, self.feature = question, answer, feature
        self.centre = question.values[answer, feature]
        self.ends = low, high  # of what is allowed
        self.low, self.high = self.centre.copy(), self.centre.copy()
        self.points, self.wrong = np.zeros(len(answer), np.int64), np.zeros(len(answer), np.int64)

    def find_ends(self) -> None:
        """The last values on both sides up to which the goal holds, as far as a few values tell."""
        item = np.concatenate([np.arange(len(self.answer))] * 2)
        end = np.concatenate(self.ends)
        centre = self.centre[item]
        part = np.arange(1, FAN + 1) / FAN
        fan = self._stored(item[:, None], centre[:, None] + part * (end - centre)[:, None])
        fan[:, -1] = end
        held = self._ask(np.repeat(item, FAN), fan.ravel()).reshape(fan.shape)
        first = np.where(held.all(axis=1), FAN, held.argmin(axis=1))  # the first at which it does not hold
        stops = np.column_stack([centre, fan])
        rows = np.arange(len(item))
        good, bad = stops[rows, first], stops[rows, np.minimum(first + 1, FAN)]
        for _ in range(BISECTIONS):
            middle = self._stored(item, 0.5 * (good + bad))
            left = np.flatnonzero((middle != good) & (middle != bad))
            if len(left) == 0:
                break
            holds = self._ask(item[left], middle[left])
            good[left], bad[left] = np.where(holds, middle[left], good[left]), np.where(holds, bad[left], middle[left])
        self.low, self.high = np.split(good, 2)

    def test_inside(self, points: int, rng: np.random.Generator) -> None:
        """Random values inside; where some are wrong, the region ends before them, and is tested again."""
        left = np.flatnonzero(self.low < self.high)
        for _ in range(CELL_ROUNDS):
            if len(left) == 0 or points == 0:
                return
            low, high, centre = self.low[left, None], self.high[left, None], self.centre[left, None]
            drawn = np.clip(
                self._stored(left[:, None], low + rng.random((len(left), points)) * (high - low)), low, high
            )
            held = (drawn == centre) | (drawn == low) | (drawn == high)
            ask = np.nonzero(~held)
            held[ask] = self._ask(left[ask[0]], drawn[ask])
            self.points[left] += points
            self.wrong[left] += (~held).sum(axis=1)
            under = np.where(~held & (drawn < centre), drawn, -np.inf).max(axis=1, keepdims=True)
            over = np.where(~held & (drawn > centre), drawn, np.inf).min(axis=1, keepdims=True)
            known = np.concatenate([centre, low, high, drawn], axis=1)
            good = np.concatenate([np.ones((len(left), 3), dtype=bool), held], axis=1)
            good &= (known > under) & (known < over)
            self.low[left] = np.where(good, known, np.inf).min(axis=1)
            self.high[left] = np.where(good, known, -np.inf).max(axis=1)
            left = left[(~held).any(axis=1) & (self.low[left] < self.high[left])]

    def _stored(self, item: Integers, values: Floats) -> Floats:
        return self.question.space.grid.nearest(values, np.broadcast_to(self.feature[item], values.shape))

    def _ask(self, item: Integers, values: Floats) -> Booleans:
        rows = self.question.values[self.answer[item]].copy()
        rows[np.arange(len(rows)), self.feature[item]] = values
        return self.question.holds(rows, self.answer[item])


def probe_boxes(question: Question, cells: Tested, points: int, rng: np.random.Generator) -> Tested:
    """The joint regions of answers, within what each of their cells may be alone."""
    tested, alone = Tested.nothing(question, (len(question),)), cells.spans
    count = alone.wide.sum(axis=1)
    single = np.flatnonzero(count <= 1)  # a box of one cell that is not just a point is that cell's region
    tested.spans.put(single, alone.take(single))
    tested.points[single], tested.wrong[single] = cells.points[single].sum(axis=1), cells.wrong[single].sum(axis=1)
    tested.proved[single] = (cells.proved | ~question.changed)[single].all(axis=1)
    boxes = ProbedBoxes(question, alone, np.flatnonzero(count > 1), rng)
    boxes.grow()
    boxes.test(points, tested)
    return tested


class ProbedBoxes:
    """Boxes of several cells around some answers, all of which grow and are tested side by side."""

    def __init__(self, question: Question, alone: Spans, some: Integers, rng: np.random.Generator) -> None:
        self.question, self.alone, self.rng = question, alone, rng
        self.spans = Spans.of_points(question.space, question.values)
        self.growing = {i: Growing(self._axes(i)) for i in some.tolist()}
        self.near = self._nearer_ends(some)

    def _axes(self, i: int) -> list[Axis]:
        space, axes = self.question.space, []
        for j in np.flatnonzero(self.alone.wide[i]).tolist():
            value, low, high = (float(own[i, j]) for own in (self.question.values, self.alone.low, self.alone.high))
            if space.is_categorical[j]:
                axes.append(Axis.of_categories(j, np.flatnonzero(self.alone.of_feature(j)[i]), value))
            else:
                axes.append(Axis.of_number(space.grid, j, low, high, evenly(low, high, value), value))
        return axes

    def grow(self) -> None:
        left = list(self.growing)
        while left := [i for i in left if self.growing[i].sides]:
            held = self._probe(np.array(left), {i: self.growing[i].slab for i in left})
            for i, one in zip(left, held.tolist(), strict=True):
                self.growing[i].tell(one)
        for i, growing in self.growing.items():
            write_box(self.spans, i, growing.axes, growing.box)

    def test(self, points: int, tested: Tested) -> None:
        """Random rows; a wrong one is left out by the side that it is nearest to."""
        left = np.array(list(self.growing), dtype=np.int64)
        for _ in range(BOX_ROUNDS):
            if len(left) == 0 or points == 0:
                break
            owner = np.repeat(left, points)
            rows = self.spans.drawn(owner, self.rng)
            wrong = ~self.question.holds(rows, owner)
            tested.points[left] += points
            np.add.at(tested.wrong, owner[wrong], 1)
            for row, i in zip(rows[wrong], owner[wrong].tolist(), strict=True):
                self._leave_out(row, i)
            left = np.unique(owner[wrong])
        some = np.array(list(self.growing), dtype=np.int64)
        tested.spans.put(some, self.spans.take(some))

    def _leave_out(self, row: Floats, i: int) -> None:
        growing, ways, cells = self.growing[i], [], []
        for axis, own in zip(growing.axes, growing.box, strict=True):
            cell = int(np.searchsorted(axis.last, row[axis.feature]))
            ends = own[own > axis.home] if cell > axis.home else own[own < axis.home]
            reach = abs(cell - axis.home) / max(1, np.abs(ends - axis.home).max(initial=0))
            ways.append(OTHER_CATEGORY * (cell != axis.home) if axis.apart else reach)
            cells.append(cell)
        at = int(np.argmax(ways))
        axis, own, cell = growing.axes[at], growing.box[at], cells[at]
        if axis.apart:
            growing.box[at] = own[own != cell]
        else:
            growing.box[at] = own[own < cell] if cell > axis.home else own[own > cell]
        write_box(self.spans, i, growing.axes, growing.box)

    def _probe(self, left: Integers, slabs: dict[int, Cells]) -> Booleans:
        """Whether PROBES rows of the slab of each answer will do: corners first, then random ones."""
        spans = Spans.of_points(self.question.space, self.question.values)
        for i, slab in slabs.items():
            write_box(spans, i, self.growing[i].axes, slab)
        owner = np.repeat(left, PROBES)
        turn = np.arange(len(owner)) % PROBES
        corners = 2 * turn < PROBES
        rows = spans.drawn(owner, self.rng)
        at = owner[corners]
        upper = self._sides((spans.low < spans.high)[at], self.near[at], turn[corners])
        rows[corners] = spans.at_corners(at, upper, self.rng)
        return np.asarray(self.question.holds(rows, owner).reshape(-1, PROBES).all(axis=1))

    def _nearer_ends(self, some: Integers) -> Booleans:
        """Whether the high end of each number is nearer to missing the goal than the low one (answers, features).

        By the model's scores at the two ends; where it gives none, an end that stops short of what is allowed is.
        """
        short = self.alone.high < self.question.span[1]
        if not self.question.blackbox.has_scores:
            return short
        answer, feature = np.nonzero(self.alone.low[some] < self.alone.high[some])
        answer = some[answer]
        rows = np.concatenate([self.question.values[answer]] * 2)
        ends = [end[answer, feature] for end in (self.alone.low, self.alone.high)]
        rows[np.arange(len(rows)), np.tile(feature, 2)] = np.concatenate(ends)
        below, above = np.split(self.question.gap(rows, np.tile(answer, 2)), 2)
        short[answer, feature] = np.where(below == above, short[answer, feature], above > below)
        return short

    def _sides(self, wide: Booleans, near: Booleans, turn: Integers) -> Booleans:
        """Which corners to ask: all where they are few; else the likely worst, and others more or less like it."""
        rank = np.clip(np.cumsum(wide, axis=1) - 1, 0, 30)
        few = 2 ** wide.sum(axis=1) <= PROBES // 2
        mixed = near ^ (self.rng.random(wide.shape) < turn[:, None] / PROBES)
        return np.where(few[:, None], (turn[:, None] >> rank) & 1 == 1, mixed)
