"""Actions are ranked by what a world model expects of them; here it is exact, so that all can be computed by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Episodes, Observer
from relax_plugin.world_model.lookahead import SOLVED, LookaheadRanker, TakingTurns
from relax_plugin.world_model.model import WorldModel

TRAINING = pd.DataFrame({name: [-1.0, 1.0] for name in "abc"})  # mean 0 and scale 1 each
BOUNDS = {"a": (-4.0, 4.0), "b": (-4.0, 4.0), "c": (-1.0, 1.0)}
COLOURS = {"blue": 0.0, "green": 1.0, "red": -2.0}
A_UP, A_DOWN, B_UP, B_DOWN, C_UP, C_DOWN = range(6)
ORIGIN, BEYOND = [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]  # where the signal is -1.5 and 1.5


def signal(rows):
    number = np.asarray(rows["a"] + 2.0 * rows["b"] - 0.5 * rows["c"] - 1.5, dtype=np.float64)
    return number + rows["colour"].map(COLOURS).to_numpy(dtype=np.float64) if "colour" in rows else number


def decision(rows):
    return np.column_stack([-signal(rows), signal(rows)]) / 2


def probabilities(rows):
    return 1.0 / (1.0 + np.exp(-2.0 * decision(rows)))


def labels(rows):
    return np.where(signal(rows) > 0, "yes", "no")


class ExactWorld(WorldModel):
    """Knows the signal up to an offset."""

    def __init__(self, blackbox, offset):
        super().__init__(blackbox, np.zeros((1, len(blackbox.space))))
        self.offset = np.asarray(offset)

    def predict(self, values):
        rows = self.space.model_input(values)
        return signal(rows)[:, None] + self.offset  # a number, or the logit of two classes

    def predict_changed(self, states, row, feature, value):
        moved = states[row]
        moved[np.arange(len(row)), feature] = value
        return self.predict(moved)


def setting(starts, model=decision, goal=None, style="directional", offset=0.0, training=TRAINING, **rules):
    """The lookahead of an exact world, and episodes at these starts."""
    space = FeatureSpace.infer(training, continuous=["a", "b", "c"], bounds=BOUNDS, **rules)
    blackbox = BlackBox(model, space, "regression" if model is signal else "classification")
    blackbox.learn(space.values(training))
    blackbox.least_probability = 1e-6
    values = np.array(starts)
    answer = blackbox.ask(values)
    bound = (goal or Goal.flip()).bind(blackbox, answer)
    observer = Observer(space, ActionTable(space, style), 3, 1.0)
    episodes = Episodes.begin(values, answer, bound, space.limits(), 3)
    return LookaheadRanker(ExactWorld(blackbox, offset), observer), episodes


def ranked(*args, **kwargs):
    lookahead, episodes = setting(*args, **kwargs)
    return lookahead.rank(episodes)


@pytest.mark.parametrize("model", [decision, probabilities, labels])
def test_actions_that_meet_the_goal_come_first_the_closest_before_then_the_smallest_gap(model):
    """From the origin a must go 1.5 up or b 0.75; c is not enough. From beyond it is the other way round."""
    value, magnitude = ranked([ORIGIN, BEYOND], model)
    by_hand = [
        [SOLVED - 1.5, -5.5, SOLVED - 0.75, -9.5, -2.0, -1.0],
        [-2.5, SOLVED - 1.5, -9.5, SOLVED - 0.75, -1.0, -2.0],
    ]
    np.testing.assert_allclose(value, by_hand, rtol=0, atol=1e-6)
    assert np.argsort(-value[0]).tolist() == [B_UP, A_UP, C_DOWN, C_UP, A_DOWN, B_DOWN]
    assert (magnitude == 1.0).all()


def test_what_was_changed_before_counts_and_is_not_changed_again():
    lookahead, episodes = setting([ORIGIN])
    after = lookahead.observer.advance(episodes, np.array([C_DOWN]), np.ones(1), lookahead.world.blackbox)
    value, _ = lookahead.rank(after)  # c went 1 away, and 1 is left of the gap
    by_hand = [SOLVED - 2.0, -5.0, SOLVED - 1.5, -9.0, -np.inf, -np.inf]
    np.testing.assert_allclose(value[0], by_hand, rtol=0, atol=1e-6)


def test_actions_that_are_not_allowed_are_never_ranked():
    starts = [[0.0, 4.0, 0.0], [0.0, -4.0, 0.0], [-4.0, 0.0, 0.0]]  # b at its bounds, then a
    value, _ = ranked(starts, immutable=["c"], increase_only=["a"])
    allowed = [[A_UP, B_DOWN], [A_UP, B_UP], [A_UP, B_UP, B_DOWN]]
    assert [np.flatnonzero(row > -np.inf).tolist() for row in value] == allowed
    assert not np.isnan(value).any()


@pytest.mark.parametrize("model", [decision, labels])
def test_where_nothing_is_allowed_nothing_is_ranked(model):
    value, magnitude = ranked([ORIGIN, BEYOND], model, immutable=["a", "b", "c"])
    assert value.shape == magnitude.shape == (2, 6)
    assert (value == -np.inf).all()


@pytest.mark.parametrize("model", [decision, probabilities, signal])
@pytest.mark.parametrize("offset", [3.0, -30.0])
@pytest.mark.parametrize("style", ["directional", "signed"])
def test_the_answer_of_the_model_corrects_a_biased_world(model, offset, style):
    starts = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 3))
    goal = Goal.between(6.0, np.inf) if model is signal else Goal.flip()
    (exact, exactly), (biased, as_biased) = (ranked(starts, model, goal, style, offset=o) for o in (0.0, offset))
    np.testing.assert_allclose(biased, exact, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(as_biased, exactly)


@pytest.mark.parametrize("model", [decision, labels])
def test_signed_actions_go_towards_the_goal(model):
    value, magnitude = ranked([ORIGIN, BEYOND], model, style="signed")
    assert magnitude.tolist() == [[1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    np.testing.assert_allclose(value, [[SOLVED - 1.5, SOLVED - 0.75, -1.0]] * 2, rtol=0, atol=1e-6)


def test_a_number_may_be_shifted_either_way():
    """From -1.5 to 0.5 or to -3.5."""
    value, _ = ranked([ORIGIN], signal, Goal.shift(2.0))
    by_hand = [SOLVED - 2.0, SOLVED - 2.0, SOLVED - 1.0, SOLVED - 1.0, -1.5, -1.5]
    np.testing.assert_allclose(value[0], by_hand, rtol=0, atol=1e-6)


def test_a_probability_asked_for_must_be_reached():
    goal = Goal.to(1, min_probability=float(1.0 / (1.0 + np.exp(-5.0))))  # a signal of 5: more than a can do
    value, _ = ranked([ORIGIN], probabilities, goal)
    assert value[0, B_UP] > SOLVED / 2
    assert np.delete(value[0], B_UP).max() == value[0, A_UP] < 0


def test_categories_are_looked_ahead_of_too():
    training = pd.concat([TRAINING] * 3, ignore_index=True).assign(colour=["blue", "green", "red"] * 2)
    value, _ = ranked([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 2.0]], training=training)
    blue, green, red = value[:, 6:].T
    assert blue[0] == red[1] == -np.inf  # their own
    np.testing.assert_allclose([green[0], red[0], blue[1]], [-0.5, -3.5, -0.5])
    assert green[1] > SOLVED / 2


def stub(value, magnitude):
    return SimpleNamespace(rank=lambda episodes: (value, magnitude), exact=False)


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(6)), st.permutations(range(6)), st.sets(st.integers(0, 5), min_size=1))
def test_agent_and_lookahead_take_turns_without_repeating(agent, ahead, allowed):
    barred = ~np.isin(np.arange(6), list(allowed))
    first, second = (np.where(barred, -np.inf, -np.argsort(order) * 0.1)[None] for order in (agent, ahead))
    far = np.linspace(-1.0, 1.0, 6)[None]
    value, magnitude = TakingTurns(stub(first, np.full((1, 6), 0.3)), stub(second, far)).rank(None)
    orders = [[action for action in order if action in allowed] for order in (agent, ahead)]
    in_turn = [action for pair in zip(*orders, strict=True) for action in pair]
    assert np.argsort(-value[0])[: len(allowed)].tolist() == list(dict.fromkeys(in_turn))
    np.testing.assert_array_equal(value[0] == -np.inf, barred)
    np.testing.assert_array_equal(magnitude, far)


def test_turns_are_taken_row_by_row_and_go_as_far_as_the_lookahead_says():
    lookahead, episodes = setting([ORIGIN, BEYOND])
    agent = stub(-np.tile(np.arange(6.0), (2, 1)), np.full((2, 6), 0.2))
    value, magnitude = TakingTurns(agent, lookahead).rank(episodes)
    order = np.argsort(-value, axis=1)
    assert order[0].tolist() == [A_UP, B_UP, A_DOWN, C_DOWN, B_DOWN, C_UP]
    assert order[1].tolist() == [A_UP, B_DOWN, A_DOWN, B_UP, C_UP, C_DOWN]
    assert (magnitude == 1.0).all()


def test_many_states_are_looked_ahead_of_in_blocks(monkeypatch):
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 3)).tolist()
    whole = ranked(states)
    monkeypatch.setattr("relax_plugin.world_model.lookahead.ROWS_AT_ONCE", 20)  # three states of six actions
    for one, other in zip(whole, ranked(states), strict=True):
        np.testing.assert_array_equal(one, other)
