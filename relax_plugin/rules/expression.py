"""Rules and formulas over columns: one tree, and what it says of rows, or of all rows between two.

A term has a value in each row, and bounds over a box of rows. A condition is true of rows, or certain in a box. Values
carry how far rounding may have moved them, so that `a + b + c == 100` holds for decimals: the relative error of the
largest term involved. Whole numbers are exact, and compared exactly. Rounding never turns an order round, so that what
is computed at the ends of a box bounds what is computed in between.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.cached import cached_property

ROUNDING = 1e-9  # relative to the largest term: what counts as equal
EXACT = 2.0**53  # whole numbers below are exact as float64

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


class Value(NamedTuple):
    """Numbers, how far rounding may have moved each, and whether they are whole numbers, which are exact."""

    value: Any
    error: Any
    whole: Any


class Bounds(NamedTuple):
    """What a term is in each box at least and at most, NaN where nothing is known, and its largest error."""

    low: Any
    high: Any
    error: Any

    @property
    def size(self) -> Any:
        return np.maximum(np.abs(self.low), np.abs(self.high))


class Expression(ABC):
    """A part of a rule; `parts` are the terms or conditions that it consists of."""

    parts: "tuple[Any, ...]"

    @cached_property
    def columns(self) -> "tuple[Column, ...]":
        """The columns that it mentions, in the order of the text; one that `was` mentions too comes once more."""
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    def mentions(self, name: Hashable) -> bool:
        """Whether the value of a column decides about it, other than the query's."""
        return any(column.name == name and not column.was for column in self.columns)

    def divisors(self, name: Hashable) -> "Iterator[Term]":
        """The terms by which something is divided and that a column decides about."""
        for part in self.parts if self.mentions(name) else ():
            yield from part.divisors(name)


class Term(Expression):
    @abstractmethod
    def value(self, rows: Rows) -> Value:
        """What it is in each row."""

    @abstractmethod
    def bounds(self, low: Rows, high: Rows) -> Bounds:
        """What it can be in the rows between these."""

    def degree(self, name: Hashable) -> float:
        """0 where a column does not matter, 1 where the term is linear in it, and else more."""
        return inf if self.mentions(name) else 0.0


class Condition(Expression):
    @abstractmethod
    def holds(self, rows: Rows) -> Booleans:
        """Whether it is true of each row."""

    @abstractmethod
    def certain(self, low: Rows, high: Rows) -> Booleans:
        """Whether it is true of all rows between these, as far as bounds tell."""

    def comparisons(self) -> "Iterator[Condition]":
        """The conditions that `and` and `or` join."""
        yield self


def _leaf(value: Any, rounding: float) -> Value:
    size = np.abs(value)
    return Value(value, rounding * size, (np.rint(value) == value) & (size < EXACT))


@dataclass(frozen=True)
class Constant(Term):
    number: float
    parts = columns = ()

    def value(self, rows: Rows) -> Value:
        return _leaf(np.float64(self.number), ROUNDING)

    def bounds(self, low: Rows, high: Rows) -> Bounds:
        end = np.float64(self.number)
        return Bounds(end, end, ROUNDING * np.abs(end))


@dataclass(frozen=True)
class Column(Term):
    """The cells of a column, `was` in the query; categories are positions."""

    name: Hashable
    was: bool
    rounding: float = ROUNDING
    parts = ()

    @cached_property
    def columns(self) -> "tuple[Column, ...]":
        return (self,)

    def cells(self, rows: Rows) -> Floats:
        return np.asarray((rows.before if self.was else rows.after)[self.name], dtype=np.float64)

    def value(self, rows: Rows) -> Value:
        return _leaf(self.cells(rows), self.rounding)

    def bounds(self, low: Rows, high: Rows) -> Bounds:
        least, most = self.cells(low), self.cells(high)
        return Bounds(least, most, self.rounding * np.maximum(np.abs(least), np.abs(most)))

    def degree(self, name: Hashable) -> float:
        return float(self.mentions(name))


@dataclass(frozen=True)
class Place(Term):
    """The place of an ordered category in its order, from 1 on; of one that is not in it there is none."""

    parts: tuple[Column]
    known: int  # categories

    def value(self, rows: Rows) -> Value:
        position = self.parts[0].cells(rows)
        return _leaf(np.where(position < self.known, position + 1.0, np.nan), ROUNDING)

    def bounds(self, low: Rows, high: Rows) -> Bounds:
        first, last = self.parts[0].cells(low), self.parts[0].cells(high)
        least, most = (np.where(last < self.known, end + 1.0, np.nan) for end in (first, last))
        return Bounds(least, most, ROUNDING * np.abs(most))


@dataclass(frozen=True)
class Arithmetic(Term):
    """Terms joined by + - * / from left to right, whatever binds first; `signs` stand before each but the first."""

    parts: tuple[Term, ...]
    signs: tuple[str, ...]

    def value(self, rows: Rows) -> Value:
        values = [part.value(rows) for part in self.parts]
        result = values[0]
        for sign, other in zip(self.signs, values[1:], strict=True):
            result = VALUES[sign](result, other)
        return result

    def bounds(self, low: Rows, high: Rows) -> Bounds:
        bounds = [part.bounds(low, high) for part in self.parts]
        result = bounds[0]
        for sign, other in zip(self.signs, bounds[1:], strict=True):
            result = BOUNDS[sign](result, other)
        return result

    def degree(self, name: Hashable) -> float:
        degrees = [part.degree(name) for part in self.parts]
        result = degrees[0]
        for sign, other in zip(self.signs, degrees[1:], strict=True):
            result = {"*": result + other, "/": result if other == 0 else inf}.get(sign, max(result, other))
        return result

    def divisors(self, name: Hashable) -> Iterator[Term]:
        yield from super().divisors(name)
        yield from (
            part for sign, part in zip(self.signs, self.parts[1:], strict=True) if sign == "/" and part.mentions(name)
        )


def _added(one: Value, other: Value) -> Value:
    value = one.value + other.value
    return Value(value, np.maximum(one.error, other.error), one.whole & other.whole & (np.abs(value) < EXACT))


def _multiplied(one: Value, other: Value) -> Value:
    value = one.value * other.value
    error = np.maximum(one.error * np.abs(other.value), np.abs(one.value) * other.error)
    return Value(value, error, one.whole & other.whole & (np.abs(value) < EXACT))


def _divided(one: Value, other: Value) -> Value:
    by = np.where(other.value == 0, np.nan, other.value)
    value = one.value / by
    error = np.maximum(one.error / np.abs(by), np.abs(value) * other.error / np.abs(by))
    return Value(value, error, one.whole & False)


def _bounds_of_product(one: Bounds, other: Bounds) -> Bounds:
    ends = [a * b for a in one[:2] for b in other[:2]]
    error = np.maximum(one.error * other.size, one.size * other.error)
    return Bounds(reduce(np.minimum, ends), reduce(np.maximum, ends), error)


def _bounds_of_quotient(one: Bounds, other: Bounds) -> Bounds:
    across = (other.low <= 0) & (other.high >= 0)  # by zero somewhere: nothing is known
    by = [np.where(across, np.nan, end) for end in other[:2]]
    ends = [a / b for a in one[:2] for b in by]
    low, high = reduce(np.minimum, ends), reduce(np.maximum, ends)
    least = np.minimum(*np.abs(by))
    return Bounds(low, high, np.maximum(one.error / least, Bounds(low, high, 0.0).size * other.error / least))


VALUES: dict[str, Callable[[Value, Value], Value]] = {
    "+": _added,
    "-": lambda one, other: _added(one, other._replace(value=-other.value)),
    "*": _multiplied,
    "/": _divided,
}
BOUNDS: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "+": lambda one, other: Bounds(one.low + other.low, one.high + other.high, np.maximum(one.error, other.error)),
    "-": lambda one, other: Bounds(one.low - other.high, one.high - other.low, np.maximum(one.error, other.error)),
    "*": _bounds_of_product,
    "/": _bounds_of_quotient,
}


@dataclass(frozen=True)
class Absolute(Term):
    parts: tuple[Term]

    def value(self, rows: Rows) -> Value:
        part = self.parts[0].value(rows)
        return part._replace(value=np.abs(part.value))

    def bounds(self, low: Rows, high: Rows) -> Bounds:
        part = self.parts[0].bounds(low, high)
        across = (part.low <= 0) & (part.high >= 0)
        least = np.where(across, 0.0, np.minimum(np.abs(part.low), np.abs(part.high)))
        return Bounds(least, part.size, part.error)


@dataclass(frozen=True)
class Extreme(Term):
    """The smaller or the larger of two terms."""

    largest: bool
    parts: tuple[Term, Term]

    def value(self, rows: Rows) -> Value:
        one, other = (part.value(rows) for part in self.parts)
        value = np.maximum(one.value, other.value) if self.largest else np.minimum(one.value, other.value)
        first = value == one.value
        return Value(value, np.where(first, one.error, other.error), np.where(first, one.whole, other.whole))

    def bounds(self, low: Rows, high: Rows) -> Bounds:
        one, other = (part.bounds(low, high) for part in self.parts)
        pick = np.maximum if self.largest else np.minimum
        return Bounds(pick(one.low, other.low), pick(one.high, other.high), np.maximum(one.error, other.error))


@dataclass(frozen=True)
class Comparison(Condition):
    """Two numbers compared; where one of them is not defined (divided by zero), neither this nor its opposite holds."""

    sign: str
    parts: tuple[Term, Term]

    def residual(self, rows: Rows) -> tuple[Floats, Floats]:
        """The left less the right side, and how far rounding may have moved it."""
        left, right = (part.value(rows) for part in self.parts)
        unsure = np.where(left.whole & right.whole, 0.0, np.maximum(left.error, right.error))
        return np.asarray(left.value - right.value), unsure

    def degree(self, name: Hashable) -> float:
        return max(part.degree(name) for part in self.parts)

    def holds(self, rows: Rows) -> Booleans:
        difference, unsure = self.residual(rows)
        equal = np.abs(difference) <= unsure
        if self.sign in ("==", "!="):
            return np.asarray((equal == (self.sign == "==")) & np.isfinite(difference))
        return np.asarray(
            np.where(equal, "=" in self.sign, ORDERS[self.sign](difference, 0.0)) & np.isfinite(difference)
        )

    def certain(self, low: Rows, high: Rows) -> Booleans:
        left, right = (part.bounds(low, high) for part in self.parts)
        least, most = left.low - right.high, left.high - right.low
        error = np.maximum(left.error, right.error)
        held = {
            "==": (least == 0) & (most == 0),
            "!=": (most < -error) | (least > error),
            "<": most < -error,
            "<=": most <= 0,
            ">": least > error,
            ">=": least >= 0,
        }[self.sign]
        return np.asarray(held & np.isfinite(least) & np.isfinite(most))


@dataclass(frozen=True)
class Among(Condition):
    """Whether a category is among some, or is not."""

    parts: tuple[Column]
    positions: tuple[int, ...]
    wanted: bool

    def holds(self, rows: Rows) -> Booleans:
        return np.asarray(np.isin(self.parts[0].cells(rows), self.positions) == self.wanted)

    def certain(self, low: Rows, high: Rows) -> Booleans:
        first, last = self.parts[0].cells(low), self.parts[0].cells(high)
        places = np.unique(self.positions)
        count = ((first[:, None] <= places) & (places <= last[:, None])).sum(axis=1)
        known = count == (last - first + 1 if self.wanted else 0)
        return np.asarray(known & np.isfinite(first) & np.isfinite(last))


@dataclass(frozen=True)
class LabelComparison(Condition):
    """Two categories compared by their labels, or by their places in the order that both columns have.

    Positions from `known` on are texts that are none of the categories: they are equal only to themselves in the same
    column, and where else an order of them is asked for, neither this nor its opposite holds.
    """

    sign: str
    parts: tuple[Column, Column | Constant]
    known: int  # categories of the left column
    translation: tuple[float, ...] | None = None  # the left column's positions of the right column's categories

    def holds(self, rows: Rows) -> Booleans:
        left, right = (part.value(rows).value for part in self.parts)
        if self.translation is not None:
            known = right < len(self.translation)
            right = np.where(known, np.asarray(self.translation)[np.where(known, right, 0).astype(int)], np.inf)
        same = isinstance(self.parts[1], Column) and self.parts[1].name == self.parts[0].name
        equal = (left == right) & (same | (left < self.known))
        if self.sign in ("==", "!="):
            return np.asarray(equal == (self.sign == "=="))
        ordered = (left < self.known) & (right < self.known)
        return np.asarray(np.where(ordered, ORDERS[self.sign](left, right), equal & ("=" in self.sign)))

    def certain(self, low: Rows, high: Rows) -> Booleans:
        points = np.logical_and.reduce([column.cells(low) == column.cells(high) for column in self.columns])
        held = np.asarray(points & self.holds(low))
        if self.translation is not None:  # other categories, in another order
            return held
        left, right = (part.bounds(low, high) for part in self.parts)
        ordered = {
            "==": points & False,
            "!=": (left.high < right.low) | (left.low > right.high),
            "<": left.high < right.low,
            "<=": left.high <= right.low,
            ">": left.low > right.high,
            ">=": left.low >= right.high,
        }[self.sign]
        return np.asarray(held | (ordered & (left.high < self.known) & (right.high < self.known)))


@dataclass(frozen=True)
class Junction(Condition):
    """Conditions of which all have to hold, or at least one."""

    every: bool
    parts: tuple[Condition, ...]

    def holds(self, rows: Rows) -> Booleans:
        return self._joined(part.holds(rows) for part in self.parts)

    def certain(self, low: Rows, high: Rows) -> Booleans:
        return self._joined(part.certain(low, high) for part in self.parts)

    def _joined(self, held: Iterable[Booleans]) -> Booleans:
        return np.asarray(reduce(np.logical_and if self.every else np.logical_or, held))

    def comparisons(self) -> Iterator[Condition]:
        for part in self.parts:
            yield from part.comparisons()
