"""DiCE's face, against the real dice-ml: what DiCE's tests check, and what they do not."""

import importlib
import pickle
import sys
from functools import cache

import dice_ml
import numpy as np
import pandas as pd
import pytest
import torch
from dice_ml.constants import SamplingStrategy
from dice_ml.counterfactual_explanations import CounterfactualExplanations
from dice_ml.explainer_interfaces.explainer_base import ExplainerBase
from raiutils.exceptions import UserConfigValidationException
from reference.every_explainer import every_explainer
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from relax_plugin import BlackBox, FeatureSpace, ReLAXConfig, list_explainers, make_explainer
from relax_plugin.adapters.dice import Dice, ReLAXDice
from relax_plugin.errors import (
    ColumnError,
    ConstraintError,
    InputError,
    MissingExtraError,
    UnknownNameError,
)

NUMBERS, CATEGORIES = ["age", "income", "debt"], ["job", "rooms"]
FEATURES = ["age", "job", "income", "rooms", "debt"]
QUICK = ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, query_budget=400)
RELAX = {"explainer": "relax-global", "options": {"config": QUICK, "progress": False}}


RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(  # whole numbers, text, decimals, categories that are numbers, long decimals
    {
        "age": RNG.integers(18, 80, 400),
        "job": RNG.choice(["clerk", "cook", "nurse"], 400),
        "income": RNG.normal(50.0, 15.0, 400).round(2),
        "rooms": RNG.integers(1, 4, 400),
        "debt": RNG.gamma(2.0, 5.0, 400),
    }
)
SCORE = ROWS.age / 20 + ROWS.income / 20 - ROWS.debt / 8 + (ROWS.job == "cook") + ROWS.rooms / 4


def data(outcome, rows: pd.DataFrame = ROWS, **more):  # type: ignore[no-untyped-def]
    return dice_ml.Data(dataframe=rows.assign(y=outcome), continuous_features=NUMBERS, outcome_name="y", **more)


@cache
def pipeline(kind: str):  # type: ignore[no-untyped-def]
    """A fitted Pipeline and its outcome."""
    # No category may be unknown to it: DiCE's text "2" is not the model's 2.
    columns = make_column_transformer((OneHotEncoder(), CATEGORIES), (StandardScaler(), NUMBERS))
    upper = SCORE.gt(SCORE.median())
    model, outcome = {
        "binary": (LogisticRegression(), np.where(upper, "yes", "no")),
        "forest": (RandomForestClassifier(10, random_state=0), upper.astype(int)),
        "threshold": (FixedThresholdClassifier(LogisticRegression(), threshold=0.3), upper.astype(int)),
        "three": (LogisticRegression(), pd.cut(SCORE, 3, labels=["high", "low", "mid"]).astype(str)),
        "regression": (RandomForestRegressor(10, random_state=0), SCORE),
    }[kind]
    return make_pipeline(columns, model).fit(ROWS, outcome), outcome


def face(kind: str = "binary", explainer="greedy", **more):  # type: ignore[no-untyped-def]
    model, outcome = pipeline(kind)
    model_type = "regressor" if kind == "regression" else "classifier"
    asked = dice_ml.Model(model=model, backend="sklearn", model_type=model_type)
    return ReLAXDice(data(outcome), asked, explainer, **more)


@cache
def trained(kind: str):  # type: ignore[no-untyped-def]
    """ReLAX, trained once for all tests of the kind."""
    return face(kind, **RELAX).fit(ROWS, [4.0, 5.0] if kind == "regression" else None)


def found(explanations) -> list[pd.DataFrame]:  # type: ignore[no-untyped-def]
    """The counterfactuals of each query that has some."""
    frames = [example.final_cfs_df for example in explanations.cf_examples_list]
    return [frame for frame in frames if frame is not None]


def check(exp, queries: pd.DataFrame, explanations, vary=tuple(FEATURES)) -> None:  # type: ignore[no-untyped-def]
    """Every delivered row has the class it promises, keeps to `vary`, and is the query's own where it is unchanged."""
    for i, example in enumerate(explanations.cf_examples_list):
        rows = example.final_cfs_df
        if rows is None:
            continue
        assert list(rows) == [*FEATURES, "y"]
        assert not rows.duplicated().any()
        pd.testing.assert_frame_equal(rows, example.final_cfs_df_sparse)
        pd.testing.assert_frame_equal(rows, exp.data_interface.ensure_consistent_type(rows, queries.iloc[[i]]))
        assert (exp.model.model.predict(rows[FEATURES]) == rows["y"]).all()
        for name in FEATURES:
            cells, cell = rows[name].to_numpy(), queries[name].to_numpy()[i]
            assert name in vary or (cells == cell).all()
            if rows[name].dtype.kind == "f":
                assert not ((cells != cell) & np.isclose(cells, cell, rtol=1e-6)).any()  # float32 would look like this
            assert example.test_instance_df[name].iloc[0] == cell


@pytest.mark.slow
def test_it_is_a_true_explainer_of_dice_for_every_name_of_the_registry() -> None:
    exp = face()
    assert isinstance(exp, ExplainerBase)
    for name in ("relax", *list_explainers()):
        made = Dice(exp.data_interface, exp.model, method=name)
        assert type(made) is ReLAXDice
        expected = make_explainer("relax-global" if name == "relax" else name, None).get_params()
        assert {**made.explainer.get_params(), "model": None} == expected
    assert type(Dice(exp.data_interface, exp.model)) is ReLAXDice


@pytest.mark.slow
@every_explainer
def test_every_explainer_answers_through_the_face(name: str) -> None:
    quick = {"sample_size": 200} if name == "dice-random" else {"population": 200} if name == "lore" else {}
    options = RELAX["options"] if name.startswith("relax") else quick
    exp, queries = face("binary", name, options=options), ROWS[:6]
    reason = exp.explainer.skip_reason(BlackBox(exp.model.model), FeatureSpace.infer(ROWS))
    if reason is not None:
        pytest.skip(reason)
    for more in ({}, {"permitted_range": {"income": [20.0, 80.0]}, "features_to_vary": ["income", "debt"]}):
        explanations = exp.generate_counterfactuals(queries, 2, **more)
        assert len(found(explanations)) >= 3
        check(exp, queries, explanations)


@pytest.mark.parametrize("method", [SamplingStrategy.Random, SamplingStrategy.Genetic, SamplingStrategy.KdTree])
def test_dices_own_methods_stay_its_own(method: str) -> None:
    outcome = np.where(SCORE > 5.0, 1, 0)
    model = dice_ml.Model(model=LogisticRegression().fit(ROWS[NUMBERS], outcome), backend="sklearn")
    interface = data(outcome, ROWS[NUMBERS])
    assert type(Dice(interface, model, method)) is type(dice_ml.Dice(interface, model, method))


def test_unknown_methods_and_options_are_refused() -> None:
    exp = face()
    with pytest.raises(UserConfigValidationException, match="Unsupported sample strategy relaxx"):
        Dice(exp.data_interface, exp.model, method="relaxx")
    with pytest.raises(UnknownNameError, match="max_changes"):
        Dice(exp.data_interface, exp.model, method="greedy", options={"max_change": 2})
    with pytest.raises(UnknownNameError, match="sample_size"):
        exp.generate_counterfactuals(ROWS[:1], 1, sample_sise=3)
    with pytest.warns(UserWarning, match="diversity_weight tunes DiCE's own methods"):
        exp.generate_counterfactuals(ROWS[:1], 1, diversity_weight=0.5)
    with pytest.warns(UserWarning, match="learning_rate tunes DiCE's own methods"):
        exp.generate_counterfactuals(ROWS[:1], 1, learning_rate=0.05, min_iter=500)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "forest", "threshold"])
def test_delivered_rows_have_the_promised_class_and_unchanged_cells_are_the_querys(kind: str) -> None:
    exp, queries = trained(kind) if kind == "binary" else face(kind), ROWS[:40]
    explanations = exp.generate_counterfactuals(queries, 2)
    check(exp, queries, explanations)  # of "threshold", `predict` is not the likelier class
    before = exp.model.model.predict(queries)
    for example, label in zip(explanations.cf_examples_list, before, strict=True):
        assert len(example.final_cfs_df) == 2
        assert (example.final_cfs_df["y"] != label).all()
        assert example.desired_class == example.new_outcome == example.final_cfs_df["y"][0]
        assert example.test_pred == label


@pytest.mark.slow
def test_the_query_decides_the_dtypes() -> None:
    exp = trained("binary")
    some = ROWS[ROWS.job != "cook"][:30]
    for dtypes in ({"age": "float64"}, {"income": "int64", "age": "int8"}, {"debt": "int16"}, {"income": "float32"}):
        queries = some.astype(dtypes)
        explanations = exp.generate_counterfactuals(queries, 1, features_to_vary=list(dtypes))
        assert len(found(explanations)) > 5
        check(exp, queries, explanations, vary=tuple(dtypes))
    text = pd.CategoricalDtype(["nurse", "clerk"])  # without "cook", which casting would turn into a missing value
    queries = some.astype({"job": text, "rooms": "category", "age": object})
    rows = pd.concat(found(exp.generate_counterfactuals(queries, 4, features_to_vary=["job", "rooms", "age"])))
    assert set(rows["job"]) == {"nurse", "cook", "clerk"}
    assert (exp.model.model.predict(rows[FEATURES]) == rows["y"]).all()


def test_rows_without_any_category_are_explained() -> None:
    outcome = np.where(SCORE > 5.0, 1, 0)
    model = LogisticRegression().fit(ROWS[NUMBERS], outcome)
    exp = Dice(data(outcome, ROWS[NUMBERS]), dice_ml.Model(model=model, backend="sklearn"), method="greedy")
    explanations = exp.generate_counterfactuals(ROWS[NUMBERS][:20], 2)
    assert [len(rows) for rows in found(explanations)] == [2] * 20
    answers = model.predict(pd.concat(found(explanations))[NUMBERS])
    assert (answers != model.predict(ROWS[NUMBERS][:20]).repeat(2)).all()
    with pytest.raises(ValueError, match="not present in training data"):
        exp.generate_counterfactuals(ROWS[["age"]].assign(height=1.0), 1)


@pytest.mark.slow
def test_the_order_of_the_querys_columns_does_not_matter() -> None:
    exp, queries = trained("binary"), ROWS[5:25]
    plain, turned = (exp.generate_counterfactuals(rows, 1) for rows in (queries, queries[FEATURES[::-1]]))
    for one, other in zip(plain.cf_examples_list, turned.cf_examples_list, strict=True):
        pd.testing.assert_frame_equal(one.final_cfs_df, other.final_cfs_df)
        assert list(other.test_instance_df) == list(other.final_cfs_df)  # DiCE's JSON and displays go by position


@pytest.mark.slow
def test_queries_come_as_frames_dicts_and_lists_of_them() -> None:
    exp, queries = face(), ROWS[:3]
    expected = found(exp.generate_counterfactuals(queries, 1))
    for given in ([queries[:1], queries[1:]], queries.to_dict("records"), iter([queries[:2], queries[2:]])):
        for one, other in zip(found(exp.generate_counterfactuals(given, 1)), expected, strict=True):
            pd.testing.assert_frame_equal(one, other, check_dtype=False)
    query = {"age": 30, "job": "cook", "income": 50, "rooms": 2, "debt": 3}
    (rows,) = found(exp.generate_counterfactuals(query, 1, features_to_vary=["income"]))
    assert rows["income"].dtype == float  # a 50 in a dict does not mean that only whole numbers will do


@pytest.mark.slow
@pytest.mark.parametrize("given", [1, np.int64(1), "yes", np.str_("yes"), True])
def test_desired_class_is_a_position_or_a_label(given) -> None:  # type: ignore[no-untyped-def]
    exp = face()
    explanations = exp.generate_counterfactuals(ROWS[:20], 1, desired_class=given)
    assert all((rows["y"] == "yes").all() for rows in found(explanations))
    assert {example.desired_class for example in explanations.cf_examples_list} == {"yes"}


@pytest.mark.slow
def test_of_several_classes_any_can_be_desired_and_none_is_the_opposite() -> None:
    exp = face("three")
    for position, label in enumerate(["high", "low", "mid"]):
        for given in (position, label):
            rows = pd.concat(found(exp.generate_counterfactuals(ROWS[:20], 1, desired_class=given)))
            assert len(rows) == 20
            assert (exp.model.model.predict(rows[FEATURES]) == label).all()
    for given, message in (("opposite", "more than 2"), (3, "not present in training"), ("top", "top could not be")):
        with pytest.raises(UserConfigValidationException, match=message):
            exp.generate_counterfactuals(ROWS[:2], 1, desired_class=given)


@pytest.mark.slow
def test_a_query_that_is_as_desired_comes_first_and_the_others_differ_from_it() -> None:
    exp = trained("forest")
    queries = ROWS[exp.model.model.predict(ROWS) == 1][:10]
    explanations = exp.generate_counterfactuals(queries, 4, desired_class=1)
    check(exp, queries, explanations)
    for i, rows in enumerate(found(explanations)):
        assert len(rows) == 4
        changes = (rows[FEATURES].to_numpy() != queries[FEATURES].iloc[[i]].to_numpy()).sum(axis=1)
        assert changes[0] == 0
        assert (changes[1:] > 0).all()


@pytest.mark.slow
def test_a_regressors_answer_lies_in_the_desired_range_also_in_one_it_was_not_trained_for() -> None:
    exp = trained("regression")
    for low, high in ((4.0, 5.0), (2.0, 3.5)):
        explanations = exp.generate_counterfactuals(ROWS[:20], 3, desired_range=(low, high))
        check(exp, ROWS[:20], explanations)
        answers = pd.concat(found(explanations))["y"]
        assert len(answers) >= 50
        assert answers.between(low, high).all()
    with pytest.raises(ValueError, match="desired_range"):
        face("regression").fit()


@pytest.mark.slow
def test_constraints_of_the_call_are_kept_and_the_agent_is_trained_once() -> None:
    exp, queries = trained("binary"), ROWS[:40]
    agent, spent = exp.explainer.agent_, exp.explainer.fit_rows_
    explanations = exp.generate_counterfactuals(queries, 1, features_to_vary=["age", "job"])
    assert len(found(explanations)) > 5
    check(exp, queries, explanations, vary=("age", "job"))
    beyond = {"debt": [0.0, 200.0], "age": [0, 120]}
    wide = exp.generate_counterfactuals(queries, 1, permitted_range=beyond, features_to_vary=["debt"], desired_class=0)
    assert pd.concat(found(wide))["debt"].between(ROWS.debt.max(), 200.0).any()
    within = {"income": [30.0, 60.0], "rooms": [2, "3"], "age": [30, 40]}
    narrow = exp.generate_counterfactuals(queries, 1, permitted_range=within)
    for example in narrow.cf_examples_list:
        rows = example.final_cfs_df
        if rows is not None:
            assert rows["income"].between(30.0, 60.0).all()
            assert rows["age"].between(30, 40).all()
            assert rows["rooms"].isin([2, 3]).all()
            assert (exp.model.model.predict(rows[FEATURES]) == rows["y"]).all()
            assert (rows["y"] != example.test_pred).all()  # the opposite of the query as it was
    assert len(found(narrow)) > 10
    assert exp.explainer.agent_ is agent
    assert exp.explainer.fit_rows_ == spent


def test_a_cell_outside_the_permitted_range_that_may_not_vary_is_an_error() -> None:
    exp, queries = face(), ROWS[ROWS.age > 40][:5]
    for permitted in ({"age": [20, 30]}, {"job": ["nurse"]}):
        with pytest.raises(ValueError, match="outside the permitted range and isn't allowed to vary"):
            exp.generate_counterfactuals(queries, 1, permitted_range=permitted, features_to_vary=["income"])


@pytest.mark.slow
def test_the_stopping_threshold_is_the_least_probability_of_the_desired_class() -> None:
    exp = trained("binary")
    rows = pd.concat(found(exp.generate_counterfactuals(ROWS[:40], 1, stopping_threshold=0.9)))
    assert len(rows) > 20
    assert (exp.model.model.predict_proba(rows[FEATURES]).max(axis=1) >= 0.9).all()
    assert (exp.model.model.predict(rows[FEATURES]) == rows["y"]).all()


def test_a_stopping_threshold_of_one_half_asks_for_the_class_alone() -> None:
    """Where one half is never reached, the likeliest of several classes is still a counterfactual."""

    class Unsure(DummyClassifier):  # type: ignore[misc]
        def predict_proba(self, rows):  # type: ignore[no-untyped-def]
            upper = np.asarray(rows["income"], dtype=float) > 50.0
            return np.where(upper[:, None], [0.3, 0.3, 0.4], [0.4, 0.3, 0.3])

        def predict(self, rows):  # type: ignore[no-untyped-def]
            return self.classes_[self.predict_proba(rows).argmax(axis=1)]

    outcome = np.arange(len(ROWS)) % 3
    exp = ReLAXDice(data(outcome), dice_ml.Model(model=Unsure().fit(ROWS, outcome), backend="sklearn"), "greedy")
    queries = ROWS[ROWS.income < 45.0][:5]
    explanations = exp.generate_counterfactuals(queries, 1, desired_class=2)
    assert [len(rows) for rows in found(explanations)] == [1] * 5
    with pytest.raises(UserConfigValidationException):
        exp.generate_counterfactuals(queries, 1, desired_class=2, stopping_threshold=0.6)


def test_a_stopping_threshold_says_nothing_about_a_regressor() -> None:
    exp = face("regression")
    plain, threshold = (
        exp.generate_counterfactuals(ROWS[:3], 1, desired_range=[5.0, 6.0], **more)
        for more in ({}, {"stopping_threshold": 0.8})
    )
    pd.testing.assert_frame_equal(pd.concat(found(plain)), pd.concat(found(threshold)))


@pytest.mark.slow
def test_the_random_seed_repeats_an_answer_and_post_hoc_sparsity_changes_nothing() -> None:
    exp = face("forest", "random-order", options={"max_queries": 15})  # others leave nothing to chance
    ask = lambda **more: pd.concat(found(exp.generate_counterfactuals(ROWS[:20], 2, **more)))  # noqa: E731
    first = ask(random_seed=3)
    pd.testing.assert_frame_equal(first, ask(random_seed=3, posthoc_sparsity_param=None))
    pd.testing.assert_frame_equal(first, ask(random_seed=3, posthoc_sparsity_param=0.5))
    assert not first.equals(ask(random_seed=4))


@pytest.mark.slow
def test_a_batch_is_one_roll_out() -> None:
    exp = trained("forest")
    calls = []
    for count in (5, 200):
        before = exp.explainer.blackbox_.calls
        exp.generate_counterfactuals(ROWS[:count], 1)
        calls.append(exp.explainer.blackbox_.calls - before)
    assert calls[1] < 2 * calls[0]


@pytest.mark.slow
def test_total_CFs_are_always_delivered_as_the_feature_importance_notebook_needs_them() -> None:
    """Cells 5 to 7 of DiCE_feature_importances.ipynb, with `method="relax"`."""
    model, outcome = pipeline("forest")
    asked = dice_ml.Model(model=model, backend="sklearn")
    exp = Dice(data(outcome), asked, method="relax", options={"config": QUICK, "progress": False})
    for row in range(6):
        query_instances = ROWS[row : row + 1]
        e1 = exp.generate_counterfactuals(query_instances, total_CFs=10)
        made = e1.cf_examples_list[0].final_cfs_df
        assert len(made) == 10
        assert not made.duplicated().any()
        assert (model.predict(made[FEATURES]) != model.predict(query_instances[FEATURES])).all()
        assert (made["y"] == model.predict(made[FEATURES])).all()
        imp = exp.local_feature_importance(query_instances, cf_examples_list=e1.cf_examples_list)
        assert set(imp.local_importance[0]) == set(FEATURES)


def test_queries_without_a_counterfactual_are_none_and_if_all_are_dice_says_so() -> None:
    exp = face()
    explanations = exp.generate_counterfactuals(ROWS[:40], 1, desired_class=1, features_to_vary=["rooms"])
    none = [example for example in explanations.cf_examples_list if example.final_cfs_df is None]
    assert 0 < len(none) < 40
    assert none[0].final_cfs_df_sparse is None
    assert CounterfactualExplanations.from_json(explanations.to_json()) == explanations
    for queries in (ROWS[:0], ROWS[ROWS.debt > 30][:1]):
        with pytest.raises(UserConfigValidationException, match="No counterfactuals found for any of the query points"):
            exp.generate_counterfactuals(queries, 1, features_to_vary=["rooms"])


@pytest.mark.slow
def test_displays_json_importances_and_pickles_are_dices(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    exp = trained("binary")
    explanations = exp.global_feature_importance(ROWS[:10], total_CFs=10, desired_class=1)
    assert set(explanations.summary_importance) == set(FEATURES)
    assert max(explanations.summary_importance.values()) > 0
    assert len(exp.local_feature_importance(ROWS[:2], total_CFs=10).local_importance) == 2
    recovered = CounterfactualExplanations.from_json(explanations.to_json())
    assert recovered == explanations
    expected = explanations.cf_examples_list[3].final_cfs_df
    pd.testing.assert_frame_equal(recovered.cf_examples_list[3].final_cfs_df, expected, check_dtype=False)
    explanations.visualize_as_dataframe(show_only_changes=True)
    assert "-" in capsys.readouterr().out
    exp.serialize_explainer(tmp_path / "explainer.pkl")
    loaded = ExplainerBase.deserialize_explainer(tmp_path / "explainer.pkl")
    again = loaded.generate_counterfactuals(ROWS[:10], 10, desired_class=1)
    unseen = pickle.loads(pickle.dumps(exp.generate_counterfactuals(ROWS[:10], 10, desired_class=1)))
    for made in (again, unseen):
        pd.testing.assert_frame_equal(made.cf_examples_list[3].final_cfs_df, expected)


def test_what_is_put_into_an_example_before_it_is_looked_at_stays() -> None:
    example = face().generate_counterfactuals(ROWS[:3], 1).cf_examples_list[0]
    example.final_cfs_df = ROWS[:2]
    assert example.desired_class in ("yes", "no")
    assert example.final_cfs_df is not None
    assert len(example.final_cfs_df) == 2
    assert not hasattr(example, "no_such_thing")


class Net(torch.nn.Module):
    """Behind DiCE's one-hot columns; with dropout, which must be off when it is asked."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(inputs, 8), torch.nn.Linear(8, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = 4 * self.second(torch.nn.functional.dropout(self.first(x), training=self.training))
        return torch.sigmoid(output) if output.shape[1] == 1 else output


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("private", [False, True])
def test_networks_and_private_data_are_explained(outputs: int, private: bool) -> None:
    rows = ROWS.astype({"rooms": str})
    interface = data((SCORE > 5).astype(int), rows)
    if private:
        ranges = {"age": [18, 79], "job": ["clerk", "cook", "nurse"], "income": [10.0, 90.0], "rooms": ["1", "2", "3"]}
        precision = {"income": ["float", 2], "debt": ["float", 3]}
        features = {**ranges, "debt": [0.0, 40.0]}
        interface = dice_ml.Data(features=features, outcome_name="y", type_and_precision=precision)
    exp = Dice(interface, dice_ml.Model(model=Net(9, outputs), backend="PYT", func="ohe-min-max"), method="greedy")
    explanations = exp.generate_counterfactuals(rows[:30], 2, desired_class="opposite" if outputs == 1 else 1)
    assert len(found(explanations)) == 30
    for example in explanations.cf_examples_list:
        cfs = example.final_cfs_df
        scores = exp.model.get_output(cfs[FEATURES])
        assert ((scores[:, 0] > 0.5 if outputs == 1 else scores.argmax(axis=1)) == cfs["y"]).all()
        assert (cfs["y"] == example.desired_class).all()
        assert (cfs["income"].round(2) == cfs["income"]).all() or not private


@pytest.mark.slow
def test_a_fitted_explainer_can_be_handed_over() -> None:
    model, outcome = pipeline("forest")
    mine = make_explainer("greedy", model).fit(ROWS)
    interface, asked = data(outcome), dice_ml.Model(model=model, backend="sklearn")
    exp = ReLAXDice(interface, asked, mine)
    check(exp, ROWS[:10], exp.generate_counterfactuals(ROWS[:10], 2, desired_class=1))
    assert exp.explainer is mine
    for wrong, options in ((make_explainer("greedy", model), None), (mine, {"max_changes": 2})):
        with pytest.raises(InputError, match="must be fitted to the columns"):
            ReLAXDice(interface, asked, wrong, options)


@pytest.mark.slow
def test_a_fitted_explainer_keeps_its_own_limits_and_its_model() -> None:
    model, outcome = pipeline("forest")
    space = FeatureSpace.infer(
        ROWS, categorical=["rooms"], immutable=["job"], increase_only=["age"], bounds={"income": (40, 60)}
    )
    mine = make_explainer("greedy", model, space).fit(ROWS)
    exp = ReLAXDice(data(outcome), dice_ml.Model(model=model, backend="sklearn"), mine)
    explanations = exp.generate_counterfactuals(ROWS[:30], 2, permitted_range={"debt": [0.0, 200.0]})
    for i, example in enumerate(explanations.cf_examples_list):
        rows, query = example.final_cfs_df, ROWS.iloc[i]
        if rows is not None:
            changed = rows["income"] != query["income"]
            assert rows["income"][changed].between(40, 60).all()
            assert (rows["job"] == query["job"]).all()
            assert (rows["age"] >= query["age"]).all()
            assert rows["debt"].max() <= ROWS.debt.max()
    for permitted in ({"job": ["nurse"]}, {"age": [18, 20]}):
        with pytest.raises(InputError, match="isn't allowed to vary"):
            exp.generate_counterfactuals(ROWS[ROWS.age > 40][:20], 1, permitted_range=permitted)
    other, _ = pipeline("binary")
    with pytest.raises(InputError, match="explains another model"):
        ReLAXDice(data(outcome), dice_ml.Model(model=other, backend="sklearn"), mine)


def test_one_name_to_vary_is_a_list_of_one() -> None:
    with pytest.raises(InputError, match=r"give 'all' or a list: \['debt'\]"):
        face().generate_counterfactuals(ROWS[:2], 1, features_to_vary="debt")


@pytest.mark.slow
def test_an_open_end_of_a_permitted_range_is_that_of_the_data() -> None:
    exp = face()
    for ends, low, high in (([None, 60.0], ROWS.income.min(), 60.0), ([40.0, np.inf], 40.0, ROWS.income.max())):
        rows = pd.concat(found(exp.generate_counterfactuals(ROWS[:20], 2, permitted_range={"income": ends})))
        assert rows["income"].between(low, high).all()
    with pytest.raises(InputError, match="'job' is empty"):
        exp.generate_counterfactuals(ROWS[:2], 1, permitted_range={"job": []})


def test_training_without_rows_is_refused_where_categories_may_be_numbers() -> None:
    with pytest.raises(InputError, match="'rooms' has the categories"):
        face().fit()
    assert face().fit(ROWS[:1]).fitted


def test_whole_numbers_that_are_no_positions_are_labels() -> None:
    outcome = np.where(SCORE > 5.0, 7, 2)
    model = LogisticRegression().fit(ROWS[NUMBERS], outcome)
    exp = Dice(data(outcome, ROWS[NUMBERS]), dice_ml.Model(model=model, backend="sklearn"), method="greedy")
    for given, label in ((0, 2), (1, 7), (7, 7), (np.int64(2), 2)):
        rows = pd.concat(found(exp.generate_counterfactuals(ROWS[NUMBERS][:10], 1, desired_class=given)))
        assert (model.predict(rows[NUMBERS]) == label).all()


def test_rows_that_dice_refuses_are_refused_wherever_they_stand() -> None:
    exp = face()
    for column, value, message in (("job", "king", "outside the dataset"), ("debt", np.nan, "missing values")):
        queries = ROWS[:5].copy()
        queries.loc[3, column] = value
        with pytest.raises((ValueError, UserConfigValidationException), match=message):
            exp.generate_counterfactuals(queries, 1)
    with pytest.raises(ColumnError, match="'debt' is missing"):
        exp.generate_counterfactuals(ROWS[:2].drop(columns="debt"), 1)
    constant = dice_ml.Model(model=DummyClassifier().fit(ROWS, [1] * len(ROWS)), backend="sklearn")
    with pytest.raises(UserConfigValidationException, match="No counterfactuals found"):
        ReLAXDice(exp.data_interface, constant, "greedy").generate_counterfactuals(ROWS[:2], 1)


@pytest.mark.slow
def test_data_interfaces_rule_precision_and_ranges() -> None:
    model, outcome = pipeline("binary")
    interface = data(outcome, continuous_features_precision={"debt": 1}, permitted_range={"income": [45, 55]})
    exp = ReLAXDice(interface, dice_ml.Model(model=model, backend="sklearn"), "greedy")
    made = found(exp.generate_counterfactuals(ROWS[:40], 2))
    cells = pd.concat(made)[["income", "debt"]].to_numpy()
    start = np.repeat(ROWS[["income", "debt"]][:40].to_numpy(), [len(rows) for rows in made], axis=0)
    income, debt = (cells[:, j][cells[:, j] != start[:, j]] for j in (0, 1))
    assert min(len(income), len(debt)) > 5
    assert ((income >= 45) & (income <= 55)).all()
    assert (debt.round(1) == debt).all()


def test_without_dice_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dice_ml", None)
    monkeypatch.delitem(sys.modules, "relax_plugin.adapters.dice")
    with pytest.raises(MissingExtraError, match=r"relax-plugin\[dice\]"):
        importlib.import_module("relax_plugin.adapters.dice")


@pytest.mark.slow
@pytest.mark.parametrize("as_dict", [False, True])
def test_the_outcome_in_a_query_is_dropped_with_a_warning(as_dict: bool) -> None:
    exp, queries = face(), ROWS[:3].assign(y="no")
    plain = exp.generate_counterfactuals(ROWS[:3], 1)
    if as_dict:
        queries = queries.to_dict("records")
    with pytest.warns(
        UserWarning, match="the queries have 'y', which is the outcome and no feature: it is dropped"
    ) as told:
        explanations = exp.generate_counterfactuals(queries, 1)
    assert told[0].filename == __file__
    pd.testing.assert_frame_equal(pd.concat(found(explanations)), pd.concat(found(plain)), check_dtype=not as_dict)
    assert [example.test_pred for example in explanations.cf_examples_list] == list(exp.model.model.predict(ROWS[:3]))


@pytest.mark.slow
def test_the_heavier_of_proximity_and_sparsity_is_what_is_aimed_at() -> None:
    exp, queries = face("forest", options={"max_changes": 4}), ROWS[:15]

    def made(**weights: float) -> tuple[float, float]:
        """Mean distance and mean number of changes."""
        frames = found(exp.generate_counterfactuals(queries, 1, **weights))
        assert len(frames) == len(queries)
        rows, start = pd.concat(frames)[FEATURES].reset_index(drop=True), queries[FEATURES]
        moved = sum((rows[name] - start[name]).abs() / ROWS[name].std(ddof=0) for name in NUMBERS)
        distance = moved + sum((rows[name] != start[name]).astype(float) for name in CATEGORIES)
        return float(distance.mean()), float((rows.to_numpy() != start.to_numpy()).sum(axis=1).mean())

    plain, close = made(), made(proximity_weight=1.5)
    assert close[0] < 0.95 * plain[0]
    assert close[1] > plain[1]
    assert made(proximity_weight=0.5, sparsity_weight=0.1) == made(sparsity_weight=0.0) == close
    assert made(sparsity_weight=1.0) == made(proximity_weight=0.0) == made(proximity_weight=0.2) == plain
    dear = {"age": 3.0}
    assert made(feature_weights=dear, proximity_weight=0.2) == made(feature_weights=dear)  # even: the costs decide
    for wrong in (-1.0, float("nan"), "high", True):
        with pytest.raises(InputError, match=r"proximity_weight is .* but must be a finite number, 0 or more"):
            made(proximity_weight=wrong)


def test_an_explainer_without_costs_says_that_closeness_is_set_aside() -> None:
    exp, queries = face(explainer="nearest-ct"), ROWS[:3]
    plain = pd.concat(found(exp.generate_counterfactuals(queries, 1)))
    with pytest.warns(UserWarning, match=r"proximity_weight is set aside: .* NearestCT knows only") as told:
        weighed = exp.generate_counterfactuals(queries, 1, proximity_weight=2.0)
    assert told[0].filename == __file__
    pd.testing.assert_frame_equal(pd.concat(found(weighed)), plain)


@pytest.mark.slow
def test_feature_weights_are_what_changes_cost_in_this_call() -> None:
    exp, queries = face(), ROWS[:20]
    free = found(exp.generate_counterfactuals(queries, 1))
    same = found(exp.generate_counterfactuals(queries, 1, feature_weights="inverse_mad"))
    dear = {"age": 50.0, "income": 50.0, "debt": 50.0}
    weighted = found(exp.generate_counterfactuals(queries, 1, feature_weights=dear, proximity_weight=1.0))
    pd.testing.assert_frame_equal(pd.concat(free), pd.concat(same))

    def cost(frames: list[pd.DataFrame]) -> float:
        rows, start = pd.concat(frames), queries[FEATURES].reset_index(drop=True)
        rows = rows[FEATURES].reset_index(drop=True)
        moved = sum(weight * (rows[name] - start[name]).abs() / ROWS[name].std(ddof=0) for name, weight in dear.items())
        return float((moved + (rows["job"] != start["job"]) + (rows["rooms"] != start["rooms"])).mean())

    assert len(free) == len(weighted) == len(queries)
    assert cost(weighted) < 0.9 * cost(free)
    pd.testing.assert_frame_equal(pd.concat(found(exp.generate_counterfactuals(queries, 1))), pd.concat(free))
    with pytest.raises(InputError, match=r"feature_weights is 'mad'; give 'inverse_mad', or name to weight"):
        exp.generate_counterfactuals(queries, 1, feature_weights="mad")
    with pytest.raises(ConstraintError, match="the cost of feature 'age' is 0"):
        exp.generate_counterfactuals(queries, 1, feature_weights={"age": 0})
    with pytest.raises(UnknownNameError, match=r"costs names feature 'agee'; did you mean 'age'"):
        exp.generate_counterfactuals(queries, 1, feature_weights={"agee": 2})


VEHICLES = pd.DataFrame(
    {
        "vehicle_age": RNG.choice([0, 2, 7], 300),
        "premium": RNG.normal(50.0, 10.0, 300).round(1),
        "owner": RNG.choice(["a", "b"], 300),
    }
)
OLD = (VEHICLES["vehicle_age"] / 2 + VEHICLES["premium"] / 30 + (VEHICLES["owner"] == "a") > 3.3).astype(int)


def private(ages, explainer: str = "greedy"):  # type: ignore[no-untyped-def]
    """A face that knows nothing but these ages, a range of premiums and the owners."""
    columns = make_column_transformer((OneHotEncoder(), ["owner"]), (StandardScaler(), ["vehicle_age", "premium"]))
    model = make_pipeline(columns, LogisticRegression()).fit(VEHICLES, OLD)
    features = {"vehicle_age": ages, "premium": [20.0, 90.0], "owner": ["a", "b"]}
    precision = {"premium": ["float", 1]}
    interface = dice_ml.Data(features=features, outcome_name="y", type_and_precision=precision)
    return Dice(interface, dice_ml.Model(model=model, backend="sklearn"), method=explainer)


AS_NUMPY = [np.int64(0), np.int64(2), np.int64(7)]  # no int for Python, so that DiCE takes them for categories


@pytest.mark.slow
@pytest.mark.parametrize(
    "ages", [[0, 1, 2], [2, 0, 1], [0, 2, 7], [0.5, 1.0, 1.5, 2.0], (0, 2, 4, 6, 8), [3], AS_NUMPY, [0.5, 2, 7]]
)
def test_private_data_may_list_numbers_and_answers_are_among_them(ages) -> None:  # type: ignore[no-untyped-def]
    exp, queries = private(ages), VEHICLES[:30]
    queries = queries.assign(vehicle_age=np.resize(ages, 30))
    explanations = exp.generate_counterfactuals(queries, 2, features_to_vary=["vehicle_age", "premium"])
    rows = pd.concat(found(explanations))
    assert set(rows["vehicle_age"]) <= set(ages)
    assert rows["vehicle_age"].nunique() >= min(len(ages), 3)
    assert (exp.model.model.predict(rows[list(VEHICLES)]) == rows["y"]).all()
    assert len(found(explanations)) == 30
    if isinstance(ages[0], int):
        floats = exp.generate_counterfactuals(queries[:5].astype({"vehicle_age": float}), 1)
        assert set(pd.concat(found(floats))["vehicle_age"]) <= set(ages)


@pytest.mark.slow
def test_a_range_of_a_call_narrows_the_numbers_that_private_data_list() -> None:
    for ages, low, high, left in (([0, 2, 7], 1, 7, {2, 7}), ([0, 2, 7], None, 5, {0, 2}), ([0, 1, 2], 1, 2, {1, 2})):
        exp = private(ages)
        queries = VEHICLES[:30].assign(vehicle_age=np.resize(ages, 30))
        asked = {"permitted_range": {"vehicle_age": [low, high]}, "features_to_vary": ["vehicle_age", "premium"]}
        assert set(pd.concat(found(exp.generate_counterfactuals(queries, 2, **asked)))["vehicle_age"]) <= left
