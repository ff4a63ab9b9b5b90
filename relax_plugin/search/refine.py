"""Refinement of valid counterfactuals, shared by ReLAX and the baselines: revert what is not needed, bisect the rest.

Both parts work on all candidates side by side: one model call tests every subset of changes, or one halving, of all.
"""

from itertools import combinations

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem

HALVINGS = 7  # of each change
LEAST_HALVINGS = 3  # of each change, however few rows are left
LABELS_AT_ONCE = 6  # changes of a candidate tried at a time where any that may be undone will do
MOST_SUBSETS_OF = 5  # up to so many changes, all subsets are tested (30); above, changes are undone one at a time


def refine(problem: Problem, values: Values, owner: Integers, halvings: int = HALVINGS) -> Values:
    """The candidates, which must be valid, made sparser and closer without losing validity."""
    values, _ = undo(problem, values, owner, down_to=MOST_SUBSETS_OF)
    values, worth = revert(problem, values, owner)
    return bisect(problem, values, owner, worth, halvings)


def most_rows_of_refining(changes: Integers) -> Integers:
    """Questions that `refine` asks at most about a candidate with so many changes: to undo, to revert, to bisect."""
    return np.asarray(changes * (changes + 1) // 2 + 2**MOST_SUBSETS_OF + changes * (HALVINGS + 1))


def revert(problem: Problem, values: Values, owner: Integers) -> tuple[Values, Floats]:
    """Keep, of each candidate's changes, the best subset that still meets the goal.

    That is the smallest one and of equal ones the closest, or the closest one, as the objective says.

    Also returns what each change is worth (candidates, features): how far from the goal the candidate would be
    without it, per unit of distance, read off the same answers; NaN where that is not known.
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
        rows = np.arange(len(members))[:, None]
        for size in range(1, k):
            for kept in map(list, combinations(range(k), size)):
                candidate = start[members]
                candidate[rows, features[:, kept]] = values[members][rows, features[:, kept]]
                proposals.append(candidate)
                parents.append(members)
    worth = np.full(values.shape, np.nan)
    if not proposals:
        return values, worth
    candidates, parent = np.concatenate(proposals), np.concatenate(parents)
    met, gap = problem.judge(candidates, owner[parent])
    size = (candidates != start[parent]).sum(axis=1)
    without_one = np.flatnonzero(size == count[parent] - 1)
    removed = np.argmax(values[parent[without_one]] != candidates[without_one], axis=1)
    worth[parent[without_one], removed] = gap[without_one]
    worth /= np.maximum(problem.space.distances(values, start), 1e-12)
    order = np.lexsort((*problem.ranks(candidates, owner[parent]), parent))
    order = order[met[order]]
    first = order[np.unique(parent[order], return_index=True)[1]]
    best = values.copy()
    best[parent[first]] = candidates[first]
    return best, worth


def undo(
    problem: Problem, values: Values, owner: Integers, down_to: int = 1, most_rows: Integers | None = None
) -> tuple[Values, Floats]:
    """Undo, one at a time, the change whose removal leaves the goal best met, while more than `down_to` are left.

    Where distance is what counts, it is the dearest of those without which the goal is met. Cheaper than testing all
    subsets: as many rows as changes for each one undone. Where labels are all there is, the first change that may be
    undone is as good as any, and a few are asked about at a time. Returns worth as `revert` does. With `most_rows` (one
    a query) candidates that their query cannot pay for any longer, the last ones, stay as they are.
    """
    values, start = values.copy(), problem.start[owner]
    worth = np.full(values.shape, np.nan)
    at_once = values.shape[1] if problem.goal.blackbox.has_scores else LABELS_AT_ONCE
    needed = np.zeros(len(values), dtype=np.int64)  # the first changes of a candidate, known to be needed
    active = np.flatnonzero((values != start).sum(axis=1) > down_to)
    while len(active):
        if most_rows is not None:
            price = np.minimum((values != start)[active].sum(axis=1) - needed[active], at_once)
            price *= problem.blackbox.rows_per_question
            active = active[affordable(problem, owner[active], price, most_rows)]
        row, feature = np.nonzero((values != start)[active])
        place = np.arange(len(row)) - np.searchsorted(row, row) - needed[active][row]
        row, feature = row[(place >= 0) & (place < at_once)], feature[(place >= 0) & (place < at_once)]
        candidates = values[active][row]
        candidates[np.arange(len(row)), feature] = start[active][row, feature]
        met, gap = problem.judge(candidates, owner[active][row])
        distance = problem.space.distances(values[active], start[active])[row, feature]
        worth[active[row], feature] = gap / np.maximum(distance, 1e-12)
        order = np.lexsort((np.where(met, -distance, gap) if problem.by_distance else gap, ~met, row))
        best = order[np.unique(row[order], return_index=True)[1]]
        undone = met[best]
        values[active[undone]] = candidates[best][undone]
        needed[active] = np.where(undone, 0, needed[active] + at_once)
        left = (values != start)[active].sum(axis=1)
        active = active[(left > down_to) & (needed[active] < left)]
    return values, worth


def undo_many(problem: Problem, values: Values, owner: Integers, most_rows: Integers) -> Values:
    """Undo changes many at a time, until none of those left can be undone or the rows of its query are spent.

    A round asks about every change undone alone, then about all that may be, half of them, a quarter, ... undone
    together: first those without which the goal is best met, and of equal ones the shortest; where distance is what
    counts, the dearest. So it takes few calls, and a few rows a change, where `undo` takes as many as there are changes
    for each.
    """
    values, start = values.copy(), problem.start[owner]
    active = np.flatnonzero((values != start).sum(axis=1) > 1)
    while len(active):
        count = (values != start)[active].sum(axis=1)
        price = (count + np.log2(count).astype(np.int64)) * problem.blackbox.rows_per_question
        active = active[affordable(problem, owner[active], price, most_rows)]
        row, feature = np.nonzero((values != start)[active])
        alone = values[active][row]
        alone[np.arange(len(row)), feature] = start[active][row, feature]
        met, gap = problem.judge(alone, owner[active][row])
        length = problem.space.distances(values[active], start[active])[row, feature]
        order = np.lexsort((gap, -length, ~met, row) if problem.by_distance else (length, gap, ~met, row))
        turn = np.full((len(active), values.shape[1]), values.shape[1])  # at which each change is undone
        turn[row[order], feature[order]] = np.arange(len(row)) - np.searchsorted(row, row)
        able = np.bincount(row[met], minlength=len(active))
        active, turn, able = active[able > 0], turn[able > 0], able[able > 0]
        undone = np.minimum(able, 1)
        able = np.minimum(able, (values != start)[active].sum(axis=1) - 1)  # without any change it is the query
        halved = able[:, None] >> np.arange(values.shape[1].bit_length())
        candidate, level = np.nonzero(halved > 1)
        size = halved[candidate, level]
        together = np.where(turn[candidate] < size[:, None], start[active[candidate]], values[active[candidate]])
        met, _ = problem.judge(together, owner[active[candidate]])
        np.maximum.at(undone, candidate[met], size[met])
        values[active] = np.where(turn < undone[:, None], start[active], values[active])
        active = active[(values != start)[active].sum(axis=1) > 1]
    return values


def affordable(problem: Problem, owner: Integers, price: Integers, most_rows: Integers) -> Booleans:
    """Of candidates in the order of their promise, those whose prices their query can still pay, one after another."""
    order = np.argsort(owner, kind="stable")
    total = np.cumsum(price[order])
    first = np.searchsorted(owner[order], owner[order])
    bill = total - (total - price[order])[first]
    paid = np.empty(len(owner), dtype=bool)
    paid[order] = bill <= (most_rows - problem.spent)[owner[order]]
    return paid


def bisect(
    problem: Problem,
    values: Values,
    owner: Integers,
    worth: Floats,
    halvings: int,
    most_rows: Integers | None = None,
) -> Values:
    """Move each change of each candidate back towards the original as far as the goal allows.

    The change worth least is moved first: whatever is taken back there need not be kept elsewhere. A change none of
    whose shorter forms failed may not be needed at all: it is tried without, as long as others remain. With
    `most_rows` (one a query) candidates of one query compete: those that cannot become the closest are given up, and
    the rows left are shared out evenly over candidates and changes.
    """
    values = values.copy()
    start = problem.start[owner]
    limits = problem.limits.take(owner)
    changed = values != start
    order = np.argsort(np.where(changed, np.nan_to_num(worth, nan=0.0), np.inf), axis=1, kind="stable")
    everyone = np.arange(len(values))
    for turn in range(int(changed.sum(axis=1).max(initial=0))):
        feature = order[:, turn]
        concerned = everyone[changed[everyone, feature]]
        at = feature[concerned]
        active = concerned[~problem.space.jumps(at, start[concerned, at], values[concerned, at])]
        failed = start[everyone, feature]  # the nearest value known not to meet the goal
        if most_rows is not None:
            turns_left = changed[active].sum(axis=1) - turn
            rivals = np.bincount(owner[active], minlength=len(problem))[owner[active]]
            quota = np.zeros(len(values), dtype=np.int64)
            quota[active] = np.maximum(
                (most_rows - problem.spent)[owner[active]] // (turns_left * rivals), LEAST_HALVINGS
            )
        for halving in range(halvings):
            if most_rows is not None:
                active = active[halving < quota[active]]
                active = active[_may_win(problem, values, owner, active, feature, failed)]
            at = feature[active]
            current = values[active, at]
            trial = values[active]
            trial[np.arange(len(active)), at] = 0.5 * (failed[active] + current)
            trial = limits.take(active).project(trial, start[active])
            middle = trial[np.arange(len(active)), at]
            between = (middle != failed[active]) & (middle != current)
            active, trial, middle = active[between], trial[between], middle[between]
            if len(active) == 0:
                break
            trial = _mended(problem, trial, values[active], owner[active])
            met, _ = problem.judge(trial, owner[active])
            values[active[met]] = trial[met]
            failed[active[~met]] = middle[~met]
        several = (values[concerned] != start[concerned]).sum(axis=1) > 1
        doubtful = concerned[several & (failed[concerned] == start[concerned, feature[concerned]])]
        if len(doubtful):
            without = values[doubtful]
            without[np.arange(len(doubtful)), feature[doubtful]] = failed[doubtful]
            met, _ = problem.judge(without, owner[doubtful])
            values[doubtful[met]] = without[met]
    return values


def _mended(problem: Problem, trial: Values, values: Values, owner: Integers) -> Values:
    """The trials, and where rules make another column go along, what is no farther than before; else as they are."""
    if problem.rules is None:
        return trial
    mended = problem.mended(trial, owner)
    farther = problem.distance(mended, owner) >= problem.distance(values, owner)
    return np.where(farther[:, None], trial, mended)


def _may_win(
    problem: Problem, values: Values, owner: Integers, active: Integers, feature: Integers, failed: Floats
) -> Booleans:
    """Whether a candidate could still become its owner's closest by moving this feature as far back as may be."""
    distance = problem.distance(values, owner)
    best = np.full(len(problem), np.inf)
    np.minimum.at(best, owner, distance)
    hopeful = values[active]
    hopeful[np.arange(len(active)), feature[active]] = failed[active]
    ahead = distance[active] == best[owner[active]]
    return np.asarray(ahead | (problem.distance(hopeful, owner[active]) < best[owner[active]]))
