"""Variants: proposals with one change shorter, longer or taken back, or with all changes shorter together."""

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.problem import Problem
from relax_plugin.world_model.changes import CATEGORY, Changes, lengths, with_changes
from relax_plugin.world_model.model import WorldModel

SHARES = (0.0, 0.3, 0.6, 0.8, 0.92, 1.2)  # of one change
TOGETHER = (0.6, 0.85)  # of all changes
ALL_SHARES = np.array([*SHARES, *TOGETHER])


def variants_of(world: WorldModel, problem: Problem, query: Integers, feature: Array, value: Array) -> Changes:
    """Variants of some proposals, as imagined; each proposal stands in the place of a query in the result.

    Parameters
    ----------
    query : int array (proposals,)
        Whose they are.
    feature, value : arrays (places, proposals)
        Their changes, as in `Changes`.
    """
    space, places, shares = problem.space, len(feature), len(SHARES)
    used = feature >= 0
    start = problem.start[query]
    origin = problem.start[query, feature]
    base = with_changes(start, feature, value)
    made = Changes.none(places, len(query), places * shares + len(TOGETHER))
    made.feature[:], made.value[:] = feature[:, :, None], value[:, :, None]
    categorical = space.jumps(feature, origin, value)
    both = _values(problem, query, feature, origin, value, categorical)
    shorter, together = both[:, :, :shares], both[:, :, shares:]
    made.value[:, :, places * shares :] = together
    for k in range(places):
        made.value[k, :, k * shares : (k + 1) * shares] = shorter[k]
    place, row, share = np.nonzero(used[:, :, None] & (shorter != value[:, :, None]))
    imagined = world.predict_changed(base, row, feature[place, row], shorter[place, row, share])
    made.gap[row, place * shares + share] = world.targets.gap(problem.goal.take(query[row]), imagined)
    several = np.flatnonzero(used.sum(axis=0) > 1)
    if len(several):
        rows = np.repeat(base[several], len(TOGETHER), axis=0)
        places_of = np.repeat(feature[:, several], len(TOGETHER), axis=1)
        flat = with_changes(rows, places_of, together[:, several].reshape(places, -1))
        gap = world.gap(problem.goal.take(np.repeat(query[several], len(TOGETHER))), flat)
        made.gap[several, places * shares :] = gap.reshape(len(several), -1)
    back = made.value == origin[:, :, None]
    made.feature[back | ~used[:, :, None]] = -1
    length = lengths(made.value - origin[:, :, None], space.scale[feature][:, :, None])
    length = np.where(categorical[:, :, None], CATEGORY, length)
    made.length = np.where(made.feature >= 0, length, np.float32(0.0))
    made.gap[(made.feature < 0).all(axis=0)] = np.inf
    return made


def _values(
    problem: Problem, query: Integers, feature: Integers, origin: Floats, value: Floats, at_once: Booleans
) -> Floats:
    """Parts of the way of each change (places, proposals, shares), on the grid and within the bounds.

    Of what changes `at_once`, such as a category, there is all of the way or nothing.
    """
    way = origin[:, :, None] + ALL_SHARES * (value - origin)[:, :, None]
    low, high = problem.span
    inside = problem.limits.round_cells(way, feature[:, :, None])
    inside = np.minimum(np.maximum(inside, low[query, feature][:, :, None]), high[query, feature][:, :, None])
    inside = np.where(at_once[:, :, None], value[:, :, None], inside)
    return np.where(ALL_SHARES == 0.0, origin[:, :, None], inside)
