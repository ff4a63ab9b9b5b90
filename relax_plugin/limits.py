"""Limits: what each row may become under the space's and the call's constraints, and the projection onto it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Limits:
    """Bounds, grids, directions and frozen features of a batch of rows.

    `low`, `high`, `frozen` have shape (1 or rows, features), `choices` (1 or rows, all categories): one row when the
    whole batch shares them (a call), one a row when each has its own (training under random constraints).
    """

    low: Floats
    high: Floats
    frozen: Booleans
    choices: Booleans
    anchor: Floats
    step: Floats
    decimals: np.ndarray[Any, np.dtype[np.int64]]
    direction: np.ndarray[Any, np.dtype[np.int64]]
    single_precision: Booleans
    category_offsets: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def is_categorical(self) -> Booleans:
        return np.diff(self.category_offsets) > 0

    def rows(self, index: np.ndarray[Any, Any]) -> "Limits":
        """The limits of some of the rows."""

        def pick(array: Any) -> Any:
            return array if len(array) == 1 else array[index]

        return replace(
            self, low=pick(self.low), high=pick(self.high), frozen=pick(self.frozen), choices=pick(self.choices)
        )

    def movable(self, start: Floats) -> Booleans:
        """Whether each row has a feature that may change (rows,)."""
        low, high = self.span(start)
        able = (low != start) | (high != start)
        for j in np.flatnonzero(self.is_categorical):
            categories = np.arange(self.category_offsets[j + 1] - self.category_offsets[j])
            chosen = self.choices[:, self.category_offsets[j] : self.category_offsets[j + 1]]
            other = (
                (categories != start[:, j, None]) & (categories >= low[:, j, None]) & (categories <= high[:, j, None])
            )
            able[:, j] = (chosen & other).any(axis=1)
        return np.asarray(able.any(axis=1))

    def span(self, start: Floats) -> tuple[Floats, Floats]:
        """Lowest and highest value each feature of each row may be changed to; its own value where there is none.

        The ends lie on the feature's grid and keep its direction, so that a move to them needs no correction. A value
        outside the bounds has both ends on one side: it may stay, or come back in, never go further out.
        """
        low, high = self._ends(start)
        fixed = (low > high) | self.frozen
        return np.where(fixed, start, low), np.where(fixed, start, high)

    def project(self, values: Floats, start: Floats) -> Floats:
        """Move every proposed cell to the nearest one allowed; cells equal to the start stay as they are."""
        low, high = self._ends(start)
        moved = np.clip(self.round_to_grid(np.clip(values, low, high)), low, high)
        keep = self.frozen | (low > high) | (values == start)
        if self.is_categorical.any():
            keep = keep | ~self._chosen(values)
        return np.where(keep, start, moved)

    def round_to_grid(self, values: Floats) -> Floats:
        """The nearest value of each feature's grid, as the user would write it, in the precision of its dtype."""
        return self._snap(values, np.round, 0.0)

    def round_cells(self, values: Floats, feature: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
        """`round_to_grid` for one cell a row, that of the given feature."""
        return self._snap(values, np.round, 0.0, feature)

    def kept(self, values: Floats, start: Floats) -> Booleans:
        """Whether every changed cell of each row keeps every constraint."""
        return np.asarray(((values == start) | (self.project(values, start) == values)).all(axis=1))

    def _ends(self, start: Floats) -> tuple[Floats, Floats]:
        """Lowest and highest grid value under bounds and direction; low > high where there is none."""
        low = np.where(self.direction > 0, np.maximum(self.low, start), self.low)
        high = np.where(self.direction < 0, np.minimum(self.high, start), self.high)
        return self._snap(low, np.ceil, -1.0), self._snap(high, np.floor, 1.0)

    def _snap(self, values: Floats, whole: Any, slack: float, feature: Any = ...) -> Floats:
        step, anchor, single = self.step[feature], self.anchor[feature], self.single_precision[feature]
        tens = 10.0 ** self.decimals[feature]
        length = np.where(step > 0, step, 1.0)
        steps = (values - anchor) / length
        # 0.3 / 0.1 must count as three steps, not 2.9999999999999996; of many steps the last digits are less sure.
        unsure = 1e-9 + 4 * np.finfo(np.float64).eps * np.minimum(np.abs(steps), 1e15)
        snapped = anchor + whole(steps + slack * unsure) * length
        values = np.where(step > 0, np.round(snapped * tens) / tens, values)
        if single.any():
            values = np.where(single, values.astype(np.float32).astype(np.float64), values)
        return values

    def _chosen(self, values: Floats) -> Booleans:
        """Whether the proposed category is one that may be chosen; True for numbers."""
        counts = np.diff(self.category_offsets)
        chosen = np.ones(values.shape, dtype=bool)
        for j in np.flatnonzero(self.is_categorical):
            code = values[:, j].astype(int)
            inside = (code >= 0) & (code < counts[j]) & (code == values[:, j])
            rows = np.arange(len(values)) if len(self.choices) > 1 else 0
            position = self.category_offsets[j] + np.clip(code, 0, counts[j] - 1)
            chosen[:, j] = inside & self.choices[rows, position]
        return chosen
