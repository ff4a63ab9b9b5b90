"""The floor of one query by brute force: every allowed value that matters, every combination, asked of the model."""

from itertools import combinations, product
from typing import Any

import numpy as np

from relax_plugin import BlackBox, FeatureSpace
from relax_plugin.blackbox import Answer
from relax_plugin.goal import BoundGoal
from relax_plugin.limits import Limits


def worthwhile_values(feature: int, start: Any, thresholds: Any, space: FeatureSpace, limits: Limits) -> list[float]:
    """Every value of a grid; without a grid, the numbers of the feature's dtype on both sides of every threshold."""
    described = space.features[feature]
    if described.kind == "categorical":
        candidates = [float(code) for code in range(len(described.categories))]
    elif described.step is not None:
        count = round((described.high - described.low) / described.step) + 2
        first = np.floor((described.low - described.anchor) / described.step)
        candidates = [described.anchor + (first + i) * described.step for i in range(count + 1)]
        candidates = [round(value, 6) for value in candidates]
    else:
        dtype: Any = np.float32 if str(described.dtype) == "float32" else np.float64
        candidates = [float(limits.low[0, feature]), float(limits.high[0, feature])]
        for threshold in thresholds:
            near = dtype(threshold)
            first_above = near if near > threshold else np.nextafter(near, dtype(np.inf))
            candidates += [float(first_above), float(np.nextafter(first_above, dtype(-np.inf)))]
    allowed = []
    for value in candidates:
        row = start.copy()
        row[feature] = np.float32(value) if str(described.dtype) == "float32" else value
        if row[feature] != start[feature] and limits.kept(row[None], start[None])[0]:
            allowed.append(float(row[feature]))
    return sorted(set(allowed))


def every_row(
    blackbox: BlackBox, space: FeatureSpace, limits: Limits, start: Any, cuts: Any, most: int
) -> list[tuple[Any, Answer]]:
    """For k = 1 ... most: all rows with k changes that matter, and what the model answers to them."""
    lists = [worthwhile_values(j, start, cuts[j], space, limits) for j in range(len(space))]
    found = []
    for k in range(1, most + 1):
        parts = [np.empty((0, len(space)))]
        for features in combinations(range(len(space)), k):
            cells = list(product(*(lists[j] for j in features)))
            rows = np.tile(start, (len(cells), 1))
            rows[:, list(features)] = np.array(cells).reshape(len(cells), k)
            parts.append(rows)
        rows = np.concatenate(parts)
        found.append((rows, blackbox.confirm(space.model_input(rows)) if len(rows) else blackbox.ask(rows)))
    return found


def slow_floor(
    answered: list[tuple[Any, Answer]], space: FeatureSpace, start: Any, goal: BoundGoal
) -> tuple[int, float]:
    """The fewest changes and the least distance with so few, among the rows of `every_row`; (-1, NaN) if none."""
    for k, (rows, answer) in enumerate(answered, start=1):
        met = goal.take(np.zeros(len(rows), dtype=int)).met(answer)
        if met.any():
            return k, float(space.distance(rows, start)[met].min())
    return -1, float("nan")
