"""Facts about Goal: what counts as a counterfactual, and how far an answer is from it."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.blackbox import Answer
from relax_plugin.errors import GoalError
from relax_plugin.goal import BoundGoal

few = settings(deadline=None, max_examples=50)

ROWS = np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25], [0.05, 0.05, 0.9]])
SPACE = FeatureSpace.infer(ROWS)


def classifier(labels: list[Any] | None = None) -> BlackBox:
    """Answers the row itself as probabilities of three classes, or the label of the largest."""
    model = (lambda rows: rows) if labels is None else (lambda rows: np.array(labels)[rows.argmax(axis=1)])
    box = BlackBox(model, SPACE)
    box.learn(ROWS)
    return box


def regressor() -> BlackBox:
    box = BlackBox(lambda rows: rows[:, 0], SPACE, task="regression")
    box.learn(ROWS)
    return box


def answers(*outputs: float) -> Answer:
    return Answer(np.array(outputs, dtype=float))


# Classification.


def test_flip_is_met_by_any_other_class() -> None:
    box = classifier()
    goal = Goal.flip().bind(box, box.ask(ROWS))
    assert goal.met(box.ask(ROWS)).tolist() == [False, False, False]
    assert goal.met(box.ask(ROWS[[1, 2, 0]])).tolist() == [True, True, True]


def test_flip_is_met_by_a_label_that_no_training_row_had() -> None:
    labels = {"first": "a", "later": "new"}
    box = BlackBox(lambda rows: np.where(rows[:, 0] < 9, labels["first"], labels["later"]), SPACE)
    box.learn(ROWS)
    before = box.ask(ROWS)
    after = box.ask(ROWS + 10)
    assert Goal.flip().bind(box, before).met(after).all()
    assert not Goal.to("a").bind(box, before).met(after).any()


def test_to_is_met_by_its_class_alone() -> None:
    box = classifier()
    before = box.ask(ROWS)
    assert before.output.tolist() == [1, 0, 2]
    assert Goal.to(2).bind(box, before).met(before).tolist() == [False, False, True]


@pytest.mark.parametrize(
    "labels", [[0, 0, 2], (0, 0, 2), np.array([0, 0, 2]), pd.Series([0, 0, 2], index=[5, 6, 7]), np.array([0.0, 0, 2])]
)
def test_to_takes_one_label_a_row(labels: Any) -> None:
    box = classifier()
    before = box.ask(ROWS)
    assert Goal.to(labels).bind(box, before).met(before).tolist() == [False, True, True]


@pytest.mark.parametrize("label", [2, np.int64(2), np.int8(2), 2.0])
def test_numbers_of_any_type_name_a_class(label: Any) -> None:
    box = classifier()
    assert Goal.to(label).bind(box, box.ask(ROWS)).met(box.ask(ROWS)).tolist() == [False, False, True]


def test_strings_name_a_class() -> None:
    box = classifier(["low", "middle", "high"])
    before = box.ask(ROWS)
    assert Goal.to("high").bind(box, before).met(before).tolist() == [False, False, True]
    assert Goal.to(np.array(["low", "low", "low"])).bind(box, before).met(before).tolist() == [False, True, False]
    assert Goal.to(np.str_("low")).bind(box, before).met(before).tolist() == [False, True, False]


def test_an_unknown_label_is_refused_with_the_nearest_one() -> None:
    box = classifier(["low", "middle", "high"])
    with pytest.raises(GoalError, match="no class 'hihg'; did you mean 'high'"):
        Goal.to("hihg").bind(box, box.ask(ROWS))
    with pytest.raises(GoalError, match="no class 7; known are 0, 1, 2"):
        Goal.to([0, 7, 1]).bind(classifier(), classifier().ask(ROWS))


def test_labels_of_the_wrong_number_are_refused() -> None:
    with pytest.raises(GoalError, match="2 labels for 3 queries"):
        Goal.to([0, 1]).bind(classifier(), classifier().ask(ROWS))


def test_min_probability_asks_more_than_the_largest_score() -> None:
    box = classifier()
    before = box.ask(ROWS[[0]])
    after = np.array([[0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.2, 0.8, 0.0]])
    for goal in (Goal.flip(min_probability=0.6), Goal.to(0, min_probability=0.6)):
        bound = goal.bind(box, before).take([0, 0, 0])
        assert bound.met(box.ask(after)).tolist() == [False, True, False]
        assert (bound.gap(box.ask(after)) > 0).tolist() == [True, False, True]
    assert Goal.flip(min_probability=0.5).bind(box, before).met(box.ask(after[:1])).all(), "the bound is included"


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_min_probability_that_is_none_is_refused(probability: float) -> None:
    with pytest.raises(GoalError, match="between 0 and 1"):
        Goal.flip(min_probability=probability)


def test_min_probability_needs_probabilities() -> None:
    with pytest.raises(GoalError, match="gives none"):
        Goal.to("low", min_probability=0.5).check(classifier(["low", "middle", "high"]))


def test_the_gap_of_labels_alone_is_zero() -> None:
    box = classifier(["low", "middle", "high"])
    assert Goal.flip().bind(box, box.ask(ROWS)).gap(box.ask(ROWS)).tolist() == [0, 0, 0]


def chances(rows: int) -> Any:
    return arrays(np.float64, (rows, 3), elements=st.floats(0.001, 1)).map(lambda a: a / a.sum(axis=1, keepdims=True))


@few
@given(chances(6), chances(6), st.sampled_from(["flip", "to"]))
def test_the_gap_is_negative_only_where_the_goal_is_met(start: Any, end: Any, kind: str) -> None:
    box = classifier()
    before, after = box.ask(start), box.ask(end)
    goal = (Goal.flip() if kind == "flip" else Goal.to(1)).bind(box, before)
    gap, met = goal.gap(after), goal.met(after)
    assert met[gap < 0].all()
    assert not met[gap > 0].any()


@few
@given(chances(6), chances(6), st.floats(0.35, 0.95))
def test_the_gap_with_min_probability_is_negative_only_where_the_goal_is_met(
    start: Any, end: Any, least: float
) -> None:
    box = classifier()
    goal = Goal.flip(min_probability=least).bind(box, box.ask(start))
    gap, met = goal.gap(box.ask(end)), goal.met(box.ask(end))
    assert met[gap < 0].all()
    assert not met[gap > 1e-9].any()


@few
@given(chances(6), st.floats(0.35, 0.95))
def test_answers_that_meet_the_goal_are_turned_into_misses_and_the_others_stay(end: Any, least: float) -> None:
    box = classifier()
    for goal in (Goal.to(1), Goal.to([0, 1, 2, 0, 1, 2], min_probability=least)):
        bound, answer = goal.bind(box, box.ask(end)), box.ask(end)
        met, turned = bound.met(answer), bound.missed(answer)
        assert not bound.met(turned).any()
        assert turned.output[~met].tolist() == answer.output[~met].tolist()
        assert turned.scores is not None and answer.scores is not None
        assert (turned.scores[~met] == answer.scores[~met]).all()
        assert (np.sort(turned.scores) == np.sort(answer.scores)).all()


def test_numbers_within_the_range_are_turned_into_ones_outside_of_it() -> None:
    inside = answers(1.5, 0.5)
    for (low, high), turned in (((1, 2), [0, 0.5]), ((1, np.inf), [0, 0.5]), ((-np.inf, 1), [1.5, 2])):
        assert Goal.between(low, high).bind(regressor(), inside).missed(inside).output.tolist() == turned
    everything = Goal.between(-np.inf, np.inf).bind(regressor(), inside)
    assert everything.missed(inside).output.tolist() == [1.5, 0.5], "there is nothing outside"


# Regression.


def test_shift_is_met_on_either_side() -> None:
    goal = Goal.shift(2).bind(regressor(), answers(5, 5, 5, 5))
    assert goal.met(answers(7, 3, 6.9, 3.1)).tolist() == [True, True, False, False]
    assert Goal.shift(-2) == Goal.shift(2)


def test_between_is_met_inside_and_at_its_ends() -> None:
    goal = Goal.between(1, 2).bind(regressor(), answers(0, 0, 0, 0))
    assert goal.met(answers(1, 2, 0.99, 2.01)).tolist() == [True, True, False, False]
    above = Goal.between(1, np.inf).bind(regressor(), answers(0, 0))
    assert above.met(answers(1e9, 0.5)).tolist() == [True, False]


def test_the_gap_of_a_regressor_is_the_distance_still_to_go() -> None:
    shift = Goal.shift(2).bind(regressor(), answers(5, 5, 5))
    assert shift.gap(answers(5, 6, 8)).tolist() == [2, 1, -1]
    between = Goal.between(1, 2).bind(regressor(), answers(0, 0, 0))
    assert between.gap(answers(0, 4, 1.5)).tolist() == [1, 2, -0.5]


@few
@given(
    arrays(np.float64, 6, elements=st.floats(-100, 100)),
    arrays(np.float64, 6, elements=st.floats(-100, 100)),
    st.floats(0.01, 50),
    st.booleans(),
)
def test_a_regressor_meets_its_goal_where_the_gap_is_not_positive(
    start: Any, end: Any, size: float, inside: bool
) -> None:
    goal = (Goal.between(-size, size) if inside else Goal.shift(size)).bind(regressor(), Answer(start))
    assert (goal.met(Answer(end)) == (goal.gap(Answer(end)) <= 0)).all()


@pytest.mark.parametrize("delta", [0, float("nan"), float("inf")])
def test_a_shift_that_means_nothing_is_refused(delta: float) -> None:
    with pytest.raises(GoalError, match="finite number other than 0"):
        Goal.shift(delta)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(GoalError, match="low <= high"):
        Goal.between(2, 1)
    with pytest.raises(GoalError, match="low <= high"):
        Goal.between(float("nan"), 1)


# Both.


@pytest.mark.parametrize("goal", [Goal.flip(), Goal.to(1)])
def test_goals_of_classifiers_are_refused_for_a_regressor(goal: Goal) -> None:
    with pytest.raises(GoalError, match=r"Goal.shift or Goal.between"):
        goal.check(regressor())


@pytest.mark.parametrize("goal", [Goal.shift(1), Goal.between(0, 1)])
def test_goals_of_regressors_are_refused_for_a_classifier(goal: Goal) -> None:
    with pytest.raises(GoalError, match=r"Goal.flip or Goal.to"):
        goal.check(classifier())


@pytest.mark.parametrize(
    "goal", [Goal.flip(min_probability=0.7), Goal.to(1), Goal.to([1, 0]), Goal.shift(2.5), Goal.between(0, 1)]
)
def test_a_goal_survives_json(goal: Goal) -> None:
    assert Goal.from_dict(json.loads(json.dumps(goal.to_dict()))) == goal


def test_a_chunk_of_a_goal_has_the_labels_of_its_rows() -> None:
    assert Goal.to([0, 1, 2]).chunk(slice(1, 3)).label == (1, 2)
    assert Goal.to(1).chunk(slice(1, 3)).label == 1


def test_no_queries_bind_to_no_goals() -> None:
    box = classifier()
    for goal in (Goal.flip(), Goal.to(1), Goal.to([])):
        empty = box.ask(ROWS[:0])
        assert goal.bind(box, empty).met(empty).tolist() == []
        assert goal.bind(box, empty).gap(empty).tolist() == []


def test_the_state_of_a_regressor_tells_both_ends_of_its_goal() -> None:
    goal = Goal.shift(2).bind(regressor(), answers(5, 1))
    assert goal.observe(answers(5, 5), scale=2.0).tolist() == [[1.0, -1.0, 1.0], [3.0, 1.0, -1.0]]


@pytest.mark.parametrize("wrong", ["a", None, np.nan, 0])
def test_a_shift_that_is_no_number_is_refused(wrong):
    with pytest.raises(GoalError, match="delta"):
        Goal.shift(wrong)


def test_the_gap_of_a_goal_that_no_class_meets_is_a_number() -> None:
    """A model of one class has no other: an infinite gap once made an agent of nothing but NaN."""
    box, answer = classifier(), Answer(np.zeros(3), np.full((3, 3), 1 / 3))
    for least in (None, 0.9):
        goal = BoundGoal(box, wanted=np.zeros((3, 3), dtype=bool), min_probability=least)
        assert goal.gap(answer).tolist() == [1.0] * 3
