"""Plausibility: whether a row looks like the training rows, by an outlier detector, and what a call asks of it.

A search learns to cheat the detector that it sees. So what is delivered is told beside what another kind of detector
says, which no search has seen.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, NotFittedError, did_you_mean
from relax_plugin.features import FeatureSpace
from relax_plugin.outlier_factor import OutlierFactor

WORDS = ("prefer", "require")
QUANTILE = 0.05  # share of the training rows that count as implausible
NEIGHBOURS = 20  # of the local outlier factor: scikit-learn's own number
ROWS_KEPT = 100_000  # training rows that are kept, evenly spaced: as many as a rescue keeps
ROWS_FITTED = 10_000  # distinct ones that a detector is fitted on at most
DETECTORS_KEPT = 3  # beside the newest one
MOST_CATEGORIES = 500  # of a table, which have a column each for a detector of scikit-learn
CELLS_AT_ONCE = 4_000_000  # of the matrix that a detector scores in one call: bounds the memory
INDEPENDENT = "independent_"  # begins what the detector says that no search has seen


@dataclass(frozen=True)
class Plausibility:
    """What a plausible row is: no less so than a share of the training rows, or than the query itself.

    Parameters
    ----------
    detector : "lof" or an outlier detector of scikit-learn
        "lof" is the local outlier factor among the distinct training rows. Any other detector is cloned and fitted on
        the same rows: numbers standardised, a column for each category. With more than 500 categories in the table,
        the rare ones of each feature share a column. A detector needs `score_samples` or `decision_function`.
    quantile : float
        The share, between 0 and 1.
    strict : bool
        Whether an implausible row is never delivered ("require"), or only where no plausible one is found ("prefer").
    """

    detector: Any = "lof"
    quantile: float = QUANTILE
    strict: bool = True

    def __post_init__(self) -> None:
        number = isinstance(self.quantile, int | float | np.integer | np.floating) and self.quantile is not True
        if not number or not 0.0 < self.quantile < 1.0:
            raise InputError(f"quantile is {self.quantile!r}, but must be a number between 0 and 1.")
        if not isinstance(self.strict, bool | np.bool_):
            raise InputError(f"strict is {self.strict!r}, but must be True or False.")
        if isinstance(self.detector, str):
            if self.detector != "lof":
                raise InputError(f"there is no detector {self.detector!r}; give 'lof' or one of scikit-learn.")
        elif isinstance(self.detector, type) or not (hasattr(self.detector, "fit") and _scorer(self.detector)):
            what = self.detector.__name__ if isinstance(self.detector, type) else type(self.detector).__name__
            raise InputError(
                f"the detector is {what}; give 'lof', or an outlier detector of scikit-learn with score_samples or "
                "decision_function, such as IsolationForest()."
            )

    def to_dict(self) -> dict[str, Any]:
        """The same as data; a detector of one's own is an object, and no file holds it."""
        if self.detector != "lof":
            raise InputError(
                f"a file cannot hold the detector {type(self.detector).__name__}; save with plausible=None."
            )
        return {"detector": self.detector, "quantile": float(self.quantile), "strict": bool(self.strict)}


Plausible = Literal["prefer", "require", False] | Plausibility | None  # what every explainer takes


def read_plausibility(value: Any) -> Plausibility | None:
    """What `plausible=` means: None and False ask for nothing, a Plausibility by itself is as strict as it says."""
    if value is None or value is False:
        return None
    if isinstance(value, Plausibility):
        return value
    if isinstance(value, str) and value in WORDS:
        return Plausibility(strict=value == "require")
    hint = did_you_mean(value, WORDS) if isinstance(value, str) else f"accepted are None, {', '.join(map(repr, WORDS))}"
    raise InputError(f"plausible is {value!r}; {hint.removesuffix('.').removesuffix('?')}, or a Plausibility(...).")


def coded(space: FeatureSpace, values: Values) -> Floats:
    """Rows as `OutlierFactor` reads them: standardised numbers, then the codes of categories."""
    categories = np.diff(space.category_offsets)
    columns = np.concatenate([np.flatnonzero(~space.is_categorical), np.flatnonzero(categories)])
    numbers = space.standardise(space.known(values))[:, ~space.is_categorical]
    numbers = np.nan_to_num(numbers, nan=0.0, posinf=0.0, neginf=0.0)
    return np.concatenate([numbers, values[:, columns[numbers.shape[1] :]]], axis=1)


class Encoding:
    """Rows as a detector of scikit-learn sees them: as `FeatureSpace.encoded`, unless there are very many categories.

    With more than `MOST_CATEGORIES`, the most frequent ones of the training rows have a column each, and the others of
    each feature share one.
    """

    def __init__(self, space: FeatureSpace, rows: Values) -> None:
        self.space = space
        self.first = space.category_offsets
        self.column: Integers | None = None  # of each category; None: a column for each
        if self.first[-1] > MOST_CATEGORIES:
            counts = np.bincount(self._places(rows)[1], minlength=self.first[-1])
            often = counts > np.sort(counts)[-MOST_CATEGORIES]
            feature = np.repeat(np.arange(len(space)), np.diff(self.first))
            shared = np.where(often, len(space) + np.arange(len(counts)), feature)
            self.column = np.unique(shared, return_inverse=True)[1]
        columns = self.first[-1] if self.column is None else self.column.max() + 1
        self.width = int((~space.is_categorical).sum() + columns)

    def __call__(self, values: Values) -> Floats:
        if self.column is None:
            return self.space.encoded(values)
        numbers = coded(self.space, values)[:, : (~self.space.is_categorical).sum()]
        matrix = np.zeros((len(values), self.width))
        matrix[:, : numbers.shape[1]] = numbers
        row, place = self._places(values)
        matrix[row, numbers.shape[1] + self.column[place]] = 1.0
        return matrix

    def _places(self, values: Values) -> tuple[Integers, Integers]:
        """The row and the place among all categories of each cell that holds one of them."""
        row, feature = np.nonzero(self.space.is_categorical & (values < np.diff(self.first)))
        return row, self.first[feature] + values[row, feature].astype(np.int64)


class Detector:
    """An outlier detector, fitted to distinct training rows: the higher the score of a row, the more plausible it is.

    Its `threshold` is the quantile of the training rows' own scores.
    """

    def __init__(self, space: FeatureSpace, rows: Values, detector: Any, quantile: float) -> None:
        self.space = space
        self.encoding: Encoding | None = None  # None: numbers and codes
        if isinstance(detector, str):
            numbers = int((~space.is_categorical).sum())
            fitted: Any = OutlierFactor(numbers, min(NEIGHBOURS, len(rows) - 1))
        else:
            fitted, self.encoding = clone(detector), Encoding(space, rows)
        try:
            self.fitted = fitted.fit(self._matrix(rows))
        except TypeError as error:  # it wants labels: no outlier detector
            raise InputError(
                f"the detector {type(fitted).__name__} cannot be fitted to rows alone: {error}."
            ) from error
        # A local outlier factor scores training rows as if they were new ones here: without finding themselves.
        own = getattr(self.fitted, "negative_outlier_factor_", None)
        self.threshold = float(np.quantile(self.score(rows) if own is None else own, quantile))

    def score(self, values: Values) -> Floats:
        """How plausible rows are (rows,); equal ones are scored once, and not too many side by side."""
        whole = np.ascontiguousarray(values).view(np.dtype((np.void, values.dtype.itemsize * values.shape[1])))
        _, first, inverse = np.unique(whole.ravel(), return_index=True, return_inverse=True)
        values, scores, score = values[first], np.empty(len(first)), getattr(self.fitted, _scorer(self.fitted))
        width = values.shape[1] if self.encoding is None else self.encoding.width
        step = max(CELLS_AT_ONCE // width, 1)
        for start in range(0, len(values), step):
            at = slice(start, start + step)
            scores[at] = np.asarray(score(self._matrix(values[at])), dtype=np.float64).reshape(-1)
        return scores[inverse]

    def _matrix(self, values: Values) -> Floats:
        return coded(self.space, values) if self.encoding is None else self.encoding(values)


def _scorer(detector: Any) -> str:
    return next((name for name in ("score_samples", "decision_function") if hasattr(detector, name)), "")


class Fitted(NamedTuple):
    """A detector, and what it was made of."""

    wanted: Plausibility
    detector: Detector


@dataclass(eq=False)
class TrainingRows:
    """The training rows that an explainer keeps to tell what is plausible; detectors are fitted when asked for."""

    space: FeatureSpace
    rows: Values = field(repr=False)

    @cached_property
    def known(self) -> list[Fitted]:
        """The detectors that were fitted so far."""
        return []

    @classmethod
    def of(cls, space: FeatureSpace, values: Values) -> "TrainingRows":
        if len(values) > ROWS_KEPT:
            values = values[np.linspace(0, len(values) - 1, ROWS_KEPT).astype(np.int64)]
        return cls(space, values)

    @cached_property
    def distinct(self) -> Values:
        """Distinct rows, or so many of them that a detector is fitted and asked in reasonable time.

        A row that occurs twenty times would have no distance to its neighbours, and all others looked like outliers.
        Rows that only carried cells tell apart, such as their names, are the same to a detector.
        """
        seen = np.array([not feature.carried for feature in self.space.features], dtype=bool)
        _, first = np.unique(self.rows[:, seen], axis=0, return_index=True)
        rows = self.rows[first]
        if len(rows) <= ROWS_FITTED:
            return rows
        return np.asarray(rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:ROWS_FITTED])])

    def detector(self, wanted: Plausibility) -> Detector:
        """The detector that a call asks for, fitted at the first call."""
        for fitted in self.known:
            if fitted.wanted.quantile == wanted.quantile and fitted.wanted.detector is wanted.detector:
                return fitted.detector
        made = Detector(self.space, self._enough(), wanted.detector, wanted.quantile)
        self.known = [*self.known[-DETECTORS_KEPT:], Fitted(wanted, made)]
        return made

    @cached_property
    def independent(self) -> Detector:
        """Another kind of detector, which no search sees: an IsolationForest."""
        from sklearn.ensemble import IsolationForest

        return Detector(self.space, self._enough(), IsolationForest(random_state=0), QUANTILE)

    def _enough(self) -> Values:
        if len(self.distinct) < 2:
            raise NotFittedError(
                f"{len(self.distinct)} distinct training rows are known, too few to tell what is plausible; an "
                "explainer read from a file knows them unless it was saved with training_rows=False."
            )
        return self.distinct


@dataclass(frozen=True)
class PlausibleRows:
    """The condition that a row is no less plausible than a share of the training rows, or than its query."""

    detector: Detector
    bar: Floats  # the least score of each query's counterfactuals
    told: str = "is plausible"

    @classmethod
    def of(cls, detector: Detector, start: Values) -> "PlausibleRows":
        return cls(detector, np.minimum(detector.score(start), detector.threshold))

    def of_ordinary_rows(self) -> tuple["PlausibleRows", Integers] | None:
        """The same without "or than its query", and the queries for which that is more; None if there are none."""
        queries = np.flatnonzero(self.bar < self.detector.threshold)
        if len(queries) == 0:
            return None
        return replace(self, bar=np.full(len(self.bar), self.detector.threshold)), queries

    def shortfall(self, values: Values, owner: Integers) -> Floats:
        """By how much each candidate is less plausible than it must be; 0 where it is plausible."""
        return np.maximum(self.bar[owner] - self.detector.score(values), 0.0)

    def holds(self, values: Values, owner: Integers) -> Booleans:
        """Whether each candidate is plausible enough."""
        return np.asarray(self.detector.score(values) >= self.bar[owner])

    def take(self, index: Integers) -> "PlausibleRows":
        """The condition for some of the queries."""
        return replace(self, bar=self.bar[index])


COLUMNS = tuple(f"{name}{what}" for name in ("", INDEPENDENT) for what in ("score", "threshold", "plausible"))


def read_table(lines: Any, found: Booleans) -> pd.DataFrame:
    """The table of `Detectors.table` from the numbers of a file; refused if they are none that it gives."""
    numbers = np.asarray(lines, dtype=np.float64).reshape(found.size, 2 + len(COLUMNS))
    table = pd.DataFrame(numbers, columns=["query_id", "cf_id", *COLUMNS])
    table[["query_id", "cf_id"]] = table[["query_id", "cf_id"]].astype(np.int64)
    ids = np.indices(found.shape).reshape(2, -1).T
    for name in ("", INDEPENDENT):
        score, threshold = table[f"{name}score"], table[f"{name}threshold"]
        told = table[f"{name}plausible"].isin([0.0, 1.0]).all() and np.isfinite(threshold).all()
        if not told or (np.isnan(score) == found.ravel()).any() or (table[["query_id", "cf_id"]] != ids).any(axis=None):
            raise InputError("a line of its plausibility is none that a call could have left.")
        table[f"{name}plausible"] = table[f"{name}plausible"].astype(bool)
    return table


@dataclass(frozen=True, eq=False)
class Detectors:
    """Who tells how plausible the results of a call are: the detector it asked for, and another kind."""

    training: TrainingRows
    wanted: Plausibility

    def table(self, start: Values, values: Floats, found: Booleans) -> pd.DataFrame:
        """What both say of found rows (queries, slots, features): one line a query and slot.

        A row is plausible if it is so by the detector's threshold, or no less so than its query. Where nothing was
        found, scores are NaN and nothing is plausible.
        """
        query, slot = np.nonzero(found)
        ids = np.indices(found.shape).reshape(2, -1)
        table = {"query_id": ids[0], "cf_id": ids[1]}
        for detector, name in ((self.training.detector(self.wanted), ""), (self.training.independent, INDEPENDENT)):
            score = np.full(found.shape, np.nan)
            score[query, slot] = detector.score(np.asarray(values[query, slot]))
            threshold = np.broadcast_to(PlausibleRows.of(detector, start).bar[:, None], found.shape)
            table |= {f"{name}score": score.ravel(), f"{name}threshold": threshold.ravel()}
            table[f"{name}plausible"] = (score >= threshold).ravel()
        return pd.DataFrame(table)
