"""What is believed of candidates is a textbook's Gaussian process, and what they promise counts changes first."""

import numpy as np
from reference import tiny

from relax_plugin.surrogate.belief import NOISE, PRIOR_ANSWERS, REACH, SHORTER, Belief, Best, expected_improvement

MIXED = tiny.mixed_rows(200)
SPACE = tiny.mixed_space(MIXED)
VALUES = SPACE.values(MIXED)
START, OTHERS = VALUES[:6], VALUES[20:140]
OWNER = np.arange(len(OTHERS)) % len(START)
ERROR = 0.8


def kernel(one, other):
    squared = ((SPACE.one_hot(one)[:, None] - SPACE.one_hot(other)[None]) ** 2).sum(axis=2)
    return np.exp(-0.5 * squared / REACH**2)


def taught():
    """A belief, and for each query the rows that were asked and what the surrogate was wrong by."""
    rng = np.random.default_rng(0)
    belief = Belief(SPACE, START, ERROR, rng.normal(size=len(START)))
    asked = [(START[[query]], belief.residual[query]) for query in range(len(START))]
    for who in ([0, 1, 2, 3, 4, 5], [1, 3], [0, 1, 4]):
        rows, residual = VALUES[rng.integers(150, 200, len(who))], rng.normal(size=len(who))
        belief.learn(np.array(who), rows, residual)
        for query, row, told in zip(who, rows, residual, strict=True):
            asked[query] = np.vstack([asked[query][0], row]), np.append(asked[query][1], told)
    return belief, asked


def test_it_is_the_posterior_of_a_gaussian_process():
    belief, asked = taught()
    alike = belief.alike(OTHERS, OWNER)
    mean, error = belief.correction(alike, OWNER), belief.errors(alike, OWNER)
    for query, (rows, residual) in enumerate(asked):
        mine = query == OWNER
        covariance = kernel(rows, rows) + NOISE * np.eye(len(rows))
        across = kernel(OTHERS[mine], rows)
        np.testing.assert_allclose(mean[mine], across @ np.linalg.solve(covariance, residual), atol=1e-6)
        own = residual @ np.linalg.solve(covariance, residual)
        own = np.sqrt((PRIOR_ANSWERS * ERROR**2 + own) / (PRIOR_ANSWERS + len(rows)))
        left = 1.0 - np.einsum("ij,ij->i", across, np.linalg.solve(covariance, across.T).T)
        np.testing.assert_allclose(error[mine], own * np.sqrt(np.maximum(left, NOISE)), atol=1e-6)


def test_the_belief_about_some_queries_is_theirs():
    belief, _ = taught()
    some = np.array([4, 1])
    part = belief.of(some)
    for place, query in enumerate(some):
        mine = OTHERS[query == OWNER]
        one, other = np.full(len(mine), place), np.full(len(mine), query)
        expected = belief.correction(belief.alike(mine, other), other)
        np.testing.assert_allclose(part.correction(part.alike(mine, one), one), expected)


def test_what_was_asked_is_known_and_numbers_of_any_size_do_no_harm():
    belief, asked = taught()
    rows, residual = asked[3]
    owner = np.full(len(rows), 3)
    np.testing.assert_allclose(belief.correction(belief.alike(rows, owner), owner), residual, atol=0.05)
    far = rows.copy()
    far[:, ~SPACE.is_categorical] = 1e300
    with np.errstate(over="raise", invalid="raise"):
        assert (belief.alike(far, owner) == 0).all()


def worth(gap, changes, distance, best=np.inf, best_distance=np.inf, asked=0.0, by_distance=False):
    gap, changes, distance = (np.array(part, dtype=float) for part in (gap, changes, distance))
    owner, known = np.zeros(len(gap), dtype=int), Best(np.array([best]), np.array([best_distance]), np.array([asked]))
    told = expected_improvement(-gap / 0.5, changes, distance, owner, known, by_distance)
    return told.round(6).tolist()


def test_fewer_changes_come_first_then_a_shorter_way():
    sure, hopeless = -9.0, 9.0
    one, two, same, more = worth([sure] * 4, [1, 2, 3, 4], [9.0, 1.0, 1.5, 0.1], best=3, best_distance=3.0)
    assert (one, two, same, more) == (2.0, 1.0, 0.5 * SHORTER, 0.0)
    assert worth([hopeless], [1], [1.0], best=3, best_distance=3.0) == [0.0]
    assert worth([0.0], [1], [1.0], best=3, best_distance=3.0) == [1.0]  # it is as likely as not


def test_while_nothing_is_known_the_likely_one_with_fewest_changes_is_the_measure():
    first, second = worth([-9.0, -9.0], [2, 3], [1.0, 4.0])
    assert first == 1.75 and second == 0.0
    assert worth([-9.0, -9.0], [2, 3], [1.0, 4.0], asked=2.0) == [3.75, 2.0]


def test_where_distance_counts_changes_do_not():
    assert worth([-9.0, -9.0], [5, 1], [1.0, 2.0], best=1, best_distance=2.0, by_distance=True) == [0.5, 0.0]
    assert worth([-9.0, 9.0], [1, 1], [1.0, 0.1], by_distance=True) == [0.6, 0.0]
