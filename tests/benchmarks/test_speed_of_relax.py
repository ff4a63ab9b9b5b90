"""Speed of the core, measured by pytest-benchmark: `make bench`. Ratios are taken side by side in one run."""

import resource

import numpy as np
import pytest

from relax_plugin import ReLAXConfig, make_explainer
from relax_plugin.datasets import waveform
from relax_plugin.environment import CounterfactualEnv
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.replay import PrioritizedReplay
from relax_plugin.starts import draw_starts


@pytest.fixture(scope="module")
def wave():
    task = load_task("wave2/xgb", seed=0)
    explainer = make_explainer("relax-global", task.model, task.space, progress=False).fit(task.X_train)
    return task, explainer


def wave_rows(count, columns):
    X, y = waveform(int(count * 1.6), 3, seed=1)
    return X[(y < 2).to_numpy()].iloc[:count].set_axis(columns, axis=1)


@pytest.mark.parametrize("effort", ["policy", "refined", "search"])
def test_rows_per_second_of_each_effort(benchmark, wave, effort):
    task, explainer = wave
    rows = wave_rows(8192, task.X_test.columns)
    explainer.set_params(effort=effort)
    result = benchmark.pedantic(explainer.explain, args=(rows,), rounds=3, warmup_rounds=1)
    benchmark.extra_info["rows_per_second"] = len(rows) / benchmark.stats.stats.min
    benchmark.extra_info["validity"] = float(result.found.mean())
    assert len(result) == 8192


def test_rows_per_second_of_greedy(benchmark, wave):
    task, _ = wave
    greedy = make_explainer("greedy", task.model, task.space).fit(task.X_train)
    rows = wave_rows(1024, task.X_test.columns)
    result = benchmark.pedantic(greedy.explain, args=(rows,), rounds=3)
    benchmark.extra_info["rows_per_second"] = len(rows) / benchmark.stats.stats.min
    assert result.found.any()


def test_a_million_rows_run_in_bounded_memory(benchmark, wave):
    task, explainer = wave
    explainer.set_params(effort="policy")
    rows = wave_rows(1_000_000, task.X_test.columns)
    result = benchmark.pedantic(explainer.explain, args=(rows,), rounds=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    benchmark.extra_info["rows_per_second"] = len(rows) / benchmark.stats.stats.min
    benchmark.extra_info["peak_mebibytes_of_the_process"] = peak / 1024  # making the rows included
    benchmark.extra_info["rows_mebibytes"] = float(rows.memory_usage().sum()) / 2**20
    assert result.found.shape == (1_000_000, 1)


def test_a_step_of_512_episodes(benchmark, wave):
    task, explainer = wave
    rng = np.random.default_rng(0)
    values = task.space.values(task.X_train)
    starts = draw_starts(values, explainer.blackbox_, explainer.goal_, 5, ReLAXConfig(), rng)
    starts = starts.rows(np.flatnonzero(explainer.observer_.allowed(starts).any(axis=1)))
    env = CounterfactualEnv(starts, explainer.observer_, explainer.blackbox_, ReLAXConfig(), 512)
    states, info = env.reset(seed=0)

    def step():
        taken, magnitude = explainer.agent_.act(states, info["allowed"], 0.1, rng)
        env.reset(seed=0)
        return env.step((taken, magnitude))

    assert benchmark(step)[1].shape == (512,)


def test_drawing_the_batches_of_one_step(benchmark):
    rng = np.random.default_rng(0)
    replay = PrioritizedReplay(1, 512, 128, 90, 42)
    for _ in range(130):
        states = rng.standard_normal((512, 90)).astype(np.float32)
        allowed, done = rng.random((512, 42)) < 0.8, rng.random(512) < 0.3
        replay.add(states, allowed, rng.integers(0, 42, 512), rng.random(512), rng.random(512), done)
    config = ReLAXConfig()
    assert len(benchmark(replay.sample, config, rng)) == config.updates_per_step
