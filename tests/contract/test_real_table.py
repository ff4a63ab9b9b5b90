"""One table with all that tables have: gaps, dates, dummies, an order, a derived column, rules; for every explainer."""

import pickle
import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS

from relax_plugin import Counterfactuals, FeatureSpace, make_explainer

RNG = np.random.default_rng(0)
ROWS = 160
DUMMIES = ["job_clerk", "job_cook", "job_smith"]
SIZES = {"S": -1.0, "M": 0.0, "L": 0.5}


@cache
def table() -> pd.DataFrame:
    rows = pd.get_dummies(pd.Series(RNG.choice(["cook", "smith", "clerk"], ROWS)), prefix="job")
    rows["age"] = RNG.integers(20, 70, ROWS).astype(float)
    rows["work_years"] = (rows["age"] - 18) * RNG.random(ROWS) // 1
    rows["income"] = RNG.normal(30, 8, ROWS).round(1)
    rows["size"] = RNG.choice(list(SIZES), ROWS)
    rows["when"] = pd.date_range("2020-01-01", periods=ROWS)
    rows["town"] = pd.Series(RNG.choice(["Rome", "Bonn", None], ROWS), dtype=object)
    rows.loc[::7, "income"] = np.nan
    rows["yearly"] = rows["income"] * 12
    return rows.set_axis([f"row {i}" for i in range(ROWS)])


def model(rows: pd.DataFrame) -> Any:
    score = (rows["income"].fillna(29) - 30) / 6 + rows["job_cook"].astype(float) - rows["job_smith"].astype(float)
    score = score + 0.1 * (rows["work_years"] - 12) + rows["size"].map(SIZES).astype(float)
    score = score + (rows["town"] == "Rome").astype(float) + (rows["yearly"].fillna(350) - 350) / 900 - 0.5
    chance = 1 / (1 + np.exp(-score.to_numpy()))
    return np.column_stack([1 - chance, chance])


@cache
def space() -> FeatureSpace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return FeatureSpace.infer(
            table(),
            one_hot={"job": DUMMIES},
            ordered={"size": list(SIZES)},
            derived={"yearly": "income * 12"},
            rules=["age >= work_years + 16"],
            increase_only=["age"],
            fill_missing=["town"],
            may_vanish=["town"],
        )


def check(result: Counterfactuals, queries: pd.DataFrame) -> None:
    frame = result.frame
    assert len(frame)
    original = queries.iloc[frame["query_id"]]
    changed = (result.values != result.start[:, None]).any(axis=2)[result.found]
    assert (model(frame[list(queries)]).argmax(axis=1) != model(original).argmax(axis=1)).all()
    assert (frame["age"] >= frame["work_years"] + 16)[changed].all()
    assert ((frame["job_cook"] == 0) | (frame["age"] >= 25))[changed].all()
    assert (frame[DUMMIES].sum(axis=1) == 1).all() and list(map(str, frame[DUMMIES].dtypes)) == ["bool"] * 3
    assert (frame["income"].isna() == original["income"].isna()).all()
    np.testing.assert_allclose(frame["yearly"], frame["income"] * 12)
    assert (frame["age"] >= original["age"]).all()
    pd.testing.assert_series_equal(frame["when"], original["when"])
    assert frame.index.equals(original.index)


@pytest.mark.slow
@every_explainer
def test_every_explainer_keeps_all_that_is_said_of_a_real_table(name: str) -> None:
    queries = table()[:12]
    with skipped_with_a_reason():
        explainer = make_explainer(name, model, space(), **OPTIONS.get(name, {})).fit(table())
        result = explainer.explain(queries, n=2, rules=["job_cook == 0 or age >= 25"])
        check(result, queries)
        for again in (Counterfactuals.from_json(result.to_json()), pickle.loads(pickle.dumps(result))):
            pd.testing.assert_frame_equal(again.frame, result.frame)
            assert again.sentences() == result.sentences()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relax-global", "relax-local"])
def test_a_saved_agent_answers_as_before_about_a_real_table(name: str, tmp_path: Any) -> None:
    explainer = make_explainer(name, model, space(), **OPTIONS[name]).fit(table())
    explainer.save(tmp_path / "agent.safetensors")
    again = type(explainer).load(tmp_path / "agent.safetensors", model=model)
    queries, rules = table()[:12], ["job_cook == 0 or age >= 25"]
    expected = explainer.explain(queries, rules=rules)
    pd.testing.assert_frame_equal(again.explain(queries, rules=rules).frame, expected.frame)


def test_another_view_of_a_fitted_explainer_keeps_it_too() -> None:
    explainer = make_explainer("greedy", model, space()).fit(table())
    queries, rules = table()[:12], ["job_cook == 0 or age >= 25"]
    check(explainer.for_model(lambda rows: model(rows)).explain(queries, rules=rules), queries)
    check(explainer.for_space(space()).explain(queries, rules=rules), queries)
