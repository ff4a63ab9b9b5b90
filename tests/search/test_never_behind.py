"""Whatever `greedy` or `nearest-ct` solves within the limit, every method that searches solves: many random models.

The search itself may be as poor as it likes: who is left unsolved is rescued.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.tiny import QUICK
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.errors import UnsupportedError
from relax_plugin.search.explainer import CounterfactualSearch

ROWS, QUERIES = 160, 12
LIMITS = (1, 2, 5, None)
CONFIG = replace(QUICK, steps=2, episodes=16, start_pool=64, query_budget=300)


def table(rng: np.random.Generator, features: int, unscaled: bool = False, mixed: bool = False) -> pd.DataFrame:
    """Random numbers, in units that differ by orders of magnitude if `unscaled`, with two categories if `mixed`."""
    rows = pd.DataFrame(rng.normal(size=(ROWS, features)).round(2), columns=[f"x{j}" for j in range(features)])
    if unscaled:
        rows = (rows * 10.0 ** rng.integers(-2, 5, features)).round(2)
    if mixed:
        rows["town"] = rng.choice(["Rome", "Bonn", "Oslo", "Bern"], ROWS)
        rows["owns"] = rng.random(ROWS) > 0.5
    return rows


def numbers(rows: Any) -> Any:
    """The rows as a model sees them."""
    towns = {"Rome": 0.0, "Bonn": 1.0, "Oslo": 2.0, "Bern": 3.0}
    return rows.assign(town=rows["town"].map(towns)).astype(float) if "town" in rows else rows


def labels_of(rng: np.random.Generator, rows: pd.DataFrame, classes: int, share: float | None = None) -> Any:
    """Labels of a crooked function of the standardised rows; `share` of them are of the last class."""
    x = numbers(rows).to_numpy(float)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    bent = x @ rng.normal(size=x.shape[1]) + 2.0 * x[:, 0] * x[:, 1] + np.sin(3.0 * x[:, 2])
    if share is not None:
        return (bent > np.quantile(bent, 1.0 - share)).astype(int)
    return np.digitize(bent, np.quantile(bent, np.linspace(0, 1, classes + 1)[1:-1]))


def fitted(estimator: Any, rows: pd.DataFrame, labels: Any, answer: str = "predict_proba") -> Callable[[Any], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged is a model like any other
        estimator.fit(numbers(rows), labels)
    return lambda asked: getattr(estimator, answer)(numbers(asked))


def two_classes(make: Callable[[int], Any], **options: Any) -> Callable[[int], Any]:
    def case(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        rows = table(rng, 5, **options)
        return fitted(make(seed), rows, labels_of(rng, rows, 2)), rows, {}

    return case


def rare(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    rows = table(rng, 5)
    model = fitted(DecisionTreeClassifier(random_state=seed), rows, labels_of(rng, rows, 2, share=0.0125))
    return model, rows, {"goal": Goal.to(1)}


def labels_only(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    rows = table(rng, 9)
    return fitted(SVC(), rows, labels_of(rng, rows, 2), "predict"), rows, {}


def several_targets(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    rows = table(rng, 5)
    model = fitted(ExtraTreesClassifier(8, random_state=seed), rows, labels_of(rng, rows, 5))
    return model, rows, {"goal": Goal.to(rng.integers(0, 5, QUERIES))}


def constrained(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    rows = table(rng, 6, mixed=True)
    model = fitted(ExtraTreesClassifier(8, random_state=seed), rows, labels_of(rng, rows, 2))
    return model, rows, {"vary": ["x0", "x2", "x4", "town"], "bounds": {"x0": (-1.0, 1.0), "town": ["Bonn", "Oslo"]}}


def lock(seed: int) -> Any:
    """Three columns must be high together, and none alone comes nearer; labels are all there is."""
    rng = np.random.default_rng(seed)
    return lambda rows: (rows.to_numpy()[:, :3] > 0.2).all(axis=1).astype(int), table(rng, 9), {"goal": Goal.to(1)}


def numeric_goal(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    rows = table(rng, 5)
    target = labels_of(rng, rows, 40).astype(float)
    low = float(rng.uniform(5, 30))
    return RandomForestRegressor(8, random_state=seed).fit(rows, target), rows, {"goal": Goal.between(low, low + 2.0)}


CASES = {
    "tree": two_classes(lambda seed: DecisionTreeClassifier(random_state=seed)),
    "forest": two_classes(lambda seed: ExtraTreesClassifier(8, random_state=seed), mixed=True),
    "net": two_classes(lambda seed: MLPClassifier((8,), max_iter=60, random_state=seed)),
    "linear": two_classes(lambda seed: LogisticRegression(), mixed=True),
    "unscaled neighbours": two_classes(lambda seed: KNeighborsClassifier(3), unscaled=True),
    "rare class": rare,
    "labels only": labels_only,
    "lock": lock,
    "several targets": several_targets,
    "constrained": constrained,
    "numeric goal": numeric_goal,
}


def solved(name: str, case: Any, **options: Any) -> Any:
    """Which queries of a random case a method solves: none where it does not apply."""
    model, rows, call = case
    try:
        if name == "search":
            explainer = CounterfactualSearch(model, FeatureSpace.infer(rows), goal=call.get("goal"), **options)
        else:
            explainer = make_explainer(name, model, goal=call.get("goal"), **options)
        explainer.fit(rows)
    except UnsupportedError:
        return np.zeros(QUERIES, dtype=bool)
    return explainer.explain(rows[:QUERIES], **call).found[:, 0]


def rivals(case: Any, max_changes: int | None, **options: Any) -> Any:
    """Which queries the two rivals solve between them."""
    nearest = solved("nearest-ct", case, max_changes=max_changes, **options)
    return solved("greedy", case, max_changes=max_changes) | nearest


@pytest.mark.parametrize("name", ["search", "random-order"])
@pytest.mark.parametrize("case", CASES)
def test_a_search_is_never_behind_greedy_and_the_nearest_row(name: str, case: str) -> None:
    for seed, limit in enumerate(LIMITS):
        made = CASES[case](seed)
        missed = rivals(made, limit, reverted=True) & ~solved(name, made, max_changes=limit)
        assert not missed.any(), (seed, limit, np.flatnonzero(missed))


def test_within_few_model_evaluations_it_would_be_behind() -> None:
    made = lock(0)
    assert (rivals(made, 3) & ~solved("random-order", made, max_changes=3, max_queries=12)).any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:nothing can be learned")
@pytest.mark.parametrize("case", CASES)
def test_the_trained_search_is_not_behind_greedy_and_the_nearest_row(case: str) -> None:
    for seed, limit in enumerate(LIMITS):
        made = CASES[case](seed)
        missed = rivals(made, limit) & ~solved("relax-global", made, max_changes=limit, config=CONFIG, progress=False)
        assert not missed.any(), (seed, limit, np.flatnonzero(missed))
