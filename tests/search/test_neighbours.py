"""Facts about near training rows: which are found, in which order they are asked about, and who pays for it."""

from typing import Any

import numpy as np
import pytest
from reference.problems import problem_of

from relax_plugin import Goal
from relax_plugin.problem import Problem
from relax_plugin.search.neighbours import AnsweredRows, Neighbours, _smallest

LINE = np.arange(40.0)[:, None]  # training rows 0, 1, 2, ...
FROM_TWENTY = Goal.between(20, np.inf)
PLENTY = np.array([1000])


def on_the_line(start: Any, goal: Goal = FROM_TWENTY) -> Problem:
    """A model that answers the only feature itself."""
    return problem_of(lambda x: x[:, 0], start, rows=LINE, goal=goal, max_changes=1)


def test_training_rows_are_kept_once_and_no_more_than_are_wanted() -> None:
    assert Neighbours.of(np.array([[2.0], [1.0], [2.0]])).rows.tolist() == [[1], [2]]
    few = Neighbours.of(LINE, most=5).rows.ravel()
    assert len(few) == 5 and few[0] == 0 and few[-1] == 39


def test_rows_are_asked_about_nearest_first_until_enough_meet_the_goal() -> None:
    problem = on_the_line([[18.2]])
    answered = AnsweredRows(Neighbours.of(LINE))
    order, available = answered.nearest(problem, 2, PLENTY)
    assert order.tolist() == [[20, 21]] and available.tolist() == [2]
    assert answered.known.sum() == problem.spent[0] == 8  # four of them, then four more
    assert set(np.flatnonzero(answered.known)) == set(range(15, 23))


def test_a_row_is_asked_about_once_and_paid_for_by_the_first_query_that_wants_it() -> None:
    problem = on_the_line([[18.2], [18.2]])
    answered = AnsweredRows(Neighbours.of(LINE))
    for _ in range(2):
        asked = problem.blackbox.rows_asked
        order, _ = answered.nearest(problem, 2, np.array([1000, 1000]))
        assert order.tolist() == [[20, 21], [20, 21]]
    assert problem.blackbox.rows_asked == asked
    assert problem.spent.tolist() == [8, 0]


@pytest.mark.parametrize("price", [0, 1, 3, 7])
def test_no_more_rows_are_asked_about_than_may_be_spent(price: int) -> None:
    problem = on_the_line([[0.0]])
    answered = AnsweredRows(Neighbours.of(LINE))
    _, available = answered.nearest(problem, 2, np.array([price]))
    assert answered.known.sum() == problem.spent[0] == price
    assert available.tolist() == [0]


def test_all_rows_are_asked_about_where_none_meets_the_goal() -> None:
    problem = on_the_line([[0.0]], Goal.between(100, 200))
    answered = AnsweredRows(Neighbours.of(LINE))
    assert answered.nearest(problem, 2, PLENTY)[1].tolist() == [0]
    assert answered.known.all() and problem.spent[0] == len(LINE)


def test_there_may_be_no_training_rows() -> None:
    order, available = AnsweredRows(Neighbours(LINE[:0])).nearest(on_the_line([[0.0]]), 3, PLENTY)
    assert order.shape == (1, 0) and available.tolist() == [0]


def test_the_smallest_are_those_of_a_stable_sort() -> None:
    keys = np.random.default_rng(0).integers(0, 5, (30, 20)).astype(float)
    keys[keys == 4] = np.inf
    for count in (1, 7, 20):
        assert _smallest(keys, count).tolist() == np.argsort(keys, axis=1, kind="stable")[:, :count].tolist()
