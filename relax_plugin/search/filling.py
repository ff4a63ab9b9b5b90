"""Fill the slots that a method leaves empty with further distinct counterfactuals, if there are any."""

import numpy as np

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.problem import Problem, Proposals

ROUNDS = 24  # of model calls; each query that is still short takes part
ASKED = 4  # candidates evaluated in a round for each empty slot,
LEAST_ASKED = 32  # and for each query at least
VALUES = 64  # of a number, taken evenly from its sorted training values
DRAWN = 1024  # candidates drawn for a query in a round


def fill(problem: Problem, made: Proposals, rows: Values, rng: np.random.Generator) -> Proposals:
    """The proposals, with further valid rows in the empty slots of every query that has a counterfactual.

    A further row is one of those found with another value in one feature: in a feature that is changed anyway, or, only
    where no such row is left, in one that would not have to change. The values are those of the training rows. Last
    come the training rows themselves, moved within the constraints.
    """
    spent = [set[bytes]() for _ in range(len(problem))]  # rows that need not be evaluated again
    for query, slot in zip(*np.nonzero(made.offered), strict=True):
        spent[query].add(made.values[query, slot].tobytes())
    cells = _cells(problem, rows)
    for _ in range(ROUNDS):
        short = np.flatnonzero(made.offered.any(axis=1) & ~made.offered.all(axis=1))
        drawn = [_candidates(problem, made, query, cells, rows, spent[query], rng) for query in short.tolist()]
        values, owner = np.concatenate([problem.start[:0], *drawn]), np.repeat(short, [len(one) for one in drawn])
        if len(values) == 0:
            break
        met, _ = problem.judge(values, owner)
        for row, query in zip(values[met], owner[met], strict=True):
            empty = np.flatnonzero(~made.offered[query])[:1]
            made.values[query, empty], made.stage[query, empty], made.offered[query, empty] = row, "further", True
            if made.scores is not None:
                made.scores[query, empty] = np.nan
    return made


def _cells(problem: Problem, rows: Values) -> tuple[Integers, Floats]:
    space, columns = problem.space, []
    for j, (first, end) in enumerate(zip(space.category_offsets[:-1], space.category_offsets[1:], strict=True)):
        known = np.arange(end - first, dtype=np.float64) if end > first else np.unique(rows[:, j])
        columns.append(known[np.unique(np.linspace(0, len(known) - 1, min(len(known), VALUES)).astype(int))])
    return np.repeat(np.arange(len(columns)), [len(one) for one in columns]), np.concatenate(columns)


def _candidates(
    problem: Problem,
    made: Proposals,
    query: int,
    cells: tuple[Integers, Floats],
    rows: Values,
    spent: set[bytes],
    rng: np.random.Generator,
) -> Values:
    """Rows of one query that have not been evaluated, in random order; they count as spent from now on."""
    known, (feature, value) = made.values[query, made.offered[query]], cells
    changed = (known != problem.start[query])[:, feature]
    most = max(ASKED * int((~made.offered[query]).sum()), LEAST_ASKED)
    chosen: list[Values] = []
    for among in (changed, ~changed, None):
        if among is None:
            values = rows[rng.permutation(len(rows))[:DRAWN]]
        else:
            parent, cell = np.nonzero(among)
            at = rng.permutation(len(parent))[:DRAWN]
            values = known[parent[at]]
            values[np.arange(len(at)), feature[cell[at]]] = value[cell[at]]
        values = problem.within_limits(values, np.full(len(values), query))
        changes = (values != problem.start[query]).sum(axis=1)
        for row in values[(changes > 0) & (changes <= problem.max_changes)]:
            if len(chosen) < most and row.tobytes() not in spent:
                spent.add(row.tobytes())
                chosen.append(row)
        if chosen:
            break
    return np.array(chosen).reshape(-1, problem.start.shape[1])
