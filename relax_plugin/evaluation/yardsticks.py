"""What the judge holds counterfactuals of a task against, made once a task and process and used for every method.

The model's answers to the training rows, the nearest of these, detectors of outliers, models fitted again; and beside
each what real test rows have of it, since no number of plausibility says anything alone. The detectors are of two
kinds, which err in other ways: LocalOutlierFactor (Breunig, Kriegel, Ng and Sander, SIGMOD 2000) compares how dense it
is around a row and around its neighbours, and IsolationForest (Liu, Ting and Zhou, ICDM 2008) counts the random cuts
until a row is alone.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.cached import cached_property
from relax_plugin.evaluation import metrics, robustness
from relax_plugin.evaluation.schema import Row
from relax_plugin.evaluation.tasks import Task
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.other_models import FurtherModel
from relax_plugin.results import Counterfactuals

SHARE = 0.05  # of the rows that a detector was fitted on which it calls outliers
LOF_NEIGHBOURS = 20  # of LocalOutlierFactor: scikit-learn's own number
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
        fitted = LocalOutlierFactor(n_neighbors=min(LOF_NEIGHBOURS, len(known) - 1), novelty=True).fit(known)
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


NEIGHBOURS = 5  # training rows that plausibility is measured by
REAL_ROWS = 500  # test rows at most that stand for all real ones, the first
LEAST_ROWS = 3  # distinct training rows, below which nobody tells outliers


class Yardsticks:
    """The judge's own view of a task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.space, self.training = task.space.taking_in(task.X_train)
        self.blackbox = BlackBox(task.model, self.space)
        answered, answer = self.blackbox.learn_answered(self.training)
        self.training, self.known = self.training[answered], answer.output

    @property
    def classifies(self) -> bool:
        return self.blackbox.task == "classification"

    @cached_property
    def neighbours(self) -> metrics.Neighbours:
        return metrics.Neighbours(self.space, self.training)

    @cached_property
    def detectors(self) -> dict[str, Detector]:
        """Who tells outliers, by the name of the column of the rows; nobody where there are too few rows."""
        if len(self.task.X_train.drop_duplicates()) < LEAST_ROWS:
            return {}
        return {name: detector_of(self.task, "training", kind) for name, kind in DETECTORS.items()}

    @cached_property
    def refits(self) -> tuple[FurtherModel, ...]:
        """Models fitted again, none of which any method has seen."""
        return robustness.refits(self.task, self.blackbox, self.training)

    @cached_property
    def real(self) -> Row:
        """What the first test rows have of the same numbers."""
        rows = self.task.X_test.iloc[:REAL_ROWS]
        if len(rows) == 0:
            return {}
        told = {f"real_{name}": float(detector(rows).mean()) for name, detector in self.detectors.items()}
        if self.classifies:
            space, values = self.space.taking_in(rows)
            answer = self.blackbox.over(space).ask(values, mark_refused=True)
            told["real_ynn"] = float(self.ynn(values, answer.output)[answer.answered].mean())
        return told

    @cached_property
    def real_lasting(self) -> float:
        """Share of the test rows' answers that models fitted again keep; of a regressor NaN, whose answers all move."""
        rows = self.task.X_test.iloc[:REAL_ROWS]
        if not self.refits or not self.classifies or len(rows) == 0:
            return float("nan")
        space, _ = self.space.taking_in(rows)
        own = self.blackbox.over(space).confirm(rows, mark_refused=True)
        other = Goal.flip().bind(self.blackbox, own)
        return float(1.0 - robustness.met_by(self.refits, space, rows, other)[:, own.answered].mean())

    def ynn(self, values: Values, reached: Floats) -> Floats:
        """yNN of rows with these answers; of a regressor, whose answers are no classes, NaN."""
        if not self.classifies:
            return np.full(len(values), np.nan)
        return metrics.ynn(self.neighbours.nearest(values, NEIGHBOURS), self.known, reached)


DETECTORS = {"local_outlier": "lof", "isolated": "forest"}  # column of the rows -> kind of detector


@lru_cache(maxsize=4)
def yardsticks_of(task: Task) -> Yardsticks:
    """Those of a task, made once."""
    return Yardsticks(task)


def realism_columns(
    yardsticks: Yardsticks,
    space: FeatureSpace,
    rows: pd.DataFrame,
    pair: tuple[Values, Values],
    answer: Answer,
    prices: Mapping[Hashable, float],
) -> dict[str, Floats]:
    """How real some counterfactuals look, and what they cost: a number a row, by the name of its column.

    The space knows all cells of the rows, which are counterfactuals in the user's dtypes; `pair` are the values of the
    queries, and of the counterfactuals; the prices are of the unit, those of other features the space's own.
    """
    start, values = pair
    own = {feature.name: feature.cost for feature in space.features}
    told = {name: np.asarray(detector(rows), dtype=np.float64) for name, detector in yardsticks.detectors.items()}
    return told | {
        "ynn": yardsticks.ynn(values, answer.output),
        "cost": metrics.cost(space, own | dict(prices), start, values),
        "percentile_shift": metrics.percentile_shift(space, start, values, yardsticks.training),
        "edge_cells": metrics.edge_cells(space, start, values, yardsticks.training),
        "unseen_cells": metrics.unseen_cells(start, values, yardsticks.training),
    }


def lasting(yardsticks: Yardsticks, space: FeatureSpace, rows: pd.DataFrame, goal: BoundGoal) -> Floats:
    """Future validity of counterfactuals with these goals (n,)."""
    return robustness.future_validity(robustness.met_by(yardsticks.refits, space, rows, goal))


class AgainWithNoise:
    """The counterfactuals of the same queries a little otherwise, with the same noise for every method."""

    def __init__(self, task: Task, queries: pd.DataFrame, seed: int) -> None:
        self.task, self.queries = task, queries.iloc[: robustness.NOISY_ROWS]
        self.rows, self.other = robustness.noisy(task.space, self.queries, seed)

    def explained(self, explainer: CounterfactualExplainer, vary: Any) -> Counterfactuals:
        """What the method answers to them."""
        return explainer.explain(self.rows.copy(), goal=self.task.goal_of(len(self.rows)), vary=vary)

    def distance(self, blackbox: BlackBox, first: Counterfactuals, again: Counterfactuals) -> tuple[Integers, Floats]:
        """Positions of queries, and how far their counterfactuals lie from those of the same with noise.

        Only of queries that both times have an answer that the model confirms, and to which it gave the same answer
        with noise as without; a regressor's answers move with any noise, and may.
        """
        before = [blackbox.confirm(rows, mark_refused=True) for rows in (self.queries, self.rows)]
        goal = self.task.goal_of(len(self.rows)) or Goal.flip()
        same = self.other & before[0].answered & before[1].answered
        if blackbox.task == "classification":
            same &= before[0].output == before[1].output
        values = np.full((2, len(self.rows), len(self.task.space)), np.nan)
        for at, result in enumerate((first, again)):
            frame = result.frame[(result.frame["cf_id"] == 0) & (result.frame["query_id"] < len(self.rows))]
            met = np.zeros(len(self.rows), dtype=bool)
            if len(frame):
                query = frame["query_id"].to_numpy()
                delivered = frame[self.task.space.columns]
                answer = blackbox.confirm(delivered, mark_refused=True)
                met[query] = goal.bind(blackbox, before[at]).take(query).met(answer)
                values[at, query] = self.task.space.taking_in(delivered)[1]
            same &= met
        ids = np.flatnonzero(same)
        return ids, metrics.proximity(self.task.space, values[0, ids], values[1, ids])
