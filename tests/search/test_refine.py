"""Facts about refinement and greedy search, on models small enough to compute by hand."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.problems import ORIGIN, TRAINING, problem_of

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.problem import Problem
from relax_plugin.search.greedy import Moves, greedy_by_distance, greedy_search
from relax_plugin.search.refine import LEAST_HALVINGS, bisect, refine, revert, undo

ALL = np.array([[10.0, 10.0, 10.0]])
ONE = np.array([0])


# revert


def test_revert_keeps_the_smallest_subset_that_is_enough() -> None:
    problem = problem_of(lambda x: 0.1 * x[:, 1] + 0.01 * x[:, 0], ORIGIN)
    values, _ = revert(problem, ALL, ONE)
    assert values.tolist() == [[0, 10, 0]]


def test_revert_keeps_two_changes_where_neither_alone_is_enough() -> None:
    problem = problem_of(lambda x: np.minimum(x[:, 0], x[:, 2]), ORIGIN)
    values, _ = revert(problem, ALL, ONE)
    assert values.tolist() == [[10, 0, 10]]


def test_revert_takes_the_closest_of_equally_small_subsets() -> None:
    problem = problem_of(lambda x: x[:, 0] + x[:, 1], ORIGIN)
    values, _ = revert(problem, np.array([[9.0, 4.0, 0.0]]), ONE)
    assert values.tolist() == [[0, 4, 0]]


def test_revert_prefers_fewer_changes_to_shorter_ones() -> None:
    problem = problem_of(lambda x: np.maximum(x[:, 0] / 9, np.minimum(x[:, 1], x[:, 2])), ORIGIN)
    values, _ = revert(problem, np.array([[9.0, 1.0, 1.0]]), ONE)
    assert values.tolist() == [[9, 0, 0]]


def test_revert_leaves_what_is_all_needed() -> None:
    problem = problem_of(lambda x: x.min(axis=1), ORIGIN)
    assert revert(problem, ALL, ONE)[0].tolist() == ALL.tolist()


def test_revert_asks_each_subset_once_and_charges_its_query() -> None:
    problem = problem_of(lambda x: x.min(axis=1), [[0.0, 0, 0], [0.0, 0, 0]])
    calls = problem.blackbox.calls
    revert(problem, np.array([[5.0, 5, 5], [5.0, 5, 0], [5.0, 0, 0]]), np.array([0, 1, 1]))
    assert problem.spent.tolist() == [6, 2]  # 2^3 - 2 subsets, 2^2 - 2, none
    assert problem.blackbox.calls == calls + 1


def test_revert_says_what_each_change_is_worth() -> None:
    problem = problem_of(lambda x: 0.1 * x[:, 0] + 0.01 * x[:, 1], ORIGIN)
    _, worth = revert(problem, np.array([[9.5, 9.5, 0.0]]), ONE)
    distance = 9.5 / problem.space.scale
    # Without the first the answer is 0.095, without the second 0.95; the goal is 1.
    assert worth[0, :2] == pytest.approx([0.905 / distance[0], 0.05 / distance[1]])
    assert np.isnan(worth[0, 2])


# undo


def test_undo_takes_back_what_is_not_needed_one_at_a_time() -> None:
    problem = problem_of(lambda x: 0.05 * x[:, 0] + 0.06 * x[:, 1] + 0.02 * x[:, 2], ORIGIN)
    values, _ = undo(problem, ALL, ONE)
    assert values.tolist() == [[10, 10, 0]]
    assert problem.spent.tolist() == [3 + 2]


def test_undo_stops_at_the_number_of_changes_it_is_given() -> None:
    problem = problem_of(lambda x: x[:, 0] * 0 + 2, ORIGIN)
    for down_to in (1, 2, 3):
        values, _ = undo(problem, ALL, ONE, down_to)
        assert (values != 0).sum() == down_to


# bisect


def no_worth(values: Any) -> Any:
    return np.full(np.shape(values), np.nan)


def test_bisect_ends_just_beyond_the_boundary() -> None:
    problem = problem_of(lambda x: x[:, 0] / 3, ORIGIN)
    (row,) = bisect(problem, np.array([[10.0, 0, 0]]), ONE, no_worth(ORIGIN), 12)
    assert 3.0 <= row[0] <= 3.02
    assert row[1:].tolist() == [0, 0]


def test_bisect_works_downwards_too() -> None:
    problem = problem_of(lambda x: (10 - x[:, 0]) / 3, [[10.0, 0, 0]])
    (row,) = bisect(problem, np.array([[0.002, 0, 0]]), ONE, no_worth(ORIGIN), 12)
    assert 6.98 <= row[0] <= 7.0


def test_bisect_with_labels_alone_halves() -> None:
    space = FeatureSpace.infer(TRAINING)
    box = BlackBox(lambda rows: np.where(rows[:, 0] >= 3, "far", "near"), space)
    start = np.zeros((1, 3))
    box.learn(np.array([[0.0, 0, 0], [9.0, 0, 0]]))
    goal = Goal.flip().bind(box, box.ask(start))
    problem = Problem(space, box, start, box.ask(start), goal, space.limits(), 3, np.zeros(1, dtype=np.int64))
    (row,) = bisect(problem, np.array([[8.0, 0, 0]]), ONE, no_worth(ORIGIN), 3)
    assert row[0] == 3  # 4 is far, 2 is near, 3 is far
    assert problem.spent.tolist() == [3]


def test_a_bisected_row_stays_valid_on_a_jagged_model() -> None:
    rng = np.random.default_rng(0)
    start = rng.uniform(0, 2, size=(40, 3))

    def jagged(x: Any) -> Any:
        return x.sum(axis=1) / 12 + 0.3 * np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1])

    problem = problem_of(jagged, start, goal=Goal.shift(0.5))
    proposal = np.full((40, 3), 10.0)
    valid = np.flatnonzero(problem.judge(proposal, np.arange(40))[0])
    assert len(valid) > 20
    for refined in (
        bisect(problem, proposal[valid], valid, no_worth(proposal[valid]), 6),
        refine(problem, proposal[valid], valid),
    ):
        assert problem.judge(refined, valid)[0].all()
        assert problem.limits.kept(refined, start[valid]).all()
        closer = problem.distance(refined, valid) - problem.distance(proposal[valid], valid)
        assert (closer <= 1e-12).all()
        assert closer.min() < -1


def test_integers_stop_at_the_grid() -> None:
    rows = pd.DataFrame({"count": [0, 100]})
    problem = problem_of(lambda x: x[:, 0] / 36.5, [[0.0]], rows)
    (row,) = bisect(problem, np.array([[100.0]]), ONE, no_worth([[0.0]]), 20)
    assert row.tolist() == [37]
    assert problem.spent[0] < 20, "no trial is left once the neighbours are known"


def test_a_category_is_not_bisected() -> None:
    rows = pd.DataFrame({"c": list("abcd")})
    space = FeatureSpace.infer(rows)
    box = BlackBox(lambda rows: rows["c"].map({"a": 0, "b": 2, "c": 2, "d": 2}), space, task="regression")
    before = box.ask(np.array([[0.0]]))
    goal = Goal.between(1, 9).bind(box, before)
    problem = Problem(space, box, np.array([[0.0]]), before, goal, space.limits(), 1, np.zeros(1, dtype=np.int64))
    assert bisect(problem, np.array([[3.0]]), ONE, no_worth([[0.0]]), 9).tolist() == [[3]]


def test_the_change_worth_least_is_taken_back_first() -> None:
    problem = problem_of(lambda x: 0.1 * x[:, 0] + 0.1 * x[:, 1], ORIGIN)
    both = np.array([[8.0, 8.0, 0.0]])
    first = bisect(problem, both, ONE, np.array([[0.1, 0.9, np.nan]]), 12)[0]
    second = bisect(problem, both, ONE, np.array([[0.9, 0.1, np.nan]]), 12)[0]
    assert first[0] == pytest.approx(2, abs=0.1)
    assert first[1] == pytest.approx(8, abs=0.1)
    assert second[:2] == pytest.approx(first[1::-1], abs=1e-6)


def test_a_change_that_bisect_finds_useless_is_dropped() -> None:
    problem = problem_of(lambda x: x[:, 0], ORIGIN)
    (row,) = bisect(problem, np.array([[9.0, 9.0, 0.0]]), ONE, no_worth(ORIGIN), 8)
    assert row[1] == 0
    assert row[0] >= 1


def test_bisect_keeps_to_the_rows_of_each_query() -> None:
    for most in (4, 8, 16):
        problem = problem_of(lambda x: x[:, 0] / 3, [[0.0, 0, 0], [0.0, 0, 0]])
        values = np.array([[10.0, 0, 0], [9.0, 0, 0], [8.0, 0, 0]])
        owner = np.array([0, 0, 1])
        bisect(problem, values, owner, no_worth(values), 30, np.full(2, most))
        least = LEAST_HALVINGS * np.array([2, 1])  # for each candidate, however few rows are left
        assert (problem.spent <= np.maximum(most, least)).all()
        assert (problem.spent > 0).all()


def test_a_candidate_that_is_behind_is_shortened_as_long_as_it_may_win() -> None:
    """The second is ahead at first, but cannot come below 8; the first, further away, can come down to 1."""
    problem = problem_of(lambda x: np.maximum(x[:, 0], x[:, 1] / 8), ORIGIN)
    values = np.array([[10.0, 0, 0], [0.0, 9, 0]])
    shortened = bisect(problem, values, np.array([0, 0]), no_worth(values), 12, np.full(1, 100))
    assert 1.0 <= shortened[0, 0] <= 1.1


def test_a_candidate_that_cannot_win_is_given_up() -> None:
    """Both changes of the second stay long whatever becomes of the first of them: no row is spent on it."""
    problem = problem_of(lambda x: np.maximum(x[:, 0], np.minimum(x[:, 1], x[:, 2]) / 9), ORIGIN)
    values = np.array([[1.5, 0, 0], [0.0, 9.5, 9.5]])
    shortened = bisect(problem, values, np.array([0, 0]), no_worth(values), 12, np.full(1, 100))
    assert shortened[1].tolist() == [0, 9.5, 9.5]


def test_every_trial_is_charged_to_its_query() -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 9, [[0.0, 0, 0], [1.0, 1, 1]])
    before = problem.blackbox.rows_asked
    refine(problem, np.array([[10.0, 10, 10], [10.0, 10, 1]]), np.array([0, 1]))
    assert problem.spent.sum() == problem.blackbox.rows_asked - before
    assert (problem.spent > 0).all()


# Greedy search.


def test_the_moves_are_the_quantiles_between_the_bounds_and_every_category() -> None:
    rows = pd.DataFrame({"x": np.arange(101.0), "few": [1, 2, 4] * 33 + [1, 2], "c": (list("ab") * 51)[:101]})
    space = FeatureSpace.infer(rows, continuous=["x"])
    moves = Moves.quantiles(space.values(rows), space, 5)
    by_feature = [moves.value[moves.feature == j].tolist() for j in range(3)]
    assert by_feature == [[-np.inf, 25, 50, 75, np.inf], [-np.inf, 2, np.inf], [0, 1]]


TOY = pd.DataFrame({"a": [0, 1, 2, 3], "b": [0, 2, 4, 6], "c": ["x", "y", "z", "x"]})


def toy(weights: Any) -> Callable[[Any], Any]:
    def answer(rows: Any) -> Any:
        letter = rows["c"].map({"x": weights[2], "y": weights[3], "z": weights[4]}).to_numpy(float)
        a, b = rows["a"].to_numpy(float), rows["b"].to_numpy(float)
        return weights[0] * a + weights[1] * b + weights[5] * a * b + letter

    return answer


@pytest.mark.parametrize("seed", range(8))
def test_greedy_search_takes_the_move_that_brute_force_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=6)
    space = FeatureSpace.infer(TOY)
    start = space.values(TOY)
    box = BlackBox(toy(weights), space, task="regression")
    before = box.ask(start)
    for goal in (Goal.shift(rng.uniform(0.5, 3)), Goal.shift(1e6)):
        bound = goal.bind(box, before)
        problem = Problem(space, box, start, before, bound, space.limits(), 3, np.zeros(4, dtype=np.int64))
        moved, met = greedy_search(problem, Moves.quantiles(start, space, 20), 1)
        for query in range(4):
            rows = []
            for j, values in enumerate(([0, 1, 2, 3], [0, 2, 4, 6], [0, 1, 2])):
                for value in values:
                    row = start[query].copy()
                    row[j] = value
                    rows.append(row)
            tried = np.array([row for row in rows if (row != start[query]).any()])
            owner = np.full(len(tried), query)
            reached, gap = problem.judge(tried, owner)
            cost = np.where(reached, problem.distance(tried, owner), gap)
            best = np.flatnonzero(reached) if reached.any() else np.arange(len(tried))
            assert met[query] == reached.any()
            assert (moved[query] != start[query]).sum() == 1
            found = np.flatnonzero((tried == moved[query]).all(axis=1))
            assert cost[found] == pytest.approx(cost[best].min())


def test_greedy_search_asks_every_allowed_move_once() -> None:
    """The moves are put into whole rows, which are projected: what is left of them, each once, is what is asked."""
    rows = pd.DataFrame({"x": [0.0, 4.7, 5.2, 9.9], "down": [0, 3, 6, 9], "c": list("bacb")})
    rules: dict[str, Any] = {"steps": {"x": 0.5}, "decrease_only": ["down"], "bounds": {"c": ["a", "b"]}}
    space = FeatureSpace.infer(rows, **rules)
    start, limits, asked = space.values(rows), space.limits(), []

    def model(frame: Any) -> Any:
        asked.append(space.values(frame))
        return np.zeros(len(frame))

    box = BlackBox(model, space, task="regression")
    before = box.ask(start)
    moves = Moves.quantiles(start, space, 20)
    problem = Problem(
        space, box, start, before, Goal.shift(1).bind(box, before), limits, 3, np.zeros(4, dtype=np.int64)
    )
    greedy_search(problem, moves, 1)
    low, high = limits.span(start)
    expected = set()
    for query in range(4):
        for feature, value in zip(moves.feature, moves.value, strict=True):
            row = start[query].copy()
            row[feature] = np.clip(value, low[query, feature], high[query, feature])
            row = limits.project(row[None], start[query][None])[0]
            expected |= {(query, *row)} if (row != start[query]).any() else set()
    owner = np.repeat(np.arange(4), problem.spent)
    assert sorted((int(query), *row) for query, row in zip(owner, asked[1].tolist(), strict=True)) == sorted(expected)


def test_greedy_search_goes_on_until_the_goal_is_met() -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 25, [[0.0, 0, 0], [9.0, 9, 0]])
    space = problem.space
    moves = Moves.quantiles(TRAINING, space, 20)
    values, met = greedy_search(problem, moves, 3)
    assert met.tolist() == [True, True]
    assert (values != problem.start).sum(axis=1).tolist() == [3, 1]
    shorter, met = greedy_search(problem, moves, 2)
    assert met.tolist() == [False, True]
    assert (shorter != problem.start).sum(axis=1).tolist() == [2, 1]
    assert values[1, :2].tolist() == [9, 9]


def test_greedy_search_stops_where_nothing_may_move() -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 25, ORIGIN, immutable=["x0", "x1", "x2"])
    values, met = greedy_search(problem, Moves.quantiles(TRAINING, problem.space, 20), 3)
    assert (values == 0).all()
    assert not met.any()


def test_refined_greedy_is_as_sparse_as_brute_force_on_a_grid() -> None:
    """All 4 * 4 * 3 rows of the toy are compared with what greedy search and refinement deliver."""
    space = FeatureSpace.infer(TOY)
    everything = np.array(list(product([0.0, 1, 2, 3], [0.0, 2, 4, 6], [0.0, 1, 2])))
    start = space.values(TOY)
    box = BlackBox(toy([1.0, 0.5, 0, 1, 2, 0]), space, task="regression")
    before = box.ask(start)
    problem = Problem(
        space,
        box,
        start,
        before,
        Goal.shift(3).bind(box, before),
        space.limits(),
        3,
        np.zeros(4, dtype=np.int64),
    )
    values, met = greedy_search(problem, Moves.quantiles(start, space, 20), 3)
    assert met.all()
    refined = refine(problem, values, np.arange(4))
    for query in range(4):
        reached, _ = problem.judge(everything, np.full(len(everything), query))
        fewest = (everything[reached] != start[query]).sum(axis=1).min()
        assert (refined[query] != start[query]).sum() == fewest


# The objective: the least distance, however many changes


def by_distance(problem: Problem, **costs: float) -> Problem:
    """The problem with the least distance as its objective, at some prices of the features x0, x1, x2."""
    space = problem.space.with_costs({problem.space.names[int(name[1:])]: cost for name, cost in costs.items()})
    return replace(problem, space=space, objective="closest")


def test_revert_keeps_the_cheapest_subset_where_distance_counts() -> None:
    problem = problem_of(lambda x: np.maximum(x[:, 0] / 9, np.minimum(x[:, 1], x[:, 2])), ORIGIN)
    values = np.array([[9.0, 1.0, 1.0]])
    assert revert(by_distance(problem), values, ONE)[0].tolist() == [[0, 1, 1]]
    assert revert(by_distance(problem, x1=9.0), values, ONE)[0].tolist() == [[9, 0, 0]]


def test_undo_takes_back_the_dearest_change_that_may_be_where_distance_counts() -> None:
    problem = problem_of(lambda x: (x > 0).sum(axis=1) - 1.0, ORIGIN)
    values = np.array([[4.0, 2.0, 3.0]])
    assert undo(by_distance(problem), values, ONE)[0].tolist() == [[0, 2, 3]]
    assert undo(by_distance(problem, x1=9.0), values, ONE)[0].tolist() == [[4, 0, 3]]


def test_greedy_search_below_a_distance_goes_only_where_it_costs_less() -> None:
    problem = by_distance(problem_of(lambda x: x[:, 0] / 5 + (x[:, 1] + x[:, 2]) / 10, ORIGIN), x0=10.0)
    moves = Moves(np.array([0, 1, 2]), np.array([5.0, 5.0, 5.0]))
    values, met = greedy_search(problem, moves, 3)
    assert met.all() and values.tolist() == [[5, 0, 0]]  # one change, at ten times the price
    cost = problem.distance(values, ONE)
    cheaper, met = greedy_search(problem, moves, 3, below=cost)
    assert met.all() and cheaper.tolist() == [[0, 5, 5]]
    _, met = greedy_search(problem, moves, 3, below=problem.distance(cheaper, ONE))
    assert not met.any()
    assert greedy_by_distance(problem, moves, values, ONE, refined=False).tolist() == [[0, 5, 5]]
