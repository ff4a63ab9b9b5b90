"""Sets of features of a tree ensemble: the nearest answer that changes just these, or the proof that there is none."""

from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.problem import Problem
from relax_plugin.trees.aims import aim_at
from relax_plugin.trees.cells import Cells
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import gaps, trees_for, vanishing, with_gaps_kept
from relax_plugin.trees.proving import proving_trees
from relax_plugin.trees.subset_grid import SubsetGrid

MOST_CHANGES = 4  # beyond, the grids of sets do not end in time


def trees_of(problem: Problem, most: int) -> Trees | None:
    """The trees by which sets of up to so many features can be proved; None if the model or the question is another."""
    if most > MOST_CHANGES or problem.also or vanishing(problem.space, problem.limits):
        return None
    try:
        trees = proving_trees(problem.blackbox, problem.space, problem.start[:1])
    except UnsupportedError:
        return None
    if trees.unknown(problem.start[:1]).any():
        return None
    return trees if np.allclose(trees.labels(problem.start[:1]), problem.before.output[:1], rtol=1e-6) else None


def proved_sets(problem: Problem, trees: Trees, sets: Booleans) -> tuple[Values, Floats, Booleans]:
    """The nearest row for each set, its distance (infinite: there is none), and whether that is proved.

    The problem has one query as often as there are sets (sets, features), all features of which are to change, as far
    as that makes a difference to some tree.
    """
    # One query a set: what is not in the set may not change, so that its grid is that of its set alone.
    limits = with_gaps_kept(problem.space, problem.limits.keeping(~sets), problem.start)
    values, distance = problem.start.copy(), np.full(len(sets), np.inf)
    proved = np.zeros(len(sets), dtype=bool)
    for gap in gaps(trees, limits, problem.start):
        seen = trees_for(trees, gap)
        if seen is None:
            continue
        index, goal = gap.index, problem.goal.take(gap.index)
        answering = replace(problem.part(index), conditions=(), also=())

        def met(rows: Values, owner: Integers, part: Problem = answering) -> Booleans:
            return part.goal.take(owner).met(part.blackbox.confirm(part.space.model_input(rows)))

        cells = Cells.of(seen, problem.space, limits.take(index), problem.start[index])
        sizes = sets[index].sum(axis=1)
        grid = SubsetGrid(cells, aim_at(seen, goal), met, int(sizes.max()))
        for k in np.unique(sizes):
            own = np.flatnonzero(sizes == k)
            best = grid.solve(int(k), own)
            solved = own[np.isfinite(best.distance[own])]
            values[index[solved]] = grid.values(best)[solved]
            distance[index[solved]] = best.distance[solved]
        proved[index] = True
    return values, distance, proved
