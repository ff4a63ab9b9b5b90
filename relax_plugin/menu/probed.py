"""Sets of features of any model: values of each set on a grid, asked in batches, and then nearer ones."""

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem

POINTS = {1: 48, 2: 12, 3: 6, 4: 4}  # values of each feature, by the size of the set; beyond, 3
ROUNDS = 3  # in which the grid is drawn closer around the best answer
NEARER = 4  # values of each feature in such a round, between the query's and the answer's


def probed_sets(problem: Problem, sets: Booleans, open_: Integers) -> tuple[Values, Booleans]:
    """The best row found for each set, and whether one was found; the model is asked in one call a round.

    The problem has one query as often as there are sets (sets, features); those in `open_` are looked at.
    """
    values, found = problem.start.copy(), np.zeros(len(sets), dtype=bool)
    lines = [_first_line(problem, sets[row], row) for row in open_]
    for _ in range(1 + ROUNDS):
        rows, owner = _grids(problem, sets, lines, open_)
        if len(rows) == 0:
            break
        rows = problem.within_limits(rows, owner)
        kept = ((rows != problem.start[owner]) == sets[owner]).all(axis=1)  # mended rows may leave their set
        rows, owner = rows[kept], owner[kept]
        met, _ = problem.judge(rows, owner)
        _take_nearest(problem, rows[met], owner[met], values, found)
        lines = [_next_line(problem, sets[row], values[row], row) if found[row] else [] for row in open_]
    return values, found


def _take_nearest(problem: Problem, rows: Values, owner: Integers, values: Values, found: Booleans) -> None:
    distance = problem.distance(rows, owner)
    known = np.where(found, problem.distance(values, np.arange(len(values))), np.inf)
    order = np.lexsort((distance, owner))
    first = order[np.unique(owner[order], return_index=True)[1]]
    better = first[distance[first] < known[owner[first]]]
    values[owner[better]], found[owner[better]] = rows[better], True


def _first_line(problem: Problem, chosen: Booleans, row: int) -> list[Floats]:
    """Values of each feature of a set, over all that it may be."""
    low, high = (end[row] for end in problem.span)
    count = POINTS.get(int(chosen.sum()), 3)
    lines = []
    for j in np.flatnonzero(chosen):
        if problem.space.is_categorical[j]:
            lines.append(np.arange(len(problem.space.features[j].categories), dtype=np.float64))
        else:
            lines.append(np.linspace(low[j], high[j], count))
    return lines


def _next_line(problem: Problem, chosen: Booleans, answer: Floats, row: int) -> list[Floats]:
    """Values of each feature from the query's to the answer's."""
    lines = []
    for j in np.flatnonzero(chosen):
        start = problem.start[row, j]
        jumps = problem.space.jumps(j, np.array([start]), answer[[j]])[0]
        share = np.r_[np.linspace(0.25, 1.0, NEARER), 0.95]
        lines.append(answer[[j]] if jumps else start + share * (answer[j] - start))
    return lines


def _grids(problem: Problem, sets: Booleans, lines: list[list[Floats]], open_: Integers) -> tuple[Values, Integers]:
    """Every combination of the values of each set, as rows, and whose they are."""
    parts, owner = [problem.start[:0]], [np.zeros(0, dtype=np.int64)]
    for row, line in zip(open_, lines, strict=True):
        if not line:
            continue
        cells = np.stack(np.meshgrid(*line, indexing="ij"), axis=-1).reshape(-1, len(line))
        rows = np.repeat(problem.start[[row]], len(cells), axis=0)
        rows[:, np.flatnonzero(sets[row])] = cells
        parts.append(rows)
        owner.append(np.full(len(cells), row))
    return np.concatenate(parts), np.concatenate(owner)
