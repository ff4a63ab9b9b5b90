"""Facts about `mace`: what it calls optimal is the nearest row of all that brute force finds."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.gaps import problem_with_gaps, space_with
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression

from relax_plugin import BlackBox, Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import InputError, MissingExtraError, UnsupportedError
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.limits import Limits
from relax_plugin.problem import Problem
from relax_plugin.trees.floor import floor

pytest.importorskip("z3")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(12)
ROWS = pd.DataFrame(
    {
        "a": RNG.integers(0, 6, 250),
        "b": RNG.integers(0, 5, 250) / 10,
        "c": RNG.integers(0, 4, 250),
        "d": RNG.integers(0, 4, 250).astype(np.float32),
        "e": RNG.random(250) < 0.5,
    }
)
SIGNAL = (ROWS["a"] - 8 * ROWS["b"] + ROWS["c"] * ROWS["e"] - ROWS["d"]).to_numpy(float) + RNG.normal(size=250)
TARGETS = {"two": (SIGNAL > 0).astype(int), "three": np.digitize(SIGNAL, [-1.5, 1.0]), "number": SIGNAL}
QUERIES = ROWS[:6]
SPACES = {
    "free": FeatureSpace.infer(ROWS),
    "tight": FeatureSpace.infer(
        ROWS, increase_only=["a"], decrease_only=["b"], immutable=["e"], steps={"c": 2}, bounds={"d": (1, 3)}
    ),
}
MODELS: dict[tuple[str, str], Callable[[], Any]] = {
    ("even forest", "two"): lambda: RandomForestClassifier(10, random_state=0),
    ("even forest", "three"): lambda: RandomForestClassifier(10, random_state=0),
    ("impure forest", "two"): lambda: RandomForestClassifier(9, min_samples_leaf=4, random_state=0),
    ("extra trees", "three"): lambda: ExtraTreesClassifier(7, max_depth=5, random_state=0),
    ("gradient boosting", "two"): lambda: GradientBoostingClassifier(n_estimators=12, random_state=0),
    ("adaboost", "two"): lambda: AdaBoostClassifier(n_estimators=15, random_state=0),
    ("xgboost", "two"): lambda: xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1),
    ("xgboost", "three"): lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1),
    ("forest", "number"): lambda: RandomForestRegressor(6, max_leaf_nodes=10, random_state=0),
    ("adaboost", "number"): lambda: AdaBoostRegressor(n_estimators=6, random_state=0),
    ("xgboost", "number"): lambda: xgboost.XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1),
}
CLASS_GOALS = (None, Goal.to(1, min_probability=0.55), Goal.to(1, raise_by=0.2))
NUMBER_GOALS = (Goal.shift(2.0), Goal.between(0.5, 1.5), Goal.shift(0.5, direction="down"))
every_model = pytest.mark.parametrize(
    "which", MODELS, ids=lambda which: f"{which[0]}-{which[1]}".replace(" ", "-") if isinstance(which, tuple) else which
)
every_space = pytest.mark.parametrize("space", SPACES)


@cache
def fitted(which: tuple[str, str]) -> Any:
    return MODELS[which]().fit(ROWS, TARGETS[which[1]])


@cache
def every_row(which: tuple[str, str]) -> tuple[BlackBox, Any, Any]:
    """All rows of the grid there are, with the model's answers: six by five by four by four by two."""
    space = SPACES["free"]
    blackbox = BlackBox(fitted(which), space)
    blackbox.learn(space.values(ROWS))
    rows = np.array(list(product(range(6), np.arange(5) / 10, range(4), range(4), range(2))), dtype=float)
    return blackbox, rows, blackbox.confirm(space.model_input(rows))


def least(which: tuple[str, str], space: FeatureSpace, goal: Goal | None, most: int, limits: Limits) -> list[float]:
    """The least distance of each query by brute force; infinite where nothing meets the goal."""
    blackbox, rows, answer = every_row(which)
    before = blackbox.confirm(QUERIES)
    bound = (goal or Goal.flip()).bind(blackbox, before)
    found = []
    for query, start in enumerate(space.values(QUERIES)):
        good = bound.take(np.full(len(rows), query)).met(answer) & limits.kept(rows, np.tile(start, (len(rows), 1)))
        good &= (rows != start).sum(axis=1) <= most
        found.append(float(np.where(good, space.distance(rows, start), np.inf).min()))
    return np.where(bound.met(before), 0.0, found).tolist()


def explain(
    which: tuple[str, str], space: str, goal: Goal | None, from_nothing: bool = False, **options: Any
) -> Counterfactuals:
    mace: Any = make_explainer("mace", fitted(which), SPACES[space], goal=goal, seconds_per_row=60.0, **options)
    mace.fit(ROWS)
    if from_nothing:  # no training row to begin with, so that the solver has to find every row itself
        mace.training_ = mace.training_[:0]
    return mace.explain(QUERIES)


def check(result: Counterfactuals, slow: list[float]) -> None:
    told = np.where(result.found[:, 0], result.proximity[:, 0], np.inf)
    assert np.allclose(told, slow, rtol=0, atol=1e-5)
    assert set(result.stages[result.found]) <= {"optimal", "query"}
    proofs = "none was found, and it is proved that none exists within the constraints"
    said = [text for text in result.statuses[~result.found] if not text.startswith("no answer can meet the goal")]
    assert set(said) <= {proofs, "no feature of it may change"}


@pytest.mark.slow
@every_space
@every_model
def test_what_is_called_optimal_is_the_nearest_of_all_rows(which: tuple[str, str], space: str) -> None:
    for goal in NUMBER_GOALS if which[1] == "number" else CLASS_GOALS:
        slow = least(which, SPACES[space], goal, 5, SPACES[space].limits())
        for from_nothing in (False, True):
            check(explain(which, space, goal, from_nothing), slow)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2])
@every_space
def test_with_few_changes_it_is_the_nearest_row_of_so_few(space: str, most: int) -> None:
    which = ("even forest", "two")
    slow = least(which, SPACES[space], None, most, SPACES[space].limits())
    result = explain(which, space, None, max_changes=most)
    check(result, slow)
    assert np.nanmax(result.sparsity, initial=0) <= most


@pytest.mark.slow
def test_constraints_of_the_call_hold() -> None:
    which, call = ("even forest", "two"), {"vary": ["a", "b", "d"], "bounds": {"a": (1, 4)}}
    mace = make_explainer("mace", fitted(which), SPACES["free"], seconds_per_row=60.0).fit(ROWS)
    result = mace.explain(QUERIES, **call)
    check(result, least(which, SPACES["free"], None, 5, SPACES["free"].limits(**call)))
    assert result.found.any()


@pytest.mark.slow
def test_it_agrees_with_the_floor_where_that_is_the_question() -> None:
    task = load_task("breast_cancer/rf")
    queries = task.X_test[:4]
    best = floor(task.model, task.space, queries, most_changes=2)
    solved = np.flatnonzero(best.changes > 0)
    assert len(solved) >= 2
    for row in solved:
        most = int(best.changes[row])
        mace = make_explainer("mace", task.model, task.space, max_changes=most, seconds_per_row=60.0)
        result = mace.fit(task.X_train).explain(queries[row : row + 1])
        assert result.stages[0, 0] == "optimal"
        assert result.sparsity[0, 0] == most
        assert result.proximity[0, 0] == pytest.approx(best.distance[row], abs=1e-5)


@pytest.mark.slow
def test_out_of_time_the_best_row_known_is_offered_and_not_called_optimal() -> None:
    task = load_task("wave2/xgb")
    mace = make_explainer("mace", task.model, task.space, seconds_per_row=0.05).fit(task.X_train)
    result = mace.explain(task.X_test[:4])
    assert result.found.all()
    assert set(result.stages[:, 0]) == {"not proved optimal"}


def test_out_of_time_without_a_row_is_a_status() -> None:
    which = ("even forest", "two")
    mace: Any = make_explainer("mace", fitted(which), SPACES["free"], seconds_per_row=1e-9).fit(ROWS)
    mace.training_ = mace.training_[:0]
    result = mace.explain(QUERIES)
    assert not result.found.any()
    assert set(result.statuses[:, 0]) == {"none was found within 1e-09 s"}


@pytest.mark.slow
def test_answers_do_not_depend_on_the_other_queries() -> None:
    which = ("even forest", "three")
    mace = make_explainer("mace", fitted(which), SPACES["free"], seconds_per_row=60.0).fit(ROWS)
    together = mace.explain(QUERIES)
    for row in range(len(QUERIES)):
        alone = mace.explain(QUERIES[row : row + 1])
        assert alone.proximity[0, 0] == pytest.approx(together.proximity[row, 0], abs=1e-5)


def test_the_model_is_asked_for_the_query_and_the_proof_only() -> None:
    result = explain(("xgboost", "two"), "free", None)
    assert (result.rows_queried == result.rows_queried[0]).all()
    assert result.rows_queried[0] <= 4


@pytest.mark.slow
def test_several_counterfactuals_change_different_features() -> None:
    mace = make_explainer("mace", fitted(("even forest", "two")), SPACES["free"]).fit(ROWS)
    result = mace.explain(QUERIES, n=2)
    assert result.found.sum() > len(QUERIES)
    assert (result.proximity[:, 0] <= np.nan_to_num(result.proximity[:, 1], nan=np.inf) + 1e-9).all()


def test_what_it_cannot_explain_is_said() -> None:
    with pytest.raises(UnsupportedError, match="it needs a tree ensemble, and the model is a LogisticRegression"):
        make_explainer("mace", LogisticRegression(max_iter=1000).fit(ROWS, TARGETS["two"])).fit(ROWS)
    for seconds in (0, -1.0, "soon", float("nan")):
        with pytest.raises(InputError, match=r"seconds_per_row is .* must be a number from 1e-09 to"):
            make_explainer("mace", fitted(("even forest", "two")), seconds_per_row=seconds).fit(ROWS)


def test_without_the_solver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'relax-plugin\[exact\]'"):
        make_explainer("mace", fitted(("even forest", "two")), SPACES["free"]).fit(ROWS)


def test_a_query_thousands_of_deviations_away_is_explained() -> None:
    """Distances are whole millionths to the solver, whose numbers end at 2^31: 2,147 standard deviations."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(rows, rows[:, 0] > 0)
    result = make_explainer("mace", model).fit(rows).explain(np.array([[1e6, 0.0], [-3e9, 1e9]]))
    assert result.found.all()
    assert (result.stage == "optimal").all()
    assert (model.predict(result.values[:, 0]) != model.predict(result.start)).all()
    assert (result.sparsity == 1).all()


# Missing numbers.

HOLED = ROWS[["a", "b", "c", "d"]].astype(float).mask(np.random.default_rng(1).random((250, 4)) < 0.25)
LACKING = HOLED[HOLED.isna().any(axis=1)].iloc[:12]
GAP_MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(8, max_leaf_nodes=16, random_state=0),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1),
}


def solved(name: str, space: FeatureSpace, rows: pd.DataFrame, most: int | None = None) -> tuple[Problem, Any]:
    model = GAP_MODELS[name]().fit(HOLED, TARGETS["two"])
    mace: Any = make_explainer("mace", model, space, seconds_per_row=60.0).fit(HOLED.dropna())
    problem = problem_with_gaps(mace, rows, most=most)
    return problem, mace._generate(problem, 1, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("fillable", [(), ("b", "c"), ("a", "b", "c", "d")], ids=len)
@pytest.mark.parametrize("name", GAP_MODELS)
def test_of_rows_with_gaps_what_is_called_optimal_is_the_nearest_too(name: str, fillable: Any, most: Any) -> None:
    space = space_with(HOLED.dropna(), fillable, increase_only=["d"])
    problem, made = solved(name, space, LACKING, most)
    levels = [np.arange(6.0), np.arange(5) / 10, np.arange(4.0), np.arange(4.0)]
    coded = [np.r_[line, code] for line, code in zip(levels, space.missing_codes, strict=True)]
    rows = np.array(list(product(*coded)))
    answer = problem.blackbox.confirm(space.model_input(rows))
    slow, filled = [], 0
    for query, start in enumerate(problem.start):
        good = problem.goal.take(np.full(len(rows), query)).met(answer)
        good &= problem.limits.take(np.array([query])).kept(rows, np.tile(start, (len(rows), 1)))
        good &= (rows != start).sum(axis=1) <= problem.max_changes
        slow.append(float(np.where(good, space.distance(rows, start), np.inf).min()))
        filled += int(((start == space.missing_codes) & (made.values[query, 0] != start)).sum())
    offered = made.offered[:, 0]
    told = np.where(offered, space.distance(made.values[:, 0], problem.start), np.inf)
    assert np.allclose(told, slow, rtol=0, atol=1e-5)
    assert set(made.stage[offered, 0]) == {"optimal"}
    assert (filled > 0) == bool(fillable)
    assert all("it is proved that none exists" in note for note in made.note[~offered])


def test_nothing_is_called_optimal_where_a_number_may_become_missing_or_conditions_hold() -> None:
    class Odd:
        """The first feature is odd."""

        def holds(self, values: Any, owner: Any) -> Any:
            return values[:, 0] % 2 == 1

        def take(self, index: Any) -> "Odd":
            return self

    _, made = solved("forest", space_with(HOLED.dropna(), vanishable=["a"]), HOLED.dropna()[:6])
    assert made.offered.all()
    assert set(made.stage[:, 0]) == {"not proved optimal"}
    model = GAP_MODELS["forest"]().fit(HOLED, TARGETS["two"])
    mace: Any = make_explainer("mace", model, space_with(HOLED.dropna())).fit(HOLED.dropna())
    problem = replace(problem_with_gaps(mace, HOLED.dropna()[:6]), conditions=(Odd(),))
    made = mace._generate(problem, 1, np.random.default_rng(0))
    assert (made.values[made.offered][:, 0] % 2 == 1).all()
    assert set(made.stage[made.offered]) == {"not proved optimal"}
