"""What an answer may be, read off the certificate cell by cell: the checker's own code, which no method uses."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.asked import Asked
from relax_plugin.evaluation.whole_rows import RuleText, WholeRows
from relax_plugin.features import FeatureSpace
from relax_plugin.table.columns import Feature, float_bytes

SHORT = 15  # digits of a step that people write; longer ones are no decimals, and rounding is forgiven
TOLD = {
    "torn_groups": "in a one-hot group not exactly one column is set",
    "changed_gaps": "a missing cell was filled, or a value vanished, without leave",
    "altered_cells": "a derived column is not what its formula gives, or a cell changed that may not",
}


@dataclass(frozen=True)
class Allowed:
    """What one feature may become."""

    feature: Feature
    frozen: bool
    low: float  # of a number, as `high`
    high: float
    codes: tuple[int, ...]  # of the categories that may be chosen
    direction: int  # 1, -1 or 0

    def fault(self, before: float, after: float) -> str:
        """What is wrong with a changed cell, by its values; "" if nothing is."""
        name = f"feature {self.feature.name!r}"
        if self.frozen:
            return f"{name} is changed, and may not change."
        if self.feature.kind == "categorical":
            return self._fault_of_category(name, before, after)
        if after == self.feature.missing_code:
            return "" if self.feature.vanishable else f"{name} is missing in the answer, and may not vanish."
        if not self.low <= after <= self.high:
            return f"{name} is {after!r}, outside of {self.low!r} to {self.high!r}."
        if not on_grid(self.feature, after):
            told = f"{self.feature.anchor!r} + k * {self.feature.step!r}"
            return f"{name} is {after!r}, which is off its grid of {told}."
        if before != self.feature.missing_code and (after - before) * self.direction < 0:
            return f"{name} goes from {before!r} to {after!r}, against its direction."
        return ""

    def _fault_of_category(self, name: str, before: float, after: float) -> str:
        known = self.feature.categories
        if not (after % 1 == 0 and 0 <= after < len(known)):
            return f"{name} gets a category that it does not have."
        if int(after) not in self.codes:
            return f"{name} is {known[int(after)]!r}, which may not be chosen."
        if before < len(known) and (after - before) * self.direction < 0:
            return f"{name} goes from {known[int(before)]!r} to {known[int(after)]!r}, against its direction."
        return ""


def allowed_of(space: FeatureSpace, asked: Asked | None) -> list[Allowed]:
    """What each feature may become, by the space and by what the call said."""
    return [_allowed(feature, asked) for feature in space.features]


def _allowed(feature: Feature, asked: Asked | None) -> Allowed:
    name, frozen = feature.name, feature.immutable or feature.carried
    low, high = feature.low, feature.high
    codes = [code for code, chosen in enumerate(feature.choices) if chosen]
    direction = {"increase": 1, "decrease": -1}.get(str(feature.direction), 0)
    if asked is not None:
        frozen |= name in asked.immutable or (asked.vary is not None and name not in asked.vary)
        direction = 1 if name in asked.increase_only else -1 if name in asked.decrease_only else direction
        ends = asked.bounds.get(name)
        if ends is not None and feature.kind == "categorical":
            known = feature.categories
            codes = [code for code in codes if known[code] in ends or pd.isna(known[code])]
        elif ends is not None:
            first, last = (end[0] if isinstance(end, tuple) else end for end in ends)
            low, high = max(low, -np.inf if first is None else first), min(high, np.inf if last is None else last)
    return Allowed(feature, frozen, float(low), float(high), tuple(codes), direction)


def on_grid(feature: Feature, number: float) -> bool:
    """Whether a number is one that the feature's cells hold: a whole number of steps, counted in decimals."""
    size = float_bytes(feature.dtype)
    held: Any = {2: np.float16, 4: np.float32}.get(size, np.float64)
    if float(held(number)) != number:
        return False
    if feature.step is None:
        return True
    if feature.kind == "integer" and number % 1 != 0:
        return False
    step, anchor = Decimal(repr(float(feature.step))), Decimal(repr(float(feature.anchor)))
    rounding = float(np.finfo(held).eps) * (abs(number) + abs(feature.anchor))
    if feature.step <= 1.05 * rounding:  # cells cannot tell one step from the next
        return True
    count = ((Decimal(number) - anchor) / step).to_integral_value()
    point = float(anchor + count * step)
    if max(len(one.as_tuple().digits) for one in (step, anchor)) <= SHORT:
        return float(held(point)) == number
    return abs(point - number) <= 4 * rounding


def faults(
    space: FeatureSpace, asked: Asked | None, rows: tuple[pd.DataFrame, pd.DataFrame], values: tuple[Values, Values]
) -> Iterator[str]:
    """A sentence for everything that an answer breaks; `rows` and `values` are of the query and the answer."""
    start, end = values
    for allowed, before, after in zip(allowed_of(space, asked), map(float, start), map(float, end), strict=True):
        if before != after and (told := allowed.fault(before, after)):
            yield told
    count = int(np.count_nonzero(start != end))
    if asked is not None and count > asked.max_changes:
        yield f"{count} features are changed, and at most {asked.max_changes} may be."
    whole = WholeRows(space, *rows)
    if whole.broken_rules().any():
        after_cells, before_cells = whole.told_cells(whole.after), whole.told_cells(whole.before)
        for rule in space.rules:
            if rule.text is not None and RuleText(rule.text).broken(after_cells, before_cells).any():
                yield f"the rule {rule.text!r} is broken."
    for kind, told in TOLD.items():
        if whole.counts()[kind].any():
            yield f"{told}."
