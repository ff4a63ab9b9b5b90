"""Facts about the ranking by a table of mean effects; here the table is written down, so that all is known."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.baselines.move_table import TableRanker
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Episodes, Observer

TRAINING = pd.DataFrame({"a": [-1.0, 1.0], "b": [-1.0, 1.0]})
BOUNDS = {"a": (-4.0, 4.0), "b": (-4.0, 4.0)}
A_UP, A_DOWN, B_UP, B_DOWN = range(4)
EFFECTS = np.array([3.0, -3.0, -5.0, 4.0])  # of the four actions on the answer of a regressor


def number(rows: Any) -> Any:
    return np.asarray(3.0 * rows["a"] - 5.0 * rows["b"], dtype=float)


def three_classes(rows: Any) -> Any:
    logits = np.column_stack([np.ones(len(rows)), rows["a"], rows["b"]])
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def first_ranked(table: Any, model: Any, goal: Goal, start: Any, now: Any = None) -> int:
    """The action ranked first for one query that has been changed to `now`."""
    space = FeatureSpace.infer(TRAINING, continuous=["a", "b"], bounds=BOUNDS)
    regression = model is number
    blackbox = BlackBox(model, space, "regression" if regression else "classification")
    values = np.array([start], dtype=float)
    blackbox.learn(values)
    bound = goal.bind(blackbox, blackbox.ask(values))
    episodes = Episodes.begin(values, blackbox.ask(values), bound, space.limits(), 2)
    if now is not None:
        episodes.values[:] = now
        episodes.answer = blackbox.ask(episodes.values)
    value, extent = TableRanker(table, Observer(space, ActionTable(space), 2, 1.0), regression).rank(episodes)
    assert (extent == 1).all()
    return int(value[0].argmax())


@pytest.mark.parametrize(
    ("goal", "action"),
    [
        (Goal.between(5, 9), B_DOWN),
        (Goal.between(5, np.inf), B_DOWN),
        (Goal.between(-9, -5), B_UP),
        (Goal.between(-np.inf, -5), B_UP),
    ],
)
def test_a_number_is_moved_towards_its_range_from_either_side(goal: Goal, action: int) -> None:
    assert first_ranked(EFFECTS[None, :, None], number, goal, [0, 0]) == action


def test_a_shift_begins_with_the_largest_effect_in_either_direction() -> None:
    assert first_ranked(EFFECTS[None, :, None], number, Goal.shift(9), [0, 0]) == B_UP


@pytest.mark.parametrize(("now", "action"), [([1, 0], B_DOWN), ([-1, 0], B_UP)])
def test_a_shift_goes_on_where_the_answer_has_moved_to(now: list[float], action: int) -> None:
    assert first_ranked(EFFECTS[None, :, None], number, Goal.shift(9), [0, 0], now) == action


def test_of_classes_the_wanted_one_must_gain_more_than_the_others() -> None:
    """What raises every score as much changes no label; what lowers the other classes is as good as a rise."""
    effects = np.array([[5.0, 5.0, 5.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-3.0, -1.0, -3.0]])
    table = np.stack([effects, effects[::-1], effects[::-1]])
    assert first_ranked(table, three_classes, Goal.to(1), [0, 0]) == B_DOWN
    assert first_ranked(table, three_classes, Goal.to(2), [0, 0]) == B_UP


def test_the_table_is_that_of_the_class_which_is_answered_now() -> None:
    towards = np.array([[0.0, 2.0, 0.0], [0.0, -2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    table = np.stack([towards, -towards, -towards])
    assert first_ranked(table, three_classes, Goal.to(1), [0, 0]) == A_UP
    assert first_ranked(table, three_classes, Goal.to(1), [0, 3]) == A_DOWN


def test_the_table_holds_the_mean_effect_of_every_action() -> None:
    rows = pd.DataFrame({"a": [-1.0, 0.0, 1.0], "b": [0.0, 1.0, -1.0]})
    space = FeatureSpace.infer(rows, continuous=["a", "b"], bounds=BOUNDS)
    model = BlackBox(number, space, "regression")
    made = make_explainer("move-table", model, space, goal=Goal.shift(1.0)).fit(rows)
    assert made.table_[0, :, 0] == pytest.approx([3 * 4, -3 * 4, -5 * 4, 5 * 4])
