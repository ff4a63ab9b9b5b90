"""What the contract itself costs beside the model: projections, frames, and all that is done for a single row."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.speed.measuring import describe, timed, timed_explanation
from relax_plugin import BlackBox, make_explainer
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Proposals
from relax_plugin.search.moves import Moves

QUERIES = 50
SINGLE_ROWS = 20


def wide(features):
    """Rows of so many numbers, and a quick model of all of them."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((1000, features)), columns=[f"x{j}" for j in range(features)])
    above = rows.to_numpy() @ rng.standard_normal(features) > 0
    return rows, LogisticRegression().fit(rows, above)


@pytest.mark.parametrize("features", [20, 60, 200])
def test_greedy_on_wide_tables(benchmark, features):
    rows, model = wide(features)
    explainer = make_explainer("greedy", model).fit(rows)
    describe(benchmark, "greedy, by features", f"{features} features", QUERIES, features == 20)
    explain = lambda: [explainer.explain(rows[:QUERIES])]  # noqa: E731
    assert timed_explanation(benchmark, explainer, explain, QUERIES, rounds=3, warmup=1)[0].found.all()


@pytest.mark.parametrize("way", ["the cells that move", "whole rows (not used)"])
def test_projecting_the_moves_of_greedy(benchmark, way):
    """The claim of `search/moves.py`: a move changes one cell, and the others need not be looked at."""
    rows, _ = wide(200)
    space = FeatureSpace.infer(rows)
    limits, values = space.limits(), space.values(rows)
    moves, start = Moves.quantiles(values, space, 20), values[:5]
    target = np.clip(moves.value, *(end[:, moves.feature] for end in limits.span(start)))
    owner, move = (index.ravel() for index in np.indices(target.shape))
    position = np.arange(len(owner)), moves.feature[move]

    def whole_rows():
        candidates = start[owner]
        candidates[position] = target.ravel()
        return limits.project(candidates, start[owner])[position].reshape(target.shape)

    single_cells = lambda: limits.project(target, start, moves.feature)  # noqa: E731
    project = single_cells if way == "the cells that move" else whole_rows
    describe(benchmark, "projection of moves, 200 features", way, target.size, project is single_cells)
    assert np.array_equal(timed(benchmark, project, rounds=5, warmup=1), single_cells())


@pytest.mark.parametrize("rows", [1, 20_000])
@pytest.mark.parametrize("way", ["arrays", "frames"])
def test_asking_xgboost(benchmark, way, rows):
    """The claim of `BlackBox.learn`: a library may read arrays much faster than frames."""
    task = load_task("wave2/xgb")
    box = BlackBox(task.model, task.space)
    values = task.space.values(task.X_train)
    box.learn(values[:256])
    assert box.by_arrays
    box.by_arrays = way == "arrays"
    asked = np.resize(values, (rows, values.shape[1]))
    describe(benchmark, f"asking XGBoost, {rows} rows", way, rows, way == "frames")
    assert len(timed(benchmark, lambda: box.ask(asked), rounds=20, warmup=2)) == rows


class OneChange(CounterfactualExplainer):
    """A method that costs nothing: the first feature takes another training row's value."""

    def _fit(self, values, rng):
        self.seen_ = np.unique(values[:, 0])

    def _generate(self, problem, n, rng):
        made = Proposals.empty(problem, n)
        last = self.seen_[-1] == problem.start[:, 0]
        made.values[:, 0, 0], made.offered[:, 0] = np.where(last, self.seen_[0], self.seen_[-1]), True
        return made


@pytest.mark.parametrize("name", ["wave2/xgb", "boston/mlp-0.4", "german/rf"])
@pytest.mark.parametrize("part", ["two confirmations", "explain"])
def test_single_rows(benchmark, name, part):
    """The least a row must ask, itself and its counterfactual; and all of `explain`, with the model's share of it."""
    task = load_task(name)
    explainer = OneChange(task.model, task.space, goal=task.goal).fit(task.X_train)
    rows, box = [task.X_test.iloc[[row]] for row in range(SINGLE_ROWS)], explainer.blackbox_
    ways = {
        "two confirmations": lambda: [box.confirm(row) for row in rows for _ in range(2)],
        "explain": lambda: [explainer.explain(row) for row in rows],
    }
    describe(benchmark, f"a single row, {name}", part, SINGLE_ROWS, part == "two confirmations")
    before = box.seconds
    timed(benchmark, ways[part], rounds=5)
    benchmark.extra_info["model_seconds"] = (box.seconds - before) / (5 * SINGLE_ROWS)
