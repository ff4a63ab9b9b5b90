"""The search in tree ensembles beside others: `python -m benchmarks.speed.trees --to docs/results/trees.csv`.

All methods answer the same queries of each unit (`search_units.py`) in one process, with at most five changes: answers
a CPU second with the model's confirmation (`explain`), and for `search` without it; changes and distance as ratios to
greedy on the rows that both solve. What the fewest changes are and their least distance is proved for some rows
(`relax_plugin.trees.floor`, up to three changes). treecf and DiCE answer few rows, since they take long. At the end it
says which targets are held.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.trees --units wave2/xgb --rows 200
    python -m benchmarks.speed.trees --units wave2/xgb --many 1000000

The latter tells the memory of so many rows, and by the clock how much quicker two threads are than one, which needs a
quiet machine. `make tables` fills docs/results/speed.md and draws docs/results/trees.svg from what `--to` has stored.
"""

import argparse
import os
import resource
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
from relax_plugin.search.trees import MOST_WITHOUT_NUMBA
from relax_plugin.trees.floor import floor
from relax_plugin.trees.readers import read_trees

UNITS = ("wave2/xgb", "breast_cancer/rf", "german/rf", "diabetes/ada", "cancer/lgbm", "classes5/xgb", "classes6/rf")
RIVALS = {
    "treecf": {"backend": "exact", "sparsity_weight": 1.0, "seconds_per_row": 5.0},
    "dice-random": {},
}
SINGLES, LEAST = 10, 0.5  # rows explained by themselves; CPU seconds that are measured at least
MANY_LEAVES = 20_000  # from which on proofs of more than one change take hours
RIVALS_ROWS, PROVED_ROWS, THOROUGH_ROWS = 10, 40, 100  # of rows that take long


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
    lines: list[dict[str, Any]] = []
    results: dict[str, Any] = {}
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
            if explainer.profiles_.masks.cells * explainer.profiles_.masks.outputs > MOST_WITHOUT_NUMBA:
                lines.append({"unit": unit, "method": method, "skipped": "without numba the model itself is asked"})
                continue
        explainer.explain(own.X_test.head(2), goal=None if own.goal is None else own.goal.chunk(slice(2)))
        result, spent = seconds(lambda own=own, explainer=explainer: explainer.explain(own.X_test, goal=own.goal))
        results[method] = result
        greedy = results["greedy"]
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
        if method == "treecf":
            for other in lines:
                if other["method"].startswith("search"):
                    other |= beside(results[other["method"]], result)
                    other["treecf_speed"] = other["per_second"] / line["per_second"]
        lines.append(line)
        print(pd.Series(line).to_string(float_format=lambda number: f"{number:.4g}"), "\n", flush=True)
    return lines


def beside(ours: Any, theirs: Any) -> dict[str, float]:
    """Changes beside those of another method, and distance where both change equally many features."""
    count = min(len(ours), len(theirs))
    both = np.flatnonzero(ours.found[:count, 0] & theirs.found[:count, 0])
    few, other = ours.sparsity[both, 0], theirs.sparsity[both, 0]
    alike = both[few == other]
    distance = ours.proximity[alike, 0].sum() / theirs.proximity[alike, 0].sum() if len(alike) else np.nan
    return {"treecf_changes": few.mean() / other.mean(), "treecf_alike": len(alike), "treecf_distance": distance}


def targets(lines: pd.DataFrame) -> pd.DataFrame:
    """What was asked of the search, what was measured, and whether that holds."""
    lines = lines.reindex(columns=lines.columns.union(["treecf_changes", "treecf_distance", "treecf_speed"]))
    search, thorough, alone = (
        lines[lines["method"] == method].set_index("unit")
        for method in ("search", "search, thorough", "search, numpy alone")
    )
    greedy = lines[lines["method"] == "greedy"].set_index("unit")["per_second"]
    told: list[tuple[str, float, float, bool]] = [
        ("median speed, x greedy", (search["per_second"] / greedy).median(), 8.0, True),
        ("least speed, x greedy", (search["per_second"] / greedy).min(), 2.0, True),
        ("least speed with numpy alone, x greedy", (alone["per_second"] / greedy).min(), 3.0, True),
        ("mean changes, x greedy", search["l0_ratio"].mean(), 0.99, False),
        ("mean distance, x greedy", search["l1_ratio"].mean(), 0.95, False),
        ("share of proved rows with the fewest changes", search["fewest"].sum() / search["proved"].sum(), 0.99, True),
        ("largest distance, x optimum", search["above_optimum"].max(), 1.05, False),
        ("largest distance of thorough, x optimum", thorough["above_optimum"].max(), 1.015, False),
        ("longest fit, s", search["fit"].max(), 0.3, False),
        ("longest single row without the model, ms", search["row_ms_alone"].max(), 1.0, False),
        ("most changes, x treecf", search["treecf_changes"].max(), 1.0, False),
        ("largest distance at equal changes, x treecf", search["treecf_distance"].max(), 1.03, False),
        ("the same of thorough", thorough["treecf_distance"].max(), 1.01, False),
        ("least speed, x treecf", search["treecf_speed"].min(), 20.0, True),
    ]
    for unit in ("wave2/xgb", "breast_cancer/rf"):
        if unit in search.index:
            told.append((f"a CPU second without the model, {unit}", search.loc[unit, "per_second_alone"], 10_000, True))
    table = pd.DataFrame(told, columns=["target", "measured", "asked", "at least"])
    table["held"] = np.where(
        table["at least"], table["measured"] >= table["asked"], table["measured"] <= table["asked"]
    )
    return table[table["measured"].notna()]


def reach(unit: str, rows: int) -> None:
    """Print what one and two threads take by the clock for many rows, and the memory of the process."""
    task = with_rows(load_unit(unit, PLACE), rows, "flip")
    assert task is not None
    explainer = make_explainer("search", task.model, task.space, max_changes=MOST_CHANGES).fit(task.X_train)
    problem = problem_of(task)
    before, took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, []
    for threads in ("1", "2"):
        os.environ["OMP_NUM_THREADS"] = threads
        started = time.perf_counter()
        explainer.profiles_.find(problem, explainer.natural_)
        took.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    faster, load = took[0] / took[1], os.getloadavg()[0]
    print(
        f"{unit}, {len(problem):,} rows: {took[0]:.1f} s by one thread, {took[1]:.1f} s by two (x {faster:.2f}, load "
        f"{load:.1f}); at most {after:,.0f} MiB, {before:,.0f} of them before the search"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", nargs="*", default=list(UNITS))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--many", type=int, help="rows for threads and memory, and nothing else")
    given = parser.parse_args()
    if given.many:
        for unit in given.units:
            reach(unit, given.many)
        return
    made = []
    for unit in given.units:
        lines = pd.DataFrame(measure(unit, given.rows)).round(4)
        made.append(lines)
        if given.to is not None:  # what was measured of other units stays
            known = pd.read_csv(given.to) if given.to.exists() else lines[:0]
            pd.concat([known[known["unit"] != unit], lines], ignore_index=True).to_csv(given.to, index=False)
    print(targets(pd.concat(made)).to_string(index=False))


if __name__ == "__main__":
    main()
