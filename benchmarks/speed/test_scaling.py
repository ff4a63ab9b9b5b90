"""How time and memory grow with the number of features, and with the number of rows to explain."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.speed.measuring import describe, timed, timed_explanation
from relax_plugin import ReLAXConfig, make_explainer
from relax_plugin.datasets import waveform
from relax_plugin.evaluation.tasks import load_task

FEATURES = (8, 21, 60, 200)
TRAINING_ROWS = 2000
QUERIES = 50
METHODS = ("relax-global", "greedy", "move-table", "surrogate-search", "nearest-ct")
QUICK_FIT = ("greedy", "nearest-ct")  # several rounds cost little

INSTANCES = (10**3, 10**4, 10**5, 10**6)
WIDTH = 21  # features, as many as the waveforms have
NEIGHBOURS = 200  # training rows of nearest-ct, which compares every query with each of them


@cache
def synthetic(features):
    """Rows to fit, rows to explain, and a small network: equally hard however many features there are."""
    X, y = make_classification(
        TRAINING_ROWS + QUERIES, features, n_informative=6, n_redundant=2, class_sep=1.5, random_state=0
    )
    X = pd.DataFrame(X.round(3), columns=[f"x{j}" for j in range(features)])
    model = make_pipeline(StandardScaler(), MLPClassifier((32,), early_stopping=True, random_state=0))
    return X.iloc[:TRAINING_ROWS], X.iloc[TRAINING_ROWS:], model.fit(X.iloc[:TRAINING_ROWS], y[:TRAINING_ROWS])


FITTED = {}  # what the timed fits leave for the timed explanations


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("method", METHODS)
def test_fitting_by_features(benchmark, method, features):
    X, _, model = synthetic(features)
    describe(benchmark, f"fit by features, {method}", f"{features} features", yardstick=features == FEATURES[0])
    rounds = 3 if method in QUICK_FIT else 1
    FITTED[method, features] = explainer = timed(benchmark, lambda: make_explainer(method, model).fit(X), rounds)
    benchmark.extra_info.update(model_rows=explainer.fit_rows_, model_seconds=explainer.blackbox_.seconds)
    assert len(explainer.space_) == features


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("method", METHODS)
def test_explaining_by_features(benchmark, method, features):
    X, queries, model = synthetic(features)
    explainer = FITTED.get((method, features)) or make_explainer(method, model).fit(X)
    describe(
        benchmark, f"explain by features, {method}", f"{features} features", QUERIES, yardstick=features == FEATURES[0]
    )
    spent = explainer.blackbox_.seconds
    rounds = 1 if method == "greedy" else 2
    (result,) = timed_explanation(benchmark, explainer, lambda: [explainer.explain(queries)], QUERIES, rounds)
    spent = explainer.blackbox_.seconds - spent
    benchmark.extra_info["model_seconds"] = spent / rounds
    assert result.found.any()


def wavy(rows):
    """A model that costs next to nothing: a logistic regression bent along its first feature."""
    rows = np.asarray(rows)
    chance = 1.0 / (1.0 + np.exp(-(rows @ np.linspace(-1.0, 1.0, WIDTH) + np.sin(2.0 * rows[:, 0]))))
    return np.column_stack([1.0 - chance, chance])


@cache
def explainer_of_many(method):
    if method.endswith("wave2/xgb"):
        task = load_task("wave2/xgb")
        return make_explainer("relax-global", task.model, task.space, effort="policy").fit(task.X_train)
    X = np.random.default_rng(0).standard_normal((TRAINING_ROWS, WIDTH)).round(3)
    if method.startswith("nearest-ct"):
        return make_explainer("nearest-ct", wavy).fit(X[:NEIGHBOURS])
    return make_explainer("relax-global", wavy, effort="policy", config=ReLAXConfig(steps=60)).fit(X)


@pytest.mark.parametrize("count", INSTANCES)
@pytest.mark.parametrize("method", ["policy of a numpy model", "nearest-ct of a numpy model", "policy of wave2/xgb"])
def test_explaining_by_instances(benchmark, count, method):
    explainer = explainer_of_many(method)
    if method.endswith("wave2/xgb"):
        X, y = waveform(int(count * 1.6), 3, seed=1)
        queries = X[(y < 2).to_numpy()].iloc[:count]
    else:
        queries = np.random.default_rng(1).standard_normal((count, WIDTH)).round(3)
    describe(benchmark, f"instances, {method}", f"{count:,} rows", count, yardstick=count == INSTANCES[0])
    rounds = 3 if count <= 10**4 else 1
    (result,) = timed_explanation(benchmark, explainer, lambda: [explainer.explain(queries)], count, rounds)
    benchmark.extra_info["rows_mebibytes"] = count * WIDTH * 8 / 2**20
    assert len(result) == count
