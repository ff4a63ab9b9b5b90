"""Changes: proposals for many queries as short lists of changes, since of five hundred features five change."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace

REACH = 1.4  # standard deviations over which errors of a world model are alike
CELLS_AT_ONCE = 32_000  # numbers of one comparison: what fits a processor's cache
FARTHEST = 1e15  # standard deviations that a length may be: its square must not overflow
CATEGORY = np.float32(np.sqrt(2.0))  # length of a change at once, of a category: as far as its one-hot columns move
NEARLY_CATEGORY = np.nextafter(CATEGORY, np.float32(0.0))  # of a number that happens to move as far


@dataclass
class Changes:
    """Proposals of each query; unused places have feature -1 and length 0.

    The places come first, so that sums over the few of them are sums of whole arrays.

    Attributes
    ----------
    feature, value, length : arrays (places, queries, proposals)
        `length` is signed, in standard deviations.
    gap : array (queries, proposals)
        As imagined; infinite where there is no proposal.
    """

    feature: Array
    value: Array
    length: Array
    gap: Array

    @classmethod
    def none(cls, places: int, queries: int, proposals: int) -> "Changes":
        shape = (places, queries, proposals)
        nothing, length = np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.float32)
        return cls(nothing, np.zeros(shape), length, np.full(shape[1:], np.inf, dtype=np.float32))

    @classmethod
    def to_rows(cls, space: FeatureSpace, start: Values, rows: Floats, gap: Array, places: int) -> "Changes":
        """The changes, at most so many, that lead to rows (queries, proposals, features)."""
        flat, origin = rows.reshape(-1, rows.shape[2]), np.repeat(start, rows.shape[1], axis=0)
        feature, value = listed(flat, origin, places)
        there, own = feature >= 0, origin[np.arange(len(origin)), feature]
        length = lengths(value - own, space.scale[feature])
        at_once = space.jumps(feature, own, value)
        length = np.where(there, np.where(at_once, CATEGORY, length), np.float32(0.0))
        shape = (places, *rows.shape[:2])
        return cls(
            feature.astype(np.int32).reshape(shape), value.reshape(shape), length.reshape(shape), gap.astype(np.float32)
        )

    @property
    def count(self) -> Integers:
        return np.asarray((self.feature >= 0).sum(axis=0))

    @property
    def at_once(self) -> Booleans:
        """Which changes are made at once or not at all: of categories, and of what is or becomes missing."""
        return np.asarray(self.length == CATEGORY)

    def keys(self) -> Integers:
        """A number for each proposal, the same for the same changes: in whatever order, rounded to single precision."""
        landed, at_once = self.length, self.at_once
        if at_once.any():
            landed = np.where(at_once, self.value, landed).astype(np.float32)
        bits = landed.view(np.int32).astype(np.int64) ^ (self.feature.astype(np.int64) << 32)
        mixed = (bits ^ (bits >> 29)) * np.int64(0x1B03738712FAD5C9)
        return np.asarray(np.where(self.feature >= 0, mixed ^ (mixed >> 32), 0).sum(axis=0))

    def distance(self, space: FeatureSpace) -> Array:
        """What the changes cost: L1 in standard deviations, a changed category counting 1, at the space's prices."""
        length, at_once = np.abs(self.length), self.at_once
        if at_once.any():
            length = np.where(at_once, 1.0, length)
        if space.has_prices:  # in single precision, as the lengths are
            length = length * space.prices.astype(np.float32)[self.feature]
        return np.asarray(length.sum(axis=0))

    def of(self, queries: Any) -> "Changes":
        """The proposals of some of the queries."""
        return Changes(self.feature[:, queries], self.value[:, queries], self.length[:, queries], self.gap[queries])

    def at(self, position: Integers) -> "Changes":
        """Of each query the proposals at these positions (queries, some)."""
        query = np.arange(len(position))[:, None]
        return Changes(*(array[..., query, position] for array in vars(self).values()))

    def beside(self, other: "Changes") -> "Changes":
        """Both, as proposals of the same queries."""
        places = max(len(self.feature), len(other.feature))
        pairs = zip(vars(self._with(places)).values(), vars(other._with(places)).values(), strict=True)
        return Changes(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def _with(self, places: int) -> "Changes":
        more = places - len(self.feature)
        if more == 0:
            return self
        empty = Changes.none(more, *self.gap.shape)
        return Changes(
            np.concatenate([self.feature, empty.feature]),
            np.concatenate([self.value, empty.value]),
            np.concatenate([self.length, empty.length]),
            self.gap,
        )

    def rows(self, start: Values, position: Integers) -> Values:
        """One proposal of each query as a row."""
        query = np.arange(len(start))
        return with_changes(start, self.feature[:, query, position], self.value[:, query, position])

    def alike(self, asked: "Changes") -> Array:
        """How alike the world model's errors are at every proposal and at those its query asked about; 1: the same.

        (asked, queries, proposals); all that was asked at once while arrays are small: then it is calls that count.
        """
        number, cells = asked.gap.shape[1], max(self.gap.size, 1)
        several = max(CELLS_AT_ONCE // cells, 1)
        squares = (self.length**2).sum(axis=0)
        used = [place for place in range(len(self.feature)) if (self.feature[place] >= 0).any()]
        parts = [slice(first, first + several) for first in range(0, number, several)]
        made = [self._alike(asked, part, squares, used) for part in parts]
        return made[0] if len(made) == 1 else np.concatenate(made)

    def _alike(self, asked: "Changes", part: slice, squares: Array, used: list[int]) -> Array:
        feature, value, length = (
            np.swapaxes(array[:, :, part], 1, 2)[..., None] for array in (asked.feature, asked.value, asked.length)
        )
        squared = squares + (length**2).sum(axis=0)
        at_once = length == CATEGORY
        mixed = bool(at_once.any())
        for place in np.flatnonzero((feature >= 0).any(axis=(1, 2, 3))):  # most answers change fewer features
            twice = 2.0 * length[place]
            for own in used:
                common = self.length[own] * twice
                common *= self.feature[own] == feature[place]
                if mixed:  # two other categories of one feature agree in not being the query's own
                    other = at_once[place] & (self.value[own] != value[place])
                    common = np.where(other, 0.5 * common, common)
                squared -= common
        return nearness(np.maximum(squared, 0.0))  # of far proposals single precision leaves anything


def lengths(difference: Array, scale: Array) -> Array:
    """Differences of numbers in standard deviations, in single precision."""
    length = np.clip(difference / scale, -FARTHEST, FARTHEST).astype(np.float32)
    return np.where(length == CATEGORY, NEARLY_CATEGORY, length)


def listed(rows: Values, start: Values, places: int) -> tuple[Integers, Floats]:
    """The changes of rows, one a query, as features and values (places, queries); -1 where there are fewer."""
    changed = rows != start
    feature = np.argsort(~changed, axis=1, kind="stable")[:, :places].T
    there = np.take_along_axis(changed.T, feature, 0)
    value = np.where(there, np.take_along_axis(rows.T, feature, 0), 0.0)
    missing = places - len(feature)
    feature = np.pad(np.where(there, feature, -1), ((0, missing), (0, 0)), constant_values=-1)
    return feature, np.pad(value, ((0, missing), (0, 0)))


def with_changes(start: Values, feature: Integers, value: Floats) -> Values:
    """Rows with the changes of one proposal each (places, queries)."""
    rows, (place, query) = start.copy(), np.nonzero(feature >= 0)
    rows[query, feature[place, query]] = value[place, query]
    return rows


def picked(array: Array, position: Integers) -> Array:
    """Of each row what stands at its positions; quicker than `take_along_axis` where there are few rows."""
    return np.asarray(array[np.arange(len(position))[:, None], position])


def rank_within(query: Integers) -> Integers:
    """0, 1, 2, ... within each run of equal queries, which must be in order."""
    return np.arange(len(query)) - np.searchsorted(query, query)


def nearness(squared: Array) -> Array:
    """How alike a world model's errors at two rows are, by their squared distance in standard deviations."""
    return np.asarray(np.exp(squared * (-0.5 / REACH**2)))


def largest(array: Array, count: int) -> Integers:
    """Positions of the largest `count` of each row."""
    if count >= array.shape[1]:
        return np.tile(np.arange(array.shape[1]), (len(array), 1))
    return np.argpartition(-array, count - 1, axis=1)[:, :count]
