"""The search in tree ensembles beside others: `python -m benchmarks.speed.trees --to docs/results/trees.csv`.

All methods answer the same queries of each unit (`search_units.py`) in one process, with at most five changes: answers
a CPU second with the model's confirmation (`explain`), and for `search` without it; changes and distance as ratios to
greedy on the rows that both solve. What the fewest changes are and their least distance is proved for some rows
(`relax_plugin.trees.floor`, up to three changes). treecf and DiCE answer few rows, since they take long.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.trees --units wave2/xgb --rows 200

`make tables` fills docs/results/speed.md and draws docs/results/trees.svg from what `--to` has stored.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.speed.search_comparison import MOST_CHANGES, PLACE
from benchmarks.speed.search_units import load_unit, with_rows
from relax_plugin import make_explainer
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import MissingExtraError, UnsupportedError
from relax_plugin.evaluation.tasks import Task
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem
from relax_plugin.trees.floor import floor
from relax_plugin.trees.readers import read_trees

UNITS = ("wave2/xgb", "breast_cancer/rf", "german/rf", "diabetes/ada", "cancer/lgbm", "classes5/xgb", "classes6/rf")
RIVALS = {
    "treecf": {"backend": "exact", "sparsity_weight": 1.0, "seconds_per_row": 5.0},
    "dice-random": {},
}
SINGLES, LEAST = 10, 0.5  # rows explained by themselves; CPU seconds that are measured at least
MANY_LEAVES = 20_000  # from which on proofs of more than one change take hours
RIVALS_ROWS, PROVED_ROWS, THOROUGH_ROWS = 10, 40, 200  # of rows that take long


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work gives, and the least CPU seconds it takes, done again and again for half a second."""
    spent: list[float] = []
    while sum(spent) < LEAST and len(spent) < 5:
        started = time.process_time()
        made = work()
        spent.append(time.process_time() - started)
    return made, min(spent)


def problem_of(task: Task) -> Problem:
    """The queries as the search sees them."""
    box = BlackBox(task.model, task.space)
    box.learn(task.space.values(task.X_train.head(256)))
    values, before = task.space.values(task.X_test), box.confirm(task.X_test)
    goal = (task.goal or Goal.flip()).bind(box, before)
    limits, spent = task.space.limits(values=values), np.zeros(len(values), dtype=np.int64)
    return Problem(task.space, box, values, before, goal, limits, MOST_CHANGES, spent)


def alone(explainer: Any, problem: Problem, thorough: bool) -> dict[str, float]:
    """What the search costs without the model's confirmation: answers a CPU second, and the milliseconds of one row."""

    def find(part: Problem) -> Callable[[], Any]:
        return lambda: explainer.profiles_.find(part, explainer.natural_, None, thorough)

    find(problem.part(np.arange(2)))()
    times = [seconds(find(problem.part(np.array([row]))))[1] for row in range(min(SINGLES, len(problem)))]
    per_second = len(problem) / seconds(find(problem))[1]
    return {"per_second_alone": per_second, "row_ms_alone": 1000 * float(np.median(times))}


def measure(unit: str, rows: int) -> list[dict[str, Any]]:
    """One line for each method."""
    task = with_rows(load_unit(unit, PLACE), rows, "flip")
    assert task is not None
    few = replace(task, X_test=task.X_test.head(PROVED_ROWS), goal=task.goal_of(PROVED_ROWS))
    leaves = len(read_trees(task.model, task.space).leaf_tree)
    best = floor(task.model, task.space, few.X_test, few.goal, most_changes=3 if leaves < MANY_LEAVES else 1)
    lines = []
    greedy: Any = None
    ways = {"greedy": {}, "search": {}, "search, numpy alone": {}, "search, thorough": {"thorough": True}} | RIVALS
    for method, options in ways.items():
        many = THOROUGH_ROWS if leaves < MANY_LEAVES else RIVALS_ROWS
        count = RIVALS_ROWS if method in RIVALS else many if "thorough" in method else len(task.X_test)
        own = replace(task, X_test=task.X_test.head(count), goal=task.goal_of(min(count, len(task.X_test))))
        try:
            explainer = make_explainer(
                method.split(",")[0], task.model, task.space, max_changes=MOST_CHANGES, **options
            )
            _, fit = seconds(lambda explainer=explainer: explainer.fit(task.X_train))
        except (UnsupportedError, MissingExtraError) as reason:
            lines.append({"unit": unit, "method": method, "skipped": str(reason)})
            continue
        if "numpy" in method:
            explainer.profiles_ = replace(explainer.profiles_, compiled=False)
        explainer.explain(own.X_test.head(2), goal=None if own.goal is None else own.goal.chunk(slice(2)))
        result, spent = seconds(lambda own=own, explainer=explainer: explainer.explain(own.X_test, goal=own.goal))
        greedy = result if method == "greedy" else greedy
        found, base = result.found[:, 0], greedy.found[: len(result), 0]
        both = found & base
        line = {"unit": unit, "method": method, "rows": len(result), "fit": fit, "per_second": len(result) / spent}
        line |= {"valid": found.mean(), "greedy_valid": base.mean(), "distance": result.proximity[found, 0].mean()}
        line["l0_ratio"] = result.sparsity[both, 0].mean() / greedy.sparsity[: len(result)][both, 0].mean()
        line["l1_ratio"] = result.proximity[both, 0].mean() / greedy.proximity[: len(result)][both, 0].mean()
        if method.startswith("search"):
            line |= alone(explainer, problem_of(own), "thorough" in method)
        known = np.flatnonzero((best.changes > 0) & np.isin(np.arange(len(best)), np.flatnonzero(found)))
        fewest = known[result.sparsity[known, 0] == best.changes[known]]
        line |= {"proved": len(known), "fewest": len(fewest)}
        if len(fewest):
            line["above_optimum"] = result.proximity[fewest, 0].sum() / best.distance[fewest].sum()
        lines.append(line)
        print(pd.Series(line).to_string(float_format=lambda number: f"{number:.4g}"), "\n", flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", nargs="*", default=list(UNITS))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    for unit in given.units:
        lines = pd.DataFrame(measure(unit, given.rows)).round(4)
        if given.to is not None:  # what was measured of other units stays
            known = pd.read_csv(given.to) if given.to.exists() else lines[:0]
            pd.concat([known[known["unit"] != unit], lines], ignore_index=True).to_csv(given.to, index=False)


if __name__ == "__main__":
    main()
