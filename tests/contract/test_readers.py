"""Facts about how each family of models is read: which score is whose, and what counts as a probability."""

from typing import Any

import numpy as np
import pytest
import torch

from relax_plugin import BlackBox, FeatureSpace
from relax_plugin.errors import InputError

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
