"""Random rules that training rows keep, as a text or a function for the package, and in plain Python for the oracle."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz.real_tables import RealTable, floats, is_gap, quoted
from relax_plugin import Rule

KINDS = ("order", "was number", "label", "was label", "function", "group", "derived", "product")
ROUNDING = 1e-5  # relative: what float32 may be off

Row = dict[str, Any]


@dataclass(frozen=True)
class RealRule:
    """A rule about the columns that `a`, `b` and `c` pick; which there are not is none."""

    kind: str = "order"
    a: int = 0
    b: int = 1
    c: int = 0


class MadeRule:
    """A rule for one table: what is handed to the package, and whether a row keeps it."""

    def __init__(self, rule: RealRule, table: RealTable, training: pd.DataFrame) -> None:
        pairs = list(zip(table.names, table.columns, strict=True))
        numbers = [name for name, column in pairs if column.is_number]
        labels = {name: column for name, column in pairs if column.dtype in ("object", "str", "category", "ordered")}
        self.kind, self.handed = rule.kind, None
        self.one, self.other = (numbers[k % len(numbers)] if numbers else "" for k in (rule.a, rule.b))
        self.name, self.label, self.limit = "", "", 0.0
        one, other = quoted(self.one), quoted(self.other)
        if rule.kind == "group":
            if not (table.groups and numbers):
                return
            self.name = list(table.group_columns)[rule.c % len(table.groups)]
            columns = table.group_columns[self.name]
            self.label = columns[rule.b % len(columns)]
            rows = training[training[self.label] == 1]
            self.limit = most(rows, self.one)
            self.handed = f"{quoted(self.label)} == 0 or {one} <= {self.limit!r}"
        elif rule.kind in ("label", "was label"):
            if not (labels and numbers):
                return
            self.name = list(labels)[rule.c % len(labels)]
            known = labels[self.name].categories
            if rule.kind == "was label":
                self.handed = f"{quoted(self.name)} == was({quoted(self.name)}) or {one} >= was({one})"
                return
            self.label = known[rule.b % len(known)]
            seen = {cell for cell in training[self.name].tolist() if not is_gap(cell)}
            if self.label not in seen:
                return
            rows = training[[not is_gap(cell) and cell == self.label for cell in training[self.name].tolist()]]
            self.limit = most(rows, self.one)
            self.handed = f"not ({quoted(self.name)} in [{self.label!r}]) or {one} <= {self.limit!r}"
        elif rule.kind == "derived":
            if not table.formulas:
                return
            self.name = list(table.formulas)[rule.c % len(table.formulas)]
            self.limit = most(training, self.name)
            self.handed = f"{self.name} <= {self.limit!r}"
        elif len(numbers) < 2 or self.one == self.other:
            return
        elif rule.kind == "order":
            gaps = [a - b for a, b in zip(floats(training[self.one]), floats(training[self.other]), strict=True)]
            self.limit = float(np.nanmax([*gaps, 0.0])) + 1.0
            self.handed = f"{one} - {self.limit!r} <= {other}"
        elif rule.kind == "product":
            sizes = [a * b for a, b in zip(floats(training[self.one]), floats(training[self.other]), strict=True)]
            self.limit = float(np.nanmax([*sizes, 1.0])) + 1.0
            self.handed = f"{one} * {other} < {self.limit!r}"
        elif rule.kind == "was number":
            self.handed = f"{one} >= was({one}) or {other} <= was({other})"
        elif rule.kind == "function":
            self.handed = Rule(self.function, columns=[self.one, self.other], name="a function")

    def function(self, after: pd.DataFrame, before: pd.DataFrame) -> Any:
        """Numbers that both rise or both fall, or of which one stays."""
        moved = [np.array(floats(after[name])) - np.array(floats(before[name])) for name in (self.one, self.other)]
        return ~(moved[0] * moved[1] < 0)

    def keeps(self, after: Row, before: Row) -> bool:
        """Whether a row keeps it; what is missing breaks nothing."""
        a, b, was_a, was_b = (number(row, name) for row in (after, before) for name in (self.one, self.other))
        if self.kind == "group":
            return after[self.label] != 1 or missing(a) or a <= self.limit + slack(a)
        if self.kind == "label":
            return (
                is_gap(after[self.name]) or after[self.name] != self.label or missing(a) or a <= self.limit + slack(a)
            )
        if self.kind == "was label":
            known = not (is_gap(after[self.name]) or is_gap(before[self.name]) or missing(a, was_a))
            return not known or after[self.name] == before[self.name] or a >= was_a - slack(a)
        if self.kind == "derived":
            value = number(after, self.name)
            return missing(value) or value <= self.limit + slack(value)
        if self.kind == "order":
            return missing(a, b) or a - self.limit <= b + slack(max(abs(a), abs(b), self.limit))
        if self.kind == "product":
            return missing(a, b) or a * b < self.limit + slack(self.limit)
        if self.kind == "was number":
            return missing(a, b, was_a, was_b) or a >= was_a - slack(a) or b <= was_b + slack(b)
        return missing(a, b, was_a, was_b) or not (a - was_a) * (b - was_b) < -slack(1.0)


def most(rows: pd.DataFrame, name: str) -> float:
    return float(np.nanmax([*floats(rows[name]), 0.0])) + 0.5


def number(row: Row, name: str) -> float:
    return float("nan") if name not in row or is_gap(row[name]) else float(row[name])


def missing(*numbers: float) -> bool:
    return any(x != x for x in numbers)


def slack(size: float) -> float:
    return ROUNDING * (1.0 + abs(size))
