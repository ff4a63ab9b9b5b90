"""Binding: what a text says becomes an expression over columns of known kinds, or a sentence that says why not."""

import ast
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from relax_plugin.errors import ConstraintError, did_you_mean
from relax_plugin.rules.expression import (
    ROUNDING,
    Absolute,
    Among,
    Arithmetic,
    Column,
    Comparison,
    Condition,
    Constant,
    Extreme,
    Junction,
    LabelComparison,
    Place,
    Term,
)
from relax_plugin.rules.language import Cell, Parsed, quoted_name, steps_of

OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


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
class Binding:
    """Finds the columns of a text; `not` is carried inwards, where it turns comparisons into their opposites.

    A derived column is its formula: one that stands `instead` of a cell is about the query if the cell was, and errors
    about it point at the cell.
    """

    parsed: Parsed
    kinds: Mapping[Hashable, Kind]
    formulas: Mapping[Hashable, Parsed] = field(default_factory=dict)  # of derived columns
    instead: tuple["Binding", Cell] | None = None

    def error(self, place: int | ast.expr, sentence: str) -> ConstraintError:
        if self.instead is not None:
            return self.instead[0].error(self.instead[1].at, sentence)
        return self.parsed.error(place, sentence)

    def condition(self, node: ast.expr, negated: bool = False) -> Condition:
        match node:
            case ast.UnaryOp(operand=part):
                return self.condition(part, not negated)
            case ast.BoolOp(op=word, values=parts):
                every = isinstance(word, ast.And) != negated
                return Junction(every, tuple(self.condition(part, negated) for part in parts))
            case ast.Call(args=[one, other]):
                both = self.condition(one, negated), self.condition(other, negated)
                neither = self.condition(one, not negated), self.condition(other, not negated)
                if self.parsed.token(node).value == "implies":
                    return Junction(negated, (neither[0], both[1]))
                return Junction(negated, (Junction(not negated, both), Junction(not negated, neither)))
            case ast.Compare(left=item, comparators=[ast.List(elts=values)], ops=[word]):
                return self._membership(node, item, values, isinstance(word, ast.NotIn) != negated)
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                signs = [self.parsed.sign_behind(side) for side in sides[:-1]]
                turned = [OPPOSITE[sign.text] if negated else sign.text for sign in signs]
                links = zip(sides[:-1], turned, signs, sides[1:], strict=True)
                compared = tuple(self._comparison(one, sign, token.at, other) for one, sign, token, other in links)
                return compared[0] if len(compared) == 1 else Junction(not negated, compared)
        raise AssertionError(f"{ast.dump(node)} is no condition")  # Parsed lets none through

    def term(self, node: ast.expr) -> Term:
        cell, literal = self.parsed.cell(node), self.parsed.literal(node)
        if isinstance(literal, int | float):
            return Constant(float(literal))
        if cell is not None:
            return self._cell(cell)
        match node:
            case ast.BinOp():
                first, steps = steps_of(node)
                parts = self.term(first), *(self.term(part) for _, part in steps)
                return Arithmetic(parts, tuple(sign for sign, _ in steps))
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return Arithmetic((Constant(0.0), self.term(part)), ("-",))
            case ast.UnaryOp(operand=part):
                return self.term(part)
            case ast.Call(args=arguments):
                function = self.parsed.token(node).value
                if function == "place":
                    return self._place(node, arguments[0])
                if function == "abs":
                    return Absolute((self.term(arguments[0]),))
                return Extreme(function == "max", (self.term(arguments[0]), self.term(arguments[1])))
        raise AssertionError(f"{ast.dump(node)} is no number")  # Parsed lets none through

    def _membership(self, node: ast.expr, item: ast.expr, values: list[ast.expr], negated: bool) -> Condition:
        column = self._category(item)
        if column is not None:
            return Among((column,), tuple(self._position(column.name, value) for value in values), not negated)
        at = self.parsed.sign_behind(item).at
        parts = tuple(self._comparison(item, "!=" if negated else "==", at, value) for value in values)
        return parts[0] if len(parts) == 1 else Junction(negated, parts)

    def _comparison(self, left: ast.expr, sign: str, at: int, right: ast.expr) -> Condition:
        one, other = self._category(left), self._category(right)
        if one is not None and other is not None:
            return self._two_labels(one, sign, at, other)
        if one is not None:
            return self._label(one, sign, at, right)
        if other is not None:
            return self._label(other, MIRRORED[sign], at, left)
        for text, number in ((left, right), (right, left)):
            if isinstance(self.parsed.literal(text), str):
                self._refuse_unknown(number)  # the more useful sentence
                cell = self.parsed.cell(number)
                about = f"{cell.name!r} holds numbers" if cell is not None else "the other side has none"
                shown = self.parsed.literal(text)
                raise self.error(text, f"{shown!r} can be compared only with categories; {about}.")
        return Comparison(sign, (self.term(left), self.term(right)))

    def _label(self, column: Column, sign: str, at: int, literal: ast.expr) -> Condition:
        if self.parsed.literal(literal) is None:
            calculated = f"{column.name!r} holds categories, which cannot be compared with a number that is calculated."
            raise self.error(at, calculated)
        position = self._position(column.name, literal)
        if sign in ("==", "!="):
            return Among((column,), (position,), sign == "==")
        self._refuse_unordered(column.name, sign, at)
        return LabelComparison(sign, (column, Constant(position)), len(self._categories(column.name)))

    def _two_labels(self, left: Column, sign: str, at: int, right: Column) -> Condition:
        ours, theirs = self._categories(left.name), self._categories(right.name)
        if sign not in ("==", "!="):
            self._refuse_unordered(left.name, sign, at)
            self._refuse_unordered(right.name, sign, at)
            if ours != theirs:
                both = f"{left.name!r} has {list(ours)} and {right.name!r} has {list(theirs)}"
                raise self.error(at, f"{sign} needs one order of categories, but {both}.")
        translation = None
        if ours != theirs:
            places = {label: float(position) for position, label in enumerate(ours)}
            translation = tuple(places.get(label, np.inf) for label in theirs)
        return LabelComparison(sign, (left, right), len(ours), translation)

    def _place(self, node: ast.expr, argument: ast.expr) -> Place:
        column = self._category(argument)
        if column is None:
            self._refuse_unknown(argument)  # the more useful sentence
            raise self.error(node, "place() is of a column of ordered categories, and this is none.")
        self._refuse_unordered(column.name, "place()", node)
        return Place((column,), len(self._categories(column.name)))

    def _cell(self, cell: Cell) -> Term:
        if self.instead is not None:
            cell = cell._replace(was=self.instead[1].was)
        if cell.name in self.formulas:
            formula = self.formulas[cell.name]
            return replace(self, parsed=formula, instead=(self, cell)).term(formula.tree)
        column = self._column(cell)
        if self.kinds[column.name].categories is not None:
            unfit = f"{column.name!r} holds categories, with which one cannot calculate; compare it alone."
            raise self.error(cell.at, unfit)
        return column

    def _category(self, node: ast.expr) -> Column | None:
        """The column of categories that a part is, if it is one."""
        cell = self.parsed.cell(node)
        if cell is None or cell.name in self.formulas:
            return None
        column = self._column(cell if self.instead is None else cell._replace(was=self.instead[1].was))
        return column if self.kinds[column.name].categories is not None else None

    def _categories(self, name: Hashable) -> tuple[Any, ...]:
        return self.kinds[name].categories or ()

    def _position(self, name: Hashable, literal: ast.expr) -> int:
        categories, wanted = self._categories(name), self.parsed.literal(literal)
        for position, category in enumerate(categories):
            if isinstance(category, str) == isinstance(wanted, str) and bool(category == wanted):
                return position
        raise self.error(literal, f"{name!r} has no category {wanted!r}; {did_you_mean(wanted, categories)}")

    def _refuse_unordered(self, name: Hashable, sign: str, place: int | ast.expr) -> None:
        if not self.kinds[name].ordered:
            shown = f"{sign} needs an order, but the categories {list(self._categories(name))[:12]} of {name!r} have"
            raise self.error(place, f"{shown} none; say it by ordered= or use ==, != or in.")

    def _refuse_unknown(self, node: ast.expr) -> None:
        for part in ast.walk(node):
            cell = self.parsed.cell(part) if isinstance(part, ast.Name | ast.Call) else None
            if cell is not None and cell.name not in self.formulas:
                self._column(cell)

    def _column(self, cell: Cell) -> Column:
        """The column of this name; one whose name is no text goes by the text of it."""
        named = cell.name in self.kinds
        names = [name for name in self.kinds if (name == cell.name if named else str(name) == cell.name)]
        if len(names) == 1:
            return Column(names[0], cell.was, self.kinds[names[0]].rounding)
        if names:
            raise self.error(cell.at, f"{cell.name!r} is the name of {len(names)} columns: {names}.")
        written = [str(name) for name in self.kinds if self.parsed.text.startswith(str(name), cell.at)]
        if written and len(max(written, key=len)) > len(cell.name):
            meant = quoted_name(max(written, key=len))
            raise self.error(cell.at, f"{cell.name!r} is no column; in backticks, {meant} is one.")
        raise self.error(cell.at, f"{cell.name!r} is no column; {did_you_mean(cell.name, self.kinds)}")
