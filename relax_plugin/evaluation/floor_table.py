"""How far each method of a benchmark is from the optimum, on the tasks whose model is a tree ensemble."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.errors import UnsupportedError
from relax_plugin.evaluation import metrics
from relax_plugin.evaluation.store import Cache
from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.trees.floor import CLOSE, Floor, floor

FOLDER = "floors"  # beside the units of a folder of results
KINDS: Mapping[str, Any] = {"changes": np.int64, "distance": np.float64, "proved": np.int64, "possible": bool}
COLUMNS = ("floor known", "floor L0", "L0 above floor", "at floor L0", "floor L1", "L1 above floor", "optimal")


def above_floor(
    rows: pd.DataFrame, folder: Path, most_changes: int = 3, load: Callable[[str, int], Task] = load_task
) -> tuple[pd.DataFrame, list[str]]:
    """One row for each task and method; and a sentence for each task that has no floor.

    Columns: how many instances have a `known` floor, one of up to `most_changes`; `floor L0`, the mean fewest changes
    of these, and how many changes the method's valid ones are above it; the share of these instances that the method
    solves `at` that number of changes (what it does not solve is not there); over those that are, the mean least
    distance (`floor L1`) and how far the method's is above it; and the share of instances that are `optimal` in both.
    Means over seeds. A seed without a number makes the mean unknown, as in all tables. Floors are kept in the folder of
    the benchmark's results, and not computed again.
    """
    lines, reasons = floor_by_seed(rows, folder, most_changes, load)
    records = [
        [*key, *(metrics.mean_and_deviation(part[name])[0] for name in COLUMNS)]
        for key, part in lines.groupby(["task", "method"], sort=False)
    ]
    return pd.DataFrame(records, columns=["task", "method", *COLUMNS]).set_index(["task", "method"]), reasons


def floor_by_seed(
    rows: pd.DataFrame, folder: Path, most_changes: int = 3, load: Callable[[str, int], Task] = load_task
) -> tuple[pd.DataFrame, list[str]]:
    """The same for each seed alone: task, method, seed, and the columns of `above_floor`."""
    lines: list[tuple[Any, ...]] = []
    reasons: dict[str, str] = {}
    for key, units in rows[rows["state"] != "skipped"].groupby(["task", "seed"], sort=False):
        name, seed = str(key[0]), int(str(key[1]))
        count = int(units["instances"].max())
        if count == 0:  # nothing ran
            continue
        try:
            best = stored_floor(load(name, seed), seed, count, folder, most_changes)
        except UnsupportedError as error:
            reasons[name] = f"{name} has no floor: {error}"
            continue
        for method, unit in units.groupby("method", sort=False):
            lines.append((name, method, seed, *_numbers(unit, best)))
    return pd.DataFrame(lines, columns=["task", "method", "seed", *COLUMNS]), list(reasons.values())


def stored_floor(task: Task, seed: int, count: int, folder: Path, most_changes: int) -> Floor:
    """The floor of the first test rows of a task: from the folder, or computed and kept there."""
    queries, goal = task.X_test.iloc[:count], task.goal_of(count)
    asked = joblib.hash((task.model, queries, goal, task.space.to_dict()))
    settings = [task.name, seed, count, most_changes, metadata.version("relax-plugin"), asked]
    name = f"{task.name.replace('/', '-')}-{seed}-{joblib.hash(settings)[:10]}"
    cache, cells = Cache(folder / FOLDER), [f"value {feature}" for feature in range(len(task.space))]
    if not cache.has(name, partial(_check, count=count, columns=[*KINDS, *cells])):
        best = floor(task.model, task.space, queries, goal, most_changes=most_changes)
        told = pd.DataFrame({kind: getattr(best, kind) for kind in KINDS})
        cache.write(name, told.join(pd.DataFrame(best.values, columns=cells)))
    stored = cache.read(name)
    arrays = {kind: stored[kind].to_numpy(dtype=dtype) for kind, dtype in KINDS.items()}
    return Floor(values=stored[cells].to_numpy(dtype=np.float64), **arrays)


def _check(frame: pd.DataFrame, count: int, columns: list[str]) -> None:
    if list(frame.columns) != columns:
        raise ValueError(f"it has not the columns {', '.join(columns)}")
    if len(frame) != count:
        raise ValueError(f"it has {len(frame)} rows, but {count} have a floor")
    frame.astype(dict(KINDS) | dict.fromkeys(columns[len(KINDS) :], np.float64))


def _numbers(unit: pd.DataFrame, best: Floor) -> list[float]:
    """The numbers of one method on one task and seed; of one that crashed or timed out, nothing is at the floor."""
    ran = unit["state"].iloc[0] == "ok"
    instance = unit["instance"].to_numpy() if ran else np.arange(len(best))
    fewest, least = best.changes[instance], best.distance[instance]
    known = fewest >= 0
    columns = unit[["sparsity", "proximity"]].to_numpy() if ran else np.full((len(instance), 2), np.nan)
    sparsity, proximity = columns.T  # NaN where nothing valid was found
    valid = known & ~np.isnan(sparsity)
    there = valid & (sparsity == fewest)
    return [
        float(known.sum()),
        metrics.mean_over(known, fewest.astype(np.float64)),
        metrics.mean_over(valid, sparsity - fewest),
        metrics.mean_over(known, there.astype(np.float64)),
        metrics.mean_over(there, least),
        metrics.mean_over(there, proximity - least),
        metrics.mean_over(known, (there & (proximity <= least * (1 + CLOSE))).astype(np.float64)),
    ]
