"""Prioritised replay: n-step returns, priorities, members, demonstrations, importance weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from reference.replay import Moment, n_step_target

from relax_plugin import ReLAXConfig
from relax_plugin.agent import replay as replay_module
from relax_plugin.agent.replay import BONUS, LEAST_PRIORITY, PrioritizedReplay, Step

ACTIONS = 3
CONFIG = ReLAXConfig(batch=64, discount=0.5, steps_of_return=2)


def streams_of(width, steps, seed=0):
    """Steps of episodes side by side, and each episode's stream. A state's number names its episode and time."""
    rng = np.random.default_rng(seed)
    made, streams = [], [[] for _ in range(width)]
    for time in range(steps):
        states = 1000.0 * np.arange(width) + time
        reward, done = rng.standard_normal(width), rng.random(width) < 0.3
        actions = (np.arange(width) + time) % ACTIONS
        allowed = np.arange(ACTIONS) != (actions[:, None] + 1) % ACTIONS
        after = states + np.where(done, 0.5, 1.0)  # the last state of an episode is no state of the next
        made.append(
            Step(states[:, None], allowed, actions, states / 7.0, reward, done, after[:, None], np.roll(allowed, 1))
        )
        for i, stream in enumerate(streams):
            stream.append(Moment(states[i], float(reward[i]), after[i], bool(done[i])))
    return made, streams


def filled(members=1, width=4, length=400, steps=6, config=CONFIG, demonstrated=False):
    replay = PrioritizedReplay(members, length, 1, ACTIONS, config)
    made, streams = streams_of(width, steps)
    for at in range(steps - config.steps_of_return + 1):
        replay.add(made[at : at + config.steps_of_return], demonstrated)
    return replay, streams


def drawn(replay, batch, seed=0):
    replay.config = replace(replay.config, batch=batch)
    (one,) = replay.sample(1, np.random.default_rng(seed))
    return one


def with_priorities(replay, errors, exponent=1.0):
    """The replay after it has learned from all it holds, with these errors, and their positions."""
    replay.config = replace(replay.config, priority_exponent=exponent)
    positions = np.flatnonzero(replay.priority.ravel() > 0)
    demonstrated = torch.from_numpy(replay.stored["demonstrated"].ravel()[positions])
    learned = drawn(replay, len(positions))._replace(positions=torch.from_numpy(positions), demonstrated=demonstrated)
    replay.update(learned, errors(len(positions)) if callable(errors) else errors)
    return positions


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("steps", [6, 9, 30])
def test_n_step_returns_equal_the_loop(steps, n):
    replay, streams = filled(steps=steps, config=replace(CONFIG, steps_of_return=n))
    batch, seen = drawn(replay, 2000), set()
    for i in range(2000):
        episode, time = divmod(int(batch.states[0, i, 0]), 1000)
        seen.add((episode, time))
        returns, discount, next_state = n_step_target(streams[episode], time, n, CONFIG.discount)
        assert float(batch.returns[0, i]) == pytest.approx(returns, abs=1e-6)
        assert float(batch.discounts[0, i]) == pytest.approx(discount, abs=1e-7)
        assert float(batch.next_states[0, i, 0]) == next_state
    # Everything is drawn, except the newest steps, whose n successors are not known.
    assert seen == {(episode, time) for episode in range(4) for time in range(steps - n + 1)}


def test_what_is_drawn_is_what_was_stored():
    replay, _ = filled(steps=7)
    batch = drawn(replay, 64)
    states = batch.states[0, :, 0].numpy()
    np.testing.assert_allclose(batch.parameters[0].numpy(), states / 7.0, rtol=1e-6)
    np.testing.assert_array_equal(batch.actions[0].numpy(), (states // 1000 + states % 1000) % ACTIONS)
    assert batch.allowed.gather(-1, batch.actions.unsqueeze(-1)).all()
    np.testing.assert_array_equal(replay.stored["states"].reshape(-1)[batch.positions[0].numpy()], states)


def test_a_full_ring_forgets_the_oldest():
    for steps, expected in ((2, 4), (6, 20), (8, 20), (20, 20)):
        replay, _ = filled(steps=steps, length=20)
        assert len(replay) == expected
    assert replay.stored["states"].min() % 1000 == 14  # of the first episode, of twenty steps the last five whole ones


def test_a_batch_longer_than_the_ring_leaves_its_end():
    replay, _ = filled(width=30, length=20, steps=2)
    assert len(replay) == 20
    assert sorted(replay.stored["states"].ravel() // 1000) == list(range(10, 30))


def test_a_draw_is_cut_into_its_updates():
    replay, _ = filled()
    replay.config = replace(CONFIG, batch=16)
    batches = replay.sample(5, np.random.default_rng(0))
    assert [tuple(batch.states.shape) for batch in batches] == [(1, 16, 1)] * 5
    assert len({tuple(batch.positions[0].tolist()) for batch in batches}) == 5


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_priorities_change_frequencies_as_the_power_of_the_error(exponent):
    replay, _ = filled(width=2)
    positions = with_priorities(replay, lambda count: np.linspace(-3.0, 2.0, count), exponent)
    batch = drawn(replay, 100_000)
    share = np.bincount(batch.positions[0].numpy(), minlength=replay.priority.size)[positions] / 100_000
    expected = (np.abs(np.linspace(-3.0, 2.0, len(positions))) + LEAST_PRIORITY) ** exponent
    np.testing.assert_allclose(share, expected / expected.sum(), atol=0.006)


def test_a_new_step_gets_the_highest_priority():
    replay, _ = filled(width=2, steps=4)
    with_priorities(replay, lambda count: np.full(count, 9.0))
    before = len(replay)
    made, _ = streams_of(2, 2)
    replay.add(made)
    np.testing.assert_allclose(replay.priority[0, before : before + 2], 9.0 + LEAST_PRIORITY)


def test_demonstrations_keep_a_bonus():
    replay, _ = filled(width=2, demonstrated=True)
    bonus = BONUS
    stored = replay.priority[replay.priority > 0]
    np.testing.assert_allclose(stored, 1.0 + bonus)
    positions = with_priorities(replay, lambda count: np.linspace(0.0, 2.0, count))
    np.testing.assert_allclose(
        replay.priority.ravel()[positions], np.linspace(0.0, 2.0, len(positions)) + LEAST_PRIORITY + bonus
    )
    assert (drawn(replay, 32).demonstrated == 1).all()


def test_some_episodes_of_a_step_may_be_chosen():
    replay, made = PrioritizedReplay(1, 400, 1, ACTIONS, CONFIG), streams_of(6, 3)[0]
    replay.add(made[:2], chosen=np.array([1, 4]))
    assert len(replay) == 2
    assert sorted(replay.stored["states"][0, :2, 0] // 1000) == [1, 4]


def test_importance_weights_undo_the_priorities(monkeypatch):
    replay, _ = filled(width=2)
    positions = with_priorities(replay, lambda count: np.geomspace(0.01, 5.0, count))
    for exponent in (0.0, 0.4, 1.0):
        monkeypatch.setattr(replay_module, "IMPORTANCE", exponent)
        batch = drawn(replay, 2000)
        chance = replay.priority.ravel()[batch.positions[0].numpy()] / replay.priority.sum()
        expected = (1.0 / chance) ** exponent
        np.testing.assert_allclose(batch.weights[0].numpy(), expected / expected.max(), rtol=1e-4)
    # At exponent 1 the weighted mean of the drawn returns is that of uniform drawing.
    batch = drawn(replay, 200_000)
    returns = replay.stored["returns"].ravel()
    weighted = np.average(returns[batch.positions[0].numpy()], weights=batch.weights[0].numpy())
    assert weighted == pytest.approx(returns[positions].mean(), abs=0.06)


def test_members_never_see_each_others_transitions():
    replay, _ = filled(members=3, width=6, steps=20)
    rng = np.random.default_rng(0)
    with_members = replay.sample(1, rng)[0]
    replay.update(with_members, rng.exponential(size=with_members.weights.shape) ** 4)
    batch = drawn(replay, 5000)
    assert batch.states.shape == (3, 5000, 1)
    for member in range(3):
        episodes = batch.states[member, :, 0].numpy() // 1000
        assert set(episodes) == {2 * member, 2 * member + 1}
        assert set(batch.next_states[member, :, 0].numpy() // 1000) == {2 * member, 2 * member + 1}
        assert float(batch.weights[member].max()) == 1.0  # the correction is each member's own


def test_the_share_of_the_highest_priorities_is_their_share_of_the_draws():
    replay, _ = filled(width=4, steps=11)  # ten of each four are stored
    assert np.isnan(PrioritizedReplay(1, 8, 1, ACTIONS, CONFIG).share_of_the_highest(0.1))
    assert replay.share_of_the_highest(0.1) == pytest.approx(0.1)  # all alike
    errors = np.full(40, 1.0)
    errors[[3, 17, 18, 35]] = [3.0, 1.0, 2.0, 5.0]
    with_priorities(replay, errors)
    stored = replay.priority[replay.priority > 0]
    assert len(stored) == len(replay) == 40
    assert replay.share_of_the_highest(0.05) == pytest.approx((3.0 + 5.0 + 2 * LEAST_PRIORITY) / stored.sum())
    hits = np.isin(drawn(replay, 20_000).positions.numpy(), [3, 35]).mean()
    assert hits == pytest.approx(replay.share_of_the_highest(0.05), abs=0.01)
