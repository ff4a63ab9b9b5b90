"""Seconds to explain a row by every method of the registry, on the same rows of the same fitted models.

Fitting is not timed here. Each time comes with validity, changes and model rows: a quick method may be a bad one.
"""

from functools import cache

import pytest

from benchmarks.speed.measuring import describe, timed_explanation
from relax_plugin import list_explainers, make_explainer
from relax_plugin.datasets import waveform
from relax_plugin.errors import MissingExtraError, UnsupportedError
from relax_plugin.evaluation.judge import Method
from relax_plugin.evaluation.tasks import load_task

TASKS = ("breast_cancer/rf", "wave2/xgb")
VARIANTS = ("relax-global:effort=refined", "relax-global:effort=policy", "nearest-ct:reverted=True")
METHODS = (*list_explainers(), *VARIANTS)
YARDSTICK = "greedy"
ROWS = 200
FEWER_ROWS = {"relax-local": 40, "dice-kdtree": 2, "dice": 10, "lore": 10}  # by how the name begins: slow a row
ONE_BY_ONE = 3
LARGE = {"relax-global:effort=policy": 8192, "relax-global:effort=refined": 8192, "relax-global": 8192, "greedy": 1024}


@cache
def fitted(task_name, label):
    task, method = load_task(task_name), Method.parse(label)
    return make_explainer(method.explainer, task.model, task.space, goal=task.goal, **method.options).fit(task.X_train)


def prepared(task_name, label):
    """The method fitted on the task, with the options of its label."""
    try:
        return fitted(task_name, label)
    except (UnsupportedError, MissingExtraError) as error:
        pytest.skip(str(error))


def rows_for(label):
    return next((rows for name, rows in FEWER_ROWS.items() if label.startswith(name)), ROWS)


@pytest.mark.parametrize("label", METHODS)
@pytest.mark.parametrize("task_name", TASKS)
def test_explaining_rows_in_one_call(benchmark, task_name, label):
    explainer, count = prepared(task_name, label), rows_for(label)
    queries = load_task(task_name).X_test.iloc[:count]
    describe(benchmark, f"generation in one call, {task_name}", label, count, label == YARDSTICK)
    rounds = 3 if count == ROWS else 1
    (result,) = timed_explanation(benchmark, explainer, lambda: [explainer.explain(queries)], count, rounds)
    assert len(result) == count


@pytest.mark.parametrize("label", METHODS)
@pytest.mark.parametrize("task_name", TASKS)
def test_explaining_rows_one_by_one(benchmark, task_name, label):
    """The time until one user has one answer: nothing is shared by a batch, so methods that need batches lose."""
    explainer, X = prepared(task_name, label), load_task(task_name).X_test
    describe(benchmark, f"generation one by one, {task_name}", label, ONE_BY_ONE, label == YARDSTICK)
    results = timed_explanation(
        benchmark, explainer, lambda: [explainer.explain(X.iloc[[i]]) for i in range(ONE_BY_ONE)], ONE_BY_ONE, rounds=1
    )
    assert len(results) == ONE_BY_ONE


@pytest.mark.parametrize(("label", "count"), LARGE.items())
def test_explaining_thousands_of_rows(benchmark, label, count):
    """A full batch: what the efforts of ReLAX and greedy search reach when calls of the model cost next to nothing."""
    explainer = prepared("wave2/xgb", label)
    X, y = waveform(int(count * 1.6), 3, seed=1)
    queries = X[(y < 2).to_numpy()].iloc[:count]
    describe(benchmark, "generation in large batches, wave2/xgb", label, count, label == YARDSTICK)
    (result,) = timed_explanation(benchmark, explainer, lambda: [explainer.explain(queries)], count, rounds=2)
    assert len(result) == count
