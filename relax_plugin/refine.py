"""Refinement of valid counterfactuals, shared by ReLAX and the baselines: revert what is not needed, bisect the rest.

Both parts work on all candidates side by side: one model call tests every subset of changes, or one halving, of all.
"""

from itertools import combinations
from typing import Any

import numpy as np

from relax_plugin.features import Values
from relax_plugin.problem import Floats, Integers, Problem

MOST_SUBSETS_OF = 5  # up to so many changes, all subsets are tested (30); above, changes are undone one at a time


def refine(problem: Problem, values: Values, owner: Integers, halvings: int = 7) -> Values:
    """The candidates, which must be valid, made sparser and closer without losing validity."""
    values = undo_many(problem, values, owner)
    values, worth = revert(problem, values, owner)
    return bisect(problem, values, owner, worth, halvings)


def revert(problem: Problem, values: Values, owner: Integers) -> tuple[Values, Floats]:
    """Keep, of each candidate's changes, the smallest subset that still meets the goal; of equal ones the closest.

    Also returns what each change is worth (candidates, features): how much further from the goal the candidate
    would be without it, per unit of distance, read off the same answers.
    """
    start = problem.start[owner]
    changed = values != start
    count = changed.sum(axis=1)
    proposals, parents = [], []
    for k in range(2, min(MOST_SUBSETS_OF, values.shape[1]) + 1):
        members = np.flatnonzero(count == k)
        if len(members) == 0:
            continue
        features = np.nonzero(changed[members])[1].reshape(-1, k)
        for kept in _proper_subsets(k):
            candidate = start[members].copy()
            rows = np.arange(len(members))[:, None]
            candidate[rows, features[:, kept]] = values[members][rows, features[:, kept]]
            proposals.append(candidate)
            parents.append(members)
    worth = np.full(values.shape, np.nan)
    if not proposals:
        return values, worth
    candidates, parent = np.concatenate(proposals), np.concatenate(parents)
    met, gap = problem.judge(candidates, owner[parent])
    size = (candidates != start[parent]).sum(axis=1)
    without_one = size == count[parent] - 1
    removed = np.argmax((values[parent] != candidates)[without_one], axis=1)
    distance = problem.space.distances(values, start)
    alone = parent[without_one]
    worth[alone, removed] = gap[without_one] / np.maximum(distance[alone, removed], 1e-12)
    cost = size + 1e-6 * problem.distance(candidates, owner[parent])
    best = values.copy()
    order = np.lexsort((cost, parent))[met[np.lexsort((cost, parent))]]
    first = np.unique(parent[order], return_index=True)[1]
    best[parent[order][first]] = candidates[order][first]
    return best, worth


def bisect(problem: Problem, values: Values, owner: Integers, worth: Floats, halvings: int) -> Values:
    """Move each change of each candidate back towards the original as far as the goal allows.

    The change worth least is moved first: whatever is taken back there need not be kept elsewhere.
    """
    values = values.copy()
    start = problem.start[owner]
    limits = problem.limits.rows(owner)
    changed = (values != start) & ~problem.space.is_categorical
    order = np.argsort(np.where(changed, np.nan_to_num(worth, nan=0.0), np.inf), axis=1, kind="stable")
    for turn in range(int(changed.sum(axis=1).max(initial=0))):
        feature = order[:, turn]
        everyone = np.arange(len(values))
        active = everyone[changed[everyone, feature]]
        failed = start[everyone, feature]  # the nearest value known not to meet the goal
        for _ in range(halvings):
            trial = values[active].copy()
            middle = 0.5 * (failed[active] + values[active, feature[active]])
            trial[np.arange(len(active)), feature[active]] = middle
            trial = limits.rows(active).project(trial, start[active])
            middle = trial[np.arange(len(active)), feature[active]]
            ends = (middle == failed[active]) | (middle == values[active, feature[active]])
            active, trial, middle = active[~ends], trial[~ends], middle[~ends]
            if len(active) == 0:
                break
            met, _ = problem.judge(trial, owner[active])
            values[active[met]] = trial[met]
            failed[active[~met]] = middle[~met]
    return values


def undo_many(problem: Problem, values: Values, owner: Integers) -> Values:
    """For candidates with many changes: undo, one at a time, the change whose removal leaves the goal best met."""
    values = values.copy()
    start = problem.start[owner]
    active = np.flatnonzero((values != start).sum(axis=1) > MOST_SUBSETS_OF)
    while len(active):
        row, feature = np.nonzero((values != start)[active])
        candidates = values[active][row]
        candidates[np.arange(len(row)), feature] = start[active][row, feature]
        met, gap = problem.judge(candidates, owner[active][row])
        order = np.lexsort((gap, ~met, row))
        best = order[np.unique(row[order], return_index=True)[1]]
        values[active[met[best]]] = candidates[best][met[best]]
        still_many = (values != start)[active].sum(axis=1) > MOST_SUBSETS_OF
        active = active[met[best] & still_many]
    return values


def _proper_subsets(k: int) -> list[list[Any]]:
    """All subsets of k changes but the empty and the whole one, as lists of positions."""
    return [list(kept) for size in range(1, k) for kept in combinations(range(k), size)]
