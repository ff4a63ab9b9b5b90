"""The vectorised environment is the MDP of the paper."""

from dataclasses import replace

import gymnasium
import numpy as np
import pandas as pd
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from reference.environment import Episode, Instance, Model
from reference.tiny import mixed_labels, mixed_probabilities, mixed_rows, mixed_signal, mixed_space

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.starts import draw_starts, typical_gap
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Episodes, Observer

MAX_CHANGES = 3
CONFIG = ReLAXConfig(start_pool=30, masked_share=0.5, bounded_share=0.5, distance_weight=0.07)
TASKS = {
    "three classes": (mixed_probabilities, "classification", Goal.flip()),
    "labels only": (mixed_labels, "classification", Goal.flip()),
    "shift": (mixed_signal, "regression", Goal.shift(1.5)),
    "range": (mixed_signal, "regression", Goal.between(1.0, 1.8)),
}


def make_env(task="three classes", actions="directional", width=7, seed=0, **settings):
    config = replace(CONFIG, actions=actions, **settings)
    rows = mixed_rows(seed=seed)
    space = mixed_space(rows)
    model, kind, goal = TASKS[task]
    blackbox = BlackBox(model, space, task=kind)
    values = space.values(rows)
    blackbox.learn(values)
    starts = draw_starts(values, blackbox, goal, MAX_CHANGES, config, np.random.default_rng(seed))
    observer = Observer(space, ActionTable(space, config.actions), MAX_CHANGES, typical_gap(starts))
    starts = starts.take(np.flatnonzero(observer.allowed(starts).any(axis=1)))
    return CounterfactualEnv(starts, observer, blackbox, config, width)


def loop_episode(env, position):
    """The reference's episode from one start of the pool."""
    pool, space = env.pool, env.observer.space
    one = pool.take(np.array([position]))
    offsets, choices = space.category_offsets, one.limits.choices[0]
    goal = one.goal
    if goal.wanted is None:
        aim = {"lower": float(goal.lower[0]), "upper": float(goal.upper[0]), "inside": goal.inside}
    else:
        aim = {"wanted": [bool(wanted) for wanted in goal.wanted[0]]}
    instance = Instance(
        start=one.start[0].tolist(),
        low=one.limits.low[0].tolist(),
        high=one.limits.high[0].tolist(),
        frozen=one.limits.frozen[0].tolist(),
        choices=[choices[offsets[j] : offsets[j + 1]].tolist() for j in range(len(space))],
        **aim,
    )

    def ask(values):
        answer = env.blackbox.ask(np.array([values]))
        return float(answer.output[0]), None if answer.scores is None else answer.scores[0].tolist()

    model = Model(ask, env.blackbox.least_probability, env.blackbox.has_probabilities)
    signed = env.config.actions == "signed"
    return Episode(space, model, instance, MAX_CHANGES, env.config.distance_weight, env.observer.gap_scale, signed)


def random_actions(env, allowed, rng):
    taken = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
    low = -1.0 if env.config.actions == "signed" else 0.0
    magnitude = rng.uniform(low, 1.0, len(taken))
    return taken, np.where(rng.random(len(taken)) < 0.2, np.round(magnitude), magnitude)  # the ends count too


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "width"), [("three classes", 1), ("three classes", 6), ("labels only", 6), ("shift", 6), ("range", 6)]
)
@pytest.mark.parametrize("actions", ["directional", "signed"])
def test_vectorised_environment_equals_the_loop(task, actions, width):
    env = make_env(task, actions, width)
    assert len(np.unique(env.pool.start, axis=0)) > 10
    known = [loop_episode(env, position) for position in range(len(env.pool.start))]
    known_observations = np.array([episode.observation() for episode in known])

    def begun(observation, allowed):
        """The loop's episode for a start that the environment drew: the one that looks and is allowed the same."""
        same = np.flatnonzero(np.isclose(known_observations, observation, rtol=1e-5, atol=1e-5).all(axis=1))
        matching = [p for p in same if known[p].allowed() == allowed.tolist()]
        assert matching, "the environment began an episode that is none of the pool's"
        return loop_episode(env, matching[0])

    rng = np.random.default_rng(1)
    observation, info = env.reset(seed=3)
    loops = [begun(*pair) for pair in zip(observation, info["allowed"], strict=True)]
    finished = 0
    for step in range(7 if width > 1 else 25):
        free = np.ones_like(info["allowed"]) if step % 3 == 2 else info["allowed"]  # now and then against the mask
        taken, magnitude = random_actions(env, free, rng)
        observation, reward, met, over, info = env.step((taken, magnitude))
        for i, loop in enumerate(loops):
            said = loop.step(int(taken[i]), float(magnitude[i]))
            assert info["values"][i].tolist() == loop.values
            assert reward[i] == pytest.approx(said["reward"], abs=1e-12)
            assert info["shaping"][i] == pytest.approx(said["shaping"], abs=1e-9)
            assert (met[i], over[i]) == (said["met"], said["over"])
            last = info["final_obs"][i] if met[i] or over[i] else observation[i]
            np.testing.assert_allclose(last, loop.observation(), rtol=1e-5, atol=1e-5)
            if met[i] or over[i]:
                loops[i] = begun(observation[i], info["allowed"][i])
                finished += 1
            else:
                assert info["allowed"][i].tolist() == loop.allowed()
    assert finished > width


def test_reward_is_the_equation_of_the_paper():
    """r = [h(x_t) ≠ h(x)] - λ (d_t - d_{t-1}) with d the L1 distance to the original, written out for two steps."""
    rows = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 10.0, 20.0, 30.0]})
    space = FeatureSpace.infer(rows, continuous=["a", "b"])
    blackbox = BlackBox(lambda x: (np.asarray(x).sum(axis=1) > 12).astype(int), space, task="classification")
    values = space.values(rows)
    answer = blackbox.learn(values)
    goal = Goal.flip().bind(blackbox, answer)
    starts = Episodes.begin(values, answer, goal, space.limits(), 2)
    observer = Observer(space, ActionTable(space), 2, 1.0)
    env = CounterfactualEnv(starts, observer, blackbox, ReLAXConfig(distance_weight=0.5), width=1)
    env.reset(options={"starts": [0]})
    scale = rows.std(ddof=0)
    _, reward, met, over, _ = env.step((np.array([0]), np.array([0.5])))  # a: 0 -> 1.5, not enough
    assert not met[0] and not over[0]
    assert reward[0] == pytest.approx(-0.5 * 1.5 / scale["a"])
    _, reward, met, over, info = env.step((np.array([2]), np.array([0.8])))  # b: 0 -> 24, sum 25.5
    assert met[0] and not over[0]
    assert reward[0] == pytest.approx(1.0 - 0.5 * 24.0 / scale["b"])
    assert info["values"].tolist() == [[1.5, 24.0]]


def test_shaping_is_apart_from_the_reward():
    seen = [make_env(shaping=shaping) for shaping in (0.0, 9.0)]
    rewards = []
    for env in seen:
        _, info = env.reset(seed=1)
        taken, magnitude = random_actions(env, info["allowed"], np.random.default_rng(0))
        _, reward, _, _, info = env.step((taken, magnitude))
        rewards.append(reward)
        assert np.abs(info["shaping"]).max() > 0
    np.testing.assert_array_equal(*rewards)


@pytest.mark.parametrize("actions", ["directional", "signed"])
def test_each_feature_changes_at_most_once_and_the_horizon_is_max_changes(actions):
    env = make_env(actions=actions, width=40)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    feature = env.observer.actions.feature
    path = [[] for _ in range(40)]
    lengths = []
    for _ in range(10):
        taken, magnitude = random_actions(env, info["allowed"], rng)
        _, _, met, over, info = env.step((taken, magnitude))
        for i in range(40):
            path[i].append(feature[taken[i]])
            changed = np.flatnonzero(info["values"][i] != info["start"][i])
            assert len(set(path[i])) == len(path[i])
            assert set(changed) <= set(path[i])
            assert len(path[i]) <= MAX_CHANGES
            if met[i] or over[i]:
                lengths.append(len(path[i]))
                path[i] = []
            elif len(path[i]) == MAX_CHANGES:
                pytest.fail("an episode went on beyond max_changes")
    assert max(lengths) == MAX_CHANGES


def test_a_directional_action_always_changes_its_feature_and_keeps_every_limit():
    env = make_env(width=50)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for _ in range(6):
        limits, start = env.episodes.limits, env.episodes.start
        taken, magnitude = random_actions(env, info["allowed"], rng)
        _, _, _, _, info = env.step((taken, magnitude * rng.choice([0.0, 1.0], 50)))
        cell = info["values"][np.arange(50), env.observer.actions.feature[taken]]
        assert (cell != info["start"][np.arange(50), env.observer.actions.feature[taken]]).all()
        assert limits.kept(info["values"], start).all()


@pytest.mark.parametrize("actions", ["directional", "signed"])
def test_an_agent_that_ignores_the_mask_breaks_no_constraint(actions):
    env = make_env(actions=actions, width=50)
    env.reset(seed=0)
    env.action_space.seed(0)
    changed = 0
    for _ in range(6):
        limits, start = env.episodes.limits, env.episodes.start
        _, _, _, _, info = env.step(env.action_space.sample())
        assert limits.kept(info["values"], start).all()
        changed += (info["values"] != start).sum()
    assert changed > 50


def test_goal_met_ends_the_episode_and_a_new_one_begins_in_the_same_step():
    env = make_env(width=30)
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    ended = 0
    for _ in range(8):
        before = env.episodes.start.copy()
        taken, magnitude = random_actions(env, info["allowed"], rng)
        observation, _, met, over, info = env.step((taken, magnitude))
        assert not (met & over).any()
        done = met | over
        ended += met.sum()
        fresh = env.episodes
        assert (fresh.left[done] == MAX_CHANGES).all() and (fresh.values[done] == fresh.start[done]).all()
        assert (fresh.left[~done] < MAX_CHANGES).all() and (fresh.start[~done] == before[~done]).all()
        np.testing.assert_array_equal(observation, env.observer.observe(fresh))
        np.testing.assert_array_equal(info["allowed"], env.observer.allowed(fresh))
        if done.any():
            np.testing.assert_array_equal(info["_final_obs"], done)
            assert (info["final_obs"][done] != observation[done]).any(axis=1).all()
    assert ended > 0


def test_it_is_a_gymnasium_vector_environment():
    for actions in ("directional", "signed"):
        env = make_env(actions=actions, width=6)
        assert isinstance(env, VectorEnv)
        assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        assert env.num_envs == 6
        observation, info = env.reset(seed=0)
        assert env.observation_space.contains(observation)
        assert all(env.single_observation_space.contains(one) for one in observation)
        rng = np.random.default_rng(0)
        for _ in range(6):
            taken, magnitude = random_actions(env, info["allowed"], rng)
            assert env.action_space.contains((taken, magnitude))
            assert env.single_action_space.contains((taken[0], np.asarray(magnitude[0])))
            observation, reward, terminated, truncated, info = env.step((taken, magnitude))
            assert env.observation_space.contains(observation)
            assert reward.shape == terminated.shape == truncated.shape == (6,)
            assert terminated.dtype == truncated.dtype == bool and reward.dtype == np.float64
            if "final_obs" in info:
                assert env.observation_space.contains(info["final_obs"])
        magnitudes = env.single_action_space[1]
        assert isinstance(env.single_action_space[0], gymnasium.spaces.Discrete)
        assert (magnitudes.low, magnitudes.high) == ((-1.0 if actions == "signed" else 0.0), 1.0)
        env.close()


def test_wrappers_of_gymnasium_work():
    env = RecordEpisodeStatistics(make_env(width=8))
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    total, lengths = 0.0, []
    for _ in range(9):
        _, reward, met, over, info = env.step(random_actions(env.unwrapped, info["allowed"], rng))
        total += reward.sum()
        lengths += info["episode"]["l"][met | over].tolist() if "episode" in info else []
    assert sum(lengths) > 8 and max(lengths) == MAX_CHANGES
    assert sum(env.return_queue) + env.episode_returns.sum() == pytest.approx(total)


def test_reset_with_a_seed_is_deterministic():
    def run(env, seed):
        observation, info = env.reset(seed=seed)
        seen, rng = [observation], np.random.default_rng(0)
        for _ in range(5):
            observation, reward, _, _, info = env.step(random_actions(env, info["allowed"], rng))
            seen += [observation, reward]
        return np.concatenate([np.ravel(part) for part in seen])

    env = make_env()
    first = run(env, 5)
    np.testing.assert_array_equal(first, run(env, 5))
    np.testing.assert_array_equal(first, run(make_env(), 5))
    assert not np.array_equal(first, run(env, 6))


def test_reset_without_a_seed_goes_on_with_the_generator():
    env = make_env()
    one, _ = env.reset(seed=5)
    two, _ = env.reset()
    assert not np.array_equal(one, two)
    env.reset(seed=5)
    again, _ = env.reset()
    np.testing.assert_array_equal(two, again)


def test_reset_begins_at_the_named_starts():
    env = make_env(width=3)
    env.reset(options={"starts": [4, 2, 4]})
    np.testing.assert_array_equal(env.episodes.start, env.pool.start[[4, 2, 4]])


def test_a_categorical_action_has_no_magnitude():
    env = make_env(width=60)
    actions = env.observer.actions
    _, info = env.reset(seed=0)
    choosing = info["allowed"] & (actions.category >= 0)
    able = np.flatnonzero(choosing.any(axis=1))
    taken = np.where(choosing.any(axis=1), choosing.argmax(axis=1), info["allowed"].argmax(axis=1))
    results = []
    for magnitude in (0.0, 0.37, 1.0):
        env.reset(seed=0)
        _, reward, _, _, info = env.step((taken, np.full(60, magnitude)))
        results.append((info["values"][able], reward[able]))
        np.testing.assert_array_equal(info["values"][able, actions.feature[taken[able]]], actions.category[taken[able]])
    for values, reward in results[1:]:
        np.testing.assert_array_equal(values, results[0][0])
        np.testing.assert_array_equal(reward, results[0][1])
    assert len(able) > 20


def test_signed_actions_move_both_ways_by_a_share_of_the_range():
    rows = pd.DataFrame({"a": np.linspace(0.0, 8.0, 9)})
    space = FeatureSpace.infer(rows, continuous=["a"])
    table = ActionTable(space, "signed")
    assert len(table) == 1
    start = np.array([[4.0], [4.0], [4.0], [4.0]])
    limits = space.limits()
    after = table.apply(start, start, limits.span(start), limits, np.zeros(4, int), np.array([0.25, -0.25, 1.0, -2.0]))
    assert after[:, 0].tolist() == [6.0, 2.0, 8.0, 0.0]


def test_the_reach_of_a_signed_action_does_not_depend_on_other_rows():
    env = make_env(actions="signed", width=2, bounded_share=1.0)
    observer, rng = env.observer, np.random.default_rng(0)
    whole = env.pool.take(np.arange(20))
    taken, magnitude = random_actions(env, observer.allowed(whole), rng)
    together = observer.change(whole, taken, magnitude).values
    for i in range(20):
        alone = observer.change(whole.take(np.array([i])), taken[i : i + 1], magnitude[i : i + 1]).values
        np.testing.assert_array_equal(alone[0], together[i])


def test_groups_keep_to_their_own_starts():
    env = make_env(width=12)
    grouped = CounterfactualEnv(env.pool.take(np.arange(20)), env.observer, env.blackbox, env.config, 12, groups=4)
    _, info = grouped.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(8):
        for i, start in enumerate(grouped.episodes.start):
            own = grouped.pool.start[5 * (i // 3) : 5 * (i // 3) + 5]
            assert (own == start).all(axis=1).any()
        _, _, _, _, info = grouped.step(random_actions(grouped, info["allowed"], rng))
