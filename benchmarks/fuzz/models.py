"""Random models in plain numpy: with ties, plateaus and waves, in every manner of answering.

Each counts the rows it sees, and looks at how it is asked. All sums are made column by column and without a
transcendental function, so that an answer does not depend on the batch it is in.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

FAMILIES = (
    "probabilities",
    "decision",
    "labels",
    "function of probabilities",
    "function of labels",
    "regressor",
    "function of numbers",
)
SHAPES = ("linear", "plateau", "wave", "corners", "thresholds", "constant")
LABELS = ("int", "text", "odd int", "bool", "whole float", "object text")


@dataclass(frozen=True)
class Model:
    """What a model is: `ties`: which of equally scored classes `predict` takes; `overwrites`: it spoils its rows."""

    family: str = "probabilities"
    shape: str = "linear"
    classes: int = 2
    labels: str = "int"
    ties: str = "first"
    overwrites: bool = False
    seed: int = 0

    @property
    def is_regressor(self) -> bool:
        return self.family in ("regressor", "function of numbers")

    def label_list(self) -> np.ndarray[Any, Any]:
        count = 2 if self.labels == "bool" else self.classes
        texts = ["no", "yes", "", "0", "maybe so"][:count]
        known: dict[str, Any] = {
            "int": np.arange(count),
            "odd int": np.array([7, -3, 12, 0, 100])[:count],
            "text": np.array(texts),
            "object text": np.array(texts, dtype=object),
            "bool": np.array([False, True]),
            "whole float": np.array([1.0, 2.0, 5.0, -1.0, 0.0])[:count],
        }
        return np.sort(known[self.labels])


class Machine:
    """The function behind a model: from the user's rows to scores, without the books."""

    def __init__(self, recipe: Model, training: Any) -> None:
        self.recipe = recipe
        self.is_frame = isinstance(training, pd.DataFrame)
        self.labels = recipe.label_list()
        rng = np.random.default_rng([recipe.seed, 3])
        count = 1 if recipe.is_regressor else len(self.labels)
        self.readings: list[Any] = []
        self.cuts: list[float] = []
        for j in range(training.shape[1]):
            cells = _column(training, j)
            if cells.dtype == object or cells.dtype.kind in "bUS":
                self.readings.append(dict(_weights(cells, rng)))
            else:
                numbers = cells.astype(np.float64)
                self.readings.append((float(np.median(numbers)), float(np.ptp(numbers)) or 1.0))
            self.cuts.append(float(rng.choice(self._read(training, j))))
        self.weights = rng.normal(size=(count, len(self.readings))) * 2.0
        self.intercepts = rng.normal(size=count) * 0.1

    def _read(self, rows: Any, j: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        cells, reading = _column(rows, j), self.readings[j]
        if isinstance(reading, dict):
            return np.array([reading.get(cell, 0.1) for cell in cells.tolist()], dtype=np.float64)
        return (cells.astype(np.float64) - reading[0]) / reading[1]

    def scores(self, rows: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """One score a class, (n, classes), or the number of a regressor, (n, 1)."""
        shape = self.recipe.shape
        scores = np.tile(self.intercepts, (len(rows), 1))
        if shape == "constant":
            return scores
        for j in range(len(self.readings)):
            part = self._read(rows, j)
            if shape == "thresholds":
                part = (part >= self.cuts[j]).astype(np.float64)
            elif shape == "corners":
                part = np.abs(part - self.cuts[j])
            for k in range(scores.shape[1]):
                scores[:, k] = scores[:, k] + part * self.weights[k, j]
        if shape == "plateau":
            scores = np.floor(scores * 2.0) / 2.0
        elif shape == "wave":
            scores = np.abs(np.mod(scores * 1.5, 2.0) - 1.0)
        return scores

    def probabilities(self, rows: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        scores = self.scores(rows)
        powers = 1.0 / (1.0 + 2.0 * (scores.max(axis=1, keepdims=True) - scores)) ** 2
        total = powers[:, 0].copy()
        for k in range(1, powers.shape[1]):
            total += powers[:, k]
        return powers / total[:, None]

    def decision(self, rows: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        scores = self.scores(rows)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, rows: Any) -> np.ndarray[Any, Any]:
        scores = self.scores(rows)
        if self.recipe.is_regressor:
            return scores[:, 0]
        if self.recipe.family == "function of probabilities":
            return self.probabilities(rows).argmax(axis=1)  # whoever calls a function reads its answer so
        if self.recipe.ties == "last":
            return self.labels[scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)]
        return self.labels[scores.argmax(axis=1)]


class Watch:
    """The books of a model, and what it has to complain of about how it was asked."""

    def __init__(self, machine: Machine, training: Any) -> None:
        self.machine, self.training = machine, training
        self.rows = 0
        self.complaints: list[str] = []
        self.lock = threading.Lock()
        self.users_arrays: list[Any] = [training]
        self.last: Any = None
        self.any_dtype = False  # whether the queries have other dtypes than the training rows

    def looked_at(self, rows: Any) -> None:
        with self.lock:
            self.rows += len(rows)
            self._complain(rows)

    def _complain(self, rows: Any) -> None:
        for j, reading in enumerate(self.machine.readings):
            if not isinstance(reading, dict) and not np.isfinite(_column(rows, j).astype(np.float64)).all():
                self.complaints.append(f"finite: asked with a cell of column {j} that is not finite")
        if isinstance(rows, pd.DataFrame) != self.machine.is_frame:
            # A model that answers arrays as it answers frames may be asked with them, if every cell is a number.
            numbers = self.machine.is_frame and all(dtype.kind in "iufb" for dtype in self.training.dtypes)
            if not numbers or rows.dtype.kind not in "iufb" or rows.shape[1:] != (self.training.shape[1],):
                self.complaints.append(f"container: asked with a {type(rows).__name__}")
            return
        if isinstance(rows, pd.DataFrame):
            if list(rows.columns) != list(self.training.columns):
                self.complaints.append(f"columns: asked with {list(rows.columns)}")
            for name in rows.columns:
                if rows[name].dtype != self.training[name].dtype and not self.any_dtype:
                    self.complaints.append(f"dtype: {name} has {rows[name].dtype}, not {self.training[name].dtype}")
            return
        same = rows.dtype == self.training.dtype or (rows.dtype.kind == self.training.dtype.kind == "U")
        if not same and not self.any_dtype:
            self.complaints.append(f"dtype: asked with {rows.dtype}, not {self.training.dtype}")
        if not rows.flags.writeable:
            self.complaints.append("read-only: asked with an array that cannot be written to")
        for other in (*self.users_arrays, self.last):
            if isinstance(other, np.ndarray) and np.shares_memory(rows, other):
                self.complaints.append("shared: asked with an array that somebody else holds")
        self.last = rows

    def spoil(self, rows: Any) -> None:
        """Write over the rows, as a model that computes in place does."""
        if not self.machine.recipe.overwrites:
            return
        if isinstance(rows, pd.DataFrame):
            for j in range(rows.shape[1]):
                rows.isetitem(j, rows.iloc[:, j].iloc[::-1].array)
        elif rows.flags.writeable:
            rows[:] = rows[::-1].copy()


def asked(watch: Watch, method: str) -> Any:
    """A method of the machine that keeps the books."""

    def answer(rows: Any) -> Any:
        watch.looked_at(rows)
        made = getattr(watch.machine, method)(rows)
        watch.spoil(rows)
        return made

    return answer


class Estimator:
    """scikit-learn's manners, with the methods that the family has."""

    def __init__(self, watch: Watch) -> None:
        family = watch.machine.recipe.family
        self._estimator_type = "regressor" if family == "regressor" else "classifier"
        self.predict = asked(watch, "predict")
        if family == "probabilities":
            self.predict_proba = asked(watch, "probabilities")
        if family == "decision":
            self.decision_function = asked(watch, "decision")
        if family in ("probabilities", "decision"):
            self.classes_ = watch.machine.labels


def _column(rows: Any, j: int) -> np.ndarray[Any, Any]:
    """The cells of a column in a plain dtype."""
    if isinstance(rows, np.ndarray):
        cells = rows[:, j]
        if cells.dtype == object and all(type(cell) in (int, float) for cell in cells.tolist()):
            return cells.astype(np.float64)
        return cells
    series = rows.iloc[:, j]
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64)
    return series.to_numpy(dtype=object)


def _weights(cells: Any, rng: np.random.Generator) -> list[tuple[Any, float]]:
    known = sorted(set(cells.tolist()), key=str)
    return [(cell, float(weight)) for cell, weight in zip(known, rng.normal(size=len(known)) * 0.5, strict=True)]
