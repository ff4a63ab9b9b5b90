"""Facts about profiles: they are the model's own scores, and what is found by them is what the model confirms."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.blackbox import BlackBox
from relax_plugin.problem import Problem
from relax_plugin.trees.aims import aim_at
from relax_plugin.trees.costs import Cells, Costs
from relax_plugin.trees.look import CompiledLook, Look, Target
from relax_plugin.trees.masks import Masks, NoMasksError
from relax_plugin.trees.profiles import TreeProfiles, load_kernel
from relax_plugin.trees.readers import read_trees

catboost = pytest.importorskip("catboost")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

QUIET: dict[str, Any] = {"n_jobs": 1, "verbose": -1, "min_child_samples": 2, "n_estimators": 6, "num_leaves": 5}
SMALL: dict[str, Any] = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
COLUMNS = ["a", "b", "c", "kind"]
ENCODER = (OneHotEncoder(handle_unknown="ignore"), ["kind"])


def encoded(model: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return make_pipeline(make_column_transformer((numbers, COLUMNS[:3]), ENCODER, sparse_threshold=0), model)


MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "tree": ("numbers", lambda: DecisionTreeClassifier(max_depth=4, random_state=0)),
    "forest": ("numbers", lambda: RandomForestClassifier(**SMALL)),
    "pure forest": ("numbers", lambda: RandomForestClassifier(6, random_state=0)),
    "extra trees": ("numbers", lambda: ExtraTreesClassifier(**SMALL)),
    "gradient boosting": ("numbers", lambda: GradientBoostingClassifier(**SMALL)),
    "adaboost": ("numbers", lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=5)),
    "xgboost": ("numbers", lambda: xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)),
    "lightgbm": ("numbers", lambda: lightgbm.LGBMClassifier(**QUIET)),
    "catboost": (
        "numbers",
        lambda: catboost.CatBoostClassifier(
            iterations=5, depth=3, verbose=0, thread_count=1, allow_writing_files=False
        ),
    ),
    "histograms": ("gaps", lambda: HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=6, min_samples_leaf=2)),
    "xgboost with gaps": ("gaps", lambda: xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)),
    "histograms of categories": (
        "categories",
        lambda: HistGradientBoostingClassifier(
            max_iter=5, max_leaf_nodes=6, min_samples_leaf=2, categorical_features="from_dtype"
        ),
    ),
    "forest behind a pipeline": ("table", lambda: encoded(RandomForestClassifier(**SMALL))),
    "xgboost behind a pipeline": (
        "table",
        lambda: encoded(xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)),
    ),
    "forest of numbers": ("numbers", lambda: RandomForestRegressor(**SMALL)),
    "boosted numbers": ("numbers", lambda: GradientBoostingRegressor(**SMALL)),
}
REGRESSORS = [name for name in MODELS if "numbers" in name]
CLASSIFIERS = [name for name in MODELS if name not in REGRESSORS]


@cache
def case(name: str, classes: int, seed: int) -> tuple[Any, FeatureSpace, pd.DataFrame]:
    """A small ensemble, the space of its rows, and the rows."""
    kind, make = MODELS[name]
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.integers(-4, 5, (60, 3)) / 2, columns=COLUMNS[:3])
    if kind in ("table", "categories"):
        names = [f"k{number}" for number in range(70 if kind == "categories" else 4)]
        rows["kind"] = pd.Categorical(rng.choice(names, 60), categories=names)
    noise = rng.normal(size=60)
    score = rows["a"] * rows["b"] + rows["c"] + noise
    if "kind" in rows:
        score += 2.0 * (rows["kind"].cat.codes % 3)
    y = score if name in REGRESSORS else pd.qcut(score, classes, labels=False)
    if kind == "gaps":
        rows = rows.mask(rng.uniform(size=rows.shape) < 0.15)
    if kind == "table":
        rows["kind"] = rows["kind"].astype(object)
    options = {"fill_missing": COLUMNS[:2], "may_vanish": COLUMNS[:1]} if kind == "gaps" else {}
    space = FeatureSpace.infer(rows, categorical=list(rows.columns[3:]), **options)
    return make().fit(rows, y), space, rows


def problem_of(model: Any, space: FeatureSpace, rows: pd.DataFrame, goal: Goal, **options: Any) -> Problem:
    blackbox, values = BlackBox(model, space), space.values(rows)
    blackbox.learn(values)
    before = blackbox.confirm(rows)
    limits = space.limits(values=values)
    spent = np.zeros(len(values), dtype=np.int64)
    bound = goal.bind(blackbox, before)
    most = options.pop("max_changes", 3)
    return Problem(space, blackbox, values, before, bound, limits, most, spent, **options)


def in_cells(masks: Masks, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row with each feature in each of its cells, and which row and cell it is of."""
    low, high = masks.ends
    made, place = [], []
    for row, values_of in enumerate(values):
        for cell, j in enumerate(masks.owner):
            if np.isposinf(low[cell]):  # what only a missing number is beyond
                continue
            changed = values_of.copy()
            if masks.positions[j]:
                inside = cell - masks.table.first[j]
            elif np.isnan(low[cell]):
                inside = masks.trees.codes[j]
            else:
                inside = high[cell] if np.isfinite(high[cell]) else low[cell] + 1.0 if np.isfinite(low[cell]) else 0.0
            changed[masks.tested[j]] = inside
            made.append(changed)
            place.append((row, cell))
    return np.array(made), np.array(place)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4, deadline=None)
@given(classes=st.sampled_from([2, 3]), seed=st.integers(0, 30))
def test_the_profile_is_what_the_model_itself_says_to_every_single_change(name: str, classes: int, seed: int):
    model, space, rows = case(name, classes, seed)
    trees = read_trees(model, space)
    masks = Masks.of(trees, np.array([feature.vanishable for feature in space.features], dtype=bool))
    values = space.values(rows)[:3]
    _, scores = masks.profile(values)
    changed, (row, cell) = in_cells(masks, values)[0], in_cells(masks, values)[1].T
    profile = (trees.base + scores[row, cell]) / trees.divisor
    # At a tie the order of additions decides, which the trees, and not their profile, know.
    table = space.model_input(changed)
    if name in REGRESSORS:
        np.testing.assert_allclose(profile[:, 0], model.predict(table), rtol=1e-6, atol=1e-9)
        return
    chances = np.asarray(trees.linked(profile.astype(trees.leaf_scores.dtype)), dtype=np.float64)
    told = model.predict_proba(table)
    np.testing.assert_allclose(chances, told, atol=2e-6)
    labels = np.asarray(model.predict(table)).ravel()
    np.testing.assert_array_equal(model.classes_[trees.labels(changed).astype(int)], labels)
    clear = np.sort(told, axis=1)
    clear = clear[:, -1] - clear[:, -2] > 1e-5
    np.testing.assert_array_equal(model.classes_[trees.decided(profile).astype(int)][clear], labels[clear])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"objective": "closest"}])
def test_numba_and_numpy_see_the_same(name: str, options: dict[str, str]):
    kernel = load_kernel()
    if kernel is None:
        pytest.skip("numba is not installed")
    model, space, rows = case(name, 3, 1)
    goals = [Goal.shift(0.5), Goal.between(0.0, 1.0)] if name in REGRESSORS else [Goal.flip(), Goal.to(1)]
    trees = read_trees(model, space)
    masks = Masks.of(trees, np.array([feature.vanishable for feature in space.features], dtype=bool))
    for goal in goals:
        problem = problem_of(model, space, rows[:20], goal)
        aim = aim_at(trees, problem.goal)
        costs = Costs(masks, Cells.of(masks, space), space, problem.limits, problem.start)
        target = Target.of(aim, np.full(20, 1e-9), one_score=False)
        looks = Look(masks, target, costs), CompiledLook(kernel, masks, target, costs)
        np.testing.assert_allclose(*[look.far for look in looks])
        near = masks.rows(space.values(rows[20:40]))
        owner, room = np.arange(20), np.full(20, np.inf)
        for price in (np.zeros(20), np.full(20, 0.2)):
            one, other = (look.best_changes(near, owner, room, 3, price) for look in looks)
            for field in ("far", "gap", "itself"):
                np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=1e-9, err_msg=field)
            best = one.worth.max(axis=1)
            gains = best > one.itself + 1e-9  # where nothing gains, they may go on from different cells
            np.testing.assert_allclose(best[gains], other.worth.max(axis=1)[gains], atol=1e-9)
        np.testing.assert_allclose(*[look.margins(near, owner) for look in looks], atol=1e-9)
        profiles = TreeProfiles(trees, masks, space)
        rest = problem_of(model, space, rows[:20], goal, **options)
        found, alone = (one.find(rest) for one in (profiles, replace(profiles, compiled=False)))
        np.testing.assert_array_equal(found.solved, alone.solved)


def optimum(problem: Problem, profiles: TreeProfiles, query: int) -> tuple[float, float]:
    """The fewest changes of a row, up to two, and their least distance, by asking about every row there is."""
    masks = profiles.masks
    costs = Costs(masks, Cells.of(masks, problem.space), problem.space, problem.limits, problem.start)
    home, cells = costs.home[query], np.flatnonzero(np.isfinite(costs.distances()[query]))
    first, second = (cells[place] for place in np.triu_indices(len(cells)))
    apart = (first == second) | (masks.owner[first] != masks.owner[second])
    rows = np.repeat(home[None], apart.sum(), axis=0)
    for cell in (first[apart], second[apart]):
        rows[np.arange(len(rows)), masks.owner[cell]] = cell
    values = costs.values(rows, np.full(len(rows), query))
    answer = problem.blackbox.confirm(problem.space.model_input(values))
    met = problem.goal.take(np.full(len(rows), query)).met(answer)
    if not met.any():
        return np.inf, np.inf
    changes, distance = (rows[met] != home).sum(axis=1), problem.distance(values[met], np.full(met.sum(), query))
    return float(changes.min()), float(distance[changes == changes.min()].min())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forest", "pure forest", "xgboost", "histograms", "forest of numbers"])
@settings(max_examples=4, deadline=None)
@given(classes=st.sampled_from([2, 3]), seed=st.integers(0, 30))
def test_thorough_answers_are_the_optimum_of_brute_force(name: str, classes: int, seed: int):
    model, space, rows = case(name, classes, seed)
    problem = problem_of(model, space, rows[:5], Goal.shift(1.0) if name in REGRESSORS else Goal.flip(), max_changes=2)
    profiles = TreeProfiles.of(read_trees(model, space), space)
    quick, thorough = (profiles.find(problem, thorough=way) for way in (False, True))
    for query in range(len(problem)):
        changes, distance = optimum(problem, profiles, query)
        assert thorough.solved[query] == np.isfinite(changes)
        if np.isinf(changes):
            continue
        made = thorough.values[[query]]
        assert problem.changed(made, np.array([query])).sum() == changes
        np.testing.assert_allclose(problem.distance(made, np.array([query])), distance, atol=1e-5)
        if changes == 1:
            np.testing.assert_allclose(problem.distance(quick.values[[query]], np.array([query])), distance, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("objective", ["sparse", "closest"])
@pytest.mark.parametrize("alone", [False, True])
def test_what_is_found_meets_the_goal_within_the_limits(name: str, objective: str, alone: bool):
    model, space, rows = case(name, 3, 2)
    goals = [Goal.shift(0.5, direction="up"), Goal.between(0.0, 1.0)]
    if name not in REGRESSORS:
        goals = [Goal.flip(), Goal.to(2), Goal.to(0, min_probability=0.5), Goal.to(1, raise_by=0.1)]
    number = 0
    for goal in goals:
        problem = problem_of(model, space, rows[:30], goal, objective=objective)
        limits = space.limits(
            ["a", "b", *(["kind"] if "kind" in rows else [])], values=problem.start, increase_only=["a"]
        )
        problem = replace(problem, limits=limits)
        profiles = TreeProfiles.of(read_trees(model, space), space)
        profiles = replace(profiles, compiled=False) if alone else profiles
        found = profiles.find(problem)
        solved = np.flatnonzero(found.solved)
        number += len(solved)
        if len(solved) == 0:
            continue
        answer = problem.blackbox.confirm(space.model_input(found.values[solved]))
        already = problem.goal.met(problem.before)[solved]
        assert (problem.goal.take(solved).met(answer) | already).all()
        changes = problem.changed(found.values[solved], solved).sum(axis=1)
        assert ((changes > 0) & (changes <= 3)).all()
        assert problem.limits.take(solved).kept(found.values[solved], problem.start[solved]).all()
    assert number


def test_votes_that_are_equal_are_the_first_class_s():
    """Two trees that disagree: a tie wherever their votes differ."""
    rows = pd.DataFrame({"a": np.linspace(0, 1, 40), "b": np.tile([0.0, 1.0], 20)})
    y = (rows["a"] > 0.5).astype(int) | (rows["b"] > 0.5).astype(int)
    model = RandomForestClassifier(2, max_features=1, random_state=1).fit(rows, y)
    space = FeatureSpace.infer(rows)
    problem = problem_of(model, space, rows, Goal.flip())
    found = TreeProfiles.of(read_trees(model, space), space).find(problem)
    told = problem.blackbox.confirm(space.model_input(found.values[found.solved]))
    assert found.solved.any()
    assert problem.goal.take(np.flatnonzero(found.solved)).met(told).all()


def test_tables_of_groups_of_trees_say_the_same(monkeypatch: pytest.MonkeyPatch):
    model, space, rows = case("histograms of categories", 3, 0)
    trees, vanishable = read_trees(model, space), np.zeros(4, dtype=bool)
    values = space.values(rows)
    whole = Masks.of(trees, vanishable)
    monkeypatch.setattr("relax_plugin.trees.masks.TABLE_BYTES", 1)
    parts = Masks.of(trees, vanishable)
    assert len(parts.table.words) - 1 == len(trees)
    for one, other in zip(whole.profile(values), parts.profile(values), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_an_ensemble_that_would_need_too_much_memory_has_no_masks(monkeypatch: pytest.MonkeyPatch):
    model, space, _ = case("forest", 2, 0)
    monkeypatch.setattr("relax_plugin.trees.masks.MOST_BYTES", 100)
    with pytest.raises(NoMasksError, match="leaves over 3 features are too many"):
        Masks.of(read_trees(model, space), np.zeros(3, dtype=bool))


def test_threads_do_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch):
    model, space, rows = case("forest", 3, 0)
    many = pd.concat([rows] * 6, ignore_index=True)
    profiles = TreeProfiles.of(read_trees(model, space), space)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(profiles.find(problem_of(model, space, many, Goal.flip())).values)
    np.testing.assert_array_equal(*found)


def test_trees_that_test_nothing_have_no_masks():
    rows = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    model = DecisionTreeClassifier(min_samples_leaf=2).fit(rows, [0, 1])
    with pytest.raises(NoMasksError, match="its trees test no feature"):
        Masks.of(read_trees(model, FeatureSpace.infer(rows)), np.zeros(2, dtype=bool))
    assert make_explainer("search", model).fit(rows).oracle_.endswith("since its trees test no feature")


NO_HOME = """
import os
os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = "/nowhere"
import numba, numpy
import relax_plugin.search.explainer, relax_plugin.search.trees
os.seteuid(65534)
from relax_plugin.trees.profiles import load_kernel
assert load_kernel() is None
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_where_nothing_can_be_written_numpy_takes_the_place_of_numba():
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", NO_HOME], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_numba_is_imported_only_when_trees_are_read():
    code = "import sys, relax_plugin, relax_plugin.search.explainer; assert 'numba' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
