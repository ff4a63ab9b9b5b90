"""Targets: numbers of any size become numbers around 1, and gaps of imagined answers are those of real ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tiny
from reference.worlds import learned
from sklearn.svm import LinearSVC

from relax_plugin import Goal
from relax_plugin.blackbox import Answer
from relax_plugin.surrogate.targets import FARTHEST, LABEL_LOGIT, Targets

ROWS = tiny.gaussian_rows()
SVC = LinearSVC(random_state=0).fit(ROWS, tiny.two_class_labels(ROWS))


def softmax(logits):
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def of_classes(count):
    return lambda rows: softmax(np.asarray(rows) @ np.random.default_rng(0).standard_normal((4, count)))


MODELS = {
    "two classes": (of_classes(2), "auto"),
    "three classes": (of_classes(3), "auto"),
    "six classes": (of_classes(6), "auto"),
    "decision": (SVC, "auto"),
    "labels": (tiny.two_class_labels, "auto"),
    "numbers": (tiny.numbers, "regression"),
}
PROBABILITIES = ["two classes", "three classes", "six classes"]


def targets_of(name):
    model, task = MODELS[name]
    blackbox, values, answer = learned(model, ROWS, task)
    blackbox.least_probability = 1e-12  # a fine grain, so that gaps are the same
    targets = Targets(blackbox)
    targets.measure(answer)
    return targets, values, answer


def classes_of(blackbox):
    return [] if blackbox.task == "regression" else blackbox.classes.tolist()


def goals_of(name, blackbox):
    if blackbox.task == "regression":
        ends = [Goal.between(-0.5, 0.5), Goal.between(1.0, np.inf), Goal.between(-np.inf, -1.0)]
        each = np.linspace(-1.0, 1.0, len(ROWS))
        return [Goal.shift(2.0), Goal.shift(1.0, direction="down"), *ends, Goal.between(each, each + 0.5)]
    goals = [Goal.flip(), *(Goal.to(label) for label in classes_of(blackbox))]
    sure = [Goal.flip(min_probability=0.8), Goal.to(classes_of(blackbox)[0], min_probability=0.3)]
    sure += [Goal.to(classes_of(blackbox)[0], raise_by=0.2), Goal.to(classes_of(blackbox)[-1], raise_by=0.01)]
    return goals + sure if name in PROBABILITIES else goals


@pytest.mark.parametrize("name", [*PROBABILITIES, "decision", "numbers"])
def test_an_imagined_gap_is_below_zero_exactly_where_the_goal_is_met(name):
    targets, _, answer = targets_of(name)
    imagined = targets.of(answer)
    for goal in goals_of(name, targets.blackbox):
        bound = goal.bind(targets.blackbox, answer.take(np.arange(len(answer))[::-1]))
        np.testing.assert_array_equal(targets.gap(bound, imagined) < 0, bound.met(targets.answer(imagined)))


def test_where_there_is_no_other_class_nothing_meets_the_goal_and_every_row_is_of_the_only_one():
    blackbox, _, answer = learned(lambda rows: np.full(len(rows), 7), ROWS)
    targets = Targets(blackbox)
    assert (targets.gap(Goal.flip().bind(blackbox, answer), targets.of(answer)) == 1.0).all()
    assert (targets.gap(Goal.to(7).bind(blackbox, answer), targets.of(answer)) == -1.0).all()


@pytest.mark.parametrize("name", MODELS)
def test_what_the_model_answers_comes_back_from_its_targets(name):
    targets, _, answer = targets_of(name)
    made = targets.of(answer)
    assert made.shape == (len(answer), targets.count)
    back = targets.answer(made)
    np.testing.assert_allclose(back.output, answer.output, atol=1e-12)
    if answer.scores is not None:
        np.testing.assert_allclose(targets.of(back), made, atol=1e-9)
        assert name == "decision" or np.allclose(back.scores, answer.scores, atol=1e-5)
    assert targets.of(answer.take(slice(0))).shape == (0, targets.count)


def test_a_label_alone_is_a_logit_and_scores_beyond_the_grain_are_cut_to_it():
    targets, _, _ = targets_of("labels")
    np.testing.assert_allclose(targets.of(Answer(np.array([0.0, 1.0]))), [[-LABEL_LOGIT], [LABEL_LOGIT]])
    targets, _, _ = targets_of("two classes")
    targets.blackbox.least_probability = 0.01
    np.testing.assert_allclose(targets.of(Answer(np.array([1.0]), np.array([[0.0, 1.0]]))), [[np.log(100.0)]])


@settings(max_examples=50, deadline=None)
@given(size=st.floats(-250, 250), offset=st.floats(-1e3, 1e3))
def test_values_of_any_size_are_measured_around_1_without_rounding(size, offset):
    values = (tiny.numbers(ROWS) + offset) * 10.0**size
    targets = Targets(SimpleNamespace(task="regression"))
    targets.measure(Answer(values))
    made = targets.of(Answer(values))
    assert 0.1 < np.abs(made).mean() < 10.0
    assert np.log2(targets.unit) == np.round(np.log2(targets.unit))
    np.testing.assert_allclose(targets.answer(made).output, values, rtol=1e-12, atol=1e-12 * np.abs(values).max())


@pytest.mark.parametrize("level", [0.0, 3.0, 1e60, -1e-60])
def test_a_constant_is_measured_too(level):
    targets = Targets(SimpleNamespace(task="regression"))
    targets.measure(Answer(np.full(9, level)))
    assert targets.unit > 0 and (targets.of(Answer(np.full(9, level))) == 0).all()


def test_probabilities_and_labels_are_of_the_right_size_already():
    for name in (*PROBABILITIES, "labels"):
        targets, _, _ = targets_of(name)
        assert (targets.centre, targets.unit) == (0.0, 1.0)


@pytest.mark.parametrize("goal", [Goal.shift(1e300), Goal.between(1e300, np.inf), Goal.between(None, -1e300)])
def test_a_goal_beyond_reach_is_far_but_never_infinite(goal):
    targets, _, answer = targets_of("numbers")
    bound = goal.bind(targets.blackbox, answer)
    assert (np.abs(targets.gap(bound, targets.of(answer))) == FARTHEST).all()
