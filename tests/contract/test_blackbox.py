"""Facts about BlackBox: every family of models is read right, the books are kept, ties are decided by `predict`."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import GoalError, InputError, ModelError, UnsupportedError
from relax_plugin.readers import Fingerprint

RNG = np.random.default_rng(7)
NUMBERS = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["a", "b", "c"])
POSITIVE = (NUMBERS["a"] + NUMBERS["b"] > 0).to_numpy()
WORDS = np.where(POSITIVE, "yes", "no")
AMOUNT = (3 * NUMBERS["a"] - NUMBERS["c"]).to_numpy()
MIXED = NUMBERS.assign(town=RNG.choice(["Rome", "Bonn"], 120), owns=RNG.random(120) > 0.5)
MIXED_POSITIVE = (MIXED["a"] + (MIXED["town"] == "Rome") - MIXED["owns"] > 0).to_numpy()


def learned(model: Any, rows: Any = NUMBERS, task: Any = "auto") -> tuple[BlackBox, Any]:
    space = FeatureSpace.infer(rows)
    box = BlackBox(model, space, task)
    return box, box.learn(space.values(rows))


def probability(rows: Any) -> Any:
    rows = np.asarray(rows, dtype=float)
    positive = 1 / (1 + np.exp(-(rows[:, 0] + rows[:, 1])))
    return np.column_stack([1 - positive, positive])


def mixed_pipeline() -> Pipeline:
    columns = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(handle_unknown="error"), ["town", "owns"])
    )
    return make_pipeline(columns, LogisticRegression()).fit(MIXED, MIXED_POSITIVE)


# Families of models.


def test_a_classifier_is_read_by_its_labels_and_probabilities() -> None:
    model = RandomForestClassifier(10, random_state=0).fit(NUMBERS, WORDS)
    box, answer = learned(model)
    assert box.task == "classification"
    assert box.has_probabilities
    assert box.labels(answer.output).tolist() == model.predict(NUMBERS).tolist()
    assert answer.scores == pytest.approx(model.predict_proba(NUMBERS))


def test_a_regressor_is_read_by_its_numbers() -> None:
    model = RandomForestRegressor(10, random_state=0).fit(NUMBERS, AMOUNT)
    box, answer = learned(model)
    assert box.task == "regression"
    assert box.has_scores
    assert not box.has_probabilities
    assert answer.output == pytest.approx(model.predict(NUMBERS))


def test_a_regressor_answering_one_column_is_read_as_numbers() -> None:
    model = LinearRegression().fit(NUMBERS, AMOUNT[:, None])
    assert learned(model)[1].output == pytest.approx(AMOUNT)


def test_a_pipeline_is_asked_with_the_raw_mixed_columns() -> None:
    model = mixed_pipeline()
    box, answer = learned(model, MIXED)
    assert box.labels(answer.output).tolist() == model.predict(MIXED).tolist()
    result = make_explainer("greedy", model).fit(MIXED).explain(MIXED[:6])
    assert result.found.all()
    assert (model.predict(result.frame[list(MIXED)]) != model.predict(MIXED[:6])).all()


@pytest.mark.parametrize("model", [LinearSVC(), SVC()], ids=["LinearSVC", "SVC"])
def test_decision_values_serve_as_scores(model: Any) -> None:
    model.fit(NUMBERS, WORDS)
    box, answer = learned(model)
    assert box.has_scores
    assert not box.has_probabilities
    assert np.diff(answer.scores, axis=1)[:, 0] == pytest.approx(model.decision_function(NUMBERS))
    assert box.labels(answer.output).tolist() == model.predict(NUMBERS).tolist()
    with pytest.raises(GoalError, match="min_probability"):
        Goal.flip(min_probability=0.8).check(box)
    result = make_explainer("greedy", model).fit(NUMBERS).explain(NUMBERS[:5])
    assert result.found.all()
    assert (model.predict(result.frame[list(NUMBERS)]) != model.predict(NUMBERS[:5])).all()


class OnlyPredict:
    """An estimator that is no scikit-learn class and gives labels alone."""

    def predict(self, rows: Any) -> Any:
        return np.where(np.asarray(rows)[:, 0] > 0, "yes", "no")


def test_an_estimator_with_predict_alone_needs_a_task() -> None:
    with pytest.raises(ModelError, match="task='classification'"):
        BlackBox(OnlyPredict())
    box, answer = learned(OnlyPredict(), task="classification")
    assert not box.has_scores
    assert answer.scores is None
    assert box.labels(answer.output).tolist() == np.where(NUMBERS["a"] > 0, "yes", "no").tolist()


def test_an_estimator_fitted_on_arrays_is_asked_with_arrays_without_a_warning(recwarn: Any) -> None:
    model = LogisticRegression().fit(NUMBERS.to_numpy(), WORDS)
    learned(model)
    assert not recwarn.list


def test_an_outlier_detector_answers_inlier_or_outlier() -> None:
    model = IsolationForest(n_estimators=10, random_state=0).fit(NUMBERS)
    box, answer = learned(model)
    assert box.labels(answer.output).tolist() == model.predict(NUMBERS).tolist()
    assert set(model.predict(NUMBERS)) == {-1, 1}


class Linear(torch.nn.Module):
    """Weights (1, 1, 0) on the logit, dropout in front of it."""

    def __init__(self, finish: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)
        self.weights = torch.nn.Parameter(torch.tensor([1.0, 1.0, 0.0]))
        self.finish = finish

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.finish(self.dropout(rows) @ self.weights)


@pytest.mark.parametrize(
    "finish",
    [
        lambda logit: torch.stack([-logit / 2, logit / 2], dim=1),
        lambda logit: logit[:, None],
        lambda logit: logit,
        lambda logit: torch.sigmoid(logit)[:, None],
        lambda logit: torch.softmax(torch.stack([-logit / 2, logit / 2], dim=1), dim=1),
    ],
    ids=["two logits", "one logit", "flat logit", "sigmoid", "softmax"],
)
def test_a_torch_module_is_read_whatever_it_puts_out(finish: Any) -> None:
    box, answer = learned(Linear(finish))
    assert answer.scores == pytest.approx(probability(NUMBERS), abs=1e-5)
    assert (answer.output == POSITIVE).all()
    assert box.has_probabilities


def test_a_torch_regressor_is_read_as_numbers() -> None:
    box, answer = learned(Linear(lambda logit: logit[:, None]), task="regression")
    assert box.task == "regression"
    assert answer.output == pytest.approx((NUMBERS["a"] + NUMBERS["b"]).to_numpy(), abs=1e-5)


def test_the_training_mode_of_every_part_of_a_module_is_restored() -> None:
    model = Linear(lambda logit: logit)
    model.train()
    model.dropout.eval()
    learned(model)
    assert model.training
    assert not model.dropout.training
    model.eval()
    learned(model)
    assert not model.training


def test_large_torch_logits_give_no_warning(recwarn: Any) -> None:
    _, answer = learned(Linear(lambda logit: 1e4 * logit))
    assert (answer.output == POSITIVE).all()
    assert not recwarn.list


def test_xgboost_estimators_are_read() -> None:
    classifier = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(NUMBERS, POSITIVE.astype(int))
    box, answer = learned(classifier)
    assert box.labels(answer.output).tolist() == classifier.predict(NUMBERS).tolist()
    regressor = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(NUMBERS, AMOUNT)
    box, answer = learned(regressor)
    assert box.task == "regression"
    assert answer.output == pytest.approx(regressor.predict(NUMBERS))


@pytest.mark.parametrize("rows", [NUMBERS, NUMBERS.to_numpy()], ids=["frame", "array"])
@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "reg:squarederror"])
def test_a_bare_booster_is_read_by_its_objective(objective: str, rows: Any) -> None:
    target = AMOUNT if objective.startswith("reg") else (NUMBERS["a"] > 0).astype(int) + (NUMBERS["b"] > 0).astype(int)
    settings = {"objective": objective, "nthread": 1}
    if objective == "binary:logistic":
        target = POSITIVE
    if objective == "multi:softprob":
        settings["num_class"] = 3
    booster = xgboost.train(settings, xgboost.DMatrix(rows, target), 5)
    box, answer = learned(booster, rows)
    own = booster.predict(xgboost.DMatrix(rows))
    assert box.task == ("regression" if objective.startswith("reg") else "classification")
    if objective == "binary:logistic":
        assert answer.scores[:, 1] == pytest.approx(own)
        assert (answer.output == (own > 0.5)).all()
    elif objective == "multi:softprob":
        assert answer.scores == pytest.approx(own)
        assert (answer.output == own.argmax(axis=1)).all()
    else:
        assert answer.output == pytest.approx(own)


def test_a_booster_of_another_objective_is_refused() -> None:
    booster = xgboost.train(
        {"objective": "multi:softmax", "num_class": 2}, xgboost.DMatrix(NUMBERS, POSITIVE.astype(int)), 1
    )
    with pytest.raises(InputError, match="multi:softprob"):
        BlackBox(booster)


def test_a_callable_of_two_dimensions_gives_probabilities() -> None:
    box, answer = learned(probability)
    assert box.task == "classification"
    assert box.has_probabilities
    assert answer.scores == pytest.approx(probability(NUMBERS))
    assert box.classes is not None and box.classes.tolist() == [0, 1]


def test_scores_of_a_callable_that_do_not_sum_to_one_are_decisions() -> None:
    box, _ = learned(lambda rows: 10 * probability(rows) - 3)
    assert box.has_scores
    assert not box.has_probabilities


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [False, True], [10, -3]])
def test_a_callable_of_one_dimension_gives_labels(labels: list[Any]) -> None:
    box, answer = learned(lambda rows: np.array(labels)[probability(rows).argmax(axis=1)])
    assert not box.has_scores
    assert box.labels(answer.output).tolist() == [labels[i] for i in POSITIVE.astype(int)]


def test_a_callable_needs_a_task_to_be_a_regressor() -> None:
    box, answer = learned(lambda rows: rows["a"] * 2, task="regression")
    assert box.task == "regression"
    assert answer.output == pytest.approx(2 * NUMBERS["a"])
    with pytest.raises(ModelError, match="task='regression'"):
        learned(lambda rows: rows["a"] * 2)


def test_an_unknown_task_and_what_is_no_model_are_refused() -> None:
    with pytest.raises(InputError, match="'auto', 'classification' and 'regression'"):
        BlackBox(probability, task="clustering")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a str"):
        BlackBox("model.pkl")


# The books.


def test_rows_and_calls_are_counted() -> None:
    seen: list[int] = []

    def counted(rows: Any) -> Any:
        seen.append(len(rows))
        return probability(rows)

    box, _ = learned(counted)
    box.ask(NUMBERS.to_numpy()[:7])
    box.confirm(NUMBERS[:5])
    assert (box.rows_asked, box.calls) == (sum(seen), len(seen)) == (140, 4)
    assert box.seconds > 0


def test_rows_queried_add_up_to_what_the_model_was_asked() -> None:
    for model in (probability, LogisticRegression().fit(NUMBERS, POSITIVE), LinearSVC().fit(NUMBERS, POSITIVE)):
        explainer = make_explainer("greedy", model).fit(NUMBERS)
        before = explainer.blackbox_.rows_asked
        result = explainer.explain(NUMBERS[:9], n=2)
        assert result.rows_queried.sum() == explainer.blackbox_.rows_asked - before


def test_no_rows_are_not_asked() -> None:
    box, _ = learned(probability)
    calls = box.calls
    assert len(box.ask(np.empty((0, 3)))) == 0
    assert box.calls == calls


@pytest.mark.parametrize(("budget", "asked"), [(None, 256 + 128 + 8), (1000, 125 + 32 + 8), (200, 25 + 25 + 8)])
def test_at_most_a_sixth_of_a_budget_of_thousand_rows_is_spent_on_learning_the_model(budget: Any, asked: int) -> None:
    rows = pd.concat([NUMBERS] * 3)
    explainer: Any = make_explainer("greedy", LogisticRegression().fit(NUMBERS, POSITIVE))
    explainer._most_fit_rows = lambda: budget
    assert explainer.fit(rows).fit_rows_ == asked


# Arrays in place of frames.


class Witness:
    """A classifier that notes in which containers it was asked, by which method, and answers by `probability`."""

    classes_ = np.array([0, 1])

    def __init__(self, of_array: Callable[[Any], Any] = probability) -> None:
        self.of_array = of_array
        self.asked: list[tuple[str, str, int]] = []

    def predict_proba(self, rows: Any) -> Any:
        self.asked.append(("scores", type(rows).__name__, len(rows)))
        return probability(rows) if isinstance(rows, pd.DataFrame) else self.of_array(rows)

    def predict(self, rows: Any) -> Any:
        self.asked.append(("labels", type(rows).__name__, len(rows)))
        return probability(rows).argmax(axis=1)


LEARNED = [("scores", "DataFrame", 120), ("labels", "DataFrame", 60)]


def test_a_model_that_answers_arrays_alike_is_asked_with_them_and_confirms_with_frames(recwarn: Any) -> None:
    model = Witness()
    box, _ = learned(model)
    values = NUMBERS.to_numpy()[:5]
    assert model.asked == [*LEARNED, ("scores", "ndarray", 8)]
    assert box.rows_asked == 120 + 60 + 8
    answer = box.ask(values)
    with box.asking_strictly():
        box.ask(values)
    box.confirm(NUMBERS[:5])
    assert model.asked[3:5] == [("scores", "ndarray", 5), ("scores", "ndarray", 5)]
    assert {container for _, container, _ in model.asked[5:]} == {"DataFrame"}
    assert answer.scores is not None
    assert answer.scores.tolist() == probability(NUMBERS[:5]).tolist()
    assert not recwarn


def warns(rows: Any) -> Any:
    warnings.warn("X does not have valid feature names", stacklevel=2)
    return probability(rows)


@pytest.mark.parametrize(
    ("of_array", "asked_again"),
    [
        (warns, [("scores", "ndarray", 8)]),
        (lambda rows: probability(rows) * [1 + 1e-12, 1 - 1e-12], [("scores", "ndarray", 8)]),
        (lambda rows: probability(rows[:, ::-1]), [("scores", "ndarray", 8), ("scores", "DataFrame", 8)]),
        (lambda rows: rows["a"], [("scores", "ndarray", 8), ("scores", "DataFrame", 8)]),
    ],
    ids=["it warns", "another last digit", "other answers", "it raises"],
)
def test_a_model_that_answers_arrays_otherwise_is_asked_with_frames(
    of_array: Any, asked_again: Any, recwarn: Any
) -> None:
    model = Witness(of_array)
    box, _ = learned(model)
    assert model.asked == LEARNED + asked_again
    box.ask(NUMBERS.to_numpy()[:5])
    assert model.asked[-1] == ("scores", "DataFrame", 5)
    assert not recwarn


def test_equal_answers_to_all_rows_do_not_prove_that_arrays_are_read_alike() -> None:
    box, _ = learned(lambda rows: np.full((len(rows), 2), 0.5))
    assert not box.by_arrays


def test_text_and_labels_alone_are_asked_with_frames() -> None:
    assert not learned(mixed_pipeline(), MIXED)[0].by_arrays
    assert not learned(lambda rows: probability(rows).argmax(axis=1))[0].by_arrays


@pytest.mark.parametrize("make", [xgboost.XGBClassifier, xgboost.XGBRegressor])
def test_xgboost_is_asked_with_arrays(make: Any) -> None:
    counts = NUMBERS.assign(b=RNG.integers(0, 9, 120), c=NUMBERS["c"].astype(np.float32))
    model = make(n_estimators=10).fit(counts, POSITIVE.astype(int))
    box, answer = learned(model, counts)
    assert box.by_arrays
    assert box.ask(box.space.values(counts)).told.tolist() == answer.told.tolist()  # type: ignore[union-attr]


# What cannot be read.


def test_a_model_that_raises_is_named_with_its_error() -> None:
    def broken(rows: Any) -> Any:
        raise ZeroDivisionError("the model is broken")

    with pytest.raises(ModelError, match="refuses row 0: it raised ZeroDivisionError: the model is broken"):
        learned(broken)


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (lambda rows: probability(rows) * np.where(np.arange(len(rows)) == 4, np.nan, 1)[:, None], "auto"),
        (lambda rows: np.where(np.arange(len(rows)) == 4, np.nan, 1.0), "regression"),
        (lambda rows: np.where(np.arange(len(rows)) == 4, np.inf, 1.0), "regression"),
        (lambda rows: np.where(np.arange(len(rows)) == 4, np.nan, 1.0), "classification"),
        (lambda rows: np.where(np.arange(len(rows)) == 4, None, "yes"), "classification"),
    ],
    ids=["scores", "number", "infinite", "label", "None"],
)
def test_a_model_that_answers_nan_is_refused_with_the_row(model: Any, task: str) -> None:
    with pytest.raises(ModelError, match="the model refuses row 4: it answered"):
        learned(model, task=task)


@pytest.mark.parametrize(
    ("answer", "task"),
    [
        (lambda rows: probability(rows)[:-1], "auto"),
        (lambda rows: np.zeros((len(rows), 2, 2)), "auto"),
        (lambda rows: 1, "auto"),
        (lambda rows: probability(rows), "regression"),
        (lambda rows: np.array(["many"] * len(rows)), "regression"),
    ],
    ids=["too few", "cube", "scalar", "two numbers a row", "text for numbers"],
)
def test_an_answer_of_the_wrong_shape_is_refused(answer: Any, task: str) -> None:
    with pytest.raises(ModelError, match="the model answered"):
        learned(answer, task=task)


@pytest.mark.parametrize(
    "later",
    [
        lambda rows: np.zeros(len(rows)),
        lambda rows: np.column_stack([probability(rows), np.zeros(len(rows))]),
        lambda rows: probability(rows)[:-1],
        lambda rows: probability(rows) * np.nan,
    ],
    ids=["labels", "one class more", "too few", "nan"],
)
def test_a_model_that_changes_its_mind_after_fit_is_refused(later: Any) -> None:
    behaviour = [probability]
    explainer = make_explainer("greedy", lambda rows: behaviour[0](rows)).fit(NUMBERS)
    behaviour[0] = later
    with pytest.raises(ModelError, match=r"the model answered|it answered"):
        explainer.explain(NUMBERS[:4])


def test_labels_that_are_not_among_the_classes_are_refused() -> None:
    class Strange(OnlyPredict):
        def predict_proba(self, rows: Any) -> Any:
            return probability(rows)

    with pytest.raises(ModelError, match="not among its classes"):
        learned(Strange())


# Ties: `predict` decides, not the largest score.


class Cautious(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Says 1 only from a probability of 0.7 on: its `predict` disagrees with the larger of its scores below."""

    def __init__(self, threshold: float = 0.7) -> None:
        self.threshold = threshold

    def fit(self, rows: Any, target: Any = None) -> "Cautious":
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, rows: Any) -> Any:
        return probability(rows)

    def predict(self, rows: Any) -> Any:
        return (self.predict_proba(rows)[:, 1] >= self.threshold).astype(int)


def test_a_disagreement_of_predict_and_scores_is_noticed() -> None:
    box, answer = learned(Cautious().fit(NUMBERS))
    assert box.strict
    checked = (len(NUMBERS) + 1) // 2  # `predict` is asked about the first half, enough to see whether it disagrees
    assert (box.labels(answer.output)[:checked] == Cautious().predict(NUMBERS)[:checked]).all()


CHANCE = probability(NUMBERS)[:, 1]
WITHOUT_DISAGREEMENT = NUMBERS[(CHANCE < 0.45) | (CHANCE > 0.72)]  # no row lies between the thresholds of `Cautious`


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "training", "seen"),
    [
        ({"name": "greedy"}, NUMBERS, True),
        ({"name": "greedy"}, WITHOUT_DISAGREEMENT, False),
        ({"name": "surrogate-search", "query_budget": 1000, "max_queries": 400}, NUMBERS, True),
        ({"name": "surrogate-search", "query_budget": 200, "max_queries": 60}, WITHOUT_DISAGREEMENT, False),
    ],
    ids=["seen in fit", "first seen in explain", "seen within a budget", "first seen in explain, with a budget"],
)
@pytest.mark.parametrize("n", [1, 3])
def test_found_follows_predict_where_it_disagrees_with_the_scores(
    method: Any, training: pd.DataFrame, seen: bool, n: int
) -> None:
    model = Cautious().fit(NUMBERS)
    explainer = make_explainer(model=model, max_changes=2, **method).fit(training)
    assert explainer.blackbox_.strict == seen
    result = explainer.explain(NUMBERS[:30], n=n)
    before = model.predict(NUMBERS[:30])
    frame = result.frame
    assert (model.predict(frame[list(NUMBERS)]) != before[frame["query_id"]]).all()
    assert result.found[:, 0].all()
    assert (result.after[result.found] == 1 - np.repeat(before[:, None], n, axis=1)[result.found]).all()
    assert explainer.blackbox_.strict == seen, "what one call needed does not change the next"


def test_a_slot_left_empty_by_the_second_search_is_not_found() -> None:
    """The first search, by scores, fills two slots, of which `predict` confirms the second; the next fills only one."""
    rows = pd.DataFrame({"a": [-3.0, -2.5, -2.25], "b": [0, 1, 1]})

    class Odd(Cautious):
        def predict_proba(self, rows: Any) -> Any:
            rows = np.asarray(rows, dtype=float)
            positive = np.where((rows[:, 0] > -2) | (rows[:, 1] > 2), 0.9, 0.1)
            return np.column_stack([1 - positive, positive])

        def predict(self, rows: Any) -> Any:
            return (np.asarray(rows, dtype=float)[:, 1] > 2).astype(int)

    model = Odd().fit(rows)
    space = FeatureSpace.infer(rows, bounds={"a": (-3, -1.75), "b": (0, 3)})
    result = make_explainer("greedy", model, space, max_changes=1).fit(rows).explain(rows, n=2)
    assert result.found.tolist() == [[True, False]] * 3
    assert result.frame["b"].tolist() == [3, 3, 3]
    assert result.after.tolist() == [[1, 0]] * 3


def test_an_explainer_that_needs_scores_says_why_it_is_skipped() -> None:
    with pytest.raises(UnsupportedError, match="skipped because it needs scores"):
        make_explainer("greedy", lambda rows: np.asarray(rows)[:, 0] > 0).fit(NUMBERS)


def test_a_label_no_training_row_had_is_delivered_by_its_name():
    X = pd.DataFrame({"x": np.linspace(0.0, 8.0, 40)})
    space = FeatureSpace.infer(X, bounds={"x": (0.0, 12.0)})
    blackbox = BlackBox(lambda rows: np.where(np.asarray(rows)[:, 0] > 9, "new", "a"), space)
    before = blackbox.learn(space.values(X))
    after = blackbox.ask(np.array([[3.0], [11.0]]))
    assert blackbox.labels(before.output).tolist() == ["a"] * 40
    assert blackbox.labels(after.output).tolist() == ["a", "new"]
    assert Goal.flip().bind(blackbox, before.take(np.array([0, 1]))).met(after).tolist() == [False, True]


# Models that are altered, and rows that are none.


def raises_on_nothing(rows: Any) -> Any:
    if len(rows) == 0:
        raise ValueError("found array with 0 sample(s)")
    return probability(rows)


@pytest.mark.parametrize("model", [raises_on_nothing, LogisticRegression().fit(NUMBERS, WORDS)])
def test_no_rows_are_confirmed_without_a_question_to_the_model(model: Any) -> None:
    box, _ = learned(model)
    calls = box.calls
    for answer in (box.confirm(NUMBERS[:0]), box.confirm(NUMBERS[:0], mark_refused=True), box.ask(np.empty((0, 3)))):
        assert len(answer.output) == 0 and answer.scores is not None and answer.scores.shape == (0, 2)
    assert box.calls == calls


def refitted(model: Any) -> None:
    model.fit(NUMBERS, WORDS[::-1])


def grown(model: Any) -> None:
    model.set_params(n_estimators=40, warm_start=True).fit(NUMBERS, WORDS[::-1])


def one_tree_is_another(model: Any) -> None:
    model.estimators_[3] = RandomForestClassifier(1, random_state=5).fit(NUMBERS, POSITIVE[::-1]).estimators_[0]


@pytest.mark.parametrize("altered", [refitted, grown, one_tree_is_another])
def test_trees_of_a_model_that_is_altered_later_answer_no_more(altered: Callable[[Any], None]) -> None:
    model = RandomForestClassifier(20, random_state=0).fit(NUMBERS, WORDS)
    space = FeatureSpace.infer(NUMBERS)
    box = BlackBox(model, space, accelerate="auto")
    box.learn(space.values(NUMBERS))
    assert box.trees is not None and box.for_call().trees is box.trees
    altered(model)
    answer = box.over(space).ask(space.values(NUMBERS[:20]))
    assert answer.scores == pytest.approx(model.predict_proba(NUMBERS[:20]))


def test_a_booster_that_is_trained_on_is_another_model() -> None:
    rows = xgboost.DMatrix(NUMBERS, POSITIVE)
    booster = xgboost.train({"objective": "binary:logistic"}, rows, 3)
    read = Fingerprint(booster)
    booster.predict(rows)
    assert not read.altered()
    booster.update(rows, 3)
    assert read.altered()
