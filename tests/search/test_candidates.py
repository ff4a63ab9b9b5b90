"""Facts about candidates: what is kept, what is not asked about, and from where a search goes on."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.problems import ORIGIN, problem_of

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.problem import Problem
from relax_plugin.search.candidates import Budget, Candidates, affordable

TWO = [[0.0, 0, 0], [1.0, 1, 1]]


def summed(start: Any = ORIGIN, **options: Any) -> Problem:
    return problem_of(lambda x: x.sum(axis=1) / 9, start, **options)


def ask(candidates: Candidates, *rows: Any, owner: Any = None) -> Any:
    values = np.array(rows, dtype=float)
    return candidates.ask(values, np.zeros(len(values), dtype=np.int64) if owner is None else np.array(owner))


def test_fewer_changes_come_first_and_then_the_closest() -> None:
    candidates = Candidates(summed())
    ask(candidates, [4, 3, 3], [9.5, 0, 0], [0, 9.2, 0], [4.55, 4.55, 0], [1, 0, 0])
    top = candidates.top(3)
    assert top is not None and top.values.tolist() == [[0, 9.2, 0], [9.5, 0, 0]]
    assert candidates.fewest.tolist() == [1]
    spare = candidates.top(3, spare=1)
    assert spare is not None and spare.values.tolist() == [[0, 9.2, 0], [9.5, 0, 0], [4.55, 4.55, 0]]


def test_where_distance_counts_the_closest_comes_first_whatever_it_changes() -> None:
    problem = problem_of(lambda x: np.maximum(x[:, 0] / 9, x[:, 1:].sum(axis=1) / 4), ORIGIN)
    candidates = Candidates(replace(problem, objective="closest"))
    ask(candidates, [9.5, 0, 0], [0, 2, 2.5])
    top = candidates.top(1)
    assert top is not None and top.values.tolist() == [[0, 2, 2.5]]


def test_where_distance_counts_the_model_is_not_asked_about_farther_rows() -> None:
    problem = replace(summed(), objective="closest")
    candidates = Candidates(problem)
    ask(candidates, [9.5, 0, 0])
    judged = ask(candidates, [9.9, 0, 0], [0, 9.4, 0])
    assert problem.spent.tolist() == [2]
    assert judged.met.tolist() == [False, True] and judged.gap[0] == np.inf
    known = Candidates(problem, below=problem.distance(np.array([[9.0, 0, 0]]), np.array([0])))
    assert not ask(known, [9.5, 0, 0]).met.any() and problem.spent.tolist() == [2]


def test_what_the_budget_does_not_allow_counts_as_a_miss_and_is_not_asked() -> None:
    problem = summed(TWO)
    candidates = Candidates(problem, Budget(2))
    judged = ask(candidates, *[[9.5, 0, 0]] * 5, owner=[0, 1, 0, 0, 1])
    assert problem.spent.tolist() == [2, 2]
    assert judged.met.tolist() == [True, True, True, False, True]
    assert judged.answer.output[3] == problem.before.output[0]
    ask(candidates, [9.5, 0, 0])
    assert problem.spent.tolist() == [2, 2]


def test_every_query_may_have_rows_of_its_own() -> None:
    problem = summed(TWO)
    ask(Candidates(problem, Budget(np.array([1, 3]))), *[[9.5, 0, 0]] * 6, owner=[0, 0, 0, 1, 1, 1])
    assert problem.spent.tolist() == [1, 3]


def test_when_the_time_is_over_nothing_is_asked() -> None:
    problem = summed()
    assert not ask(Candidates(problem, Budget(until=time.perf_counter() - 1)), [9.5, 0, 0]).met.any()
    assert problem.spent.tolist() == [0]


def test_a_row_that_is_known_to_be_valid_is_accepted_without_asking() -> None:
    problem = summed()
    candidates = Candidates(problem)
    candidates.accept(np.array([[9.5, 0, 0]]), np.array([0]))
    top = candidates.top(1)
    assert top is not None and top.values.tolist() == [[9.5, 0, 0]] and problem.spent.tolist() == [0]


def test_a_row_with_more_changes_than_allowed_is_not_kept() -> None:
    candidates = Candidates(summed(max_changes=1))
    assert ask(candidates, [5, 5, 0]).met.all() and candidates.top(1) is None


def test_a_search_goes_on_from_the_misses_nearest_to_the_goal() -> None:
    candidates = Candidates(summed())
    rows = np.array([[3.0, 0, 0], [0, 5, 0], [0, 4, 0], [0, 0, 4], [2, 2, 2]])
    owner = np.zeros(5, dtype=np.int64)
    candidates.note_misses(rows, owner, candidates.ask(rows, owner).gap)
    assert candidates.bases(1, 2).values.tolist() == [[0, 5, 0], [0, 0, 4]]  # one of each set of features
    assert candidates.bases(2, 1).values.tolist() == []
    assert candidates.nearest_miss.values.tolist() == [[2, 2, 2]]
    ask(candidates, [9.5, 0, 0])
    assert len(candidates.bases(1, 1).owner) == 0, "two changes are no better than the one that is known"


def test_of_ordered_categories_the_nearest_that_suffices_is_best() -> None:
    rows = pd.DataFrame({"level": ["none", "low", "some", "high"] * 5})
    space = FeatureSpace.infer(rows, ordered={"level": ["none", "low", "some", "high"]})
    box = BlackBox(lambda asked: (asked["level"] != "none").astype(float) * 2, space, task="regression")
    start = space.values(rows[:1])
    before = box.ask(start)
    goal = Goal.between(1, 9).bind(box, before)
    problem = Problem(space, box, start, before, goal, space.limits(), 1, np.zeros(1, dtype=np.int64))
    candidates = Candidates(problem)
    ask(candidates, [3], [1], [2])
    top = candidates.top(1)
    assert top is not None and top.values.tolist() == [[1]]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_affordable_is_what_is_left_when_one_pays_after_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = summed(TWO)
    problem.spent[:] = [1, 4]
    owner, price = rng.integers(0, 2, 20), rng.integers(1, 4, 20)
    most, bill = np.array([8, 12]), problem.spent.copy()
    paid = affordable(problem, owner, price, most)
    for place in range(20):
        bill[owner[place]] += price[place]
        assert paid[place] == (bill[owner[place]] <= most[owner[place]])
