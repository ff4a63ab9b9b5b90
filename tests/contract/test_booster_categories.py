"""Boosters that were fitted on pandas categories take rows of every container, and text in place of categories."""

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

from relax_plugin import make_explainer
from relax_plugin.cli import main

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "a": RNG.normal(size=300).round(2),
        "town": pd.Categorical(RNG.choice(["Rome", "Bonn", "Oslo"], 300)),
        "c": RNG.normal(size=300).round(2),
    }
)
SUM = ROWS["a"] + 1.5 * (ROWS["town"] == "Rome") - ROWS["c"]
OUTCOMES = {"two classes": (SUM > 0).astype(int), "three classes": np.digitize(SUM, [-0.5, 0.7])}
BOOSTERS: dict[str, Any] = {
    "LightGBM": lambda: LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1),
    "XGBoost": lambda: XGBClassifier(n_estimators=15, enable_categorical=True, n_jobs=1),
}
FEW = ROWS[:8]
TEXT = FEW.assign(town=FEW["town"].astype(str))


def polars(rows: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(rows)


CONTAINERS: dict[str, Any] = {
    "text": lambda: TEXT,
    "objects": lambda: TEXT.astype({"town": object}),
    "records": lambda: TEXT.to_dict("records"),
    "dict of lists": lambda: TEXT.to_dict("list"),
    "polars text": lambda: polars(TEXT),
    "polars categories": lambda: polars(FEW),
    "fewer categories": lambda: FEW.assign(town=pd.Categorical(TEXT["town"])),
}


@pytest.fixture(scope="module", params=[(name, outcome) for name in BOOSTERS for outcome in OUTCOMES], ids=str)
def booster(request: Any) -> Any:
    name, outcome = request.param
    return BOOSTERS[name]().fit(ROWS, OUTCOMES[outcome])


@pytest.mark.parametrize("container", CONTAINERS)
def test_rows_of_every_container_are_answered_as_the_frame_of_categories(booster: Any, container: str) -> None:
    explainer = make_explainer("greedy", booster).fit(ROWS)
    expected, result = explainer.explain(FEW), explainer.explain(CONTAINERS[container]())
    assert expected.found.all() and np.array_equal(result.values, expected.values)
    again = booster.predict(result.frame[["a", "town", "c"]].astype({"town": ROWS["town"].dtype}))
    assert again.tolist() == result.after[:, 0].tolist()


def test_one_row_as_a_dict_and_a_menu_of_a_series(booster: Any) -> None:
    explainer = make_explainer("greedy", booster).fit(ROWS)
    assert explainer.explain(TEXT.iloc[0].to_dict()).found.all()
    assert len(explainer.menu(TEXT.iloc[0]).table) == len(explainer.menu(FEW[:1]).table)


def test_training_rows_may_be_text_too(booster: Any) -> None:
    text = ROWS.assign(town=ROWS["town"].astype(str))
    result = make_explainer("greedy", booster).fit(polars(text)).explain(TEXT)
    assert np.array_equal(result.found, make_explainer("greedy", booster).fit(ROWS).explain(FEW).found)


def test_an_unseen_category_ends_nothing_for_the_others(booster: Any) -> None:
    explainer = make_explainer("greedy", booster).fit(ROWS)
    strange = TEXT.copy()
    strange.loc[3, "town"] = "Zurich"
    with pytest.warns(UserWarning, match="feature 'town' is 'Zurich' in row 3"):
        result = explainer.explain(strange)
    others = np.arange(8) != 3
    assert np.array_equal(result.values[others], explainer.explain(FEW).values[others])
    if isinstance(booster, XGBClassifier):  # LightGBM reads it as missing
        told = "the model refuses this query: it raised XGBoostError: Found a category not in the training set"
        assert np.ravel(result.status)[3].startswith(told) and "\n" not in np.ravel(result.status)[3]
        assert result.found[others].all() and not result.found[3].any()


@pytest.mark.parametrize("name", BOOSTERS)
def test_the_command_takes_rows_of_csv_files(name: str, tmp_path: Path, capsys: Any) -> None:
    joblib.dump(BOOSTERS[name]().fit(ROWS, OUTCOMES["two classes"]), tmp_path / "model.joblib")
    ROWS.to_csv(tmp_path / "training.csv", index=False)
    TEXT.to_csv(tmp_path / "queries.csv", index=False)
    files = [str(tmp_path / file) for file in ("training.csv", "model.joblib", "queries.csv")]
    said = ["explain", files[0], "--model", files[1], "--queries", files[2], "--method", "greedy", "--plausible", "no"]
    assert main(said) == 0
    assert "8 of 8 rows have a counterfactual" in capsys.readouterr().out


@pytest.mark.parametrize("name", BOOSTERS)
def test_categories_that_are_numbers_may_come_as_plain_numbers(name: str) -> None:
    numbers = ROWS.assign(town=ROWS["town"].map({"Rome": 7, "Bonn": 1, "Oslo": 3}).astype(int))
    rows = numbers.astype({"town": "category"})
    booster = BOOSTERS[name]().fit(rows, OUTCOMES["two classes"])
    result = make_explainer("greedy", booster).fit(numbers).explain(numbers[:30])
    assert result.before.tolist() == booster.predict(rows[:30]).tolist()
    expected = make_explainer("greedy", booster).fit(rows).explain(rows[:30])
    assert np.array_equal(result.found, expected.found)


@pytest.mark.parametrize("kind", ["gbtree", "dart"])
def test_codes_that_xgboost_was_fitted_on_reach_it_as_they_are(kind: str) -> None:
    rows = ROWS.assign(town=ROWS["town"].map({"Rome": 6, "Bonn": 2, "Oslo": 5}).astype(int))  # not 0, 1, 2
    booster = XGBClassifier(n_estimators=15, enable_categorical=True, feature_types=["q", "c", "q"], booster=kind)
    booster.fit(rows, OUTCOMES["two classes"])
    result = make_explainer("greedy", booster).fit(rows).explain(rows[:60])
    assert result.before.tolist() == booster.predict(rows[:60]).tolist()
    again = booster.predict(result.frame[rows.columns].astype(rows.dtypes))
    assert again.tolist() == result.after[result.found].tolist()
