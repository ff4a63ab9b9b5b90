"""How dice-ml sees a model and its tables: names, texts and answers of its own, and random numbers that stay so."""

import io
import random
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem

SURE = 1e-6  # least distance of a probability from 1/2, so that no tie hides what the label says
ONE_AT_A_TIME = threading.RLock()  # dice-ml draws from the global generators, which threads share


class BudgetSpentError(Exception):
    """DiCE has asked as many model rows as one query may cost."""


class GoalView:
    """The model as DiCE asks it: a classifier of rows into goal missed (0) or met (1), or the regressor itself.

    DiCE sees a column a feature. It knows no missing cells: for a number that is missing it is shown the median, for a
    category that is missing, unseen or carried one level more; what comes back as it was shown is the query's own cell.
    """

    def __init__(self, space: FeatureSpace, training: Values) -> None:
        coarse = np.ceil(2 - np.log10(space.scale)).clip(0, 12).astype(int)  # 2 decimals below the deviation
        self.decimals = np.where(space.grid.decimals >= 0, space.grid.decimals, coarse)
        self.names = [f"f{j}" for j in range(len(space))]
        # Codes as text, in which dice-ml's label encoding, alphabetical, gives the codes again. The last one stands for
        # whatever is none of the categories: it may stay, and `project` puts the query's own cell in its place.
        counts = {self.names[j]: len(space.features[j].categories) for j in np.flatnonzero(space.is_categorical)}
        self.levels = {name: [f"{code:06}" for code in range(count + 1)] for name, count in counts.items()}
        self.codes, self.medians = space.missing_codes, _medians(space, training)
        self.last = np.where(space.is_categorical, np.diff(space.category_offsets), np.inf)  # the level for all others
        self.problem: Any = None  # the Problem of a call, while there is one

    def turn_to(self, problem: Problem, query: int, most_rows: int) -> None:
        self.problem, self.query, self.rows_left = problem, query, most_rows
        self.limits, self.start = problem.limits.take(np.array([query])), problem.start[[query]]
        self.seen = self.shown(self.start)
        self.known: dict[bytes, tuple[float, bool]] = {}  # chance or number of a row, and whether it meets the goal

    def shown(self, values: Values) -> Values:
        """The values that DiCE is shown in the place of missing and foreign ones."""
        return np.minimum(np.where(values == self.codes, self.medians, values), self.last)

    def frame(self, values: Values) -> pd.DataFrame:
        """Rows as DiCE gets them: columns f0, f1, ...; numbers as float64, categories as text."""
        frame = pd.DataFrame(self.shown(values), columns=self.names)
        return frame.assign(**{name: np.array(texts)[frame[name].astype(int)] for name, texts in self.levels.items()})

    def values(self, frame: pd.DataFrame) -> Values:
        """DiCE's rows as they are asked about and delivered: rounded as DiCE rounds, projected onto the limits."""
        cells, tens = frame[self.names].to_numpy().astype(np.float64), 10.0**self.decimals
        rounded = np.round(cells * tens) / tens
        unchanged = np.abs(rounded - self.seen) * tens <= 0.5 + 1e-6  # but for the rounding of the query itself
        return self.limits.project(np.where(unchanged, self.start, rounded), self.start)

    def set_dtypes(self, frame: pd.DataFrame, *_: Any) -> pd.DataFrame:
        """dice-ml would cast to float32, in which unchanged cells look changed, and know no unseen category."""
        return frame.assign(**{name: pd.Categorical(frame[name], texts) for name, texts in self.levels.items()})

    def decode(self, codes: Floats) -> pd.DataFrame:
        """dice-ml would decode cell by cell; `values` reads codes too."""
        return pd.DataFrame(np.atleast_2d(codes), columns=self.names)

    def accept(self, *_: Any) -> None:
        """dice-ml would refuse a category that the space knows and no training row has."""

    def predict_proba(self, frame: pd.DataFrame) -> Floats:
        if self.problem is None:  # dice-ml counts the classes when it is set up; that need not cost a row
            return np.full((len(frame), 2), 0.5)
        chance = self.predict(frame)
        return np.column_stack([1.0 - chance, chance])

    def predict(self, frame: pd.DataFrame) -> Floats:
        """The regressor's numbers, or the chances of "goal met": of two classes, the model's own probability."""
        values = self.values(frame)
        keys = [row.tobytes() for row in values]
        self.rows_left -= len(keys) * self.problem.blackbox.rows_per_question
        if self.rows_left < 0:
            raise BudgetSpentError
        fresh = {key: row for row, key in enumerate(keys) if key not in self.known}  # no row is asked twice
        owner = np.full(len(fresh), self.query)
        with kept_generators():  # whatever the model does to them, DiCE goes on with its own random numbers
            answer = self.problem.ask(values[list(fresh.values())], owner)
        goal = self.problem.goal.take(owner)
        met, score = goal.met(answer), answer.output
        if self.problem.blackbox.task == "classification":
            score = np.exp(-np.logaddexp(0.0, goal.gap(answer)))
            score = np.where(met, np.maximum(score, 0.5 + SURE), np.minimum(score, 0.5 - SURE))
        self.known.update(zip(fresh, zip(score.tolist(), met.tolist(), strict=True), strict=True))
        return np.array([self.known[key][0] for key in keys])


def _medians(space: FeatureSpace, training: Values) -> Floats:
    """The median of each feature's numbers, as they are known; its mean where none is."""
    missing = training == space.missing_codes
    if not missing.any():
        return np.median(training, axis=0)
    known = ~missing.all(axis=0)
    medians = space.mean.copy()
    medians[known] = np.nanmedian(np.where(missing, np.nan, training)[:, known], axis=0)
    return medians


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Seed the global generators for dice-ml, then put them back; keep what it prints and warns of to itself."""
    with ONE_AT_A_TIME, redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="dice_ml")
        with kept_generators():
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            yield


@contextmanager
def kept_generators() -> Iterator[None]:
    """Put the global generators back into the states they were found in."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
