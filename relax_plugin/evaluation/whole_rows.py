"""What delivered rows must keep beside the limits of single features, checked on the user's own cells.

Missing cells, one-hot groups, derived columns, what is carried, and rules: counted by the judge's own code, which reads
of a space only what the user has said.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Integers
from relax_plugin.cached import cached_property
from relax_plugin.evaluation.rule_texts import ROUNDING, SHORT_ROUNDING, RuleText, Told
from relax_plugin.features import FeatureSpace
from relax_plugin.table.columns import Feature

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
