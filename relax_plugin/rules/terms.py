"""The terms of a rule that is bound to columns: what they are in many rows at once, and whether they hold.

Values carry how far rounding may have moved them, so that `a + b + c == 100` holds for decimals: the relative error of
the largest term involved. Whole numbers are exact, and compared exactly.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats

ROUNDING = 1e-9  # relative to the largest term: what counts as equal
EXACT = 2.0**53  # whole numbers below are exact as float64

OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

Cells: TypeAlias = Mapping[Hashable, Array]


class Rows(NamedTuple):
    """The cells of some rows, and those that their queries have."""

    after: Cells
    before: Cells

    def replaced(self, column: Hashable, values: Array) -> "Rows":
        """The rows with other values in one column; the queries stay."""
        return Rows({**self.after, column: values}, self.before)


class Measured(NamedTuple):
    """Values, how far rounding may have moved each, and whether they are whole numbers, which are exact."""

    value: Floats
    error: Floats
    whole: Booleans


@dataclass(frozen=True)
class Constant:
    value: float

    def measure(self, rows: Rows) -> Measured:
        return _leaf(np.float64(self.value), ROUNDING)


@dataclass(frozen=True)
class Column:
    """The cells of a column, `was` in the query; categories are positions."""

    name: Hashable
    was: bool
    rounding: float = ROUNDING

    def values(self, rows: Rows) -> Floats:
        return np.asarray((rows.before if self.was else rows.after)[self.name], dtype=np.float64)

    def measure(self, rows: Rows) -> Measured:
        return _leaf(self.values(rows), self.rounding)


@dataclass(frozen=True)
class Place:
    """The place of an ordered category in its order, from 1 on; of one that is not in it there is none."""

    column: Column
    known: int  # categories

    def measure(self, rows: Rows) -> Measured:
        position = self.column.values(rows)
        return _leaf(np.where(position < self.known, position + 1.0, np.nan), ROUNDING)


def _leaf(value: Any, rounding: float) -> Measured:
    size = np.abs(value)
    return Measured(value, rounding * size, (np.rint(value) == value) & (size < EXACT))


@dataclass(frozen=True)
class Sum:
    terms: tuple["Term", ...]
    signs: tuple[int, ...]

    def measure(self, rows: Rows) -> Measured:
        parts = [term.measure(rows) for term in self.terms]
        value = reduce(np.add, (sign * part.value for sign, part in zip(self.signs, parts, strict=True)))
        whole = reduce(np.logical_and, (part.whole for part in parts))
        return Measured(value, reduce(np.maximum, (part.error for part in parts)), whole & (np.abs(value) < EXACT))


@dataclass(frozen=True)
class Product:
    factors: tuple["Term", ...]
    divides: tuple[bool, ...]

    def measure(self, rows: Rows) -> Measured:
        value, error, whole = self.factors[0].measure(rows)
        for factor, divides in zip(self.factors[1:], self.divides[1:], strict=True):
            other = factor.measure(rows)
            if divides:
                by = np.where(other.value == 0, np.nan, other.value)
                quotient = value / by
                error = np.maximum(error / np.abs(by), np.abs(quotient) * other.error / np.abs(by))
                value, whole = quotient, whole & False
            else:
                error = np.maximum(error * np.abs(other.value), np.abs(value) * other.error)
                value = value * other.value
                whole = whole & other.whole & (np.abs(value) < EXACT)
        return Measured(value, error, whole)


@dataclass(frozen=True)
class Absolute:
    term: "Term"

    def measure(self, rows: Rows) -> Measured:
        part = self.term.measure(rows)
        return part._replace(value=np.abs(part.value))


@dataclass(frozen=True)
class Extreme:
    """The smaller or the larger of two terms."""

    largest: bool
    terms: tuple["Term", "Term"]

    def measure(self, rows: Rows) -> Measured:
        one, other = (term.measure(rows) for term in self.terms)
        value = np.maximum(one.value, other.value) if self.largest else np.minimum(one.value, other.value)
        first = value == one.value
        return Measured(value, np.where(first, one.error, other.error), np.where(first, one.whole, other.whole))


Term: TypeAlias = Constant | Column | Place | Sum | Product | Absolute | Extreme


@dataclass(frozen=True)
class NumberComparison:
    """Two numbers compared; where one of them is not defined (divided by zero), neither this nor its opposite holds."""

    left: Term
    operator: str
    right: Term

    def residual(self, rows: Rows) -> tuple[Floats, Floats]:
        """The left less the right side, and how far rounding may have moved it."""
        left, right = self.left.measure(rows), self.right.measure(rows)
        unsure = np.where(left.whole & right.whole, 0.0, np.maximum(left.error, right.error))
        return np.asarray(left.value - right.value), unsure

    def holds(self, rows: Rows) -> Booleans:
        difference, unsure = self.residual(rows)
        equal = np.abs(difference) <= unsure
        kept = {
            "==": equal,
            "!=": ~equal,
            "<": (difference < 0) & ~equal,
            "<=": (difference < 0) | equal,
            ">": (difference > 0) & ~equal,
            ">=": (difference > 0) | equal,
        }[self.operator]
        return np.asarray(kept & np.isfinite(difference))


@dataclass(frozen=True)
class Among:
    """Whether a category is among some, or is not."""

    column: Column
    positions: tuple[int, ...]
    wanted: bool

    def holds(self, rows: Rows) -> Booleans:
        return np.asarray(np.isin(self.column.values(rows), self.positions) == self.wanted)


@dataclass(frozen=True)
class LabelComparison:
    """Two categories compared by their labels, or by their places in the order that both columns have.

    Positions from `known` on are texts that are none of the categories: they are equal only to themselves in the same
    column, and where else an order of them is asked for, neither this nor its opposite holds.
    """

    left: Column
    operator: str
    right: Column | Constant
    known: int  # categories of the left column
    translation: tuple[float, ...] | None = None  # the left column's positions of the right column's categories

    def holds(self, rows: Rows) -> Booleans:
        left = self.left.values(rows)
        right = self.right.values(rows) if isinstance(self.right, Column) else np.float64(self.right.value)
        if self.translation is not None:
            known = right < len(self.translation)
            right = np.where(known, np.asarray(self.translation)[np.where(known, right, 0).astype(int)], np.inf)
        same = isinstance(self.right, Column) and self.right.name == self.left.name
        equal = (left == right) & (same | (left < self.known))
        if self.operator in ("==", "!="):
            return np.asarray(equal == (self.operator == "=="))
        ordered = (left < self.known) & (right < self.known)
        return np.asarray(np.where(ordered, ORDERS[self.operator](left, right), equal & ("=" in self.operator)))


@dataclass(frozen=True)
class Junction:
    """Conditions of which all have to hold, or at least one."""

    every: bool
    parts: tuple["Condition", ...]

    def holds(self, rows: Rows) -> Booleans:
        join = np.logical_and if self.every else np.logical_or
        return np.asarray(reduce(join, (part.holds(rows) for part in self.parts)))


Atom: TypeAlias = NumberComparison | Among | LabelComparison
Condition: TypeAlias = Atom | Junction


def atoms(condition: Condition) -> Iterator[Atom]:
    """The comparisons that a condition consists of."""
    if not isinstance(condition, Junction):
        yield condition
        return
    for part in condition.parts:
        yield from atoms(part)


def columns_of(part: Condition | Term) -> Iterator[Column]:
    """The columns that a condition or a term mentions; one that is mentioned twice comes twice."""
    match part:
        case Column():
            yield part
        case Among(column=column) | Place(column=column):
            yield column
        case Absolute(term=term):
            yield from columns_of(term)
        case Sum(terms=parts) | Extreme(terms=parts):
            for one in parts:
                yield from columns_of(one)
        case Product(factors=parts):
            for one in parts:
                yield from columns_of(one)
        case Junction(parts=conditions):
            for condition in conditions:
                yield from columns_of(condition)
        case NumberComparison(left=left, right=right) | LabelComparison(left=left, right=right):
            yield from columns_of(left)
            yield from columns_of(right)
