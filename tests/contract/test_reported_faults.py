"""Faults that a review found, each kept out by a test."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.svm import SVC

from relax_plugin import BlackBox, Counterfactuals, FeatureSpace, Goal, ReLAX, ReLAXConfig, make_explainer
from relax_plugin.blackbox import Answer
from relax_plugin.errors import ConstraintError, GoalError, InputError, SavedFileError
from relax_plugin.search.moves import Moves
from relax_plugin.surrogate.learning import moved

QUICK = ReLAXConfig(steps=12, episodes=64, updates_per_step=2, start_pool=256)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.integers(0, 40, 200), "b": rng.integers(0, 40, 200)})


def probability(X):
    p = 1 / (1 + np.exp(-(np.asarray(X["a"], dtype=float) + np.asarray(X["b"], dtype=float) - 40.3)))
    return np.column_stack([1 - p, p])


def test_two_explainers_of_one_blackbox_do_not_disturb_each_other(rows):
    def model(X):
        high = X["c"].astype(str).to_numpy() == "high"
        return np.column_stack([~high, high]).astype(float)

    blackbox = BlackBox(model)
    one, other = (
        pd.DataFrame({"c": pd.Categorical(["low", "high"] * 20, categories=order), "d": np.arange(40.0)})
        for order in (["low", "high"], ["high", "mid", "low"])
    )
    first = make_explainer("greedy", blackbox).fit(one)
    before = first.explain(one)
    make_explainer("greedy", blackbox).fit(other)
    np.testing.assert_array_equal(first.explain(one).found, before.found)
    assert before.found.all()
    assert blackbox.rows_asked > 0


def test_json_keeps_queries_whose_dtype_differs_from_training(rows):
    explainer = make_explainer("greedy", probability).fit(rows)
    result = explainer.explain(rows[:10] + 0.5)
    again = Counterfactuals.from_json(result.to_json())
    np.testing.assert_array_equal(again.sparsity, result.sparsity)
    pd.testing.assert_frame_equal(again.changes(), result.changes())


def test_queries_with_fractions_are_asked_as_they_are_delivered(rows):
    explainer = make_explainer("greedy", probability).fit(rows)
    assert explainer.explain(rows[:40] + 0.5).found.all()


def test_several_labels_unseen_in_training_are_no_crash():
    X = pd.DataFrame({"a": np.linspace(0.0, 0.99, 50)})
    space = FeatureSpace.infer(X, bounds={"a": (0.0, 6.0)})
    explainer = ReLAX(lambda R: np.floor(R["a"]), space, config=QUICK, progress=False).fit(X)
    result = explainer.explain(X[:5])
    assert result.found.all()
    assert (result.after != 0).all()


def test_numeric_arrays_with_a_categorical_column_reach_the_model_as_numbers():
    A = np.column_stack([np.linspace(0, 3, 60), np.arange(60) % 3.0])
    space = FeatureSpace.infer(A, categorical=["x1"])
    explainer = make_explainer("greedy", lambda R: np.column_stack([np.exp(-R[:, 0]), 1 - np.exp(-R[:, 0])]), space)
    assert explainer.fit(A).explain(A[:5]).found.all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_rare_label_of_a_labels_only_model_is_a_target(seed):
    X = pd.DataFrame({"a": np.arange(3000.0)})
    model = lambda R: np.where(R["a"] >= 2999, "rare", np.where(R["a"] > 1500, "high", "low"))  # noqa: E731
    explainer = ReLAX(model, config=QUICK, seed=seed, progress=False).fit(X)
    explainer.explain(X[:3], goal=Goal.to("rare"))
    with pytest.raises(GoalError, match="has shown no class 'absent'"):
        explainer.explain(X[:3], goal=Goal.to("absent"))


def test_a_query_column_with_fewer_categories_is_delivered_with_all():
    X = pd.DataFrame({"c": pd.Categorical(["u", "v", "w"] * 20), "d": np.arange(60.0)})
    explainer = make_explainer(
        "greedy", lambda R: np.column_stack([(R["c"] == "u"), (R["c"] != "u")]).astype(float)
    ).fit(X)
    queries = X[:3].assign(c=X["c"][:3].cat.remove_unused_categories())
    assert explainer.explain(queries[:1].assign(c=pd.Categorical(["u"]))).frame["c"].dtype == X["c"].dtype


def test_a_clone_keeps_its_fitted_model(rows):
    model = LogisticRegression().fit(rows, rows["a"] > 20)
    copy = clone(make_explainer("greedy", model))
    assert copy.fit(rows).explain(rows[:3]).found.all()


@pytest.mark.slow
def test_parameters_set_after_fit_are_checked_and_used(rows):
    explainer = ReLAX(probability, config=QUICK, progress=False).fit(rows)
    for wrong in ({"effort": "serch"}, {"variant": "lokal"}, {"max_queries": -3}, {"max_changes": 0}):
        right = {name: getattr(explainer, name) for name in wrong}
        with pytest.raises(InputError, match=next(iter(wrong))):
            explainer.set_params(**wrong).explain(rows[:2])
        explainer.set_params(**right)
    result = explainer.set_params(goal=Goal.to(1)).explain(rows[:10])
    assert (result.after[result.found] == 1).all()


def test_one_permitted_category_is_enough_to_move_to(rows):
    X = rows.assign(c=["u", "v"] * 100)
    space = FeatureSpace.infer(X, immutable=["a", "b"], bounds={"c": ["u"]})
    model = lambda R: np.column_stack([(R["c"] == "u"), (R["c"] != "u")]).astype(float)  # noqa: E731
    result = make_explainer("greedy", model, space).fit(X).explain(X[:2])
    assert result.found[:, 0].tolist() == [False, True]
    assert result.statuses[0, 0] == "no feature of it may change"
    with pytest.raises(ConstraintError, match="no feature may change"):
        make_explainer("greedy", model, FeatureSpace.infer(X, immutable=["a", "b", "c"])).fit(X)


@pytest.mark.slow
def test_wrong_requests_get_a_sentence(rows, tmp_path):
    explainer = ReLAX(probability, config=QUICK, progress=False).fit(rows)
    with pytest.raises(InputError, match="n is None"):
        explainer.explain(rows[:1], n=None)
    assert explainer.explain(rows[:1], n=2.0).found.shape == (1, 2)
    with pytest.raises(SavedFileError, match="no folder"):
        explainer.save(tmp_path / "nowhere" / "agent")
    explainer.save(tmp_path / "agent")
    with pytest.raises(InputError, match="the model is a int"):
        ReLAX.load(tmp_path / "agent", model=123)
    with pytest.raises(InputError, match="config is a dict"):
        ReLAX(probability, config={"steps": 3}).fit(rows)
    with pytest.raises(InputError, match="space is a dict"):
        ReLAX(probability, {"a": 1}).fit(rows)
    with pytest.raises(InputError, match="no query 9"):
        explainer.explain(rows[:1]).plot(9)
    with pytest.raises(InputError, match="too large"):
        FeatureSpace.infer(rows * 1e200)


def test_scores_that_are_not_one_a_class_are_left_aside():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = (X["a"] > 0).astype(int) + 2 * (X["b"] > 0).astype(int)
    model = SVC(decision_function_shape="ovo").fit(X, y)
    result = ReLAX(model, config=QUICK, progress=False).fit(X).explain(X[:10])
    assert result.scores_before is None
    assert (model.predict(result.frame[list("abc")]) != result.before[result.frame["query_id"]].astype(int)).all()


def test_what_is_known_keeps_its_labels_when_further_classes_are_seen():
    def rare_first(rows):
        return np.where(rows[:, 0] > 2.0, "a", np.where(rows[:, 1] > 0.0, "b", "c"))

    rows = np.random.default_rng(3).standard_normal((400, 3))
    config = ReLAXConfig(steps=2, episodes=16, start_pool=64)
    explainer = ReLAX(rare_first, config=config, seed=10, progress=False).fit(rows)
    values, answer = explainer.known_
    assert "a" not in rare_first(values)[:50] and "a" in explainer.blackbox_.classes
    assert explainer.blackbox_.labels(answer.output).tolist() == rare_first(values).tolist()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "40", None])
def test_a_budget_that_is_no_number_is_refused_by_a_sentence(number):
    with pytest.raises(InputError, match="must be a whole number of at least 200"):
        make_explainer("surrogate-search", lambda rows: rows[:, 0] > 0, query_budget=number).fit(np.eye(4))


def test_a_whole_number_may_be_written_as_a_float():
    rows = np.random.default_rng(0).standard_normal((60, 3))
    explainer = make_explainer("surrogate-search", lambda r: np.column_stack([r[:, 0] > 0, r[:, 0] <= 0]) * 1.0,
                               query_budget=300.0).fit(rows)  # fmt: skip
    assert explainer.fit_rows_ <= 300


def test_a_narrow_range_is_met_although_the_whole_way_leads_beyond_it():
    rows = np.random.default_rng(0).uniform(-3.0, 3.0, (300, 4))
    model = BlackBox(lambda r: r @ np.array([3.0, 2.0, 1.0, 0.5]), task="regression")
    explainer = make_explainer("surrogate-search", model, goal=Goal.between(0.0, 0.6)).fit(rows)
    result = explainer.explain(rows[:60])
    assert result.found.mean() > 0.95
    assert result.sparsity[result.found].mean() < 1.5


@pytest.mark.slow
def test_an_answer_between_the_query_and_the_bound_is_found():
    """Both bounds of x lie outside of the band, and so does its median."""
    rows = np.random.default_rng(0).uniform(-3.0, 3.0, (600, 3))

    def in_the_band(r):
        inside = 1 / (1 + np.exp(-8 * (1.0 - np.abs(r[:, 0] - 1.6))))
        return np.column_stack([1 - inside, inside])

    config = ReLAXConfig(training="surrogate")
    explainer = ReLAX(in_the_band, config=config, progress=False).fit(rows)
    outside = rows[in_the_band(rows)[:, 1] < 0.5][:60]
    assert explainer.explain(outside).found.mean() > 0.9


@pytest.mark.slow
def test_where_scores_do_not_tell_the_threshold_a_search_finds_all():
    rows = np.random.default_rng(0).standard_normal((400, 3))
    noise = np.random.default_rng(1).standard_normal(400)
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.05).fit(rows, rows[:, 0] + noise > 0)
    found = ReLAX(model, config=QUICK, progress=False).fit(rows).explain(rows[:40])
    assert found.found.all()
    assert (found.after[:, 0] != found.before).all()


def test_only_features_that_may_change_are_moved_for_the_surrogate():
    rows = np.random.default_rng(0).standard_normal((500, 20))
    space = FeatureSpace.infer(rows, immutable=[f"x{j}" for j in range(3, 20)])
    after = moved(rows, space, Moves.quantiles(rows, space, 5), np.random.default_rng(1))
    count = (after != rows).sum(axis=1)
    assert 0.7 < (count > 0).mean() < 0.9 and (after[:, 3:] == rows[:, 3:]).all()


def test_one_cannot_go_too_far_in_an_open_range():
    blackbox = BlackBox(lambda r: r[:, 0], task="regression")
    before = Answer(np.array([1.0, 2.0]))
    assert Goal.between(3.0, 4.0).bind(blackbox, before).two_sided.tolist() == [True, True]
    assert Goal.between(3.0, np.inf).bind(blackbox, before).two_sided.tolist() == [False, False]
    assert Goal.between([3.0, 3.0], [4.0, np.inf]).bind(blackbox, before).two_sided.tolist() == [True, False]
    assert not Goal.shift(1.0).bind(blackbox, before).two_sided.any()


def test_the_largest_training_value_is_allowed_however_fine_its_grid() -> None:
    for top in (1e6, 1e7, 1e8):
        for seed in range(40):
            cents = pd.DataFrame({"income": (np.random.default_rng(seed).random(50) * top).round(2)})
            space = FeatureSpace.infer(cents)
            ends = np.array([[cents["income"].min()], [cents["income"].max()]])
            start = np.full((2, 1), cents["income"].iloc[0])
            assert (space.limits().project(ends, start) == ends).all()
            assert space.limits().kept(ends, start).all()
