"""Facts about regions of tree ensembles: every row of them meets the goal, and they end where the model says so."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import pytest
from reference.region_rows import AtRandom, delivered_rows, drawn_rows, rows_at_ends
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import Counterfactuals, FeatureSpace, Goal
from relax_plugin.regions import proved
from relax_plugin.regions.proved import reached_leaves
from relax_plugin.regions.regions import Regions
from relax_plugin.trees.readers import read_trees

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(25)
ROWS = 500
MIXED = pd.DataFrame(
    {
        "smooth": RNG.normal(size=ROWS),
        "single": RNG.normal(size=ROWS).astype(np.float32),
        "fives": 5.0 * RNG.integers(0, 20, ROWS),
        "count": RNG.integers(0, 30, ROWS),
        "level": RNG.integers(0, 4, ROWS),
    }
)
SIGNAL = (
    MIXED["smooth"]
    + MIXED["single"]
    - 0.03 * (MIXED["fives"] - 50)
    + 0.1 * (MIXED["count"] - 15) * (MIXED["level"] - 1)
).to_numpy() + 0.5 * RNG.normal(size=ROWS)
TWO, THREE = (SIGNAL > 0).astype(int), np.digitize(SIGNAL, [-0.8, 0.8])
SPACE = FeatureSpace.infer(MIXED, categorical=["level"], steps={"fives": 5.0}, increase_only=["count"])
QUERIES = MIXED[:40]
XGB: dict[str, Any] = {"n_jobs": 1, "n_estimators": 30, "max_depth": 4}
LGBM: dict[str, Any] = {"n_jobs": 1, "verbose": -1, "n_estimators": 30, "num_leaves": 12}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "even forest": lambda: RandomForestClassifier(20, random_state=0),  # whose votes may be a tie
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=30, random_state=0),
    "xgboost": lambda: xgboost.XGBClassifier(**XGB),
    "lightgbm": lambda: lightgbm.LGBMClassifier(**LGBM),
    "extra trees": lambda: ExtraTreesClassifier(15, max_depth=7, random_state=0),
    "adaboost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=25, random_state=0),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestRegressor(15, random_state=0),
    "median": lambda: AdaBoostRegressor(n_estimators=15, random_state=0),
    "xgboost": lambda: xgboost.XGBRegressor(**XGB),
    "lightgbm": lambda: lightgbm.LGBMRegressor(**LGBM),
}
FOUR = ["even forest", "gradient boosting", "xgboost", "lightgbm"]


@cache
def fitted(name: str, kind: str) -> Any:
    targets = {"two": TWO, "three": THREE, "number": SIGNAL}[kind]
    return (REGRESSORS if kind == "number" else CLASSIFIERS)[name]().fit(MIXED, targets)


@cache
def answers(name: str, kind: str, goal: Goal | None = None) -> Counterfactuals:
    explainer = AtRandom(fitted(name, kind), SPACE, goal=goal, max_changes=3).fit(MIXED)
    found = explainer.explain(QUERIES)
    assert found.found.mean() > 0.4
    return found


def wrong_rows(found: Counterfactuals, regions: Regions, model: Any, met: Any, *, count: int, joint: bool) -> int:
    """How many random rows of regions miss the goal by the model's own `predict`, drawn by code of their own."""
    values, owner = drawn_rows(regions, count, joint=joint, seed=77)
    assert found.space.limits(values=found.start).take(regions.query[owner]).kept(values, regions.start[owner]).all()
    return int((~met(model, delivered_rows(found, regions, values, owner), regions.query[owner])).sum())


def flips(found: Counterfactuals) -> Any:
    return lambda model, rows, query: model.predict(rows) != found.before[query]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two", "three"])
@pytest.mark.parametrize("name", FOUR)
def test_none_of_ten_thousand_rows_of_the_boxes_is_wrong(name: str, kind: str) -> None:
    found = answers(name, kind)
    regions = found.regions()
    assert regions.proved[regions.changed].all() and regions.box_proved.all()
    alone, box = (spans.high - spans.low for spans in (regions.alone, regions.boxes))
    assert (box <= alone).all() and (box[alone > 0] / alone[alone > 0]).mean() > 0.7
    for joint in (True, False):
        assert wrong_rows(found, regions, fitted(name, kind), flips(found), count=10_000, joint=joint) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "goal"),
    [
        ("extra trees", "three", None),
        ("adaboost", "two", None),
        ("even forest", "three", Goal.to(2, min_probability=0.6)),
        ("gradient boosting", "two", Goal.to(1, min_probability=0.7)),
        ("xgboost", "three", Goal.to(1, min_probability=0.5)),
        ("lightgbm", "two", Goal.to(1, raise_by=0.2)),
        ("forest", "number", Goal.shift(0.8)),
        ("median", "number", Goal.shift(0.6)),
        ("xgboost", "number", Goal.between(0.4, 1.2)),
        ("lightgbm", "number", Goal.shift(0.8, direction="down")),
    ],
)
def test_no_row_is_wrong_whatever_the_goal(name: str, kind: str, goal: Goal | None) -> None:
    found, model = answers(name, kind, goal), fitted(name, kind)
    regions = found.regions()
    assert regions.proved[regions.changed].mean() > 0.95

    def met(model: Any, rows: Any, query: Any) -> Any:
        if kind == "number":
            answer, before = model.predict(rows), np.asarray(found.before, dtype=float)[query]
            return {
                "shift": np.abs(answer - before) >= goal.delta
                if goal.direction == "either"
                else answer <= before - 0.8,
                "between": (answer >= (goal.low or 0)) & (answer <= (goal.high or 0)),
            }[goal.kind]
        if goal is None:
            return model.predict(rows) != found.before[query]
        chance = model.predict_proba(rows)[:, list(model.classes_).index(goal.label)]
        if goal.raise_by is not None:
            return chance >= found.scores_before[query, goal.label] + goal.raise_by
        return (model.predict(rows) == goal.label) & (chance >= goal.min_probability)

    for joint in (True, False):
        assert wrong_rows(found, regions, model, met, count=4000, joint=joint) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUR)
def test_regions_end_exactly_where_the_model_turns(name: str) -> None:
    """The last value inside meets the goal, the next that a cell can hold does not, unless it is not allowed."""
    found, model = answers(name, "two"), fitted(name, "two")
    regions = found.regions()
    looked_at = 0
    for inside, beyond, owner, allowed in rows_at_ends(regions):
        query = regions.query[owner]
        assert flips(found)(model, delivered_rows(found, regions, inside, owner), query).all()
        held = flips(found)(model, delivered_rows(found, regions, beyond, owner), query)
        assert not (held & allowed).any()
        looked_at += int(allowed.sum())
    assert looked_at > 30


def tiny_tree() -> tuple[DecisionTreeClassifier, pd.DataFrame, Any]:
    """income up to 3,000.5: refused; above: granted if debts are at most 4, or income is above 6,000.5."""
    rows = pd.DataFrame({"income": np.arange(1000, 9001, 100), "debts": np.tile(np.arange(9), 9)})
    more = pd.DataFrame({"income": [3000, 3001, 6000, 6001] * 9, "debts": np.repeat(np.arange(9), 4)})
    rows = pd.concat([rows, more], ignore_index=True)
    granted = (rows["income"] > 3000) & ((rows["debts"] <= 4) | (rows["income"] > 6000))
    return (
        DecisionTreeClassifier(random_state=0).fit(rows, granted.map({True: "granted", False: "refused"})),
        rows,
        granted,
    )


def test_the_regions_of_a_tiny_tree_are_those_one_reads_off_it() -> None:
    model, rows, granted = tiny_tree()
    assert (model.predict(rows) == np.where(granted, "granted", "refused")).all()
    explainer = AtRandom(model, FeatureSpace.infer(rows), max_changes=2).fit(rows)
    poor, indebted = {"income": 2000, "debts": 2}, {"income": 4000, "debts": 7}
    found = explainer.explain(pd.DataFrame([poor, indebted]), vary=["income"])
    regions = found.regions()
    line = regions.table.set_index("query_id")
    assert line.loc[0, ["low", "high", "kind"]].tolist() == [3001.0, 9000.0, "proved"]
    assert line.loc[1, ["low", "high", "kind"]].tolist() == [6001.0, 9000.0, "proved"]
    assert regions.phrase(0, 0, "income") == "at least 3,010"  # a hundredth of the interval for a digit less
    found = explainer.explain(pd.DataFrame([indebted]), vary=["debts"])
    assert found.regions().box(0).ranges == {"debts": (0.0, 4.0)}
    assert found.known_regions is not None and found.known_regions.phrase(0, 0, "debts") == "at most 4"


def test_a_joint_box_is_as_large_as_every_cell_of_it_allows() -> None:
    """Where both cells change, up to an income of 5,000: above 3,000 with up to 4 debts. All of that is the box."""
    model, rows, _ = tiny_tree()
    explainer = AtRandom(model, FeatureSpace.infer(rows), max_changes=2).fit(rows)
    found = explainer.explain(pd.DataFrame([{"income": 1050, "debts": 8}]), bounds={"income": (1000, 5000)})
    assert found.sparsity[0, 0] == 2
    assert found.regions().box(0).ranges == {"income": (3001.0, 5000.0), "debts": (0.0, 4.0)}
    assert found.regions().phrase(0, 0, "income") == "at least 3,010"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["even forest", "xgboost"])
def test_large_boxes_are_proved_in_parts_and_lie_in_those_of_all_cells(name: str, monkeypatch: Any) -> None:
    """With room for few cells the worst leaves and halves decide: never more than all cells together would say."""
    found, model = answers(name, "three"), fitted(name, "three")
    whole = found.regions()
    monkeypatch.setattr(proved, "MOST_CELLS", 100)
    monkeypatch.setattr(proved, "FEW_CELLS", 20)
    parts = found.regions()
    several = (whole.alone.low < whole.alone.high).sum(axis=1) > 1
    assert several.any(), "answers that need several changes, each with a range"
    assert (parts.boxes.high - parts.boxes.low)[several].sum() > 0
    assert wrong_rows(found, parts, model, flips(found), count=4000, joint=True) == 0
    assert np.array_equal(whole.alone.low, parts.alone.low)


def test_leaves_of_a_box_are_those_that_rows_of_it_reach() -> None:
    trees = read_trees(fitted("even forest", "two"))
    rng = np.random.default_rng(1)
    low = MIXED.to_numpy(dtype=float)[:20]
    high = low + rng.random(low.shape) * [1.0, 1.0, 30.0, 8.0, 2.0]
    for box in range(20):
        reached = reached_leaves(trees, low[box], high[box])
        rows = low[box] + rng.random((200, 5)) * (high[box] - low[box])
        ways = set(trees.leaves(np.concatenate([rows, low[[box]], high[[box]]])).ravel())
        assert ways <= set(reached)
        under, over = (ends[reached] for ends in trees.boxes)
        assert ((under < high[box]) & (over >= low[box])).all() and len(reached) < len(trees.leaf_tree)


@pytest.mark.slow
@pytest.mark.parametrize("probed", [True, False])
def test_trees_that_answer_otherwise_than_their_model_are_found_out(monkeypatch: Any, probed: bool) -> None:
    """By probe rows; and the model is asked at the ends of what was proved. Where it disagrees, regions are tested."""
    found = answers("xgboost", "two")
    trees = read_trees(fitted("xgboost", "two"), SPACE)
    crooked = trees.threshold + np.where(np.arange(len(trees.threshold)) % 7 == 3, 0.8, 0.0)
    monkeypatch.setattr("relax_plugin.trees.proving.read_trees", lambda model, space: replace(trees, threshold=crooked))
    monkeypatch.setattr("relax_plugin.proofs.probing.KNOWN", WeakKeyDictionary())
    if not probed:
        monkeypatch.setattr("relax_plugin.trees.proving.refuse_another_model", lambda *told: None)
    regions = found.regions()
    assert not regions.proved[regions.changed & ~SPACE.is_categorical].all()
    model = fitted("xgboost", "two")
    _, owner = drawn_rows(regions, 2000, joint=False, seed=5)
    assert len(np.unique(owner)) == len(regions)
    assert not regions.box_proved.all()
    assert wrong_rows(found, regions, model, flips(found), count=2000, joint=False) < 100
