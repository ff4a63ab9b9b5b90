"""Boxes: scores on boxes of grids, one grid a query, added up to the score of every cell."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers


@dataclass(frozen=True)
class Boxes:
    """Boxes in the grids of several queries, whose lines are merged where no box begins or ends."""

    query: Integers  # (boxes,)
    low: Integers  # (boxes, axes) first line of the box
    high: Integers  # (boxes, axes) the line after its last
    parts: Floats  # (boxes, sums) the scores
    line: Integers  # (queries, axes, intervals) the line of each interval; -1 outside of the query's window
    counts: Integers  # (queries, axes) lines

    @classmethod
    def merged(
        cls, query: Integers, low: Integers, high: Integers, parts: Floats, left: Integers, right: Integers
    ) -> "Boxes":
        """Boxes given by intervals, within windows [left, right) of the intervals of each query and axis."""
        queries, axes = left.shape
        most = int(right.max()) + 1
        begins: Booleans = np.zeros((queries, axes, most), dtype=bool)
        axis = np.arange(axes)
        begins[query[:, None], axis, low] = True
        begins[query[:, None], axis, high] = True
        begins[np.arange(queries)[:, None], axis, left] = True
        line = np.cumsum(begins, axis=2) - 1
        low, high = line[query[:, None], axis, low], line[query[:, None], axis, high]
        place = np.arange(most)
        counts = np.take_along_axis(line, right[:, :, None] - 1, axis=2)[:, :, 0] + 1
        outside = (place < left[:, :, None]) | (place >= right[:, :, None])
        return cls(query, low, high, parts, np.where(outside, -1, line), counts)

    @property
    def volume(self) -> Integers:
        """Cells of each query's grid, the border included."""
        return np.asarray((self.counts + 1).prod(axis=1))

    def sums(self, some: Integers) -> Floats:
        """The sums of the parts of all boxes around each cell (queries, lines of each axis, ..., sums)."""
        place = np.full(len(self.counts), -1)
        place[some] = np.arange(len(some))
        here = np.flatnonzero(place[self.query] >= 0)
        shape = (len(some), *self.counts[some].max(axis=0))
        return box_sums(shape, place[self.query[here]], self.low[here], self.high[here], self.parts[here])

    def cheapest(self, cost: Floats, some: Integers, axis: int, lines: int) -> tuple[Floats, Integers]:
        """The least cost of each line of one axis, given that of each interval, and the interval that has it."""
        line = self.line[some, axis, : cost.shape[1]]
        cost = cost[:, : line.shape[1]]
        row, interval = np.nonzero((line >= 0) & np.isfinite(cost))
        order = np.argsort(-cost[row, interval], kind="stable")  # the cheapest is written last
        row, interval = row[order], interval[order]
        least, where = np.full((len(some), lines), np.inf), np.zeros((len(some), lines), dtype=np.int64)
        least[row, line[row, interval]] = cost[row, interval]
        where[row, line[row, interval]] = interval
        return least, where


def box_sums(shape: tuple[int, ...], grid: Integers, low: Integers, high: Integers, parts: Floats) -> Floats:
    """The sums (grids, lines of each axis, ..., sums) of the parts of all boxes around each cell of some grids.

    The parts of a box are added at its corners, with alternating signs, and cumulated along every axis.
    """
    axes = len(shape) - 1
    wider = (shape[0], *(count + 1 for count in shape[1:]))  # one more: where boxes end
    strides = np.cumprod([1, *wider[:0:-1]])[::-1].astype(np.int64)
    corners = [np.array(corner, dtype=bool) for corner in product((False, True), repeat=axes)]
    key = np.concatenate([grid * strides[0] + np.where(corner, high, low) @ strides[1:] for corner in corners])
    signs = [1.0 - 2.0 * (corner.sum() % 2) for corner in corners]
    sums = np.empty((*wider, parts.shape[1]))
    for m, part in enumerate(parts.T):
        total = np.bincount(key, np.concatenate([sign * part for sign in signs]), int(np.prod(wider))).reshape(wider)
        for axis in range(1, axes + 1):
            np.cumsum(total, axis=axis, out=total)
        sums[..., m] = total
    return sums[(slice(None), *[slice(0, -1)] * axes)]
