"""The parts of training and search one by one, and the ways of doing them that were not taken, side by side."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.speed.measuring import describe, timed
from relax_plugin import FeatureSpace, Goal, ReLAXConfig, make_explainer
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.layers import one_thread
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import PrioritizedReplay, Step
from relax_plugin.agent.starts import draw_starts
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.problem import Problem
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.polish import refine
from relax_plugin.search.state import Observer
from relax_plugin.surrogate.model import SurrogateBlackBox, SurrogateModel

CONFIG = ReLAXConfig()
ROUNDS = 50  # of what takes milliseconds
STEPS = 130  # of all episodes, with which a replay is filled


@pytest.fixture(scope="module")
def wave():
    """A task and ReLAX fitted on a surrogate model of it, briefly: how good it is does not matter here."""
    task = load_task("wave2/xgb")
    config = ReLAXConfig(steps=10)
    return task, make_explainer("relax-global", task.model, task.space, config=config, max_queries=40).fit(task.X_train)


def environment(task, explainer, world, width):
    rng = np.random.default_rng(0)
    starts = draw_starts(task.space.values(task.X_train), world, explainer.goal_, 5, CONFIG, rng)
    starts = starts.take(np.flatnonzero(explainer.observer_.allowed(starts).any(axis=1)))
    return CounterfactualEnv(starts, explainer.observer_, world, CONFIG, width)


@pytest.mark.parametrize("width", [1, 256, 512])
@pytest.mark.parametrize("world_name", ["the model", "its surrogate model"])
def test_a_step_of_the_environment(benchmark, wave, world_name, width):
    """Random actions, one a round in every episode; the seconds are those of one episode's step."""
    task, explainer = wave
    world = explainer.blackbox_ if world_name == "the model" else SurrogateBlackBox(explainer.surrogate_)
    env, rng = environment(task, explainer, world, width), np.random.default_rng(0)
    _, info = env.reset(seed=0)
    allowed = info["allowed"]

    def draw():
        taken = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
        return ((taken, rng.random(width)),), {}

    def step(actions):
        nonlocal allowed
        observation, *_, info = env.step(actions)
        allowed = info["allowed"]
        return observation

    describe(benchmark, f"environment step on {world_name}", f"{width} episodes", width, width == 1)
    assert len(timed(benchmark, step, ROUNDS, setup=draw)) == width


def test_acting(benchmark, wave):
    task, explainer = wave
    env = environment(task, explainer, explainer.blackbox_, CONFIG.episodes)
    states, info = env.reset(seed=0)
    describe(benchmark, "agent", "act", CONFIG.episodes)
    q, _ = timed(benchmark, lambda: explainer.agent_.evaluate(states, info["allowed"]), ROUNDS, warmup=2)
    assert (np.isfinite(q) == info["allowed"]).all()


def filled_replay(inputs=90, actions=42):
    """A full replay of the default size, with the priorities of one round of updates."""
    rng = np.random.default_rng(0)
    replay = PrioritizedReplay(1, CONFIG.replay, inputs, actions, CONFIG)
    for _ in range(STEPS):
        replay.add(random_steps(rng, CONFIG.episodes, inputs, actions))
    replay.priority[replay.priority > 0] = rng.random(len(replay)) + 0.1
    return replay


def random_steps(rng, width, inputs, actions):
    """As many successive steps as a return is over."""

    def step():
        states, allowed = rng.standard_normal((width, inputs)), rng.random((width, actions)) < 0.8
        numbers = rng.integers(0, actions, width), rng.random(width), rng.random(width), rng.random(width) < 0.3
        return Step(states, allowed, *numbers, states, allowed)

    return [step() for _ in range(CONFIG.steps_of_return)]


def test_adding_a_step_to_the_replay(benchmark):
    replay, rng = filled_replay(), np.random.default_rng(1)
    describe(benchmark, "replay", "add", CONFIG.episodes)
    timed(benchmark, replay.add, ROUNDS, setup=lambda: ((random_steps(rng, CONFIG.episodes, 90, 42),), {}))
    assert len(replay) == CONFIG.replay


def test_drawing_the_batches_of_one_step(benchmark):
    replay, rng = filled_replay(), np.random.default_rng(1)
    describe(benchmark, "replay", "sample", CONFIG.batch * CONFIG.updates_per_step)
    batches = timed(benchmark, lambda: replay.sample(CONFIG.updates_per_step, rng), ROUNDS)
    assert len(batches) == CONFIG.updates_per_step


DRAWN = CONFIG.batch * CONFIG.updates_per_step


def test_drawing_positions_by_a_cumulative_sum(benchmark):
    """All batches of a step drawn, then every drawn priority set anew. `config.py` says: quicker than a sum tree."""
    replay, rng = filled_replay(), np.random.default_rng(1)
    priority = replay.priority.ravel()

    def draw():
        cumulated = np.cumsum(priority)
        position = np.searchsorted(cumulated, rng.random(DRAWN) * cumulated[-1], side="right")
        priority[position] = rng.random(DRAWN) + 0.1
        return position

    describe(benchmark, "drawing by priority", "cumulative sum", DRAWN, yardstick=True)
    assert len(timed(benchmark, draw, ROUNDS)) == DRAWN


def test_drawing_positions_by_a_sum_tree(benchmark):
    """The same by the tree of §4.2, vectorised over what is drawn."""
    replay, rng = filled_replay(), np.random.default_rng(1)
    levels = [replay.priority.ravel().copy()]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))

    def draw():
        point, position = rng.random(DRAWN) * levels[-1][0], np.zeros(DRAWN, dtype=np.int64)
        for level in levels[-2::-1]:
            position *= 2
            left = level[position]
            right = point >= left
            point, position = point - right * left, position + right
        at = np.unique(position)
        levels[0][at] = rng.random(len(at)) + 0.1
        for below, level in pairwise(levels):
            at = np.unique(at // 2)
            level[at] = below[2 * at] + below[2 * at + 1]
        return position

    describe(benchmark, "drawing by priority", "sum tree", DRAWN)
    assert len(timed(benchmark, draw, ROUNDS)) == DRAWN


def test_an_update_of_the_agent(benchmark):
    replay, rng = filled_replay(), np.random.default_rng(1)
    space = FeatureSpace.infer(rng.standard_normal((9, 21)))
    agent = Agent(90, Observer(space, ActionTable(space), 5, 1.0), CONFIG, seed=0)
    batches = replay.sample(1, rng)
    describe(benchmark, "agent", "learn", CONFIG.batch)
    with one_thread():
        errors = timed(benchmark, lambda: agent.learn(batches[0]), ROUNDS, warmup=2)
    assert np.isfinite(errors).all()


def test_fitting_a_surrogate(benchmark, wave):
    task, explainer = wave
    values = task.space.values(task.X_train)[:1600]
    answer = explainer.blackbox_.ask(values)
    describe(benchmark, "surrogate model, fit", "wave2/xgb", len(values))
    world = timed(benchmark, lambda: SurrogateModel(explainer.blackbox_, values).fit(values, answer), rounds=2)
    world.judge(values, answer, Goal.flip().bind(explainer.blackbox_, answer))
    assert world.agreement.explained > 0.5


@pytest.mark.parametrize("way", ["predict", "predict_near"])
def test_predicting_changed_rows(benchmark, wave, way):
    """Of rows that differ in few cells from a state only these need be looked at."""
    task, explainer = wave
    world, values = explainer.surrogate_, task.space.values(task.X_test)[:300]
    feature = np.repeat(np.arange(values.shape[1]), 6)
    moved = np.repeat(values[:, None], len(feature), axis=1)
    moved[:, np.arange(len(feature)), feature] = np.random.default_rng(0).standard_normal(len(feature))
    moved, owner = moved.reshape(-1, values.shape[1]), np.repeat(np.arange(len(values)), len(feature))
    ways = {
        "predict": lambda: world.predict(moved),
        "predict_near": lambda: world.predict_near(values, world.hidden(values), owner, moved),
    }
    describe(benchmark, "surrogate model, moves", way, len(moved), way == "predict")
    told = timed(benchmark, ways[way], rounds=10, warmup=1)
    np.testing.assert_allclose(told, world.predict(moved), atol=1e-3)


def test_refining(benchmark, wave):
    """What is taken back of the policy's own counterfactuals: subsets of the changes, and bisection."""
    task, explainer = wave
    blackbox, start = explainer.blackbox_, task.space.values(task.X_test)[:1000]
    explainer = explainer.set_params(effort="policy")
    result = explainer.explain(task.X_test.iloc[:1000])
    found = np.flatnonzero(result.found[:, 0])
    start, values = start[found], result.values[found, 0]
    before = blackbox.ask(start)
    goal, limits = Goal.flip().bind(blackbox, before), task.space.limits()
    spent = np.zeros(len(start), dtype=np.int64)
    problem = Problem(task.space, blackbox, start, before, goal, limits, 5, spent)
    describe(benchmark, "refinement", "wave2/xgb", len(start))
    refined = timed(benchmark, lambda: refine(problem, values, np.arange(len(start))), rounds=5, warmup=1)
    assert task.space.distance(refined, start).mean() < task.space.distance(values, start).mean()


COLD_STARTS = {
    "import relax_plugin": "import relax_plugin",
    "first ReLAX": "import relax_plugin; relax_plugin.ReLAX",
    "first optimiser": "import relax_plugin, torch; relax_plugin.ReLAX; "
    "from relax_plugin.agent.layers import Adam; w = torch.zeros(1, requires_grad=True); "
    "Adam([w], 0.1).descend(w.sum())",
    "torch.optim.Adam (not used)": "import relax_plugin, torch; relax_plugin.ReLAX; "
    "torch.optim.Adam([torch.zeros(1, requires_grad=True)])",
}


@pytest.mark.parametrize("label", COLD_STARTS)
def test_a_new_process(benchmark, label):
    """What everyone waits for once: imports; and why `torch.optim.Adam`, which imports the compiler, is not used."""
    describe(benchmark, "new process", label, yardstick=label == "import relax_plugin")
    command = [sys.executable, "-c", COLD_STARTS[label]]
    assert timed(benchmark, lambda: subprocess.run(command), rounds=2, cpu_clock=seconds_of_children).returncode == 0
    del benchmark.extra_info["peak_mebibytes"]  # of this process, not of the new one


def seconds_of_children():
    times = os.times()
    return times.children_user + times.children_system
