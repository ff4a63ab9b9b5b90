"""Facts about CatBoost: its trees are read to the last bit, and what cannot be read says so."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.near_thresholds import rows_near_thresholds
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from relax_plugin import BlackBox, FeatureSpace, make_explainer
from relax_plugin.certificates.checking import check
from relax_plugin.certificates.proving import thresholds_of
from relax_plugin.trees.floor import certify, floor
from relax_plugin.trees.readers import read_trees, why_unreadable

catboost = pytest.importorskip("catboost")

RNG = np.random.default_rng(8)
ROWS = 400
LETTERS = list("abcdef")
TABLE = pd.DataFrame(
    {
        "x": RNG.normal(size=ROWS),
        "letter": pd.Categorical(RNG.choice(LETTERS, ROWS), categories=LETTERS[::-1]),
        "count": RNG.integers(0, 9, ROWS),
        "side": pd.Categorical(RNG.choice(["left", "right"], ROWS)),
        "short": RNG.normal(size=ROWS).astype("float32"),
    }
)
NUMBERS = ["x", "count", "short"]
NUMBER = TABLE["x"] + 2 * TABLE["letter"].isin(["a", "e"]) - TABLE["count"] / 4 + RNG.normal(size=ROWS) / 2
ANSWERS = {"two": np.where(NUMBER > 0.4, "yes", "no"), "three": np.digitize(NUMBER, [-0.2, 1.0]), "number": NUMBER}
# A gap tells something, so that trees ask for it.
HOLED = TABLE.assign(x=TABLE["x"].mask((NUMBER > 0.2) & (RNG.random(ROWS) < 0.4)))
QUIET: dict[str, Any] = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
GROWN = ["SymmetricTree", "Depthwise", "Lossguide"]


@cache
def fitted(kind: str, rows: str = "numbers", trees: int = 15, **options: Any) -> Any:
    made = catboost.CatBoostRegressor if kind == "number" else catboost.CatBoostClassifier
    own = {"cat_features": ["letter", "side"], "one_hot_max_size": 9} if rows == "mixed" else {}
    return made(iterations=trees, **QUIET, **own, **options).fit(table(rows), ANSWERS[kind])


def table(rows: str) -> pd.DataFrame:
    return {"numbers": TABLE[NUMBERS], "holed": HOLED[NUMBERS], "mixed": TABLE}[rows]


def answers_alike(model: Any, rows: pd.DataFrame, gaps: tuple[str, ...] = ()) -> bool:
    """Whether the trees give the model's own scores to the last bit, and its labels, near all of their borders."""
    space, values = FeatureSpace.infer(rows.fillna({"x": 0.0})).taking_in(rows)
    trees = read_trees(model, space)
    with np.errstate(over="ignore"):
        asked = rows_near_thresholds(trees, space, values, 3000, RNG, gaps)
    cells, scores = space.model_input(asked), trees.scores(asked)
    raw = np.asarray(model.predict(cells, prediction_type="RawFormulaVal")).reshape(scores.shape)
    labels = trees.labels(asked)
    told = labels if trees.decision.classes is None else np.asarray(trees.decision.classes)[labels.astype(int)]
    return bool((scores == raw).all() and (told == np.ravel(model.predict(cells))).all())


@pytest.mark.slow
@pytest.mark.parametrize("grown", GROWN)
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("trees", [1, 40])
def test_scores_are_the_models_to_the_last_bit(grown: str, kind: str, trees: int) -> None:
    assert answers_alike(fitted(kind, trees=trees, grow_policy=grown), TABLE[NUMBERS])


@pytest.mark.slow
@pytest.mark.parametrize("grown", GROWN)
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_missing_numbers_go_where_the_model_sends_them(grown: str, nan_mode: str, kind: str) -> None:
    model = fitted(kind, "holed", grow_policy=grown, nan_mode=nan_mode)
    assert answers_alike(model, HOLED[NUMBERS], ("x",))


def test_a_number_that_training_never_missed_goes_left_if_it_is_missing() -> None:
    model = fitted("two")
    trees = read_trees(model, FeatureSpace.infer(TABLE[NUMBERS]))
    missing = TABLE[NUMBERS].assign(x=np.nan).to_numpy(dtype=float)
    raw = model.predict(TABLE[NUMBERS].assign(x=np.nan), prediction_type="RawFormulaVal")
    assert (trees.scores(missing)[:, 0] == raw).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ANSWERS)
def test_single_categories_are_tested_as_the_model_tests_them(kind: str) -> None:
    model = fitted(kind, "mixed")
    assert read_trees(model, FeatureSpace.infer(TABLE)).sets
    assert answers_alike(model, TABLE)


@pytest.mark.slow
def test_trees_behind_a_pipeline_are_read() -> None:
    encode = make_column_transformer((OneHotEncoder(), ["letter", "side"]), (StandardScaler(), ["x", "count", "short"]))
    model = make_pipeline(encode, catboost.CatBoostClassifier(iterations=20, **QUIET)).fit(TABLE, ANSWERS["three"])
    space = FeatureSpace.infer(TABLE)
    values = space.values(TABLE)
    trees = read_trees(model, space)
    with np.errstate(over="ignore"):
        asked = rows_near_thresholds(trees, space, values, 2000, RNG)
    assert (trees.labels(asked) == np.ravel(model.predict(space.model_input(asked)))).all()


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["numbers", "mixed"])
def test_it_is_accelerated_proved_and_certified(rows: str) -> None:
    model, data = fitted("two", rows), table(rows)
    space = FeatureSpace.infer(data)
    quick, plain = (
        make_explainer("greedy", BlackBox(model, accelerate=way), space).fit(data) for way in ("auto", None)
    )
    assert quick.blackbox_.trees is not None
    found, same = quick.explain(data[:8]), plain.explain(data[:8])
    pd.testing.assert_frame_equal(found.frame, same.frame)
    best = floor(model, space, data[:8], most_changes=2)
    solved = found.found[:, 0] & (best.changes > 0)
    assert solved.sum() >= 5 and (found.sparsity[solved, 0] >= best.changes[solved]).all()
    answer = model.predict(space.model_input(best.values[solved]))
    assert (answer != model.predict(data[:8])[solved]).all()
    certified = certify(found, quick)
    for row in range(3):
        check(certified.certificate(row), model)


def test_a_checker_reads_the_borders_for_itself() -> None:
    model, space = fitted("two"), FeatureSpace.infer(TABLE[NUMBERS])
    borders, trees = thresholds_of(model, space), read_trees(model, space)
    assert borders is not None
    for own, cuts in zip(borders, trees.cuts, strict=True):
        near = own[np.abs(own[None, :] - cuts[:, None]).argmin(axis=1)]
        np.testing.assert_allclose(near, cuts, rtol=1e-6)
    assert thresholds_of(fitted("two", "mixed"), FeatureSpace.infer(TABLE)) is None


def refused(model: Any, rows: pd.DataFrame = TABLE) -> str:
    return str(why_unreadable(model, FeatureSpace.infer(rows)))


@pytest.mark.slow
def test_what_is_not_supported_says_so() -> None:
    encoded = catboost.CatBoostClassifier(iterations=5, cat_features=["letter", "side"], **QUIET)
    encoded.fit(TABLE, ANSWERS["two"])
    assert "replaces those of 'letter' by statistics of its training labels" in refused(encoded)
    assert "needs a fitted model" in refused(catboost.CatBoostClassifier())
    grown = fitted("two", "mixed", grow_policy="Depthwise")
    assert "in oblivious trees only" in refused(grown)
    ranks = catboost.CatBoostRegressor(iterations=2, loss_function="Poisson", **QUIET)
    ranks.fit(TABLE[NUMBERS], TABLE["count"])
    assert "a CatBoostRegressor with the loss 'Poisson'" in refused(ranks, TABLE[NUMBERS])
    moved = catboost.CatBoostClassifier(iterations=2, **QUIET).fit(TABLE[NUMBERS], ANSWERS["two"])
    moved.set_probability_threshold(0.7)
    assert "parts them at 0.7" in refused(moved, TABLE[NUMBERS])
    moved.set_probability_threshold(0.5)
    moved.set_scale_and_bias(2.0, 0.0)
    assert "scales them by 2" in refused(moved, TABLE[NUMBERS])
