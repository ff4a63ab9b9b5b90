"""Changes: proposals for many queries as short lists of changes, since of five hundred features five change."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace

SHORT_SHARE=0
SHORT_REACH=0.3
REACH = 1.4  # standard deviations over which errors of a world model are alike


@dataclass
class Changes:
    """Proposals of each query; unused places have feature -1 and length 0.

    Attributes
    ----------
    feature, value, length : arrays (queries, proposals, changes)
        `length` is signed, in standard deviations; the root of 2 for a category, so that two categories are as far
        apart as their one-hot columns.
    gap : array (queries, proposals)
        As imagined; infinite where there is no proposal.
    """

    feature: Integers
    value: Floats
    length: Floats
    gap: Floats

    @classmethod
    def none(cls, queries: int, proposals: int, depth: int) -> "Changes":
        shape = (queries, proposals, depth)
        return cls(np.full(shape, -1), np.zeros(shape), np.zeros(shape), np.full(shape[:2], np.inf))

    @property
    def count(self) -> Integers:
        return np.asarray((self.feature >= 0).sum(axis=-1))

    def distance(self, space: FeatureSpace) -> Floats:
        """L1 in standard deviations; a changed category counts 1."""
        length = np.abs(self.length)
        if space.is_categorical.any():
            length = np.where(space.is_categorical[self.feature] & (self.feature >= 0), 1.0, length)
        return np.asarray(length.sum(axis=-1))

    def of(self, queries: Any) -> "Changes":
        """The proposals of some of the queries."""
        return Changes(self.feature[queries], self.value[queries], self.length[queries], self.gap[queries])

    def at(self, position: Integers) -> "Changes":
        """Of each query the proposals at these positions (queries, some)."""
        deep = position[:, :, None]
        return Changes(
            np.take_along_axis(self.feature, deep, 1),
            np.take_along_axis(self.value, deep, 1),
            np.take_along_axis(self.length, deep, 1),
            np.take_along_axis(self.gap, position, 1),
        )

    def beside(self, other: "Changes") -> "Changes":
        """Both, as proposals of the same queries."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Changes(*(np.concatenate(pair, axis=1) for pair in pairs))

    def rows(self, start: Values) -> Values:
        """Every proposal as a row (queries, proposals, features)."""
        rows = np.repeat(start[:, None], self.gap.shape[1], axis=1)
        query, proposal, change = np.nonzero(self.feature >= 0)
        rows[query, proposal, self.feature[query, proposal, change]] = self.value[query, proposal, change]
        return rows

    def alike(self, one: "Changes", space: FeatureSpace) -> Floats:
        """How alike the world model's errors are at every proposal and at one proposal of its query; 1: the same."""
        product = np.zeros(self.gap.shape)
        for k in range(one.feature.shape[2]):
            feature, value, length = one.feature[:, :, k, None], one.value[:, :, k, None], one.length[:, :, k, None]
            common = np.where((self.feature == feature) & (feature >= 0), self.length * length, 0.0)
            if space.is_categorical.any():  # two other categories of one feature agree in not being the query's own
                common = np.where(space.is_categorical[feature] & (self.value != value), 0.5 * common, common)
            product += common.sum(axis=-1)
        squared = (self.length**2).sum(axis=-1) + (one.length**2).sum(axis=-1) - 2.0 * product
        return nearness(squared)


def nearness(squared: Floats) -> Floats:
    """How alike a world model's errors at two rows are, by their squared distance in standard deviations."""
    far = np.exp(squared * (-0.5 / REACH**2))
    if not SHORT_SHARE: return far
    return np.asarray((1 - SHORT_SHARE) * far + SHORT_SHARE * np.exp(squared * (-0.5 / SHORT_REACH**2)))


def largest(array: Floats, count: int) -> Integers:
    """Positions of the largest `count` of each row."""
    if count >= array.shape[1]:
        return np.tile(np.arange(array.shape[1]), (len(array), 1))
    return np.argpartition(-array, count - 1, axis=1)[:, :count]
