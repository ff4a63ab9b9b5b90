"""Spans: for each of some answers an interval of every number and a set of every category; and rows drawn from them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.features import FeatureSpace

AT_ENDS = 0.4  # of random numbers, how many for one in between lie at an end: there most that is wrong is


@dataclass
class Spans:
    """What the cells of some answers may be: `low` to `high` of numbers, the chosen ones of all categories.

    A cell that stays as it was delivered has an interval of one number, or one category.
    """

    space: FeatureSpace
    low: Floats  # (answers, features)
    high: Floats
    choices: Booleans  # (answers, all categories)

    @classmethod
    def of_points(cls, space: FeatureSpace, values: Floats) -> "Spans":
        """The spans that hold nothing but these rows."""
        choices = np.zeros((len(values), int(space.category_offsets[-1])), dtype=bool)
        for j in np.flatnonzero(space.is_categorical):
            first, last = space.category_offsets[j : j + 2]
            choices[:, first:last] = values[:, j, None] == np.arange(last - first)
        return cls(space, values.copy(), values.copy(), choices)

    def __len__(self) -> int:
        return len(self.low)

    @property
    def wide(self) -> Booleans:
        """Which cells may be more than what was delivered (answers, features)."""
        wide = self.low < self.high
        for j in np.flatnonzero(self.space.is_categorical):
            wide[:, j] = self.of_feature(j).sum(axis=1) > 1
        return np.asarray(wide)

    def take(self, index: Any) -> "Spans":
        return replace(self, low=self.low[index], high=self.high[index], choices=self.choices[index])

    def put(self, index: Any, part: "Spans") -> None:
        """Take over the spans of some of the answers."""
        self.low[index], self.high[index], self.choices[index] = part.low, part.high, part.choices

    def of_feature(self, j: Any) -> Booleans:
        """Which categories of a feature are chosen (answers, categories)."""
        first, last = self.space.category_offsets[j : j + 2]
        return self.choices[:, first:last]

    def drawn(self, owner: Integers, rng: np.random.Generator) -> Floats:
        """A random row of the span of each owner: numbers evenly, some at an end; categories evenly."""
        low, high = self.low[owner], self.high[owner]
        place = (rng.random(low.shape) * (1 + AT_ENDS) - AT_ENDS / 2).clip(0.0, 1.0)
        rows = np.where(low == high, low, low + place * (high - low))
        return self.on_grid(rows, owner, rng)

    def at_corners(self, owner: Integers, upper: Booleans, rng: np.random.Generator) -> Floats:
        """Corners of the spans: the high end of each number where `upper`, else the low one."""
        return self.on_grid(np.where(upper, self.high[owner], self.low[owner]), owner, rng)

    def on_grid(self, rows: Floats, owner: Integers, rng: np.random.Generator) -> Floats:
        """The rows with numbers that cells can hold, and categories drawn from the chosen ones."""
        low, high = self.low[owner], self.high[owner]
        rows = np.where(low == high, low, np.clip(self.space.grid.nearest(rows), low, high))
        for j in np.flatnonzero(self.space.is_categorical):
            several = np.flatnonzero(self.of_feature(j)[owner].sum(axis=1) > 1)
            if len(several):
                chosen = self.of_feature(j)[owner[several]]
                rows[several, j] = np.where(chosen, rng.random(chosen.shape), -1.0).argmax(axis=1)
        return rows
