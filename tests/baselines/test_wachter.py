"""`wachter`: the loss of a network against the distance by median absolute deviations."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.baselines.wachter import Wachter

RNG = np.random.default_rng(6)
ROWS = pd.DataFrame(RNG.normal(size=(300, 4)), columns=list("abcd")).assign(b=RNG.exponential(size=300) * 20)
LABELS = (ROWS["a"] + ROWS["b"] / 15 - 0.3 * ROWS["c"] + 0.1 * RNG.normal(size=300) > 1).astype(int)
LINEAR = LogisticRegression(C=10.0).fit(ROWS, LABELS)
MAD = (ROWS - ROWS.median()).abs().median().to_numpy()


def nearest(query: Any, low: Any, high: Any) -> float:
    """The least distance of the paper to the other side of the linear model, by a linear program over |x' - x|."""
    weights, bias = LINEAR.coef_[0], LINEAR.intercept_[0]
    sign = -1.0 if query @ weights + bias > 0 else 1.0
    size = len(query)
    # x' = query + up - down; sign * (w x' + b) >= 0
    rows = -sign * np.concatenate([weights, -weights])
    ends = [(0.0, high[j] - query[j]) for j in range(size)] + [(0.0, query[j] - low[j]) for j in range(size)]
    solved = linprog(np.tile(1 / MAD, 2), A_ub=rows[None], b_ub=[sign * (query @ weights + bias)], bounds=ends)
    return float(solved.fun)


@pytest.mark.slow
def test_on_a_linear_model_it_is_the_nearest_row_by_the_papers_distance() -> None:
    queries = ROWS[:40]
    found = Wachter(LINEAR, tolerance=1e-3, steps=100).fit(ROWS).explain(queries)
    assert found.found.all()
    away = (np.abs(found.values[:, 0] - found.start) / MAD).sum(axis=1)
    low, high = ROWS.min().to_numpy(), ROWS.max().to_numpy()
    best = np.array([nearest(query, low, high) for query in queries.to_numpy()])
    assert (away >= best - 1e-9).all()
    assert (away <= 1.02 * best).all()


@pytest.mark.slow
def test_few_features_change_since_the_distance_has_a_corner() -> None:
    found = Wachter(LINEAR).fit(ROWS).explain(ROWS[:40])
    dense = make_explainer("deepfool", LINEAR).fit(ROWS).explain(ROWS[:40])
    assert np.nanmean(found.sparsity) < 2.5 < np.nanmean(dense.sparsity)


def test_what_a_feature_at_its_end_cannot_do_another_does() -> None:
    queries = ROWS[LABELS == 0][:20]
    space = FeatureSpace.infer(ROWS, bounds={"b": (float(ROWS["b"].min()), 20.0)})
    found = Wachter(LINEAR, space).fit(ROWS).explain(queries)
    assert found.found.mean() >= 0.95
    changed = found.frame["b"].to_numpy() != queries["b"].to_numpy()[found.frame["query_id"]]
    assert (found.frame["b"][changed] <= 20.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_modules_and_networks_are_turned(outputs: int) -> None:
    torch.manual_seed(outputs)
    module = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, outputs))
    rows = pd.DataFrame((ROWS - ROWS.mean()) / ROWS.std(), dtype="float32")
    found = Wachter(module).fit(rows).explain(rows[:30])
    assert found.found.mean() >= 0.9
    network = MLPClassifier((8,), solver="lbfgs", max_iter=500, random_state=0).fit(rows, LABELS)
    turned = Wachter(network).fit(rows).explain(rows[:30])
    assert turned.found.mean() >= 0.9
    assert turned.rows_queried.max() <= 6, "it is asked only to confirm"


def test_a_number_is_moved_as_far_as_is_asked_and_not_much_farther() -> None:
    model = LinearRegression().fit(ROWS, ROWS["a"] + 2 * ROWS["c"])
    explainer = Wachter(model, goal=Goal.shift(1.0)).fit(ROWS)
    found = explainer.explain(ROWS[:20])
    moved = np.abs(found.after[:, 0].astype(float) - found.before.astype(float))
    assert found.found.all() and (moved >= 1.0).all() and (moved < 1.2).all()
    inside = explainer.explain(ROWS[:20], goal=Goal.between(0.0, 0.5))
    assert inside.found.all()


@pytest.mark.slow
def test_a_price_makes_another_feature_move() -> None:
    cheap = Wachter(LINEAR).fit(ROWS).explain(ROWS[:20])
    favourite = cheap.changes()["feature"].mode()[0]
    dear = Wachter(LINEAR).fit(ROWS).explain(ROWS[:20], costs={favourite: 50.0}, objective="sparse")
    assert (dear.changes()["feature"] == favourite).sum() < (cheap.changes()["feature"] == favourite).sum() / 2
