"""Who tells outliers for the judge: detectors of its own, on rows that it encodes itself.

Two kinds, which err in other ways: LocalOutlierFactor (Breunig, Kriegel, Ng and Sander, SIGMOD 2000), which compares
how dense it is around a row and around its neighbours, and IsolationForest (Liu, Ting and Zhou, ICDM 2008), which
counts the random cuts until a row is alone.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.evaluation.tasks import Task

SHARE = 0.05  # of the rows that a detector was fitted on which it calls outliers
NEIGHBOURS = 20  # of LocalOutlierFactor: scikit-learn's own number
ROWS_FITTED = 10_000  # distinct ones at most, evenly spaced: neighbours of more take long to find

Detector = Callable[[pd.DataFrame], Booleans]


class Encoding:
    """Rows as a detector sees them: standardised numbers, a column of 0 and 1 for each category.

    A missing number counts as the mean, and a missing category is none of the known ones.
    """

    def __init__(self, training: pd.DataFrame) -> None:
        self.numbers = [name for name in training.columns if pd.api.types.is_numeric_dtype(training[name].dtype)]
        others = [name for name in training.columns if name not in self.numbers]
        self.kinds = {name: sorted(set(training[name].dropna()), key=str) for name in others}
        self.mean = training[self.numbers].mean()
        self.spread = training[self.numbers].std(ddof=0).replace(0.0, 1.0)

    def __call__(self, rows: pd.DataFrame) -> Floats:
        parts = [((rows[self.numbers] - self.mean) / self.spread).to_numpy(dtype=np.float64, na_value=0.0)]
        for name, known in self.kinds.items():
            parts.append(np.column_stack([_is(rows[name], kind) for kind in known]))
        return np.concatenate(parts, axis=1, dtype=np.float64)


def outliers(kind: str, known: Floats) -> Callable[[Floats], Booleans]:
    """What calls rows outliers: those that score lower than a twentieth of the rows that it was fitted on.

    The kind is "lof" or "forest". The known rows are distinct: one that occurs twenty times would have no distance to
    its neighbours.
    """
    fitted: Any
    if kind == "lof":
        fitted = LocalOutlierFactor(n_neighbors=min(NEIGHBOURS, len(known) - 1), novelty=True).fit(known)
        own = fitted.negative_outlier_factor_  # as if they were new ones: without finding themselves
    else:
        fitted = IsolationForest(random_state=0).fit(known)
        own = fitted.score_samples(known)
    least = np.quantile(own, SHARE)
    return lambda rows: np.asarray(fitted.score_samples(rows) < least) if len(rows) else np.zeros(0, dtype=bool)


@lru_cache(maxsize=8)
def detector_of(task: Task, which: str = "training", kind: str = "lof") -> Detector:
    """What tells outliers among the rows of a task, fitted on its distinct training or test rows."""
    fitted_on = (task.X_train if which == "training" else task.X_test).drop_duplicates()
    if len(fitted_on) > ROWS_FITTED:
        fitted_on = fitted_on.iloc[np.linspace(0, len(fitted_on) - 1, ROWS_FITTED).astype(np.int64)]
    encoding = _encoding_of(task)
    found = outliers(kind, encoding(fitted_on))
    return lambda rows: found(encoding(rows))


@lru_cache(maxsize=8)
def _encoding_of(task: Task) -> Encoding:
    return Encoding(task.X_train)


def _is(column: "pd.Series[Any]", kind: Any) -> Booleans:
    return np.asarray((column == kind).to_numpy(dtype=bool, na_value=False))
