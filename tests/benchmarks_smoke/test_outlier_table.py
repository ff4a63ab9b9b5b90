"""The judge's own detectors: rows put together from what a benchmark keeps, and the shares of outliers among them."""

import json

import numpy as np
import pandas as pd
from sklearn.neighbors import LocalOutlierFactor

from benchmarks.figures.outlier_table import COLUMNS, delivered_rows, outliers_by_seed
from relax_plugin import FeatureSpace
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.yardsticks import detector_of

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.normal(size=120), "y": RNG.normal(size=120), "town": RNG.choice(["Bonn", "Rome"], 120)})
TRAINING = pd.concat([TABLE[:80], *[TABLE[:1]] * 60])  # one row very often
NOTHING = pd.Series(dtype=float)
TASK = Task("made/up", None, FeatureSpace.infer(TRAINING), None, TRAINING, TABLE[80:], NOTHING, NOTHING)


def unit_of(method, changes):
    rows = [
        {"task": "made/up", "method": method, "seed": 0, "state": "ok", "instance": i, "valid": one is not None}
        | {"changes": json.dumps(one or [])}
        for i, one in enumerate(changes)
    ]
    return pd.DataFrame(rows)


def test_rows_are_the_queries_with_their_changes():
    unit = unit_of("one", [[["x", 0.0, 5.5], ["town", "Bonn", "Rome"]], [], [["y", 1.0, -2.0]]])
    rows = delivered_rows(unit.iloc[[0, 2]], TASK.X_test)
    assert rows["x"].tolist() == [5.5, TASK.X_test["x"].iloc[2]]
    assert rows["y"].tolist() == [TASK.X_test["y"].iloc[0], -2.0]
    assert rows["town"].tolist() == ["Rome", TASK.X_test["town"].iloc[2]]
    assert list(rows.columns) == list(TABLE.columns)


def test_a_detector_calls_a_twentieth_of_the_distinct_rows_outliers_and_knows_far_ones():
    seen = TRAINING.drop_duplicates()
    columns = np.column_stack(
        [
            (seen["x"] - TRAINING["x"].mean()) / TRAINING["x"].std(ddof=0),
            (seen["y"] - TRAINING["y"].mean()) / TRAINING["y"].std(ddof=0),
            seen["town"] == "Bonn",
            seen["town"] == "Rome",
        ]
    ).astype(float)
    factor = LocalOutlierFactor(20, novelty=True).fit(columns)
    least = np.quantile(factor.negative_outlier_factor_, 0.05)
    told = detector_of(TASK, "training")(seen)
    np.testing.assert_array_equal(told, factor.score_samples(columns) < least)
    far = seen[:1].assign(x=50.0)
    assert detector_of(TASK, "training")(far).all() and detector_of(TASK, "test")(far).all()


def test_shares_are_of_valid_rows_alone_and_real_rows_stand_beside_them():
    far = [["x", 0.0, 40.0]]
    lines = outliers_by_seed(
        pd.concat([unit_of("far", [far, None, far]), unit_of("none", [None, None]), unit_of("mixed", [far, []])]),
        lambda name, seed: TASK,
    ).set_index("method")
    assert lines.loc["far", ["outliers", "unseen outliers"]].tolist() == [1.0, 1.0]
    assert lines.loc["none", ["outliers", "unseen outliers"]].isna().all()
    assert 0.5 <= lines.loc["mixed", "outliers"] <= 1.0
    assert lines["real outliers"].nunique() == 1 and 0.0 < lines["real outliers"].iloc[0] < 0.3
    assert list(lines.columns) == ["task", "seed", *COLUMNS]
    assert lines["real unseen outliers"].iloc[0] == detector_of(TASK, "test")(TRAINING).mean()
