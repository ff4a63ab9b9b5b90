"""The table of moves: what a search did on the way to each wanted class, as a ranking; here it is written down."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.baselines.move_table import FAR, TableRanker
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Episodes, Observer

TRAINING = pd.DataFrame({"a": [-1.0, 1.0], "b": [-1.0, 1.0]})
SPACE = FeatureSpace.infer(TRAINING, continuous=["a", "b"], bounds={"a": (-4.0, 4.0), "b": (-4.0, 4.0)})
OBSERVER = Observer(SPACE, ActionTable(SPACE), 2, 1.0)
A_UP, A_DOWN, B_UP, B_DOWN = range(4)
NEVER = np.full(4, np.nan)


def number(rows: Any) -> Any:
    return np.asarray(3.0 * rows["a"] - 5.0 * rows["b"], dtype=float)


def three_classes(rows: Any) -> Any:
    logits = np.column_stack([np.ones(len(rows)), rows["a"], rows["b"]])
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def starts_of(model: Any, goal: Goal, starts: Any) -> Episodes:
    blackbox = BlackBox(model, SPACE, "regression" if model is number else "classification")
    values = np.array(starts, dtype=float)
    blackbox.learn(np.concatenate([values, [[-4.0, -4.0], [4.0, -4.0], [-4.0, 4.0]]]))
    answer = blackbox.ask(values)
    return Episodes.begin(values, answer, goal.bind(blackbox, answer), SPACE.limits(), 2)


def first_ranked(count: Any, model: Any, goal: Goal, start: Any = (0, 0)) -> int:
    ranker = TableRanker(np.array(count, float), np.tile(NEVER, (len(count), 1)), OBSERVER)
    value, extent = ranker.rank(starts_of(model, goal, [start]))
    assert (extent == 1).all(), "what was never seen goes all the way"
    return int(value[0].argmax())


TO_RAISE, TO_LOWER = [3, 0, 0, 5], [0, 3, 5, 0]


@pytest.mark.parametrize(
    ("goal", "action"),
    [
        (Goal.between(5, 9), B_DOWN),
        (Goal.between(-9, -5), B_UP),
        (Goal.shift(9, direction="up"), B_DOWN),
        (Goal.shift(9, direction="down"), B_UP),
    ],
)
def test_an_answer_is_moved_to_its_range_as_it_was_moved_before(goal: Goal, action: int) -> None:
    assert first_ranked([TO_RAISE, TO_LOWER], number, goal) == action


def test_a_shift_in_either_direction_begins_with_what_was_done_most_often() -> None:
    assert first_ranked([TO_RAISE, [0, 3, 9, 0]], number, Goal.shift(9)) == B_UP
    assert first_ranked([[3, 0, 0, 9], TO_LOWER], number, Goal.shift(9)) == B_DOWN


def test_the_moves_are_those_of_the_wanted_class() -> None:
    table = [[0, 5, 0, 4], [7, 0, 1, 0], [0, 1, 6, 0]]
    assert first_ranked(table, three_classes, Goal.to(1)) == A_UP
    assert first_ranked(table, three_classes, Goal.to(2)) == B_UP
    assert first_ranked(table, three_classes, Goal.to(0), (4, -4)) == A_DOWN
    assert first_ranked(table, three_classes, Goal.flip(), (-4, -4)) == A_UP, "of several wanted classes the likeliest"


def test_an_action_goes_where_it_led() -> None:
    value = np.array([NEVER, [2.0, np.nan, 1.0, -3.0], NEVER])
    ranker = TableRanker(np.ones((3, 4)), value, OBSERVER)
    _, extent = ranker.rank(starts_of(three_classes, Goal.to(1), [[0, 0], [-4, 2]]))
    assert extent[0].tolist() == [0.5, 1.0, 0.25, 0.75]  # of the way to the bound
    assert extent[1].tolist() == [0.75, 1.0, 1.0, 5 / 6], "what has come farther already goes all the way"


def test_the_table_counts_what_led_to_each_class_and_how_far() -> None:
    starts = starts_of(three_classes, Goal.to(1), [[0, 0]] * 4)
    ends = np.array([[3.0, 0], [2.0, 0], [2.5, -1.0], [0, -2.0]])
    taught = TableRanker.taught(starts, ends, OBSERVER)
    assert taught.count.tolist() == [[0, 0, 0, 0], [3, 0, 0, 2], [0, 0, 0, 0]]
    assert taught.value[1, A_UP] == pytest.approx(np.quantile([3.0, 2.0, 2.5], FAR))
    assert taught.value[1, B_DOWN] == pytest.approx(np.quantile([-1.0, -2.0], 1 - FAR))
    assert np.isnan(taught.value[0]).all()


@pytest.mark.parametrize("labels", [False, True])
def test_what_is_learned_solves_unseen_rows_at_few_evaluations(labels: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 6))

    def model(some: Any) -> Any:
        high = 1 / (1 + np.exp(-np.asarray(some)[:, :3].sum(axis=1)))
        return (high > 0.5).astype(int) if labels else np.column_stack([1 - high, high])

    found = make_explainer("move-table", model).fit(rows[:250]).explain(rows[250:])
    assert found.found.all()
    assert (found.stages[found.found] == "ranked").mean() > 0.9
    assert np.median(found.rows_queried) <= 40
