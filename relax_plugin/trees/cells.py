"""Cells: the grid that a tree ensemble's thresholds cut the features into, and the cheapest allowed value of each cell.

Within a cell every row has the same answer. So whatever is searched for exactly (the fewest changes, the least
distance) is searched for among cells, each standing for its value nearest to the query that the limits allow.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import SHORT_FLOATS, Limits
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.readers import read_trees, why_unreadable


@dataclass(frozen=True)
class Cells:
    """For some queries: the intervals of each feature, and which of them every leaf takes in.

    Intervals in which no query may lie are left out, so that integers have no more intervals than numbers.
    """

    counts: Integers  # (features,) intervals of each feature, from the lowest to the highest
    low: Integers  # (leaves, features) the first interval of the leaf's box
    high: Integers  # (leaves, features) the last one; below `low` in a leaf that no query can reach
    home: Integers  # (queries, features) the interval of the query's own value
    values: Floats  # (queries, features, intervals) the nearest allowed value; the query's own at home
    costs: Floats  # (queries, features, intervals) its distance; infinite where no value is allowed, 0 at home
    lines: list[tuple[Floats, Integers]]  # of each feature: the thresholds, and which of their intervals are kept

    @classmethod
    def of(cls, trees: Trees, space: FeatureSpace, limits: Limits, start: Values) -> "Cells":
        """The cells around some queries; the trees are those of `trees_over`."""
        leaves, features = trees.boxes[0].shape
        low, high = np.zeros((leaves, features), dtype=np.int64), np.zeros((leaves, features), dtype=np.int64)
        home = np.zeros(start.shape, dtype=np.int64)
        found, lines = [], []
        for j, cuts in enumerate(trees.cuts):
            own = np.searchsorted(cuts, start[:, j])
            values = nearest_values(_of_feature(limits, j), start[:, j], cuts, own)
            kept = np.flatnonzero(~np.isnan(values).all(axis=0))
            home[:, j] = np.searchsorted(kept, own)
            low[:, j] = np.searchsorted(kept, np.searchsorted(cuts, trees.boxes[0][:, j], side="right"))
            high[:, j] = np.searchsorted(kept, np.searchsorted(cuts, trees.boxes[1][:, j]), side="right") - 1
            found.append(values[:, kept])
            lines.append((cuts, kept))
        counts = np.array([part.shape[1] for part in found])
        values = np.full((*start.shape, counts.max(initial=1)), np.nan)
        for j, part in enumerate(found):
            values[:, j, : part.shape[1]] = part
        moved = np.moveaxis(space.distances(np.moveaxis(values, 2, 1), start[:, None, :]), 1, 2)
        return cls(counts, low, high, home, values, np.where(np.isnan(values), np.inf, moved), lines)

    def at(self, query: int, intervals: Integers) -> Floats:
        """A query's row in some cell."""
        return np.asarray(self.values[query, np.arange(len(intervals)), intervals])

    def of_row(self, values: Floats) -> Integers:
        """The intervals that an allowed row lies in."""
        places = [
            np.searchsorted(kept, np.searchsorted(cuts, x)) for x, (cuts, kept) in zip(values, self.lines, strict=True)
        ]
        return np.array(places)

    def reach(self, query: Integers, leaf: Integers, feature: Integers) -> Floats:
        """The least cost of moving a feature of a query into a leaf's box, for one outside of it."""
        low, high = self.low[leaf, feature], self.high[leaf, feature]
        up, down = self._nearest_allowed
        rises = self.home[query, feature] < low
        to = np.where(rises, up[query, feature, low], down[query, feature, high])
        inside = (to >= low) & (to <= high)
        return np.where(inside, self.costs[query, feature, np.clip(to, low, high)], np.inf)

    def leaf_costs(self, query: int) -> Floats:
        """The least cost at which a query reaches each leaf (leaves,); infinite where it cannot."""
        cost = np.where((self.low <= self.high).all(axis=1), 0.0, np.inf)
        outside = (self.home[query] < self.low) | (self.home[query] > self.high)
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


def trees_over(model: Any, space: FeatureSpace) -> Trees:
    """The model's trees over the values of a space, in which a category is its position.

    Categories that are numbers in ascending order (whole numbers, or False and True) are as good as numbers to a tree.
    """
    trees = read_trees(model, space)
    threshold = trees.threshold.copy()
    for j in np.flatnonzero(space.is_categorical):
        numbers = np.asarray(space.features[j].categories, dtype=np.float64)
        here = trees.feature == j
        threshold[here] = np.searchsorted(numbers, threshold[here], side="right") - 0.5
    return replace(trees, threshold=threshold) if space.is_categorical.any() else trees


def why_no_trees_over(model: Any, space: FeatureSpace) -> str | None:
    """Why `trees_over` has nothing to give; None if it has."""
    for j in np.flatnonzero(space.is_categorical):
        feature = space.features[j]
        plain = all(isinstance(category, bool | int | float) for category in feature.categories)
        if not plain or list(feature.categories) != sorted(feature.categories):
            return f"it needs numbers, and {feature.name!r} has categories that are none, or not in ascending order"
        if hasattr(model, "steps"):
            return f"it reads no pipeline over categories, and {feature.name!r} is categorical"
    return why_unreadable(model, space)


def checked_trees(model: Any, space: FeatureSpace) -> Trees:
    """`trees_over`, or *skipped because ...*."""
    reason = why_no_trees_over(model, space)
    if reason is not None:
        raise UnsupportedError(f"skipped because {reason}.")
    return trees_over(model, space)


def nearest_values(limits: Limits, start: Floats, cuts: Floats, home: Integers) -> Floats:
    """The allowed value nearest to each start in every interval (cut, cut] of one feature; NaN where there is none.

    Parameters
    ----------
    limits : Limits
        Of this feature alone.
    start, home : arrays (queries,)
        The values, and the intervals they lie in; these keep the value itself, allowed or not.
    cuts : array, ascending
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

    if limits.is_categorical.any():  # all others cost the same
        codes = [np.full(len(origin), float(code)) for code in range(limits.choices.shape[1])]
        moved = [projected(code) for code in codes]
        return [np.where(new == code, new, np.nan) for new, code in zip(moved, codes, strict=True)]
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


def _of_feature(limits: Limits, j: int) -> Limits:
    """The limits of one feature."""
    first, last = limits.category_offsets[j : j + 2]
    return replace(
        limits,
        low=limits.low[:, [j]],
        high=limits.high[:, [j]],
        frozen=limits.frozen[:, [j]],
        choices=limits.choices[:, first:last],
        grid=limits.grid.take([j]),
        direction=limits.direction[[j]],
        category_offsets=np.array([0, last - first]),
    )
