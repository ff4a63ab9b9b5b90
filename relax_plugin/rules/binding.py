"""Binding: the tree of a rule or formula becomes terms over columns of known kinds, or a sentence that says why not."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.errors import ConstraintError, did_you_mean
from relax_plugin.rules import syntax
from relax_plugin.rules.syntax import Cell, Expression, Number, Parsed, Text, quoted_name
from relax_plugin.rules.terms import (
    MIRRORED,
    OPPOSITE,
    ROUNDING,
    Absolute,
    Among,
    Cells,
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
    columns_of,
)


@dataclass(frozen=True)
class Kind:
    """What a rule has to know of a column.

    `categories` is None for numbers; those of an `ordered` column stand in their order. `rounding` is the relative
    error that its numbers may have: more than by default for such as were float32.
    """

    categories: tuple[Any, ...] | None = None
    ordered: bool = False
    rounding: float = ROUNDING


@dataclass(frozen=True)
class BoundRule:
    """A rule over columns of known kinds.

    A rule that mentions a missing cell counts as kept: nothing is known that breaks it.
    """

    text: str
    condition: Condition
    kinds: Mapping[Hashable, Kind]  # of the columns it mentions

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it mentions, each once; one that `was` mentions too comes once more."""
        return tuple(dict.fromkeys(columns_of(self.condition)))

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the columns whose new values it is about, in the order of the text."""
        return tuple(column.name for column in self.columns if not column.was)

    @cached_property
    def names_before(self) -> tuple[Hashable, ...]:
        """The names of the columns of which it mentions the query's value."""
        return tuple(column.name for column in self.columns if column.was)

    def holds(self, after: Cells, before: Cells) -> Booleans:
        """Whether each row keeps the rule.

        Parameters
        ----------
        after, before : the cells of the rows and of their queries, by name: numbers, or positions of categories;
            NaN is missing. Of `before` only `names_before` are looked at.
        """
        rows = Rows(after, before)
        with np.errstate(all="ignore"):
            kept = self.condition.holds(rows)
        for column in self.columns:
            kept = kept | np.isnan(column.values(rows))
        return np.asarray(kept)


@dataclass(frozen=True)
class BoundFormula:
    """The formula of a derived column over columns of known kinds."""

    text: str
    term: Term

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the columns that it is computed from, in the order of the text."""
        return tuple(dict.fromkeys(column.name for column in columns_of(self.term)))

    def value(self, cells: Cells) -> Floats:
        """The number in each row; NaN where a cell is missing, or there is none: division by zero, overflow."""
        with np.errstate(all="ignore"):
            value = np.asarray(self.term.measure(Rows(cells, {})).value, dtype=np.float64)
        return np.where(np.isfinite(value), value, np.nan)


def bind_rule(parsed: Parsed, kinds: Mapping[Hashable, Kind]) -> BoundRule:
    """The rule over these columns."""
    binder = _Binder(parsed.source, kinds)
    condition = binder.condition(parsed.tree, negated=False)
    return BoundRule(parsed.source.text, condition, {c.name: kinds[c.name] for c in columns_of(condition)})


def bind_formula(parsed: Parsed, kinds: Mapping[Hashable, Kind]) -> BoundFormula:
    """The formula over these columns."""
    return BoundFormula(parsed.source.text, _Binder(parsed.source, kinds).term(parsed.tree))


class _Binder:
    """Finds the columns of a tree; `not` is carried inwards, where it turns comparisons into their opposites."""

    def __init__(self, source: syntax.Source, kinds: Mapping[Hashable, Kind]) -> None:
        self.source = source
        self.kinds = kinds

    def condition(self, node: Expression, negated: bool) -> Condition:
        match node:
            case syntax.Not(part=part):
                return self.condition(part, not negated)
            case syntax.Junction(word=word, parts=parts):
                return Junction((word == "and") != negated, tuple(self.condition(part, negated) for part in parts))
            case syntax.Membership():
                return self.membership(node, negated != node.negated)
            case syntax.Comparison(sides=sides, operators=operators, places=places):
                turned = [OPPOSITE[operator] if negated else operator for operator in operators]
                links = zip(sides[:-1], turned, places, sides[1:], strict=True)
                parts_of_chain = tuple(self.comparison(*link) for link in links)
                return parts_of_chain[0] if len(parts_of_chain) == 1 else Junction(not negated, parts_of_chain)
        raise AssertionError(f"{node} is no condition")  # the parser lets none through

    def membership(self, node: syntax.Membership, negated: bool) -> Condition:
        column = self.category(node.item)
        if column is not None:
            return Among(column, tuple(self.position(column.name, value) for value in node.values), not negated)
        operator = "!=" if negated else "=="
        parts = tuple(self.comparison(node.item, operator, node.at, value) for value in node.values)
        return parts[0] if len(parts) == 1 else Junction(negated, parts)

    def comparison(self, left: Expression, operator: str, at: int, right: Expression) -> Condition:
        one, other = self.category(left), self.category(right)
        if one is not None and other is not None:
            return self.labels(one, operator, at, other)
        if one is not None:
            return self.label(one, operator, at, right)
        if other is not None:
            return self.label(other, MIRRORED[operator], at, left)
        for text, number in ((left, right), (right, left)):
            if isinstance(text, Text):
                self.refuse_unknown(number)  # the more useful sentence
                about = f"{number.name!r} holds numbers" if isinstance(number, Cell) else "the other side has none"
                raise self.source.error(text.at, f"{text.value!r} can be compared only with categories; {about}.")
        return NumberComparison(self.term(left), operator, self.term(right))

    def label(self, column: Column, operator: str, at: int, literal: Expression) -> Condition:
        if not isinstance(literal, Number | Text):
            raise self.source.error(
                at, f"{column.name!r} holds categories, which cannot be compared with a number that is calculated."
            )
        position = self.position(column.name, literal)
        if operator in ("==", "!="):
            return Among(column, (position,), operator == "==")
        self.refuse_unordered(column.name, operator, at)
        return LabelComparison(column, operator, Constant(position), len(self.categories(column.name)))

    def labels(self, left: Column, operator: str, at: int, right: Column) -> Condition:
        ours, theirs = self.categories(left.name), self.categories(right.name)
        if operator not in ("==", "!="):
            self.refuse_unordered(left.name, operator, at)
            self.refuse_unordered(right.name, operator, at)
            if ours != theirs:
                raise self.source.error(
                    at,
                    f"{operator} needs one order of categories, but {left.name!r} has {list(ours)} and "
                    f"{right.name!r} has {list(theirs)}.",
                )
        translation = None
        if ours != theirs:
            places = {label: float(position) for position, label in enumerate(ours)}
            translation = tuple(places.get(label, np.inf) for label in theirs)
        return LabelComparison(left, operator, right, len(ours), translation)

    def refuse_unordered(self, name: Hashable, operator: str, at: int) -> None:
        if not self.kinds[name].ordered:
            raise self.source.error(
                at,
                f"{operator} needs an order, but the categories {list(self.categories(name))[:12]} of {name!r} have "
                "none; say it by ordered= or use ==, != or in.",
            )

    def position(self, name: Hashable, literal: Number | Text) -> int:
        """Where a literal is among the categories of a column."""
        categories, wanted = self.categories(name), literal.value
        for position, category in enumerate(categories):
            if isinstance(category, str) == isinstance(wanted, str) and bool(category == wanted):
                return position
        raise self.source.error(literal.at, f"{name!r} has no category {wanted!r}; {did_you_mean(wanted, categories)}")

    def categories(self, name: Hashable) -> tuple[Any, ...]:
        return self.kinds[name].categories or ()

    def category(self, node: Expression) -> Column | None:
        """The column of a cell that holds categories; None if the node is something else."""
        column = self.column(node) if isinstance(node, Cell) else None
        return column if column is not None and self.kinds[column.name].categories is not None else None

    def term(self, node: Expression) -> Term:
        match node:
            case Number(value=value):
                return Constant(float(value))
            case Cell():
                column = self.column(node)
                if self.kinds[column.name].categories is not None:
                    raise self.source.error(
                        node.at, f"{column.name!r} holds categories, with which one cannot calculate; compare it alone."
                    )
                return column
            case syntax.Sum(terms=terms, signs=signs):
                return Sum(tuple(self.term(term) for term in terms), signs)
            case syntax.Product(factors=factors, divides=divides):
                return Product(tuple(self.term(factor) for factor in factors), divides)
            case syntax.Call(function="place", arguments=(argument,)):
                return self.place(node.at, argument)
            case syntax.Call(function="abs", arguments=(argument,)):
                return Absolute(self.term(argument))
            case syntax.Call(function=function, arguments=(one, other)):
                return Extreme(function == "max", (self.term(one), self.term(other)))
        raise AssertionError(f"{node} is no number")  # the parser lets none through

    def place(self, at: int, argument: Expression) -> Place:
        column = self.category(argument)
        if column is None:
            self.refuse_unknown(argument)  # the more useful sentence
            raise self.source.error(at, "place() is of a column of ordered categories, and this is none.")
        self.refuse_unordered(column.name, "place()", at)
        return Place(column, len(self.categories(column.name)))

    def column(self, cell: Cell) -> Column:
        """The column of this name; one whose name is no text goes by the text of it."""
        named = cell.name in self.kinds
        names = [name for name in self.kinds if (name == cell.name if named else str(name) == cell.name)]
        if len(names) == 1:
            return Column(names[0], cell.was, self.kinds[names[0]].rounding)
        raise self.unknown(cell, names)

    def refuse_unknown(self, node: Expression) -> None:
        for cell in syntax.cells_of(node):
            self.column(cell)

    def unknown(self, cell: Cell, names: list[Hashable]) -> ConstraintError:
        if names:
            return self.source.error(cell.at, f"{cell.name!r} is the name of {len(names)} columns: {names}.")
        written = [str(name) for name in self.kinds if self.source.text.startswith(str(name), cell.at)]
        if written and len(max(written, key=len)) > len(cell.name):
            meant = quoted_name(max(written, key=len))
            return self.source.error(cell.at, f"{cell.name!r} is no column; in backticks, {meant} is one.")
        return self.source.error(cell.at, f"{cell.name!r} is no column; {did_you_mean(cell.name, self.kinds)}")
