"""Polish: valid candidates made sparser and closer: drop, swap, shorten, snap.

All candidates of all queries go side by side: each step is one call of the model, or a few. Where the rows of a query
are limited, steps ask about fewer rows at a time.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem
from relax_plugin.search.candidates import Candidates, Rows, affordable, with_cells
from relax_plugin.search.moves import Moves

POLISHED = 3  # candidates of a query
MOST_SUBSETS_OF = 5  # changes, of which every subset is tried; of more, one at a time is undone
LABELS_AT_ONCE = 6  # changes of a row that are tried at a time where any that may be undone will do
MESH = (8, 6, 4, 3, 2)  # points on each axis of the grid that one, two, ... numbers are shortened on together
ZOOMS = 3  # of that grid
POINTS, ROUNDS = 7, 2  # between a value that does and one that does not: tried at once, and how often
HALVINGS = 3  # that come as near as a round of these
SWAPPED = 8  # features tried in the place of one that is changed


def polish(candidates: Candidates) -> None:
    """Drop changes of each query's best candidates, and shorten the others together."""
    drop(candidates, POLISHED)
    shorten(candidates, POLISHED)


def drop_and_shorten(candidates: Candidates, most: int = 1) -> None:
    """Drop changes of each query's best candidates, and shorten the numbers left: first what is worth least."""
    worth = drop(candidates, most)
    best = candidates.top(most)
    if best is None:
        return
    values, owner = best.values.copy(), best.owner
    start = candidates.problem.start[owner]
    longest_first = -candidates.problem.space.distances(values, start)
    key = np.where(np.isfinite(worth[owner]), worth[owner], longest_first)
    key[~_numbers(candidates, values, owner)] = np.inf
    _shorten_in_turn(candidates, values, owner, key, start, ROUNDS)


def touch_up(candidates: Candidates, rows: int = 8) -> None:
    """Drop changes of each query's best candidate, and shorten the others, at so many further model rows at most."""
    known = candidates.problem.spent + rows * candidates.problem.blackbox.rows_per_question
    limit = known if candidates.budget.rows is None else np.minimum(known, candidates.budget.rows)
    candidates.budget = replace(candidates.budget, rows=limit)
    drop_and_shorten(candidates)


def unpolished(candidates: Candidates) -> None:
    """Leave the candidates as they were found."""


def refine(problem: Problem, values: Values, owner: Integers) -> Values:
    """The rows, which must be valid, without the changes that are not needed, and with shorter ones."""
    if len(values) == 0:
        return values
    candidates = Candidates(problem.part(owner))  # each row is polished by itself
    candidates.accept(values, np.arange(len(values)))
    drop_and_shorten(candidates)
    best = candidates.top(1)
    if best is not None:
        values = values.copy()
        values[best.owner] = best.values
    return values


def drop(candidates: Candidates, most: int) -> Floats:
    """Ask about all subsets of the changes of each query's best candidates.

    Of many changes, or where rows are limited, one at a time is undone. Returns what each change is worth (queries,
    features): how far from the goal a candidate is without it, per unit of distance; NaN where that is not known.
    """
    problem, limit = candidates.problem, candidates.budget.rows
    worth = np.full(problem.start.shape, np.nan)
    best = candidates.top(most, spare=1)
    if best is None:
        return worth
    few = 1 if limit is not None else MOST_SUBSETS_OF
    many = np.flatnonzero(best.changes > few)
    if len(many):
        most_rows = None if limit is None else np.broadcast_to(limit, len(problem))
        undone = undo(problem, best.values[many], best.owner[many], few, most_rows)
        candidates.accept(undone, best.owner[many])
        best.values[many], best.changes[many] = undone, problem.changed(undone, best.owner[many]).sum(axis=1)
    start = problem.start[best.owner]
    changed = best.values != start
    made, parents = [], []
    for count in np.unique(best.changes[(best.changes > 1) & (best.changes <= few)]):
        rows = np.flatnonzero(best.changes == count)
        features = np.nonzero(changed[rows])[1].reshape(-1, count)
        for kept in (list(kept) for size in range(1, count) for kept in combinations(range(count), size)):
            fewer, here = start[rows], np.arange(len(rows))[:, None]
            fewer[here, features[:, kept]] = best.values[rows][here, features[:, kept]]
            made.append(fewer)
            parents.append(rows)
    if made:
        subsets, parent = np.concatenate(made), np.concatenate(parents)
        gap = candidates.ask(subsets, best.owner[parent]).gap
        without = changed[parent] & (subsets == start[parent])
        one = np.flatnonzero(without.sum(axis=1) == 1)
        removed, owner = without[one].argmax(axis=1), best.owner[parent[one]]
        moved = problem.space.distances(best.values[parent[one]], start[parent[one]])
        worth[owner, removed] = gap[one] / np.maximum(moved[np.arange(len(one)), removed], 1e-12)
    return worth


def undo(
    problem: Problem, values: Values, owner: Integers, down_to: int = 1, most_rows: Integers | None = None
) -> Values:
    """Undo, one at a time, the change without which the goal is best met, while more than `down_to` are left.

    The rows must be valid. Where the least distance is the objective, it is the dearest of the changes without which
    the goal is met. Where labels are all there is, the first change that may be undone is as good as any, and a few are
    asked about at a time. With `most_rows` (one a query) rows that their query cannot pay for any longer, the last
    ones, stay as they are.
    """
    values, start = values.copy(), problem.start[owner]
    at_once = values.shape[1] if problem.goal.blackbox.has_scores else LABELS_AT_ONCE
    needed = np.zeros(len(values), dtype=np.int64)  # the first changes of a row, known to be needed
    active = np.flatnonzero((values != start).sum(axis=1) > down_to)
    while len(active):
        if most_rows is not None:
            price = np.minimum((values != start)[active].sum(axis=1) - needed[active], at_once)
            price *= problem.blackbox.rows_per_question
            active = active[affordable(problem, owner[active], price, most_rows)]
        row, feature = np.nonzero((values != start)[active])
        place = np.arange(len(row)) - np.searchsorted(row, row) - needed[active][row]
        row, feature = row[(place >= 0) & (place < at_once)], feature[(place >= 0) & (place < at_once)]
        tried = with_cells(values[active], row, feature, start[active][row, feature])
        met, gap = problem.judge_admitted(tried, owner[active][row])
        if problem.by_distance:
            gap = np.where(met, -problem.space.distances(values[active], start[active])[row, feature], gap)
        order = np.lexsort((gap, ~met, row))
        best = order[np.unique(row[order], return_index=True)[1]]
        undone = met[best]
        values[active[undone]] = tried[best][undone]
        needed[active] = np.where(undone, 0, needed[active] + at_once)
        left = (values != start)[active].sum(axis=1)
        active = active[(left > down_to) & (needed[active] < left)]
    return values


def bracket(
    candidates: Candidates,
    values: Values,
    owner: Integers,
    feature: Integers,
    failed: Floats,
    at_once: int = POINTS,
    rounds: int = ROUNDS,
) -> tuple[Values, Floats]:
    """Move one number of each valid row back towards a value that fails, as far as the goal allows.

    Of the numbers between both `at_once` are asked about, then of those between the nearest ones. Also returns the
    nearest values that are known to fail.
    """
    values, failed, here = values.copy(), failed.copy(), np.arange(len(values))
    for _ in range(rounds):
        reached = values[here, feature]
        way = np.arange(1, at_once + 1) / (at_once + 1)
        points = failed[:, None] + (reached - failed)[:, None] * way
        points = candidates.on_grid(points, owner[:, None], feature[:, None])
        low, high = np.minimum(failed, reached)[:, None], np.maximum(failed, reached)[:, None]
        new = (points > low) & (points < high)
        new[:, 1:] &= points[:, 1:] != points[:, :-1]
        row, point = np.nonzero(new)
        if len(row) == 0:
            break
        good = np.zeros(points.shape, dtype=bool)
        tried = with_cells(values, row, feature[row], points[row, point])
        judged = candidates.ask(tried, owner[row], values[row])
        good[row, point] = judged.met & _no_farther(candidates, judged.values, values[row], owner[row])
        solved, first = good.any(axis=1), np.where(good.any(axis=1), good.argmax(axis=1), at_once)
        # The last point that was tried before the first good one.
        tried_before = np.where(new & (np.arange(at_once) < first[:, None]), np.arange(at_once), -1).max(axis=1)
        failed = np.where(tried_before >= 0, points[here, tried_before], failed)
        place = np.zeros(points.shape, dtype=np.int64)
        place[row, point] = np.arange(len(row))
        values[solved] = judged.values[place[solved, first[solved]]]
    return values, failed


def _no_farther(candidates: Candidates, values: Values, before: Values, owner: Integers) -> Booleans:
    """Whether rows are no farther than before: where rules hold, a repair may have changed other columns too."""
    if candidates.problem.rules is None:
        return np.ones(len(values), dtype=bool)
    return np.asarray(candidates.length(values, owner) <= candidates.length(before, owner))


def shorten(candidates: Candidates, most: int, zooms: int = ZOOMS) -> None:
    """Shorten the numbers of each query's best candidates: all together on a grid that is zoomed into.

    Rows with more numbers than the finest grid has room for are shortened one number at a time.
    """
    best = candidates.top(most)
    if best is None:
        return
    values, owner = best.values, best.owner
    number = _numbers(candidates, values, owner)
    some = number.any(axis=1)
    values, owner, number = values[some].copy(), owner[some], number[some]
    start = candidates.problem.start[owner]
    _on_mesh(candidates, values, owner, start, number, zooms)
    many = number.sum(axis=1) > len(MESH)
    if many.any():
        longest_first = np.where(number, -candidates.problem.space.distances(values, start), np.inf)[many]
        _shorten_in_turn(candidates, values[many], owner[many], longest_first, start[many], ROUNDS)


def _numbers(candidates: Candidates, values: Values, owner: Integers) -> Booleans:
    """Which cells are numbers that were moved, and may be moved back a part of the way."""
    space, start = candidates.problem.space, candidates.problem.start[owner]
    return np.asarray((values != start) & ~space.jumps(np.arange(len(space)), start, values))


def _shorten_in_turn(
    candidates: Candidates, values: Values, owner: Integers, key: Floats, failed: Values, rounds: int
) -> None:
    """Shorten each row's numbers with a finite key, the least key first, in place.

    Where rows are limited, all numbers are halved in turn, once and once again, so that none takes the rows of others.
    """
    order, failed = np.argsort(key, axis=1, kind="stable"), failed.copy()
    passes, at_once = 1, POINTS
    if candidates.budget.rows is not None:
        passes, at_once, rounds = rounds * HALVINGS, 1, 1
    for turn in list(range(int(np.isfinite(key).sum(axis=1).max(initial=0)))) * passes:
        feature = order[:, turn]
        rows = np.flatnonzero(np.isfinite(key[np.arange(len(values)), feature]))
        at = feature[rows]
        values[rows], failed[rows, at] = bracket(
            candidates, values[rows], owner[rows], at, failed[rows, at], at_once, rounds
        )


def _on_mesh(
    candidates: Candidates, values: Values, owner: Integers, start: Values, number: Booleans, zooms: int
) -> None:
    """Shorten all numbers of each row together, in place, as long as it may still become its query's closest one."""
    scale = candidates.problem.space.prices / candidates.problem.space.scale
    low = np.where(number, start, values)
    for _ in range(zooms):
        closest, asked = np.full(len(candidates.problem), np.inf), []
        np.minimum.at(closest, owner, candidates.length(values, owner))
        count = np.where(candidates.length(low, owner) < closest[owner], number.sum(axis=1), 0)
        for axes, points in enumerate(MESH, 1):
            rows = np.flatnonzero(count == axes)
            if len(rows) == 0:
                continue
            feature, every = np.nonzero(number[rows])[1].reshape(-1, axes), np.arange(axes)
            near, far = low[rows[:, None], feature], values[rows[:, None], feature]
            points_of = near[:, :, None] + (far - near)[:, :, None] * (np.arange(1, points + 1) / points)
            points_of = candidates.on_grid(points_of, owner[rows][:, None, None], feature[:, :, None])
            others = np.diff(points_of, axis=2, append=np.inf) != 0
            others &= points_of != start[rows[:, None], feature][:, :, None]
            cell = np.indices([points] * axes).reshape(axes, -1).T[:-1]  # without the row itself
            new = np.asarray(others[:, every, cell].all(axis=2))
            asked.append((rows, feature, points_of[:, every, cell], new, far - near))
        if not asked:
            break
        made, owners = [], []
        for rows, feature, point, new, _ in asked:
            row, cell = np.nonzero(new)
            tried = values[rows[row]]
            np.put_along_axis(tried, feature[row], point[row, cell], axis=1)
            made.append(tried)
            owners.append(owner[rows[row]])
        good, first = candidates.ask(np.concatenate(made), np.concatenate(owners)).met, 0
        for rows, feature, point, new, width in asked:
            here = rows[:, None], feature
            length = (np.abs(point - start[here][:, None]) * scale[feature][:, None]).sum(axis=2)
            met = np.zeros(new.shape, dtype=bool)
            met[new] = good[first : first + new.sum()]
            first += new.sum()
            length[~met] = np.inf
            shortest = point[np.arange(len(rows)), length.argmin(axis=1)]
            values[here] = np.where(np.isfinite(length.min(axis=1))[:, None], shortest, values[here])
            back = values[here] - width / MESH[feature.shape[1] - 1]
            low[here] = np.where((back - start[here]) * width > 0, back, start[here])


def swap(candidates: Candidates, moves: Moves) -> None:
    """Ask about another feature, changed by less, in the place of one that is changed."""
    best, problem = candidates.top(1), candidates.problem
    if best is None or candidates.gain is None:
        return
    start = problem.start[best.owner]
    row, feature = np.nonzero((best.values != start) & (best.changes > 1)[:, None])
    if len(row) == 0:
        return
    owner, space = best.owner[row], problem.space
    without = with_cells(best.values, row, feature, start[row, feature])
    limit = space.distances(best.values, start)[row, feature]
    queries, place = np.unique(owner, return_inverse=True)
    landed, new = moves.landed(problem.part(queries))
    length = moves.lengths(space, problem.start[queries], landed)
    shorter = new[place] & (length[place] < limit[:, None])
    shorter &= (without == start[row])[:, moves.feature] & (moves.feature != feature[:, None])
    gain, at = moves.best_of_features(np.where(shorter, candidates.gain[owner], -np.inf))
    count = min(SWAPPED, gain.shape[1])
    features = np.argpartition(-gain, count - 1, axis=1)[:, :count]
    change, column = np.nonzero(np.take_along_axis(gain, features, axis=1) > 0)
    move = at[change, features[change, column]]
    values = with_cells(without, change, moves.feature[move], landed[place[change], move])
    candidates.ask(values, owner[change])


def snap(candidates: Candidates, best: Rows, natural: Floats, seen: Sequence[Floats] = ()) -> Rows:
    """Move numbers away from the query to the next multiple of their natural step, where the goal holds there.

    Numbers without a step go to the next of the values `seen` of their feature, if there are any. All numbers of a row
    together, or else one of them.
    """
    values, owner = best.values, best.owner
    away = snapped(candidates.problem, values, owner, natural, seen)
    odd = away != values
    row, feature = np.nonzero(odd)
    if len(row) == 0:
        return best
    rows = np.concatenate([np.flatnonzero(odd.any(axis=1)), row])
    tried = np.concatenate([away[odd.any(axis=1)], with_cells(values, row, feature, away[row, feature])])
    tried, met, _, answer = candidates.ask(tried, owner[rows])
    good, first = np.unique(rows[met], return_index=True)  # all numbers together come first
    chosen = np.flatnonzero(met)[first]
    values = values.copy()
    values[good] = tried[chosen]
    known = best.scores
    if known is not None and answer.scores is not None:
        known = known.copy()
        known[good] = answer.scores[chosen]
    return best._replace(values=values, scores=known)


def snapped(problem: Problem, values: Values, owner: Integers, natural: Floats, seen: Sequence[Floats] = ()) -> Values:
    """The candidates with their changed numbers moved away from the query to the next multiples of natural steps."""
    start, every, step = problem.start[owner], np.arange(len(natural)), np.where(natural > 0, natural, 1.0)
    away = np.where(values > start, np.ceil(values / step - 1e-9), np.floor(values / step + 1e-9)) * step
    away, natural_here = np.round(away, 9), natural > 0
    for j in (j for j, known in enumerate(seen) if len(known) and natural[j] == 0):
        known = seen[j][seen[j] != problem.space.missing_codes[j]]
        up, down = np.searchsorted(known, values[:, j]), np.searchsorted(known, values[:, j], side="right") - 1
        place = np.where(values[:, j] > start[:, j], up, down)
        natural_here[j], away[:, j] = True, np.append(known, [np.nan])[np.clip(place, -1, len(known))]
    away = np.where(np.isnan(away), values, away)
    low, high = (end[owner] for end in problem.span)
    away = np.clip(problem.limits.grid.nearest(away, every), low, high)
    number = natural_here & (values != start) & ~problem.space.jumps(every, start, values)
    return np.where(number & (away != values) & ((away > values) == (values > start)), away, values)
