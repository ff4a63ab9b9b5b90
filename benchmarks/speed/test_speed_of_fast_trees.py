"""What `BlackBox(accelerate="auto")` saves: the same agent with and without, on many rows of a task and on one."""

from functools import cache

import pytest

from benchmarks.speed.measuring import describe, timed_explanation
from relax_plugin import BlackBox, make_explainer
from relax_plugin.evaluation.tasks import load_task

WAYS = {"the library": None, "its trees as arrays": "auto"}


@cache
def fitted(task_name, way):
    task = load_task(task_name)
    box = BlackBox(task.model, accelerate=WAYS[way])
    return task, make_explainer("relax-global", box, task.space, progress=False).fit(task.X_train)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [1, 200])
@pytest.mark.parametrize("task_name", ["breast_cancer/rf", "german/rf", "diabetes/ada", "wave2/xgb"])
def test_explaining_with_fast_trees(benchmark, task_name, rows, way):
    task, explainer = fitted(task_name, way)
    group = f"{rows} row{'s' * (rows > 1)} of {task_name}, tree ensemble asked"
    describe(benchmark, group, way, rows, way == "the library")
    queries = task.X_test[:rows]
    timed_explanation(benchmark, explainer, lambda: [explainer.explain(queries)], rows, rounds=5, warmup=1)
