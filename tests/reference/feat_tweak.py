"""FeatTweak for one query, one tree, one path and one test at a time, to compare with."""

from typing import Any

import numpy as np

from relax_plugin.problem import Problem
from relax_plugin.trees.ensemble import Trees

Test = tuple[int, float, bool]  # feature, threshold, whether the path goes left


def paths_of(trees: Trees, node: int, tests: list[Test]) -> list[tuple[int, list[Test]]]:
    """Every leaf below a node, with the tests on the way."""
    if trees.feature[node] < 0:
        return [(int(trees.leaf[node]), tests)]
    feature, threshold = int(trees.feature[node]), float(trees.threshold[node])
    left = paths_of(trees, int(trees.left[node]), [*tests, (feature, threshold, True)])
    return left + paths_of(trees, int(trees.right[node]), [*tests, (feature, threshold, False)])


def passes(row: Any, tests: list[Test]) -> bool:
    return all((row[feature] <= threshold) == goes_left for feature, threshold, goes_left in tests)


def speaks_for(trees: Trees, leaf: int, wanted: Any, current: int) -> float:
    """The leaf's best score of a wanted class less that of the current one."""
    scores = [float(score) for score in trees.leaf_scores[leaf]]
    if len(scores) == 1:
        scores = [-scores[0] / 2, scores[0] / 2]
    return max(score for score, is_wanted in zip(scores, wanted, strict=True) if is_wanted) - scores[current]


def slow_tweaks(
    trees: Trees, problem: Problem, query: int, margins: tuple[float, ...]
) -> list[tuple[float, tuple[float, ...]]]:
    """All ε-instances of a query with their distances, cheapest first, for free features without a grid."""
    return sorted(found for epsilon in margins for found in _tweaks(trees, problem, query, epsilon))


def _tweaks(trees: Trees, problem: Problem, query: int, epsilon: float) -> list[tuple[float, tuple[float, ...]]]:
    start, found = problem.start[query], []
    assert problem.goal.wanted is not None
    wanted, current = problem.goal.wanted[query], int(problem.before.output[query])
    for root in trees.roots:
        paths = paths_of(trees, int(root), [])
        (reached,) = [leaf for leaf, tests in paths if passes(start, tests)]
        if speaks_for(trees, reached, wanted, current) > 0:
            continue
        for leaf, tests in paths:
            if speaks_for(trees, leaf, wanted, current) <= 0:
                continue
            row = start.copy()
            for j in range(len(start)):
                low = max([t for feature, t, goes_left in tests if feature == j and not goes_left], default=-np.inf)
                high = min([t for feature, t, goes_left in tests if feature == j and goes_left], default=np.inf)
                margin = min(epsilon * float(problem.space.scale[j]), (high - low) / 2)
                if start[j] <= low:
                    row[j] = low + margin
                elif start[j] > high:
                    row[j] = high - margin
            if passes(row, tests) and (row != start).sum() <= problem.max_changes:
                found.append((float(problem.space.distance(row, start)), tuple(row.tolist())))
    return found
