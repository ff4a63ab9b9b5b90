"""Polished answers: the fewest changes and the least distance that the trees allow, and never against the model."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.trees.floor import floor

RNG = np.random.default_rng(4)
ROWS = pd.DataFrame(RNG.normal(size=(300, 5)).round(2), columns=list("abcde"))
NUMBER = ROWS["a"] + ROWS["b"] * ROWS["c"]
KINDS = np.digitize(NUMBER, [-0.7, 0.7])
SPACE = FeatureSpace.infer(ROWS)
MODELS = {
    "forest": lambda: RandomForestClassifier(25, random_state=0).fit(ROWS, KINDS > 0),
    "forest that ties": lambda: RandomForestClassifier(4, max_depth=3, random_state=0).fit(ROWS, KINDS > 0),
    "AdaBoost": lambda: AdaBoostClassifier(n_estimators=30, random_state=0).fit(ROWS, KINDS > 0),
    "XGBoost of three classes": lambda: XGBClassifier(n_estimators=20, max_depth=3).fit(ROWS, KINDS),
}


@cache
def model(name: str) -> Any:
    return MODELS[name]()


def explained(fitted: Any, way: Any, method: str = "greedy", space: FeatureSpace = SPACE, **call: Any) -> Any:
    box = BlackBox(fitted, accelerate=way)
    return make_explainer(method, box, space, goal=call.pop("goal", None)).fit(ROWS).explain(ROWS[:25], **call)


def better(polished: Any, plain: Any) -> int:
    """How many answers are sparser or closer; none may have become more or farther, or got lost."""
    assert (polished.found == plain.found).all()
    both = plain.found[:, 0]
    sparser = polished.sparsity[both, 0] < plain.sparsity[both, 0]
    assert (polished.sparsity[both, 0] <= plain.sparsity[both, 0]).all()
    assert (polished.proximity[both, 0] <= plain.proximity[both, 0] + 1e-9)[~sparser].all()
    return int((sparser | (polished.proximity[both, 0] < plain.proximity[both, 0] - 1e-9)).sum())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [*((name, "greedy") for name in MODELS), ("AdaBoost", "relax-global")])
def test_answers_are_the_floor_itself(name: str, method: str) -> None:
    plain, polished = (explained(model(name), way, method) for way in ("auto", "polish"))
    assert better(polished, plain) > 0 or method == "relax-global"  # which may leave nothing to improve
    best = floor(model(name), SPACE, ROWS[:25])
    few = polished.found[:, 0] & (polished.sparsity[:, 0] <= 3)
    assert few.sum() > 20
    assert (polished.sparsity[few, 0] == best.changes[few]).all()
    np.testing.assert_allclose(polished.proximity[few, 0], best.distance[few], rtol=1e-9)
    told = model(name).predict(polished.frame[list(ROWS)])
    assert (told == polished.after[polished.found]).all() and (told != polished.before[polished.found[:, 0]]).all()


def test_what_is_asked_more_is_counted() -> None:
    plain, polished = (explained(model("forest"), way) for way in ("auto", "polish"))
    new = polished.stages[:, 0] == "polished"
    assert new.any() and not new.all()
    # Asked when it is polished, and once more for its scores, which a search hands on.
    assert (polished.rows_queried == plain.rows_queried + 2 * new).all()


@pytest.mark.slow
def test_constraints_of_the_call_and_rules_are_kept() -> None:
    space = FeatureSpace.infer(ROWS, immutable=["b"], rules=["a <= c + 1"])
    call: dict[str, Any] = {"vary": ["a", "c", "d"], "bounds": {"c": (-1.0, 1.0)}, "increase_only": ["d"]}
    plain, polished = (explained(model("forest"), way, space=space, **call) for way in ("auto", "polish"))
    assert better(polished, plain) > 0
    found = polished.frame.set_index("query_id")
    start = ROWS.loc[found.index]
    assert (found[["b", "e"]] == start[["b", "e"]]).all().all()
    assert (found["a"] <= found["c"] + 1).all() and (found["d"] >= start["d"]).all()
    assert (found["c"].between(-1.0, 1.0) | (found["c"] == start["c"])).all()


@pytest.mark.slow
def test_gaps_stay_and_numbers_are_polished_too() -> None:
    holed = ROWS.mask(np.random.default_rng(1).random(ROWS.shape) < 0.15)
    forest = RandomForestClassifier(20, random_state=0).fit(holed, KINDS > 0)
    goal = Goal.shift(0.5)
    regressor = RandomForestRegressor(20, random_state=0).fit(ROWS, NUMBER)
    assert better(*(explained(regressor, way, goal=goal) for way in ("polish", "auto"))) > 0
    results = []
    for way in ("polish", "auto"):
        explainer = make_explainer("greedy", BlackBox(forest, accelerate=way), SPACE).fit(ROWS)
        results.append(explainer.explain(holed[:25]))
    assert better(*results) > 0
    told = results[0].frame.set_index("query_id")[list(ROWS)]
    assert (told.isna() == holed.loc[told.index].isna()).all().all()


@pytest.mark.parametrize(
    ("way", "call"),
    [
        ("a probability", {"goal": Goal.flip(min_probability=0.7)}),
        ("any number of changes", {"objective": "closest"}),
        ("further models", {"also": [LogisticRegression().fit(ROWS, KINDS > 0)]}),
    ],
)
def test_what_counts_otherwise_is_left_as_it_is(way: str, call: dict[str, Any]) -> None:
    booster = XGBClassifier(n_estimators=10, max_depth=2).fit(ROWS, KINDS > 0)
    plain, polished = (explained(booster, mode, **call) for mode in ("auto", "polish"))
    pd.testing.assert_frame_equal(polished.frame, plain.frame)


def test_a_model_without_trees_is_explained_as_ever() -> None:
    linear = LogisticRegression().fit(ROWS, KINDS > 0)
    pd.testing.assert_frame_equal(explained(linear, "polish").frame, explained(linear, None).frame)
