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
    shift = Goal.shift(0.2).bind(regressor(), answers(1, 1))
    assert shift.missed(inside).output.tolist() == [1, 1], "between the two sides"


# Regression.


def test_shift_is_met_on_either_side() -> None:
    goal = Goal.shift(2).bind(regressor(), answers(5, 5, 5, 5))
    assert goal.met(answers(7, 3, 6.9, 3.1)).tolist() == [True, True, False, False]


def test_a_shift_may_be_told_its_direction() -> None:
    after, box = answers(7, 3, 6.9, 3.1), regressor()
    for direction, met in (("up", [True, False, False, False]), ("down", [False, True, False, False])):
        goal = Goal.shift(2, direction=direction).bind(box, answers(5, 5, 5, 5))
        assert goal.met(after).tolist() == met
        assert (goal.gap(after) <= 0).tolist() == met
        assert not goal.two_sided.any()
    assert Goal.shift(2) == Goal.shift(2, direction="either")


def test_a_sign_is_refused_and_not_dropped() -> None:
    with pytest.raises(GoalError, match=r'Goal.shift\(30.0, direction="down"\)'):
        Goal.shift(-30)


@pytest.mark.parametrize("wrong", ["dwon", None, 1, "UP"])
def test_a_direction_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(GoalError, match="direction is"):
        Goal.shift(2, direction=wrong)


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
    "goal",
    [
        Goal.shift(3, direction="down"),
        Goal.between(None, 1),
        Goal.between([0, 1], [None, 2]),
        Goal.between(pd.Series([0, 1], index=[4, 5]), np.inf),
        Goal.to(np.array([True, False]), raise_by=0.2),
        Goal.to([np.bool_(True), np.int64(3), np.str_("a")]),
        Goal.to(np.array(2)),
    ],
)
def test_a_goal_people_state_survives_strict_json(goal: Goal) -> None:
    assert Goal.from_dict(json.loads(json.dumps(goal.to_dict(), allow_nan=False))) == goal


def test_a_file_of_before_there_were_directions_is_read() -> None:
    old = {"kind": "shift", "label": None, "low": None, "high": None, "delta": 2.0, "min_probability": None}
    assert Goal.from_dict(old) == Goal.shift(2)


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


# One range a row, and open ends.


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda ends: pd.Series(ends, index=[7, 8, 9])])
def test_between_takes_one_range_a_row(kind: Any) -> None:
    goal = Goal.between(kind([0, 2, 4]), kind([1.0, 3.0, 5.0])).bind(regressor(), answers(0, 0, 0))
    assert goal.met(answers(1, 1, 5)).tolist() == [True, False, True]
    assert goal.take([2, 0]).met(answers(1, 1)).tolist() == [False, True]
    assert goal.two_sided.tolist() == [True] * 3


def test_one_end_for_all_and_the_other_one_a_row() -> None:
    goal = Goal.between(0, [1, np.inf, None]).bind(regressor(), answers(0, 0, 0))
    assert goal.met(answers(2, 2, 2)).tolist() == [False, True, True]
    assert goal.two_sided.tolist() == [True, False, False]
    assert Goal.between(None, 3) == Goal.between(-np.inf, 3)


def test_a_chunk_of_a_goal_has_the_ranges_of_its_rows() -> None:
    goal = Goal.between([0, 1, 2], 9)
    assert goal.chunk(slice(1, 3)) == Goal.between([1, 2], 9)
    assert goal.chunk(np.array([2, 0])) == Goal.between([2, 0], 9)


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        ([0, 5, 0], [1, 4, 1], r"\[5.0, 4.0\] of row 1 is empty"),
        ([0, None], [1, np.inf], "of row 1 has no end"),
        ([0, np.nan], 1, "low is nan in row 1"),
        (0, ["a", 1], "high is 'a' in row 0"),
        (0, [True, False], "high is True in row 0"),
        ([0, 1], [1, 2, 3], "2 lows and 3 highs"),
        ([[0], [1]], 1, "shape"),
        (None, None, "has no end"),
        (-np.inf, None, "has no end"),
        (np.inf, None, "low <= high"),
        (pd.NA, 1, "low <= high"),
    ],
)
def test_a_range_of_a_row_that_is_none_is_refused_by_its_row(low: Any, high: Any, told: str) -> None:
    with pytest.raises(GoalError, match=told):
        Goal.between(low, high)


def test_ranges_of_the_wrong_number_are_refused() -> None:
    with pytest.raises(GoalError, match="2 ranges for 3 queries"):
        Goal.between([0, 1], 2).bind(regressor(), answers(0, 0, 0))


# A class made likelier, whichever wins.


def test_raise_by_asks_for_a_higher_probability_whichever_class_wins() -> None:
    box = classifier()
    goal = Goal.to(0, raise_by=0.25).bind(box, box.ask(ROWS))
    after = box.ask(np.array([[0.35, 0.65, 0.0], [0.74, 0.26, 0.0], [0.31, 0.0, 0.69]]))
    assert goal.met(after).tolist() == [True, False, True]
    assert ((goal.gap(after) <= 0) == goal.met(after)).all()


@few
@given(chances(6), chances(6), st.floats(0.01, 0.9))
def test_the_gap_of_a_rise_is_negative_only_where_the_goal_is_met(start: Any, end: Any, rise: float) -> None:
    box = classifier()
    goal, after = Goal.to([0, 1, 2] * 2, raise_by=rise).bind(box, box.ask(start)), box.ask(end)
    gap, met = goal.gap(after), goal.met(after)
    assert met[gap < -1e-12].all()
    assert not met[gap > 1e-12].any()
    turned = goal.missed(after)
    assert not goal.met(turned).any()
    assert (turned.output[~met] == after.output[~met]).all()
    assert turned.scores is not None
    np.testing.assert_allclose(turned.scores.sum(axis=1), 1.0)
    assert (turned.scores.argmax(axis=1) == turned.output).all()


def test_the_gap_of_a_rise_falls_on_the_way() -> None:
    box = classifier()
    goal = Goal.to(0, raise_by=0.07).bind(box, box.ask(np.array([[0.9, 0.1, 0.0]]))).take([0] * 4)
    gap = goal.gap(box.ask(np.array([[0.9, 0.1, 0], [0.92, 0.08, 0], [0.95, 0.05, 0], [0.98, 0.02, 0]])))
    assert (np.diff(gap) < 0).all() and gap[2] > 0 > gap[3]


def test_what_no_probability_can_reach_is_said() -> None:
    box = classifier()
    before = box.ask(np.array([[0.95, 0.05, 0.0], [0.9, 0.1, 0.0], [0.8, 0.1, 0.1]]))
    goal = Goal.to(0, raise_by=0.1).bind(box, before)
    reasons = goal.impossible(before).tolist()
    assert "the probability of 0 is 0.95 already, and 0.1 more would be above 1" in reasons[0]
    assert reasons[1:] == ["", ""], "0.9 + 0.1 is 1"
    assert goal.met(box.ask(np.array([[1.0, 0, 0], [1.0, 0, 0], [0.85, 0.15, 0]]))).tolist() == [False, True, False]


@pytest.mark.parametrize("wrong", [0, -0.1, 1.1, float("nan"), True, "much"])
def test_a_rise_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(GoalError, match="raise_by is"):
        Goal.to(0, raise_by=wrong)


def test_a_rise_and_a_least_probability_are_refused_together() -> None:
    with pytest.raises(GoalError, match="give one of them"):
        Goal.to(0, raise_by=0.1, min_probability=0.5)


def test_a_rise_needs_probabilities() -> None:
    with pytest.raises(GoalError, match="raise_by needs a model that gives probabilities"):
        Goal.to("low", raise_by=0.1).check(classifier(["low", "middle", "high"]))


# Labels of any type.


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        ([False, True], [True, 1, 1.0, np.bool_(True), np.int64(1), np.int8(1), np.float32(1)]),
        ([0, 1], [True, 1, 1.0, np.bool_(True), np.int64(1), np.uint8(1)]),
        ([0.0, 1.0], [True, 1, 1.0, np.bool_(True), np.int64(1)]),
        ([0.5, 1.5], [1.5, np.float64(1.5), np.float32(1.5)]),
        (["no", "yes"], ["yes", np.str_("yes")]),
    ],
)
@pytest.mark.parametrize("dtype", [None, object])
def test_labels_match_across_types(classes: list[Any], names: list[Any], dtype: Any) -> None:
    rows, outcome = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array(classes, dtype=dtype)[[0, 1, 0, 1]]

    class Model:
        classes_ = np.array(classes, dtype=dtype)

        def predict(self, X: Any) -> Any:
            return outcome[X[:, 0].astype(int)]

        def predict_proba(self, X: Any) -> Any:
            return np.column_stack([1 - X[:, 0], X[:, 0]])

    space = FeatureSpace.infer(rows)
    for model in (Model(), Model().predict):
        box = BlackBox(model, space, task="classification")
        if not any(label % 1 for label in classes if isinstance(label, float)) or not callable(model):
            box.learn(rows)
            before = box.ask(rows)
            for name in names:
                wrapped = [name, [name] * 4, pd.Series([name] * 4), pd.Series([name] * 4).astype("category")]
                wrapped += [pd.Categorical([name] * 4), np.array([name] * 4), np.array(name)]
                for label in wrapped:
                    assert Goal.to(label).bind(box, before).met(before).tolist() == [False, True] * 2
