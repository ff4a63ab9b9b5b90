"""Facts about tree arrays: they answer as the libraries do, at every threshold and beside it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from relax_plugin import FeatureSpace
from relax_plugin.errors import UnsupportedError
from relax_plugin.trees.ensemble import Trees, as_float64_threshold, last_where
from relax_plugin.trees.readers import read_trees, why_unreadable

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=(400, 5))
ROWS[:, 3] = ROWS[:, 3].round(1)  # ties between values, and thresholds between few of them
ROWS[:, 4] = RNG.integers(0, 4, 400)
NOISE = RNG.normal(size=400)
TARGETS: dict[str, Any] = {
    "two": np.where(ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 4] + NOISE > 0, "yes", "no"),
    "three": np.digitize(ROWS[:, 0] + ROWS[:, 3] + NOISE, [-0.6, 0.6]),
    "number": ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 4] + NOISE,
}
STUMP, SMALL = DecisionTreeClassifier(max_depth=1), DecisionTreeClassifier(max_depth=3)
QUIET: dict[str, Any] = {"n_jobs": 1, "verbose": -1, "min_child_samples": 5}
XGB: dict[str, Any] = {"n_jobs": 1, "n_estimators": 40}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "shallow tree": lambda: DecisionTreeClassifier(max_depth=2),
    "forest": lambda: RandomForestClassifier(40, random_state=0),
    "even forest": lambda: RandomForestClassifier(2, max_depth=2, random_state=0),
    "impure forest": lambda: RandomForestClassifier(30, min_samples_leaf=7, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(20, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=30, random_state=0),
    "from zero": lambda: GradientBoostingClassifier(n_estimators=30, init="zero", random_state=0),
    "adaboost": lambda: AdaBoostClassifier(STUMP, n_estimators=40, random_state=0),
    "adaboost of trees": lambda: AdaBoostClassifier(SMALL, n_estimators=20, learning_rate=0.5, random_state=0),
    "xgboost": lambda: xgboost.XGBClassifier(**XGB),
    "xgboost forest": lambda: xgboost.XGBRFClassifier(n_jobs=1, n_estimators=20),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=15),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=40, **QUIET),
    "lightgbm forest": lambda: lightgbm.LGBMClassifier(
        boosting_type="rf", n_estimators=20, subsample=0.6, subsample_freq=1, **QUIET
    ),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeRegressor(max_depth=6),
    "forest": lambda: RandomForestRegressor(30, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(20, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(n_estimators=30, loss="huber", random_state=0),
    "adaboost": lambda: AdaBoostRegressor(n_estimators=21, random_state=0),
    "xgboost": lambda: xgboost.XGBRegressor(**XGB),
    "xgboost, absolute error": lambda: xgboost.XGBRegressor(objective="reg:absoluteerror", **XGB),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=15, loss="absolute_error"),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=40, **QUIET),
}
CASES = [(name, kind) for kind in ("two", "three") for name in CLASSIFIERS] + [(n, "number") for n in REGRESSORS]
every_model = pytest.mark.parametrize(("name", "kind"), CASES, ids=lambda text: text.replace(" ", "-"))


def targets_for(model: Any, kind: str) -> Any:
    """The targets, as numbers for XGBoost, which takes no others."""
    named = kind == "two" and type(model).__module__.startswith("xgboost")
    return (TARGETS[kind] == "yes").astype(int) if named else TARGETS[kind]


@cache
def fitted(name: str, kind: str) -> tuple[Any, Trees]:
    model = (REGRESSORS if kind == "number" else CLASSIFIERS)[name]()
    model.fit(ROWS, targets_for(model, kind))
    return model, read_trees(model)


def boundary_rows(trees: Trees) -> Any:
    """Rows at every threshold and at the float64 and float32 neighbours of it, other cells random."""
    parts = []
    for j, cuts in enumerate(trees.cuts):
        single = cuts.astype(np.float32)
        beside = [single, *(np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf))]
        cells = np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), *beside])
        rows = ROWS[RNG.integers(0, len(ROWS), len(cells))].copy()
        rows[:, j] = cells
        parts.append(rows)
    return np.concatenate(parts)


def rows_to_ask(trees: Trees) -> Any:
    return np.concatenate([ROWS, RNG.normal(size=(4000, 5)) * [1, 1, 1, 1, 3], boundary_rows(trees)])


def told(trees: Trees, rows: Any) -> Any:
    """Answers of the arrays as the model would write them."""
    labels = trees.labels(rows)
    return labels if trees.decision.classes is None else trees.decision.classes[labels.astype(int)]


# The library's answers.


@pytest.mark.slow
@every_model
def test_answers_are_the_librarys_at_random_points_and_beside_every_threshold(name: str, kind: str) -> None:
    model, trees = fitted(name, kind)
    rows = rows_to_ask(trees)
    assert len(rows) > 4400
    assert (told(trees, rows) == model.predict(rows)).all()
    if kind != "number":
        assert np.allclose(trees.probabilities(rows), model.predict_proba(rows), atol=1e-6)
        assert len(set(trees.labels(rows))) >= 2


HOLED = np.where(np.random.default_rng(6).random(ROWS.shape) < 0.2, np.nan, ROWS)
TAKE_NO_GAPS = ("gradient boosting", "from zero", "adaboost", "adaboost of trees")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [HOLED, ROWS], ids=["trained with gaps", "trained without"])
@every_model
def test_missing_numbers_go_where_the_library_lets_them_go(name: str, kind: str, rows: Any) -> None:
    model = (REGRESSORS if kind == "number" else CLASSIFIERS)[name]()
    if name in TAKE_NO_GAPS:
        model.fit(ROWS, targets_for(model, kind))
        with pytest.raises(ValueError, match="NaN"):
            model.predict(HOLED)
        with pytest.raises(UnsupportedError, match="skipped because a number is missing"):
            read_trees(model).labels(HOLED)
        return
    model.fit(rows, targets_for(model, kind))
    trees = read_trees(model)
    asked = rows_to_ask(trees)
    asked = asked[(np.abs(asked) < 1e30).all(axis=1)]  # a threshold may be infinite, which a cell must not be
    rng = np.random.default_rng(5)
    for share in (0.1, 0.5, 1.0):
        asked = np.where(rng.random(asked.shape) < share, np.nan, asked)
        assert (told(trees, asked) == model.predict(asked)).all()
        if kind != "number":
            assert np.allclose(trees.probabilities(asked), model.predict_proba(asked), atol=1e-6)


def test_codes_of_a_space_are_missing_numbers() -> None:
    frame = pd.DataFrame(HOLED, columns=list("abcde"))
    model = RandomForestClassifier(20, random_state=0).fit(frame, TARGETS["three"])
    space = FeatureSpace.infer(frame.dropna())
    trees = read_trees(model, space)
    coded = np.where(np.isnan(HOLED), space.missing_codes, HOLED)
    assert (told(trees, coded) == model.predict(frame)).all()
    assert (told(trees, coded) == told(trees, HOLED)).all()
    assert (told(replace(trees, codes=None), coded) != model.predict(frame)).any(), "a code is no small number"


@pytest.mark.slow
@pytest.mark.parametrize("final", [CLASSIFIERS["forest"], CLASSIFIERS["xgboost"], CLASSIFIERS["lightgbm"]])
def test_missing_numbers_pass_through_scalers(final: Any) -> None:
    model = make_pipeline(StandardScaler(), RobustScaler(), final())
    frame = pd.DataFrame(HOLED, columns=list("abcde"))
    model.fit(frame, targets_for(model.steps[-1][1], "two"))
    space = FeatureSpace.infer(frame)
    trees = read_trees(model, space)
    asked = np.where(RNG.random((3000, 5)) < 0.3, np.nan, RNG.normal(size=(3000, 5)))
    coded = np.where(np.isnan(asked), space.missing_codes, asked)
    assert (told(trees, coded) == model.predict(pd.DataFrame(asked, columns=frame.columns))).all()


@pytest.mark.slow
@every_model
def test_scores_are_the_librarys_to_the_last_bit(name: str, kind: str) -> None:
    model, trees = fitted(name, kind)
    rows = rows_to_ask(trees)
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost":
        raw = model.predict(rows, output_margin=True)
    elif library == "lightgbm":
        raw = model.predict(rows, raw_score=True) / trees.divisor  # of a forest it is the sum, not yet the mean
    elif hasattr(model, "decision_function"):
        raw = model.decision_function(rows)
    else:
        raw = model.predict(rows) if kind == "number" else model.predict_proba(rows)
    assert (trees.scores(rows) == raw.reshape(len(rows), -1)).all()


def test_half_the_votes_go_where_the_library_lets_them_go() -> None:
    pure = RandomForestClassifier(2, random_state=3).fit(ROWS, TARGETS["two"])
    rows = RNG.normal(size=(4000, 5))
    trees = read_trees(pure)
    scores = trees.scores(rows)
    tied = scores[:, 0] == scores[:, 1]
    assert tied.sum() > 100
    assert (told(trees, rows) == pure.predict(rows)).all()
    assert (trees.labels(rows)[tied] == 0).all()


@pytest.mark.parametrize(
    "model", [GradientBoostingClassifier(init="zero", max_depth=1), AdaBoostClassifier(), None], ids=str
)
def test_a_score_of_zero_goes_where_the_library_lets_it_go(model: Any) -> None:
    """XOR with as many rows in each corner: no test is of any use, and every score is 0."""
    rows, target = np.repeat([[0.0, 0], [0, 1], [1, 0], [1, 1]], 5, axis=0), np.repeat([0, 1, 1, 0], 5)
    if model is None:
        model = xgboost.XGBClassifier(max_depth=1, base_score=0.5)
    model = model.set_params(n_estimators=2).fit(rows, target)
    trees = read_trees(model)
    assert (trees.labels(rows) == model.predict(rows)).all()
    if isinstance(model, GradientBoostingClassifier):
        assert (np.abs(trees.scores(rows)) < 1e-9).all()


@pytest.mark.parametrize("margin", [0.0, 5e-8, 6e-8, 9e-8, 1.2e-7, -6e-8, 1e-6])
def test_a_margin_whose_probability_rounds_to_a_half_is_class_0_of_xgboost(margin: float) -> None:
    model, trees = fitted("xgboost", "two")
    booster = model.get_booster()
    empty = xgboost.DMatrix(ROWS[:1], base_margin=[np.float32(margin)])
    reached = trees.leaf_scores[trees.leaves(ROWS[:1])[0], 0]
    start = np.float32(margin)
    for score in reached:
        start -= score
    empty.set_base_margin([start])
    raw = booster.predict(empty, output_margin=True)
    assert (trees.decided(raw[:, None]) == (booster.predict(empty) > 0.5)).all()
    assert trees.decided(np.array([[np.float32(margin)]]))[0] == (np.float32(margin) > 8e-8)


def test_early_stopping_leaves_later_trees_out() -> None:
    target = targets_for(xgboost.XGBClassifier(), "two")
    model = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=3, n_jobs=1)
    model.fit(ROWS[:200], target[:200], eval_set=[(ROWS[200:], target[200:])], verbose=False)
    assert model.best_iteration + 1 == len(read_trees(model)) < 200
    light = lightgbm.LGBMClassifier(n_estimators=200, **QUIET)
    stop = lightgbm.early_stopping(3, verbose=False)
    light.fit(ROWS[:200], target[:200], eval_set=[(ROWS[200:], target[200:])], callbacks=[stop])
    rows = RNG.normal(size=(3000, 5))
    for early in (model, light):
        assert (told(read_trees(early), rows) == early.predict(rows)).all()


def test_an_xgboost_booster_is_read_like_its_wrapper() -> None:
    model, trees = fitted("xgboost", "three")
    booster = read_trees(model.get_booster())
    assert (booster.scores(ROWS) == trees.scores(ROWS)).all()


@pytest.mark.parametrize("value", [1e-35, -1e-35, 1e-36, -1e-36, 0.0, 2e-35, -2e-35])
def test_lightgbm_takes_tiny_numbers_for_zero(value: float) -> None:
    rows = np.column_stack([np.tile([-1.0, 0.0, 1.0], 40), np.zeros(120)])
    for target in (rows[:, 0] >= 0, rows[:, 0] > 0):
        model = lightgbm.LGBMClassifier(n_estimators=3, **QUIET).fit(rows, target)
        asked = np.array([[np.nextafter(value, side), 0.0] for side in (-1, value, 1)])
        assert (told(read_trees(model), asked) == model.predict(asked)).all()


# Behind a pipeline.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("final", [CLASSIFIERS["forest"], CLASSIFIERS["xgboost"], CLASSIFIERS["lightgbm"]])
def test_thresholds_are_moved_in_front_of_scalers(final: Any, dtype: Any) -> None:
    columns = pd.DataFrame(ROWS * [3, 0.01, 1e4, 1, 1] + [0, 0, -7e4, 1, 0], columns=list("abcde")).astype(dtype)
    steps = [("a", StandardScaler()), ("b", "passthrough"), ("c", MinMaxScaler((-1, 3))), ("d", RobustScaler())]
    model = Pipeline([*steps, ("model", final())])
    model.fit(columns, targets_for(model.steps[-1][1], "two"))
    trees = read_trees(model, FeatureSpace.infer(columns))
    rows = columns.to_numpy(dtype=np.float64)[RNG.integers(0, 400, 3000)]
    for j, cuts in enumerate(trees.cuts):
        near = RNG.choice(np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]), 1000)
        rows[1000:2000, j] = near.astype(dtype)
        rows[2000:, j] = np.nextafter(near.astype(dtype), dtype(RNG.choice([-np.inf, np.inf])))
    frame = pd.DataFrame(rows, columns=list("abcde")).astype(dtype)
    assert (told(trees, frame.to_numpy(dtype=np.float64)) == model.predict(frame)).all()


@pytest.mark.slow
def test_thresholds_are_moved_in_front_of_a_scaler_of_mixed_columns() -> None:
    frame = pd.DataFrame({"a": ROWS[:, 0].astype(np.float32), "b": (9 * ROWS[:, 1]).astype(int), "c": ROWS[:, 2]})
    frame["d"] = ROWS[:, 4].astype(np.int8)
    for columns in (list("abcd"), list("ad"), list("bd")):  # the scaler computes in float64, float32, float64
        rows = frame[columns]
        model = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(rows, TARGETS["two"])
        space = FeatureSpace.infer(rows)
        trees = read_trees(model, space)
        assert (told(trees, space.values(rows)) == model.predict(rows)).all()


def test_frozen_and_searched_models_are_read() -> None:
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 3]}, cv=2).fit(ROWS, TARGETS["three"])
    for model in (FrozenEstimator(fitted("forest", "three")[0]), search):
        assert (told(read_trees(model), ROWS) == model.predict(ROWS)).all()


# What cannot be read says so.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (SVC(), "needs a tree ensemble, and the model is a SVC"),
        (HistGradientBoostingRegressor(max_iter=2, loss="poisson"), "with the loss 'poisson'"),
        (BaggingClassifier(n_estimators=2), "and the model is a BaggingClassifier"),
        (AdaBoostClassifier(LogisticRegression(), n_estimators=2), "is one of LogisticRegression"),
        (GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()), "this one from a LogisticRegression"),
        (make_pipeline(PolynomialFeatures(), DecisionTreeClassifier()), "the pipeline has a PolynomialFeatures"),
        (make_pipeline(StandardScaler(), SVC()), "the model is a SVC"),
        (xgboost.XGBClassifier(n_estimators=2, booster="dart"), "the booster is a dart"),
        (xgboost.XGBClassifier(n_estimators=2, missing=0.0), "takes 0.0 for a missing value"),
        (xgboost.XGBRegressor(n_estimators=2, objective="count:poisson"), "objective 'count:poisson'"),
        (lightgbm.LGBMClassifier(n_estimators=2, zero_as_missing=True, **QUIET), "takes 0 for missing"),
        (lightgbm.LGBMRegressor(n_estimators=2, objective="poisson", **QUIET), "objective 'poisson"),
        (lightgbm.LGBMRegressor(n_estimators=2, linear_tree=True, **QUIET), "linear"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_with_a_reason(model: Any, reason: str) -> None:
    model.fit(ROWS, (TARGETS["two"] == "yes").astype(int))
    assert reason in str(why_unreadable(model))
    with pytest.raises(UnsupportedError, match=r"^skipped because .*\.$"):
        read_trees(model)


def test_several_answers_a_row_are_refused() -> None:
    model = RandomForestRegressor(2).fit(ROWS, ROWS[:, :2])
    assert why_unreadable(model) == "it explains one answer a row, and the RandomForestRegressor gives 2"


def test_a_readable_model_has_no_reason_against_it() -> None:
    assert why_unreadable(fitted("forest", "two")[0]) is None


# Geometry.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forest", "xgboost", "lightgbm"])
def test_a_row_lies_in_the_box_of_its_leaf_and_of_no_other_of_the_tree(name: str) -> None:
    _, trees = fitted(name, "three")
    low, high = trees.boxes
    rows = np.concatenate([ROWS[:50], boundary_rows(trees)[::20]])
    inside = ((low < rows[:, None]) & (rows[:, None] <= high)).all(axis=2)
    row, leaf = np.nonzero(inside)
    assert (np.bincount(row) == len(trees)).all()
    assert (leaf.reshape(len(rows), -1) == trees.leaves(rows)).all(), "leaves are in the order of their trees"
    assert (trees.leaf_tree[leaf].reshape(len(rows), -1) == np.arange(len(trees))).all()


def test_answers_do_not_change_between_cuts() -> None:
    _, trees = fitted("forest", "two")
    cuts = trees.cuts[0]
    assert (np.diff(cuts) > 0).all()
    rows = np.repeat(ROWS[:1], 2 * (len(cuts) - 1), axis=0)
    rows[:, 0] = np.column_stack([np.nextafter(cuts[:-1], np.inf), cuts[1:]]).ravel()
    scores = trees.scores(rows)
    assert (scores[::2] == scores[1::2]).all()


def test_a_small_tree_by_hand() -> None:
    rows = np.array([[1.0, 0], [2, 0], [3, 0], [3, 9]])
    trees = read_trees(DecisionTreeClassifier(random_state=1).fit(rows, ["a", "a", "b", "a"]))
    low, high = trees.boxes
    assert trees.depth == 2
    assert len(trees.leaf_scores) == 3
    first, second = as_float64_threshold([2.5, 4.5])
    for inside, expected in (((2.0, 5.0), 0), ((2.6, 4.0), 1), ((2.6, 5.0), 0)):
        assert trees.labels(np.array([inside]))[0] == expected
    assert sorted(trees.cuts[0]) + sorted(trees.cuts[1]) == [first, second]
    assert {float(x) for x in low[np.isfinite(low)]} == {float(x) for x in high[np.isfinite(high)]} == {first, second}


def test_no_rows_give_no_answers() -> None:
    assert fitted("forest", "three")[1].scores(np.empty((0, 5))).shape == (0, 3)


@pytest.mark.parametrize("strict", [False, True])
def test_a_float64_threshold_decides_as_the_comparison_in_float32(strict: bool) -> None:
    wild = RNG.normal(size=2000) * 10.0 ** RNG.integers(-44, 37, 2000)
    thresholds = np.concatenate([wild, wild.astype(np.float32), [0.0, -0.0, 1.0, 0.1, 1e-46, -1e-46]])
    moved = as_float64_threshold(thresholds, strict=strict)
    for values in (moved, np.nextafter(moved, np.inf), np.nextafter(moved, -np.inf), thresholds):
        single = values.astype(np.float32).astype(np.float64)
        library = single < thresholds if strict else single <= thresholds
        assert ((values <= moved) == library).all()


def test_the_last_number_where_a_condition_holds_is_exact() -> None:
    wanted = np.array([0.1, -3e7, 0.0, 5e-324, 1e37, np.inf, -np.inf])
    assert (last_where(lambda x: x <= wanted, wanted.shape) == wanted).all()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["callback", "loaded", "parameter taken back"])
def test_of_early_stopping_only_the_trees_that_predict_uses_are_read(how: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4)).astype(np.float32)
    labels = (rows[:, 0] + rng.normal(size=400) > 0).astype(int)
    xgboost = pytest.importorskip("xgboost")
    called = how == "callback"
    stop = {"callbacks": [xgboost.callback.EarlyStopping(rounds=3)]} if called else {"early_stopping_rounds": 3}
    model = xgboost.XGBClassifier(n_estimators=60, max_depth=4, **stop)
    model.fit(rows[:200], labels[:200], eval_set=[(rows[200:], labels[200:])], verbose=False)
    if how == "loaded":
        model.save_model(tmp_path / "model.json")
        model = xgboost.XGBClassifier()
        model.load_model(tmp_path / "model.json")
    elif how == "parameter taken back":
        model.set_params(early_stopping_rounds=None)
    trees = read_trees(model)
    assert len(trees) < model.get_booster().num_boosted_rounds()
    points = rng.normal(size=(3000, 4)).astype(np.float32).astype(np.float64)
    assert np.array_equal(trees.labels(points), model.predict(points))


def test_subclasses_half_precision_and_stumps_without_splits() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(100, 3)), columns=list("abc"))
    labels = rows["a"] > 0

    class Stricter(RandomForestClassifier):  # type: ignore[misc]
        def predict(self, X):  # type: ignore[no-untyped-def]
            return self.predict_proba(X)[:, 1] > 0.9

    with pytest.raises(UnsupportedError, match="Stricter of another package"):
        read_trees(Stricter(5).fit(rows, labels))
    half = rows.astype("float16")
    forest = RandomForestClassifier(5, random_state=0).fit(half, labels)
    with pytest.raises(UnsupportedError, match="'a' is float16"):
        read_trees(forest, FeatureSpace.infer(half))
    flat = make_pipeline(StandardScaler(), DecisionTreeClassifier(min_impurity_decrease=0.9)).fit(rows, labels)
    with pytest.raises(UnsupportedError, match="needs the feature space"):
        read_trees(flat)
    assert np.array_equal(
        read_trees(flat, FeatureSpace.infer(rows)).labels(rows.to_numpy()), flat.predict(rows).astype(float)
    )
