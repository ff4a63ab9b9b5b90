"""Changes are short lists that mean rows, and what is believed of them is a textbook's Gaussian process."""

import numpy as np
import pytest
from reference import tiny

from relax_plugin.world_model.belief import NOISE, PRIOR_ANSWERS, Belief, expected_improvement
from relax_plugin.world_model.changes import CATEGORY, REACH, Changes, largest, lengths

MIXED = tiny.mixed_rows(200)
SPACE = tiny.mixed_space(MIXED)
START = SPACE.values(MIXED)[:6]
QUERIES, PROPOSALS, PLACES = 6, 12, 3


def random_changes(seed=0, proposals=PROPOSALS, places=PLACES):
    """Up to `places` changes of different features, in random order."""
    rng, made = np.random.default_rng(seed), Changes.none(places, QUERIES, proposals)
    for query in range(QUERIES):
        for proposal in range(proposals):
            for place, j in enumerate(rng.permutation(len(SPACE))[: rng.integers(1, places + 1)]):
                here, count = START[query, j], np.diff(SPACE.category_offsets)[j]
                if SPACE.is_categorical[j]:
                    value, length = (here + rng.integers(1, count)) % count, CATEGORY
                else:
                    value = here + SPACE.scale[j] * rng.normal()
                    length = (value - here) / SPACE.scale[j]
                at = place, query, proposal
                made.feature[at], made.value[at], made.length[at] = j, value, length
            made.gap[query, proposal] = rng.normal(0.5, 1.0)
    return made


def rows_of(changes, query):
    """All proposals of one query as standardised, one-hot rows: a changed category moves two of its columns by 1."""
    count = changes.gap.shape[1]
    positions = np.arange(count)
    start = np.repeat(START[query][None], count, axis=0)
    of_one = changes.of(np.full(count, query))
    return SPACE.one_hot(of_one.rows(start, positions))


def kernel(one, other):
    squared = ((one[:, None] - other[None]) ** 2).sum(axis=2)
    return np.exp(-0.5 * squared / REACH**2)


def test_errors_are_alike_as_the_kernel_of_whole_rows_says():
    changes = random_changes()
    for position in range(PROPOSALS):
        asked = changes.at(np.full((QUERIES, 1), position))
        alike = changes.alike(asked)[0]
        for query in range(QUERIES):
            rows = rows_of(changes, query)
            np.testing.assert_allclose(alike[query], kernel(rows, rows[position : position + 1])[:, 0], atol=1e-4)
        np.testing.assert_allclose(alike[:, position], 1.0, atol=1e-4)


def test_far_proposals_are_at_most_the_same():
    changes = random_changes()
    changes.length *= np.float32(1e6)
    alike = changes.alike(changes.at(np.zeros((QUERIES, 1), dtype=int)))[0]
    assert (alike <= 1.0).all() and np.isfinite(alike).all()
    assert lengths(np.array([1e30, -1e30]), np.array(1e-30)).tolist() == [np.float32(1e15), np.float32(-1e15)]


def test_parts_positions_and_both_are_consistent():
    one, other = random_changes(0), random_changes(1, 5, places=4)
    both, some = one.beside(other), np.array([4, 1])
    assert both.feature.shape == (4, QUERIES, PROPOSALS + 5)
    position = np.random.default_rng(0).integers(0, PROPOSALS + 5, (QUERIES, 3))
    picked = both.at(position)
    for k in range(3):
        np.testing.assert_array_equal(picked.rows(START, np.full(QUERIES, k)), both.rows(START, position[:, k]))
        own = np.where(position[:, k] < PROPOSALS, position[:, k], 0)
        is_one = position[:, k] < PROPOSALS
        np.testing.assert_array_equal(picked.rows(START, np.full(QUERIES, k))[is_one], one.rows(START, own)[is_one])
    np.testing.assert_array_equal(both.of(some).at(position[some]).gap, picked.gap[some])
    np.testing.assert_array_equal(picked.count, (picked.feature >= 0).sum(axis=0))
    np.testing.assert_array_equal(both.count[:, :PROPOSALS], one.count)
    for k in range(PROPOSALS):
        rows = one.rows(START, np.full(QUERIES, k))
        np.testing.assert_allclose(one.distance(SPACE)[:, k], SPACE.distance(rows, START), rtol=1e-5)
        np.testing.assert_array_equal(one.count[:, k], (rows != START).sum(axis=1))


def test_keys_are_those_of_sets_of_changes():
    changes = random_changes(3, 200)
    keys = changes.keys()
    for query in range(QUERIES):
        rows = rows_of(changes, query)
        assert len(np.unique(keys[query])) == len(np.unique(rows, axis=0))
    turned = Changes(
        changes.feature[::-1], changes.value[::-1], np.ascontiguousarray(changes.length[::-1]), changes.gap
    )
    np.testing.assert_array_equal(turned.keys(), keys)
    assert (Changes.none(3, 2, 4).keys() == 0).all()


@pytest.mark.parametrize("count", [1, 3, 12, 40])
def test_the_largest_are_found(count):
    array = np.random.default_rng(0).standard_normal((5, 12))
    found = np.take_along_axis(array, largest(array, count), 1)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(array, axis=1)[:, -min(count, 12) :])


def posterior(query, proposals, at_start, asked, gaps):
    """Mean and variance of one query's proposals, given the error at the query and answers to proposals."""
    rows = rows_of(proposals, query)
    known = np.concatenate([SPACE.one_hot(START[query][None]), *(r[None] for r in asked)])
    prior = np.concatenate([[0.0], [gap for gap, _ in gaps]])
    seen = np.concatenate([[at_start[query]], [answer for _, answer in gaps]])
    inside = kernel(known, known) + NOISE * np.eye(len(known))
    across = kernel(rows, known)
    mean = proposals.gap[query] + across @ np.linalg.solve(inside, seen - prior)
    return mean, 1.0 - np.einsum("ij,ji->i", across, np.linalg.solve(inside, across.T))


def test_what_is_told_is_the_posterior_of_a_gaussian_process():
    rng, proposals, later = np.random.default_rng(0), random_changes(0), random_changes(9)
    at_start = rng.normal(size=QUERIES).astype(np.float32)
    belief = Belief.begin(SPACE, 0.7, at_start)
    told = belief.tell(proposals)
    asked, gaps = [[] for _ in range(QUERIES)], [[] for _ in range(QUERIES)]
    for turn in range(4):
        who = np.flatnonzero(np.arange(QUERIES) >= turn)  # every turn one query less
        position, answer = rng.integers(0, PROPOSALS, len(who)), rng.normal(size=len(who))
        for query, place, gap in zip(who, position, answer, strict=True):
            asked[query].append(rows_of(proposals, query)[place])
            gaps[query].append((proposals.gap[query, place], gap))
        untouched = [array[:turn].copy() for array in (told.gap, told.variance)]
        belief.learn(who, position, answer, proposals, told)
        for before, after in zip(untouched, (told.gap, told.variance), strict=True):
            np.testing.assert_array_equal(before, after[:turn])
        for query in range(QUERIES):
            for those, known in ((proposals, told), (later, belief.tell(later))):
                mean, variance = posterior(query, those, at_start, asked[query], gaps[query])
                np.testing.assert_allclose(known.gap[query], mean, atol=5e-3)
                np.testing.assert_allclose(known.variance[query], variance, atol=5e-3)
    some = np.array([5, 2])
    np.testing.assert_allclose(belief.of(some).tell(later.of(some)).gap, belief.tell(later).gap[some])
    both = told.beside(belief.tell(later)).at(np.array([[0, PROPOSALS]] * QUERIES))
    np.testing.assert_array_equal(both.gap[:, 0], told.gap[:, 0])
    np.testing.assert_array_equal(both.gap[:, 1], belief.tell(later).gap[:, 0])


def test_a_query_with_surprises_has_larger_errors_of_its_own():
    proposals = random_changes()
    at_start = np.array([0.0, 0.0, 0.0, 10.0, 0.0, 0.0], dtype=np.float32)
    belief = Belief.begin(SPACE, 1.0, at_start)
    told = belief.tell(proposals)
    errors = belief.errors(told) / np.sqrt(np.maximum(told.variance, NOISE))
    assert errors[3].min() > 3.0
    np.testing.assert_allclose(errors[0], np.sqrt(PRIOR_ANSWERS / (PRIOR_ANSWERS + 1.0)), rtol=1e-5)


NOTHING = np.full(1, np.inf)


def improvement(gap, count, distance, best_count=NOTHING, best_distance=NOTHING, error=0.1, urgency=0.0):
    gap, distance = np.array([gap], dtype=float), np.array([distance], dtype=float)
    best = np.array([best_count]).ravel().astype(float), np.array([best_distance]).ravel().astype(float)
    return expected_improvement(gap, error, np.array([count]), distance, *best, urgency)[0]


def test_of_proposals_that_are_likely_to_be_valid_fewer_changes_count_first_then_the_shorter_way():
    worth = improvement([-1.0, -1.0, -1.0], [2, 1, 1], [0.5, 3.0, 1.0])
    assert worth[2] > worth[1] > worth[0]


def test_better_than_the_best_is_fewer_or_as_few_and_shorter():
    worth = improvement([-1.0] * 5, [1, 2, 2, 2, 3], [9.0, 1.0, 2.0, 3.0, 0.1], best_count=2, best_distance=2.0)
    assert worth[0] > worth[1] > 0 and worth[2:].tolist() == [0.0, 0.0, 0.0]


def test_what_is_not_there_or_was_asked_is_worth_nothing_and_what_is_invalid_hardly_anything():
    worth = improvement([np.inf, 10.0, -1.0], [1, 1, 1], [1.0, 1.0, 1.0])
    assert worth[0] == 0.0 and worth[1] < 1e-12 and worth[2] > 0.5
    assert (improvement([np.inf, np.inf], [0, 0], [0.0, 0.0]) == 0.0).all()


def test_urgency_makes_the_likelier_count_for_more():
    calm, hurried = (improvement([-0.05, -1.0], [1, 2], [1.0, 1.0], urgency=urgency) for urgency in (0.0, 20.0))
    assert calm.argmax() == 0 and hurried.argmax() == 1


@pytest.mark.parametrize("error", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e9])
def test_there_is_a_number_whatever_the_sizes(error, size):
    with np.errstate(invalid="raise"):
        worth = improvement([-size, size, np.inf], [1, 2, 0], [0.0, size, 0.0], error=error)
    assert np.isfinite(worth).all() and (worth >= 0).all()


def test_where_distance_counts_the_shorter_way_is_worth_more_however_many_changes_it_has():
    gap, count, distance = (
        np.array([[-1.0, -1.0, -1.0, -1.0]]),
        np.array([[1, 3, 4, 2]]),
        np.array([[4.0, 1.0, 3.0, 2.0]]),
    )
    known = np.array([1.0]), np.array([2.0])
    worth = expected_improvement(gap, 0.1, count, distance, *known, 0.0, True)[0]
    assert worth == pytest.approx([0.0, 0.5, 0.0, 0.0], abs=1e-6)  # a half less than the best
    nothing = np.array([np.inf]), np.array([np.inf])
    worth = expected_improvement(gap, 0.1, count, distance, *nothing, 0.0, True)[0]
    assert worth[1] > worth[3] > worth[2] == worth[0] == 0.0
