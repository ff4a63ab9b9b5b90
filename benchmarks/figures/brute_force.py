"""The fewest changes by which a goal can be met under rules: every set of features, over a grid of values.

Slow and simple, to hold searches against. What rows must keep is checked by the judge's own code. The grid has values
of the training rows, spread over each feature; a sum that must be kept is kept by the last column that changes.
"""

import ast
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.evaluation import metrics
from relax_plugin.evaluation.store import Cache
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.whole_rows import RuleText, WholeRows
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal

GRID = {1: 200, 2: 24, 3: 10}  # values of a number, by how many features change
CHUNK = 20_000  # rows that are looked at together
DECIMALS = 9  # to which what is left of a sum is rounded
FOLDER = "brute force"  # beside the units of a folder of results


def fewest_changes(task: Task, rows: int, most: int = max(GRID)) -> Integers:
    """The fewest changes that meet the goal of each of the first test rows, up to `most`; -1 where there are none.

    Parameters
    ----------
    task : Task
    rows : int
    most : int
    """
    space, training = task.space.taking_in(task.X_train)
    queries = task.X_test.iloc[:rows]
    space, start = space.taking_in(queries)
    blackbox = BlackBox(task.model, space)
    blackbox.learn(training)
    before = blackbox.confirm(queries)
    goal = (task.goal_of(rows) or Goal.flip()).bind(blackbox, before)
    fewest = np.full(len(start), -1, dtype=np.int64)
    fewest[goal.met(before)] = 0
    for count in range(1, most + 1):
        grids = [_grid(space, training, j, GRID[count]) for j in range(len(space))]
        for row in np.flatnonzero(fewest < 0).tolist():
            frame = space.frame(queries).iloc[[row]]
            for candidates in _chunks(space, start[row], grids, count):
                sound = candidates[_keeps(space, frame, start[row], candidates)]
                answer = blackbox.ask(sound) if len(sound) else None
                if answer is not None and goal.take(np.full(len(sound), row)).met(answer).any():
                    fewest[row] = count
                    break
    return fewest


def stored_fewest(task: Task, seed: int, rows: int, folder: Path) -> Integers:
    """The same, from the folder, or computed and kept there."""
    asked = joblib.hash((task.model, task.X_test.iloc[:rows], task.space.to_dict(), sorted(GRID.items())))
    cache, name = Cache(folder / FOLDER), f"{task.name.replace('/', '-')}-{seed}-{asked[:10]}"
    if not cache.has(name, partial(_check, count=rows)):
        cache.write(name, pd.DataFrame({"changes": fewest_changes(task, rows)}))
    return np.asarray(cache.read(name)["changes"].to_numpy(dtype=np.int64))


def _check(frame: pd.DataFrame, count: int) -> None:
    """Refuse a frame that does not hold the fewest changes of so many rows."""
    if list(frame.columns) != ["changes"] or len(frame) != count:
        raise ValueError(f"it has not {count} rows of the column changes")


def _grid(space: FeatureSpace, training: Values, j: int, most: int) -> Floats:
    """Values of a feature: all categories, or so many numbers of the training rows, the ends among them."""
    feature = space.features[j]
    if feature.immutable:
        return np.zeros(0)
    if feature.kind == "categorical":
        return np.flatnonzero(feature.choices).astype(np.float64)
    known = np.unique(training[training[:, j] != feature.missing_code, j])
    inside = np.unique(np.clip(known, *(end[0, j] for end in space.limits().ends)))
    return np.asarray(inside[np.unique(np.linspace(0, len(inside) - 1, min(most, len(inside))).astype(int))])


def _chunks(space: FeatureSpace, start: Floats, grids: list[Floats], count: int) -> Iterator[Values]:
    """Rows that differ from the start in so many features, all of them, some thousands at a time."""
    sums = [_sum_of(space, rule.text) for rule in space.rules if rule.text is not None]
    pending: list[Values] = []
    for chosen in combinations([j for j in range(len(space)) if len(grids[j])], count):
        closed = next((total for total in sums if total is not None and {*chosen} & {*total[0]}), None)
        free = list(chosen)
        if closed is not None:
            free.remove([j for j in chosen if j in closed[0]][-1])
        parts = np.meshgrid(*(grids[j] for j in free), indexing="ij") if free else []
        values = np.repeat(start[None], parts[0].size if free else 1, axis=0)
        for j, part in zip(free, parts, strict=True):
            values[:, j] = part.ravel()
        if closed is not None:
            last = next(j for j in chosen if j not in free)
            others = [j for j in closed[0] if j != last]
            values[:, last] = np.round(closed[1] - values[:, others].sum(axis=1), DECIMALS)
        pending.append(values[(values != start).sum(axis=1) == count])
        if sum(map(len, pending)) >= CHUNK:
            yield np.concatenate(pending)
            pending = []
    if pending:
        yield np.concatenate(pending)


def _sum_of(space: FeatureSpace, text: str) -> tuple[list[int], float] | None:
    """The features whose sum a rule says, and that sum; None if it is another rule."""
    tree = RuleText(text).tree
    if not (isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Eq) and len(tree.ops) == 1):
        return None
    names: list[Any] = []
    left: ast.expr = tree.left
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        names.append(left.right)
        left = left.left
    names.append(left)
    total = tree.comparators[0]
    if not (isinstance(total, ast.Constant) and all(isinstance(name, ast.Name) for name in names)):
        return None
    return [space.names.index(name.id) for name in names], float(str(total.value))


def _keeps(space: FeatureSpace, query: pd.DataFrame, start: Floats, values: Values) -> Booleans:
    """Which rows keep every constraint."""
    starts = np.repeat(start[None], len(values), axis=0)
    sound = np.flatnonzero(metrics.violations(space, space.limits(values=starts[:1]), starts, values) == 0)
    queries = query.iloc[np.zeros(len(sound), dtype=int)]
    after = space.restore(values[sound], queries, starts[sound])
    kept = np.zeros(len(values), dtype=bool)
    kept[sound[WholeRows(space, queries, space.frame(after)).broken_rules() == 0]] = True
    return kept
