"""Batched greedy search: at each step the single-feature move that comes closest to the goal, for all queries at once.

It is the baseline `greedy`, and rescues what other searches leave unsolved.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem
from relax_plugin.search.refine import refine

PASSES = 4  # of greedy search for a closer answer, at most
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
                known = values[values[:, j] != feature.missing_code, j]
                seen = np.unique(known)
                inner = seen if len(seen) <= count else np.quantile(known, np.linspace(0, 1, count))
                inner = np.unique(limits.round_cells(inner, np.full(len(inner), j)))
                gone = [feature.missing_code] if feature.vanishable else []
                own = np.concatenate([[-np.inf], gone, inner[1:-1], [np.inf]])
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


def greedy_search(
    problem: Problem, moves: Moves, steps: int, begin: Values | None = None, below: Floats | None = None
) -> tuple[Values, Booleans]:
    """Final rows, and whether they meet the goal.

    Of moves that meet the goal the closest is taken, of others the one that leaves the smallest gap. With `below`, a
    distance for each query, only states that are closer are gone to, and of those that miss the goal the one that has
    done most of the way to it beyond its share of that distance.
    """
    current = (problem.start if begin is None else begin).copy()
    met = np.zeros(len(current), dtype=bool)
    active = np.arange(len(current))
    for _ in range(steps):
        block = max(CANDIDATES_PER_CALL // max(len(moves.feature), 1), 1)
        blocks = [active[i : i + block] for i in range(0, len(active), block)]
        chosen = [_best_move(problem, moves, current, some, below) for some in blocks]
        moved = np.concatenate([rows for rows, _, _ in chosen]) if chosen else active[:0]
        if len(moved) == 0:
            break
        current[moved] = np.concatenate([values for _, values, _ in chosen])
        met[moved] = np.concatenate([reached for _, _, reached in chosen])
        active = moved[~met[moved]]
    return current, met


def greedy_by_distance(problem: Problem, moves: Moves, values: Values, owner: Integers, refined: bool) -> Values:
    """Valid answers of some queries, or closer ones: greedy search again and again for less than the last cost."""
    values, open_ = values.copy(), np.arange(len(owner))
    for _ in range(PASSES):
        part = problem.part(owner[open_])
        if len(open_) == 0:
            break
        best = part.distance(values[open_], np.arange(len(open_)))
        found, met = greedy_search(part, moves, problem.max_changes, below=best)
        solved = np.flatnonzero(met)
        if refined:
            found[solved] = refine(part, found[solved], solved)
        closer = solved[part.distance(found[solved], solved) < best[solved]]
        values[open_[closer]] = found[closer]
        open_ = open_[closer]
    return values


def _best_move(
    problem: Problem, moves: Moves, current: Values, queries: Integers, below: Floats | None
) -> tuple[Integers, Values, Booleans]:
    """The rows that move, where to, and whether they meet the goal then."""
    feature, start = moves.feature, problem.start[queries]
    low, high = (end[queries][:, feature] for end in problem.span)
    gone = moves.value == problem.space.missing_codes[feature]
    wanted = np.where(gone, moves.value, np.clip(moves.value, low, high))
    landed = problem.limits.take(queries).project(wanted, start, feature)
    tried = (current[queries] == start)[:, feature] & (landed != start[:, feature])
    # Clipping and rounding make some moves equal, which are neighbours: ask each once.
    tried[:, 1:] &= (landed[:, 1:] != landed[:, :-1]) | (feature[1:] != feature[:-1])
    row, move = np.nonzero(tried)
    owner = queries[row]
    candidates = current[owner]
    candidates[np.arange(len(row)), feature[move]] = landed[row, move]
    if below is not None:
        closer = problem.distance(candidates, owner) < below[owner]
        row, owner, candidates = row[closer], owner[closer], candidates[closer]
    if len(row) == 0:
        return owner, candidates, np.zeros(0, dtype=bool)
    candidates = problem.mended(candidates, owner, current[owner])
    met, cost = problem.judge(candidates, owner)
    if below is not None:
        cost = cost / np.maximum(problem.gap[owner], 1e-12) + problem.distance(candidates, owner) / below[owner]
    cost[met] = problem.distance(candidates[met], owner[met])
    order = np.lexsort((cost, ~met, row))
    best = order[np.unique(row[order], return_index=True)[1]]
    return owner[best], candidates[best], met[best]
