"""Random models of real tables in plain numpy: they take missing cells and whatever comes along, and keep books."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz.real_tables import is_gap


class RealMachine:
    """Scores are sums over the columns: of numbers and labels by weights, of missing cells by weights of their own.

    What is carried counts by its text, so that a cell that was altered on its way gives another answer.
    """

    def __init__(self, training: pd.DataFrame, classes: int, seed: int, steps: bool) -> None:
        rng = np.random.default_rng([seed, 5])
        self.columns, self.classes, self.steps = list(training.columns), np.arange(classes), steps
        self.weights = {name: rng.normal(size=classes) for name in self.columns}
        self.of_gaps = {name: float(rng.normal()) for name in self.columns}
        self.scale: dict[str, tuple[float, float]] = {}
        for name in self.columns:
            known = [float(cell) for cell in training[name].tolist() if _is_number(cell)]
            self.scale[name] = (float(np.median(known)), float(np.ptp(known)) or 1.0) if known else (0.0, 1.0)
        self.rows = 0
        self.complaints: list[str] = []
        middle = np.median(self._sums(training), axis=0)
        self.offset = np.where(np.isfinite(middle), middle, 0.0)

    def _sums(self, rows: pd.DataFrame) -> Any:
        total = np.zeros((len(rows), len(self.classes)))
        for name in self.columns:
            part = self._column(name, rows[name])
            total += part[:, None] * self.weights[name] if len(part) else 0.0
        return total

    def _column(self, name: str, column: "pd.Series[Any]") -> Any:
        """What each cell is read as; numbers at once, others by what differs."""
        dtype = column.dtype
        if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            middle, spread = self.scale[name]
            value = (numbers - middle) / spread
            value = np.floor(value * 4.0) / 4.0 if self.steps else value
            return np.where(np.isnan(numbers), self.of_gaps[name], value)
        known: dict[Any, float] = {}
        made = np.empty(len(column))
        for row, cell in enumerate(column.tolist()):
            key = (type(cell), str(cell))
            if key not in known:
                known[key] = self._read(name, cell)
            made[row] = known[key]
        return made

    def _read(self, name: str, cell: Any) -> float:
        if is_gap(cell):
            return self.of_gaps[name]
        if _is_number(cell):
            middle, spread = self.scale[name]
            value = (float(cell) - middle) / spread
            return float(np.floor(value * 4.0) / 4.0) if self.steps else value
        return (sum(str(cell).encode()) % 97) / 97.0 - 0.5

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        scores = self._sums(rows) - self.offset
        powers = 1.0 / (1.0 + 2.0 * (scores.max(axis=1, keepdims=True) - scores)) ** 2
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.classes[self.predict_proba(rows).argmax(axis=1)] if len(rows) else self.classes[:0]


class RealModel:
    """The machine with books, in scikit-learn's manners; it complains of rows that are not as those of training."""

    _estimator_type = "classifier"

    def __init__(self, machine: RealMachine, training: pd.DataFrame, with_gaps: set[str]) -> None:
        self.machine, self.classes_ = machine, machine.classes
        self.kinds = {name: {_kind(cell) for cell in training[name].tolist()} for name in training.columns}
        for name in with_gaps:  # which may be missing in other rows, though in none of training
            self.kinds[name] |= {_kind(gap) for gap in (None, float("nan"), pd.NA)}
        self.rows, self.complaints = 0, set[str]()

    def look_at(self, rows: Any) -> None:
        if not isinstance(rows, pd.DataFrame):
            raise TypeError("this model takes DataFrames only")
        self.rows += len(rows)
        if list(rows.columns) != self.machine.columns:
            self.complaints.add(f"columns: asked with {list(rows.columns)}")
            return
        for name in rows.columns:
            other = {_kind(cell) for cell in rows[name].tolist()} - self.kinds[name]
            if other:
                self.complaints.add(
                    f"kinds: {name!r} has cells of {sorted(other)}, in training {sorted(self.kinds[name])}"
                )

    def also_seen(self, queries: pd.DataFrame) -> None:
        """Queries may have kinds of cells that training rows have not."""
        for name in self.kinds:
            self.kinds[name] |= {_kind(cell) for cell in queries[name].tolist()}

    def predict(self, rows: Any) -> Any:
        self.look_at(rows)
        return self.machine.predict(rows)

    def predict_proba(self, rows: Any) -> Any:
        self.look_at(rows)
        return self.machine.predict_proba(rows)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | np.integer | np.floating) and not isinstance(cell, bool) and not is_gap(cell)


def _kind(cell: Any) -> str:
    return type(cell).__name__ if is_gap(cell) or not isinstance(cell, float | int) else "number"
