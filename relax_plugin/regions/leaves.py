"""Leaves under a box: which leaves of a tree ensemble rows of a box reach, and whether all of its rows meet the goal.

The thresholds of these leaves cut the box into cells. Within a cell every row reaches the same leaves, so that its
answer is one. Three ways lead to a proof, the cheapest first: the worst leaf of every tree together still meets the
goal; the scores of all cells, added up exactly; the two halves of a box that is too large for that.
"""

from collections.abc import Callable

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.regions.growing import Axis, Cells
from relax_plugin.trees.aims import Aim
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.grid_boxes import box_sums

MOST_CELLS = 60_000  # of a box whose cells are all looked at
FEW_CELLS = 1000  # of a part of a larger one
MOST_HALVES = 24  # into which a larger one is parted for a proof


def reached_leaves(trees: Trees, low: Floats, high: Floats) -> Integers:
    """The leaves that rows from `low` to `high` (features,) reach, both included."""
    inside = (trees.boxes[0] < high) & (trees.boxes[1] >= low)
    for j, met in trees.sets.items():
        inside[:, j] = met[:, int(low[j]) : int(high[j]) + 1].any(axis=1)
    return np.flatnonzero(inside.all(axis=1))


class Ground:
    """The leaves under one answer, over the cells of a box around it; proves that parts of the box meet the goal."""

    def __init__(
        self,
        aim: Aim,
        answer: int,
        row: Floats,
        axes: list[Axis],
        leaf: Integers,
        ask: Callable[[Values, Integers], Booleans],
    ) -> None:
        self.aim, self.answer, self.row, self.axes, self.ask = aim, answer, row, axes, ask
        self.shape = tuple(map(len, axes))
        leaf, self.first, self.last = _boxes_of_cells(aim.trees, axes, leaf)
        self.parts = aim.parts(np.full(len(leaf), answer), leaf)
        self.tree = aim.trees.leaf_tree[leaf]
        self.met: Booleans | None = None
        if float(np.prod(self.shape, dtype=np.float64)) <= MOST_CELLS:
            self.met = self.cells_met([np.arange(count) for count in self.shape])
            self.met[tuple(axis.home for axis in axes)] = True  # the model has confirmed what was delivered

    def run(self) -> tuple[Integers, Booleans]:
        """Of a single axis: the cells around the answer that all meet the goal, and which of all cells do."""
        home = self.axes[0].home
        met = self.met if self.met is not None else self.cells_met([np.arange(self.shape[0])])
        met[home] = True
        before, after = met[:home][::-1], met[home:]
        first = home - (len(before) if before.all() else int(before.argmin()))
        return np.arange(first, home + (len(after) if after.all() else int(after.argmin()))), met

    def proves(self, part: Cells) -> bool:
        """Whether all rows in these cells meet the goal; False may mean that no proof was found."""
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
            for half in np.array_split(part[axis], 2):
                waiting.append(([*part[:axis], half, *part[axis + 1 :]], leaves))
        return True

    @cached_property
    def _sure(self) -> float:
        """What a goal has to be met by, at least, where leaves are added up."""
        return float(self.aim.tolerance[self.answer]) + self._slack(len(self.parts), 1)

    def _inside(self, part: Cells, leaves: Integers) -> Integers:
        for axis, cells in enumerate(part):
            first, last = self.first[leaves, axis], self.last[leaves, axis]
            leaves = leaves[np.searchsorted(cells, first) < np.searchsorted(cells, last, "right")]
        return leaves

    def _worst(self, leaves: Integers) -> float:
        """How far above 0 the goal is met at least, taking the worst of these leaves of every tree."""
        firsts = np.flatnonzero(np.r_[True, np.diff(self.tree[leaves]) != 0])
        worst = np.minimum.reduceat(self.parts[leaves], firsts, axis=0)
        return float(self.aim.gap(self.aim.offset[self.answer] + worst.sum(axis=0)))

    def cells_met(self, part: Cells) -> Booleans:
        """Whether each of these cells meets the goal: by its sums, or, too near 0, by the trees' own answers."""
        first = np.column_stack([np.searchsorted(cells, self.first[:, i]) for i, cells in enumerate(part)])
        last = np.column_stack([np.searchsorted(cells, self.last[:, i], "right") for i, cells in enumerate(part)])
        some = (first < last).all(axis=1)
        alone = np.zeros(int(some.sum()), dtype=np.int64)
        total = box_sums((1, *map(len, part)), alone, first[some], last[some], self.parts[some])[0]
        gap, unsure = self.aim.gap(total + self.aim.offset[self.answer]), self.aim.tolerance[self.answer]
        unsure += self._slack(len(alone), 2 ** len(part))
        met = gap > unsure
        asked = np.nonzero(np.abs(gap) <= unsure)
        if len(asked[0]):
            rows = np.repeat(self.row[None], len(asked[0]), axis=0)
            for axis, cells, place in zip(self.axes, part, asked, strict=True):
                rows[:, axis.feature] = axis.last[cells[place]]
            met[asked] = self.ask(rows, np.full(len(rows), self.answer))
        return np.asarray(met)

    def _slack(self, leaves: int, corners: int) -> float:
        """A bound of the rounding of the sums over all corners, which come on top of what the aim reckons with."""
        offset = float(np.abs(self.aim.offset[self.answer]).max())
        size = float(np.abs(self.parts).sum(axis=0).max(initial=0.0)) + offset
        return float(np.finfo(np.float64).eps * corners * (leaves + 1) * size)


def _boxes_of_cells(trees: Trees, axes: list[Axis], leaf: Integers) -> tuple[Integers, Integers, Integers]:
    """What leaves take in of some axes: the first and last cells (boxes, axes), and the leaf of each box.

    A leaf that takes in a set of categories has a box for each run of them, one that takes in no cell has none.
    """
    first, last = np.zeros((2, len(leaf), len(axes)), dtype=np.int64)
    for i, axis in enumerate(axes):
        if axis.feature in trees.sets:
            met = trees.sets[axis.feature][leaf][:, axis.first.astype(int)]
            edge = np.diff(np.pad(met, ((0, 0), (1, 1))).astype(np.int8), axis=1)
            (box, begin), end = np.nonzero(edge == 1), np.nonzero(edge == -1)[1] - 1
        else:
            low, high = (ends[leaf, axis.feature] for ends in trees.boxes)
            begin, end = np.searchsorted(axis.last, low, "right"), np.searchsorted(axis.first, high, "right") - 1
            box = np.flatnonzero(begin <= end)
            begin, end = begin[box], end[box]
        leaf, first, last = leaf[box], first[box], last[box]
        first[:, i], last[:, i] = begin, end
    return leaf, first, last
