"""Moves: the single-feature changes that a search tries, and the steps that people count each number in."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem

QUANTILES = 20  # tried of each number
NATURAL = 0.9  # share of a column's values that a natural step must divide
STEPS = (1000, 500, 250, 200, 100, 50, 25, 20, 12, 10, 6, 5, 4, 3, 2)  # that people count in, in units of a decimal


@dataclass(frozen=True)
class Moves:
    """Single-feature changes: set `feature` to `value`, in the order of both.

    Bounds are infinite here and cut to each query's own.
    """

    feature: Integers
    value: Floats

    @classmethod
    def quantiles(cls, values: Values, space: FeatureSpace, count: int = QUANTILES) -> "Moves":
        """`count` quantiles of each number over the training rows, the outer two being the bounds; every category.

        A number with no more than `count` distinct values is tried at each of them.
        """
        features: list[Any] = []
        targets: list[Any] = []
        limits = space.limits()
        for j, feature in enumerate(space.features):
            if feature.kind == "categorical":
                own = np.arange(len(feature.categories), dtype=np.float64)
            else:
                known = values[values[:, j] != feature.missing_code, j]
                inner = np.unique(known)
                if len(inner) > count:
                    inner = np.unique(np.quantile(known, np.linspace(0, 1, count)))
                    inner = np.unique(limits.round_cells(inner, np.full(len(inner), j)))
                gone = [feature.missing_code] if feature.vanishable else []
                own = np.concatenate([[-np.inf], gone, inner[1:-1], [np.inf]])
            features.append(np.full(len(own), j))
            targets.append(own)
        return cls(np.concatenate(features).astype(np.int64), np.concatenate(targets))

    def thinned(self, count: int, space: FeatureSpace) -> "Moves":
        """At most `count` values of each number, evenly spaced among its own, and every category."""
        size = np.bincount(self.feature, minlength=len(space))
        place = np.arange(len(self.feature)) - np.searchsorted(self.feature, self.feature)
        last, apart = size[self.feature] - 1, max(count - 1, 1)
        # The k-th of those kept is the one at k / (count - 1) of the way; a move is kept if a k falls on it.
        falls = np.rint(np.rint(place * apart / np.maximum(last, 1)) * last / apart) == place
        kept = space.is_categorical[self.feature] | (last < count) | falls
        return Moves(self.feature[kept], self.value[kept])

    def landed(self, problem: Problem) -> tuple[Floats, Booleans]:
        """Where each move takes each query under its limits (queries, moves), and which moves change it.

        Of moves that lead to the same value only the first counts.
        """
        feature, start = self.feature, problem.start
        low, high = (end[:, feature] for end in problem.span)
        gone = self.value == problem.space.missing_codes[feature]
        wanted = np.where(gone, self.value, np.clip(self.value, low, high))
        landed = problem.limits.project(wanted, start, feature)
        new = landed != start[:, feature]
        new[:, 1:] &= (landed[:, 1:] != landed[:, :-1]) | (feature[1:] != feature[:-1])
        return landed, new

    def best_of_features(self, worth: Floats) -> tuple[Floats, Integers]:
        """The greatest worth (rows, moves) of each feature that has moves, and the first move that has it."""
        best = np.maximum.reduceat(worth, self._first, axis=1)
        place = np.where(worth == self.of_features(best), np.arange(len(self.feature)), len(self.feature))
        return best, np.minimum.reduceat(place, self._first, axis=1)

    def nearest(self, rows: Values) -> tuple[Integers, Integers]:
        """The features that have moves, and of each the move that comes nearest to its cell (rows, those features)."""
        features = self.feature[self._first]
        place = [np.searchsorted(middles, rows[:, j]) for j, middles in zip(features, self._middles, strict=True)]
        return features, np.stack(place, axis=1) + self._first

    @cached_property
    def _middles(self) -> list[Floats]:
        """Between which numbers each move of a feature is the nearest; beyond the outermost value it is the bound."""
        middles = []
        for value in np.split(self.value, self._first[1:]):
            inner = np.where(np.isfinite(value), value, np.nan)
            middle = 0.5 * (inner[1:] + inner[:-1])
            middle = np.where(np.isnan(middle), np.where(np.isnan(inner[1:]), inner[:-1], inner[1:]), middle)
            middles.append(np.maximum.accumulate(middle))
        return middles

    def of_features(self, known: Any) -> Any:
        """What is known of each feature that has moves (rows, features), for each of its moves (rows, moves)."""
        return np.repeat(known, np.diff(np.append(self._first, len(self.feature))), axis=1)

    def lengths(self, space: FeatureSpace, start: Values, landed: Floats) -> Floats:
        """What moves that land there add to the distance of rows (rows, moves)."""
        here = start[:, self.feature]
        length = np.abs(landed - here) * (space.prices / space.scale)[self.feature]
        return np.where(space.jumps(self.feature, here, landed), space.prices[self.feature], length)

    @cached_property
    def _first(self) -> Integers:
        return np.flatnonzero(np.diff(self.feature, prepend=-1))


def natural_steps(values: Values, space: FeatureSpace) -> Floats:
    """The step that people count each number in, such as 500, 12 or 0.1: nearly all values are its multiples.

    0 where there is none. The commonest value of a column is left out: a column of zeros says nothing.
    """
    steps = np.zeros(len(space))
    for j in np.flatnonzero(~space.is_categorical):
        steps[j] = _natural_step(values[values[:, j] != space.missing_codes[j], j])
    return steps


def repeated_values(rows: Values) -> list[Floats]:
    """The values that each column repeats, if nearly all rows hold such, without the commonest value; else none."""
    found = []
    for column in rows.T:
        seen, times = np.unique(column, return_counts=True)
        others = np.sort(times)[:-1]
        most = others.sum() > 0 and others[others > 1].sum() >= NATURAL * others.sum()
        found.append(seen[times > 1] if most else seen[:0])
    return found


def _natural_step(column: Floats) -> float:
    seen, times = np.unique(column, return_counts=True)
    if len(seen) == 0:  # every number is missing
        return 0.0
    if len(seen) > 1:
        others = seen != seen[times.argmax()]
        seen, times = seen[others], times[others]
    most = NATURAL * times.sum()
    for decimals in range(6):
        whole = seen * 10.0**decimals
        near = np.rint(whole)
        if times[np.abs(whole - near) < 1e-6 * np.maximum(1.0, np.abs(whole))].sum() < most:
            continue
        several = len(np.unique(near)) > 3
        steps = (step for step in STEPS if several and times[near % step == 0].sum() >= most)
        return float(next(steps, 1) / 10.0**decimals)
    return 0.0
