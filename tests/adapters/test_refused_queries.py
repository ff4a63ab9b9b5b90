"""A query that the model refuses in the adapters: each has its usual way for a query without counterfactual."""

import json
from types import SimpleNamespace

import dice_ml
import numpy as np
import pandas as pd
import pytest
from reference.refusing import TRAINING, Estimating, Validating, far_away, with_a_strange_query

from relax_plugin import Goal, make_explainer
from relax_plugin.adapters.alibi import ReLAXTabular
from relax_plugin.adapters.carla import ReLAXRecourse
from relax_plugin.adapters.dice import ReLAXDice
from relax_plugin.adapters.interpret import ReLAX
from relax_plugin.adapters.mlflow_evaluator import Examined
from relax_plugin.adapters.shap import CounterfactualShap, compare_with_shap

QUERIES = with_a_strange_query()
OTHERS = np.arange(30) != 7
BY = pytest.mark.parametrize("by", ["raise", "NaN"])
KINDS = pytest.mark.parametrize("kind", [Validating, Estimating])


def fitted(kind, by):
    goal = Goal.shift(0.2) if kind is Estimating else None
    return make_explainer("greedy", kind(far_away, by), goal=goal).fit(TRAINING)


@BY
@KINDS
def test_alibi_gives_the_row_itself_and_no_class(kind, by):
    model = kind(far_away, by)
    predictor = model.predict_proba if kind is Validating else lambda rows: model.predict(rows)[:, None]
    face = ReLAXTabular(predictor, feature_names=list("abc"), explainer="greedy").fit(TRAINING.to_numpy())
    rows = QUERIES.to_numpy(dtype=float)
    for made in (face.explain(rows), face.explain(rows, C=[{"a": [-3, 3]}])):
        assert np.array_equal(made.cf["X"][7], rows[7]) and "refuses this query" in made.counterfactuals.status[7]
        assert np.isnan(made.cf["class"][7, 0]) and np.isnan(made.orig["class"][7, 0])
        assert np.isfinite(made.cf["class"][OTHERS]).all() and made.counterfactuals.found[OTHERS].sum() > 20
    assert face.explain(rows[OTHERS]).cf["class"].dtype == (int if kind is Validating else float)


def dice_face(kind, by):
    model = kind(far_away, by)
    outcome = model.predict(TRAINING)
    table = TRAINING.assign(y=outcome.astype(int) if kind is Validating else outcome)
    known = dice_ml.Data(dataframe=table, continuous_features=list("abc"), outcome_name="y")
    model_type = "classifier" if kind is Validating else "regressor"
    return ReLAXDice(known, dice_ml.Model(model=model, backend="sklearn", model_type=model_type), "greedy")


@BY
@pytest.mark.parametrize("asked", [{}, {"permitted_range": {"a": [-1, 1]}}, {"desired_class": 1}])
def test_dice_says_which_query_is_refused_and_fills_the_others(by, asked):
    with pytest.warns(UserWarning, match="the model refuses the queries at positions 7: they have no counterfactuals"):
        made = dice_face(Validating, by).generate_counterfactuals(QUERIES, total_CFs=2, **asked)
    counted = [0 if one.final_cfs_df is None else len(one.final_cfs_df) for one in made.cf_examples_list]
    assert counted[7] == 0 and min(np.array(counted)[OTHERS]) > 0
    assert made.cf_examples_list[7].test_instance_df["y"].tolist() == [None]
    told = json.loads(made.to_json())["test_data"]
    assert told[7][0][-1] is None and told[0][0][-1] in (0, 1)


@BY
@pytest.mark.parametrize("asked", [{}, {"permitted_range": {"a": [-1, 1]}}])
def test_dice_of_a_regressor_too(by, asked):
    with pytest.warns(UserWarning, match="the queries at positions 7"):
        made = dice_face(Estimating, by).generate_counterfactuals(
            QUERIES, total_CFs=1, desired_range=[0.4, 0.6], **asked
        )
    found = np.array([one.final_cfs_df is not None for one in made.cf_examples_list])
    assert np.array_equal(found, OTHERS)


@BY
def test_carla_gets_a_row_of_nan(by):
    model = Validating(far_away, by)
    model.feature_input_order = list("abc")
    model.data = SimpleNamespace(df=TRAINING, categorical=[], continuous=list("abc"), immutables=[])
    made = ReLAXRecourse(model, {"explainer": "greedy"}).get_counterfactuals(QUERIES)
    assert np.array_equal(made.isna().all(axis=1), ~OTHERS)


@BY
@KINDS
def test_shap_gives_zeros_and_no_base(kind, by):
    face = CounterfactualShap(fitted(kind, by))
    with pytest.warns(UserWarning, match="1 of 30 queries have no counterfactual"):
        made = face(QUERIES)
    assert not made.values[7].any() and np.isnan(made.base_values[7]) and not made.found[7]
    assert np.array_equal(made.values[OTHERS], face(QUERIES[OTHERS]).values)
    with pytest.warns(UserWarning, match="1 of 30 queries have no counterfactual"):
        assert np.isfinite(face.shap_values(QUERIES)).all()
    with pytest.warns(UserWarning, match="1 of 1 queries have no counterfactual"):
        assert np.isnan(face(QUERIES.iloc[7]).base_values)


@BY
@KINDS
def test_the_comparison_with_shap_is_that_of_the_other_queries(kind, by):
    explainer = fitted(kind, by)
    made, alone = compare_with_shap(explainer, QUERIES), compare_with_shap(explainer, QUERIES[OTHERS])
    assert not made.table["found"][7] and made.table.loc[7, ["changed", "overlap", "agreement"]].isna().all()
    pd.testing.assert_frame_equal(made.features, alone.features)


@BY
@KINDS
def test_interpret_shows_no_answer_and_why(kind, by):
    made = ReLAX(kind(far_away, by), TRAINING, explainer="greedy").explain_local(QUERIES)
    told = made.data(7)
    assert told["perf"]["text"] == "no answer" and "refuses this query" in told["counterfactuals"][0]["status"]
    assert "predicted no answer" in made.visualize(7).layout.title.text
    assert made.data(None)["found"] >= 28


@BY
def test_the_default_goal_is_measured_by_the_training_rows_that_are_answered(by):
    training = TRAINING.copy()
    training.iloc[5, 1] = 999
    face = ReLAX(Estimating(far_away, by), training, explainer="greedy")
    with pytest.warns(UserWarning, match="the model refuses 1 of the"):
        face.fit()
    half = Estimating(far_away).predict(TRAINING.drop(index=5)).std() / 2
    assert face.default_goal_.startswith(f"goal: an answer higher or lower by at least {half:.4g}")


@BY
@KINDS
def test_mlflow_counts_a_refused_query_as_not_valid(kind, by):
    explainer = fitted(kind, by)
    made = Examined(explainer, explainer.explain(QUERIES))
    assert made.metrics()["validity"] == pytest.approx(29 / 30)
    line = made.instances().iloc[7]
    assert not line["valid"] and pd.isna(line["before"]) and "refuses this query" in line["status"]
