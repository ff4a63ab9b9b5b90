"""Prioritised replay: n-step returns, priorities, members, importance weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from reference.replay import Step, n_step_target

from relax_plugin import ReLAXConfig
from relax_plugin.agent.replay import LEAST_PRIORITY, PrioritizedReplay

ACTIONS = 3
CONFIG = ReLAXConfig(batch=64, updates_per_step=1, discount=0.5, steps_of_return=2)


def filled(members=1, width=4, length=8, steps=6, seed=0):
    """A replay and the streams it was filled with. A state's single number names its episode and time."""
    rng = np.random.default_rng(seed)
    replay = PrioritizedReplay(members, width, length, 1, ACTIONS)
    streams = [[] for _ in range(width)]
    for time in range(steps):
        states = 1000.0 * np.arange(width) + time
        reward, done = rng.standard_normal(width), rng.random(width) < 0.3
        actions = (np.arange(width) + time) % ACTIONS
        allowed = np.arange(ACTIONS) != (actions[:, None] + 1) % ACTIONS
        replay.add(states[:, None], allowed, actions, states / 7.0, reward, done)
        for i, stream in enumerate(streams):
            stream.append(Step(int(states[i]), float(reward[i]), bool(done[i])))
    return replay, streams


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("steps", [2, 6, 8, 9, 13, 30])  # not full, exactly full, wrapped around once and more
def test_n_step_returns_equal_the_loop(steps, n):
    replay, streams = filled(steps=steps)
    (batch,) = replay.sample(replace(CONFIG, steps_of_return=n, batch=400), np.random.default_rng(1))
    seen = set()
    for i in range(400):
        episode, time = divmod(int(batch.states[0, i, 0]), 1000)
        seen.add((episode, time))
        returns, discount, next_state = n_step_target(streams[episode], time, n, CONFIG.discount)
        assert float(batch.returns[0, i]) == pytest.approx(returns, abs=1e-6)
        assert float(batch.discounts[0, i]) == pytest.approx(discount, abs=1e-7)
        if next_state is not None:
            assert int(batch.next_states[0, i, 0]) == next_state
            followed = (next_state // 1000 + next_state % 1000) % ACTIONS
            assert batch.next_allowed[0, i].tolist() == [a != (followed + 1) % ACTIONS for a in range(ACTIONS)]
    # Everything kept is drawn, except the newest step, whose successor is not known; and nothing older.
    oldest = max(0, steps - 8)
    assert seen == {(episode, time) for episode in range(4) for time in range(oldest, steps - 1)}


def test_what_is_drawn_is_what_was_stored():
    replay, _ = filled(steps=7)
    (batch,) = replay.sample(CONFIG, np.random.default_rng(0))
    states = batch.states[0, :, 0].numpy()
    np.testing.assert_allclose(batch.parameters[0].numpy(), states / 7.0, rtol=1e-6)
    np.testing.assert_array_equal(batch.actions[0].numpy(), (states // 1000 + states % 1000) % ACTIONS)
    assert batch.allowed.gather(-1, batch.actions.unsqueeze(-1)).all()
    np.testing.assert_array_equal(replay.states.reshape(-1)[batch.positions[0].numpy()], states)


def test_length_counts_what_can_be_drawn():
    for steps, expected in ((1, 0), (2, 4), (6, 20), (8, 28), (20, 28)):
        replay, _ = filled(steps=steps)
        assert len(replay) == expected


def test_a_step_is_cut_into_its_updates():
    replay, _ = filled()
    batches = replay.sample(replace(CONFIG, batch=16, updates_per_step=5), np.random.default_rng(0))
    assert [tuple(batch.states.shape) for batch in batches] == [(1, 16, 1)] * 5
    assert len({tuple(batch.positions[0].tolist()) for batch in batches}) == 5


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_priorities_change_frequencies_as_the_power_of_the_error(exponent):
    replay, _ = filled(width=2, steps=6)
    positions = np.flatnonzero(replay.priority.ravel() > 0)
    errors = np.linspace(-3.0, 2.0, len(positions))
    replay.update(torch.from_numpy(positions), errors, exponent)
    (batch,) = replay.sample(replace(CONFIG, batch=100_000), np.random.default_rng(0))
    share = np.bincount(batch.positions[0].numpy(), minlength=replay.priority.size)[positions] / 100_000
    expected = (np.abs(errors) + LEAST_PRIORITY) ** exponent
    np.testing.assert_allclose(share, expected / expected.sum(), atol=0.006)


def test_a_new_step_gets_the_highest_priority():
    replay, _ = filled(width=2, steps=4)
    positions = np.flatnonzero(replay.priority.ravel() > 0)
    replay.update(torch.from_numpy(positions), np.full(len(positions), 9.0), 1.0)
    for _ in range(2):
        replay.add(
            np.zeros((2, 1)), np.ones((2, ACTIONS), bool), np.zeros(2, int), np.zeros(2), np.zeros(2), np.zeros(2)
        )
    np.testing.assert_allclose(replay.priority[:, 3:5], 9.0 + LEAST_PRIORITY)


def test_importance_weights_undo_the_priorities():
    replay, _ = filled(width=2, steps=6)
    positions = np.flatnonzero(replay.priority.ravel() > 0)
    errors = np.geomspace(0.01, 5.0, len(positions))
    replay.update(torch.from_numpy(positions), errors, 1.0)
    for exponent in (0.0, 0.4, 1.0):
        (batch,) = replay.sample(replace(CONFIG, batch=2000, importance_exponent=exponent), np.random.default_rng(0))
        chance = replay.priority.ravel()[batch.positions[0].numpy()] / replay.priority.sum()
        expected = (1.0 / chance) ** exponent
        np.testing.assert_allclose(batch.weights[0].numpy(), expected / expected.max(), rtol=1e-4)
    # At exponent 1 the weighted mean of the drawn rewards is that of uniform drawing.
    (batch,) = replay.sample(replace(CONFIG, batch=200_000, importance_exponent=1.0), np.random.default_rng(0))
    rewards = replay.rewards.ravel()
    weighted = np.average(rewards[batch.positions[0].numpy()], weights=batch.weights[0].numpy())
    assert weighted == pytest.approx(rewards[positions].mean(), abs=0.06)


def test_members_never_see_each_others_transitions():
    replay, _ = filled(members=3, width=6, steps=20)
    rng = np.random.default_rng(0)
    positions = np.flatnonzero(replay.priority.ravel() > 0)
    replay.update(torch.from_numpy(positions), rng.exponential(size=len(positions)) ** 4, 1.0)
    (batch,) = replay.sample(replace(CONFIG, batch=5000), rng)
    assert batch.states.shape == (3, 5000, 1)
    for member in range(3):
        episodes = batch.states[member, :, 0].numpy() // 1000
        assert set(episodes) == {2 * member, 2 * member + 1}
        assert set(batch.next_states[member, :, 0].numpy() // 1000) == {2 * member, 2 * member + 1}
        assert float(batch.weights[member].max()) == 1.0  # the correction is each member's own


def test_a_member_draws_the_same_shares_alone_and_in_company():
    replay, _ = filled(members=2, width=4, steps=6)
    positions = np.flatnonzero(replay.priority.ravel() > 0)
    errors = np.where(positions < replay.priority.size // 2, 0.1, 5.0) * (1 + positions % 3)
    replay.update(torch.from_numpy(positions), errors, 1.0)
    (batch,) = replay.sample(replace(CONFIG, batch=60_000), np.random.default_rng(0))
    for member in range(2):
        own = positions[positions // (2 * replay.length) == member]
        share = np.bincount(batch.positions[member].numpy(), minlength=replay.priority.size)[own] / 60_000
        expected = replay.priority.ravel()[own]
        np.testing.assert_allclose(share, expected / expected.sum(), atol=0.01)


def test_the_share_of_the_highest_priorities_is_their_share_of_the_draws():
    replay, _ = filled(width=4, length=16, steps=11)  # ten of each four are stored
    assert np.isnan(PrioritizedReplay(1, 4, 8, 1, ACTIONS).share_of_the_highest(0.1))
    assert replay.share_of_the_highest(0.1) == pytest.approx(0.1)  # all alike
    replay.update(torch.tensor([[3, 17, 18, 35]]), np.array([[3.0, 1.0, 2.0, 5.0]]), 1.0)
    stored = replay.priority[replay.priority > 0]
    assert len(stored) == len(replay) == 40
    assert replay.share_of_the_highest(0.05) == pytest.approx((3.0 + 5.0 + 2 * LEAST_PRIORITY) / stored.sum())
    (batch,) = replay.sample(replace(CONFIG, batch=20_000), np.random.default_rng(0))
    drawn = np.isin(batch.positions.numpy(), [3, 35]).mean()
    assert drawn == pytest.approx(replay.share_of_the_highest(0.05), abs=0.01)
