"""Digests of the answers of every method on some tasks: run it at two commits, and compare the outputs.

    python tests/golden.py > before.txt                      # six minutes of CPU; `golden.py sonar/mlp` is less
    python tests/golden.py --compare before.txt after.txt    # prints the lines that differ; exit code 1 if any do

A change that should not touch answers, or what they cost, leaves every line as it was. The digests hold for one machine
and one set of versions: they are compared, not stored.
"""

import argparse
import difflib
import hashlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from relax_plugin import CounterfactualExplainer, Counterfactuals, list_explainers, make_explainer
from relax_plugin.errors import UnsupportedError
from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.registry import read_method

TASKS = ("breast_cancer/rf", "sonar/mlp", "german/rf", "boston/mlp-0.4", "classes3/xgb")

# What is measured of a method beside or in place of its defaults: settings that are quick, and other ways to run it.
SETTINGS = {
    "relax-global": ("relax-global", "relax-global:effort=policy,config.steps=60"),
    "relax-local": ("relax-local:effort=policy,config.steps=30",),
    "nearest-ct": ("nearest-ct", "nearest-ct:reverted=True"),
    "lore": ("lore:population=200",),
    "focus": ("focus:iterations=100",),
    "dice-random": ("dice-random:sample_size=200",),
    "wachter": ("wachter:steps=50",),
    "cfrl": ("cfrl:steps=200",),
    "fastar": ("fastar:steps=10_000",),
}
# Rows that each method explains; fewer of those that take long.
ROWS = 24
FEWER_ROWS = {
    "relax-local": 6,
    "lore": 6,
    "focus": 12,
    "dice-random": 4,
    "dice-genetic": 2,
    "dice-kdtree": 1,
    "mace": 2,
    "treecf": 6,
    "fastar": 6,
}

# Where a method answers before its time limit, on which its answers would depend; on other tasks it is left out.
ONLY_ON = {"mace": ("breast_cancer/rf",)}


def digest(*arrays: object) -> str:
    """A few letters that stand for the arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:12]


def settings() -> list[str]:
    """Every method of the registry, as often as SETTINGS says."""
    return [setting for name in list_explainers() for setting in SETTINGS.get(name, (name,))]


def measured(task: Task, method: str) -> Iterator[str]:
    """One line for each call: what was asked for, how much was found at what cost, and the digest."""
    name, options = read_method(method)
    if task.name not in ONLY_ON.get(name, (task.name,)):
        yield "left out: its answers would depend on its time limit"
        return
    rows = FEWER_ROWS.get(name, ROWS)
    queries = task.X_test.iloc[:rows]
    half = [feature.name for feature in task.space.features if not feature.immutable][::2]
    calls: list[tuple[str, dict[str, Any]]] = [("n=1", {}), ("n=3", {"n": 3}), ("half", {"vary": half})]
    try:
        explainer = make_explainer(name, task.model, task.space, goal=task.goal_of(rows), **options)
        explainer.fit(task.X_train)
    except UnsupportedError as error:
        yield f"{error}"
        return
    for call, asked in calls:
        yield f"{call:5s} {told(explainer, queries, asked)}"


def told(explainer: CounterfactualExplainer, queries: Any, asked: dict[str, Any]) -> str:
    """What came of one call."""
    try:
        result: Counterfactuals = explainer.explain(queries, **asked)
    except UnsupportedError as error:
        return f"{error}"
    letters = digest(result.values, result.found, result.rows_queried)
    return f"rows {len(result):2d} found {result.found.mean():.3f} asked {result.rows_queried.mean():9.2f} {letters}"


def compare(before: Path, after: Path) -> int:
    """Print the lines that differ; 1 if there are any, 0 if there are none."""
    lines = [path.read_text(encoding="utf-8").splitlines() for path in (before, after)]
    different = list(difflib.unified_diff(*lines, str(before), str(after), lineterm="", n=0))
    print("\n".join(different) if different else f"all {len(lines[0])} lines are equal")
    return int(bool(different))


def main(arguments: list[str] | None = None) -> int:
    """One line for each task, method and call."""
    parser = argparse.ArgumentParser(description="Digests of the answers of every method.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"default: {' '.join(TASKS)}")
    parser.add_argument("--methods", nargs="+", default=settings(), metavar="METHOD", help="default: all")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="FILE", help="the outputs of two runs")
    chosen = parser.parse_args(arguments)
    if chosen.compare:
        return compare(*chosen.compare)
    warnings.simplefilter("ignore")
    for task in chosen.tasks or TASKS:
        loaded = load_task(task)
        for method in chosen.methods:
            for line in measured(loaded, method):
                print(f"{task:18s} {method:42s} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
