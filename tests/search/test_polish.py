"""Facts about polish, on models small enough to compute by hand: drop, undo, shorten, swap, snap, refine."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.problems import ORIGIN, problem_of

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.problem import Problem
from relax_plugin.search.candidates import Budget, Candidates
from relax_plugin.search.moves import Moves
from relax_plugin.search.polish import bracket, drop, drop_and_shorten, polish, refine, shorten, snap, swap, undo

ALL = np.array([[10.0, 10.0, 10.0]])
ONE = np.array([0])


def known(problem: Problem, values: Any, rows: int | None = None) -> Candidates:
    """Candidates that hold one valid row of the first query."""
    candidates = Candidates(problem, Budget(rows))
    candidates.accept(np.array(values, dtype=float), np.zeros(len(values), dtype=np.int64))
    return candidates


def best(candidates: Candidates) -> list[float]:
    top = candidates.top(1)
    assert top is not None
    (row,) = top.values.tolist()
    return list(row)


def by_distance(problem: Problem, **costs: float) -> Problem:
    """The problem with the least distance as its objective, at some prices of the features x0, x1, x2."""
    space = problem.space.with_costs({problem.space.names[int(name[1:])]: cost for name, cost in costs.items()})
    return replace(problem, space=space, objective="closest")


# drop


@pytest.mark.parametrize(
    ("function", "values", "left"),
    [
        (lambda x: 0.1 * x[:, 1] + 0.01 * x[:, 0], [10, 10, 10], [0, 10, 0]),
        (lambda x: np.minimum(x[:, 0], x[:, 2]), [10, 10, 10], [10, 0, 10]),  # neither alone is enough
        (lambda x: x[:, 0] + x[:, 1], [9, 4, 0], [0, 4, 0]),  # the closest of equally small subsets
        (lambda x: np.maximum(x[:, 0] / 9, np.minimum(x[:, 1], x[:, 2])), [9, 1, 1], [9, 0, 0]),  # fewer before closer
        (lambda x: x.min(axis=1), [10, 10, 10], [10, 10, 10]),  # all are needed
    ],
)
def test_the_best_subset_of_the_changes_is_kept(function: Any, values: Any, left: Any) -> None:
    candidates = known(problem_of(function, ORIGIN), [values])
    drop(candidates, 1)
    assert best(candidates) == left


def test_where_rows_are_limited_one_change_at_a_time_is_undone() -> None:
    problem = problem_of(lambda x: np.minimum(x[:, 0], x[:, 2]), ORIGIN)
    candidates = known(problem, ALL, 100)
    drop(candidates, 1)
    assert best(candidates) == [10, 0, 10]
    assert problem.spent.tolist() == [3 + 2]


def test_where_distance_counts_the_cheapest_subset_is_kept() -> None:
    problem = problem_of(lambda x: np.maximum(x[:, 0] / 9, np.minimum(x[:, 1], x[:, 2])), ORIGIN)
    for costs, left in (({}, [0, 1, 1]), ({"x1": 9.0}, [9, 0, 0])):
        candidates = known(by_distance(problem, **costs), [[9.0, 1.0, 1.0]])
        drop(candidates, 1)
        assert best(candidates) == left


def test_each_subset_is_asked_once_and_charged() -> None:
    problem = problem_of(lambda x: x.min(axis=1), ORIGIN)
    calls = problem.blackbox.calls
    drop(known(problem, [[5.0, 5, 5]]), 1)
    assert problem.spent.tolist() == [6]  # 2^3 - 2 subsets
    assert problem.blackbox.calls == calls + 1


def test_drop_says_what_each_change_is_worth() -> None:
    problem = problem_of(lambda x: 0.1 * x[:, 0] + 0.01 * x[:, 1], ORIGIN)
    worth = drop(known(problem, [[9.5, 9.5, 0.0]]), 1)
    distance = 9.5 / problem.space.scale
    # Without the first the prediction is 0.095, without the second 0.95; the goal is 1.
    assert worth[0, :2] == pytest.approx([0.905 / distance[0], 0.05 / distance[1]])
    assert np.isnan(worth[0, 2])


def test_of_many_changes_one_at_a_time_is_undone() -> None:
    rows = np.array([[0.001] * 9, [10.001] * 9])
    problem = problem_of(lambda x: (x[:, :2] > 5).all(axis=1) + 0.01 * x[:, 2], [[0.0] * 9], rows, max_changes=9)
    candidates = known(problem, [[10.0] * 9])
    drop(candidates, 1)
    assert best(candidates) == [10, 10] + [0] * 7


# undo


def test_undo_takes_back_what_is_not_needed_one_at_a_time() -> None:
    problem = problem_of(lambda x: 0.05 * x[:, 0] + 0.06 * x[:, 1] + 0.02 * x[:, 2], ORIGIN)
    assert undo(problem, ALL, ONE).tolist() == [[10, 10, 0]]
    assert problem.spent.tolist() == [3 + 2]


def test_undo_stops_at_the_number_of_changes_it_is_given() -> None:
    problem = problem_of(lambda x: x[:, 0] * 0 + 2, ORIGIN)
    for down_to in (1, 2, 3):
        assert (undo(problem, ALL, ONE, down_to) != 0).sum() == down_to


def test_undo_takes_back_the_dearest_change_where_distance_counts() -> None:
    problem = problem_of(lambda x: (x > 0).sum(axis=1) - 1.0, ORIGIN)
    values = np.array([[4.0, 2.0, 3.0]])
    assert undo(by_distance(problem), values, ONE).tolist() == [[0, 2, 3]]
    assert undo(by_distance(problem, x1=9.0), values, ONE).tolist() == [[4, 0, 3]]


def test_undo_keeps_to_the_rows_of_each_query() -> None:
    for most in range(8):
        problem = problem_of(lambda x: x[:, 0] * 0 + 2, ORIGIN)
        undo(problem, ALL, ONE, most_rows=np.array([most]))
        assert problem.spent[0] == (0 if most < 3 else 3 if most < 5 else 5)


def test_with_labels_alone_a_few_at_a_time_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 12)).round(3)
    low = np.minimum(rows, 0.0)[:6]
    space = FeatureSpace.infer(rows)
    box = BlackBox(lambda asked: ((np.asarray(asked, dtype=float) > 0.3).sum(axis=1) >= 4).astype(int), space)
    box.learn(rows)
    valid = rows[(rows > 0.3).sum(axis=1) >= 6][: len(low)]
    found, spent = [], []
    for at_once in (1, 6, 12):
        monkeypatch.setattr("relax_plugin.search.polish.LABELS_AT_ONCE", at_once)
        before = box.ask(low)
        goal = Goal.to(1).bind(box, before)
        problem = Problem(space, box, low, before, goal, space.limits(), 3, np.zeros(len(low), dtype=np.int64))
        found.append(undo(problem, valid, np.arange(len(valid)), down_to=4).tolist())
        spent.append(int(problem.spent.sum()))
    assert found[0] == found[1] == found[2]
    assert spent[0] < spent[1] < spent[2]


# bracket, shorten


def test_a_number_is_moved_back_to_just_beyond_the_boundary() -> None:
    for function, start, value, low, high in (
        (lambda x: x[:, 0] / 3, [0.0, 0, 0], 10.0, 3.0, 3.16),
        (lambda x: (10 - x[:, 0]) / 3, [10.0, 0, 0], 0.002, 6.84, 7.0),
    ):
        problem = problem_of(function, [start])
        values, failed = bracket(known(problem, []), np.array([[value, 0, 0]]), ONE, ONE, np.array([start[0]]))
        assert low <= values[0, 0] <= high
        assert abs(failed[0] - values[0, 0]) <= 10 / 64 + 1e-9
        assert problem.judge(values, ONE)[0].all()


def test_whole_numbers_stop_at_the_grid() -> None:
    problem = problem_of(lambda x: x[:, 0] / 36.5, [[0.0]], pd.DataFrame({"count": [0, 100]}))
    values, _ = bracket(known(problem, []), np.array([[100.0]]), ONE, ONE, np.array([0.0]), rounds=9)
    assert values.tolist() == [[37]]
    assert problem.spent[0] < 25, "nothing is asked once the neighbours are known"


def test_the_change_worth_least_is_moved_back_first() -> None:
    problem = problem_of(lambda x: 0.1 * x[:, 0] + 0.09 * x[:, 1], ORIGIN)
    candidates = known(problem, [[8.0, 8.0, 0.0]])
    drop_and_shorten(candidates)
    first, second, _ = best(candidates)
    assert first == 8
    assert second == pytest.approx(0.2 / 0.09, abs=0.15)


def test_shorten_moves_all_numbers_together() -> None:
    problem = problem_of(lambda x: np.minimum(x[:, 0], x[:, 1] / 2) / 2, ORIGIN)
    candidates = known(problem, [[10.0, 10.0, 0.0]])
    shorten(candidates, 1)
    first, second, _ = best(candidates)
    assert 2 <= first <= 2.1 and 4 <= second <= 4.2


@pytest.mark.parametrize("rows", [1, 6, 20])
def test_polish_keeps_to_its_rows(rows: int) -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 12, ORIGIN)
    candidates = known(problem, [[9.0, 9.0, 9.0]], rows)
    drop_and_shorten(candidates)
    assert 0 < problem.spent[0] <= rows or rows < 3
    assert problem.judge(np.array([best(candidates)]), ONE)[0].all()


def test_where_rows_are_limited_no_number_takes_those_of_the_others() -> None:
    problem = problem_of(lambda x: np.minimum(x[:, 0], x[:, 1]) / 2, ORIGIN)
    candidates = known(problem, [[9.6, 9.6, 0.0]], 6)
    drop_and_shorten(candidates)
    assert max(best(candidates)) <= 4.8


# swap, snap


def test_a_shorter_change_of_another_feature_takes_the_place_of_one() -> None:
    problem = problem_of(lambda x: np.minimum(x[:, 0], np.maximum(x[:, 1] / 8, x[:, 2])) + x.sum(axis=1) / 100, ORIGIN)
    candidates = known(problem, [[2.0, 9.0, 0.0]])
    moves = Moves(np.array([0, 1, 2]), np.array([2.0, 9.0, 2.0]))
    candidates.gain = np.array([[0.02, 0.09, 0.02]])
    swap(candidates, moves)
    assert best(candidates) == [2, 0, 2]


def test_numbers_snap_away_from_the_query() -> None:
    problem = problem_of(lambda x: x[:, 0] / 3, ORIGIN)
    top = known(problem, [[3.2, 0.0, 0.0]]).top(1)
    assert top is not None
    assert snap(known(problem, []), top, np.array([0.5, 0.5, 0.5])).values.tolist() == [[3.5, 0, 0]]
    assert snap(known(problem, []), top, np.zeros(3)).values.tolist() == [[3.2, 0, 0]]


# Laws


def laws(problem: Problem, values: Any, owner: Any, polished: Any) -> None:
    start = problem.start[owner]
    assert problem.judge(polished, owner)[0].all()
    assert problem.limits.kept(polished, start).all()
    assert ((polished != start).sum(axis=1) <= (values != start).sum(axis=1)).all()
    fewer = (polished != start).sum(axis=1) < (values != start).sum(axis=1)
    assert (fewer | (problem.distance(polished, owner) <= problem.distance(values, owner) + 1e-12)).all()


def test_polish_never_loses_validity_nor_adds_changes_or_distance_on_a_jagged_model() -> None:
    start = np.random.default_rng(0).uniform(0, 2, size=(40, 3))
    jagged = lambda x: x.sum(axis=1) / 12 + 0.3 * np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1])  # noqa: E731
    problem = problem_of(jagged, start, goal=Goal.shift(0.5))
    proposal = np.full((40, 3), 10.0)
    valid = np.flatnonzero(problem.judge(proposal, np.arange(40))[0])
    assert len(valid) > 20
    laws(problem, proposal[valid], valid, refine(problem, proposal[valid], valid))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000), rows=st.sampled_from([None, 10, 40]), objective=st.sampled_from(["sparse", "closest"])
)
def test_the_laws_of_polish_hold_for_any_small_table(seed: int, rows: int | None, objective: str) -> None:
    rng = np.random.default_rng(seed)
    weights, bend = rng.normal(size=4), rng.normal(size=4)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=30).round(2),
            "count": rng.integers(0, 9, 30),
            "c": rng.choice(list("xyz"), 30),
            "up": rng.normal(size=30).round(1),
        }
    )
    space = FeatureSpace.infer(table, increase_only=["up"])
    coded = space.values(table)
    codes = {name: code for code, name in enumerate(space.features[2].categories)}

    def model(asked: Any) -> Any:
        x = asked.assign(c=asked["c"].map(codes)).to_numpy(float)
        return x @ weights + np.sin(x * 2) @ bend

    box = BlackBox(model, space, task="regression")
    start, other = coded[:6], space.limits().project(coded[6:12], coded[:6])
    before = box.ask(start)
    bound = Goal.shift(0.3).bind(box, before)
    problem = Problem(space, box, start, before, bound, space.limits(), 4, np.zeros(6, dtype=np.int64))
    problem = replace(problem, objective=objective)
    valid = np.flatnonzero(problem.judge(other, np.arange(6))[0])
    for polished in (drop_and_shorten, polish):
        spent = problem.spent.copy()
        candidates = Candidates(problem, Budget(None if rows is None else spent + rows))
        candidates.accept(other[valid], valid)
        polished(candidates)
        assert rows is None or (problem.spent <= spent + rows).all()
        top = candidates.top(1)
        if len(valid):
            assert top is not None and top.owner.tolist() == valid.tolist()
            if objective == "sparse":
                laws(problem, other[valid], valid, top.values)
            else:
                assert problem.judge(top.values, valid)[0].all()
                nearer = problem.distance(top.values, valid) <= problem.distance(other[valid], valid) + 1e-9
                assert nearer.all()


def test_rows_that_are_refined_do_not_compete() -> None:
    problem = problem_of(lambda x: x.max(axis=1) / 2, ORIGIN)
    both = refine(problem, np.array([[8.0, 0, 0], [0, 9.0, 9.0]]), np.array([0, 0]))
    assert (both > 0).sum(axis=1).tolist() == [1, 1]
    assert both[0, 0] == pytest.approx(2, abs=0.15)
    assert refine(problem, both[:0], ONE[:0]).shape == (0, 3)


def test_everything_asked_is_charged_to_its_query() -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 9, [[0.0, 0, 0], [1.0, 1, 1]])
    before = problem.blackbox.rows_asked
    refine(problem, np.array([[10.0, 10, 10], [10.0, 10, 1]]), np.array([0, 1]))
    assert problem.spent.sum() == problem.blackbox.rows_asked - before
    assert (problem.spent > 0).all()


def test_a_category_is_not_shortened() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"c": list("abcd")}))
    box = BlackBox(lambda rows: rows["c"].map({"a": 0, "b": 2, "c": 2, "d": 2}), space, task="regression")
    start = np.array([[0.0]])
    before = box.ask(start)
    goal = Goal.between(1, 9).bind(box, before)
    problem = Problem(space, box, start, before, goal, space.limits(), 1, np.zeros(1, dtype=np.int64))
    assert refine(problem, np.array([[3.0]]), ONE).tolist() == [[3]]


def test_a_number_without_a_step_moves_to_the_next_value_seen_where_the_goal_holds() -> None:
    """The goal is above 0.4 in the first feature; of the second no value is seen beyond."""
    problem = problem_of(lambda x: (x[:, 0] > 0.4) & (x[:, 1] < -0.2), np.zeros((1, 3)))
    candidates, natural = Candidates(problem), np.zeros(3)
    candidates.ask(np.array([[0.41, -0.21, 0.0]]), np.zeros(1, dtype=int))
    best = candidates.top(1)
    assert best is not None
    seen = [np.array([1 / 3, 2 / 3, 5 / 7]), np.array([-0.1, 3.0]), np.zeros(0)]
    assert snap(candidates, best, natural, seen).values[0].tolist() == pytest.approx([2 / 3, -0.21, 0.0])
    assert snap(candidates, best, natural).values.tolist() == [[0.41, -0.21, 0.0]]
