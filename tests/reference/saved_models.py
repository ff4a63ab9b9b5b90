"""Training rows as CSV and models of them as joblib files, for the tests of `relax-plugin explain`."""

import sys
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

NUMBERS = ["age (years)", "income"]


class Trap:
    """What a hostile file may be: unpickling it runs code."""

    def __reduce__(self) -> Any:
        return eval, ("__import__('sys').stderr.write('CODE RAN')",)


class LabelsOnly:
    """A model that does not say what it is for."""

    def predict(self, rows: pd.DataFrame) -> Any:
        return (rows["income"] > 400).astype(int)


class Leaving:
    """A file that ends the program when it is loaded, as if all had gone well."""

    def __reduce__(self) -> Any:
        return sys.exit, (0,)


class Misbehaving:
    """A classifier that does something else after its first answers, which `fit` needs."""

    classes_ = np.array([0, 1])
    _estimator_type = "classifier"

    def __init__(self, what: str, good: int = 0) -> None:
        self.what, self.good = what, good

    def predict(self, rows: pd.DataFrame) -> Any:
        answer = (rows["income"] > 400).astype(int).to_numpy()
        self.good -= 1
        if self.good >= 0:
            return answer
        if self.what == "raises":
            raise RuntimeError("no luck today")
        if self.what == "exits":
            sys.exit(0)
        if self.what == "hangs":
            time.sleep(1.0 if self.good == -1 else 0.0)
        if self.what == "sleeps":
            print("asleep", file=sys.stderr, flush=True)
            time.sleep(60.0)
        return np.full(len(rows), np.nan) if self.what == "NaN" else answer


def pipeline(last: Any) -> Pipeline:
    """A model of the raw columns."""
    towns = (OneHotEncoder(), ["town"])
    return make_pipeline(make_column_transformer(towns, (StandardScaler(), NUMBERS), ("passthrough", ["member"])), last)


def write_files(folder: Path) -> None:
    """train.csv with the target `approved`, and models: a classifier, a regressor, a trap, one that tells nothing."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age (years)": rng.integers(18, 80, 150), "income": rng.integers(0, 90000, 150) / 100})
    rows["town"], rows["member"] = rng.choice(["Rome", "Bonn", "Oslo"], 150), rng.random(150) > 0.5
    points = rows["age (years)"] / 20 + rows["income"] / 300 + (rows["town"] == "Rome") + rows["member"]
    rows.assign(approved=np.where(points > points.median(), "yes", "no")).to_csv(folder / "train.csv", index=False)
    rows = pd.read_csv(folder / "train.csv")
    features = rows.drop(columns="approved")
    joblib.dump(pipeline(LogisticRegression()).fit(features, rows["approved"]), folder / "model.joblib")
    joblib.dump(pipeline(LinearRegression()).fit(features, points), folder / "points.joblib")
    joblib.dump(Trap(), folder / "trap.joblib")
    joblib.dump(LabelsOnly(), folder / "labels.joblib")
