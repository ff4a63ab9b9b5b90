"""Random tables as people have them: missing cells, whatever comes along, one-hot groups, derived columns.

A table is described by plain data whose `repr` is code, as in `fuzz.tables`.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

NUMBERS = ("float64", "float32", "int64", "Int64", "Float64", "int8")
LABELS = ("object", "str", "string", "category", "boolean", "bool objects", "ordered")
CARRIED = ("date", "timedelta", "remark", "list", "decimal", "datetime64", "identifier")
GAPS: dict[str, tuple[Any, ...]] = {  # what may stand for a missing cell of a column, as Python sees it
    "object": (None, float("nan"), pd.NA),
    "bool objects": (None, float("nan")),
    "date": (None, pd.NaT),
    "list": (None,),
    "decimal": (None,),
}
NO_GAPS = ("int64", "int8")  # dtypes that hold none
TEXTS = ("a", "b", "c d", "é, 'x'", "")
PARTS = 3  # columns of a table of shares, which sum to 100


@dataclass(frozen=True)
class RealColumn:
    """One column: `gaps` is the share of missing cells, `name` how it is called (0: an identifier, 1: with a space)."""

    dtype: str = "float64"
    gaps: float = 0.0
    name: int = 0
    rule: str = "free"
    fills: bool = False
    vanishes: bool = False
    whole: bool = False
    size: int = 3  # of categories

    @property
    def is_number(self) -> bool:
        return self.dtype in NUMBERS

    @property
    def has_order(self) -> bool:
        return self.is_number or self.dtype == "ordered"

    @property
    def is_carried(self) -> bool:
        return self.dtype in CARRIED

    @property
    def is_whole(self) -> bool:
        return self.dtype in ("int64", "Int64", "int8") or self.whole

    @property
    def categories(self) -> list[Any]:
        return [False, True] if self.dtype in ("boolean", "bool objects") else list(TEXTS[: max(self.size, 2)])


@dataclass(frozen=True)
class RealTable:
    """The training rows. `groups` are the widths of one-hot groups, `derived` pairs of numbers and how they are joined.

    `shares`: whether there are three columns more, whose sum is 100. `auto`: whether groups are to be found.
    """

    columns: tuple[RealColumn, ...] = (RealColumn(), RealColumn())
    groups: tuple[tuple[int, str], ...] = ()
    derived: tuple[tuple[int, int, str], ...] = ()
    shares: bool = False
    auto: bool = False
    rows: int = 120  # at least so many, or texts that name rows are categories
    seed: int = 0

    @property
    def names(self) -> list[str]:
        return [f"{'n' if c.is_number else 'c'}{j}" + (" of it" if c.name else "") for j, c in enumerate(self.columns)]

    @property
    def group_columns(self) -> dict[str, list[str]]:
        return {
            f"g{k}": [f"g{k}_{TEXTS[i][:1] or 'z'}" for i in range(width)] for k, (width, _) in enumerate(self.groups)
        }

    @property
    def share_names(self) -> list[str]:
        return [f"s{k}" for k in range(PARTS)] if self.shares else []

    @property
    def formulas(self) -> dict[str, tuple[str, str, str]]:
        """Derived columns: the two numbers that each is made of, and how."""
        numbers = [name for name, column in zip(self.names, self.columns, strict=True) if column.is_number]
        if not numbers:
            return {}
        return {
            f"d{k}": (numbers[a % len(numbers)], numbers[b % len(numbers)], how)
            for k, (a, b, how) in enumerate(self.derived)
        }

    def training(self) -> pd.DataFrame:
        return self._rows(self.rows, np.random.default_rng([self.seed, 1]), 1.0)

    def queries(self, count: int) -> pd.DataFrame:
        """Rows as those of training, and such as lie outside of them."""
        made = self._rows(count, np.random.default_rng([self.seed, 2]), 1.5)
        return made.set_axis([f"query {i}" for i in range(count)])

    def _rows(self, count: int, rng: np.random.Generator, reach: float) -> pd.DataFrame:
        made: dict[str, pd.Series[Any]] = {}
        for name, column in zip(self.names, self.columns, strict=True):
            made[name] = with_gaps(column, cells_of(column, count, rng, reach), rng)
        for (name, columns), (width, dtype) in zip(self.group_columns.items(), self.groups, strict=True):
            one = rng.integers(0, width, count)
            assert name
            for place, column_name in enumerate(columns):
                made[column_name] = pd.Series(one == place).astype(dtype)
        if self.shares:
            tenths = np.floor(rng.dirichlet(np.ones(PARTS), count) * 1000).astype(int)
            tenths[:, -1] += 1000 - tenths.sum(axis=1)
            made |= {name: pd.Series(tenths[:, k] / 10.0) for k, name in enumerate(self.share_names)}
        for name, (a, b, how) in self.formulas.items():
            made[name] = pd.Series([joined(x, y, how) for x, y in zip(floats(made[a]), floats(made[b]), strict=True)])
        frame = pd.DataFrame(made)
        return frame[list(np.random.default_rng(self.seed).permutation(list(frame.columns)))]

    def said(self) -> dict[str, Any]:
        """The arguments of `FeatureSpace.infer`, but for the rules."""
        pairs = list(zip(self.names, self.columns, strict=True))
        said: dict[str, Any] = {
            "immutable": [name for name, c in pairs if c.rule == "immutable"],
            "increase_only": [
                name for name, c in pairs if c.rule == "increase" and (c.is_number or c.dtype == "ordered")
            ],
            "decrease_only": [
                name for name, c in pairs if c.rule == "decrease" and (c.is_number or c.dtype == "ordered")
            ],
            "fill_missing": [name for name, c in pairs if c.fills and not c.is_carried],
            "may_vanish": [name for name, c in pairs if c.vanishes and not c.is_carried and c.dtype not in NO_GAPS],
            "ordered": {name: c.categories for name, c in pairs if c.dtype == "ordered"},
            "derived": {name: formula_text(*parts) for name, parts in self.formulas.items()},
        }
        if self.groups:
            said["one_hot"] = "auto" if self.auto else self.group_columns
        return said


def quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def formula_text(a: str, b: str, how: str) -> str:
    one, other = quoted(a), quoted(b)
    return {"sum": f"{one} + 2 * {other}", "ratio": f"{one} / {other}", "most": f"max({one}, {other}) - 1"}[how]


def joined(a: float, b: float, how: str) -> float:
    """What a derived cell is, NaN where there is no number."""
    if a != a or b != b or (how == "ratio" and b == 0):
        return float("nan")
    return {"sum": a + 2 * b, "ratio": a / b if b else 0.0, "most": max(a, b) - 1}[how]


def is_gap(cell: Any) -> bool:
    return cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float | np.floating) and cell != cell)


def floats(column: "pd.Series[Any]") -> list[float]:
    """The numbers of a column, NaN where one is missing."""
    return [float("nan") if is_gap(cell) else float(cell) for cell in column.tolist()]


def cells_of(column: RealColumn, count: int, rng: np.random.Generator, reach: float) -> list[Any]:
    """Cells as Python objects, none of them missing."""
    if column.is_number:
        numbers = 10.0 + 8.0 * rng.normal(size=count) * reach
        return [round(float(x)) if column.is_whole else round(float(x), 2) for x in numbers]
    if column.dtype in LABELS:
        known = column.categories
        return [known[i] for i in rng.integers(0, len(known), count)]
    day = date(2020, 1, 1)
    drawn = [int(x) for x in rng.integers(0, 10**6, count)]
    return [
        {
            "date": day + timedelta(days=x % 999),
            "datetime64": pd.Timestamp("2020-01-01") + pd.Timedelta(seconds=x),
            "timedelta": pd.Timedelta(seconds=x),
            "remark": f"remark {i} {x}",
            "identifier": f"id-{i}-{x}",
            "list": [x, "b"],
            "decimal": Decimal(x) / 7,
        }[column.dtype]
        for i, x in enumerate(drawn)
    ]


def with_gaps(column: RealColumn, cells: list[Any], rng: np.random.Generator) -> "pd.Series[Any]":
    """The column, with gaps of every kind that its dtype holds; the first two rows have none."""
    gone = (rng.uniform(size=len(cells)) < column.gaps) & (np.arange(len(cells)) > 1)
    kinds = GAPS.get(column.dtype, (None,))
    which = rng.integers(0, len(kinds), len(cells))
    if column.dtype not in NO_GAPS:
        cells = [kinds[k] if g else cell for cell, g, k in zip(cells, gone, which, strict=True)]
    if column.dtype == "float64" and column.whole:
        return pd.Series([float("nan") if cell is None else cell for cell in cells], dtype="float64")
    if column.dtype == "category":
        return pd.Series(pd.Categorical(cells, categories=column.categories))
    plain = {"datetime64": None, "timedelta": None, "remark": "object", "identifier": "object"}
    objects = ("ordered", "object", "bool objects", "date", "list", "decimal")
    if column.dtype in objects:
        series: pd.Series[Any] = pd.Series([None] * len(cells), dtype=object)
        for i, cell in enumerate(cells):
            series.iat[i] = cell
        return series
    dtype = plain.get(column.dtype, column.dtype)
    return (
        pd.Series(pd.to_datetime(pd.Series(cells))) if column.dtype == "datetime64" else pd.Series(cells, dtype=dtype)
    )
