"""What each column may become, worked out from the user's own words and training cells with exact arithmetic.

No code of the package is used: the numbers of a column are its cells, bounds are compared as they are, decimals are
those of the shortest text of a cell.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

# Data count as written with decimals if the largest number needs no more digits than these to have them: a measured
# number needs all of its dtype.
WRITTEN_DIGITS = {"float64": 12, "float32": 5, "float16": 3}


@dataclass
class Law:
    """The rules of one column."""

    name: Any
    is_number: bool
    numpy_dtype: str = "object"
    low: Any = None
    high: Any = None
    decimals: int | None = None
    step: float | None = None
    anchor: float = 0.0
    direction: str | None = None
    frozen: bool = False
    allowed: frozenset[Any] = frozenset()
    order: tuple[Any, ...] = ()

    def broken(self, old: Any, new: Any) -> dict[str, Any]:
        """For arrays of changed cells, before and after: which rule is broken where, by the rule's name."""
        broken: dict[str, Any] = {"immutable": np.full(len(new), self.frozen)}
        if not self.is_number:
            broken["category"] = np.array([cell not in self.allowed for cell in new.tolist()], dtype=bool)
            if self.direction:
                place = {category: k for k, category in enumerate(self.order)}
                way = np.array([place[b] - place[a] for a, b in zip(old.tolist(), new.tolist(), strict=True)])
                broken["direction"] = way < 0 if self.direction == "increase" else way > 0
            return broken
        broken["bounds"] = ~(at_least(new, self.low) & at_most(new, self.high))
        if self.direction:
            broken["direction"] = new < old if self.direction == "increase" else new > old
        if self.step is not None:
            broken["grid"] = self._off_grid(new)
        elif self.decimals is not None:
            # A changed cell is a number of the training column's dtype, also where the query's is wider: the float32
            # nearest to 0.504 is written so. But it must be one: what is none of them is written with all its digits.
            cells = new.astype(self.numpy_dtype)
            cells = [short if short == cell else cell for short, cell in zip(cells, new, strict=True)]
            broken["decimals"] = np.array([decimals_of(cell) > self.decimals for cell in cells], dtype=bool)
        return broken

    def _off_grid(self, new: Any) -> Any:
        """Whether a cell is further from anchor + k * step than its dtype must round."""
        assert self.step is not None
        cells = new.astype(np.float64)
        eps = np.finfo(self.numpy_dtype).eps if np.dtype(self.numpy_dtype).kind == "f" else np.finfo(np.float64).eps
        size = np.maximum(np.abs(cells), abs(self.anchor))
        steps = np.round((cells - self.anchor) / self.step)
        error = np.abs((cells - self.anchor) - steps * self.step)
        return error > 4 * eps * size + 4 * np.finfo(np.float64).eps * np.abs(steps * self.step)


def laws_of(names: list[Any], training: Any, said: dict[str, Any], call: dict[str, Any]) -> list[Law]:
    """The rules of every column, given the training rows and what was said to `infer` and to `explain`."""
    laws = []
    for j, name in enumerate(names):
        series = training.iloc[:, j] if isinstance(training, pd.DataFrame) else pd.Series(training[:, j].tolist())
        array_dtype = None if isinstance(training, pd.DataFrame) else training.dtype
        law = _law(name, series, array_dtype, said)
        asked = call.get("bounds") or {}
        if name in asked and law.is_number:
            law.low, law.high = max(law.low, asked[name][0]), min(law.high, asked[name][1])
        elif name in asked:
            law.allowed = law.allowed & frozenset(asked[name])
        vary = call.get("vary")
        law.frozen = name in said["immutable"] or (vary is not None and name not in vary)
        laws.append(law)
    return laws


def _law(name: Any, series: Any, array_dtype: Any, said: dict[str, Any]) -> Law:
    cells, dtype = series.tolist(), series.dtype
    direction = "increase" if name in said["increase_only"] else "decrease" if name in said["decrease_only"] else None
    told = isinstance(dtype, pd.CategoricalDtype) or name in said["categorical"]
    if told or any(isinstance(cell, str | bool) for cell in cells):
        allowed = frozenset(said["bounds"].get(name, cells))
        order = tuple(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else ()
        return Law(name, False, allowed=allowed, order=order, direction=direction)
    if array_dtype is not None and array_dtype.kind != "O":
        numpy_name = str(array_dtype)
        cells = np.array(cells, dtype=array_dtype).tolist()
    else:
        numpy_name = str(getattr(dtype, "numpy_dtype", dtype))
    whole = np.dtype(numpy_name).kind in "iu"
    law = Law(name, True, numpy_name, low=min(cells), high=max(cells), direction=direction)
    if not whole:
        law.decimals = written_decimals(np.array(cells, dtype=numpy_name))
        if law.decimals == 0 and name in said["continuous"]:
            law.decimals = None
    if name in said["bounds"]:
        law.low, law.high = said["bounds"][name]
    if name in said["steps"]:
        law.step = said["steps"][name]
        integer = whole or law.decimals == 0
        law.anchor = float(np.ceil(law.low)) if integer else float(law.low)
        if not whole and name not in said["bounds"] and law.decimals is not None:
            law.anchor = round(float(law.low), law.decimals)  # as the data's least number is written
    return law


def written_decimals(cells: Any) -> int | None:
    """Decimals of the cells as they are written; None if they are measured, not written."""
    most = WRITTEN_DIGITS[str(cells.dtype)]
    if all(cell == np.floor(cell) for cell in cells):
        return 0
    decimals = max(decimals_of(cell) for cell in cells)
    largest = max(abs(Decimal(shortest(cell))) for cell in cells)
    return decimals if largest.scaleb(decimals) < 10**most else None


def decimals_of(cell: Any) -> int:
    """Digits behind the point of the shortest text that reads back as the cell."""
    number = Decimal(shortest(cell)).normalize()
    return max(0, -int(number.as_tuple().exponent))


def shortest(cell: Any) -> str:
    return str(cell.item() if cell.dtype == np.float64 else cell) if isinstance(cell, np.generic) else repr(cell)


def at_least(cells: Any, low: Any) -> Any:
    """cells >= low without rounding either to the other's dtype."""
    if cells.dtype.kind in "iu":
        return np.array([cell >= low for cell in cells.tolist()], dtype=bool)  # Python compares int and float exactly
    return cells.astype(np.float64) >= float(low)


def at_most(cells: Any, high: Any) -> Any:
    if cells.dtype.kind in "iu":
        return np.array([cell <= high for cell in cells.tolist()], dtype=bool)
    return cells.astype(np.float64) <= float(high)
