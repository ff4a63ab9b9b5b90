"""Plausibility on a large table with many categories: fitting a detector, scoring candidates, and a whole call."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.speed.measuring import describe, timed, timed_explanation
from relax_plugin import FeatureSpace, Plausibility, make_explainer
from relax_plugin.plausibility import TrainingRows

TRAINING_ROWS = 100_000
CATEGORIES = (2000, 1000, 500, 200, 80, 20, 8)  # 3,808 of seven features, the frequent ones as in Zipf's law
NUMBERS = 6
QUERIES = 1000
CANDIDATES = 100  # a query
CHANGED = 3  # features of a candidate at most
MODEL_ROWS = 20_000
MOST_CPU_SECONDS, MOST_MEBIBYTES = 60, 1430


@cache
def table():
    """Rows, and a model of 20,000 of them that reads categories as numbers."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(TRAINING_ROWS, 3))
    numbers = hidden @ rng.normal(size=(3, NUMBERS)) + rng.normal(size=(TRAINING_ROWS, NUMBERS))
    X = pd.DataFrame(numbers.round(2), columns=[f"x{place}" for place in range(NUMBERS)])
    for place, size in enumerate(CATEGORIES):
        share = 1 / np.arange(1, size + 1)
        codes = rng.choice(size, TRAINING_ROWS, p=share / share.sum())
        codes[:size] = np.arange(size)  # each occurs
        X[f"k{place}"] = np.array([f"c{code}" for code in range(size)])[codes]
    score = hidden[:, 0] + (X["x1"] > 0) + rng.normal(size=20)[pd.factorize(X["k5"])[0]]
    coded = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    model = make_pipeline(
        make_column_transformer((coded, [f"k{place}" for place in range(len(CATEGORIES))]), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=30, random_state=0),
    )
    return X, model.fit(X[:MODEL_ROWS], score[:MODEL_ROWS] > 0.8)


@cache
def training():
    X, _ = table()
    space, values = FeatureSpace.infer(X).taking_in(X)
    return TrainingRows.of(space, values)


def candidates():
    """Training rows in which a few cells are those of others."""
    rng, values = np.random.default_rng(1), training().rows
    found = np.repeat(values[-QUERIES:], CANDIDATES, axis=0)
    for _ in range(CHANGED):
        feature = rng.integers(0, values.shape[1], len(found))
        found[np.arange(len(found)), feature] = values[rng.integers(0, len(values), len(found)), feature]
    return found


def detector(kind):
    return training().detector(Plausibility()) if kind == "lof" else training().independent


@pytest.mark.parametrize("kind", ["lof", "independent"])
def test_fitting_a_detector(benchmark, kind):
    describe(benchmark, "plausibility, fit", kind, TRAINING_ROWS, yardstick=kind == "lof")
    training.cache_clear()
    training()
    timed(benchmark, lambda: detector(kind), rounds=1)
    assert_within_the_limits(benchmark)


@pytest.mark.parametrize("kind", ["lof", "independent"])
def test_scoring_candidates(benchmark, kind):
    rows, fitted = candidates(), detector(kind)
    describe(benchmark, "plausibility, score", kind, len(rows), yardstick=kind == "lof")
    scores = timed(benchmark, lambda: fitted.score(rows), rounds=1)
    assert np.isfinite(scores).all()
    assert_within_the_limits(benchmark)


@pytest.mark.parametrize("plausible", [None, "prefer"])
def test_explaining(benchmark, plausible):
    """The detector is fitted in the call that needs it first."""
    X, model = table()
    explainer = make_explainer("greedy", model, plausible=plausible).fit(X)
    describe(benchmark, "plausibility, greedy", plausible, QUERIES, yardstick=plausible is None)
    timed_explanation(benchmark, explainer, lambda: [explainer.explain(X[-QUERIES:])], QUERIES, rounds=1)
    assert_within_the_limits(benchmark)


def assert_within_the_limits(benchmark):
    assert benchmark.extra_info["cpu_seconds"] < MOST_CPU_SECONDS
    assert benchmark.extra_info["peak_mebibytes"] < MOST_MEBIBYTES
