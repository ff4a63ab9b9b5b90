"""Growing boxes: cells around an answer, taken in side by side as long as a test says that all their rows will do.

The test is a proof over the leaves of trees (`proved.py`), or some rows that the model is asked (`probed.py`).
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Array, Floats, Integers
from relax_plugin.limits import Grid
from relax_plugin.regions.spans import Spans

FIRST_STEP = 4  # a side of a box tries this part of its way first, so that no side takes all the room
PARTS = 8  # into which each side of a number's interval is parted where no thresholds are known

Cells = list[Integers]  # of each axis, ascending


@dataclass(frozen=True)
class Axis:
    """The cells of one feature around an answer: from `first` to `last`, those without an allowed value left out."""

    feature: int
    first: Floats
    last: Floats
    home: int  # the cell of the answer
    apart: bool  # categories, any of which may be left out

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def of_number(cls, grid: Grid, feature: int, low: float, high: float, cuts: Floats, value: float) -> "Axis":
        """The cells between low and high, parted at the cuts: a cut belongs to the cell below it."""
        own, cuts = grid.take(np.full(1, feature)), np.unique(cuts[(cuts >= low) & (cuts < high)])
        first = np.r_[low, own.first_inside(np.nextafter(cuts, np.inf), 1)]
        last = np.r_[own.first_inside(cuts, -1), high]
        # What was delivered is allowed, whatever the rounding of grids says.
        here = int(np.searchsorted(cuts, value))
        first[here], last[here] = min(first[here], value), max(last[here], value)
        kept = first <= last
        return cls(feature, first[kept], last[kept], int(np.searchsorted(last[kept], value)), False)

    @classmethod
    def of_categories(cls, feature: int, codes: Array, value: float) -> "Axis":
        own = codes.astype(np.float64)
        return cls(feature, own, own, int(np.searchsorted(own, value)), True)


def evenly(low: float, high: float, value: float) -> Floats:
    """Cuts that make a value a cell by itself, with cells of equal length on both sides."""
    sides = np.linspace(low, value, PARTS + 1), np.linspace(value, high, PARTS + 1)
    return np.concatenate([*sides, [np.nextafter(value, -np.inf)]])


def write_box(spans: Spans, answer: int, axes: list[Axis], box: Cells) -> None:
    """Make cells of each axis the span of an answer."""
    for axis, cells in zip(axes, box, strict=True):
        if axis.apart:
            chosen = spans.of_feature(axis.feature)[answer]
            chosen[:] = False
            chosen[axis.first[cells].astype(int)] = True
        else:
            spans.low[answer, axis.feature] = axis.first[cells[0]]
            spans.high[answer, axis.feature] = axis.last[cells[-1]]


class Growing:
    """One box that grows from its answer, until no side of it can take in another cell."""

    def __init__(self, axes: list[Axis]) -> None:
        self.axes = axes
        self.box: Cells = [np.array([axis.home]) for axis in axes]
        # The sides in turns: the axis, the cells on its way outwards, and how many of them are tried next.
        self.sides: deque[tuple[int, Integers, int]] = deque()
        for at, axis in enumerate(axes):
            cells = np.arange(len(axis))
            for way in (
                [np.delete(cells, axis.home)] if axis.apart else [cells[: axis.home][::-1], cells[axis.home + 1 :]]
            ):
                if len(way):
                    self.sides.append((at, way, 1 if axis.apart else max(1, len(way) // FIRST_STEP)))

    @property
    def slab(self) -> Cells:
        """What is taken in next, if all of it will do."""
        at, way, step = self.sides[0]
        return [*self.box[:at], np.sort(way[:step]), *self.box[at + 1 :]]

    @property
    def wider(self) -> Cells:
        """The box with that."""
        at, way, step = self.sides[0]
        return [*self.box[:at], np.sort(np.concatenate([self.box[at], way[:step]])), *self.box[at + 1 :]]

    def tell(self, held: bool) -> None:
        """Whether the slab will do: else fewer cells of it are tried, and at last the side stays where it is."""
        wider = self.wider
        at, way, step = self.sides.popleft()
        if held:
            self.box, way = wider, way[step:]
        elif step > 1:
            step //= 2
        else:
            way = way[1:] if self.axes[at].apart else way[:0]  # another category may do
        if len(way):
            self.sides.append((at, way, min(step, len(way))))
