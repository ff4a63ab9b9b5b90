"""scikit-learn's manners, for every explainer: parameters, clones, Pipelines over raw columns, tables in and out."""

from datetime import time
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from reference.every_explainer import every_explainer
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from relax_plugin import FeatureSpace, Goal, ReLAXConfig, make_explainer
from relax_plugin.errors import InputError, TableNote, UnsupportedError

TRAINED: dict[str, Any] = {
    "config": ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, local_steps=5),
    "progress": False,
}
QUICK: dict[str, dict[str, Any]] = {
    "relax-global": TRAINED,
    "relax-local": TRAINED,
    "dice-random": {"sample_size": 200},
    "lore": {"population": 200},
}
RNG = np.random.default_rng(5)
GRADES = ["poor", "fair", "good"]
RAW = pd.DataFrame(
    {
        "income": RNG.normal(30, 9, 160).round(1),
        "job": RNG.choice(["clerk", "cook", "nurse"], 160),
        "children": RNG.integers(0, 4, 160),
        "owner": RNG.random(160) > 0.4,
        "grade": pd.Categorical(RNG.choice(GRADES, 160), categories=GRADES, ordered=True),
    },
    index=pd.Index([f"person {i}" for i in range(160)], name="who"),
)
NUMBERS = RAW[["income", "children"]]
GRANTED = RAW.income / 10 + 2 * RAW.owner + RAW.grade.cat.codes - RAW.children > 4


@cache
def pipeline() -> Pipeline:
    """The usual one: imputing, scaling, one-hot and ordinal codes of raw columns, then a classifier."""
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["income", "children"]),
        (OneHotEncoder(handle_unknown="ignore"), ["job", "owner"]),
        (OrdinalEncoder(categories=[GRADES]), ["grade"]),
    )
    return make_pipeline(columns, LogisticRegression()).fit(RAW, np.where(GRANTED, "granted", "refused"))


def make(name: str, model: Any, **options: Any) -> Any:
    return make_explainer(name, model, **{**QUICK.get(name, {}), **options})


def fit(explainer: Any, rows: Any) -> Any:
    try:
        return explainer.fit(rows)
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@every_explainer
def test_a_pipeline_over_raw_columns_is_explained_in_its_own_columns(name: str) -> None:
    result = fit(make(name, pipeline()), RAW).explain(RAW[:10], vary=["income", "owner", "grade"])
    assert result.found.mean() >= 0.5
    frame = result.frame
    assert (frame[list(RAW)].dtypes == RAW.dtypes).all()
    answers = pipeline().predict(frame[list(RAW)])
    assert (answers != pipeline().predict(RAW[:10])[frame["query_id"]]).all()
    queries = RAW.iloc[frame["query_id"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame[["job", "children"]].reset_index(drop=True), queries[["job", "children"]])


@pytest.mark.slow
@every_explainer
def test_parameters_are_read_set_and_make_the_same_explainer(name: str) -> None:
    explainer = make(name, pipeline(), max_changes=2, seed=4)
    parameters = explainer.get_params(deep=False)
    assert type(explainer)(**parameters).get_params(deep=False) == parameters
    space, goal = FeatureSpace.infer(RAW, immutable=["owner"]), Goal.to("granted")
    assert explainer.set_params(space=space, goal=goal, max_changes=3) is explainer
    parameters = explainer.get_params(deep=False)
    assert (parameters["space"], parameters["goal"], parameters["max_changes"]) == (space, goal, 3)
    with pytest.raises(ValueError, match="no_such_option"):
        explainer.set_params(no_such_option=1)


@every_explainer
def test_clone_leaves_the_fitted_model_fitted(name: str) -> None:
    model = RandomForestClassifier(5, random_state=0).fit(NUMBERS, GRANTED)
    explainer = fit(make(name, model), NUMBERS)
    copy = clone(explainer)
    assert type(copy) is type(explainer)
    assert not hasattr(copy, "space_")
    check_is_fitted(copy.model)
    check_is_fitted(clone([explainer])[0].model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relax-global", "greedy"])
def test_a_polars_frame_is_explained_as_the_same_rows_of_pandas(name: str) -> None:
    rows = RAW.drop(columns="grade").reset_index(drop=True)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["job", "owner"]), remainder="passthrough"), LogisticRegression()
    ).fit(rows, GRANTED)
    table = polars.from_dict(rows.to_dict("list"), schema_overrides={"job": polars.Categorical})
    expected = fit(make(name, model), rows).explain(rows[:10], n=2)
    result = make(name, model).fit(table).explain(table[:10], n=2)
    assert isinstance(result.frame, pd.DataFrame)
    pd.testing.assert_frame_equal(result.frame, expected.frame, check_dtype=False)
    pd.testing.assert_frame_equal(pd.DataFrame(result.queries), rows[:10], check_dtype=False)


def test_what_is_missing_in_a_polars_frame_stays_missing() -> None:
    table = polars.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", None]})
    space, values = FeatureSpace.infer(table).taking_in(table)
    assert space.is_missing(values).tolist() == [[False, False], [True, False], [False, True]]
    cells = space.model_input(values)
    assert cells.isna().to_numpy().tolist() == [[False, False], [True, False], [False, True]]


def test_exact_decimals_are_numbers_and_times_of_day_are_carried() -> None:
    table = polars.DataFrame({"price": ["1.25", "2.50", "9.75"]}, schema={"price": polars.String})
    table = table.with_columns(polars.col("price").cast(polars.Decimal(10, 2)))
    (feature,) = FeatureSpace.infer(table).features
    assert (feature.kind, feature.low, feature.high) == ("continuous", 1.25, 9.75)
    times = polars.DataFrame({"when": [time(12), time(13)], "a": [1, 2]})
    with pytest.warns(TableNote, match="'when'"):
        assert [f.carried for f in FeatureSpace.infer(times).features] == [True, False]


@pytest.mark.parametrize("rows", [[[1.0, 2.0]], polars.LazyFrame({"a": [1.0]}), polars.Series([1.0])])
def test_what_is_no_table_is_refused(rows: Any) -> None:
    with pytest.raises(InputError, match=r"rows must be a DataFrame .*, a numpy array, .*, not (list|Lazy|Series)"):
        FeatureSpace.infer(rows)
