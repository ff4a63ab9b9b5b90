"""Polishing: answers about trees that are known brought to the fewest changes, and as near as so few allow.

A search that asks the model finds the sparsest answers, but for the nearest of them it would have to ask much more.
Where the user lets the trees of the model be read (`BlackBox(model, accelerate="polish")`), the subset grid knows the
nearest row with as many changes, whichever they are. The model's own `predict` confirms it before it takes the place
of what the search has found.
"""

from math import comb

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.trees.aims import aim_at
from relax_plugin.trees.cells import Cells
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import gaps, trees_for, vanishing, with_gaps_kept
from relax_plugin.trees.subset_grid import CHUNK_CELLS, SubsetGrid

STAGE = "polished"
MOST_CHANGES = 3  # beyond, grids of four features and more do not end in time
MOST_SETS = 10_000  # of features, up to which all sets of a size are looked at
CLOSE = 1e-9  # relative difference of distances that is rounding


def polish(problem: Problem, made: Proposals) -> None:
    """Put the nearest row with the fewest changes in the place of the first offer of each query, where that is better.

    What counts otherwise than a row by itself is left as it is: further models, a probability that is wanted, the least
    distance with any number of changes.
    """
    trees = problem.blackbox.trees.trees if problem.blackbox.trees is not None else None
    linked = trees is not None and trees.decision.link != "identity" and problem.goal.needs_scores
    if trees is None or linked or problem.also or problem.itself_misses or problem.by_distance:
        return
    if vanishing(problem.space, problem.limits):
        return
    before = made.values[:, 0]
    changes = (before != problem.start).sum(axis=1)
    most = _most_changes(len(np.unique(trees.feature[trees.feature >= 0])), problem.max_changes)
    open_ = np.flatnonzero(made.offered[:, 0] & (changes > 0) & (changes <= most) & ~trees.unknown(problem.start))
    if len(open_) == 0:
        return
    values, distance = _nearest(problem.part(open_), trees, int(changes[open_].max()))
    fewer = (values != problem.start[open_]).sum(axis=1) < changes[open_]
    nearer = distance < problem.distance(before[open_], open_) * (1 - CLOSE)
    better = np.flatnonzero(np.isfinite(distance) & (fewer | nearer))
    better = better[problem.admits(values[better], open_[better])]
    who = open_[better]
    if len(who) == 0:
        return
    # Whatever the trees say, the model's own answer decides.
    problem.charge(who, 1)
    told = problem.blackbox.confirm(problem.space.model_input(values[better]))
    kept = problem.goal.take(who).met(told)
    who, better = who[kept], better[kept]
    made.values[who, 0], made.stage[who, 0] = values[better], STAGE
    if made.scores is not None:
        made.scores[who, 0] = np.nan


def _most_changes(tested: int, most: int) -> int:
    sizes = [k for k in range(1, min(most, MOST_CHANGES) + 1) if comb(tested, k) <= MOST_SETS]
    return max(sizes, default=1)


def _nearest(problem: Problem, trees: Trees, most: int) -> tuple[Values, Floats]:
    """The nearest row with the fewest changes of each query, and its distance; infinite where that is not known."""
    space, values = problem.space, problem.start.copy()
    limits, distance = with_gaps_kept(space, problem.limits, problem.start), np.full(len(problem), np.inf)
    for gap in gaps(trees, limits, problem.start):
        seen = trees_for(trees, gap)
        if seen is None:
            continue
        size = max(1, 16 * CHUNK_CELLS // max(1, seen.boxes[0].size))
        for first in range(0, len(gap), size):
            index = gap.index[first : first + size]
            goal, start = problem.goal.take(index), problem.start[index]

            def met(rows: Values, owner: Integers, part: Problem = problem, index: Integers = index) -> Booleans:
                scores = trees.scores(rows)
                chances = trees.linked(scores).astype(np.float64) if part.goal.wanted is not None else None
                return part.goal.take(index[owner]).met(Answer(trees.decided(scores), chances))

            grid = SubsetGrid(Cells.of(seen, space, limits.take(index), start), aim_at(seen, goal), met, most)
            left = np.arange(len(index))
            for k in range(1, min(most, len(grid.movable)) + 1):
                best = grid.solve(k, left)
                solved = left[np.isfinite(best.distance[left])]
                values[index[solved]] = grid.values(best)[solved]
                distance[index[solved]] = space.distance(values[index[solved]], start[solved])
                left = np.setdiff1d(left, solved)
    return values, distance
