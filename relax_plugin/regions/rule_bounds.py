"""Rule bounds: whether all rows of a box keep the rules between columns, by arithmetic with intervals.

Sums, products and comparisons are computed at the ends of intervals in the order in which the rules compute them for
single rows. Rounding never turns an order round, so that the ends bound what is computed for any row in between.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.features import FeatureSpace
from relax_plugin.rules.binding import BoundRule
from relax_plugin.rules.rule import BoundFunction
from relax_plugin.rules.terms import (
    Absolute,
    Among,
    Column,
    Condition,
    Constant,
    Extreme,
    Junction,
    LabelComparison,
    NumberComparison,
    Place,
    Product,
    Rows,
    Sum,
    Term,
)


@dataclass(frozen=True)
class Interval:
    """Bounds of a term in each box, and how large its error of rounding can be."""

    low: Floats
    high: Floats
    error: Floats

    @property
    def size(self) -> Floats:
        return np.maximum(np.abs(self.low), np.abs(self.high))


@dataclass(frozen=True)
class Boxes:
    """Boxes of rows by the features' names, and the queries they belong to."""

    space: FeatureSpace
    low: Floats  # (boxes, features)
    high: Floats
    start: Floats

    def ends(self, column: Column) -> tuple[Floats, Floats]:
        j = self.space.names.index(column.name)
        ends = (self.start, self.start) if column.was else (self.low, self.high)
        gone = [end[:, j] == self.space.missing_codes[j] for end in ends]
        low, high = (np.where(lost, np.nan, end[:, j]) for end, lost in zip(ends, gone, strict=True))
        return low, high


class RuleBounds:
    """The rules of a space, as far as boxes are bounded by them."""

    def __init__(self, space: FeatureSpace, rules: Sequence[BoundRule | BoundFunction]) -> None:
        self.space, self.rules = space, rules

    def about(self, changed: Booleans) -> Booleans:
        """Which rules are about a changed cell of each answer (answers, rules); the others hold as delivered."""
        places = self.space.places_of_columns
        about = np.zeros((len(changed), len(self.rules)), dtype=bool)
        for number, rule in enumerate(self.rules):
            for name in rule.names:
                derived = self.space.inputs_of_derived
                inputs = derived[name] if name in derived else [places[name][0]]
                about[:, number] |= changed[:, inputs].any(axis=1)
        return about

    def bounded(self) -> Booleans:
        """Which rules can be bounded: texts about features, not functions, nor about derived or one-hot columns."""
        known = set(self.space.names) - {feature.name for feature in self.space.features if feature.columns}
        named: list[Hashable]
        able = []
        for rule in self.rules:
            named = [column.name for column in rule.columns] if isinstance(rule, BoundRule) else []
            able.append(isinstance(rule, BoundRule) and set(named) <= known)
        return np.array(able, dtype=bool)

    def prove(self, low: Floats, high: Floats, start: Floats, about: Booleans) -> Booleans:
        """Whether all rows of each box keep the rules that are `about` it (boxes, rules).

        The answer is in its box: a rule whose columns all stay as they were delivered is kept.
        """
        proved = np.ones(len(low), dtype=bool)
        for number in np.flatnonzero(about.any(axis=0)):
            some = np.flatnonzero(about[:, number] & proved)
            boxes = Boxes(self.space, low[some], high[some], start[some])
            rule = self.rules[int(number)]
            assert isinstance(rule, BoundRule)
            with np.errstate(all="ignore"):
                kept = holds(rule.condition, boxes)
            for column in rule.columns:  # a rule that mentions a missing cell counts as kept
                ends = boxes.ends(column)
                kept = kept | (np.isnan(ends[0]) & np.isnan(ends[1]))
            own = [column for column in rule.columns if not column.was]
            delivered = np.logical_and.reduce([np.equal(*boxes.ends(column)) for column in own])
            proved[some] = kept | delivered
        return proved


def holds(condition: Condition, boxes: Boxes) -> Booleans:
    """Whether a condition holds in all rows of each box, as far as bounds tell."""
    match condition:
        case Junction(every=every, parts=parts):
            join = np.logical_and if every else np.logical_or
            return np.asarray(reduce(join, (holds(part, boxes) for part in parts)))
        case NumberComparison():
            return _compared(condition, boxes)
        case Among(column=column, positions=positions, wanted=wanted):
            low, high = boxes.ends(column)
            places = np.unique(positions)
            count = ((low[:, None] <= places) & (places <= high[:, None])).sum(axis=1)
            return np.asarray(count == high - low + 1 if wanted else count == 0)
        case LabelComparison():
            return _labels_compared(condition, boxes)
    raise AssertionError(f"{condition} is no condition")


def _labels_compared(comparison: LabelComparison, boxes: Boxes) -> Booleans:
    columns = [side for side in (comparison.left, comparison.right) if isinstance(side, Column)]
    points = np.logical_and.reduce([np.equal(*boxes.ends(column)) for column in columns])
    after = {column.name: boxes.ends(column)[0] for column in columns if not column.was}
    before = {column.name: boxes.ends(column)[0] for column in columns if column.was}
    held = np.asarray(points & comparison.holds(Rows(after, before)))
    if comparison.translation is not None:  # other categories, in another order
        return held
    low, high = boxes.ends(comparison.left)
    right = comparison.right
    least, most = boxes.ends(right) if isinstance(right, Column) else (np.float64(right.value), np.float64(right.value))
    ordered = {
        "<": high < least,
        "<=": high <= least,
        ">": low > most,
        ">=": low >= most,
        "!=": (high < least) | (low > most),
        "==": points & False,
    }[comparison.operator]
    return np.asarray(held | (ordered & (high < comparison.known) & (most < comparison.known)))


def _compared(comparison: NumberComparison, boxes: Boxes) -> Booleans:
    left, right = bounds(comparison.left, boxes), bounds(comparison.right, boxes)
    low, high = left.low - right.high, left.high - right.low
    error = np.maximum(left.error, right.error)
    proved = {
        "<": high < -error,
        "<=": high <= 0,
        ">": low > error,
        ">=": low >= 0,
        "==": (low == 0) & (high == 0),
        "!=": (high < -error) | (low > error),
    }[comparison.operator]
    return np.asarray(proved & np.isfinite(low) & np.isfinite(high))


def bounds(term: Term, boxes: Boxes) -> Interval:
    """What a term is in the rows of each box at least and at most; NaN where nothing is known."""
    match term:
        case Constant(value=value):
            ends = np.full(len(boxes.low), float(value))
            return Interval(ends, ends, np.abs(ends) * 1e-9)
        case Column(rounding=rounding):
            low, high = boxes.ends(term)
            return Interval(low, high, rounding * np.maximum(np.abs(low), np.abs(high)))
        case Place(column=column, known=known):
            low, high = boxes.ends(column)
            low, high = (np.where(high < known, end + 1.0, np.nan) for end in (low, high))
            return Interval(low, high, 1e-9 * np.abs(high))
        case Sum(terms=terms, signs=signs):
            parts = [bounds(one, boxes) for one in terms]
            lows = (part.low if sign > 0 else -part.high for sign, part in zip(signs, parts, strict=True))
            highs = (part.high if sign > 0 else -part.low for sign, part in zip(signs, parts, strict=True))
            error = reduce(np.maximum, (part.error for part in parts))
            return Interval(reduce(np.add, lows), reduce(np.add, highs), error)
        case Product():
            return _product(term, boxes)
        case Absolute(term=inner):
            part = bounds(inner, boxes)
            across = (part.low <= 0) & (part.high >= 0)
            least = np.where(across, 0.0, np.minimum(np.abs(part.low), np.abs(part.high)))
            return Interval(least, part.size, part.error)
        case Extreme(largest=largest, terms=(one, other)):
            first, second = bounds(one, boxes), bounds(other, boxes)
            pick = np.maximum if largest else np.minimum
            error = np.maximum(first.error, second.error)
            return Interval(pick(first.low, second.low), pick(first.high, second.high), error)
    raise AssertionError(f"{term} is no term")


def _product(product: Product, boxes: Boxes) -> Interval:
    own = bounds(product.factors[0], boxes)
    for factor, divides in zip(product.factors[1:], product.divides[1:], strict=True):
        other = bounds(factor, boxes)
        if divides:
            across = (other.low <= 0) & (other.high >= 0)  # by zero somewhere: nothing is known
            low, high = np.where(across, np.nan, other.low), np.where(across, np.nan, other.high)
            ends = np.stack([own.low / low, own.low / high, own.high / low, own.high / high])
            least = np.minimum(np.abs(low), np.abs(high))
            size = np.abs(ends).max(axis=0)
            error = np.maximum(own.error / least, size * other.error / least)
        else:
            ends = np.stack([own.low * other.low, own.low * other.high, own.high * other.low, own.high * other.high])
            error = np.maximum(own.error * other.size, own.size * other.error)
        own = Interval(ends.min(axis=0), ends.max(axis=0), error)
    return own


def narrowed(
    rules: RuleBounds, values: Floats, start: Floats, feature: Integers, end: Floats, about: Booleans
) -> Floats:
    """How far one cell of each row may go towards an end with a proof that the rules are kept all the way.

    The last point that bisection finds; it need be none that a cell can hold.
    """

    def proved(to: Floats) -> Booleans:
        low, high = values.copy(), values.copy()
        low[row, feature], high[row, feature] = (
            np.minimum(values[row, feature], to),
            np.maximum(values[row, feature], to),
        )
        return rules.prove(low, high, start, about)

    row = np.arange(len(values))
    good, bad = values[row, feature], end.copy()
    whole = proved(end)
    for _ in range(60):
        middle = 0.5 * (good + bad)
        held = proved(middle)
        good, bad = np.where(held, middle, good), np.where(held, bad, middle)
    return np.where(whole, end, good)
