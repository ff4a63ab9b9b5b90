"""Look: which single changes of rows bring them to their goals, told by the masks of a tree ensemble.

numba does it, where it is installed and can keep what it compiles; else numpy, which is slower and says the same.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from relax_plugin.arrays import Array, Floats, Integers
from relax_plugin.trees.aims import Aim
from relax_plugin.trees.costs import Costs
from relax_plugin.trees.masks import CHUNK_SCORES, Masks


class Target(NamedTuple):
    """The goals of queries as differences of scores, which must exceed 0: see `trees.aims.Aim`."""

    plus: Integers  # (queries, sums) the score that is added; -1 for none
    minus: Integers  # (queries, sums) the score that is subtracted
    offset: Floats  # (queries, sums)
    groups: int
    rate: float  # of a softmax; 0 without
    least: float

    @classmethod
    def of(cls, aim: Aim, margin: Floats, one_score: bool) -> "Target":
        """The aims, to be exceeded by a margin for each query; over the difference of two scores, if `one_score`."""
        weights = aim.weights[:, :, 1:] if one_score else aim.weights
        plus, minus = (
            np.where((sign * weights > 0).any(axis=2), (sign * weights).argmax(axis=2), -1) for sign in (1, -1)
        )
        rate = 0.0 if aim.shortfall is None else aim.trees.decision.slope / aim.trees.divisor
        least = 0.0 if aim.shortfall is None else float(aim.shortfall)
        return cls(plus, minus, aim.offset - margin[:, None], aim.groups, float(rate), least)


class Changes(NamedTuple):
    """The best single changes of some rows."""

    cell: Integers  # (rows,) the nearest that meets the goal; -1 if none does
    far: Floats  # (rows,) and its distance
    gap: Floats  # (rows,) and by how much it meets it
    itself: Floats  # (rows,) by how much the row itself meets the goal
    top: Array  # (rows, width) of the features' best changes that miss it the best ones, -1 for none, in no order
    worth: Floats  # (rows, width)


class Look(Protocol):
    def best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        """The nearest change that meets the goal, nearer than `room`, and the `width` best of those that miss it.

        What misses is worth by how much, less the distance times a `price` for each query.
        """

    def best_returns(self, rows: Array, owner: Integers) -> tuple[Integers, Floats]:
        """The feature, or -1, whose return to the query's own cell leaves a row with the widest margin; the margin."""


class NumpyLook:
    """Looks by numpy alone."""

    def __init__(self, masks: Masks, target: Target, costs: Costs) -> None:
        self.masks, self.target, self.home = masks, target, costs.home
        self.far = costs.distances()

    def best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        parts = [self._best_changes(rows[i], owner[i], room[i], width, price) for i in self._chunks(len(rows))]
        return Changes(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        masks, place = self.masks, np.arange(len(rows))
        total, scores = masks.profile_of_rows(rows)
        margin = self._margin(scores, owner)
        unchanged = (rows == self.home[owner])[:, masks.owner]
        far = np.where(unchanged, self.far[owner], np.inf)
        near = np.where((margin > 0) & (far < room[:, None]), far, np.inf)
        cell = near.argmin(axis=1)
        met = np.isfinite(near[place, cell])
        worth = np.where(
            (margin > 0) | np.isinf(far), -np.inf, margin - price[owner, None] * np.where(np.isinf(far), 0, far)
        )
        first = masks.table.first[:-1]
        best = np.maximum.reduceat(worth, first, axis=1)
        which = np.where(worth == best[:, masks.owner], np.arange(masks.cells), masks.cells)
        at = np.minimum.reduceat(which, first, axis=1)
        width_here = min(width, len(first))
        chosen = np.argpartition(-best, width_here - 1, axis=1)[:, :width_here]
        best, at = (np.take_along_axis(one, chosen, axis=1) for one in (best, at))
        best, at = (
            np.pad(one, ((0, 0), (0, width - width_here)), constant_values=-np.inf if one is best else -1)
            for one in (best, at)
        )
        return Changes(
            np.where(met, cell, -1),
            np.where(met, near[place, cell], np.inf),
            np.where(met, margin[place, cell], -np.inf),
            self._margin(total[:, None], owner)[:, 0],
            np.where(np.isfinite(best), at, -1),
            best,
        )

    def best_returns(self, rows: Array, owner: Integers) -> tuple[Integers, Floats]:
        parts = [self._best_returns(rows[i], owner[i]) for i in self._chunks(len(rows))]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _best_returns(self, rows: Array, owner: Integers) -> tuple[Integers, Floats]:
        margin = self._margin(self.masks.profile_of_rows(rows)[1], owner)
        home = self.home[owner]
        possible = (rows != home) & (home < self.masks.cells)
        back = np.take_along_axis(margin, np.where(possible, home, 0), axis=1)
        back = np.where(possible, back, -np.inf)
        feature, gap = back.argmax(axis=1), back.max(axis=1)
        return np.where(np.isfinite(gap), feature, -1), gap

    def _chunks(self, count: int) -> list[slice]:
        size = max(1, CHUNK_SCORES // (self.masks.cells * max(self.masks.outputs, self.target.offset.shape[1])))
        return [slice(first, first + size) for first in range(0, max(count, 1), size)]

    def _margin(self, scores: Floats, owner: Integers) -> Floats:
        """By how much scores (rows, cells, outputs) meet the goals of their queries (rows, cells)."""
        target = self.target
        sums = np.repeat(target.offset[owner][:, None], scores.shape[1], axis=1)
        for index, sign in ((target.plus[owner], 1.0), (target.minus[owner], -1.0)):
            chosen = np.take_along_axis(scores, np.maximum(index, 0)[:, None], axis=2)
            sums += sign * np.where(index[:, None] >= 0, chosen, 0.0)
        sums = sums.reshape(*sums.shape[:2], target.groups, -1)
        worst = sums.min(axis=3)
        if target.rate:
            others = np.logaddexp.reduce(-target.rate * sums, axis=3)
            worst = np.minimum(worst, (target.least - others) / target.rate)
        return np.asarray(worst.max(axis=2))


class CompiledLook:
    """Looks by the compiled kernel."""

    def __init__(self, kernel: Any, masks: Masks, target: Target, costs: Costs) -> None:
        self.kernel, self.table, self.target, self.home = kernel, masks.table, target, costs.home
        open_ = np.ascontiguousarray(costs.open)
        self.far = kernel.distances(costs.cells, costs.start, costs.low, costs.high, costs.home, open_)

    def best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        return Changes(
            *self.kernel.best_changes(self.table, self.target, self.home, self.far, rows, owner, room, width, price)
        )

    def best_returns(self, rows: Array, owner: Integers) -> tuple[Integers, Floats]:
        found: tuple[Integers, Floats] = self.kernel.best_returns(self.table, self.target, self.home, rows, owner)
        return found
