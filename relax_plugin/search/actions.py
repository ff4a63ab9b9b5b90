"""ActionTable: the discrete-continuous actions of the paper (§4.1.2) and what they do to rows (§4.1.3)."""

from typing import Any, Literal

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits

LEAST_MAGNITUDE = 0.01  # of the way to the bound: a directional action always changes something


class ActionTable:
    """All discrete actions of a space, or of some of its features.

    Directional: two actions (up, down) for each numeric feature, whose magnitude in [0, 1] is a share of the way to
    the bound. Signed (the paper): one action a numeric feature, whose value in [-1, 1] is a share of the feature's
    range. In both, one action without a magnitude for each category.

    Of each action `sign` is +1 up, -1 down, 0 signed or categorical; `category` is the position of the category that it
    chooses, -1 for numeric features.
    """

    def __init__(
        self,
        space: FeatureSpace,
        style: Literal["directional", "signed"] = "directional",
        moved: Integers | None = None,
    ) -> None:
        self.moved = np.arange(len(space)) if moved is None else moved  # the features that there are actions for
        rows = []
        for j in self.moved:
            f = space.features[j]
            if f.kind == "categorical":
                rows += [(j, 0, position) for position in range(len(f.categories))]
            else:
                rows += [(j, 1, -1), (j, -1, -1)] if style == "directional" else [(j, 0, -1)]
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        self.feature, self.sign, self.category = np.array(table.T, order="C")
        self.range = np.array([f.high - f.low for f in space.features])
        self.space = space
        self.style = style

    def __len__(self) -> int:
        return len(self.feature)

    def allowed(self, start: Values, used: Booleans, span: tuple[Floats, Floats], limits: Limits) -> Booleans:
        """Which actions each row may take (rows, actions): feature not used yet, and room in that direction."""
        low, high = span
        free = ~used & ~limits.frozen
        up, down = free & (high > start), free & (low < start)
        room = np.where(self.sign > 0, up[:, self.feature], down[:, self.feature])
        room = np.where(self.sign == 0, (up | down)[:, self.feature], room)
        choosing = self.category >= 0
        if choosing.any():
            feature, category = self.feature[choosing], self.category[choosing]
            position = self.space.category_offsets[feature] + category
            inside = (low[:, feature] <= category) & (category <= high[:, feature])
            other = start[:, feature] != category
            room[:, choosing] = free[:, feature] & limits.choices[:, position] & inside & other
        return room

    def apply(
        self, values: Values, start: Values, span: tuple[Floats, Floats], limits: Limits, taken: Any, magnitude: Floats
    ) -> Values:
        """The rows after one action each."""
        rows, after = np.arange(len(values)), values.copy()
        after[rows, self.feature[taken]] = self.landing(start, span, limits, rows, taken, magnitude)
        return after

    def landing(
        self, start: Values, span: tuple[Floats, Floats], limits: Limits, rows: Integers, taken: Any, magnitude: Floats
    ) -> Floats:
        """What actions in these rows set their features to: rounded to the feature's grid and within its bounds."""
        feature, sign, category = self.feature[taken], self.sign[taken], self.category[taken]
        origin, low, high = start[rows, feature], span[0][rows, feature], span[1][rows, feature]
        origin = np.where(origin == limits.missing_codes[feature], low, origin)  # what is missing is filled from there
        step, whole = limits.grid.step[feature], limits.grid.step[feature] > 0
        if self.style == "directional":
            magnitude = np.clip(magnitude, LEAST_MAGNITUDE, 1.0)
            end = np.where(sign > 0, high, low)
            moved = origin + magnitude * (end - origin)
        else:
            reach = self.range[feature]
            sign = np.where(magnitude >= 0, 1, -1)
            moved = origin + np.clip(magnitude, -1.0, 1.0) * reach
        moved = limits.round_cells(moved, feature)
        # A change smaller than the grid becomes one step: an action always changes something.
        stuck = whole & (sign * (moved - origin) <= 0)
        moved = np.where(stuck, limits.round_cells(origin + sign * step, feature), moved)
        return np.asarray(np.where(category >= 0, category, np.clip(moved, low, high)))

    def reaching(
        self, start: Values, span: tuple[Floats, Floats], limits: Limits, feature: Integers, value: Floats
    ) -> tuple[Integers, Floats]:
        """The actions, one a row, that set these features to these values, and their magnitudes; -1 where none does."""
        rows = np.arange(len(start))
        origin, low, high = start[rows, feature], span[0][rows, feature], span[1][rows, feature]
        missing = limits.missing_codes[feature]
        origin, up = np.where(origin == missing, low, origin), value >= np.where(origin == missing, low, origin)
        known = np.append(self.feature, np.iinfo(np.int64).max)
        action = np.searchsorted(known, feature)
        chooses = self.space.is_categorical[feature]
        action = action + np.where(chooses, value.astype(int), (self.style == "directional") & ~up)
        able = np.isin(feature, self.moved) & (value != missing) & (action < len(self))
        able &= ~chooses | (self.category[np.where(able, action, 0)] == value)
        reach = np.where(up, high - origin, origin - low) if self.style == "directional" else self.range[feature]
        change = np.abs(value - origin) if self.style == "directional" else value - origin
        magnitude = np.where(chooses, 0.0, change / np.maximum(reach, np.finfo(float).tiny))
        return np.where(able, action, -1), magnitude
