"""Facts about proposers, on models small enough to compute by hand: greedy, ranked changes, near training rows."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from reference.problems import ORIGIN, TRAINING, problem_of

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.arrays import Floats
from relax_plugin.problem import Problem
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.candidates import Budget, Candidates
from relax_plugin.search.moves import Moves
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.polish import drop_and_shorten, polish
from relax_plugin.search.proposers import GreedyChanges, NearRows, RankedChanges
from relax_plugin.search.state import Episodes, Observer

UP = 2 * np.arange(3)  # the action that raises each feature; the next one lowers it
TOY = pd.DataFrame({"a": [0, 1, 2, 3], "b": [0, 2, 4, 6], "c": ["x", "y", "z", "x"]})
ROWS = np.random.default_rng(0).normal(size=(300, 12)).round(3)
LOW = np.minimum(ROWS, 0.0)[:6]


def toy(weights: Any) -> Callable[[Any], Any]:
    def answer(rows: Any) -> Any:
        letter = rows["c"].map({"x": weights[2], "y": weights[3], "z": weights[4]}).to_numpy(float)
        a, b = rows["a"].to_numpy(float), rows["b"].to_numpy(float)
        return weights[0] * a + weights[1] * b + weights[5] * a * b + letter

    return answer


def toy_problem(weights: Any, goal: Goal, max_changes: int) -> Problem:
    space = FeatureSpace.infer(TOY)
    start = space.values(TOY)
    box = BlackBox(toy(weights), space, task="regression")
    before = box.ask(start)
    bound = goal.bind(box, before)
    return Problem(space, box, start, before, bound, space.limits(), max_changes, np.zeros(4, dtype=np.int64))


def by_labels(rule: Any, start: Any, max_changes: int = 3, rows: Any = ROWS) -> Problem:
    """Queries of a model that gives labels only, and is to give 1."""
    space = FeatureSpace.infer(rows)
    box = BlackBox(lambda asked: rule(np.asarray(asked, dtype=float)).astype(int), space)
    box.learn(rows)
    start = np.array(start, dtype=float)
    before = box.ask(start)
    goal = Goal.to(1).bind(box, before)
    return Problem(space, box, start, before, goal, space.limits(), max_changes, np.zeros(len(start), dtype=np.int64))


def three_high(x: Any) -> Any:
    return (x[:, :3] > 0.2).all(axis=1)


def proposed(problem: Problem, *proposers: Any, rows: int | None = None) -> Candidates:
    candidates = Candidates(problem, Budget(rows))
    for proposer in proposers:
        candidates.source = proposer.name
        proposer.propose(candidates)
    return candidates


def solved(candidates: Candidates) -> list[int]:
    top = candidates.top(1)
    return [] if top is None else top.owner.tolist()


def greedy(rows: Any, problem: Problem) -> GreedyChanges:
    return GreedyChanges(Moves.quantiles(np.asarray(rows, dtype=float), problem.space, 20), every_feature=True)


# Greedy changes


@pytest.mark.parametrize("seed", range(8))
def test_greedy_changes_begin_with_the_change_that_brute_force_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=6)
    for goal in (Goal.shift(rng.uniform(0.5, 3)), Goal.shift(1e6)):
        problem = toy_problem(weights, goal, 1)
        start = problem.start
        candidates = proposed(problem, greedy(start, problem))
        top, missed = candidates.top(1), candidates.nearest_miss
        for query in range(4):
            tried = np.repeat(start[[query]], 11, axis=0)
            cells = [(j, v) for j, values in enumerate(([0, 1, 2, 3], [0, 2, 4, 6], [0, 1, 2])) for v in values]
            for row, (feature, value) in zip(tried, cells, strict=True):
                row[feature] = value
            tried = tried[(tried != start[query]).any(axis=1)]
            owner = np.full(len(tried), query)
            reached, gap = problem.judge(tried, owner)
            assert (query in solved(candidates)) == reached.any()
            if reached.any():
                assert top is not None
                (distance,) = top.distance[top.owner == query]
                assert distance == pytest.approx(problem.distance(tried[reached], owner[reached]).min(), abs=1e-4)
            else:
                assert missed.gap[query] == pytest.approx(gap.min())


def test_greedy_changes_ask_every_allowed_move_once() -> None:
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
    goal = Goal.shift(1).bind(box, before)
    problem = Problem(space, box, start, before, goal, limits, 1, np.zeros(4, dtype=np.int64))
    proposed(problem, GreedyChanges(moves, every_feature=True))
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


@pytest.mark.parametrize("plain", [True, False])
def test_greedy_changes_go_on_until_the_goal_is_met(plain: bool) -> None:
    for most, expected in ((3, [3, 1]), (2, [1])):
        problem = problem_of(lambda x: x.sum(axis=1) / 25, [[0.0, 0, 0], [9.0, 9, 0]], max_changes=most)
        proposer = greedy(TRAINING, problem)
        top = proposed(problem, proposer if plain else GreedyChanges(proposer.moves)).top(1)
        assert top is not None and top.changes.tolist() == expected


def test_greedy_changes_stop_where_nothing_may_move() -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 25, ORIGIN, immutable=["x0", "x1", "x2"])
    assert solved(proposed(problem, greedy(TRAINING, problem))) == []
    assert problem.spent.tolist() == [0]


def test_greedy_changes_and_polish_are_as_sparse_as_brute_force_on_a_grid() -> None:
    """All 4 * 4 * 3 rows of the toy are compared with what is found."""
    everything = np.array(list(product([0.0, 1, 2, 3], [0.0, 2, 4, 6], [0.0, 1, 2])))
    problem = toy_problem([1.0, 0.5, 0, 1, 2, 0], Goal.shift(3), 3)
    candidates = proposed(problem, greedy(problem.start, problem))
    drop_and_shorten(candidates)
    top = candidates.top(1)
    assert top is not None and top.owner.tolist() == [0, 1, 2, 3]
    for query in range(4):
        reached, _ = problem.judge(everything, np.full(len(everything), query))
        assert top.changes[query] == (everything[reached] != problem.start[query]).sum(axis=1).min()


def test_the_single_change_that_is_the_shortest_in_the_end_is_found() -> None:
    """As they are tried, the change of the second feature is shorter."""
    problem = problem_of(lambda x: x[:, 0] / 3 + x[:, 1] / 9, ORIGIN)
    moves = Moves(np.array([0, 0, 1]), np.array([2.0, 10.0, 9.5]))
    candidates = proposed(problem, GreedyChanges(moves))
    polish(candidates)
    top = candidates.top(1)
    assert top is not None and top.values[0].tolist() == pytest.approx([3, 0, 0], abs=0.02)


def test_pairs_find_what_the_best_single_changes_hide() -> None:
    """The first feature gains most by itself, but no further change helps on top of it."""
    function = lambda x: np.maximum(0.8 * (x[:, 0] > 5), 0.6 * (x[:, 1] > 5) + 0.6 * (x[:, 2] > 5))  # noqa: E731
    problem = problem_of(function, ORIGIN, max_changes=2)
    moves = greedy(TRAINING, problem).moves
    assert solved(proposed(problem, GreedyChanges(moves, every_feature=True))) == []
    assert solved(proposed(problem, GreedyChanges(moves, pairs=48))) == [0]


# Ranked changes


class FixedRanker:
    """Prefers actions in the same order everywhere, and goes all the way."""

    def __init__(self, observer: Observer, best_first: Any) -> None:
        self.observer = observer
        self.value = np.full(len(observer.actions), -100.0)
        self.value[best_first] = -np.arange(len(best_first), dtype=float)

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        return np.where(allowed, self.value, -np.inf), np.ones(allowed.shape)


def ranked(problem: Problem, best_first: Any, width: int) -> RankedChanges:
    observer = Observer(problem.space, ActionTable(problem.space), problem.max_changes, 1.0)
    return RankedChanges(FixedRanker(observer, best_first), observer, width)


def test_the_actions_ranked_first_are_tried_and_no_others() -> None:
    for width, found in ((1, []), (2, [0])):
        problem = problem_of(lambda x: 0.05 * x[:, 0] + 0.2 * x[:, 1], ORIGIN, max_changes=1)
        assert solved(proposed(problem, ranked(problem, UP[[0, 1]], width))) == found
        assert problem.spent.tolist() == [width]


@pytest.mark.parametrize("best_first", [[0, 1, 2], [2, 1, 0]])
def test_actions_are_joined_until_the_goal_is_met(best_first: list[int]) -> None:
    problem = problem_of(lambda x: x.sum(axis=1) / 25, ORIGIN)
    top = proposed(problem, ranked(problem, UP[best_first], 1), rows=10).top(1)
    assert top is not None and (top.values > 9).all()


def test_the_search_goes_on_from_the_best_miss() -> None:
    problem = problem_of(lambda x: 0.02 * x[:, 0] + 0.06 * x[:, 1] + 0.05 * x[:, 2], ORIGIN, max_changes=2)
    top = proposed(problem, ranked(problem, UP, 4)).top(1)
    assert top is not None and (top.values[0] > 0).tolist() == [False, True, True]


def test_with_labels_alone_the_search_goes_on_from_the_action_ranked_first() -> None:
    problem = by_labels(lambda x: (x[:, :2] > 0.5).all(axis=1), LOW, max_changes=2)
    order = [0, 4, 2]  # raise the first feature, the third, the second
    candidates = proposed(problem, ranked(problem, order, 8))
    assert solved(candidates) == list(range(len(LOW)))
    assert (problem.spent == 8 + 8).all()


class NoRow:
    """A further model, by which no row meets the goal."""

    comparable = False

    def ask(self, values: Any) -> None:
        self.asked = len(values)

    def met(self, goal: Any, told: Any) -> Any:
        return np.zeros(self.asked, dtype=bool)


def test_the_end_of_a_path_must_hold_for_every_model() -> None:
    problem = problem_of(lambda x: x[:, 0] / 5, ORIGIN)
    assert solved(proposed(problem, ranked(problem, UP, 1))) == [0]
    both = replace(problem, also=(cast(Any, NoRow()),), spent_also=np.zeros(1, dtype=np.int64))
    assert solved(proposed(both, ranked(both, UP, 1))) == []


# Near rows


def near(rows: Any, problem: Problem, **options: Any) -> NearRows:
    return NearRows(AnsweredRows(Neighbours.of(rows)), Moves.quantiles(rows, problem.space, 20), **options)


@pytest.mark.parametrize("max_changes", [3, 5])
def test_near_rows_open_a_lock_of_labels(max_changes: int) -> None:
    """Three columns must be high together, and none alone comes nearer."""
    problem = by_labels(three_high, LOW, max_changes)
    assert solved(proposed(problem, greedy(ROWS, problem))) == []
    candidates = proposed(problem, near(ROWS, problem, undone=110))
    drop_and_shorten(candidates)
    top = candidates.top(1)
    assert top is not None and top.owner.tolist() == list(range(len(LOW))) and (top.changes == 3).all()


def test_near_rows_help_where_scores_mislead() -> None:
    misleading = lambda x: np.where(three_high(x), 2.0, -x[:, :3].sum(axis=1) / 100)  # noqa: E731
    problem = problem_of(misleading, LOW, rows=ROWS)
    assert solved(proposed(problem, greedy(ROWS, problem))) == []
    assert solved(proposed(problem, near(ROWS, problem))) == list(range(len(LOW)))


def test_near_rows_find_single_changes_where_one_is_all_that_may_be_made() -> None:
    problem = problem_of(lambda x: x[:, 0], LOW, rows=ROWS, max_changes=1)
    assert solved(proposed(problem, near(ROWS, problem))) == list(range(len(LOW)))


def test_rows_farther_away_are_undone_one_by_one() -> None:
    close = np.random.default_rng(1).uniform(0.0, 0.2, (30, 12)).round(3)  # all twelve changes of each are needed
    far = np.full((1, 12), 5.0)  # one change of it is enough
    training = np.concatenate([close, far, np.full((2, 12), -1.0)])
    problem = by_labels(lambda x: (x > -0.5).all(axis=1) | (x[:, 0] > 3.0), [[-1.0] * 12], rows=training)
    assert solved(proposed(problem, near(training, problem))) == []
    top = proposed(problem, near(training, problem, undone=110)).top(1)
    assert top is not None
    few = top.values[0] != -1.0
    assert few[0] and few.sum() <= 3


@pytest.mark.parametrize("rows", [0, 5, 400])
def test_no_proposer_spends_more_than_it_may(rows: int) -> None:
    for problem in (
        by_labels(three_high, LOW),
        problem_of(lambda x: np.where(three_high(x), 2.0, -x.sum(axis=1) / 100), LOW, rows=ROWS),
    ):
        candidates = proposed(
            problem, ranked(problem, UP, 6), greedy(ROWS, problem), near(ROWS, problem, undone=110), rows=rows
        )
        drop_and_shorten(candidates)
        assert (problem.spent <= rows).all()
        assert (problem.spent > 0).any() == (rows > 0)
