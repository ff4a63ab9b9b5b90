"""Training rows crossed with others, and moved as a search moves them: what a surrogate model first learns from."""

import numpy as np

from relax_plugin.arrays import Array, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.search.moves import Moves

QUANTILES = 5  # values of each number that are moved to; the outer two are its bounds
TO_A_BOUND = 0.5  # share of moves of numbers that go to a bound, as most of the agent's do
KEPT = (0.3, 0.9)  # from which to which share of its features a row keeps when it is crossed
MOVES = (0.2, 0.4, 0.25, 0.15)  # shares of rows in which 0, 1, 2, 3 features are moved


def moved(rows: Values, space: FeatureSpace, moves: Moves, rng: np.random.Generator) -> Values:
    """The rows with up to three random features of each at another value, within what is allowed."""
    limits = space.limits(values=rows)
    low, high = limits.span(rows)
    count = rng.choice(len(MOVES), len(rows), p=MOVES)
    order = (rng.random(rows.shape) + limits.frozen).argsort(axis=1)[:, : len(MOVES) - 1]  # what may move comes first
    row, turn = np.nonzero(np.arange(order.shape[1]) < count[:, None])
    feature = order[row, turn]
    able = np.isin(feature, moves.feature)  # a column that is carried has no moves
    row, feature = row[able], feature[able]
    value = moves.value[_random_move(moves, feature, rng)]
    to_bound = ~space.is_categorical[feature] & (rng.random(len(row)) < TO_A_BOUND)
    value = np.where(to_bound, np.where(rng.random(len(row)) < 0.5, -np.inf, np.inf), value)
    result = rows.copy()
    inside = np.clip(value, low[row, feature], high[row, feature])
    result[row, feature] = np.where(value == space.missing_codes[feature], value, inside)
    return limits.project(result, rows)


def _random_move(moves: Moves, feature: Integers, rng: np.random.Generator) -> Integers:
    """For each feature the position of one of its moves; of one that has none, since it never changes, any."""
    first = np.searchsorted(moves.feature, feature, side="left").clip(max=len(moves.feature) - 1)
    last = np.searchsorted(moves.feature, feature, side="right")
    return np.asarray(rng.integers(first, np.maximum(last, first + 1)))


def crossings(rows: Values, output: Array, space: FeatureSpace, count: int, rng: np.random.Generator) -> Values:
    """Rows that take each feature from one row or from another, the first drawn so that all classes are as frequent.

    They tell what makes a rare class, which hardly any other row would show. Of a regressor every row is a class.
    """
    _, code, frequency = np.unique(output, return_inverse=True, return_counts=True)
    weight = 1.0 / frequency[code]
    one = rng.choice(len(rows), count, p=weight / weight.sum())
    other = rng.integers(0, len(rows), count)
    kept = rng.random((count, rows.shape[1])) < rng.uniform(*KEPT, (count, 1))
    return space.limits(values=rows[other]).project(np.where(kept, rows[one], rows[other]), rows[other])
