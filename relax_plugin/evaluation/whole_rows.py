"""What delivered rows must keep beside the limits of single features, checked on the user's own cells.

Missing cells, one-hot groups, derived columns, what is carried, and rules: counted by the judge's own code, which reads
of a space only what the user has said. Rules and formulas are read by Python's parser, and numpy computes what they
say: nothing is shared with the room `rules`, whose faults it is to notice. Nothing is executed either: the tree is
walked, and whatever is no arithmetic or comparison of columns is refused.
"""

import ast
import operator
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.table.columns import Feature

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


KINDS = ("broken_rules", "torn_groups", "changed_gaps", "altered_cells")
"""What is counted, as the judge's rows name it."""


class WholeRows:
    """Delivered rows beside their queries, row by row, both with the columns of the space."""

    def __init__(self, space: FeatureSpace, before: pd.DataFrame, after: pd.DataFrame) -> None:
        self.space = space
        self.before, self.after = (rows[space.columns].reset_index(drop=True) for rows in (before, after))
        self.owner: dict[Hashable, Feature] = {
            column: feature for feature in space.features for column in (feature.columns or (feature.name,))
        }

    def counts(self) -> dict[str, Integers]:
        """How many of each of `KINDS` every row has."""
        found = (self.broken_rules(), self.torn_groups(), self.changed_gaps(), self.altered_cells())
        return dict(zip(KINDS, found, strict=True))

    @cached_property
    def changed(self) -> dict[Hashable, Booleans]:
        """Where each column holds another value than in the query; what is missing in both is the same."""
        return {name: ~_equal(self.before[name], self.after[name]) for name in self.space.columns}

    @cached_property
    def touched(self) -> Booleans:
        """Which rows differ from their query in a cell that is not computed."""
        own = [self.changed[name] for name in self.owner]
        return np.asarray(np.logical_or.reduce(own)) if own else np.zeros(len(self.after), dtype=bool)

    def changed_gaps(self) -> Integers:
        """Missing cells that were filled, or are missing otherwise, and values that vanished, without leave."""
        count = np.zeros(len(self.after), dtype=np.int64)
        for name, feature in self.owner.items():
            was, now = _missing(self.before[name]), _missing(self.after[name])
            filled = was & ~now & (not feature.fillable)
            vanished = ~was & now & (not feature.vanishable)
            another = was & now & ~_identical(self.before[name], self.after[name])
            count += filled | vanished | another
        return count

    def torn_groups(self) -> Integers:
        """One-hot groups with other cells than the query's in which not exactly one is set."""
        count = np.zeros(len(self.after), dtype=np.int64)
        for feature in self.space.features:
            if feature.columns:
                cells = self._set(feature, self.after)
                code = ((cells == 0) | (cells == 1)).all(axis=1) & (cells.sum(axis=1) == 1)
                if len(feature.categories) > len(feature.columns):  # there are rows of which none is set
                    code |= (cells == 0).all(axis=1)
                own = ~np.logical_or.reduce([self.changed[name] for name in feature.columns])
                count += ~(code | own)
        return count

    def altered_cells(self) -> Integers:
        """Derived cells that are not what their formula says, carried ones that differ, and equal ones not identical.

        A derived cell of which no input has changed must be the query's own, bit for bit.
        """
        count = np.zeros(len(self.after), dtype=np.int64)
        for name, feature in self.owner.items():
            count += self.changed[name] & feature.carried
            count += ~self.changed[name] & ~_identical(self.before[name], self.after[name])
        inputs: dict[Hashable, set[Hashable]] = {}
        for one in self.space.derived:
            formula = RuleText(one.formula.text)
            named = {self._column(name) for name, _ in formula.mentioned()}
            inputs[one.name] = set().union(*(inputs.get(name, {name}) for name in named))
            fresh = np.logical_or.reduce(
                [self.changed[column] for name in inputs[one.name] for column in self._of(name)]
            )
            told, wanted = _numbers(self.after[one.name]), formula.numbers(self.told_cells(self.after))
            rounding = _rounding(self.after[one.name]) * np.maximum(np.abs(wanted), np.abs(told))
            allowed = np.maximum(rounding, one.formula.tolerance * np.abs(wanted))
            right = (np.abs(told - wanted) <= allowed) | (np.isnan(told) & np.isnan(wanted))
            count += np.where(fresh, ~right, ~_identical(self.before[one.name], self.after[one.name]))
        return count

    def broken_rules(self) -> Integers:
        """Rules that a row breaks; one that changes nothing breaks nothing."""
        count = np.zeros(len(self.after), dtype=np.int64)
        if len(count) == 0:
            return count
        after, before = self.told_cells(self.after), self.told_cells(self.before)
        for rule in self.space.rules:
            if rule.text is not None:
                count += RuleText(rule.text).broken(after, before)
            elif rule.function is not None:
                rows = (self._with_groups(rows, cells) for rows, cells in ((self.after, after), (self.before, before)))
                count += ~np.asarray(rule.function(*(one[list(rule.columns)].copy() for one in rows)), dtype=bool)
        return np.where(self.touched, count, 0)

    def _with_groups(self, rows: pd.DataFrame, cells: Mapping[str, Told]) -> pd.DataFrame:
        """The rows, and a column of the category of each one-hot group."""
        groups = [f.name for f in self.space.features if f.columns and f.name not in rows]
        told = pd.DataFrame({name: cells[str(name)].cells for name in groups}, index=rows.index)
        return pd.concat([rows, told], axis=1)

    def _column(self, text: str) -> Hashable:
        names = [*self.space.columns, *self.space.names]
        return text if text in names else next(name for name in names if str(name) == text)

    def _of(self, name: Hashable) -> tuple[Hashable, ...]:
        groups = {feature.name: feature.columns for feature in self.space.features if feature.columns}
        return groups.get(name, (name,))

    def _set(self, feature: Feature, rows: pd.DataFrame) -> Array:
        return np.column_stack([_numbers(rows[name]) for name in feature.columns])

    def told_cells(self, rows: pd.DataFrame) -> Mapping[str, Told]:
        """What rules see of rows, by the text of the name."""
        told: dict[str, Told] = {}
        for name in self.space.columns:
            feature = self.owner.get(name)
            if feature is None or feature.columns or feature.kind != "categorical":
                told[str(name)] = Told(_numbers(rows[name]), rounding=_rounding(rows[name]))
            else:
                told[str(name)] = Told(_labels(rows[name]), feature.categories if feature.ordered else ())
        for feature in self.space.features:
            if feature.columns:
                cells = self._set(feature, rows)
                known = np.array([*feature.categories[: len(feature.columns)], None], dtype=object)
                if len(feature.categories) > len(feature.columns):
                    known[-1] = feature.categories[-1]
                at = np.where((cells == 1).any(axis=1), (cells == 1).argmax(axis=1), len(feature.columns))
                told[str(feature.name)] = Told(known[at])
        for one in self.space.derived:
            if one.formula.tolerance:  # else the cell itself is what its formula says
                told[str(one.name)] = Told(RuleText(one.formula.text).numbers(told), rounding=_rounding(rows[one.name]))
        return told


def _missing(column: "pd.Series[Any]") -> Booleans:
    """Which cells are missing; a list or a text is none."""
    if column.dtype != object:
        return np.asarray(column.isna())
    return np.array([cell is None or cell is pd.NA or cell is pd.NaT or _is_nan(cell) for cell in column], dtype=bool)


def _is_nan(cell: Any) -> bool:
    return isinstance(cell, float | np.floating) and cell != cell


def _is_plain(column: "pd.Series[Any]") -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb"


def _equal(before: "pd.Series[Any]", after: "pd.Series[Any]") -> Booleans:
    """Where two columns hold the same value; what is missing equals what is missing."""
    if _is_plain(before) and _is_plain(after):
        old, new = before.to_numpy(), after.to_numpy()
        return np.asarray((old == new) | ((old != old) & (new != new)))
    gaps = _missing(before), _missing(after)
    cells = zip(before.tolist(), after.tolist(), *gaps, strict=True)
    return np.array([(a and b) or (not a and not b and _same(x, y)) for x, y, a, b in cells], dtype=bool)


def _same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError):  # arrays and the like, of which only the object itself is the same
        return False


def _identical(before: "pd.Series[Any]", after: "pd.Series[Any]") -> Booleans:
    """Where two columns hold the same cell: of one kind of missing, one type, one sign of zero."""
    if _is_plain(before) and _is_plain(after):
        old, new = before.to_numpy(), after.to_numpy()
        same = (old == new) | ((old != old) & (new != new))
        signs = np.signbit(old) == np.signbit(new) if old.dtype.kind == new.dtype.kind == "f" else True
        return np.asarray(same & (signs | (old != old)))
    cells = zip(before.tolist(), after.tolist(), _equal(before, after), strict=True)
    return np.array([bool(same) and type(x) is type(y) and _sign(x) == _sign(y) for x, y, same in cells], dtype=bool)


def _sign(cell: Any) -> bool:
    return bool(np.signbit(cell)) if isinstance(cell, float) and cell == cell else False


def _numbers(column: "pd.Series[Any]") -> Array:
    return np.asarray(pd.to_numeric(column.astype(object), errors="coerce"), dtype=np.float64)


def _labels(column: "pd.Series[Any]") -> Array:
    cells = np.empty(len(column), dtype=object)
    for row, (cell, gone) in enumerate(zip(column.tolist(), _missing(column), strict=True)):
        cells[row] = None if gone else cell
    return cells


def _rounding(column: "pd.Series[Any]") -> float:
    """How far numbers of a column may be off what they were computed from."""
    dtype = getattr(column.dtype, "numpy_dtype", column.dtype)
    return SHORT_ROUNDING if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize < 8 else ROUNDING
