"""Expressions over columns: one tree, evaluated for rows or for all rows between two.

A `Box` is `(rows,)`, or `(low, high)` for all rows in between. A term has a `Value` there: a number, or its least and
its most. A condition has a truth: of the rows, or of every row of the box as far as bounds tell. Values carry how far
rounding may have moved them, so that `a + b + c == 100` holds for decimals: the relative error of the largest term
involved. Whole numbers are exact, and compared exactly. Rounding never turns an order round, so that what is computed
at the ends of a box bounds what is computed in between.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.cached import cached_property

ROUNDING = 1e-9  # relative to the largest term: what counts as equal
EXACT = 2.0**53  # whole numbers below are exact as float64

Cells: TypeAlias = Mapping[Hashable, Array]


class Rows(NamedTuple):
    """The cells of some rows, and those that their queries have."""

    after: Cells
    before: Cells


Box: TypeAlias = tuple[Rows, ...]  # (rows,) or (low, high)


class Value(NamedTuple):
    """What a term is: a number, or the least and the most; NaN where nothing is known."""

    ends: tuple[Any, ...]
    error: Any  # how far rounding may have moved it
    whole: Any  # whether it is a whole number, which is exact; of a single number only

    @property
    def size(self) -> Any:
        return _size(self.ends)

    @classmethod
    def read(cls, ends: tuple[Any, ...], rounding: float) -> "Value":
        """The value of a cell or of a number in the text."""
        size = _size(ends)
        return cls(ends, rounding * size, (np.rint(ends[0]) == ends[0]) & (size < EXACT))


def _size(ends: tuple[Any, ...]) -> Any:
    return reduce(np.maximum, [np.abs(end) for end in ends])


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
    def value(self, box: Box) -> Value:
        """What it is in each row, or can be in each box."""

    def degree(self, name: Hashable) -> float:
        """0 where a column does not matter, 1 where the term is linear in it, and else more."""
        return inf if self.mentions(name) else 0.0


class Condition(Expression):
    @abstractmethod
    def truth(self, box: Box) -> Booleans:
        """Whether it is true of each row, or of all rows of each box, as far as bounds tell."""

    def holds(self, rows: Rows) -> Booleans:
        return self.truth((rows,))

    def certain(self, low: Rows, high: Rows) -> Booleans:
        return self.truth((low, high))

    def comparisons(self) -> "Iterator[Condition]":
        """The conditions that `and` and `or` join."""
        yield self


@dataclass(frozen=True)
class Constant(Term):
    number: float
    parts = columns = ()

    def value(self, box: Box) -> Value:
        return Value.read((np.float64(self.number),), ROUNDING)


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

    def value(self, box: Box) -> Value:
        return Value.read(tuple(self.cells(rows) for rows in box), self.rounding)

    def degree(self, name: Hashable) -> float:
        return float(self.mentions(name))


@dataclass(frozen=True)
class Place(Term):
    """The place of an ordered category in its order, from 1 on; of one that is not in it there is none."""

    parts: tuple[Column]
    known: int  # categories

    def value(self, box: Box) -> Value:
        places = [self.parts[0].cells(rows) for rows in box]
        return Value.read(tuple(np.where(places[-1] < self.known, place + 1.0, np.nan) for place in places), ROUNDING)


@dataclass(frozen=True)
class Absolute(Term):
    parts: tuple[Term]

    def value(self, box: Box) -> Value:
        part = self.parts[0].value(box)
        if len(part.ends) == 1:
            return part._replace(ends=(np.abs(part.ends[0]),))
        low, high = part.ends
        least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        return part._replace(ends=(least, part.size))


@dataclass(frozen=True)
class Calculation(Term):
    """Terms joined from left to right by + - * / min or max; `signs` stand before each term but the first."""

    parts: tuple[Term, ...]
    signs: tuple[str, ...]

    def value(self, box: Box) -> Value:
        values = [part.value(box) for part in self.parts]
        result = values[0]
        for sign, other in zip(self.signs, values[1:], strict=True):
            result = calculated(sign, result, other)
        return result

    def degree(self, name: Hashable) -> float:
        degrees = [part.degree(name) for part in self.parts]
        result = degrees[0]
        for sign, other in zip(self.signs, degrees[1:], strict=True):
            largest = max(result, other)
            curved = {"/": other, "min": largest, "max": largest}.get(sign, 0.0) > 0
            result = inf if curved else result + other if sign == "*" else largest
        return result

    def divisors(self, name: Hashable) -> Iterator[Term]:
        yield from super().divisors(name)
        steps = zip(self.signs, self.parts[1:], strict=True)
        yield from (part for sign, part in steps if sign == "/" and part.mentions(name))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


def calculated(sign: str, one: Value, other: Value) -> Value:
    """What an operator makes of two values. All of them take their least and their most at ends of both."""
    if sign == "/":  # by zero somewhere: nothing is known
        across = (other.ends[0] <= 0) & (other.ends[-1] >= 0)
        other = other._replace(ends=tuple(np.where(across, np.nan, end) for end in other.ends))
    found = [OPERATORS[sign](a, b) for a in one.ends for b in other.ends]
    ends = (found[0],) if len(found) == 1 else (reduce(np.minimum, found), reduce(np.maximum, found))
    whole = one.whole & other.whole
    if sign == "*":
        error = np.maximum(one.error * other.size, one.size * other.error)
    elif sign == "/":
        size, least = _size(ends), reduce(np.minimum, [np.abs(end) for end in other.ends])
        return Value(ends, np.maximum(one.error / least, size * other.error / least), whole & False)
    elif sign in ("min", "max") and len(ends) == 1:
        first = ends[0] == one.ends[0]
        return Value(ends, np.where(first, one.error, other.error), np.where(first, one.whole, other.whole))
    else:
        error = np.maximum(one.error, other.error)
    return Value(ends, error, whole & (np.abs(ends[0]) < EXACT))


# Of the least and the most that a difference can be, how far rounding may have moved it, and what counts as zero.
SIGNS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "==": lambda least, most, error, zero: (least >= -zero) & (most <= zero),
    "!=": lambda least, most, error, zero: (most < -error) | (least > error),
    "<": lambda least, most, error, zero: most < -error,
    "<=": lambda least, most, error, zero: most <= zero,
    ">": lambda least, most, error, zero: least > error,
    ">=": lambda least, most, error, zero: least >= -zero,
}


@dataclass(frozen=True)
class Comparison(Condition):
    """Two numbers compared; where one of them is not defined (divided by zero), neither this nor its opposite holds."""

    sign: str
    parts: tuple[Term, Term]

    def residual(self, box: Box) -> tuple[tuple[Any, ...], Any]:
        """The left less the right side, and how far rounding may have moved it."""
        left, right = (part.value(box) for part in self.parts)
        ends, error, _ = calculated("-", left, right)
        return ends, np.where(left.whole & right.whole, 0.0, error) if len(ends) == 1 else error

    def degree(self, name: Hashable) -> float:
        return max(part.degree(name) for part in self.parts)

    def truth(self, box: Box) -> Booleans:
        ends, error = self.residual(box)
        least, most = ends[0], ends[-1]
        zero = error if len(ends) == 1 else 0.0  # in a box there may be whole numbers, which are exact
        known = reduce(np.logical_and, [np.isfinite(end) for end in ends])
        return np.asarray(SIGNS[self.sign](least, most, error, zero) & known)


@dataclass(frozen=True)
class Among(Condition):
    """Whether a category is among some, or is not."""

    parts: tuple[Column]
    positions: tuple[int, ...]
    wanted: bool

    def truth(self, box: Box) -> Booleans:
        ends = [self.parts[0].cells(rows) for rows in box]
        if len(ends) == 1:
            return np.asarray(np.isin(ends[0], self.positions) == self.wanted)
        first, last = ends
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

    def truth(self, box: Box) -> Booleans:
        held = self._truth_of_rows(box[0])
        if len(box) == 1:
            return held
        held = reduce(np.logical_and, (column.cells(box[0]) == column.cells(box[1]) for column in self.columns), held)
        if self.translation is not None or self.sign == "==":  # other categories, in another order
            return held
        left, right = (part.value(box) for part in self.parts)
        apart = SIGNS[self.sign](left.ends[0] - right.ends[-1], left.ends[-1] - right.ends[0], 0.0, 0.0)
        return np.asarray(held | (apart & (left.ends[-1] < self.known) & (right.ends[-1] < self.known)))

    def _truth_of_rows(self, rows: Rows) -> Booleans:
        left, right = (part.value((rows,)).ends[0] for part in self.parts)
        if self.translation is not None:
            known = right < len(self.translation)
            right = np.where(known, np.asarray(self.translation)[np.where(known, right, 0).astype(int)], np.inf)
        same = isinstance(self.parts[1], Column) and self.parts[1].name == self.parts[0].name
        equal = (left == right) & (same | (left < self.known))
        if self.sign in ("==", "!="):
            return np.asarray(equal == (self.sign == "=="))
        ordered = (left < self.known) & (right < self.known)
        apart = left - right
        return np.asarray(np.where(ordered, SIGNS[self.sign](apart, apart, 0.0, 0.0), equal & ("=" in self.sign)))


@dataclass(frozen=True)
class Junction(Condition):
    """Conditions of which all have to hold, or at least one."""

    every: bool
    parts: tuple[Condition, ...]

    def truth(self, box: Box) -> Booleans:
        held = (part.truth(box) for part in self.parts)
        return np.asarray(reduce(np.logical_and if self.every else np.logical_or, held))

    def comparisons(self) -> Iterator[Condition]:
        for part in self.parts:
            yield from part.comparisons()
