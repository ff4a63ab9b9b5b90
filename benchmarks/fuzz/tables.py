"""Random tables: columns of every dtype, range and grid, and what a user says about them.

A table is described by plain data whose `repr` is code, so that a violation can be printed and run again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Rows = Any  # a DataFrame or an array

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "Int64", "UInt8")
FRACTIONS = ("float64", "float32", "float16", "Float32", "Float64")
CATEGORIES = ("bool", "boolean", "object", "str", "category", "ordered", "category of numbers")
OBJECTS = ("whole objects", "float objects", "object", "bool objects")  # columns of an object array
TEXTS = ("a", "b", "1", "True", "=cmd|' /C'!A0", 'é, "x"', "", "a longer text than the others", " a")
NUMPY_NAME = {"Int64": "int64", "UInt8": "uint8", "Float32": "float32", "Float64": "float64"}


@dataclass(frozen=True)
class Column:
    """One column, and what the user says about it.

    `size` is the decimal logarithm of the spread of numbers, or the number of categories; `offset` the middle of the
    numbers in spreads; `digits` how many digits below the spread are written (None: all). `bounds` are shares of the
    range of the data (of categories: of their list), `step` is in spreads.
    """

    dtype: str = "float64"
    size: int = 0
    offset: float = 0.0
    digits: int | None = None
    rule: str = "free"
    bounds: tuple[float, float] | None = None
    step: float | None = None
    continuous: bool = False
    categorical: bool = False  # whole numbers that are said to be names

    @property
    def is_number(self) -> bool:
        return self.is_whole or self.dtype in (*FRACTIONS, "float objects")

    @property
    def is_whole(self) -> bool:
        return self.dtype in (*WHOLE, "whole objects") and not self.categorical


@dataclass(frozen=True)
class Table:
    """The training rows: `container` is "frame", or the dtype of an array, which all columns then have."""

    columns: tuple[Column, ...] = (Column(),)
    container: str = "frame"
    rows: int = 30
    index: str = "range"
    seed: int = 0

    @property
    def names(self) -> list[str]:
        prefix = "column " if self.container == "frame" else "x"
        return [f"{prefix}{j}" for j in range(len(self.columns))]

    def training(self) -> Rows:
        rng = np.random.default_rng([self.seed, 1])
        return self._assembled([_cells(column, self.rows, rng, False) for column in self.columns])

    def queries(self, count: int) -> Rows:
        """Training rows, fresh rows, and rows far outside of them, with zeros of both signs among the fractions."""
        rng = np.random.default_rng([self.seed, 2])
        training = _by_column(self.training())
        columns = []
        for column, seen in zip(self.columns, training, strict=True):
            known = list(rng.choice(np.arange(len(seen)), count))
            if not column.is_number and not column.dtype.startswith(("category", "ordered")):
                columns.append([seen[i] for i in known])  # other texts are refused
                continue
            fresh, origin = _cells(column, count, rng, True), rng.random(count)
            cells = [fresh[i] if origin[i] < 0.5 else seen[known[i]] for i in range(count)]
            if column.dtype in FRACTIONS and column.digits != 0:
                cells = [-0.0 if share > 0.97 else cell for cell, share in zip(cells, origin, strict=True)]
            columns.append(cells)
        return self._assembled(columns)

    def _assembled(self, columns: list[list[Any]]) -> Rows:
        count = len(columns[0])
        if self.container == "frame":
            index = {"text": [f"row {i}" for i in range(count)], "twice": [i // 2 for i in range(count)]}
            made = {
                name: _series(column, cells)
                for name, column, cells in zip(self.names, self.columns, columns, strict=True)
            }
            return pd.DataFrame(made).set_axis(pd.Index(index.get(self.index, range(count))))
        if self.container == "text":
            return np.array(columns, dtype=str).T.copy()
        array = np.empty((count, len(columns)), dtype=self.container)
        for j, cells in enumerate(columns):
            array[:, j] = cells
        return array


def _cells(column: Column, count: int, rng: np.random.Generator, query: bool) -> list[Any]:
    """Cells as Python objects, which the column's dtype holds exactly or rounds."""
    if column.categorical:
        return [int(code) for code in rng.choice([1, 2, 3, 5, 7], count)]
    if not column.is_number:
        known = categories_of(column)
        if column.dtype.startswith(("category", "ordered")) and not query and len(known) > 2:
            known = known[:-1]  # a category of the dtype that no training row has
        return [known[i] for i in rng.integers(0, len(known), count)]
    if column.is_whole:
        info = np.iinfo(NUMPY_NAME.get(column.dtype, column.dtype.replace("whole objects", "int64")))
        spread = int(10 ** min(column.size, 18)) if column.size > 0 else 1
        middle = int(column.offset * spread)
        reach = 2 * spread if query else spread
        drawn = [middle + int(share * reach) for share in rng.uniform(-1, 1, count) * rng.choice([1.0, 0.1], count)]
        return [min(max(cell, int(info.min)), int(info.max)) for cell in drawn]
    spread = 10.0**column.size
    numbers = spread * (column.offset + rng.normal(size=count) * (3.0 if query else 1.0))
    if column.digits is not None:
        # By text, as data are written: np.round leaves 0.30000000000000004.
        numbers = np.array([float(f"{number:.{max(column.digits - column.size, 0)}f}") for number in numbers])
    name = NUMPY_NAME.get(column.dtype, column.dtype.replace("float objects", "float64"))
    limit = float(np.finfo(name).max) / 4
    return [float(cell) for cell in np.clip(numbers, -limit, limit).astype(name)]


def categories_of(column: Column) -> list[Any]:
    """All categories, in the order of the dtype."""
    count = max(2, min(column.size, len(TEXTS)))
    if column.dtype in ("bool", "boolean", "bool objects"):
        return [False, True]
    if column.dtype == "category of numbers":
        return [3 * i - 4 for i in range(count)]
    return list(TEXTS[:count])


def _series(column: Column, cells: list[Any]) -> "pd.Series[Any]":
    if column.dtype in ("category", "ordered", "category of numbers"):
        return pd.Series(pd.Categorical(cells, categories=categories_of(column), ordered=column.dtype == "ordered"))
    return pd.Series(cells, dtype=column.dtype)


def _by_column(rows: Rows) -> list[list[Any]]:
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    return [frame.iloc[:, j].tolist() for j in range(frame.shape[1])]


def wider(rows: Rows) -> Rows:
    """The same rows in 64 bits, as they come from a file after a model was trained on less."""
    roomy = {"i": "int64", "u": "int64", "f": "float64"}
    if not isinstance(rows, pd.DataFrame):
        return rows.astype(roomy.get(rows.dtype.kind if rows.dtype != np.uint64 else "", rows.dtype))
    kinds = {name: dtype for name, dtype in rows.dtypes.items() if isinstance(dtype, np.dtype) and dtype != np.uint64}
    return rows.astype({name: roomy[dtype.kind] for name, dtype in kinds.items() if dtype.kind in roomy})


def said_of(table: Table, training: Rows) -> dict[str, Any]:
    """The arguments of `FeatureSpace.infer` that say what the columns' rules are."""
    lists = ("immutable", "increase_only", "decrease_only", "continuous", "categorical")
    said: dict[str, Any] = {**{argument: [] for argument in lists}, "bounds": {}, "steps": {}}
    for name, column, cells in zip(table.names, table.columns, _by_column(training), strict=True):
        if column.rule == "immutable":
            said["immutable"].append(name)
        elif column.rule != "free" and (column.is_number or column.dtype == "ordered"):
            said[f"{column.rule}_only"].append(name)
        if column.categorical:
            said["categorical"].append(name)
        if column.is_number and column.continuous:
            said["continuous"].append(name)
        if column.bounds is not None:
            said["bounds"][name] = bounds_of(column, cells, column.bounds)
        if column.is_number and column.step is not None:
            step = column.step * 10.0**column.size
            said["steps"][name] = float(max(1, round(step))) if steps_are_whole(column, cells) else step
    return said


def steps_are_whole(column: Column, cells: list[Any]) -> bool:
    """Whether the column counts as whole numbers, whose step must be whole."""
    return column.is_whole or (not column.continuous and all(cell == int(cell) for cell in cells))


def bounds_of(column: Column, cells: list[Any], shares: tuple[float, float]) -> Any:
    """(low, high) at these shares of the way through the data, or a part of the list of categories."""
    if not column.is_number:
        known = sorted(set(cells), key=str)
        first = min(int(max(shares[0], 0.0) * len(known)), len(known) - 1)
        return known[first : max(first + 1, int(shares[1] * len(known)))]
    low, high = float(min(cells)), float(max(cells))
    ends = low + shares[0] * (high - low), low + shares[1] * (high - low)
    name = column.dtype.replace("whole objects", "int64").replace("float objects", "float64")
    kind = np.dtype(NUMPY_NAME.get(name, name))
    least, most = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else (-np.inf, np.inf)
    return max(ends[0], float(least)), min(ends[1], float(most))
