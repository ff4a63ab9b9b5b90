"""CPU seconds of the floor: the provable optimum of every test row of the tasks with tree ensembles."""

import pytest
from benchmarks.measuring import describe, timed

from relax_plugin.evaluation.tasks import load_task
from relax_plugin.trees.floor import floor

TASKS = {  # task -> rows, most changes
    "breast_cancer/rf": [(205, 1), (205, 2), (205, 3)],
    "german/rf": [(50, 1), (50, 2), (50, 3)],
    "diabetes/ada": [(231, 2), (231, 3)],
    "wave2/xgb": [(1500, 1), (1500, 2), (100, 3)],
    "wave3/xgb": [(1500, 1), (100, 2)],
}
PROMISED = ("breast_cancer/rf", 205, 2)
PROMISED_SECONDS = 5.0  # CPU, for all test rows of a forest of 100 trees


@pytest.mark.parametrize(("name", "rows", "most"), [(n, *case) for n, cases in TASKS.items() for case in cases])
def test_floor(benchmark, name, rows, most):
    task = load_task(name)
    queries = task.X_test.iloc[:rows]
    assert len(queries) == rows
    describe(benchmark, f"floor, {name}", f"up to {most} changes, {rows} rows", rows, most == 1)
    best = timed(benchmark, lambda: floor(task.model, task.space, queries, task.goal, most_changes=most), rounds=2)
    solved = best.changes > 0
    benchmark.extra_info.update(solved=float(solved.mean()), sparsity=float(best.changes[solved].mean()))
    if (name, rows, most) == PROMISED:
        assert benchmark.extra_info["cpu_seconds"] < PROMISED_SECONDS
