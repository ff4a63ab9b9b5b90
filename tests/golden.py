"""Digests of the answers of some methods on some tasks: run it at two commits, and compare what is printed.

    python tests/golden.py > before.txt

A change that should not touch answers, or what they cost, leaves every line as it was. The digests hold for one machine
and one set of versions: they are compared, not stored.
"""

import hashlib
import sys
import warnings

import numpy as np

from relax_plugin import make_explainer
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.registry import read_method

TASKS = ("breast_cancer/rf", "sonar/mlp", "german/rf", "boston/mlp-0.4", "classes3/xgb")
METHODS = (
    "relax-global",
    "relax-global:effort=policy,config.steps=60",
    "relax-local:effort=policy,config.steps=30",
    "surrogate-search",
    "greedy",
    "nearest-ct:reverted=True",
    "move-table",
)
ROWS = 24


def digest(*arrays: object) -> str:
    """A few letters that stand for the arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:12]


def main() -> None:
    """One line for each task, method and call."""
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or TASKS:
        task = load_task(name)
        queries = task.X_test.iloc[:ROWS]
        half = [feature.name for feature in task.space.features if not feature.immutable][::2]
        for method in METHODS:
            explainer_name, options = read_method(method)
            explainer = make_explainer(explainer_name, task.model, task.space, goal=task.goal_of(ROWS), **options)
            explainer.fit(task.X_train)
            for n, vary in ((1, None), (3, None), (1, half)):
                result = explainer.explain(queries, n=n, vary=vary)
                told = digest(result.values, result.found, result.rows_queried)
                what = f"n={n} {'half' if vary else 'all'}"
                rows = result.rows_queried.mean()
                print(f"{name:18s} {method:45s} {what:9s} found {result.found.mean():.3f} rows {rows:8.2f} {told}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
