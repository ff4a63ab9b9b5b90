"""Facts about the guided search, on models small enough to compute by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference.problems import ORIGIN, problem_of

from relax_plugin.arrays import Floats
from relax_plugin.problem import Problem
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.beam import Beam, Budget, finish, guided_search, shortlist, strongest
from relax_plugin.search.state import Episodes, Observer

UP = 2 * np.arange(3)  # the action that raises each feature; the next one lowers it


class FixedRanker:
    """Prefers actions in the same order everywhere, and goes all the way."""

    exact = False

    def __init__(self, observer: Observer, best_first: Any) -> None:
        self.observer = observer
        self.value = np.full(len(observer.actions), -100.0)
        self.value[best_first] = -np.arange(len(best_first), dtype=float)

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        return np.where(allowed, self.value, -np.inf), np.ones(allowed.shape)


def observer_of(problem: Problem) -> Observer:
    return Observer(problem.space, ActionTable(problem.space), problem.max_changes, 1.0)


def searched(function: Any, best_first: Any, budget: Budget, max_changes: int = 1) -> tuple[Any, Any, int]:
    """Where the search from the origin ends, whether it meets the goal, and the model rows it took."""
    problem = problem_of(function, ORIGIN, max_changes=max_changes)
    observer = observer_of(problem)
    values, met = guided_search(problem, FixedRanker(observer, UP[best_first]), observer, budget)
    return values[0], bool(met[0]), int(problem.spent[0])


def beam_of(problem: Problem, values: Any, **known: Any) -> Beam:
    """Candidates of the first query that were asked about; what is not given is as if they came from the query."""
    values = np.array(values, dtype=float)
    owner = np.zeros(len(values), dtype=np.int64)
    begun = Episodes.begin(
        problem.start[owner], problem.ask(values, owner), problem.goal.take(owner), problem.limits, problem.max_changes
    )
    begun.values[:] = values
    given = {
        "owner": owner,
        "on_policy": np.zeros(len(values), dtype=bool),
        "rank": np.arange(len(values)),
        "value": np.zeros(len(values)),
        "gap_before": np.full(len(values), problem.gap[0]),
        "distance_before": np.zeros(len(values)),
        "worth": np.zeros(values.shape),
        "feature": owner,
    }
    problem.spent[:] = 0
    return Beam(begun, **(given | known))


FIRST_AND_ONE_MORE = Budget(spendable=40, first=1, more=1, beam=1, branch=1)


def test_further_actions_are_tried_where_the_first_came_near_the_goal() -> None:
    values, met, _ = searched(lambda x: 0.08 * x[:, 0] + 0.2 * x[:, 1], [0, 1], FIRST_AND_ONE_MORE)
    assert met
    assert values[1] > 0


def test_no_further_action_is_tried_where_the_first_stayed_far_from_the_goal() -> None:
    _, met, rows = searched(lambda x: 0.01 * x[:, 0] + 0.2 * x[:, 1], [0, 1], FIRST_AND_ONE_MORE)
    assert not met
    assert rows == 1


def test_the_attempt_that_came_closest_is_kept_where_none_meets_the_goal() -> None:
    values, met, _ = searched(lambda x: 0.06 * x[:, 0] + 0.07 * x[:, 1], [0, 1], FIRST_AND_ONE_MORE)
    assert not met
    assert values[0] == 0
    assert values[1] > 9


def test_what_promises_the_least_distance_once_shortened_is_shortlisted() -> None:
    """Of two ways to the goal the longer last move may well be taken back further."""
    problem = problem_of(lambda x: 0.105 * x[:, 0] + x[:, 1], ORIGIN)
    barely, by_far = [10, 0, 0], [0, 10, 0]
    one_row = Budget(spendable=1, first=1, more=0, beam=1, branch=1)
    chosen = shortlist(problem, beam_of(problem, [barely, by_far]), one_row)
    assert chosen.episodes.values.tolist() == [by_far]


def test_the_way_before_the_last_move_counts_in_what_is_promised() -> None:
    problem = problem_of(lambda x: x[:, 0] / 4 + x[:, 1] / 4, ORIGIN)
    late, early = [9, 3, 0], [1, 10, 0]  # the last move is that of the second feature
    before = problem.space.distance(np.array([[9.0, 0, 0], [1.0, 0, 0]]), problem.start)
    one_row = Budget(spendable=1, first=1, more=0, beam=1, branch=1)
    gaps = np.array([0.5, 0.75])
    chosen = shortlist(problem, beam_of(problem, [late, early], distance_before=before, gap_before=gaps), one_row)
    assert chosen.episodes.values.tolist() == [early]


def test_fewer_changes_are_delivered_before_shorter_ones() -> None:
    problem = problem_of(lambda x: np.maximum(x[:, 0] / 9, np.minimum(x[:, 1], x[:, 2])), ORIGIN)
    one, two = [9.5, 0, 0], [0, 1, 1]
    (best,) = finish(problem, beam_of(problem, [two, one]), Budget.of(40))
    assert (best != 0).tolist() == [True, False, False]


def test_the_states_nearest_to_the_goal_are_kept_and_the_path_of_the_policy() -> None:
    problem = problem_of(lambda x: 0.01 * x[:, 0] + 0.02 * x[:, 1] + 0.03 * x[:, 2], ORIGIN)
    policy = np.array([True, False, False])
    children = beam_of(problem, [[9, 0, 0], [0, 9, 0], [0, 0, 9]], on_policy=policy, value=np.array([3.0, 2.0, 1.0]))
    assert sorted(strongest(children, 1, has_scores=True)) == [0, 2]
    assert sorted(strongest(children, 1, has_scores=False)) == [0]


@pytest.mark.parametrize("best_first", [[0, 1, 2], [2, 1, 0]])
def test_changes_are_joined_until_the_goal_is_met(best_first: list[int]) -> None:
    values, met, _ = searched(lambda x: x.sum(axis=1) / 25, best_first, Budget.of(60), max_changes=3)
    assert met
    assert (values > 0).all()
    assert values.sum() == pytest.approx(25, abs=1.5)


def test_where_distance_counts_a_search_goes_on_for_a_closer_answer_of_more_changes() -> None:
    found = {}
    for objective in ("sparse", "closest"):
        # The first feature alone does it at its end; the others, together, halfway and at a tenth of the price.
        problem = problem_of(lambda x: x[:, 0] / 10 + np.minimum(x[:, 1], x[:, 2]) / 5, ORIGIN)
        space = problem.space.with_costs({problem.space.names[0]: 10.0})
        problem = replace(problem, space=space, objective=objective)
        observer = observer_of(problem)
        budget = Budget(spendable=60, first=3, more=0, beam=3, branch=3)
        values, met = guided_search(problem, FixedRanker(observer, UP), observer, budget)
        assert met.all()
        found[objective] = values[0]
    assert (found["sparse"] != 0).tolist() == [True, False, False]
    assert (found["closest"] != 0).tolist() == [False, True, True]
