"""Limits: what each row may become under the space's and the call's constraints, and the projection onto it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.cached import cached_property

MOST_STEPS = 2.0**53  # of the last decimal: beyond, a float64 cannot count them


@dataclass(frozen=True)
class Grid:
    """The numbers that cells of each feature can hold: anchor + k * step, as the user would write them, in its dtype.

    `step` is 0 where every number is allowed, `decimals` -1 where no short decimals write the points of the grid, and
    `precision` is the bytes of the dtype's floats: 2, 4 or 8.
    """

    anchor: Floats
    step: Floats
    decimals: Integers
    precision: Integers

    def take(self, features: Any) -> "Grid":
        """The grid of some of the features."""
        return Grid(self.anchor[features], self.step[features], self.decimals[features], self.precision[features])

    def nearest(self, values: Floats, feature: Any = ...) -> Floats:
        """The nearest number that a cell can hold; `feature` says whose cell it is, by default of column by column."""
        steps = np.round(self._steps(values, feature))
        return np.where(self._counts(steps, feature), self._points(steps, feature), self.stored(values, feature))

    def first_inside(self, bounds: Floats, inwards: int) -> Floats:
        """The number nearest to the bounds that a cell can hold and that does not lie outside of them.

        `inwards` is 1 for lower bounds and -1 for upper ones. What is compared is what the cell will hold: the float32
        nearest to -1.1 lies below it.
        """
        steps = inwards * np.floor(inwards * self._steps(bounds))
        for _ in range(2):
            steps = steps + inwards * (inwards * self._points(steps) < inwards * bounds)
        held = self.stored(bounds)
        for size, dtype in SHORT_FLOATS.items():
            beyond = (self.precision == size) & (inwards * held < inwards * bounds)
            if beyond.any():
                held = np.where(beyond, np.nextafter(held.astype(dtype), dtype(inwards * np.inf)), held)
        return np.where(self._counts(steps), self._points(steps), held)

    def holds(self, values: Floats) -> Booleans:
        """Whether the values lie on the grid: up to what their dtype rounds, and as the user would write them."""
        steps = self._steps(values)
        unsure = 1e-9 + 4.0 * self._rounding * (np.abs(values) + np.abs(self.anchor)) / self._length
        whole = np.rint(values * self._tens)
        written = (self.decimals < 0) | (np.abs(whole) >= MOST_STEPS) | (self.stored(whole / self._tens) == values)
        coarse = self.step < 2.1 * self._rounding * np.maximum(np.abs(values), np.abs(values - self.anchor))
        return np.asarray((self.step == 0) | coarse | (written & (np.abs(steps - np.rint(steps)) <= unsure)))

    def stored(self, values: Floats, feature: Any = ...) -> Floats:
        """The values as the dtypes of their features hold them."""
        if not self._some_short:
            return values
        precision = self.precision[feature]
        for size, dtype in SHORT_FLOATS.items():
            if (precision == size).any():
                with np.errstate(over="ignore"):  # what the dtype cannot hold is infinite, and clipped to the bounds
                    values = np.where(precision == size, values.astype(dtype).astype(np.float64), values)
        return values

    @cached_property
    def _some_short(self) -> bool:
        """Whether some feature is held in less than double precision."""
        return bool((self.precision < 8).any())

    @cached_property
    def _length(self) -> Floats:
        return np.where(self.step > 0, self.step, 1.0)

    @cached_property
    def _tens(self) -> Floats:
        return np.asarray(10.0 ** np.maximum(self.decimals, 0))

    @cached_property
    def _rounding(self) -> Floats:
        """By which share of itself a number changes at most when a cell of the feature's dtype takes it in."""
        return np.select([self.precision == size for size in SHORT_FLOATS], [2.0**-11, 2.0**-24], 2.0**-53)

    def _steps(self, values: Floats, feature: Any = ...) -> Floats:
        return np.asarray((values - self.anchor[feature]) / self._length[feature])

    def _counts(self, steps: Floats, feature: Any = ...) -> Booleans:
        """Where there is a grid, and cells tell one step from the next; else a cell holds what it can."""
        way = steps * self._length[feature]
        size = np.maximum(np.abs(self.anchor[feature] + way), np.abs(way))
        return np.asarray(self.step[feature] > 2.0 * self._rounding[feature] * size)

    def _points(self, steps: Floats, feature: Any = ...) -> Floats:
        points, tens = self.anchor[feature] + steps * self._length[feature], self._tens[feature]
        # 0.1 + 2 * 0.1 is to be 0.3: a whole number of the last decimal, divided once, is what the user would write.
        written = np.rint(points * tens)
        short = (self.decimals[feature] >= 0) & (np.abs(written) < MOST_STEPS)
        return self.stored(np.where(short, written / tens, points), feature)


SHORT_FLOATS: dict[int, Any] = {2: np.float16, 4: np.float32}


@dataclass(frozen=True)
class Limits:
    """Bounds, grids, directions and frozen features of a batch of rows.

    `low`, `high`, `frozen` have shape (1 or rows, features), `choices` (1 or rows, all categories): one row when the
    whole batch shares them (a call), one a row when each has its own (training under random constraints). A missing
    number has a code outside of the bounds: it may stay, or come in; a number may get that code if it is `vanishable`.
    """

    low: Floats
    high: Floats
    frozen: Booleans
    choices: Booleans
    grid: Grid
    direction: Integers
    category_offsets: Integers
    missing_codes: Floats  # NaN, which nothing equals, for categories that cannot vanish
    vanishable: Booleans

    def keeping(self, cells: Booleans) -> "Limits":
        """The limits of rows in which these cells stay as they are."""
        return replace(self, frozen=self.frozen | cells) if cells.any() else self

    def contain(self, other: "Limits") -> bool:
        """Whether every row that keeps the other limits keeps these too."""
        wider = (self.low <= other.low) & (self.high >= other.high) & (~self.frozen | other.frozen)
        free = other.frozen | wider
        onward = (self.direction == 0) | (self.direction == other.direction) | other.frozen
        return bool(free.all() and onward.all() and (self.choices | ~other.choices).all())

    @property
    def is_categorical(self) -> Booleans:
        return np.diff(self.category_offsets) > 0

    def take(self, index: Array) -> "Limits":
        """The limits of some of the rows."""
        if len(self.low) == len(self.high) == len(self.frozen) == len(self.choices) == 1:
            return self

        def pick(array: Any) -> Any:
            return array if len(array) == 1 else array[index]

        return replace(
            self, low=pick(self.low), high=pick(self.high), frozen=pick(self.frozen), choices=pick(self.choices)
        )

    def of_feature(self, j: int) -> "Limits":
        """The limits of one feature alone."""
        first, last = self.category_offsets[j : j + 2]
        return replace(
            self,
            low=self.low[:, [j]],
            high=self.high[:, [j]],
            frozen=self.frozen[:, [j]],
            choices=self.choices[:, first:last],
            grid=self.grid.take([j]),
            direction=self.direction[[j]],
            category_offsets=np.array([0, last - first]),
            missing_codes=self.missing_codes[[j]],
            vanishable=self.vanishable[[j]],
        )

    def movable(self, start: Floats) -> Booleans:
        """Whether each row has a feature that may change (rows,)."""
        low, high = self.span(start)
        able = (low != start) | (high != start) | (self.vanishable & ~self.frozen & (start != self.missing_codes))
        for j in np.flatnonzero(self.is_categorical):
            categories = np.arange(self.category_offsets[j + 1] - self.category_offsets[j])
            chosen = self.choices[:, self.category_offsets[j] : self.category_offsets[j + 1]]
            other = (
                (categories != start[:, j, None]) & (categories >= low[:, j, None]) & (categories <= high[:, j, None])
            )
            able[:, j] = (chosen & other).any(axis=1)
        return np.asarray(able.any(axis=1))

    def span(self, start: Floats) -> tuple[Floats, Floats]:
        """Lowest and highest value each feature of each row may be changed to; its own value where there is none.

        The ends lie on the feature's grid and keep its direction, so that a move to them needs no correction. A value
        outside the bounds has both ends on one side: it may stay, or come back in, never go further out.
        """
        low, high = self._ends(start)
        fixed = (low > high) | self.frozen
        return np.where(fixed, start, low), np.where(fixed, start, high)

    def project(self, values: Floats, start: Floats, feature: Any = ...) -> Floats:
        """Move every proposed cell to the nearest one allowed; cells equal to the start stay as they are.

        `feature` says whose cells the columns of `values` are, by default of column by column; `start` is whole rows.
        """
        low, high = (end[:, feature] for end in self._ends(start))
        start = start[:, feature]
        moved = np.clip(self.grid.nearest(values, feature), low, high)  # the ends lie on the grid too
        gone = values == self.missing_codes[feature]
        keep = self.frozen[:, feature] | ((low > high) & ~gone) | (values == start) | (gone & ~self.vanishable[feature])
        moved = np.where(gone, values, moved)
        if self.is_categorical.any():
            keep = keep | ~self._chosen(values, feature)
        return np.where(keep, start, moved)

    def inside(self, values: Floats) -> Floats:
        """The nearest numbers within the bounds that cells can hold, whatever the row they come from."""
        return np.clip(self.round_to_grid(values), *self.ends)

    def round_to_grid(self, values: Floats) -> Floats:
        """The nearest value of each feature's grid, as the user would write it, in the precision of its dtype."""
        return self.grid.nearest(values)

    def round_cells(self, values: Floats, feature: Integers) -> Floats:
        """`round_to_grid` for one cell a row, that of the given feature."""
        return self.grid.nearest(values, feature)

    def kept(self, values: Floats, start: Floats) -> Booleans:
        """Whether every changed cell of each row keeps every constraint.

        Each constraint is looked at by itself and not through `project`, whose faults it would share.
        """
        inside = (values >= self.low) & (values <= self.high)
        onward = ((values - start) * self.direction >= 0) | self._without_order(start)
        allowed = inside & onward & self._chosen(values) & self.grid.holds(values)
        gone = self.vanishable & (values == self.missing_codes) & self._chosen(values)
        return np.asarray(((values == start) | (~self.frozen & (allowed | gone))).all(axis=1))

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """Lowest and highest value of each feature that a cell can hold within the bounds, whatever the direction."""
        return self.grid.first_inside(self.low, 1), self.grid.first_inside(self.high, -1)

    def _ends(self, start: Floats) -> tuple[Floats, Floats]:
        """Lowest and highest value that a cell can hold under bounds and direction; low > high where there is none."""
        low, high = self.ends
        up, down = np.flatnonzero(self.direction > 0), np.flatnonzero(self.direction < 0)
        if len(up):
            low = np.broadcast_to(low, start.shape).copy()
            here = np.where(self._without_order(start), -np.inf, start)  # whatever it gets, it did not fall,
            low[:, up] = self.grid.take(up).first_inside(np.maximum(low, here)[:, up], 1)
        if len(down):
            high = np.broadcast_to(high, start.shape).copy()
            here = np.where(self._without_order(start), np.inf, start)  # nor rise
            high[:, down] = self.grid.take(down).first_inside(np.minimum(high, here)[:, down], -1)
        return low, high

    def _without_order(self, start: Floats) -> Booleans:
        """Which cells lie neither above nor below others: what is missing, and what is none of the categories."""
        counts = np.diff(self.category_offsets)
        return np.asarray((start == self.missing_codes) | ((counts > 0) & (start >= counts)))

    def _chosen(self, values: Floats, feature: Any = ...) -> Booleans:
        """Whether the proposed category is one that may be chosen; True for numbers."""
        counts, first = np.diff(self.category_offsets)[feature], self.category_offsets[:-1][feature]
        columns = np.flatnonzero(counts)
        code = values[:, columns]
        inside = (code >= 0) & (code < counts[columns]) & (code % 1 == 0)
        rows = 0 if len(self.choices) == 1 else np.arange(len(values))[:, None]
        position = first[columns] + np.clip(code, 0, counts[columns] - 1).astype(int)
        chosen = np.ones(values.shape, dtype=bool)
        chosen[:, columns] = inside & self.choices[rows, position]
        return chosen
