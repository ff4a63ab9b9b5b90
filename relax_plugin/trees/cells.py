"""Cells: the grid that a tree ensemble's tests cut the features into, and the cheapest allowed value of each cell.

The thresholds of a number cut it into intervals; of a category each position is a cell. Within a cell every row has
the same answer. So whatever is searched for exactly (the fewest changes, the least distance) is searched for among
cells, each standing for its value nearest to the query that the limits allow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import SHORT_FLOATS, Limits
from relax_plugin.trees.ensemble import Trees

COUNTED = 12  # cells up to which sets of them are found by counting


@dataclass(frozen=True)
class Sets:
    """The cells of one category with which leaves are met, each set of them once."""

    which: Integers  # (leaves,) the set of each leaf
    inside: Booleans  # (sets, cells)
    costs: Floats  # (queries, sets) the least cost of a cell inside; infinite where none is allowed
    first: Integers  # (runs,) sets as runs of cells side by side, in the order of the sets:
    last: Integers  # (runs,) from this cell to that
    begins: Integers  # (sets + 1,) the first run of each set

    @classmethod
    def of(cls, met: Booleans, costs: Floats) -> "Sets":
        """Of the cells that meet each leaf, and what each cell costs each query."""
        inside, which = distinct_rows(met)
        least = np.where(inside, costs[:, None, :], np.inf).min(axis=2, initial=np.inf)
        edge = np.diff(np.pad(inside, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        owner, first = np.nonzero(edge == 1)
        begins = np.searchsorted(owner, np.arange(len(inside) + 1))
        return cls(which, inside, least, first, np.nonzero(edge == -1)[1] - 1, begins)


def distinct_rows(met: Booleans) -> tuple[Booleans, Integers]:
    """The rows of a table of booleans, each once and in order, and which of them each row is.

    Of few columns a row is a number, which is found by counting; sorting all leaves of a forest takes far longer.
    """
    width = met.shape[1]
    if width > COUNTED:
        inside, which = np.unique(met, axis=0, return_inverse=True)
        return inside, which.ravel()
    bits = 1 << np.arange(width)[::-1]
    code = met @ bits
    there = np.zeros(1 << width, dtype=bool)
    there[code] = True
    return np.flatnonzero(there)[:, None] & bits != 0, (np.cumsum(there) - 1)[code]


@dataclass(frozen=True)
class Cells:
    """For some queries: the intervals of each number, the categories, and which of them every leaf takes in.

    Those in which no query may lie are left out, so that integers have no more intervals than numbers.
    """

    counts: Integers  # (features,) cells of each feature, from the lowest to the highest
    low: Integers  # (leaves, features) the first cell of the leaf's box
    high: Integers  # (leaves, features) the last one; below `low` in a leaf that no query can reach
    home: Integers  # (queries, features) the cell of the query's own value
    values: Floats  # (queries, features, cells) the nearest allowed value; the query's own at home
    costs: Floats  # (queries, features, cells) its distance; infinite where no value is allowed, 0 at home
    lines: list[tuple[Floats, Integers]]  # of each feature: the thresholds, and which of their intervals are kept
    sets: dict[int, Sets]  # of the features of which leaves take in sets, not intervals

    @classmethod
    def of(cls, trees: Trees, space: FeatureSpace, limits: Limits, start: Values) -> "Cells":
        """The cells around some queries; the trees are read over the space."""
        leaves, features = trees.boxes[0].shape
        low, high = np.zeros((leaves, features), dtype=np.int64), np.zeros((leaves, features), dtype=np.int64)
        home = np.zeros(start.shape, dtype=np.int64)
        found, lines, met = [], [], {}
        for j, cuts in enumerate(trees.cuts):
            own_limits = limits.of_feature(j)
            if j in trees.sets:
                cuts = np.arange(trees.sets[j].shape[1] - 1) + 0.5
                values = allowed_categories(own_limits, start[:, j], trees.sets[j].shape[1])
            else:
                values = nearest_values(own_limits, start[:, j], cuts, np.searchsorted(cuts, start[:, j]))
            kept = np.flatnonzero(~np.isnan(values).all(axis=0))
            home[:, j] = np.searchsorted(kept, np.searchsorted(cuts, start[:, j]))
            if j in trees.sets:
                met[j] = trees.sets[j][:, kept]
                high[:, j] = np.where(met[j].any(axis=1), len(kept), 0) - 1
            else:
                low[:, j] = np.searchsorted(kept, np.searchsorted(cuts, trees.boxes[0][:, j], side="right"))
                high[:, j] = np.searchsorted(kept, np.searchsorted(cuts, trees.boxes[1][:, j]), side="right") - 1
            found.append(values[:, kept])
            lines.append((cuts, kept))
        counts = np.array([part.shape[1] for part in found])
        values = np.full((*start.shape, counts.max(initial=1)), np.nan)
        for j, part in enumerate(found):
            values[:, j, : part.shape[1]] = part
        moved = np.moveaxis(space.distances(np.moveaxis(values, 2, 1), start[:, None, :]), 1, 2)
        costs = np.where(np.isnan(values), np.inf, moved)
        sets = {j: Sets.of(own, costs[:, j, : counts[j]]) for j, own in met.items()}
        return cls(counts, low, high, home, values, costs, lines, sets)

    def at(self, query: int, intervals: Integers) -> Floats:
        """A query's row in some cell."""
        return np.asarray(self.values[query, np.arange(len(intervals)), intervals])

    def of_row(self, values: Floats) -> Integers:
        """The intervals that an allowed row lies in."""
        places = [
            np.searchsorted(kept, np.searchsorted(cuts, x)) for x, (cuts, kept) in zip(values, self.lines, strict=True)
        ]
        return np.array(places)

    def outside(self, queries: Any, leaves: Integers) -> Booleans:
        """Whether each feature of each query is outside of what each leaf takes in (queries, leaves, features)."""
        home = self.home[queries]
        found = (home[:, None, :] < self.low[leaves]) | (home[:, None, :] > self.high[leaves])
        for j, sets in self.sets.items():
            found[:, :, j] = ~sets.inside[sets.which[leaves], home[:, j, None]]
        return np.asarray(found)

    def reach(self, query: Integers, leaf: Integers, feature: Integers) -> Floats:
        """The least cost of moving a feature of a query into a leaf's box, for one outside of it."""
        low, high = self.low[leaf, feature], self.high[leaf, feature]
        up, down = self._nearest_allowed
        rises = self.home[query, feature] < low
        to = np.where(rises, up[query, feature, low], down[query, feature, high])
        inside = (to >= low) & (to <= high)
        cost = np.where(inside, self.costs[query, feature, np.clip(to, low, high)], np.inf)
        for j, sets in self.sets.items():
            at = np.flatnonzero(feature == j)
            cost[at] = sets.costs[query[at], sets.which[leaf[at]]]
        return cost

    def boxes_within(self, leaf: Integers, features: list[int]) -> tuple[Integers, Integers, Integers]:
        """What leaves take in of some features, as boxes of cells: which leaf, first cells, and those after the last.

        A leaf that takes in a set of categories has a box for each run of them.
        """
        place = np.arange(len(leaf))
        low, high = self.low[leaf[:, None], features], self.high[leaf[:, None], features] + 1
        for axis, j in enumerate(features):
            if j in self.sets:
                own = self.sets[j]
                which = own.which[leaf[place]]
                count = own.begins[which + 1] - own.begins[which]
                again = np.repeat(np.arange(len(place)), count)
                run = np.repeat(own.begins[which] - np.cumsum(count) + count, count) + np.arange(count.sum())
                place, low, high = place[again], low[again], high[again]
                low[:, axis], high[:, axis] = own.first[run], own.last[run] + 1
        return place, low, high

    def leaf_costs(self, query: int) -> Floats:
        """The least cost at which a query reaches each leaf (leaves,); infinite where it cannot."""
        cost = np.where((self.low <= self.high).all(axis=1), 0.0, np.inf)
        outside = self.outside(slice(query, query + 1), np.arange(len(cost)))[0]
        leaf, feature = np.nonzero(outside & np.isfinite(cost)[:, None])
        np.add.at(cost, leaf, self.reach(np.full(len(leaf), query), leaf, feature))
        return cost

    @cached_property
    def _nearest_allowed(self) -> tuple[Integers, Integers]:
        """The first interval with an allowed value from each one upwards, and downwards; out of range if none has."""
        allowed = np.isfinite(self.costs)
        count = allowed.shape[2]
        place = np.arange(count)
        up = np.minimum.accumulate(np.where(allowed, place, count)[:, :, ::-1], axis=2)[:, :, ::-1]
        return up, np.maximum.accumulate(np.where(allowed, place, -1), axis=2)


def allowed_categories(limits: Limits, start: Floats, count: int) -> Floats:
    """Each category of one feature that each start may become, or is; NaN for the others (queries, categories).

    `count` takes in cells that are known although they are no categories, which can be kept but not chosen.
    """
    row, code = (index.ravel() for index in np.indices((len(start), count)))
    wanted, origin = code.astype(np.float64), start[row]
    moved = limits.take(row).project(wanted[:, None], origin[:, None])[:, 0]
    return np.where((moved == wanted) | (wanted == origin), wanted, np.nan).reshape(len(start), count)


def nearest_values(limits: Limits, start: Floats, cuts: Floats, home: Integers) -> Floats:
    """The allowed value nearest to each start in every interval (cut, cut] of one feature; NaN where there is none.

    `limits` are of this feature alone. The intervals that starts lie in (`home`) keep the value itself, allowed or not.
    """
    below, above = np.r_[-np.inf, cuts], np.r_[cuts, np.inf]
    shape = len(start), len(below)
    row, interval = (index.ravel() for index in np.indices(shape))
    lower, upper, origin = below[interval], above[interval], start[row]
    rises, falls = interval > home[row], interval < home[row]
    value = np.full(len(row), np.nan)
    for candidate in _candidates(limits.take(row), origin, lower, upper, rises, falls):
        fits = np.isnan(value) & (candidate > lower) & (candidate <= upper) & (candidate != origin)
        value = np.where(fits, candidate, value)
    stays = ~rises & ~falls
    return np.where(stays, origin, value).reshape(shape)


def _candidates(limits: Limits, origin: Floats, lower: Floats, upper: Floats, rises: Any, falls: Any) -> list[Floats]:
    """Values among which the nearest allowed one is the first that lies in the interval."""

    def projected(values: Floats) -> Floats:
        return np.asarray(limits.project(values[:, None], origin[:, None])[:, 0])

    if limits.is_categorical.any():  # tested nowhere, so that there is nothing to go for
        return []
    end = np.where(rises, np.nextafter(lower, np.inf), np.where(falls, upper, origin))
    first = projected(end)
    # Rounded to the grid, or to float32, the end may lie on the wrong side of its threshold: then the next value.
    step, short = limits.grid.step[0], SHORT_FLOATS.get(int(limits.grid.precision[0]))
    towards = np.where(rises, np.inf, -np.inf)
    if step > 0:
        beyond = first + np.where(rises, step, -step)
    elif short is not None:
        beyond = np.nextafter(first.astype(short), towards.astype(short)).astype(np.float64)
    else:
        beyond = np.nextafter(first, towards)
    return [first, projected(beyond)]
