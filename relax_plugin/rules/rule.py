"""Rules: what must hold between the columns of an answer, as a text or a function; and formulas of derived columns."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.cached import cached_property
from relax_plugin.errors import ConstraintError, did_you_mean
from relax_plugin.rules.expression import Cells, Column, Condition, Rows, Term
from relax_plugin.rules.language import Binding, Kind, parse_formula, parse_rule

__all__ = ["BoundFormula", "BoundFunction", "BoundRule", "Formula", "Kind", "Rule"]

RuleFunction = Callable[[pd.DataFrame, pd.DataFrame], Any]


@dataclass(init=False, repr=False, unsafe_hash=True)
class Rule:
    """Something that every answer must keep.

    Parameters
    ----------
    rule : str or callable
        A text in the language of rules, such as `"age >= work_years + 16"` (`relax_plugin.rules.language` says what can
        stand in it). Or a function of (after, before), two DataFrames of the answers and of their queries, row by row,
        that answers a boolean array: whether each row keeps the rule.
    columns : list of names, optional
        The columns of the two DataFrames; for a function only, which needs them.
    name : str, optional
        What to call the rule where people read it; by default its text, or the name of the function.

    Examples
    --------
    >>> Rule("salary >= 12 * rent")
    Rule('salary >= 12 * rent')
    >>> print(Rule(lambda after, before: after["age"] >= before["age"], columns=["age"], name="nobody gets younger"))
    nobody gets younger
    """

    text: str | None  # which says all of it; None for a function, which cannot be saved
    function: RuleFunction | None
    columns: tuple[Hashable, ...]  # of a function
    name: str | None

    def __init__(
        self, rule: str | RuleFunction, columns: Iterable[Hashable] | None = None, name: str | None = None
    ) -> None:
        self.text, self.function, self.columns, self.name = None, None, (), name
        if isinstance(rule, str):
            self.text = parse_rule(rule).text
            if columns is not None:
                raise ConstraintError(f"rule {self.text!r} names its columns itself; leave out columns={columns!r}.")
        elif callable(rule):
            self.function = rule
            if columns is None or isinstance(columns, str) or not isinstance(columns, Iterable):
                raise ConstraintError(
                    f"rule {_function_name(rule)!r} has columns={columns!r}; a function needs a list of the names of "
                    "the columns that it looks at."
                )
            self.columns = tuple(columns)
            if not self.columns:
                raise ConstraintError(f"rule {_function_name(rule)!r} has columns=[]; name at least one.")
        else:
            raise ConstraintError(f"a rule is a text such as 'a <= b', or Rule(function, columns=[...]), not {rule!r}.")

    @classmethod
    def of(cls, rule: "str | Rule") -> "Rule":
        """The rule, whether it is given as such or as a text."""
        if callable(rule) and not isinstance(rule, Rule):
            raise ConstraintError(
                f"the rule {_function_name(rule)!r} is a bare function; write Rule(function, columns=[...])."
            )
        return rule if isinstance(rule, Rule) else cls(rule)

    def bind(
        self, kinds: Mapping[Hashable, Kind], derived: Mapping[Hashable, "Formula"] | None = None
    ) -> "BoundRule | BoundFunction":
        """The rule over columns of these kinds; an error says what does not fit.

        A rule about a derived column is one about the columns that it is computed from.
        """
        if self.function is None:
            parsed = parse_rule(self.text)
            formulas = {name: parse_formula(formula.text) for name, formula in (derived or {}).items()}
            return BoundRule(parsed.text, Binding(parsed, kinds, formulas).condition(parsed.tree))
        for column in self.columns:
            if column not in kinds:
                raise ConstraintError(
                    f"rule {str(self)!r} has {column!r} among its columns, which is none; {did_you_mean(column, kinds)}"
                )
        return BoundFunction(str(self), self.function, self.columns)

    def __str__(self) -> str:
        if self.name is not None:
            return self.name
        return self.text if self.function is None and self.text is not None else _function_name(self.function)

    def __repr__(self) -> str:
        first = repr(self.text) if self.function is None else f"{_function_name(self.function)}, {list(self.columns)}"
        return f"Rule({first}{'' if self.name is None else f', name={self.name!r}'})"


@dataclass(frozen=True)
class Formula:
    """How a derived column is computed from others: a text in the language of rules that is a number.

    Cells that differ from it by at most `tolerance`, relative to its value, satisfy it.

    Examples
    --------
    >>> Formula("salary + 12 * rent").bind({"salary": Kind(), "rent": Kind()}).names
    ('salary', 'rent')
    """

    text: str
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        parse_formula(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it mentions, in the order of the text."""
        return tuple(dict.fromkeys(cell.name for cell in parse_formula(self.text).cells()))

    def bind(self, kinds: Mapping[Hashable, Kind]) -> "BoundFormula":
        """The formula over columns of these kinds; an error says what does not fit."""
        parsed = parse_formula(self.text)
        return BoundFormula(parsed.text, Binding(parsed, kinds).term(parsed.tree))


@dataclass(frozen=True)
class BoundRule:
    """A rule over columns of known kinds.

    A rule that mentions a missing cell counts as kept: nothing is known that breaks it.
    """

    text: str
    condition: Condition

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it mentions, each once; one that `was` mentions too comes once more."""
        return self.condition.columns

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the columns whose new values it is about, in the order of the text."""
        return tuple(column.name for column in self.columns if not column.was)

    def holds(self, after: Cells, before: Cells) -> Booleans:
        """Whether each row keeps the rule.

        The cells of the rows and of their queries, by name, are numbers, or positions of categories; NaN is missing.
        """
        rows = Rows(after, before)
        with np.errstate(all="ignore"):
            kept = self.condition.holds(rows)
        return np.asarray(reduce(np.logical_or, [np.isnan(column.cells(rows)) for column in self.columns], kept))


@dataclass(frozen=True)
class BoundFormula:
    """The formula of a derived column over columns of known kinds."""

    text: str
    term: Term

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the columns that it is computed from, in the order of the text."""
        return tuple(dict.fromkeys(column.name for column in self.term.columns))

    def value(self, cells: Cells) -> Floats:
        """The number in each row; NaN where a cell is missing, or there is none: division by zero, overflow."""
        with np.errstate(all="ignore"):
            value = np.asarray(self.term.value((Rows(cells, {}),)).ends[0], dtype=np.float64)
        return np.where(np.isfinite(value), value, np.nan)


@dataclass(frozen=True)
class BoundFunction:
    """A rule that is a function, whose columns there are; what it says of missing cells is its own affair."""

    text: str  # what to call it
    function: RuleFunction
    names: tuple[Hashable, ...]

    def holds(self, after: pd.DataFrame, before: pd.DataFrame) -> Booleans:
        """Whether each row keeps the rule; the function gets copies of its columns, in the user's dtypes."""
        names = list(self.names)
        given = after[names].copy(), before[names].copy()
        try:
            answer = self.function(*given)
        except Exception as error:
            raise ConstraintError(
                f"rule {self.text!r} raised {type(error).__name__} for {len(after)} rows of {names}: {error}"
            ) from error
        if isinstance(answer, pd.Series) and not answer.index.equals(after.index):
            raise ConstraintError(f"rule {self.text!r} answered rows in another order than it was given.")
        return self._booleans(answer, len(after))

    def _booleans(self, answer: Any, rows: int) -> Booleans:
        cells: Array = answer.to_numpy() if hasattr(answer, "to_numpy") else _array(answer)
        if cells.shape != (rows,):
            raise ConstraintError(
                f"rule {self.text!r} answered {type(answer).__name__} of shape {cells.shape} for {rows} rows; "
                f"it must answer one truth value a row: an array of shape ({rows},)."
            )
        if cells.dtype == bool:
            return cells
        sound = np.array(
            [isinstance(cell, bool | np.bool_ | int | float | np.number) and cell in (0, 1) for cell in cells]
        )
        if not sound.all():
            row = int(np.argmin(sound))
            raise ConstraintError(f"rule {self.text!r} answered {cells[row]!r} in row {row}; it must be true or false.")
        return cells.astype(bool)


def _array(answer: Any) -> Array:
    """The answer as an array; one that is ragged has the shape of its outermost list."""
    try:
        return np.asarray(answer)
    except ValueError:
        return np.asarray(answer, dtype=object)


def _function_name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__).rpartition(".")[2]
