"""Look: which single changes of rows bring them to their goals, told by the masks of a tree ensemble.

numba does it, where it is installed and can keep what it compiles; else numpy, which is slower and says the same.
"""

from typing import Any, NamedTuple

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


class Look:
    """Looks by numpy alone."""

    def __init__(self, masks: Masks, target: Target, costs: Costs) -> None:
        self.masks, self.target, self.home, self.far = masks, target, costs.home, costs.distances()

    def best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        """The nearest change that meets the goal, and the `width` best of those that miss it, nearer than `room`.

        What misses is worth by how much, less the distance times a `price` for each query. Features that are changed
        already stay as they are.
        """
        size = max(1, CHUNK_SCORES // (self.masks.cells * max(self.masks.outputs, self.target.offset.shape[1])))
        chunks = [slice(first, first + size) for first in range(0, max(len(rows), 1), size)]
        parts = [self._best_changes(rows[i], owner[i], room[i], width, price) for i in chunks]
        return Changes(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        masks, place = self.masks, np.arange(len(rows))
        total, scores = masks.profile_of_rows(rows)
        margin = self._margin(scores, owner)
        unchanged = (rows == self.home[owner])[:, masks.owner]
        far = np.where(unchanged, self.far[owner], np.inf)
        far[far >= room[:, None]] = np.inf
        near = np.where(margin > 0, far, np.inf)
        cell = near.argmin(axis=1)
        met = np.isfinite(near[place, cell])
        spent = price[owner, None] * np.where(np.isinf(far), 0, far)
        worth = np.where((margin > 0) | np.isinf(far), -np.inf, margin - spent)
        top, worth = self._best_of_features(worth, width)
        return Changes(
            np.where(met, cell, -1),
            np.where(met, near[place, cell], np.inf),
            np.where(met, margin[place, cell], -np.inf),
            self._margin(total[:, None], owner)[:, 0],
            top,
            worth,
        )

    def margins(self, rows: Array, owner: Integers) -> Floats:
        """By how much the rows themselves meet their goals."""
        return self._margin(self.masks.sums(rows)[:, None], owner)[:, 0]

    def _best_of_features(self, worth: Floats, width: int) -> tuple[Array, Floats]:
        """The features' best cells that are worth most, and what they are worth."""
        first, cells = self.masks.table.first[:-1], self.masks.cells
        best = np.maximum.reduceat(worth, first, axis=1)
        which = np.where(worth == best[:, self.masks.owner], np.arange(cells), cells)
        at = np.where(np.isfinite(best), np.minimum.reduceat(which, first, axis=1), -1)
        missing = ((0, 0), (0, max(0, width - len(first))))
        best, at = np.pad(best, missing, constant_values=-np.inf), np.pad(at, missing, constant_values=-1)
        chosen = np.argpartition(-best, width - 1, axis=1)[:, :width]
        return np.take_along_axis(at, chosen, axis=1), np.take_along_axis(best, chosen, axis=1)

    def _margin(self, scores: Floats, owner: Integers) -> Floats:
        """By how much scores (rows, cells, outputs) meet the goals of their queries (rows, cells)."""
        target = self.target
        sums = np.repeat(target.offset[owner][:, None], scores.shape[1], axis=1)
        for index, sign in ((target.plus[owner], 1.0), (target.minus[owner], -1.0)):
            chosen = np.take_along_axis(scores, np.maximum(index, 0)[:, None], axis=2)
            sums += sign * np.where(index[:, None] >= 0, chosen, 0.0)
        sums = sums.reshape(*sums.shape[:2], target.groups, sums.shape[2] // target.groups)
        worst = sums.min(axis=3)
        if target.rate:
            others = np.logaddexp.reduce(-target.rate * sums, axis=3)
            worst = np.minimum(worst, (target.least - others) / target.rate)
        return np.asarray(worst.max(axis=2))


class CompiledLook(Look):
    """Looks by the compiled kernel."""

    def __init__(self, kernel: Any, masks: Masks, target: Target, costs: Costs) -> None:
        super().__init__(masks, target, costs)
        self.kernel, self.work = kernel, kernel.Work.of(masks.table)

    def best_changes(self, rows: Array, owner: Integers, room: Floats, width: int, price: Floats) -> Changes:
        table, target, work = self.masks.table, self.target, self.work
        return Changes(
            *self.kernel.best_changes(table, target, self.home, self.far, rows, owner, room, width, price, work)
        )

    def margins(self, rows: Array, owner: Integers) -> Floats:
        return self.best_changes(rows, owner, np.zeros(len(rows)), 1, np.zeros(len(self.home))).itself
