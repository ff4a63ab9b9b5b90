"""Facts about how each family of models is read: which score is whose, and what counts as a probability."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import InputError, ModelError

ROWS = np.random.default_rng(0).normal(size=(80, 2))
SPACE = FeatureSpace.infer(ROWS)


def read(model: Any, task: str = "auto") -> BlackBox:
    box = BlackBox(model, SPACE, task=task)
    box.learn(ROWS)
    return box


def booster(objective: str, outcome: Any, **more: Any) -> Any:
    xgboost = pytest.importorskip("xgboost")
    options = {"objective": objective, "max_depth": 2, "eta": 0.5, **more}
    return xgboost.train(options, xgboost.DMatrix(ROWS, label=outcome), 8)


def test_the_number_of_a_binary_booster_is_the_probability_of_class_one() -> None:
    positive = ROWS[:, 0] > 0
    model = booster("binary:logistic", positive)
    answer = read(model).ask(ROWS)
    assert answer.scores is not None
    np.testing.assert_allclose(answer.scores[:, 1], model.inplace_predict(ROWS))
    np.testing.assert_allclose(answer.scores.sum(axis=1), 1.0)
    assert (answer.output == positive).mean() > 0.95


def test_a_booster_of_several_classes_answers_the_likeliest() -> None:
    outcome = np.digitize(ROWS[:, 0], [-0.5, 0.5])
    box = read(booster("multi:softprob", outcome, num_class=3))
    assert box.classes.tolist() == [0, 1, 2]
    assert (box.ask(ROWS).output == outcome).mean() > 0.95


def test_a_booster_for_numbers_answers_them() -> None:
    box = read(booster("reg:squarederror", ROWS[:, 0]))
    assert box.task == "regression"
    assert np.corrcoef(box.ask(ROWS).output, ROWS[:, 0])[0, 1] > 0.9


def test_a_booster_that_gives_neither_probabilities_nor_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="binary:hinge"):
        read(booster("binary:hinge", ROWS[:, 0] > 0))


def test_zero_and_one_are_probabilities() -> None:
    """As the votes of a single tree: a model that is sure of everything still gives probabilities."""
    box = read(lambda rows: np.eye(2)[(rows[:, 0] > 0).astype(int)])
    assert box.has_probabilities
    assert box.ask(np.array([[1.0, 0.0]])).scores.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("outside", [1.5, -0.5])
def test_numbers_beyond_zero_and_one_are_none(outside: float) -> None:
    box = read(lambda rows: np.column_stack([np.full(len(rows), 1.0 - outside), np.full(len(rows), outside)]))
    assert box.has_scores
    assert not box.has_probabilities


def test_columns_that_do_not_add_up_to_one_are_no_probabilities() -> None:
    assert not read(lambda rows: np.full((len(rows), 2), 0.7)).has_probabilities


class Sure(torch.nn.Module):
    """Answers exactly 0 or 1."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows[:, :1] > 0).float()


def test_a_module_that_answers_exactly_one_gives_probabilities_and_no_logits() -> None:
    answer = read(Sure()).ask(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert answer.scores is not None
    assert answer.scores.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert answer.output.tolist() == [1.0, 0.0]


def test_the_decision_of_a_binary_estimator_speaks_for_its_second_class() -> None:
    from sklearn.svm import LinearSVC

    outcome = np.where(ROWS[:, 0] > 0, "yes", "no")
    model = LinearSVC().fit(ROWS, outcome)
    box = read(model)
    answer = box.ask(ROWS)
    assert answer.scores is not None
    np.testing.assert_allclose(np.diff(answer.scores, axis=1)[:, 0], model.decision_function(ROWS))
    assert (box.labels(answer.output) == model.predict(ROWS)).all()


# One number a row.


def chance(rows: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-3.0 * np.asarray(rows)[:, 0]))


@pytest.mark.parametrize("shape", ["(n,)", "(n, 1)"])
def test_one_fraction_a_row_is_the_probability_of_class_one(shape: str) -> None:
    box = read(lambda rows: chance(rows) if shape == "(n,)" else chance(rows)[:, None])
    answer = box.ask(ROWS)
    assert box.classes.tolist() == [0, 1] and box.has_probabilities
    assert answer.scores is not None
    np.testing.assert_allclose(answer.scores[:, 1], chance(ROWS))
    assert answer.output.tolist() == (ROWS[:, 0] > 0).tolist()


def test_what_began_as_probabilities_stays_so_when_a_batch_is_all_zero_and_one() -> None:
    box = read(lambda rows: np.where(np.abs(rows[:, 0]) > 5, rows[:, 0] > 0, chance(rows)))
    sure = box.ask(np.array([[9.0, 0.0], [-9.0, 0.0]]))
    assert sure.scores is not None
    assert sure.scores.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_what_began_as_probabilities_may_not_leave_zero_and_one() -> None:
    box = read(lambda rows: np.where(np.abs(rows[:, 0]) > 5, 1.5, chance(rows)))
    with pytest.raises(ModelError, match=r"answered 1.5 for row 1 .*task='regression'"):
        box.ask(np.array([[1.0, 0.0], [9.0, 0.0]]))


def test_whole_numbers_stay_labels() -> None:
    for dtype in (int, float, bool):
        box = read(lambda rows, dtype=dtype: (rows[:, 0] > 0).astype(dtype))
        assert not box.has_scores and box.classes.tolist() == [0, 1]


def test_fractions_beyond_zero_and_one_are_told_what_to_pass() -> None:
    with pytest.raises(ModelError, match=r"BlackBox\(model, task='regression'\).*\(n,\) of class 1, or \(n, classes\)"):
        read(lambda rows: 10.0 * chance(rows))


def test_an_explainer_takes_a_function_of_one_probability_a_row() -> None:
    result = make_explainer("greedy", chance).fit(ROWS).explain(ROWS[:10], goal=Goal.to(1, min_probability=0.8))
    assert result.found.all()
    delivered = result.values[:, 0]
    assert (chance(delivered) >= 0.8).all()


# Objects with `predict` alone.


class OnlyPredict:
    """As a network of Keras: probabilities of floats in an array, `predict` alone, and a progress bar if not told."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.verbose = answer, []

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto") -> Any:
        self.verbose.append(verbose)
        assert isinstance(x, np.ndarray) and x.dtype.kind == "f"
        return self.answer(x)


Sequential = type("Sequential", (OnlyPredict,), {"__module__": "keras.src.models.sequential"})
Own = type("Own", (Sequential,), {"__module__": "__main__"})


def three(rows: Any) -> Any:
    scores = np.exp(np.column_stack([rows[:, 0], -rows[:, 0], rows[:, 1]]))
    return scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", [Sequential, Own])
@pytest.mark.parametrize(("answer", "classes"), [(lambda rows: chance(rows)[:, None], 2), (three, 3)])
def test_a_network_of_keras_needs_no_wrapper(kind: Any, answer: Any, classes: int) -> None:
    model = kind(answer)
    box = BlackBox(model, FRAME_SPACE)
    box.learn(ROWS)
    assert box.task == "classification" and box.has_probabilities and len(box.classes) == classes
    assert set(model.verbose) == {0}
    assert box.confirm(FRAME[:5]).scores.shape == (5, classes)
    assert make_explainer("greedy", model).fit(FRAME).explain(FRAME[:5]).found.all()


def test_a_network_of_keras_for_numbers_is_told_what_to_pass() -> None:
    numbers = Sequential(lambda rows: 10.0 * rows[:, :1])
    with pytest.raises(ModelError, match=r"BlackBox\(model, task='regression'\)"):
        read(numbers)
    box = read(numbers, task="regression")
    np.testing.assert_allclose(box.ask(ROWS).output, 10.0 * ROWS[:, 0], rtol=1e-6)


@pytest.mark.parametrize(("answer", "classes"), [(lambda rows: chance(rows)[:, None], 2), (three, 3)])
def test_an_unknown_class_with_predict_alone_gives_probabilities_once_its_task_is_told(
    answer: Any, classes: int
) -> None:
    with pytest.raises(ModelError, match=r"BlackBox\(model, task='classification'\)"):
        read(OnlyPredict(answer))
    box = read(OnlyPredict(answer), task="classification")
    assert box.has_probabilities and len(box.classes) == classes


def test_labels_of_an_unknown_class_stay_labels() -> None:
    box = read(OnlyPredict(lambda rows: np.where(rows[:, :1] > 0, "yes", "no")), task="classification")
    assert box.classes.tolist() == ["no", "yes"] and not box.has_scores


# Boosters of LightGBM.

FRAME = pd.DataFrame(ROWS, columns=["a", "b"])
FRAME_SPACE = FeatureSpace.infer(FRAME)


def light(objective: str, outcome: Any, rows: Any = ROWS, **more: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    options = {"objective": objective, "verbose": -1, "min_data_in_leaf": 2, "num_threads": 1, **more}
    return lightgbm.train(options, lightgbm.Dataset(rows, outcome), 8)


def again(booster: Any) -> Any:
    """As it comes from a file: without the parameters it was trained with."""
    return type(booster)(model_str=booster.model_to_string())


@pytest.mark.parametrize("source", [lambda booster: booster, again], ids=["trained", "from a file"])
def test_a_booster_of_lightgbm_tells_its_task_by_its_objective(source: Any) -> None:
    model = source(light("binary", ROWS[:, 0] > 0))
    np.testing.assert_allclose(read(model).ask(ROWS).scores[:, 1], model.predict(ROWS))
    outcome = np.digitize(ROWS[:, 0], [-0.5, 0.5])
    for objective in ("multiclass", "softmax", "multiclassova"):
        box = read(source(light(objective, outcome, num_class=3)))
        assert box.classes.tolist() == [0, 1, 2]
        assert (box.ask(ROWS).output == outcome).mean() > 0.9
    for objective in ("regression", "l1", "huber", "quantile"):
        model = source(light(objective, ROWS[:, 0]))
        assert read(model).task == "regression"
        np.testing.assert_allclose(read(model).ask(ROWS).output, model.predict(ROWS))


def test_a_booster_of_lightgbm_that_ranks_is_told_what_to_pass() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    ranked = lightgbm.Dataset(ROWS, np.arange(80) % 3, group=[40, 40])
    model = lightgbm.train({"objective": "lambdarank", "verbose": -1}, ranked, 2)
    with pytest.raises(InputError, match=r"'lambdarank'.*BlackBox\(booster.predict, task='regression'\)"):
        read(model)


def test_a_booster_of_lightgbm_is_asked_with_the_categories_it_learned() -> None:
    town = pd.Categorical(np.array(["Bonn", "Rome", "Oslo"])[np.arange(80) % 3], ["Rome", "Oslo", "Bonn"])
    frame = FRAME.assign(town=town)
    model = light("binary", (town == "Rome") | (ROWS[:, 0] > 1), frame)
    explainer = make_explainer("greedy", model).fit(frame)
    refused = frame[model.predict(frame) < 0.5].head(10)
    result = explainer.explain(refused, goal=Goal.to(1), vary=["town"])
    assert result.found.all()
    assert (result.frame["town"] == "Rome").all()
    assert result.scores_after[:, 0, 1].tolist() == model.predict(result.frame[list(frame)]).tolist()


def test_a_model_that_refuses_missing_numbers_is_quoted() -> None:
    from sklearn.linear_model import LogisticRegression

    box = read(LogisticRegression().fit(ROWS, ROWS[:, 0] > 0))
    with pytest.raises(ModelError, match=r"LogisticRegression does not accept missing values"):
        box.confirm(np.array([[np.nan, 0.0]]))


def test_a_column_of_labels_is_one_label_a_row() -> None:
    """CatBoost's `predict` of several classes answers so."""

    class Column:
        classes_ = np.array(["a", "b"])
        _estimator_type = "classifier"

        def predict(self, rows: Any) -> Any:
            return np.where(rows[:, :1] > 0, "b", "a")

        def predict_proba(self, rows: Any) -> Any:
            return np.column_stack([1.0 - chance(rows), chance(rows)])

    box = read(Column())
    assert box.labels(box.confirm(ROWS).output).tolist() == np.where(ROWS[:, 0] > 0, "b", "a").tolist()


# Logits that look like probabilities.


class Last(torch.nn.Module):
    """One number a row, by a last operation of its own."""

    def __init__(self, last: Any) -> None:
        super().__init__()
        self.layer, self.last = torch.nn.Linear(2, 1), last
        with torch.no_grad():
            self.layer.weight[:] = torch.tensor([[0.05, 0.02]])
            self.layer.bias[:] = 0.5

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(rows))


def test_logits_of_a_linear_layer_are_logits_though_all_lie_within_zero_and_one() -> None:
    box = read(Last(lambda logit: logit[:, 0]))
    answer = box.ask(np.array([[1.0, 1.0]]))
    assert answer.scores is not None
    assert answer.scores[0, 1] == pytest.approx(1 / (1 + np.exp(-0.57)), abs=1e-5)


@pytest.mark.parametrize(
    "last",
    [torch.sigmoid, lambda logit: torch.sigmoid(logit).squeeze(1), torch.nn.Sigmoid()],
    ids=["function", "squeezed", "module"],
)
def test_the_number_of_a_sigmoid_is_a_probability_without_a_warning(last: Any, recwarn: Any) -> None:
    scores = read(Last(last)).ask(np.array([[1.0, 1.0]])).scores
    assert scores is not None and scores[0, 1] == pytest.approx(1 / (1 + np.exp(-0.57)), abs=1e-5)
    assert not recwarn


def test_numbers_of_a_module_that_may_be_logits_are_worth_a_warning_that_says_what_to_pass() -> None:
    def doubtful(logit: torch.Tensor) -> torch.Tensor:
        return 0.5 + 0.15 * torch.tanh(logit)

    with pytest.warns(UserWarning, match="is read as the probability of class 1. Pass torch.nn.Sequential"):
        read(Last(doubtful))
    box = read(torch.nn.Sequential(Last(doubtful), torch.nn.Sigmoid()))
    scores = box.ask(ROWS[:1]).scores
    assert scores is not None and 0.6 < scores[0, 1] < 0.7


@pytest.mark.filterwarnings("ignore:the torch module answers one number")
def test_what_a_module_first_gave_as_probabilities_may_not_leave_zero_and_one() -> None:
    box = read(Last(lambda logit: 1.0 * logit))
    with pytest.raises(ModelError, match=r"but at first one probability a row, from 0 to 1; pass torch.nn.Sequential"):
        box.ask(np.array([[1000.0, 0.0]]))


# Answers in containers of other libraries.


def chances(rows: Any) -> Any:
    chance = 1 / (1 + np.exp(-np.asarray(rows)[:, 0]))
    return np.column_stack([1 - chance, chance])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda scores: torch.tensor(scores, dtype=torch.bfloat16),
        lambda scores: torch.tensor(scores, requires_grad=True),
        lambda scores: torch.tensor(scores).to_sparse(),
        scipy.sparse.csr_matrix,
        np.ma.masked_array,
    ],
    ids=["bfloat16", "with gradient", "sparse tensor", "sparse matrix", "masked, nothing hidden"],
)
def test_answers_of_other_containers_are_read(wrap: Any) -> None:
    answer = read(lambda rows: wrap(chances(rows))).ask(ROWS[:5])
    assert answer.scores == pytest.approx(chances(ROWS[:5]), abs=0.01)


def test_a_masked_answer_is_none() -> None:
    def hiding(rows: Any) -> Any:
        scores = np.ma.masked_array(chances(rows))
        scores[np.asarray(rows)[:, 0] > 99.0] = np.ma.masked
        return scores

    with pytest.raises(ModelError, match=r"refuses row 1: it answered \[nan nan\]"):
        read(hiding).ask(np.array([[0.0, 0.0], [100.0, 0.0]]))


@pytest.mark.parametrize("kind", [complex, object], ids=["complex", "unreadable"])
def test_an_answer_that_cannot_be_read_is_not_said_to_have_been_raised(kind: Any) -> None:
    class Unreadable:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise TypeError("no array of me")

    def model(rows: Any) -> Any:
        return Unreadable() if kind is object else chances(rows).astype(complex)

    with pytest.raises(
        ModelError, match=r"the model answered complex numbers|the model's answer, a Unreadable, cannot"
    ):
        read(model)


def test_texts_that_differ_by_a_nul_at_their_end_are_two_labels() -> None:
    box = read(lambda rows: ["a\0" if row[0] > 0 else "a" for row in np.asarray(rows)])
    assert box.classes is not None and box.classes.tolist() == ["a", "a\0"]
    assert box.ask(np.array([[1.0, 0.0], [-1.0, 0.0]])).output.tolist() == [1.0, 0.0]
