"""Facts about what ReLAX-Local keeps of all that its agents meet in training."""

from typing import Any

import numpy as np
from reference.problems import problem_of

from relax_plugin.agent.local import BestSeen

STARTS = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]


def seen(values: Any, start: Any, met: Any) -> BestSeen:
    """What is kept of one step of four episodes, two for each of the two queries."""
    best = BestSeen(problem_of(lambda x: x.sum(axis=1), STARTS), episodes=2)
    best.watch({"values": np.array(values, float), "start": np.array(start, float), "met": np.array(met)})
    return best


OWN = [STARTS[0], STARTS[0], STARTS[1], STARTS[1]]


def test_fewer_changes_are_better_however_long_they_are() -> None:
    problem = problem_of(lambda x: x.sum(axis=1), STARTS)
    one_long, two_short, one_short = np.array([[9.0, 0, 0]]), np.array([[0.1, 0.1, 0]]), np.array([[0, 0.2, 0]])
    for better, worse in ((one_short, one_long), (one_long, two_short)):
        assert problem.is_better(better, worse, np.array([0])).all()
        assert not problem.is_better(worse, better, np.array([0])).any()


def test_the_sparsest_and_then_closest_is_kept_for_each_query() -> None:
    values = [[2, 2, 0], [9, 0, 0], [1, 1, 8], [1, 1, 6]]
    assert seen(values, OWN, [True] * 4).values.tolist() == [[9, 0, 0], [1, 1, 6]]


def test_what_did_not_meet_the_goal_is_not_kept() -> None:
    best = seen([[9, 0, 0], [0, 1, 0], [1, 1, 6], [1, 1, 8]], OWN, [True, False, False, False])
    assert best.values.tolist() == [[9, 0, 0], [1, 1, 1]]
    assert best.met.tolist() == [True, False]


def test_what_began_at_a_neighbour_of_the_query_is_not_its_counterfactual() -> None:
    neighbour = [0.5, 0.0, 0.0]
    best = seen([[0, 1, 0], [9, 0, 0], [1, 1, 6], [1, 1, 8]], [neighbour, *OWN[1:]], [True] * 4)
    assert best.values.tolist() == [[9, 0, 0], [1, 1, 6]]


def test_only_what_is_better_takes_the_place_of_what_was_kept() -> None:
    best = seen([[0, 2, 0], [9, 0, 0], [1, 1, 6], [1, 1, 8]], OWN, [True] * 4)
    worse = np.array([[0, 3, 0], [9, 9, 0], [1, 1, 5], [1, 1, 8]], float)
    best.watch({"values": worse, "start": np.array(OWN), "met": np.ones(4, dtype=bool)})
    assert best.values.tolist() == [[0, 2, 0], [1, 1, 5]]
