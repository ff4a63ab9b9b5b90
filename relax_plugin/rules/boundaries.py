"""Boundaries: where one column of a broken rule has to go for the rule to be kept again.

Each comparison of numbers is, as a function of one column, a fraction of polynomials on each of its branches (abs, min
and max have two), whose zeros are exact up to the second degree. A zero is believed only where the comparison itself
turns there.
"""

from collections.abc import Hashable, Iterator
from itertools import islice, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.errors import ConstraintError, did_you_mean
from relax_plugin.rules.binding import BoundRule
from relax_plugin.rules.terms import (
    Absolute,
    Atom,
    Cells,
    Column,
    Extreme,
    NumberComparison,
    Product,
    Rows,
    Sum,
    Term,
    atoms,
    columns_of,
)

MOST_BRANCHES = 16  # of abs, min and max in each other that are followed
GLANCE = 1e-6  # relative length of the step by which one looks beyond a boundary
NEWTON_STEPS = 30  # for polynomials beyond the second degree

Polynomial: TypeAlias = list[Any]  # coefficients from the lowest degree on, each a number or one a row
Fraction: TypeAlias = tuple[Polynomial, Polynomial]  # numerator and denominator


class Boundaries(NamedTuple):
    """Values of a column at which broken comparisons of a rule begin to hold: (rows, candidates), NaN for none.

    `direction` says on which side of the value: 1 at it or above, -1 at it or below, 0 only there. Where `strict`, the
    value itself is not yet enough: the next one that the column can have is.
    """

    values: Floats
    direction: Integers
    strict: Booleans


def boundary_values(rule: BoundRule, after: Cells, before: Cells, column: Hashable) -> Boundaries:
    """Where a column has to go for the broken comparisons of a rule to hold, all else staying as it is.

    Parameters
    ----------
    rule : a text rule bound to columns
    after, before : the cells of the rows and of their queries, by name, as in `BoundRule.holds`; for every column of
        the rule
    column : one that the rule mentions

    Returns
    -------
    Boundaries
        First the values at which a comparison just holds, then those that keep it as it is in the query, as far as
        other columns of it have changed: for `a + b == 100` the amount that the others gained. For a column of
        categories the positions that fulfil a comparison. Rows that keep the rule have none. Nothing says that the
        whole rule holds at a candidate: other comparisons of it may break.
    """
    if column not in {mentioned.name for mentioned in rule.columns}:
        known = {mentioned.name for mentioned in rule.columns}
        raise ConstraintError(f"rule {rule.text!r} does not mention {column!r}; {did_you_mean(column, known)}")
    rows = Rows(after, before)
    broken = ~rule.holds(after, before)
    about = [
        atom
        for atom in atoms(rule.condition)
        if Column(column, False, rule.kinds[column].rounding) in set(columns_of(atom))
    ]
    found: list[tuple[Floats, Any, Any]] = []
    with np.errstate(all="ignore"):
        open_ = [(atom, broken & ~atom.holds(rows)) for atom in about]
        categories = rule.kinds[column].categories
        if categories is not None:
            found.extend(_positions(open_, rows, column, len(categories)))
        else:
            numeric = [(atom, where) for atom, where in open_ if isinstance(atom, NumberComparison)]
            for atom, where in numeric:
                found.extend(_zeros(atom, where, rows, column))
            for atom, where in numeric:
                found.extend(_kept(atom, where, rows, column))
    return _side_by_side(found, len(broken))


def _positions(
    open_: list[tuple[Atom, Booleans]], rows: Rows, column: Hashable, known: int
) -> Iterator[tuple[Floats, Any, Any]]:
    """Each category that fulfils one of the comparisons."""
    shape = np.shape(rows.after[column])
    for position in range(known) if open_ else ():
        there = rows.replaced(column, np.full(shape, float(position)))
        fulfils = np.logical_or.reduce([where & atom.holds(there) for atom, where in open_])
        yield np.where(fulfils, float(position), np.nan), 0, False


def _zeros(atom: NumberComparison, where: Booleans, rows: Rows, column: Hashable) -> Iterator[tuple[Floats, Any, Any]]:
    """The values at which both sides of the comparison are equal."""
    equality = NumberComparison(atom.left, "==", atom.right)
    for values, slope in _solutions(atom, rows, column, 0.0):
        sound = where & equality.holds(rows.replaced(column, values))
        for side in (1, -1) if atom.operator == "!=" else (_side(atom, slope),):
            leads = _leads(atom, rows, column, values, side, slope)
            yield np.where(sound & leads, values, np.nan), side, atom.operator in ("<", ">", "!=")


def _leads(atom: NumberComparison, rows: Rows, column: Hashable, values: Floats, side: Any, slope: Floats) -> Booleans:
    """Whether the comparison holds beyond a zero; it need not where another branch of abs, min or max begins there."""
    step = GLANCE * (1.0 + np.abs(values))
    difference, unsure = atom.residual(rows.replaced(column, values + side * step))
    right = np.abs(difference) if atom.operator == "!=" else difference * np.sign(slope) * side
    unseen = np.abs(slope) * step <= 2.0 * unsure  # rounding hides what so short a step does
    return np.asarray((right > unsure) | unseen | (side == 0))


def _kept(atom: NumberComparison, where: Booleans, rows: Rows, column: Hashable) -> Iterator[tuple[Floats, Any, Any]]:
    """The values at which the comparison is what it is in the query, where other columns of it have changed."""
    others = {mentioned.name for mentioned in columns_of(atom) if not mentioned.was} - {column}
    if not others:
        return
    moved = np.logical_or.reduce([np.asarray(rows.after[name] != rows.before[name]) for name in others])
    target, _ = atom.residual(Rows(rows.before, rows.before))
    for values, slope in _solutions(atom, rows, column, target):
        sound = where & moved & atom.holds(rows.replaced(column, values))
        yield np.where(sound, values, np.nan), _side(atom, slope), False


def _side(atom: NumberComparison, slope: Floats) -> Any:
    """On which side of a zero the comparison holds, by the slope of its residual there."""
    return {"<": -1, "<=": -1, ">": 1, ">=": 1}.get(atom.operator, 0) * np.sign(np.nan_to_num(slope))


def _solutions(atom: NumberComparison, rows: Rows, column: Hashable, target: Any) -> Iterator[tuple[Floats, Floats]]:
    """The values at which the left less the right side is the target on some branch, and the slope of it there."""
    start = np.asarray(rows.after[column], dtype=np.float64)
    difference = Sum((atom.left, atom.right), (1, -1))
    for numerator, denominator in islice(_branches(difference, rows, column), MOST_BRANCHES):
        shifted = _added(numerator, [-target * coefficient for coefficient in denominator])
        for root in _roots(shifted, start):
            slope = _at(_derivative(shifted), root) / _at(denominator, root)
            yield np.broadcast_to(root, start.shape), np.broadcast_to(slope, start.shape)


def _branches(term: Term, rows: Rows, column: Hashable) -> Iterator[Fraction]:
    """The term as a function of the column, all else given: one fraction for each branch of abs, min and max."""
    if isinstance(term, Column) and term.name == column and not term.was:
        yield [0.0, 1.0], [1.0]
        return
    if not any(mentioned.name == column and not mentioned.was for mentioned in columns_of(term)):
        yield [term.measure(rows).value], [1.0]
        return
    match term:
        case Absolute(term=part):
            for numerator, denominator in _branches(part, rows, column):
                yield numerator, denominator
                yield [-coefficient for coefficient in numerator], denominator
        case Extreme(terms=terms):
            for part in terms:
                yield from _branches(part, rows, column)
        case Sum(terms=terms, signs=signs):
            for parts in product(*(list(islice(_branches(one, rows, column), MOST_BRANCHES)) for one in terms)):
                yield _sum_of(parts, signs)
        case Product(factors=factors, divides=divides):
            for parts in product(*(list(islice(_branches(one, rows, column), MOST_BRANCHES)) for one in factors)):
                yield _product_of(parts, divides)


def _sum_of(parts: tuple[Fraction, ...], signs: tuple[int, ...]) -> Fraction:
    numerator: Polynomial = [0.0]
    denominator: Polynomial = [1.0]
    for (above, below), sign in zip(parts, signs, strict=True):
        signed = [sign * coefficient for coefficient in above]
        if len(below) == len(denominator) == 1:  # numbers, by which the parts can be divided
            numerator = _added([c / denominator[0] for c in numerator], [c / below[0] for c in signed])
            denominator = [1.0]
        else:
            numerator = _added(_multiplied(numerator, below), _multiplied(signed, denominator))
            denominator = _multiplied(denominator, below)
    return numerator, denominator


def _product_of(parts: tuple[Fraction, ...], divides: tuple[bool, ...]) -> Fraction:
    numerator: Polynomial = [1.0]
    denominator: Polynomial = [1.0]
    for (above, below), upside_down in zip(parts, divides, strict=True):
        if upside_down:
            above, below = below, above
        numerator, denominator = _multiplied(numerator, above), _multiplied(denominator, below)
    return numerator, denominator


def _added(one: Polynomial, other: Polynomial) -> Polynomial:
    shorter, longer = sorted((one, other), key=len)
    return [a + b for a, b in zip(shorter, longer, strict=False)] + longer[len(shorter) :]


def _multiplied(one: Polynomial, other: Polynomial) -> Polynomial:
    result: Polynomial = [0.0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            result[i + j] = result[i + j] + a * b
    return result


def _derivative(polynomial: Polynomial) -> Polynomial:
    return [degree * coefficient for degree, coefficient in enumerate(polynomial)][1:] or [0.0]


def _at(polynomial: Polynomial, values: Any) -> Any:
    result: Any = 0.0
    for coefficient in reversed(polynomial):
        result = result * values + coefficient
    return result


def _roots(polynomial: Polynomial, start: Floats) -> list[Any]:
    """Real zeros of a polynomial, NaN where there is none: both of a quadratic, one near the start of a higher one."""
    if len(polynomial) == 1:
        return []
    rest, slope = np.asarray(polynomial[0]), np.asarray(polynomial[1])
    if len(polynomial) == 2:
        return [np.where(slope == 0, np.nan, -rest / slope)]
    if len(polynomial) == 3:
        curve = np.asarray(polynomial[2])
        half = -(slope + np.where(slope < 0, -1.0, 1.0) * np.sqrt(slope * slope - 4.0 * curve * rest)) / 2.0
        return [np.where(curve == 0, np.nan, half / curve), np.where(half == 0, np.nan, rest / half)]
    slopes = _derivative(polynomial)
    root = start
    for _ in range(NEWTON_STEPS):
        root = root - _at(polynomial, root) / _at(slopes, root)
    return [root]


def _side_by_side(found: list[tuple[Floats, Any, Any]], rows: int) -> Boundaries:
    """The candidates as columns, the found ones of each row first; no column is empty in every row."""
    if not found:
        return Boundaries(np.empty((rows, 0)), np.empty((rows, 0), dtype=np.int64), np.empty((rows, 0), dtype=bool))
    values = np.column_stack([np.where(np.isfinite(one), one, np.nan) for one, _, _ in found])
    direction: Array = np.column_stack([np.broadcast_to(side, rows) for _, side, _ in found]).astype(np.int64)
    strict = np.column_stack([np.broadcast_to(one, rows) for _, _, one in found])
    order = np.argsort(np.isnan(values), axis=1, kind="stable")
    width = int((~np.isnan(values)).sum(axis=1).max(initial=0))
    values, direction, strict = (
        np.take_along_axis(one, order, axis=1)[:, :width] for one in (values, direction, strict)
    )
    return Boundaries(values, direction, strict)
