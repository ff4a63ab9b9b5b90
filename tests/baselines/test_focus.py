"""Facts about FOCUS: the soft ensemble by hand, and where the descent ends."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from reference.gaps import problem_with_gaps, space_with
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import FeatureSpace, Goal
from relax_plugin.baselines import common
from relax_plugin.baselines.focus import Focus, SoftTrees, paths
from relax_plugin.errors import InputError
from relax_plugin.evaluation.judge import Method, Unit, judge
from relax_plugin.trees.readers import read_trees

RNG = np.random.default_rng(5)
NAMES = ["a", "b", "c", "d"]
ROWS = pd.DataFrame(RNG.normal(size=(250, 4)) * [1, 20, 1, 1] + [0, 100, 0, 0], columns=NAMES)
SPACE = FeatureSpace.infer(ROWS)
SIGNAL = ROWS["a"] + (ROWS["b"] - 100) / 20 + 0.3 * RNG.normal(size=250)
TARGETS = {"two": (SIGNAL > 0).to_numpy().astype(int), "three": np.digitize(SIGNAL, [-0.5, 0.5])}
QUICK: dict[str, Any] = {"iterations": 150, "learning_rate": 0.05}


def families() -> dict[str, Any]:
    models = {
        "forest": RandomForestClassifier(20, random_state=0),
        "adaboost": AdaBoostClassifier(n_estimators=30, random_state=0),
        "gradient boosting": GradientBoostingClassifier(n_estimators=20, random_state=0),
    }
    for library, name in (("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")):
        quiet = {"verbose": -1} if library == "lightgbm" else {}
        models[library] = getattr(pytest.importorskip(library), name)(n_estimators=20, n_jobs=1, **quiet)
    return models


def stump() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=1).fit(ROWS, ROWS["b"] > 100)


# The soft ensemble.


def test_a_soft_stump_is_a_sigmoid() -> None:
    trees = read_trees(stump())
    soft = SoftTrees(trees, SPACE, sharpness=3.0, temperature=2.0)
    values = SPACE.values(ROWS[:20])
    share = 1 / (1 + np.exp(-3.0 * (values[:, 1] - trees.cuts[1][0]) / SPACE.scale[1]))
    place = torch.from_numpy(SPACE.standardise(values)).float()
    assert np.allclose(soft.scores(place)[:, 1], share, atol=1e-5)
    odds = np.exp(2.0 * (2 * share - 1))
    assert np.allclose(soft.probabilities(place)[:, 1], odds / (1 + odds), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(TARGETS))
@pytest.mark.parametrize("name", ["forest", "adaboost", "gradient boosting", "xgboost", "lightgbm"])
def test_sharp_trees_are_the_true_ones(name: str, kind: str) -> None:
    trees = read_trees(families()[name].fit(ROWS, TARGETS[kind]))
    values = RNG.normal(size=(60, 4)) * SPACE.scale + SPACE.mean
    far = np.ones(60, dtype=bool)
    for j, cuts in enumerate(trees.cuts):  # float32 cannot tell a value from a threshold a hair away
        far &= np.abs(values[:, [j]] - cuts[None]).min(axis=1, initial=np.inf) > 1e-4 * SPACE.scale[j]
    assert far.sum() > 20
    place = torch.from_numpy(SPACE.standardise(values[far])).float()
    soft = SoftTrees(trees, SPACE, sharpness=1e6, temperature=1.0)
    assert np.allclose(soft.scores(place), trees.scores(values[far]), atol=1e-4)


def test_the_weights_of_the_leaves_of_a_tree_add_up_to_one() -> None:
    trees = read_trees(RandomForestClassifier(5, random_state=0).fit(ROWS, TARGETS["three"]))
    place = torch.from_numpy(SPACE.standardise(SPACE.values(ROWS[:10]))).float()
    scores = SoftTrees(trees, SPACE, sharpness=2.0, temperature=1.0).scores(place)
    assert np.allclose(scores.sum(dim=1), 1.0, atol=1e-4), "each leaf's probabilities do"


def test_paths_name_every_test_on_the_way_to_a_leaf() -> None:
    trees = read_trees(DecisionTreeClassifier(random_state=0).fit(ROWS, TARGETS["three"]))
    leaf, test = paths(trees)
    inner = np.flatnonzero(trees.feature >= 0)
    low, high = np.full_like(trees.boxes[0], -np.inf), np.full_like(trees.boxes[0], np.inf)
    for position, passed in zip(leaf, test, strict=True):
        node = inner[passed % len(inner)]
        feature, threshold = trees.feature[node], trees.threshold[node]
        if passed < len(inner):
            high[position, feature] = min(high[position, feature], threshold)
        else:
            low[position, feature] = max(low[position, feature], threshold)
    assert (low == trees.boxes[0]).all()
    assert (high == trees.boxes[1]).all()


# The descent.


@pytest.mark.slow
def test_a_query_ends_just_beyond_the_threshold() -> None:
    model = stump()
    cut = read_trees(model).cuts[1][0]
    result = Focus(model, SPACE, iterations=400, sharpness=1.0).fit(ROWS).explain(ROWS[:40])
    assert result.found.all()
    assert set(result.changes()["feature"]) == {"b"}, "no other feature has a gradient"
    assert (np.abs(result.values[:, 0, 1] - cut) <= 0.06 * SPACE.scale[1]).all(), "within a few steps of 0.02"
    assert (result.stage == "gradient").all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(TARGETS))
@pytest.mark.parametrize("name", ["forest", "adaboost", "gradient boosting", "xgboost", "lightgbm"])
def test_every_family_is_turned_with_one_setting(name: str, kind: str) -> None:
    model = families()[name].fit(ROWS, TARGETS[kind])
    result = Focus(model, SPACE, **QUICK).fit(ROWS).explain(ROWS[:30])
    assert result.found.mean() >= 0.9
    assert (model.predict(result.frame[NAMES]) != model.predict(ROWS[:30])[result.found[:, 0]]).all()


@pytest.mark.slow
def test_a_target_of_its_own_is_reached() -> None:
    model = RandomForestClassifier(20, random_state=0).fit(ROWS, TARGETS["three"])
    targets = (model.predict(ROWS[:20]) + 1) % 3
    result = Focus(model, SPACE, **QUICK).fit(ROWS).explain(ROWS[:20], goal=Goal.to(targets))
    assert result.found.mean() >= 0.8
    assert (model.predict(result.frame[NAMES]) == targets[result.found[:, 0]]).all()


@pytest.mark.slow
def test_more_weight_on_distance_ends_nearer() -> None:
    model = RandomForestClassifier(20, random_state=0).fit(ROWS, TARGETS["two"])
    light, heavy = (
        Focus(model, SPACE, distance_weight=weight, **QUICK).fit(ROWS).explain(ROWS[:30]) for weight in (1e-4, 0.05)
    )
    both = light.found[:, 0] & heavy.found[:, 0]
    assert both.sum() >= 20
    near, far = (SPACE.distance(result.values[both, 0], result.start[both]).mean() for result in (heavy, light))
    assert near < far


@pytest.mark.slow
def test_the_reverted_form_has_no_change_that_can_be_undone() -> None:
    model = RandomForestClassifier(20, random_state=0).fit(ROWS, TARGETS["two"])
    dense = Focus(model, SPACE, **QUICK).fit(ROWS).explain(ROWS[:30])
    sparse = Focus(model, SPACE, reverted=True, **QUICK).fit(ROWS).explain(ROWS[:30])
    assert (dense.found == sparse.found).all()
    assert np.nanmean(sparse.sparsity) < np.nanmean(dense.sparsity)
    before = model.predict(ROWS[:30])
    for query in np.flatnonzero(sparse.found[:, 0]):
        changed = np.flatnonzero(sparse.values[query, 0] != sparse.start[query])
        for j in changed if len(changed) > 1 else ():
            without = sparse.values[query, 0].copy()
            without[j] = sparse.start[query, j]
            assert model.predict(pd.DataFrame([without], columns=NAMES)) == before[query]


@pytest.mark.slow
def test_few_changes_are_kept_to_where_that_is_asked() -> None:
    model = RandomForestClassifier(20, random_state=0).fit(ROWS, TARGETS["two"])
    result = Focus(model, SPACE, max_changes=2, **QUICK).fit(ROWS).explain(ROWS[:30])
    assert result.found.mean() >= 0.8
    assert np.nanmax(result.sparsity) == 2


def test_the_descent_costs_no_model_rows() -> None:
    model = RandomForestClassifier(20, random_state=0).fit(ROWS, TARGETS["two"])
    explainer = Focus(model, SPACE, **QUICK).fit(ROWS)
    asked = explainer.blackbox_.rows_asked
    result = explainer.explain(ROWS[:20])
    found = int(result.found.sum())
    assert found >= 15
    assert explainer.blackbox_.rows_asked - asked == result.rows_queried.sum()
    assert result.rows_queried.sum() == 2 * 20 + 2 * found, "labels and scores of the queries and of what is found"


def test_trees_without_a_test_have_no_counterfactuals() -> None:
    model = DecisionTreeClassifier(min_samples_leaf=200).fit(ROWS, TARGETS["two"])
    result = Focus(model, SPACE, iterations=5).fit(ROWS).explain(ROWS[:4])
    assert not result.found.any()
    assert result.statuses[0, 0] == "none was found in 5 steps of gradient descent"


@pytest.mark.slow
def test_chunks_of_queries_do_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = Focus(RandomForestClassifier(10, random_state=0).fit(ROWS, TARGETS["two"]), SPACE, **QUICK).fit(ROWS)
    together = explainer.explain(ROWS[:11])
    monkeypatch.setattr(common, "CHUNK_CELLS", 4 * len(explainer.trees_.feature))
    apart = explainer.explain(ROWS[:11])
    assert (together.found == apart.found).all()
    assert np.allclose(together.values, apart.values, atol=1e-2 * SPACE.scale)


@pytest.mark.parametrize(
    "options", [{"iterations": 0}, {"sharpness": 0}, {"temperature": -1}, {"learning_rate": np.inf}], ids=str
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))} is"):
        Focus(stump(), **options).fit(ROWS)


# Before the judge.


@pytest.mark.slow
def test_the_judge_confirms_what_is_found() -> None:
    unit = Unit("diabetes/ada", Method.parse("focus:iterations=300,learning_rate=0.05,reverted=True"), 0, rows=20)
    rows = judge(unit, unit.load())
    assert {row["state"] for row in rows} == {"ok"}
    assert all(row["claimed"] == row["valid"] and row["violations"] == 0 for row in rows)
    assert sum(row["valid"] for row in rows) >= 18


# Missing numbers.


@pytest.mark.slow
@pytest.mark.parametrize("fillable", [(), tuple(NAMES)], ids=["stays", "may be filled"])
def test_a_missing_number_stays_or_is_filled_within_the_constraints(fillable: tuple[str, ...]) -> None:
    holed = ROWS.mask(np.random.default_rng(3).random(ROWS.shape) < 0.25)
    model = RandomForestClassifier(20, random_state=0).fit(holed, TARGETS["two"])
    assert np.isinf(read_trees(model).threshold[read_trees(model).feature >= 0]).any()
    space = space_with(ROWS, fillable)
    method = Focus(model, space, **QUICK).fit(ROWS)
    lacking = holed[holed.isna().any(axis=1)].iloc[:30]
    problem = problem_with_gaps(method, lacking)
    made = method._generate(problem, 1, np.random.default_rng(0))
    offered = np.flatnonzero(made.offered[:, 0])
    values, start = made.values[offered, 0], problem.start[offered]
    assert len(offered) > 0.5 * len(problem)
    answer = problem.blackbox.confirm(space.model_input(values))
    assert problem.goal.take(offered).met(answer).all()
    assert problem.limits.take(offered).kept(values, start).all()
    if not fillable:
        assert (values == start)[start == space.missing_codes].all()


@pytest.mark.slow
def test_what_only_a_filled_number_can_turn_is_turned_by_filling_it() -> None:
    rows = pd.DataFrame({"x": np.r_[np.arange(40.0), [np.nan] * 40], "y": np.tile(np.arange(40.0), 2)})
    tree = DecisionTreeClassifier(random_state=0).fit(rows, rows["x"] > 19.5)
    for fillable in ((), ("x",)):
        method = Focus(tree, space_with(rows.dropna(), fillable), **QUICK).fit(rows.dropna())
        problem = problem_with_gaps(method, rows[-2:])
        made = method._generate(problem, 1, np.random.default_rng(0))
        assert made.offered.all() == made.offered.any() == bool(fillable)
        if fillable:
            assert (made.values[:, 0, 0] > 19.5).all()
