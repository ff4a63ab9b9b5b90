"""The models that the fuzzer explains: its own, and small ones of scikit-learn for methods that look inside."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from reference.every_explainer import ON_NETWORKS, ON_TREES
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from benchmarks.fuzz.models import Estimator, Machine, Model, Watch, asked
from relax_plugin import BlackBox

ENSEMBLES: tuple[Callable[[], Any], ...] = (
    lambda: RandomForestClassifier(5, random_state=0),
    lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    lambda: ExtraTreesClassifier(6, random_state=0),
    lambda: GradientBoostingClassifier(n_estimators=6, random_state=0),
    lambda: HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=2, random_state=0),
)
LOOKS_INSIDE = (*ON_TREES, *ON_NETWORKS, "search")


class Explained:
    """A model as the package is given it (`handed`), and its own answers without books, for the oracle."""

    def __init__(self, recipe: Model, training: Any) -> None:
        self.recipe, self.is_regressor = recipe, recipe.is_regressor
        machine = Machine(recipe, training)
        self.watch = Watch(machine, training)
        self.counts_rows = True
        self.labels: Any = machine.labels
        if recipe.family == "function of probabilities":
            self.handed: Any = asked(self.watch, "probabilities")
            self.labels = np.arange(len(machine.labels))
        elif recipe.family == "function of labels":
            self.handed = asked(self.watch, "predict")
        elif recipe.family == "function of numbers":
            self.handed = BlackBox(asked(self.watch, "predict"), task="regression")
        else:
            self.handed = Estimator(self.watch)
        self.predict, self.probabilities = machine.predict, machine.probabilities
        self.has_probabilities = recipe.family in ("probabilities", "function of probabilities")
        self.numbers: Any = machine.predict(training) if recipe.is_regressor else None


class LookedInto(Explained):
    """A small model of scikit-learn that learned what the random one answers."""

    def __init__(self, recipe: Model, training: Any, method: str) -> None:
        super().__init__(recipe, training)
        self.counts_rows = False  # a method that has the trees or the gradients asks a copy
        self.is_regressor, self.numbers, self.has_probabilities = False, None, True
        targets = self.predict(training)
        if recipe.is_regressor:
            targets = np.where(targets > np.median(targets), "high", "low")
        if len(set(targets.tolist())) < 2:
            targets = np.where(np.arange(len(targets)) % 2 == 0, "even", "odd")
        if method in ON_NETWORKS:
            fitted: Any = LogisticRegression(max_iter=20)
        elif method == "search":
            fitted = ENSEMBLES[recipe.seed % len(ENSEMBLES)]()
        elif recipe.seed % 2:
            fitted = RandomForestClassifier(3, max_depth=3, random_state=0)
        else:
            fitted = DecisionTreeClassifier(max_depth=3, random_state=0)
        fitted.fit(training, targets)
        self.labels, self.handed = fitted.classes_, fitted
        self.predict, self.probabilities = fitted.predict, fitted.predict_proba


def explained(recipe: Model, training: Any, method: str) -> Explained:
    if method in LOOKS_INSIDE and _all_numbers(training):
        return LookedInto(recipe, training, method)
    return Explained(recipe, training)


def _all_numbers(training: Any) -> bool:
    if isinstance(training, np.ndarray):
        return training.dtype.kind in "iuf"
    return all(pd.api.types.is_numeric_dtype(t) and not pd.api.types.is_bool_dtype(t) for t in training.dtypes)
