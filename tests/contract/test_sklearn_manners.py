"""scikit-learn's manners, for every explainer: parameters, clones, Pipelines over raw columns, tables in and out."""

import warnings
from datetime import time
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from reference.every_explainer import ON_NETWORKS, every_explainer, skipped_with_a_reason
from scipy.sparse import coo_array, csr_matrix, dok_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator
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


def model_of(name: str) -> Any:
    """A model of the kind that the method looks into, of numbers."""
    kind = MLPClassifier((8,), max_iter=30) if name in ON_NETWORKS else RandomForestClassifier(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        return kind.set_params(random_state=0).fit(NUMBERS, GRANTED)


@every_explainer
def test_fit_ignores_y(name: str) -> None:
    explainer = make(name, model_of(name))
    with skipped_with_a_reason():
        assert explainer.fit(NUMBERS, GRANTED) is explainer
    assert explainer.n_features_in_ == 2 and explainer.feature_names_in_.tolist() == ["income", "children"]


def test_the_names_of_features_are_those_of_tables_of_strings() -> None:
    def first(rows: Any) -> Any:
        return (np.asarray(rows)[:, 0] > 30).astype(int)

    def fitted(rows: Any) -> Any:
        return make("nearest-ct", first).fit(rows)

    assert not hasattr(make("nearest-ct", first), "n_features_in_")
    assert not hasattr(make("nearest-ct", first), "feature_names_in_")
    numbered = NUMBERS.set_axis([0, 1], axis=1)
    for rows in (NUMBERS.to_numpy(), numbered):
        assert fitted(rows).n_features_in_ == 2 and not hasattr(fitted(rows), "feature_names_in_")
    model = make_pipeline(OrdinalEncoder(), LogisticRegression()).fit(RAW[["job", "owner"]], GRANTED)
    groups = RAW[["income"]].assign(clerk=RAW.job == "clerk", cook=RAW.job == "cook", nurse=RAW.job == "nurse")
    space = FeatureSpace.infer(groups.astype(float), one_hot={"job": ["clerk", "cook", "nurse"]})
    grouped = make("nearest-ct", first, space=space).fit(groups.astype(float))
    assert grouped.feature_names_in_.tolist() == list(groups) and grouped.n_features_in_ == 4
    assert make("greedy", model).fit(RAW[["job", "owner"]]).feature_names_in_.tolist() == ["job", "owner"]


class Weighed(ClassifierMixin, BaseEstimator):
    """A classifier of any number of columns that needs no fit: the checks bring their own rows."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows: Any) -> Any:
        cells = np.nan_to_num(np.asarray(rows, dtype=float))
        chance = 1 / (1 + np.exp(-np.clip(cells @ np.linspace(1, -0.5, cells.shape[1]), -30, 30)))
        return np.column_stack([1 - chance, chance])

    def predict(self, rows: Any) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


# Checks of scikit-learn that do not apply, with the reason. Those of predictors, transformers, outlier detectors and
# clusterers are not among them: scikit-learn runs them only for estimators that say they are one, by their tags.
NOT_APPLICABLE = {"check_array_api_input": "SCIPY_ARRAY_API is not set, and explainers work on numpy and pandas"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["greedy", "nearest-ct", "random-order", "relax-global"])
def test_the_applicable_checks_of_scikit_learn_pass(name: str) -> None:
    options: dict[str, Any] = {}
    if name == "relax-global":
        tiny = ReLAXConfig(steps=10, episodes=16, updates_per_step=1, hidden=8, start_pool=64, query_budget=200)
        options = {"config": tiny, "progress": False}
    explainer = make_explainer(name, Weighed(), **options)
    told = check_estimator(explainer, on_skip=None, on_fail=None, expected_failed_checks=NOT_APPLICABLE)
    failed = [f"{one['check_name']}: {one['exception']}" for one in told if one["status"] == "failed"]
    assert failed == []
    assert {one["check_name"] for one in told if one["status"] in ("skipped", "xfail")} <= set(NOT_APPLICABLE)
    passed = {one["check_name"] for one in told if one["status"] == "passed"}
    assert {"check_n_features_in", "check_fit_score_takes_y", "check_estimators_pickle"} <= passed and len(passed) > 35


def test_sparse_rows_are_refused_in_every_format() -> None:
    for kind in (csr_matrix, dok_matrix, coo_array):
        with pytest.raises(InputError, match=f"the rows are a sparse {kind.__name__}, which is not supported"):
            FeatureSpace.infer(kind(np.eye(3)))


def test_a_fitted_explainer_says_its_features_its_goal_and_that_nothing_is_fixed() -> None:
    model = pipeline()
    bare = make("greedy", model, goal=Goal.to("granted"))
    assert "features" not in repr(bare) and "goal=Goal.to('granted')" in repr(bare)
    text = repr(bare.fit(RAW))
    assert text.endswith(
        "5 features: income, job, children, owner, grade. Goal: Goal.to('granted'). "
        "No feature is fixed: each may change in either direction."
    )
    assert "5 features: income" in bare._repr_mimebundle_()["text/html"]
    for said in ({"immutable": ["owner"]}, {"increase_only": ["income"]}, {"rules": ["income >= was(income)"]}):
        space = FeatureSpace.infer(RAW, **said)
        assert "No feature is fixed" not in repr(space) + repr(make("greedy", model, space=space).fit(RAW))
    assert repr(FeatureSpace.infer(RAW)).endswith("No feature is fixed: each may change in either direction.")
    wide = pd.DataFrame(np.eye(12), columns=[f"c{j}" for j in range(12)])
    numbers = make("greedy", Weighed()).fit(wide)
    assert "12 features: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more. Goal: Goal.flip()." in repr(numbers)


@pytest.mark.parametrize(
    "goal",
    [
        Goal.flip(),
        Goal.flip(min_probability=0.75),
        Goal.to("granted", raise_by=0.1),
        Goal.to(["a", "b"]),
        Goal.shift(2.0, direction="up"),
        Goal.shift(1.5),
        Goal.between(1.0, None),
        Goal.between([1.0, 2.0], 3.0),
    ],
)
def test_a_goal_prints_as_it_is_made(goal: Goal) -> None:
    assert repr(goal).startswith(f"Goal.{goal.kind}(") and eval(repr(goal), {"Goal": Goal}) == goal


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
