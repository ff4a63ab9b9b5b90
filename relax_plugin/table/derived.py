"""Derived columns: computed from others by a formula, never chosen, and no change of their own."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.errors import ConstraintError, UnknownNameError, did_you_mean
from relax_plugin.parameters import real_number
from relax_plugin.rules.language import Kind
from relax_plugin.rules.rule import BoundFormula, Formula
from relax_plugin.table.columns import as_integers
from relax_plugin.table.tables import numbers_of

AS_GOOD_AS = 1e-6  # relative difference between a cell and its formula that rounding may make
MOST_TOLERANCE = 1.0  # relative difference that a user may allow


@dataclass(frozen=True)
class Derived:
    """One derived column: its formula, what it is bound to, and its dtype."""

    name: Hashable
    formula: Formula
    bound: BoundFormula
    dtype: Any

    def column(self, cells: Mapping[Hashable, Floats]) -> "pd.Series[Any]":
        """The column for rows with these cells, in its dtype where that holds the numbers."""
        return self.in_dtype(self.bound.value(cells))

    def in_dtype(self, numbers: Floats) -> "pd.Series[Any]":
        plain = self.dtype if isinstance(self.dtype, np.dtype) else None
        if pd.api.types.is_integer_dtype(self.dtype):
            whole = None if np.isnan(numbers).any() else as_integers(numbers, self.dtype)
            return pd.Series(numbers if whole is None else pd.array(whole, dtype=self.dtype))
        return pd.Series(numbers.astype(plain) if plain is not None else pd.array(numbers, dtype=self.dtype))


def read_formulas(said: Any, columns: Sequence[Hashable]) -> dict[Hashable, Formula]:
    """The formulas that the user gives, in an order in which each needs only those before it."""
    if not isinstance(said, Mapping):
        raise ConstraintError(
            f"derived is {said!r}; give a mapping of a column to its formula, a text, or to (formula, tolerance)."
        )
    formulas: dict[Hashable, Formula] = {}
    for name, text in said.items():
        if name not in columns:
            raise UnknownNameError(f"derived names column {name!r}; {did_you_mean(name, columns)}")
        text, tolerance = text if isinstance(text, tuple | list) and len(text) == 2 else (text, 0.0)
        formulas[name] = Formula(text, real_number(f"the tolerance of {name!r}", tolerance, 0.0, MOST_TOLERANCE))
    needs = {name: {cell for cell in formula.names if cell in formulas} for name, formula in formulas.items()}
    order: list[Hashable] = []
    while len(order) < len(formulas):
        ready = [name for name in formulas if name not in order and needs[name] <= set(order)]
        if not ready:
            circle = [name for name in formulas if name not in order]
            raise ConstraintError(f"the derived columns {circle} are computed from each other; one must come first.")
        order += ready
    return {name: formulas[name] for name in order}


def bind_formulas(formulas: Mapping[Hashable, Formula], kinds: Mapping[Hashable, Kind], dtypes: Any) -> list[Derived]:
    """The formulas over columns of these kinds, each over those before it too."""
    known, made = dict(kinds), []
    for name, formula in formulas.items():
        if not pd.api.types.is_numeric_dtype(dtypes[name]) or pd.api.types.is_bool_dtype(dtypes[name]):
            raise ConstraintError(f"derived names column {name!r} of dtype {dtypes[name]}; a formula is a number.")
        made.append(Derived(name, formula, formula.bind(known), dtypes[name]))
        known[name] = Kind()
    return made


def contradicted(derived: Derived, column: "pd.Series[Any]", cells: Mapping[Hashable, Floats]) -> Booleans:
    """In which rows the formula is defined and gives another number, or there is one where it gives none."""
    told, wanted = numbers_of(derived.name, column), derived.bound.value(cells)
    size = np.maximum(np.abs(told), np.abs(wanted))
    allowed = np.maximum(AS_GOOD_AS * np.maximum(size, 1.0), derived.formula.tolerance * np.abs(wanted))
    return np.asarray((np.abs(told - wanted) > allowed) | (np.isnan(told) != np.isnan(wanted)))


def refuse_wrong_formula(derived: Derived, column: "pd.Series[Any]", cells: Mapping[Hashable, Floats]) -> None:
    """Refuse a formula that the rows it is said of contradict; what is missing contradicts nothing."""
    told, wanted = numbers_of(derived.name, column), derived.bound.value(cells)
    wrong = contradicted(derived, column, cells) & ~np.isnan(told) & ~np.isnan(wanted)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConstraintError(
            f"derived column {derived.name!r} is {told[row]:g} in row {row}, but its formula {derived.formula.text!r} "
            f"gives {wanted[row]:g}; {int(wrong.sum())} of {len(wrong)} rows contradict it. If they are rounded, give "
            "(formula, tolerance), or FORMULA ~ TOLERANCE on the command line."
        )
