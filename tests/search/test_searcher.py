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
from relax_plugin.search.neighbours import Neighbours
from relax_plugin.search.rescue import QUANTILES, Rescue
from relax_plugin.search.searcher import Searcher, check_search_options
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
    rescue = Rescue(Neighbours.of(TRAINING), Moves.quantiles(TRAINING, problem.space, QUANTILES), 1000)
    return Searcher(ranking, observer, 40, rescue if fallback else None).search(problem), ranking.wide


def test_what_the_search_solves_is_searched_once() -> None:
    problem = problem_of(lambda x: x[:, 0] / 5, ORIGIN)
    made, wide = searched(problem)
    assert wide == [False]
    assert made.offered.all() and (made.stage == "search").all()
    assert (problem.spent <= 40).all()


def test_what_it_leaves_is_searched_wider_and_then_rescued() -> None:
    made, wide = searched(problem_of(lambda x: x[:, 0] / 5, ORIGIN), barren=True)
    assert wide == [False, True]
    assert made.offered.all() and (made.stage == "greedy").all()
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rows_per_instance", value) for value in (4, 2.5, 10**10, "40")),
        *(("rescue_rows", value) for value in (-1, 0.5, 10**10, None, True)),
        ("fallback", 1),
    ],
)
def test_wrong_options_are_refused_by_a_sentence(name: str, value: Any) -> None:
    right = {"rows_per_instance": 40, "fallback": False, "rescue_rows": 0}
    check_search_options(**right)
    check_search_options(**right | {"rows_per_instance": 5})
    with pytest.raises(InputError, match=rf"^{name} is .* must be .*\.$"):
        check_search_options(**right | {name: value})
