"""Rows in regions, and just beyond their ends, made one cell after the other by code that shares nothing with ours."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from relax_plugin import Counterfactuals
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.problem import Problem, Proposals
from relax_plugin.regions.regions import Regions


def next_value(feature: Any, value: float, up: bool) -> float:
    """The next number that a cell of a feature can hold."""
    if feature.step:
        steps = round((value - feature.anchor) / feature.step) + (1 if up else -1)
        return float(np.round(feature.anchor + steps * feature.step, 10))
    dtype = np.float32 if str(feature.dtype) == "float32" else np.float64
    return float(np.nextafter(dtype(value), dtype(np.inf if up else -np.inf)))


def drawn_rows(regions: Regions, count: int, *, joint: bool, seed: int) -> tuple[Any, Any]:
    """Random rows of the boxes, or of single cells, some of them at the ends; and whose each is."""
    rng = np.random.default_rng(seed)
    owner = np.arange(count) % len(regions)
    rows = regions.values[owner].copy()
    spans = regions.boxes if joint else regions.alone
    for row, answer in enumerate(owner):
        cells = np.flatnonzero(regions.values[answer] != regions.start[answer])
        for j in cells if joint else [rng.choice(cells)]:
            feature = regions.space.features[j]
            if feature.kind == "categorical":
                rows[row, j] = rng.choice(np.flatnonzero(spans.of_feature(j)[answer]))
                continue
            low, high = spans.low[answer, j], spans.high[answer, j]
            value = rng.choice([low, high]) if rng.random() < 0.3 else rng.uniform(low, high)
            if feature.step:
                value = np.round(feature.anchor + round((value - feature.anchor) / feature.step) * feature.step, 10)
            elif str(feature.dtype) == "float32":
                value = float(np.float32(value))
            rows[row, j] = min(max(value, low), high)
    return rows, owner


def delivered_rows(found: Counterfactuals, regions: Regions, values: Any, owner: Any) -> Any:
    """The rows in the user's dtypes."""
    queries = found.queries.iloc[regions.query[owner]]
    return found.space.restore(values, queries, regions.start[owner])


def rows_at_ends(regions: Regions) -> Iterator[tuple[Any, Any, Any, Any]]:
    """For the low and the high ends of single cells: rows at the end, rows just beyond, owners, and what is allowed."""
    for up in (False, True):
        inside, beyond, owners, allowed = [], [], [], []
        for answer in range(len(regions)):
            for j in np.flatnonzero(regions.values[answer] != regions.start[answer]):
                feature = regions.space.features[j]
                if feature.kind == "categorical":
                    continue
                end = (regions.alone.high if up else regions.alone.low)[answer, j]
                row, further = regions.values[answer].copy(), regions.values[answer].copy()
                row[j], further[j] = end, next_value(feature, end, up)
                start = regions.start[answer, j]
                low = max(feature.low, start) if feature.direction == "increase" else feature.low
                inside.append(row)
                beyond.append(further)
                owners.append(answer)
                allowed.append(low <= further[j] <= feature.high)
        yield np.array(inside), np.array(beyond), np.array(owners), np.array(allowed)


class AtRandom(CounterfactualExplainer):
    """The first of many random rows that meets the goal, with exactly as many changes as may be if one can.

    Its answers lie anywhere in their regions, and change several features, which no good method would do.
    """

    tries = 300

    def _fit(self, values: Any, rng: np.random.Generator) -> None:
        pass

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        owner = np.repeat(np.arange(len(problem)), self.tries)
        start = problem.start[owner]
        low, high = (end[owner] for end in problem.span)
        wanted = low + rng.random(low.shape) * (high - low)
        for j in np.flatnonzero(problem.space.is_categorical):
            wanted[:, j] = rng.integers(0, len(problem.space.features[j].categories), len(owner))
        free = low != high
        rank = np.argsort(np.argsort(np.where(free, rng.random(low.shape), 2.0), axis=1), axis=1)
        rows = np.where((rank < problem.max_changes) & free, wanted, start)
        rows = problem.limits.take(owner).project(rows, start)
        changes = (rows != start).sum(axis=1)
        met = problem.judge(rows, owner)[0] & problem.admits(rows, owner) & (changes > 0)
        score = np.where(met, changes, 0).reshape(len(problem), -1)
        best = score.argmax(axis=1)
        place = np.arange(len(problem))
        found = score[place, best] > 0
        made.values[found, 0] = rows.reshape(len(problem), self.tries, -1)[place, best][found]
        made.offered[:, 0], made.stage[:, 0] = found, "at random"
        return made
