"""The judge's own reading of rules and formulas: Python's parser reads the text, and numpy computes what it says.

It shares nothing with the room `rules`, whose faults it is to notice. Only what that language has parsed gets here; all
the same nothing is executed: the tree is walked, and whatever is no arithmetic or comparison of columns is refused.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import InputError

ROUNDING = 1e-9  # relative to the largest number of a comparison: closer ones may be equal
SHORT_ROUNDING = 1e-5  # where numbers are of few bits
QUOTED = re.compile(r"`((?:[^`]|``)*)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: np.divide(a, np.where(np.asarray(b) == 0, np.nan, b)),
}
ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": np.abs, "min": np.minimum, "max": np.maximum}
LOGICAL: dict[str, Callable[[Any, Any], Any]] = {"implies": np.less_equal, "iff": np.equal}


@dataclass(frozen=True)
class Told:
    """What a column holds: numbers, or labels, whose order there may be."""

    cells: Array  # float64, NaN where one is missing; or objects, None where one is missing
    order: Sequence[Any] = ()  # of labels
    rounding: float = ROUNDING

    @property
    def is_number(self) -> bool:
        return bool(self.cells.dtype != object)

    @property
    def missing(self) -> Booleans:
        return np.asarray(pd.isna(self.cells))


class RuleText:
    """A rule or a formula, read by Python's parser; names that are no identifiers stand in backticks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, str] = {}  # of columns, by what stands for them in the tree
        self.tree = ast.parse(QUOTED.sub(self._identifier, text.strip().replace("\n", " ")), mode="eval").body

    def _identifier(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        name = f"_quoted_{len(self.names)}_"
        self.names[name] = found[1].replace("``", "`")
        return name

    def mentioned(self) -> Iterator[tuple[str, bool]]:
        """The columns that it is about, and whether the query's value of each is meant."""
        was = {id(node.args[0]) for node in ast.walk(self.tree) if isinstance(node, ast.Call) and _is_was(node)}
        functions = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and id(node) not in functions:
                yield self.names.get(node.id, node.id), id(node) in was

    def broken(self, after: Mapping[str, Told], before: Mapping[str, Told]) -> Booleans:
        """Which rows break the rule; none that mentions a missing cell, or that rounding alone could excuse."""
        kept = [np.asarray(_Reading(self, after, before, loose).truth(self.tree)) for loose in (False, True)]
        unknown = [(before if was else after)[name].missing for name, was in self.mentioned()]
        return np.asarray(~reduce(np.logical_or, [*kept, *unknown]))

    def numbers(self, cells: Mapping[str, Told]) -> Floats:
        """What a formula says; NaN where a cell is missing, or where there is no number."""
        with np.errstate(all="ignore"):
            value = np.asarray(_Reading(self, cells, {}, False).number(self.tree), dtype=np.float64)
        return np.where(np.isfinite(value), value, np.nan)


def _is_was(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "was"


@dataclass(frozen=True)
class _Reading:
    """The text over some rows; `loose` calls numbers equal that rounding cannot tell apart."""

    rule: RuleText
    after: Mapping[str, Told]
    before: Mapping[str, Told]
    loose: bool

    def column(self, node: ast.expr) -> Told | None:
        if _is_was(node) and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Name):
            return self.before[self.rule.names.get(node.args[0].id, node.args[0].id)]
        return self.after[self.rule.names.get(node.id, node.id)] if isinstance(node, ast.Name) else None

    def truth(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return reduce(join, (self.truth(part) for part in node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~np.asarray(self.truth(node.operand))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOGICAL:
            return LOGICAL[node.func.id](*map(self.truth, node.args))
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            links = zip(sides[:-1], node.ops, sides[1:], strict=True)
            return reduce(np.logical_and, (self.link(*link) for link in links))
        raise InputError(f"the judge cannot read {ast.unparse(node)!r} of the rule {self.rule.text!r}.")

    def link(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(sign, ast.In | ast.NotIn):
            assert isinstance(right, ast.List | ast.Tuple | ast.Set)
            among = reduce(np.logical_or, (self.link(left, ast.Eq(), item) for item in right.elts))
            return among if isinstance(sign, ast.In) else ~among
        columns = [self.column(node) for node in (left, right)]
        labels = [told for told in columns if told is not None and not told.is_number]
        if labels:
            one, other = (self.label(node, told) for node, told in zip((left, right), columns, strict=True))
            if isinstance(sign, ast.Eq | ast.NotEq):
                same = np.array([a == b for a, b in np.broadcast(one, other)], dtype=bool)
                return same if isinstance(sign, ast.Eq) else ~same
            place = {label: at for at, label in enumerate(labels[0].order)}
            one, other = (np.array([place.get(cell, np.nan) for cell in np.atleast_1d(side)]) for side in (one, other))
            return ORDERS[type(sign)](one, other)
        with np.errstate(all="ignore"):
            return self.compared(self.number(left), sign, self.number(right), [left, right])

    def compared(self, one: Any, sign: ast.cmpop, other: Any, nodes: list[ast.expr]) -> Any:
        """Two numbers compared: where one is not defined, nothing holds."""
        names = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)]
        told = [column for column in map(self.column_if_any, names) if column is not None and column.is_number]
        size = reduce(np.maximum, (np.abs(one), np.abs(other), *(np.abs(column.cells) for column in told)))
        close = np.abs(one - other) <= max((column.rounding for column in told), default=ROUNDING) * size
        exact = ORDERS[type(sign)](one, other)
        defined = np.isfinite(one) & np.isfinite(other)
        if not self.loose:
            return exact & defined
        return np.where(close, isinstance(sign, ast.Eq | ast.LtE | ast.GtE), exact) & defined

    def column_if_any(self, name: ast.Name) -> Told | None:
        known = self.rule.names.get(name.id, name.id)
        return self.after.get(known) if name.id not in (*FUNCTIONS, "was", "place") else None

    def label(self, node: ast.expr, told: Told | None) -> Any:
        if told is not None:
            return told.cells
        one = np.empty(1, dtype=object)
        one[0] = ast.literal_eval(node)
        return one

    def number(self, node: ast.expr) -> Any:
        told = self.column(node)
        if told is not None and told.is_number:
            return told.cells
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return np.float64(node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return ARITHMETIC[type(node.op)](self.number(node.left), self.number(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self.number(node.operand) * (-1.0 if isinstance(node.op, ast.USub) else 1.0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "place":
            return self.place(node.args[0])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            return FUNCTIONS[node.func.id](*map(self.number, node.args))
        raise InputError(f"the judge cannot read {ast.unparse(node)!r} of the rule {self.rule.text!r}.")

    def place(self, node: ast.expr) -> Floats:
        """Where ordered labels stand in their order, the first being 1; NaN where one is missing."""
        told = self.column(node)
        assert told is not None and len(told.order)
        places = {label: at for at, label in enumerate(told.order, start=1)}
        return np.array([places.get(cell, np.nan) for cell in told.cells])
