"""Facts about the rescue: which stage finds what, that no price is exceeded, and what is said of what it leaves."""

from typing import Any

import numpy as np
import pytest
from reference.problems import problem_of

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import Neighbours
from relax_plugin.search.refine import undo, undo_many
from relax_plugin.search.rescue import QUANTILES, Rescue

ROWS = np.random.default_rng(0).normal(size=(300, 12)).round(3)
PLENTY = 100_000


def by_labels(rule: Any, start: Any, max_changes: int = 3, rows: Any = ROWS) -> Problem:
    """Queries of a model that answers labels only, and is to answer 1."""
    space = FeatureSpace.infer(rows)
    box = BlackBox(lambda asked: rule(np.asarray(asked, dtype=float)).astype(int), space)
    box.learn(rows)
    start = np.array(start, dtype=float)
    before = box.ask(start)
    goal = Goal.to(1).bind(box, before)
    return Problem(space, box, start, before, goal, space.limits(), max_changes, np.zeros(len(start), dtype=np.int64))


def by_scores(function: Any, start: Any, max_changes: int = 3) -> Problem:
    """Queries of a regressor that is to reach 1."""
    return problem_of(function, start, rows=ROWS, max_changes=max_changes)


def saved(problem: Problem, rows: int = PLENTY, training: Any = ROWS) -> Proposals:
    made = Proposals.empty(problem, 1)
    Rescue(Neighbours.of(training), Moves.quantiles(training, problem.space, QUANTILES), rows).save(problem, made)
    return made


def three_high(x: Any) -> Any:
    return (x[:, :3] > 0.2).all(axis=1)


LOW = np.minimum(ROWS, 0.0)[:6]


def test_labels_alone_are_rescued_from_near_rows_without_a_change_too_many() -> None:
    problem = by_labels(three_high, LOW)
    made = saved(problem)
    assert made.offered.all() and (made.stage == "near row").all()
    assert (made.values[:, 0] != problem.start).sum(axis=1).tolist() == [3] * len(LOW)
    assert (made.values[:, 0, :3] < 0.5).any(), "what is left of a near row is shortened"


def test_where_scores_show_the_way_greedy_search_comes_first() -> None:
    made = saved(by_scores(lambda x: x[:, 0] + 0.1 * x[:, 1], LOW))
    assert made.offered.all() and (made.stage == "greedy").all()


def test_where_scores_mislead_near_rows_are_next() -> None:
    made = saved(by_scores(lambda x: np.where(three_high(x), 2.0, -x[:, :3].sum(axis=1) / 100), LOW))
    assert made.offered.all() and (made.stage == "near row").all()


def test_what_a_search_found_is_left_alone() -> None:
    problem = by_labels(three_high, LOW)
    made = Proposals.empty(problem, 1)
    made.offered[::2] = True
    Rescue(Neighbours.of(ROWS), Moves.quantiles(ROWS, problem.space, QUANTILES), PLENTY).save(problem, made)
    assert made.offered.all()
    assert (made.stage[::2, 0] == "").all() and (problem.spent[::2] == 0).all()
    assert (made.stage[1::2, 0] == "near row").all()


def test_rows_farther_away_are_tried_one_by_one_at_last() -> None:
    near = np.random.default_rng(1).uniform(0.0, 0.2, (30, 12)).round(3)  # all twelve changes of each are needed
    far = np.full((1, 12), 5.0)  # one change of it is enough
    training = np.concatenate([near, far, np.full((2, 12), -1.0)])
    problem = by_labels(lambda x: (x > -0.5).all(axis=1) | (x[:, 0] > 3.0), [[-1.0] * 12], rows=training)
    made = saved(problem, training=training)
    assert made.stage.tolist() == [["row by row"]]
    assert (made.values[0, 0] != -1.0).tolist() == [True] + [False] * 11


@pytest.mark.parametrize("max_changes", [1, 3, 12])
@pytest.mark.parametrize("price", [0, 5, 400])
def test_the_price_is_never_exceeded(price: int, max_changes: int) -> None:
    for problem in (
        by_labels(three_high, LOW, max_changes),
        by_scores(lambda x: np.where(three_high(x), 2.0, -x.sum(axis=1) / 100), LOW, max_changes),
    ):
        saved(problem, price)
        assert (problem.spent <= price).all()
        assert (problem.spent > 0).any() == (price > 0)


def test_it_says_how_many_changes_would_do() -> None:
    for problem in (
        by_labels(three_high, LOW, max_changes=2),
        by_scores(
            lambda x: np.minimum(x[:, :3].min(axis=1), 0.2) * 5 + x[:, :3].sum(axis=1) / 1000, LOW, max_changes=2
        ),
    ):
        made = saved(problem)
        assert not made.offered.any()
        assert set(made.note) == {"none was found within 2 changes; 3 would do"}


def test_nothing_is_said_where_nothing_would_do() -> None:
    made = saved(by_scores(lambda x: 0 * x[:, 0], LOW))
    assert not made.offered.any() and (made.note == "").all()


def test_many_changes_are_undone_in_few_calls_until_none_can_be() -> None:
    problem = by_labels(three_high, LOW)
    rows = ROWS[three_high(ROWS)][: len(LOW)]
    owner, plenty = np.arange(len(rows)), np.full(len(LOW), PLENTY)
    start = problem.start[: len(rows)]
    calls = problem.blackbox.calls
    many = undo_many(problem, rows, owner, plenty)
    assert problem.blackbox.calls - calls <= 8
    assert ((many != start) == (np.arange(12) < 3)).all()
    spent = problem.spent.sum()
    one_by_one, _ = undo(problem, rows, owner)
    assert ((one_by_one != start) == (np.arange(12) < 3)).all()
    assert spent < problem.spent.sum() - spent


def test_where_labels_are_all_there_is_undoing_a_few_at_a_time_comes_to_the_same(monkeypatch: Any) -> None:
    answers = []
    for at_once in (1, 6, 12):
        monkeypatch.setattr("relax_plugin.search.refine.LABELS_AT_ONCE", at_once)
        problem = by_labels(lambda x: (x > 0.3).sum(axis=1) >= 4, LOW)
        rows = ROWS[(ROWS > 0.3).sum(axis=1) >= 6][: len(LOW)]
        values, _ = undo(problem, rows, np.arange(len(rows)), down_to=4)
        answers.append((values.tolist(), int(problem.spent.sum())))
    assert answers[0][0] == answers[1][0] == answers[2][0]
    assert answers[0][1] < answers[1][1] < answers[2][1]
