"""Facts about the floor: nothing that any search could find changes fewer features, or is nearer with as few."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.floor import every_row, slow_floor, worthwhile_values
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import BlackBox, Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import GoalError, InputError, NotFittedError, UnsupportedError
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.trees.cells import Cells
from relax_plugin.trees.floor import Floor, certify, floor
from relax_plugin.trees.readers import read_trees

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(8)
ROWS = 300
MIXED = pd.DataFrame(
    {
        "smooth": RNG.normal(size=ROWS),
        "single": RNG.normal(size=ROWS).astype(np.float32),
        "tenths": RNG.normal(size=ROWS).round(1),
        "count": RNG.integers(0, 7, ROWS),
        "member": RNG.random(ROWS) < 0.5,
    }
)
SIGNAL = (
    MIXED["smooth"] + MIXED["single"] * MIXED["member"] - MIXED["tenths"] + 0.5 * (MIXED["count"] - 3)
).to_numpy() + RNG.normal(size=ROWS)
TWO, THREE = (SIGNAL > 0).astype(int), np.digitize(SIGNAL, [-0.8, 0.8])
QUERIES, MOST = MIXED[:5], 2
XGB: dict[str, Any] = {"n_jobs": 1, "n_estimators": 8, "max_depth": 3}
LGBM: dict[str, Any] = {"n_jobs": 1, "verbose": -1, "n_estimators": 8, "num_leaves": 6}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    "even forest": lambda: RandomForestClassifier(6, max_leaf_nodes=12, random_state=0),
    "impure forest": lambda: RandomForestClassifier(5, min_samples_leaf=9, max_depth=4, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(7, max_depth=4, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=6, random_state=0),
    "adaboost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0),
    "xgboost": lambda: xgboost.XGBClassifier(**XGB),
    "lightgbm": lambda: lightgbm.LGBMClassifier(**LGBM),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestRegressor(6, max_depth=4, random_state=0),
    "adaboost": lambda: AdaBoostRegressor(n_estimators=7, random_state=0),
    "xgboost": lambda: xgboost.XGBRegressor(**XGB),
    "lightgbm": lambda: lightgbm.LGBMRegressor(**LGBM),
}


@cache
def fitted(name: str, kind: str) -> Any:
    targets = {"two": TWO, "three": THREE, "number": SIGNAL}[kind]
    return (REGRESSORS if kind == "number" else CLASSIFIERS)[name]().fit(MIXED, targets)


# Free, and with all that limits a change: directions, steps, an immutable feature, bounds that leave queries outside.
SPACES = {
    False: FeatureSpace.infer(MIXED),
    True: FeatureSpace.infer(
        MIXED,
        increase_only=["smooth"],
        decrease_only=["tenths"],
        immutable=["member"],
        bounds={"single": (-0.7, 1.1)},
        steps={"count": 2},
    ),
}


@cache
def asked(name: str, kind: str, tight: bool) -> Any:
    """All rows with up to two changes of every query, and the model's answers."""
    model, space = fitted(name, kind), SPACES[tight]
    blackbox, cuts = BlackBox(model, space), read_trees(model).cuts
    blackbox.learn(space.values(QUERIES))
    rows = [every_row(blackbox, space, space.limits(), start, cuts, MOST) for start in space.values(QUERIES)]
    return blackbox, rows


def brute_force(name: str, kind: str, tight: bool, goal: Goal | None) -> list[tuple[int, float]]:
    (blackbox, answered), space = asked(name, kind, tight), SPACES[tight]
    before = blackbox.confirm(QUERIES)
    bound = (goal or Goal.flip()).bind(blackbox, before)
    already = bound.met(before)
    found = []
    for row, start in enumerate(space.values(QUERIES)):
        one = bound.take(np.array([row]))
        found.append((0, 0.0) if already[row] else slow_floor(answered[row], space, start, one))
    return found


RISE = Goal.to(1, raise_by=0.15)


def agrees(best: Floor, slow: list[tuple[int, float]], space: FeatureSpace) -> None:
    assert best.changes.tolist() == [changes for changes, _ in slow]
    assert np.allclose(best.distance, [distance for _, distance in slow], rtol=1e-12, equal_nan=True)
    start = space.values(QUERIES)
    solved = best.changes >= 0
    assert ((best.values != start).sum(axis=1)[solved] == best.changes[solved]).all()
    assert space.limits().kept(best.values, start).all()


@pytest.mark.slow
@pytest.mark.parametrize("tight", [False, True], ids=["free", "tight"])
@pytest.mark.parametrize("kind", ["two", "three"])
@pytest.mark.parametrize("name", CLASSIFIERS, ids=lambda name: name.replace(" ", "-"))
def test_the_floor_of_a_classifier_is_what_brute_force_finds(name: str, kind: str, tight: bool) -> None:
    for goal in (None, Goal.to(1), Goal.flip(min_probability=0.7), Goal.to(0, min_probability=0.625), RISE):
        best = floor(fitted(name, kind), SPACES[tight], QUERIES, goal, most_changes=MOST)
        agrees(best, brute_force(name, kind, tight, goal), SPACES[tight])


@pytest.mark.slow
@pytest.mark.parametrize("tight", [False, True], ids=["free", "tight"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_the_floor_of_a_regressor_is_what_brute_force_finds(name: str, tight: bool) -> None:
    each = Goal.between(
        np.linspace(0.2, 1.4, len(QUERIES)), [1.5 if query % 2 else None for query in range(len(QUERIES))]
    )
    up = Goal.shift(0.8, direction="up")
    for goal in (Goal.shift(1.2), Goal.between(0.4, 0.9), Goal.between(1.5, np.inf), up, each):
        best = floor(fitted(name, "number"), SPACES[tight], QUERIES, goal, most_changes=MOST)
        agrees(best, brute_force(name, "number", tight, goal), SPACES[tight])


def test_three_changes_are_what_brute_force_finds() -> None:
    rows = pd.DataFrame(RNG.integers(0, 3, (400, 7)), columns=list("abcdefg"))
    ones = (rows > 0).to_numpy().sum(axis=1)
    model = RandomForestClassifier(30, random_state=0).fit(rows, ones > 4)
    space = FeatureSpace.infer(rows, decrease_only=["a"])
    far = rows.iloc[np.argsort(ones)[[0, 1, 4, 20, -4, -3, -2, -1]]]
    best = floor(model, space, far, most_changes=3)
    assert set(best.changes) >= {2, 3}
    assert (best.proved == np.where(best.changes < 0, 4, best.changes)).all()
    blackbox, values = BlackBox(model, space), space.values(far)
    blackbox.learn(values)
    goal = Goal.flip().bind(blackbox, blackbox.confirm(far))
    for row in range(len(far)):
        answered = every_row(blackbox, space, space.limits(), values[row], read_trees(model).cuts, 3)
        slow = slow_floor(answered, space, values[row], goal.take(np.array([row])))
        assert best.changes[row] == slow[0]
        assert best.distance[row] == pytest.approx(slow[1], rel=1e-12, nan_ok=True)


@pytest.mark.slow
def test_scalers_in_front_of_the_trees_are_looked_through() -> None:
    rows = MIXED[["smooth", "tenths", "count"]].astype(float)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=4, random_state=0)).fit(rows, TWO)
    space, queries = FeatureSpace.infer(rows), rows[:5]
    best = floor(model, space, queries, most_changes=2)
    blackbox, values, cuts = BlackBox(model, space), space.values(queries), read_trees(model, space).cuts
    blackbox.learn(values)
    goal = Goal.flip().bind(blackbox, blackbox.confirm(queries))
    for row, start in enumerate(values):
        answered = every_row(blackbox, space, space.limits(), start, cuts, 2)
        slow = slow_floor(answered, space, start, goal.take(np.array([row])))
        assert (best.changes[row], best.distance[row]) == (slow[0], pytest.approx(slow[1], rel=1e-12, nan_ok=True))


@pytest.mark.slow
def test_the_order_and_number_of_queries_makes_no_difference() -> None:
    task = load_task("breast_cancer/rf")
    queries = task.X_test[:40]
    best = floor(task.model, task.space, queries, most_changes=2)
    backwards = floor(task.model, task.space, queries[::-1], most_changes=2)
    assert (best.changes == backwards.changes[::-1]).all()
    assert np.array_equal(best.distance, backwards.distance[::-1], equal_nan=True)
    alone = floor(task.model, task.space, queries[7:8], most_changes=2)
    assert (alone.changes[0], alone.distance[0]) == (best.changes[7], best.distance[7])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["greedy", "nearest-ct", "feat-tweak"])
@pytest.mark.parametrize("name", ["breast_cancer/rf", "diabetes/ada"])
def test_no_method_is_better_than_the_floor(name: str, method: str) -> None:
    task = load_task(name)
    queries = task.X_test[:30]
    best = floor(task.model, task.space, queries, most_changes=3)
    result = make_explainer(method, task.model, task.space).fit(task.X_train).explain(queries)
    found = result.found[:, 0]
    assert found.any()
    assert (result.sparsity[found, 0] >= best.proved[found]).all()
    same = result.sparsity[:, 0] == best.changes
    assert (result.proximity[same, 0] >= best.distance[same] * (1 - 1e-12)).all()


def test_limits_of_a_call_hold() -> None:
    model, space = fitted("even forest", "two"), SPACES[False]
    free = floor(model, space, QUERIES, most_changes=2)
    limits = space.limits(["tenths", "count"], {"count": (2, 5)})
    bound = floor(model, space, QUERIES, limits=limits, most_changes=2)
    changed = bound.values != space.values(QUERIES)
    assert changed[:, 2:4].any()
    assert not changed[:, [0, 1, 4]].any()
    assert set(bound.values[changed[:, 3], 3]) <= {2.0, 3.0, 4.0, 5.0}
    solved = bound.changes > 0
    assert (bound.changes >= free.changes)[solved].all()
    assert not bound.possible[~solved].any(), "both features were tried together"


def test_categories_that_are_numbers_are_changed_at_the_cost_of_one() -> None:
    rows = pd.DataFrame({"grade": RNG.choice([10, 20, 40], 200), "other": RNG.normal(size=200)})
    model = DecisionTreeClassifier().fit(rows, rows["grade"] > 15)
    space = FeatureSpace.infer(rows, categorical=["grade"], bounds={"grade": [10, 40]})
    queries = pd.DataFrame({"grade": [10, 20, 40], "other": [0.0, 0.0, 0.0]})
    best = floor(model, space, queries, most_changes=1)
    assert best.changes.tolist() == [1, 1, 1]
    assert best.distance.tolist() == [1.0, 1.0, 1.0]
    assert best.values[:, 0].tolist() == [2.0, 0.0, 0.0], "20 may not be chosen"


def test_what_is_proved_is_said() -> None:
    rows = pd.DataFrame({"a": [0.0, 0, 1, 1] * 5, "b": [0.0, 1, 0, 1] * 5, "c": np.arange(20.0) / 7})
    model = DecisionTreeClassifier().fit(rows, rows["a"] * rows["b"])
    queries = pd.DataFrame({"a": [0.0, 0.0, 1.0], "b": [0.0, 1.0, 1.0], "c": [1.0, 1.0, 1.0]})
    best = floor(model, FeatureSpace.infer(rows), queries, Goal.to(1.0), most_changes=1)
    assert best.changes.tolist() == [-1, 1, 0]
    assert best.proved.tolist() == [2, 1, 0]
    assert best.sentences() == [
        "no counterfactual changes fewer than 2 features",
        "no counterfactual changes fewer than 1 feature",
        "the query meets the goal already",
    ]
    fixed = floor(model, FeatureSpace.infer(rows, immutable=["a"]), queries, Goal.to(1.0), most_changes=2)
    assert fixed.changes.tolist() == [-1, -1, 0]
    assert fixed.sentences()[0] == "no counterfactual exists within the limits"
    constant = floor(DecisionTreeClassifier().fit(rows, np.ones(20)), FeatureSpace.infer(rows), queries)
    assert not constant.possible.any()
    assert len(floor(model, FeatureSpace.infer(rows), queries[:0])) == 0


def test_a_model_that_does_not_answer_as_its_trees_proves_nothing() -> None:
    class Stubborn(RandomForestClassifier):
        def predict(self, X: Any) -> Any:
            return np.zeros(len(X), dtype=int)

    with pytest.raises(UnsupportedError, match="Stubborn of another package"):
        floor(Stubborn(5, random_state=0).fit(MIXED, TWO), SPACES[False], QUERIES, most_changes=1)
    model = RandomForestClassifier(5, random_state=0).fit(MIXED, TWO)
    model.predict = lambda X: np.zeros(len(X), dtype=int)  # of this one only, which its class does not tell
    with pytest.raises(UnsupportedError, match="RandomForestClassifier whose 'predict' was replaced"):
        floor(model, SPACES[False], QUERIES, most_changes=1)


def test_an_optimum_of_the_trees_that_the_model_itself_denies_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model answers the queries and large batches as its trees do, and class 0 to every other row."""
    model = RandomForestClassifier(5, random_state=0).fit(MIXED, TWO)
    queries = MIXED[model.predict(MIXED) == 0][:5]
    assert (floor(model, SPACES[False], queries, most_changes=2).changes > 0).any()
    real = RandomForestClassifier.predict
    monkeypatch.setattr(
        RandomForestClassifier,
        "predict",
        lambda self, X: real(self, X) if len(X) > 256 else np.zeros(len(X), dtype=int),
    )
    best = floor(model, SPACES[False], queries, most_changes=2)
    assert (best.changes == -1).all()
    assert np.isnan(best.distance).all()
    assert (best.values == SPACES[False].values(queries)).all()
    assert "nothing is proved, since the model does not answer as its trees do" in best.sentences()


@pytest.mark.parametrize(
    ("model", "space", "reason"),
    [
        (LogisticRegression().fit(MIXED, TWO), None, "it needs a tree ensemble, and the model is a LogisticRegression"),
        (
            make_pipeline(PolynomialFeatures(), DecisionTreeClassifier()).fit(MIXED, TWO),
            None,
            "it sees through scalers, .* and the pipeline has a PolynomialFeatures",
        ),
        (
            DecisionTreeClassifier().fit(MIXED, TWO),
            FeatureSpace.infer(MIXED.assign(count=np.array(list("abcdefg"))[MIXED["count"]])),
            "the model refuses cells that the space holds possible",
        ),
    ],
)
def test_a_model_without_readable_trees_is_refused(model: Any, space: FeatureSpace | None, reason: str) -> None:
    own = QUERIES.assign(count=np.array(list("abcdefg"))[QUERIES["count"]]) if space else QUERIES
    with pytest.raises(UnsupportedError, match=f"skipped because {reason}"):
        floor(model, space or SPACES[False], own)


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(GoalError, match="a regressor needs a goal"):
        floor(fitted("forest", "number"), SPACES[False], QUERIES)
    with pytest.raises(InputError, match=r"most_changes is 1\.5"):
        floor(fitted("tree", "two"), SPACES[False], QUERIES, most_changes=1.5)  # type: ignore[arg-type]


# Certificates.


def explained(**call: Any) -> tuple[Any, Counterfactuals]:
    explainer = make_explainer("greedy", fitted("even forest", "two"), SPACES[False]).fit(MIXED)
    return explainer, explainer.explain(MIXED[:25], **call)


def test_a_certificate_says_how_good_each_counterfactual_is() -> None:
    explainer, result = explained()
    certified = certify(result, explainer)
    best = floor(explainer.model, SPACES[False], MIXED[:25], most_changes=2)
    assert certified.proofs is not None
    assert result.proofs is None
    told = 0
    for row, proof in enumerate(certified.proofs):
        fewest, changes = best.changes[row], result.sparsity[row, 0]
        fewer = f"no counterfactual changes fewer than {best.proved[row]} feature"
        assert proof.startswith(fewer) == (best.proved[row] > 1), "that none changes fewer than one needs no saying"
        closest = result.proximity[row, 0] <= best.distance[row] * (1 + 1e-9)
        assert ("is closer" in proof) == (changes == fewest and closest)
        assert ("exists" in proof) == (changes > fewest > 0)
        told += "is closer" in proof
    assert 0 < told < 25


def test_a_certificate_is_shown_and_survives_json() -> None:
    explainer, result = explained()
    certified = certify(result, explainer.blackbox_)
    assert certified.proofs is not None
    for before, after, proof in zip(result.sentences(), certified.sentences(), certified.proofs, strict=True):
        assert after == (f"{before} Proved: {proof}." if proof else before)
    assert f"Proved: {next(proof for proof in certified.proofs if proof)}." in certified._repr_html_()
    assert "Proved" not in result._repr_html_()
    again = Counterfactuals.from_json(certified.to_json())
    assert again.proofs is not None
    assert again.proofs.tolist() == certified.proofs.tolist()
    assert Counterfactuals.from_json(result.to_json()).proofs is None


def test_a_certificate_is_about_the_goal_and_the_limits_of_the_call() -> None:
    explainer, result = explained(goal=Goal.to(1), vary=["count", "member"])
    certified = certify(result, explainer, goal=Goal.to(1), vary=["count", "member"])
    assert certified.proofs is not None
    already = result.statuses[:, 0] == "the query meets the goal already"
    assert already.any()
    assert set(certified.proofs[already]) == {""}, "there is nothing to prove"
    assert "Proved" not in certified.sentences()[int(np.argmax(already))]
    unsolved = ~result.found[:, 0]
    assert unsolved.any()
    assert set(certified.proofs[unsolved]) == {"no counterfactual exists within the limits"}


def test_an_explainer_that_is_not_fitted_cannot_certify() -> None:
    _, result = explained()
    with pytest.raises(NotFittedError, match="is not fitted"):
        certify(result, make_explainer("greedy", fitted("even forest", "two")))


# Cells.


def test_every_cell_holds_its_nearest_allowed_value() -> None:
    for space in SPACES.values():
        trees = read_trees(fitted("even forest", "two"), space)
        start, limits, cuts = space.values(QUERIES), space.limits(), trees.cuts
        cells = Cells.of(trees, space, limits, start)
        for row, feature in np.ndindex(start.shape):
            values = cells.values[row, feature, : cells.counts[feature]]
            own = np.searchsorted(cuts[feature], start[row, feature])
            held = np.searchsorted(cuts[feature], values[~np.isnan(values)])
            assert len(set(held)) == len(held), "one value for each interval"
            assert values[cells.home[row, feature]] == start[row, feature]
            possible = worthwhile_values(feature, start[row], cuts[feature], space, limits)
            assert {*held, own} == {*np.searchsorted(cuts[feature], possible), own}


def test_what_refutes_a_proof_is_an_error() -> None:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(200, 3)).round(2), columns=list("abc"))
    model = RandomForestClassifier(15, random_state=0).fit(rows, rows["a"] + rows["b"] > 0)
    explainer = make_explainer("greedy", model).fit(rows)
    found = explainer.explain(rows[:30])
    assert (found.sparsity == 1).any()
    with pytest.raises(InputError, match="goal, vary and bounds must be those of the call"):
        certify(found, explainer, bounds={"a": (0.0, 0.01), "b": (0.0, 0.01)})
    with pytest.raises(UnsupportedError, match="do not answer as it does"):
        floor(BlackBox(model, task="regression"), explainer.space_, rows[:5], Goal.shift(1.0))


def test_the_floor_and_its_certificate_go_by_the_prices_of_the_space() -> None:
    space = SPACES[False].with_costs({"smooth": 20.0, "single": 0.1})
    blackbox, answered = asked("even forest", "two", False)
    bound = Goal.flip().bind(blackbox, blackbox.confirm(QUERIES))
    slow = [
        slow_floor(answered[row], space, start, bound.take(np.array([row])))
        for row, start in enumerate(space.values(QUERIES))
    ]
    best = floor(blackbox.model, space, QUERIES, most_changes=MOST)
    agrees(best, slow, space)
    assert not np.allclose(
        best.distance, floor(blackbox.model, SPACES[False], QUERIES, most_changes=MOST).distance, equal_nan=True
    )
    explainer = make_explainer("greedy", blackbox.model, space, objective="sparse").fit(MIXED)
    proofs = certify(explainer.explain(MIXED[:25]), explainer).proofs
    assert proofs is not None
    assert any("costs less" in proof for proof in proofs)
    assert not any("is closer" in proof for proof in proofs)
