"""Local outlier factor of rows of numbers and category codes; its cost does not grow with the number of categories."""

from functools import cache
from typing import Any, Self

import numpy as np

from relax_plugin.arrays import Floats, Integers

PAIRS_AT_ONCE = 250_000  # of a row to score and a training row: 3 MB, which processors keep near
BLOCKS = 8  # of training rows for each neighbour that is looked for
ROUNDING = 1e-12  # relative error of a squared distance from a matrix product
LARGEST = 1e100  # a number beyond it counts as this one, whose square is finite


class OutlierFactor:
    """The local outlier factor (Breunig et al., 2000), as scikit-learn's LocalOutlierFactor with `novelty=True`.

    Two codes that differ are as far apart as two categories of a one-hot encoding. Neighbours are found exactly, and of
    those equally far away the first ones in the training rows count, so that a row has the same score in any batch.

    Parameters
    ----------
    numbers : int
        How many columns are numbers; the others, which follow them, are category codes from 0.
    neighbours : int
        Fewer than the training rows.
    """

    def __init__(self, numbers: int, neighbours: int) -> None:
        self.numbers = numbers
        self.neighbours = neighbours

    def fit(self, rows: Floats) -> Self:
        """Keep the training rows with the density around each of them."""
        self.columns, self.codes = self._parts(rows)
        squares = (self.columns**2).sum(axis=0)
        self._largest = squares.max(initial=0.0)
        # A row x, and a 1 behind it, times this: half the squared distance of each training row, less half of x's norm.
        self._product = np.vstack([-self.columns, squares / 2])
        near, distance = self._nearest(rows, self.neighbours + 1)
        itself = near == np.arange(len(rows))[:, None]
        itself[~itself.any(axis=1), -1] = True  # more equal rows than neighbours
        near, distance = (part[~itself].reshape(len(rows), -1) for part in (near, distance))
        self.reach = distance[:, -1]  # how far away the last neighbour of each training row is
        self.density = self._density(near, distance)
        self.negative_outlier_factor_ = -self.density[near].mean(axis=1) / self.density
        return self

    def score_samples(self, rows: Floats) -> Floats:
        """The negative factor of each row: about -1 among training rows, the less the farther outside."""
        near, distance = self._nearest(rows, self.neighbours)
        return np.asarray(-self.density[near].mean(axis=1) / self._density(near, distance))

    def _density(self, near: Integers, distance: Floats) -> Floats:
        return np.asarray(1 / (np.maximum(distance, self.reach[near]).mean(axis=1) + 1e-10))

    def _parts(self, rows: Floats) -> tuple[Floats, Integers]:
        """The columns (column, row) of numbers, and those of codes."""
        columns = np.ascontiguousarray(rows.T)
        return np.clip(columns[: self.numbers], -LARGEST, LARGEST), columns[self.numbers :].astype(np.int32)

    def _nearest(self, rows: Floats, count: int) -> tuple[Integers, Floats]:
        """Positions and distances (row, neighbour) of so many nearest training rows."""
        near, distance = np.empty((len(rows), count), dtype=np.int64), np.empty((len(rows), count))
        step = max(PAIRS_AT_ONCE // self.codes.shape[1], 1)
        with _threads().limit(limits=1, user_api="blas"):  # for small products, threads wait longer than they work
            for first in range(0, len(rows), step):
                at = slice(first, first + step)
                near[at], distance[at] = self._nearest_at_once(rows[at], count)
        return near, distance

    def _nearest_at_once(self, rows: Floats, count: int) -> tuple[Integers, Floats]:
        columns, codes = self._parts(rows)
        total = self.codes.shape[1]
        unequal = np.zeros((len(rows), total), dtype=np.min_scalar_type(len(codes)))
        for mine, theirs in zip(codes, self.codes, strict=True):
            unequal += mine[:, None] != theirs
        halves = np.vstack([columns, np.ones(len(rows))]).T @ self._product
        halves += unequal
        # The nearest of each block are at least as far away as so many nearest of all: few rows are left to compare.
        size = max(total // (BLOCKS * count), 1)
        blocks = halves[:, : total // size * size].reshape(len(rows), size, -1).min(axis=1)
        bound = np.partition(blocks, count - 1, axis=1)[:, count - 1]
        bound += ROUNDING * ((columns**2).sum(axis=0) + self._largest + len(codes))
        row, near = np.divmod(np.flatnonzero(halves <= bound[:, None]), total)
        squared = np.zeros(len(row))
        for number, column in zip(columns, self.columns, strict=True):
            squared += (number[row] - column[near]) ** 2
        squared += 2.0 * unequal[row, near]
        order = np.lexsort((squared, row))
        first = np.searchsorted(row, np.arange(len(rows)))
        chosen = order[first[:, None] + np.arange(count)]
        return near[chosen], np.sqrt(squared[chosen])


@cache
def _threads() -> Any:
    """What sets the number of threads of linear algebra, as scikit-learn does."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
