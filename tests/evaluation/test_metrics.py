"""The metrics by hand, their laws on random input, and the runs measured with them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relax_plugin.evaluation import metrics
from relax_plugin.evaluation.metrics import break_even, mean_over, ratio_on_common, total_rows, validity, violations
from relax_plugin.features import FeatureSpace
from relax_plugin.table.columns import Feature

FOUND = np.array([True, True, False, True])
NUMBERS = np.array([1.0, 3.0, np.nan, 5.0])
NOTHING, NO_NUMBERS = np.zeros(0, dtype=bool), np.zeros(0)

SPACE = FeatureSpace(
    [
        Feature("age", "integer", np.dtype(np.int64), 20, 60, step=1.0, scale=10.0),
        Feature("rate", "continuous", np.dtype(np.float64), 0.1, 0.9, step=0.25, anchor=0.1, scale=0.5),
        Feature("real", "continuous", np.dtype(np.float64), -1.0, 1.0, scale=2.0),
        Feature("size", "categorical", object, 0, 2, categories=(*"SML",), choices=(True,) * 3, direction="increase"),
        Feature("colour", "categorical", object, 0, 2, categories=(*"abc",), choices=(True, True, False)),
        Feature("born", "integer", np.dtype(np.int64), 1900, 2000, step=1.0, immutable=True),
    ]
)
START = np.array([[30.0, 0.35, 0.0, 1.0, 0.0, 1970.0]])


def changed_to(**changes):
    values = START.copy()
    values[:, [SPACE.names.index(name) for name in changes]] = list(changes.values())
    return values


def broken(values, start=START, most=None, space=SPACE, **call):
    return violations(space, space.limits(**call), start, values, most).tolist()


def test_a_missing_counterfactual_counts_as_invalid():
    assert (validity(FOUND), metrics.validity_at(FOUND, NUMBERS, 3)) == (0.75, 0.5)
    np.testing.assert_array_equal(metrics.validity_curve(FOUND, NUMBERS, 6), [0.25, 0.25, 0.5, 0.5, 0.75, 0.75])
    assert metrics.validity_at(~FOUND, NUMBERS, 9) == 0.0, "found, it is said, but no counterfactual is there"


def test_validity_is_split_by_the_answer_before():
    shares = metrics.validity_by_class(FOUND, np.array(["yes", "no", "no", "no"], dtype=object))
    assert list(shares.items()) == [("no", 2 / 3), ("yes", 1.0)]
    assert metrics.validity_by_class(FOUND, np.array([1, 1, 0, 0])) == {"0": 0.5, "1": 1.0}


def test_a_query_is_solved_within_the_budget_that_it_cost():
    curve = metrics.solved_within(FOUND, np.array([10, 50, 1, 20]), [0, 10, 20, 49, 50])
    np.testing.assert_array_equal(curve, [0.0, 0.25, 0.5, 0.5, 0.75])


def test_without_queries_there_are_no_shares():
    assert np.isnan(validity(NOTHING)) and np.isnan(metrics.validity_at(NOTHING, NO_NUMBERS, 1))
    assert np.isnan(metrics.validity_curve(NOTHING, NO_NUMBERS, 3)).tolist() == [True] * 3
    assert metrics.validity_curve(FOUND, NUMBERS, 0).shape == (0,)
    assert np.isnan(metrics.solved_within(NOTHING, NO_NUMBERS, [5])).all()
    assert metrics.validity_by_class(NOTHING, np.zeros(0, dtype=object)) == {}
    assert metrics.common([]).shape == (0,) and metrics.common([NOTHING]).dtype == bool


QUERIES = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 50), st.sampled_from("abc")), min_size=1)


@pytest.mark.slow
@given(QUERIES, st.randoms(use_true_random=False))
def test_shares_are_counts_over_all_queries_in_any_order(queries, random):
    for _ in range(2):
        found, changes, rows, before = (np.array(column) for column in zip(*queries, strict=True))
        sparsity = np.where(found, changes, np.nan)
        curve, anytime = metrics.validity_curve(found, sparsity, 9), metrics.solved_within(found, rows, range(51))
        for k in range(9):
            assert curve[k] == sum(f and c <= k + 1 for f, c, _, _ in queries) / len(queries)
        for budget in range(51):
            assert anytime[budget] == sum(f and r <= budget for f, _, r, _ in queries) / len(queries)
        for shares in (curve, anytime):
            assert (np.diff(shares) >= 0).all() and shares.min() >= 0 and shares[-1] == validity(found)
        by_class = metrics.validity_by_class(found, before)
        assert sum(by_class[label] for label in before) / len(before) == pytest.approx(validity(found))
        random.shuffle(queries)


@given(st.integers(0, 6).flatmap(lambda n: st.lists(arrays(bool, n), min_size=1, max_size=4)))
def test_common_rows_are_those_that_every_method_solved(methods):
    expected = [all(found[row] for found in methods) for row in range(len(methods[0]))]
    assert metrics.common(methods).tolist() == metrics.common(methods[::-1]).tolist() == expected


def test_means_are_taken_over_the_given_rows_and_ratios_over_those_that_both_solved():
    assert mean_over(FOUND, NUMBERS) == 3.0 and np.isnan(mean_over(np.zeros(4, dtype=bool), NUMBERS))
    theirs = np.array([2.0, np.nan, 7.0, 1.0])
    assert ratio_on_common(NUMBERS, theirs, FOUND, np.array([True, False, True, True])) == pytest.approx(6.0 / 3.0)
    assert np.isnan(ratio_on_common(NUMBERS, theirs, FOUND, ~FOUND)), "no row was solved by both"
    assert np.isnan(ratio_on_common(NUMBERS, np.zeros(4), FOUND, FOUND)), "nothing needed a change"


@given(st.permutations([1.0, 2.0, 3.0, 4.0]), st.integers(-1000, 1000))
def test_the_deviation_over_seeds_is_that_of_a_sample(numbers, shift):
    assert metrics.mean_and_deviation(np.array(numbers) + shift) == pytest.approx((2.5 + shift, np.sqrt(5 / 3)))


def test_one_seed_says_nothing_about_the_spread_and_a_missing_one_is_not_left_out():
    assert metrics.mean_and_deviation([2.0, 2.0]) == (2.0, 0.0)
    assert metrics.mean_and_deviation([7.0]) == pytest.approx((7.0, np.nan), nan_ok=True)
    assert metrics.mean_and_deviation([1.0, np.inf]) == pytest.approx((np.inf, np.nan), nan_ok=True)
    assert np.isnan([metrics.mean_and_deviation([]), metrics.mean_and_deviation([1.0, np.nan])]).all()


def test_total_rows_are_those_of_fitting_and_of_every_instance():
    assert (total_rows(4000, 35.5, 100), total_rows(256, 90.0, 0)) == (7550.0, 256.0)
    np.testing.assert_array_equal(total_rows(np.array([0, 10]), np.array([2.0, 0.5]), 4), [8.0, 12.0])


def test_break_even_by_hand():
    assert break_even(256, 40, 256, 40) == break_even(100, 30, 256, 40) == 0, "no dearer from the beginning on"
    assert (break_even(4000, 20, 0, 60), break_even(4001, 20, 0, 60), break_even(1, 0.25, 0, 0.5)) == (100, 101, 4)
    assert break_even(4000, 40, 256, 40) == break_even(0, 41, 256, 40) == np.inf, "never, or not for good"


ROWS_ONCE = st.integers(0, 100_000)
ROWS_EACH = st.integers(0, 2000).map(lambda quarters: quarters / 4)  # sums and products of these are exact


@given(ROWS_ONCE, ROWS_EACH, ROWS_ONCE, ROWS_EACH, st.integers(0, 10_000))
def test_from_break_even_on_and_not_before_a_method_asks_no_more_than_its_rival(once, each, rival, rival_each, later):
    def dearer(instances):
        return total_rows(once, each, instances) > total_rows(rival, rival_each, instances)

    instances = break_even(once, each, rival, rival_each)
    assert np.isinf(instances) or (
        instances == int(instances) and not dearer(instances) and not dearer(instances + later)
    )
    assert instances == 0 or dearer(min(instances, 1e9) - 1)


def test_sparsity_counts_changes_and_proximity_measures_them():
    values = changed_to(age=25.0, rate=0.6, colour=1.0)
    assert metrics.sparsity(START, values).tolist() == [3]
    assert metrics.proximity(SPACE, START, values) == pytest.approx([5 / 10 + 0.25 / 0.5 + 1])
    assert metrics.sparsity(START, changed_to(real=np.nextafter(0.0, 1.0))).tolist() == [1]
    assert metrics.sparsity(START[:0], START[:0]).shape == metrics.proximity(SPACE, START[:0], START[:0]).shape == (0,)


WHOLE, GRID, FREE = {"age": 31}, {"rate": 0.6}, {"real": 0.123456789}
BROKEN = [
    (0, [{}, WHOLE, GRID, FREE, {"size": 2}, {"colour": 1}, WHOLE | GRID | FREE]),
    (1, [{"age": 30.5}, {"rate": 0.5}]),  # off the grid: of whole numbers, of 0.1, 0.35, 0.6, 0.85
    (1, [{"age": 61}, {"real": -1.5}]),  # outside the bounds
    (1, [{"size": 0}, {"born": 1971}]),  # against the direction, immutable
    (1, [{"colour": 2}, {"colour": 0.5}]),  # not among the choices
    (2, [{"age": 61.5}, {"age": np.nan}, {"born": 2001}, {"colour": 3}, {"age": 61, "colour": 2} | FREE]),
]


@pytest.mark.parametrize(("count", "changes"), [(count, changes) for count, rows in BROKEN for changes in rows])
def test_every_broken_constraint_counts_once(count, changes):
    assert broken(changed_to(**changes)) == [count]


def test_a_value_outside_its_bounds_may_stay_or_come_back_in():
    assert [broken(changed_to(age=age), changed_to(age=70)) for age in (70, 65, 75, 60)] == [[0], [1], [1], [0]]


def test_more_changes_than_allowed_break_one_constraint():
    assert [broken(changed_to(age=31, rate=0.6), most=most) for most in (None, 0, 1, 2)] == [[0], [1], [1], [0]]


def test_the_constraints_of_a_call_count_as_the_spaces_own():
    assert broken(changed_to(age=31), vary=["rate"]) == [1]
    assert [broken(changed_to(age=age), bounds={"age": (30, 40)}) for age in (29, 40, 41)] == [[1], [0], [1]]
    assert broken(changed_to(colour=1), bounds={"colour": ["a"]}) == [1]
    own = replace(SPACE.limits(), frozen=np.array([[True] * 6, [False] * 6]))
    assert violations(SPACE, own, START.repeat(2, axis=0), changed_to(age=31).repeat(2, axis=0)).tolist() == [1, 0]


def test_limits_that_forget_the_spaces_constraints_do_not_deceive_the_judge():
    no, wide = np.zeros((1, 6), dtype=bool), np.full((1, 6), np.inf)
    lax = {"frozen": no, "choices": ~no, "low": -wide, "high": wide}
    forgetful, values = replace(SPACE.limits(), **lax), changed_to(age=61, real=-2, colour=2, born=1971)
    assert violations(SPACE, forgetful, START, values).tolist() == [4]


def test_decimals_are_judged_as_they_are_written():
    def judged(numbers, *values, **bounds):
        space = FeatureSpace.infer(pd.DataFrame({"a": numbers}), bounds=bounds)
        return broken(np.array(values, dtype=float)[:, None], np.full((len(values), 1), numbers[0]), space=space)

    for numbers in (np.array([0.9, 0.1], dtype=np.float32), np.array([0.9, 1 / 3], dtype=np.float32)):
        assert judged(numbers, np.float32(0.7), 0.7, a=(np.float32(0.7), 0.9)) == [0, 1], "no float32 is 0.7"
        assert judged(numbers, np.float32(0.7), np.float32(0.8), a=(0.7, 0.9))[0] == 1, "the float32 lies below 0.7"
    assert judged([0.9, 0.1], 0.3, 0.1 * 3, a=(0.3, 0.9)) == [0, 1], "0.1 * 3 is 0.30000000000000004"
    assert judged([104081.51, 983909.94], 983909.94, 983909.95) == [0, 1]


TRAINING = pd.DataFrame(
    {
        "whole": [-2, 0, 3, 1],
        "tenths": [-1.5, 0.3, 2.0, 0.1],
        "stepped": [-0.85, 0.0, 2.9, 1.0],
        "real": [-1.0, 1 / 3, 2.0, np.pi],
        "single": np.array([-1.5, 0.3, 2.0, 0.7], dtype=np.float32),
        "grade": pd.Categorical(list("LMLS"), categories=list("SMLX"), ordered=True),  # X was never seen
        "colour": list("abca"),
    }
)
CELLS = st.integers(-40, 40).map(lambda tenths: tenths / 10) | st.floats(-4, 4)
CODES = st.integers(-1, 4).map(float) | st.just(0.5)


@st.composite
def moves(draw):
    """A space with random constraints, the limits of a call, rows, and what is proposed for them."""
    rules = {name: draw(st.sampled_from(["free", "free", "up", "down", "fixed"])) for name in TRAINING.columns[:-1]}
    up, down, fixed = ([name for name in rules if rules[name] == rule] for rule in ("up", "down", "fixed"))
    bounded = draw(st.sets(st.sampled_from(list(TRAINING.columns[:5])), max_size=3))
    bounds = {name: sorted((draw(CELLS), draw(CELLS))) for name in sorted(bounded)}
    bounds["colour"] = draw(st.lists(st.sampled_from("abc"), min_size=1))
    space = FeatureSpace.infer(
        TRAINING, increase_only=up, decrease_only=down, immutable=fixed, bounds=bounds, steps={"stepped": 0.25}
    )
    free = [feature.name for feature in space.features if not feature.immutable]
    asked = space.features[draw(st.integers(0, 4))]
    ends = sorted((draw(st.floats(asked.low, asked.high)), draw(st.floats(asked.low, asked.high))))
    limits = space.limits(draw(st.none() | st.sets(st.sampled_from(free))), {asked.name: ends})
    shape = (draw(st.integers(1, 4)), len(space))
    start, values, codes = (draw(arrays(float, shape, elements=cells)) for cells in (CELLS, CELLS, CODES))
    start = limits.round_to_grid(start) if draw(st.booleans()) else start
    start = np.where(space.is_categorical, np.clip(np.rint(codes[::-1]), 0, 2), start)
    proposed = [np.where(space.is_categorical, codes, values), limits.round_to_grid(values), *limits.span(start)]
    values = np.choose(draw(arrays(int, shape, elements=st.integers(0, 3))), proposed)
    touched = draw(arrays(int, (shape[0], draw(st.integers(1, 3))), elements=st.integers(0, shape[1] - 1)))
    return space, limits, start, np.where((touched[:, :, None] == np.arange(shape[1])).any(axis=1), values, start)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(moves())
def test_the_judge_and_the_limits_agree_on_what_is_kept(move):
    space, limits, start, values = move
    count = violations(space, limits, start, values)
    assert ((count == 0) == limits.kept(values, start)).all()
    assert not violations(space, limits, start, limits.project(values, start)).any()
    assert not violations(space, limits, start, start, 0).any()


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(moves())
def test_violations_add_up_over_cells_and_fall_with_the_changes_allowed(move):
    space, limits, start, values = move
    count = violations(space, limits, start, values)
    cells = [np.where(np.arange(len(space)) == j, values, start) for j in range(len(space))]
    assert (count == sum(violations(space, limits, start, cell) for cell in cells)).all()
    assert (violations(space, limits, start[::-1], values[::-1]) == count[::-1]).all()
    for most in range(len(space)):
        surplus = violations(space, limits, start, values, most) - count
        assert (surplus == (metrics.sparsity(start, values) > most)).all()


def test_redundant_changes_are_asked_for_once():
    asked = []

    def meets(candidates, owner):
        asked.append(owner.tolist())
        return candidates.sum(axis=1) >= np.array([2.0, 9.0, 1.0])[owner]

    values = np.array([[1.0, 1.0, 3.0], [9.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert metrics.redundancy(np.zeros((3, 3)), values, meets).tolist() == [3, 0, 0]
    assert metrics.redundancy(values, values, meets).tolist() == [0, 0, 0]
    assert asked == [[0, 0, 0, 1]], "once for all rows, and not for rows without changes"


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(moves(), st.floats(-5, 5))
def test_redundancy_equals_reverting_one_feature_after_the_other(move, threshold):
    _, _, start, values = move
    expected = np.zeros(len(start), dtype=int)
    for row, feature in zip(*np.nonzero(values != start), strict=True):
        expected[row] += max(*np.delete(values[row], feature), start[row, feature]) > threshold
    counts = metrics.redundancy(start, values, lambda candidates, owner: candidates.max(axis=1) > threshold)
    assert (counts == expected).all()


def test_the_box_is_that_of_the_training_rows():
    training = np.concatenate([START, changed_to(age=40, real=1.0, colour=2.0)])
    rows = [{}, {"age": 40}, {"age": 41}, {"real": -0.1}, {"colour": 2}, {"colour": 1}]
    values = np.concatenate([changed_to(**row) for row in rows])
    assert metrics.inside_box(SPACE, values, training).tolist() == [True, True, False, False, True, False]
    assert not metrics.inside_box(SPACE, values, training[:0]).any()
    assert metrics.inside_box(SPACE, values[:0], training).shape == (0,)


def test_the_neighbour_distance_is_the_mean_over_the_nearest():
    training = np.concatenate([changed_to(age=40), changed_to(age=25, colour=1.0), START, changed_to(real=1.0)])
    for k, mean in ((1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (9, 0.75)):  # distances 1, 1.5, 0, 0.5
        assert metrics.neighbour_distance(SPACE, START, training, k) == pytest.approx([mean])
    assert np.isnan(metrics.neighbour_distance(SPACE, START, training[:0])).tolist() == [True]
    assert metrics.neighbour_distance(SPACE, START[:0], training).shape == (0,)


def test_diversity_is_the_mean_distance_between_found_pairs():
    slots = np.concatenate([START, changed_to(age=40), changed_to(colour=1.0)])
    values, found = np.stack([slots] * 4), np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]], dtype=bool)
    np.testing.assert_allclose(metrics.diversity(SPACE, values, found), [4 / 3, 1.0, np.nan, np.nan])
    assert np.isnan(metrics.diversity(SPACE, values[:, :1], found[:, :1])).all()
    assert metrics.diversity(SPACE, values[:0], found[:0]).shape == (0,)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(moves(), st.integers(1, 7), st.data())
def test_boxes_and_distances_equal_the_loop_in_any_order(move, k, data):
    space, _, training, values = move
    values = np.where(space.is_categorical, np.clip(np.rint(values), 0, 2), values)

    def seen(j, value):
        column = training[:, j]
        return value in column if space.is_categorical[j] else column.min() <= value <= column.max()

    box = [all(seen(j, value) for j, value in enumerate(row)) for row in values]
    assert metrics.inside_box(space, values, training[::-1]).tolist() == box
    table = np.array([[space.distance(row, other) for other in training] for row in values])
    nearest = metrics.neighbour_distance(space, values, training, k)
    np.testing.assert_allclose(nearest, np.sort(table, axis=1)[:, :k].mean(axis=1), atol=1e-9)
    np.testing.assert_array_equal(metrics.neighbour_distance(space, values[::-1], training, k), nearest[::-1])
    found = data.draw(arrays(bool, len(values)))
    pairs = [space.distance(a, b) for i, a in enumerate(values[found]) for b in values[found][:i]]
    spread = metrics.diversity(space, np.stack([values, values[::-1]]), np.stack([found, found[::-1]]))
    np.testing.assert_allclose(spread, [np.mean(pairs) if pairs else np.nan] * 2)
