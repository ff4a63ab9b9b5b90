"""Leaves within a box: which leaves of a tree ensemble rows of a box reach, and whether all of its rows meet the goal.

The thresholds on the way cut the box into cells. Within a cell every row reaches the same leaves, so that its answer is
one. Three ways lead to a proof, the cheapest first: the worst leaf of every tree together still meets the goal; the
scores of all cells, added up exactly; the two halves of a box that is too large for that.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.cached import cached_property
from relax_plugin.limits import Grid
from relax_plugin.trees.aims import Aim
from relax_plugin.trees.ensemble import Trees

MOST_CELLS = 60_000  # of a box whose cells are all looked at
FEW_CELLS = 1000  # of a part of a larger one
MOST_HALVES = 24  # into which a larger one is parted for a proof


@dataclass(frozen=True)
class Reached:
    """Pairs of a box and a leaf that some row of it reaches, ordered by box and tree."""

    box: Integers
    leaf: Integers
    low: Floats  # (pairs, axes) what the tests leave of each axis: low < x <= high; of categories in several pairs
    high: Floats


class Way(NamedTuple):
    """Boxes on their way to leaves: where they are, and what is left of each axis."""

    box: Integers
    node: Integers
    below: Floats  # (pairs, axes)
    above: Floats


def _parted(trees: Trees, way: Way, at: Integers, low: Floats, high: Floats) -> list[Way]:
    """The ways after tests of categories. On an axis, each run of positions side by side goes on by itself."""
    assert trees.subset is not None and trees.subsets is not None
    feature, code = trees.feature[way.node], np.arange(trees.subsets.shape[1])
    first, last = low[way.box, feature], high[way.box, feature]
    on = np.flatnonzero(at >= 0)
    first[on] = np.maximum(first[on], way.below[on, at[on]])
    last[on] = np.minimum(last[on], way.above[on, at[on]])
    here = (code >= first[:, None]) & (code <= last[:, None])
    goes_left, parts = trees.subsets[trees.subset[way.node]], []
    for child, side in ((trees.left, here & goes_left), (trees.right, here & ~goes_left)):
        edge = np.diff(np.pad(side, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        (pair, begin), end = np.nonzero(edge == 1), np.nonzero(edge == -1)[1]
        below, above, axis = way.below[pair], way.above[pair], at[pair]
        told = np.flatnonzero(axis >= 0)
        below[told, axis[told]], above[told, axis[told]] = begin[told] - 0.5, end[told] - 0.5
        parts.append(Way(way.box[pair], child[way.node[pair]], below, above))
    return parts


def reached_leaves(trees: Trees, low: Floats, high: Floats, missing: Booleans, axes: Integers) -> Reached:
    """The leaves that rows of boxes (boxes, features) reach, both ends of which belong to the box.

    Numbers that are `missing` are so in all rows of the box. The ways of leaves are told along the features `axes`
    (boxes, axes); -1 where there are fewer.
    """
    count, width = len(low), axes.shape[1]
    place = np.full((count, trees.features), -1)
    box, axis = np.nonzero(axes >= 0)
    place[box, axes[box, axis]] = axis
    box, node = np.repeat(np.arange(count), len(trees)), np.tile(trees.roots, count)
    below, above = np.full((len(box), width), -np.inf), np.full((len(box), width), np.inf)
    found = []
    while len(box):
        feature = trees.feature[node]
        ends = feature < 0
        found.append((box[ends], trees.leaf[node[ends]], below[ends], above[ends]))
        box, node, below, above, feature = box[~ends], node[~ends], below[~ends], above[~ends], feature[~ends]
        at = place[box, feature]
        sets = np.flatnonzero(trees.subset[node] >= 0) if trees.subset is not None else np.empty(0, dtype=np.int64)
        parts = []
        if len(sets):
            parts = _parted(trees, Way(box[sets], node[sets], below[sets], above[sets]), at[sets], low, high)
            rest = np.delete(np.arange(len(box)), sets)
            box, node, below, above = box[rest], node[rest], below[rest], above[rest]
            feature, at = feature[rest], at[rest]
        threshold = trees.threshold[node]
        left, right = low[box, feature] <= threshold, high[box, feature] > threshold
        if trees.missing_left is not None:
            gone, way = missing[box, feature], trees.missing_left[node]
            left, right = np.where(gone, way, left), np.where(gone, ~way, right)
        row = np.arange(len(box))
        on = at >= 0
        left_above, right_below = above.copy(), below.copy()
        left_above[row[on], at[on]] = np.minimum(above[row[on], at[on]], threshold[on])
        right_below[row[on], at[on]] = np.maximum(below[row[on], at[on]], threshold[on])
        parts.append(Way(box[left], trees.left[node[left]], below[left], left_above[left]))
        parts.append(Way(box[right], trees.right[node[right]], right_below[right], above[right]))
        box, node, below, above = (np.concatenate(column) for column in zip(*parts, strict=True))
    box, leaf, below, above = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((leaf, box))  # leaves are in the order of their trees
    return Reached(box[order], leaf[order], below[order], above[order])


@dataclass(frozen=True)
class Cuts:
    """Values that part a number's cells: those up to a cut are in the lower one."""

    cuts: Floats  # ascending
    upto: Floats  # the last value up to each cut that a cell can hold,
    after: Floats  # and the first one above it

    @classmethod
    def of(cls, grid: Grid, feature: int, cuts: Floats) -> "Cuts":
        own, cuts = grid.take(np.full(1, feature)), np.unique(cuts[np.isfinite(cuts)])
        return cls(cuts, own.first_inside(cuts, -1), own.first_inside(np.nextafter(cuts, np.inf), 1))

    def some(self, cuts: Floats) -> "Cuts":
        """Only these of them."""
        cuts = np.unique(cuts)
        index = np.searchsorted(self.cuts, cuts[np.isfinite(cuts)])
        return Cuts(self.cuts[index], self.upto[index], self.after[index])

    def between(self, low: float, high: float) -> "Cuts":
        """Those that part the values from low to high."""
        some = slice(*np.searchsorted(self.cuts, [low, high]))
        return Cuts(self.cuts[some], self.upto[some], self.after[some])


@dataclass(frozen=True)
class Axis:
    """The cells of one feature within a box: from `first` to `last`, those without an allowed value left out."""

    feature: int
    first: Floats
    last: Floats
    apart: bool  # categories, any of which may be left out

    def __len__(self) -> int:
        return len(self.first)

    def home(self, value: float) -> int:
        return int(np.searchsorted(self.last, value))

    @classmethod
    def of_number(cls, feature: int, low: float, high: float, cuts: "Cuts", value: float) -> "Axis":
        """The cells between low and high, parted at the cuts."""
        own = cuts.between(low, high)
        first, last = np.r_[low, own.after], np.r_[own.upto, high]
        # What was delivered is allowed, whatever the rounding of grids says.
        here = int(np.searchsorted(own.cuts, value))
        first[here], last[here] = min(first[here], value), max(last[here], value)
        kept = first <= last
        return cls(feature, first[kept], last[kept], False)

    @classmethod
    def of_categories(cls, feature: int, codes: Array) -> "Axis":
        return cls(feature, codes.astype(np.float64), codes.astype(np.float64), True)


class Ground:
    """The leaves under one answer, over the cells of a box around it; proves that parts of the box meet the goal."""

    def __init__(
        self, aim: Aim, answer: int, row: Floats, axes: list[Axis], leaf: Integers, low: Floats, high: Floats, ask: Any
    ) -> None:
        self.aim, self.answer, self.row, self.axes, self.ask = aim, answer, row, axes, ask
        self.shape = tuple(map(len, axes))
        first = np.column_stack([np.searchsorted(a.last, low[:, i], "right") for i, a in enumerate(axes)])
        last = np.column_stack([np.searchsorted(a.first, high[:, i], "right") - 1 for i, a in enumerate(axes)])
        some = (first <= last).all(axis=1)  # others are met by no allowed value
        self.first, self.last, leaf = first[some], last[some], leaf[some]
        self.parts = aim.parts(np.full(len(leaf), answer), leaf)
        self.tree = aim.trees.leaf_tree[leaf]
        self.met: Booleans | None = None
        if float(np.prod(self.shape, dtype=np.float64)) <= MOST_CELLS:
            self.met = self.cells_met([np.arange(count) for count in self.shape])
            self.met[tuple(self.home())] = True  # the model has confirmed what was delivered

    def run(self) -> tuple[int, int, Booleans]:
        """Of a single axis: first and last of the cells around the answer that all meet the goal, and all that do."""
        assert len(self.axes) == 1
        count, home = self.shape[0], self.home()[0]
        met = self.met if self.met is not None else self.cells_met([np.arange(count)])
        met[home] = True
        before, after = met[:home][::-1], met[home:]
        first = home - (len(before) if before.all() else int(before.argmin()))
        return first, home + (len(after) if after.all() else int(after.argmin())) - 1, met

    def home(self) -> list[int]:
        return [axis.home(self.row[axis.feature]) for axis in self.axes]

    def proves(self, part: list[Integers]) -> bool:
        """Whether all rows in these cells of each axis meet the goal; False may mean that no proof was found."""
        if self.met is not None:
            return bool(self.met[np.ix_(*part)].all())
        waiting, made = [(part, np.arange(len(self.parts)))], 0
        while waiting:
            part, leaves = waiting.pop()
            leaves = self._inside(part, leaves)
            if self._worst(leaves) > self._sure:
                continue
            if np.prod([len(cells) for cells in part], dtype=np.float64) <= FEW_CELLS:
                if not self.cells_met(part).all():
                    return False
                continue
            made += 1
            if made > MOST_HALVES:
                return False
            axis = int(np.argmax([len(cells) for cells in part]))
            middle = len(part[axis]) // 2
            halves = part[axis][:middle], part[axis][middle:]
            waiting += [([*part[:axis], half, *part[axis + 1 :]], leaves) for half in halves]
        return True

    @cached_property
    def _sure(self) -> float:
        """What a goal has to be met by, at least, where leaves are added up."""
        return float(self.aim.tolerance[self.answer]) + self._slack(len(self.parts), 1)

    def _inside(self, part: list[Integers], leaves: Integers) -> Integers:
        for axis, cells in enumerate(part):
            first, last = self.first[leaves, axis], self.last[leaves, axis]
            if len(cells) == cells[-1] - cells[0] + 1:
                leaves = leaves[(first <= cells[-1]) & (last >= cells[0])]
            else:
                leaves = leaves[np.searchsorted(cells, first) < np.searchsorted(cells, last, "right")]
        return leaves

    def _worst(self, leaves: Integers) -> float:
        """How far above 0 the goal is met at least, taking the worst of these leaves of every tree."""
        firsts = np.flatnonzero(np.r_[True, np.diff(self.tree[leaves]) != 0])
        worst = np.minimum.reduceat(self.parts[leaves], firsts, axis=0)
        return float(self.aim.gap(self.aim.offset[self.answer] + worst.sum(axis=0)))

    def cells_met(self, part: list[Integers]) -> Booleans:
        """Whether each of these cells meets the goal: by its sums, or, too near 0, by the trees' own answers.

        The parts of a leaf are added at the corners of its box, with alternating signs, and cumulated along every axis.
        """
        shape, sums = tuple(map(len, part)), self.parts.shape[1]
        first = np.column_stack([np.searchsorted(cells, self.first[:, i]) for i, cells in enumerate(part)])
        last = np.column_stack([np.searchsorted(cells, self.last[:, i], "right") for i, cells in enumerate(part)])
        some = (first < last).all(axis=1)
        first, last, parts = first[some], last[some], self.parts[some]
        total = np.zeros((*(count + 1 for count in shape), sums))
        flat, strides = total.reshape(-1, sums), np.cumprod([1, *(count + 1 for count in shape[:0:-1])])[::-1]
        for corner in range(2 ** len(shape)):
            upper = np.array([corner >> axis & 1 for axis in range(len(shape))], dtype=bool)
            place = (np.where(upper, last, first) * strides).sum(axis=1)
            np.add.at(flat, place, parts if upper.sum() % 2 == 0 else -parts)
        for axis in range(len(shape)):
            np.cumsum(total, axis=axis, out=total)
        total = total[tuple(slice(count) for count in shape)] + self.aim.offset[self.answer]
        gap, unsure = self.aim.gap(total), self.aim.tolerance[self.answer]
        unsure += self._slack(len(parts), 2 ** len(shape))
        met = gap > unsure
        asked = np.nonzero(np.abs(gap) <= unsure)
        if len(asked[0]):
            rows = np.repeat(self.row[None], len(asked[0]), axis=0)
            for line, cells, place in zip(self.axes, part, asked, strict=True):
                rows[:, line.feature] = line.last[cells[place]]
            met[asked] = self.ask(rows, np.full(len(rows), self.answer))
        return np.asarray(met)

    def _slack(self, leaves: int, corners: int) -> float:
        """A bound of the rounding of the sums over all corners, which come on top of what the aim reckons with."""
        size = float(np.abs(self.parts).sum(axis=0).max(initial=0.0)) + float(
            np.abs(self.aim.offset[self.answer]).max()
        )
        return float(np.finfo(np.float64).eps * corners * (leaves + 1) * size)
