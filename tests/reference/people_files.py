"""Rows of `adult` as people have them in files: a text for missing cells, an identifier, a column for people alone."""

from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from relax_plugin.datasets import load

ROWS = 400
EDUCATION = ["lower", "HS-grad", "Some-college", "Bachelors", "Masters"]


def people() -> pd.DataFrame:
    """Some columns of some rows, with gaps in numbers too, two dummy columns, and a column that is a sum."""
    adult = load("adult")
    rows = adult.X[adult.X["education"].isin(EDUCATION) | (adult.X["education-num"] < 9)]
    rows = rows.sample(ROWS, random_state=0)[["age", "education", "occupation", "hours-per-week"]]
    rows["education"] = rows["education"].where(rows["education"].isin(EDUCATION), "lower")
    rng = np.random.default_rng(0)
    rows["rent"], rows["food"] = rng.integers(2, 20, ROWS) * 50, rng.integers(2, 20, ROWS) * 10
    rows["spent"] = rows["rent"] + rows["food"]
    tenure = rng.integers(3, size=ROWS)
    for place, name in enumerate(("own", "rent", "free")):
        rows[f"home_{name}"] = (tenure == place).astype(int)
    rows["debt"] = np.where(rng.random(ROWS) < 0.2, np.nan, rng.integers(0, 90, ROWS) * 100.0)
    return rows.reset_index(drop=True)


def answers(rows: pd.DataFrame) -> pd.Series:
    """Points that depend on every column, gaps included."""
    points = rows["education"].map(EDUCATION.index) + rows["age"] / 15 + rows["hours-per-week"] / 20
    points += rows["home_own"] - rows["spent"] / 400 - rows["debt"].fillna(9000) / 4000
    points += rows["occupation"].isin(["Exec-managerial", "Prof-specialty", "Sales"])
    return pd.Series(np.where(points > points.median(), "yes", "no"))


def write_people(folder: Path) -> None:
    """people.csv, in which ? is a missing cell, with `granted`, `person` and `remark`; and people.joblib."""
    rows = people()
    granted = answers(rows)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer(
        (encoder, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    ).set_output(transform="pandas")
    model = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=40, random_state=0)).fit(rows, granted)
    joblib.dump(model, folder / "people.joblib")
    along = {"person": [f"P{number}" for number in range(len(rows))], "remark": "seen, twice"}
    rows.assign(granted=granted, **along).to_csv(folder / "people.csv", index=False, na_rep="?")
