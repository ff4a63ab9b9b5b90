"""Batched greedy search: at each step the single-feature move that comes closest to the goal, for all queries at once.

It is the baseline `greedy`, and rescues what other searches leave unsolved.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem

CANDIDATES_PER_CALL = 65_536  # bounds the memory of one call of the model


@dataclass(frozen=True)
class Moves:
    """Single-feature moves: set `feature` to `value`, in the order of both.

    Bounds are infinite here and cut to each query's own.
    """

    feature: Integers
    value: Floats

    @classmethod
    def quantiles(cls, values: Values, space: FeatureSpace, count: int) -> "Moves":
        """`count` quantiles of each number over the training rows, the outer two being the bounds; every category.

        A number with no more than `count` distinct values is tried at each of them.
        """
        features: list[Any] = []
        targets: list[Any] = []
        limits = space.limits()
        for j, feature in enumerate(space.features):
            if feature.kind == "categorical":
                own = np.arange(len(feature.categories), dtype=np.float64)
            else:
                seen = np.unique(values[:, j])
                inner = seen if len(seen) <= count else np.quantile(values[:, j], np.linspace(0, 1, count))
                inner = np.unique(limits.round_cells(inner, np.full(len(inner), j)))
                own = np.concatenate([[-np.inf], inner[1:-1], [np.inf]])
            features.append(np.full(len(own), j))
            targets.append(own)
        return cls(np.concatenate(features).astype(np.int64), np.concatenate(targets))

    def thinned(self, count: int, space: FeatureSpace) -> "Moves":
        """At most `count` values of each number, evenly spaced among its own, and every category."""
        size = np.bincount(self.feature, minlength=len(space))
        place = np.arange(len(self.feature)) - np.searchsorted(self.feature, self.feature)
        last, apart = size[self.feature] - 1, max(count - 1, 1)
        # The k-th of those kept is the one at k / (count - 1) of the way; a move is kept if a k falls on it.
        falls = np.rint(np.rint(place * apart / np.maximum(last, 1)) * last / apart) == place
        kept = space.is_categorical[self.feature] | (last < count) | falls
        return Moves(self.feature[kept], self.value[kept])


def greedy_search(problem: Problem, moves: Moves, steps: int, begin: Values | None = None) -> tuple[Values, Booleans]:
    """Final rows, and whether they meet the goal.

    Of moves that meet the goal the closest is taken, of others the one that leaves the smallest gap.
    """
    current = (problem.start if begin is None else begin).copy()
    met = np.zeros(len(current), dtype=bool)
    active = np.arange(len(current))
    for _ in range(steps):
        block = max(CANDIDATES_PER_CALL // max(len(moves.feature), 1), 1)
        chosen = [_best_move(problem, moves, current, active[i : i + block]) for i in range(0, len(active), block)]
        moved = np.concatenate([rows for rows, _, _ in chosen]) if chosen else active[:0]
        if len(moved) == 0:
            break
        current[moved] = np.concatenate([values for _, values, _ in chosen])
        met[moved] = np.concatenate([reached for _, _, reached in chosen])
        active = moved[~met[moved]]
    return current, met


def _best_move(problem: Problem, moves: Moves, current: Values, queries: Integers) -> tuple[Integers, Values, Booleans]:
    """The rows that move, where to, and whether they meet the goal then."""
    feature, start = moves.feature, problem.start[queries]
    low, high = (end[queries][:, feature] for end in problem.span)
    landed = problem.limits.take(queries).project(np.clip(moves.value, low, high), start, feature)
    tried = (current[queries] == start)[:, feature] & (landed != start[:, feature])
    # Clipping and rounding make some moves equal, which are neighbours: ask each once.
    tried[:, 1:] &= (landed[:, 1:] != landed[:, :-1]) | (feature[1:] != feature[:-1])
    row, move = np.nonzero(tried)
    owner = queries[row]
    candidates = current[owner]
    candidates[np.arange(len(row)), feature[move]] = landed[row, move]
    if len(row) == 0:
        return owner, candidates, np.zeros(0, dtype=bool)
    met, cost = problem.judge(candidates, owner)
    cost[met] = problem.distance(candidates[met], owner[met])
    order = np.lexsort((cost, ~met, row))
    best = order[np.unique(row[order], return_index=True)[1]]
    return owner[best], candidates[best], met[best]
