"""Facts about the Searcher: which search comes when, who is told, and what it says of a query it could not solve."""

from typing import Any

import numpy as np
import pytest
from reference.problems import ORIGIN, TRAINING, problem_of

from relax_plugin.arrays import Floats
from relax_plugin.errors import InputError
from relax_plugin.problem import Problem
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.greedy import Moves
from relax_plugin.search.searcher import FALLBACK_VALUES, Searcher, check_search_options
from relax_plugin.search.state import Episodes, Observer


class Ranking:
    """Ranks all actions alike, or knows of none at all; remembers for which searches it was wanted."""

    exact = False

    def __init__(self, observer: Observer, barren: bool) -> None:
        self.observer, self.barren, self.wide = observer, barren, []

    def __call__(self, wide: bool) -> "Ranking":
        self.wide.append(wide)
        return self

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes) & (not self.barren)
        return np.where(allowed, 0.0, -np.inf), np.ones(allowed.shape)


def searched(problem: Problem, barren: bool = False, fallback: bool = True) -> tuple[Any, list[bool]]:
    """What is proposed, and for each search whether it was the wider one."""
    observer = Observer(problem.space, ActionTable(problem.space), problem.max_changes, 1.0)
    ranking = Ranking(observer, barren)
    moves = Moves.quantiles(TRAINING, problem.space, FALLBACK_VALUES)
    return Searcher(ranking, observer, moves, 40, fallback).search(problem), ranking.wide


def test_what_the_search_solves_is_searched_once() -> None:
    problem = problem_of(lambda x: x[:, 0] / 5, ORIGIN)
    made, wide = searched(problem)
    assert wide == [False]
    assert made.offered.all() and (made.stage == "search").all()
    assert (problem.spent <= 40).all()


def test_what_it_leaves_is_searched_wider_and_then_greedily() -> None:
    made, wide = searched(problem_of(lambda x: x[:, 0] / 5, ORIGIN), barren=True)
    assert wide == [False, True]
    assert made.offered.all() and (made.stage == "fallback").all()
    assert made.values[0, 0, 0] >= 5


def test_without_the_fallback_one_search_is_all() -> None:
    made, wide = searched(problem_of(lambda x: x[:, 0] / 5, ORIGIN), barren=True, fallback=False)
    assert wide == [False]
    assert not made.offered.any() and (made.note == "").all()


def test_it_says_how_many_changes_would_do() -> None:
    problem = problem_of(lambda x: np.minimum(x[:, 0], x[:, 1]) / 5 + x.sum(axis=1) / 1000, ORIGIN, max_changes=1)
    made, _ = searched(problem)
    assert not made.offered.any()
    assert made.note.tolist() == ["none was found within 1 changes; 2 would do"]


@pytest.mark.parametrize(("rows", "fallback"), [(7, True), (2.5, True), (10**10, True), ("40", True), (40, 1)])
def test_wrong_options_are_refused_by_a_sentence(rows: Any, fallback: Any) -> None:
    check_search_options(40, False)
    with pytest.raises(InputError, match=r"^(rows_per_instance|fallback) is .* must be .*\.$"):
        check_search_options(rows, fallback)
