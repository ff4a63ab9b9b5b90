"""Costs: what each cell of a tree ensemble costs each query under its limits, and the value it stands for."""

from typing import NamedTuple

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.trees.masks import Masks

BY_ORDER = 1e-6  # of a price: of equally far ordered categories the nearest costs least
IN_CACHE = 60_000  # distances that are worked on at once


class Cells(NamedTuple):
    """The cells of masks as arrays over cells or features, for all queries alike."""

    first: Integers  # (features + 1,) the first cell of each feature
    low: Floats  # (cells,) the least number that a table can hold in each, above `high` if there is none
    high: Floats
    jumps: Booleans  # (cells,) whether it has a price, not a length: a category, or a missing number
    price: Floats  # (features,)
    unit: Floats  # (features,) of a number: the price of 1
    ordered: Floats  # (features,) of ordered categories: the price of each further position

    @classmethod
    def of(cls, masks: Masks, space: FeatureSpace) -> "Cells":
        grid, (below, above) = space.grid.take(masks.tested[masks.owner]), masks.ends
        jumps = np.isnan(below)
        with np.errstate(invalid="ignore"):
            low = grid.first_inside(np.where(np.isfinite(below), np.nextafter(below, np.inf), 0.0), 1)
            high = grid.first_inside(np.where(np.isfinite(above), above, 0.0), -1)
        price = space.prices[masks.tested]
        ordered = np.where(np.isin(masks.tested, space.ordered), BY_ORDER * price, 0.0)
        return cls(
            masks.table.first,
            np.where(np.isfinite(below), low, np.where(jumps, -np.inf, below)),
            np.where(np.isfinite(above), high, np.where(jumps, np.inf, above)),
            jumps,
            price,
            price / space.scale[masks.tested],
            ordered,
        )


class Costs:
    """For some queries under their limits: what they pay for each cell, and what they get."""

    def __init__(self, masks: Masks, cells: Cells, space: FeatureSpace, limits: Limits, start: Values) -> None:
        self.masks, self.cells, self.space, self.limits = masks, cells, space, limits
        self.whole, self.start = start, np.ascontiguousarray(start[:, masks.tested])
        self.home = masks.rows(start)
        self.low, self.high = (np.ascontiguousarray(end[:, masks.tested]) for end in limits.span(start))
        low, high = (side[:1] if (side == side[:1]).all() else side for side in (self.low, self.high))
        self.ends = np.maximum(cells.low, low[:, masks.owner]), np.minimum(cells.high, high[:, masks.owner])
        self.closed = ~self._open() | ((self.ends[0] > self.ends[1]) & ~cells.jumps)

    def _open(self) -> Booleans:
        """Which cells each query may be changed to, as far as that does not depend on numbers (1 or queries, cells)."""
        masks, limits = self.masks, self.limits
        open_ = ~limits.frozen[:, masks.tested][:, masks.owner]
        for j in np.flatnonzero(masks.positions):
            own, feature = slice(masks.table.first[j], masks.table.first[j + 1]), masks.tested[j]
            first, end = limits.category_offsets[feature : feature + 2]
            code, count = np.arange(masks.positions[j]), end - first
            allowed = (code < count) & limits.choices[:, first + np.minimum(code, count - 1)]
            low, high = self.low[:, [j]], self.high[:, [j]]
            if (low != low[0]).any() or (high != high[0]).any():
                allowed = allowed & (code >= low) & (code <= high)
            else:
                allowed = allowed & (code >= low[0]) & (code <= high[0])
            if len(allowed) > len(open_):
                open_ = np.repeat(open_, len(allowed), axis=0)
            open_[:, own] &= allowed
        return np.asarray(open_)

    def distances(self) -> Floats:
        """What each query pays for each cell (queries, cells); infinite for its own, and where it may not go."""
        far, size = np.empty((len(self.home), self.masks.cells)), max(1, IN_CACHE // self.masks.cells)
        for first in range(0, len(far), size):
            far[first : first + size] = self._distances(slice(first, first + size))
        return far

    def _distances(self, some: slice) -> Floats:
        cells, owner, home, first = self.cells, self.masks.owner, self.home[some], self.masks.table.first
        low, high, closed = (array if len(array) == 1 else array[some] for array in (*self.ends, self.closed))
        start = self.start[some][:, owner]
        with np.errstate(invalid="ignore"):
            far = np.maximum(low - start, start - high)
            far *= cells.unit[owner]
        there = np.flatnonzero(cells.jumps)
        steps = np.abs(there - home[:, owner[there]])
        far[:, there] = cells.price[owner[there]] + cells.ordered[owner[there]] * steps
        was_missing = (home == self.masks.missing) & (self.masks.positions == 0)
        for row, j in np.argwhere(was_missing):
            far[row, first[j] : first[j + 1]] = cells.price[j]
        np.copyto(far, np.inf, where=closed)
        row, j = np.nonzero(home < len(owner))
        far[row, home[row, j]] = np.inf
        return far

    def values(self, rows: Array, owner: Integers, natural: Floats | None = None) -> Values:
        """The nearest rows of the space in these cells; at a multiple of the natural step, if the cell has one."""
        masks, cells = self.masks, self.cells
        values = self.whole[owner].copy()
        place, j = np.nonzero(rows != self.home[owner])
        q, c, feature = owner[place], rows[place, j], masks.tested[j]
        low, high = np.maximum(cells.low[c], self.low[q, j]), np.minimum(cells.high[c], self.high[q, j])
        rises, was_missing = c > self.home[q, j], self.home[q, j] == masks.missing[j]
        grid = self.limits.grid
        middle = grid.nearest(self.space.mean[feature], feature)
        value = np.where(was_missing, np.clip(middle, low, high), np.where(rises, low, high))
        if natural is not None:
            step = np.where(natural[feature] > 0, natural[feature], 1.0)
            steps = np.where(rises, np.ceil(value / step - 1e-9), np.floor(value / step + 1e-9))
            away = grid.nearest(np.round(steps * step, 9), feature)
            value = np.where((natural[feature] > 0) & ~was_missing & (low <= away) & (away <= high), away, value)
        code = np.where(masks.positions[j] > 0, c - cells.first[j], self.space.missing_codes[feature])
        values[place, feature] = np.where(cells.jumps[c], code, value)
        return values
