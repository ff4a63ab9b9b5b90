"""Facts about native categories: boosters that test sets of them are read as they answer."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.near_thresholds import rows_near_thresholds
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from relax_plugin import BlackBox, FeatureSpace, make_explainer
from relax_plugin.trees.floor import floor
from relax_plugin.trees.readers import read_trees, why_unreadable

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(6)
ROWS = 500
LETTERS = list("abcdefghijkl")
TABLE = pd.DataFrame(
    {
        "x": RNG.normal(size=ROWS),
        "letter": pd.Categorical(RNG.choice(LETTERS, ROWS), categories=LETTERS[::-1]),
        "count": RNG.integers(0, 9, ROWS),
        "side": pd.Categorical(RNG.choice(["left", "right"], ROWS)),
    }
)
HOLED = TABLE.assign(x=TABLE["x"].mask(RNG.random(ROWS) < 0.1), letter=TABLE["letter"].mask(RNG.random(ROWS) < 0.1))
VOWEL = TABLE["letter"].isin(list("aeik")).to_numpy()
NUMBER = TABLE["x"] + 2 * VOWEL - (TABLE["side"] == "left") * TABLE["count"] / 4 + RNG.normal(size=ROWS) / 2
TWO, THREE = (NUMBER > 0.4).astype(int), np.digitize(NUMBER, [-0.2, 1.0])
SPACE = FeatureSpace.infer(TABLE)
QUIET: dict[str, Any] = {"n_jobs": 1, "n_estimators": 12, "verbose": -1, "min_child_samples": 5, "cat_smooth": 1}
XGB: dict[str, Any] = {"n_jobs": 1, "n_estimators": 12, "enable_categorical": True}
MODELS: dict[str, Callable[[], Any]] = {
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=12, categorical_features="from_dtype"),
    "histograms, number": lambda: HistGradientBoostingRegressor(max_iter=12, categorical_features=["letter", "side"]),
    "xgboost": lambda: xgboost.XGBClassifier(**XGB),
    "xgboost, one against all": lambda: xgboost.XGBClassifier(max_cat_to_onehot=99, **XGB),
    "xgboost, number": lambda: xgboost.XGBRegressor(**XGB),
    "lightgbm": lambda: lightgbm.LGBMClassifier(**QUIET),
    "lightgbm, number": lambda: lightgbm.LGBMRegressor(**QUIET),
}


@cache
def fitted(name: str, kind: str, holed: bool) -> Any:
    return MODELS[name]().fit(HOLED if holed else TABLE, {"two": TWO, "three": THREE, "number": NUMBER}[kind])


CASES = [
    (name, kind, holed)
    for name in MODELS
    for kind in (("number",) if "number" in name else ("two", "three"))
    for holed in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "holed"), CASES)
def test_native_categories_are_answered_as_by_the_library(name: str, kind: str, holed: bool) -> None:
    model = fitted(name, kind, holed)
    space, values = SPACE.taking_in(HOLED if holed else TABLE)
    trees = read_trees(model, space)
    assert trees.sets and not trees.unknown(values).any()
    rows = rows_near_thresholds(trees, space, values, 3000, RNG, ("x",) if holed else ())
    told = trees.labels(rows)
    asked = model.predict(space.model_input(rows))
    assert (told == asked).all() if kind != "number" else np.allclose(told, asked, rtol=1e-6, atol=1e-6)


def test_a_category_that_training_did_not_have_goes_as_the_library_sends_it() -> None:
    few = TABLE.assign(letter=TABLE["letter"].cat.remove_categories(["a", "b"]))
    model = HistGradientBoostingClassifier(max_iter=12, categorical_features="from_dtype").fit(few, TWO)
    values = SPACE.values(TABLE)
    assert (read_trees(model, SPACE).labels(values) == model.predict(SPACE.model_input(values))).all()


def test_numbers_that_a_model_takes_for_categories_are_categories_of_the_space() -> None:
    rows = TABLE[["x", "count"]]
    model = lightgbm.LGBMClassifier(**QUIET).fit(rows.to_numpy(), TWO, categorical_feature=[1])
    assert "categorical=['count'] has them as categories" in str(why_unreadable(model, FeatureSpace.infer(rows)))
    space = FeatureSpace.infer(rows, categorical=["count"])
    values = space.values(rows)
    assert (read_trees(model, space).labels(values) == model.predict(rows.to_numpy())).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["histograms", "xgboost", "lightgbm"])
def test_native_categories_are_accelerated_and_proved(name: str) -> None:
    model = fitted(name, "two", False)
    quick, plain = (BlackBox(model, accelerate=way) for way in ("auto", None))
    found, same = (make_explainer("greedy", box, SPACE).fit(TABLE).explain(TABLE[:8]) for box in (quick, plain))
    pd.testing.assert_frame_equal(found.frame, same.frame)
    best = floor(model, SPACE, TABLE[:8], most_changes=2)
    solved = found.found[:, 0] & (best.changes > 0)
    assert solved.sum() >= 5 and (found.sparsity[solved, 0] >= best.changes[solved]).all()
    nearest = best.changes[solved] == found.sparsity[solved, 0]
    assert (found.proximity[solved, 0][nearest] >= best.distance[solved][nearest] - 1e-9).all()
