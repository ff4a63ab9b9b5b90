"""The search in imagination: few rows, never more than allowed, nothing twice, each query as if it were alone."""

from functools import cache

import numpy as np
import pytest
from reference import tiny
from reference.worlds import problem_of, world_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines.surrogate_search import SurrogateSearch
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import Neighbours
from relax_plugin.search.rescue import QUANTILES, Rescue
from relax_plugin.world_model import hunt as hunt_module
from relax_plugin.world_model import imagined_search as module
from relax_plugin.world_model.imagined_search import ImaginedSearch

ROWS, QUERIES = tiny.gaussian_rows(300), tiny.gaussian_rows(30, seed=7)
SLOPE = np.array([3.0, -2.0, 1.0, 0.0])


def linear(rows):
    positive = 1.0 / (1.0 + np.exp(-(np.asarray(rows) @ SLOPE)))
    return np.column_stack([1.0 - positive, positive])


class Apart:
    """Scores and labels are asked apart, and the rows of both are counted; ties go to class 1, so it is strict."""

    classes_ = np.array([0, 1])

    def __init__(self, grain=0.0):
        self.rows, self.grain = 0, grain

    def predict_proba(self, rows):
        self.rows += len(rows)
        scores = linear(rows)
        return np.round(scores / self.grain) * self.grain if self.grain else scores

    def predict(self, rows):
        return (self.predict_proba(rows)[:, 1] >= 0.5).astype(int)


@cache
def world(name="linear"):
    if name == "forest":
        forest = RandomForestClassifier(8, max_depth=3, random_state=0).fit(ROWS, tiny.two_class_labels(ROWS))
        return world_of(forest.predict_proba, ROWS)
    model, task = {"linear": (linear, "auto"), "numbers": (tiny.numbers, "regression")}[name]
    return world_of(model, ROWS, task)


def searcher(name="linear", rows=12, rescue=None, also=None):
    moves = Moves.quantiles(ROWS, world(name).space, QUANTILES)
    return ImaginedSearch(world(name), moves, rows, rescue, also)


def searched(name="linear", queries=QUERIES, goal=None, max_changes=3, **options):
    problem = problem_of(world(name).blackbox, queries, goal, max_changes)
    return problem, searcher(name, **options).search(problem)


@pytest.mark.slow
def test_on_a_linear_model_it_finds_one_change_where_one_is_enough_close_to_the_boundary():
    problem, made = searched()
    assert made.offered.all() and set(made.stage[:, 0]) == {"search"}
    values = made.values[:, 0]
    assert (linear(values).argmax(axis=1) != linear(QUERIES).argmax(axis=1)).all()
    far = np.abs(QUERIES @ SLOPE)
    low, high = world().space.limits().ends
    sign = -np.sign(QUERIES @ SLOPE)[:, None] * np.sign(SLOPE)
    room = np.where(sign > 0, high - QUERIES, QUERIES - low) * np.abs(SLOPE)
    one_is_enough = room.max(axis=1) > far + 0.5
    changes = (values != QUERIES).sum(axis=1)
    assert (changes[one_is_enough] == 1).all() and one_is_enough.mean() > 0.8
    assert np.median(np.abs(values @ SLOPE)) < 0.5 * np.median(far)
    assert problem.spent.mean() < 8


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 8, 12])
@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_no_more_rows_are_asked_than_allowed_and_none_twice(name, rows, monkeypatch):
    blackbox = world(name).blackbox
    counting = tiny.Counting(blackbox.reader.model)
    monkeypatch.setattr(blackbox.reader, "model", counting)
    problem = problem_of(blackbox, QUERIES)
    counting.forget()
    searcher(name, rows).search(problem)
    assert problem.spent.max() <= max(rows - 2, 1) and problem.spent.sum() == counting.rows
    seen = np.concatenate(counting.seen)
    assert len(np.unique(seen, axis=0)) == len(seen)


@pytest.mark.slow
@pytest.mark.parametrize("grain", [0.0, 0.25])
@pytest.mark.parametrize("rows", [5, 8, 12, 13])
def test_the_query_and_the_confirmation_count_where_scores_and_labels_are_asked_apart(grain, rows):
    model = Apart(grain)
    explainer = SurrogateSearch(model, fallback=False, rows_per_instance=rows, max_changes=3).fit(ROWS)
    assert explainer.blackbox_.rows_per_question == (2 if grain else 1)
    model.rows = 0
    found = explainer.explain(QUERIES)
    assert found.rows_queried.max() <= rows and found.rows_queried.sum() == model.rows
    assert found.found.mean() > (0.5 if rows >= 8 else 0.0)


@pytest.mark.slow
def test_a_query_that_stays_unsolved_asks_no_more_rows_and_one_that_is_rescued_has_the_scores_of_its_answer():
    task = load_task("lock3/rule")
    queries = task.X_test[:40]
    methods = [
        SurrogateSearch(task.model, task.space, fallback=rescue, rows_per_instance=5) for rescue in (False, True)
    ]
    alone, rescued = (method.fit(task.X_train).explain(queries) for method in methods)
    assert not alone.found.all() and alone.rows_queried.max() <= 5
    assert {*rescued.stage[rescued.found]} & {"greedy", "near row", "row by row"}
    scores = task.model.predict_proba(task.space.restore(rescued.values[:, 0], queries))
    assert np.array_equal(rescued.scores_after[:, 0], scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_a_query_alone_is_answered_as_among_others(name):
    goal = Goal.flip(min_probability=0.8) if name != "numbers" else Goal.shift(3.0)
    _, whole = searched(name, goal=goal)
    alone = [searched(name, QUERIES[i : i + 1], goal)[1] for i in range(len(QUERIES))]
    np.testing.assert_allclose(np.concatenate([made.values for made in alone]), whole.values, atol=1e-9)
    np.testing.assert_array_equal(np.concatenate([made.stage for made in alone]), whole.stage)


@pytest.mark.slow
def test_pieces_of_a_batch_are_searched_as_the_whole(monkeypatch):
    _, whole = searched("forest")
    monkeypatch.setattr(module, "MOST_QUERIES", 7)
    _, pieces = searched("forest")
    np.testing.assert_allclose(pieces.values, whole.values, atol=1e-9)


def test_the_same_search_again_gives_the_same():
    (one, made), (other, again) = searched("forest"), searched("forest")
    np.testing.assert_array_equal(made.values, again.values)
    np.testing.assert_array_equal(one.spent, other.spent)


@pytest.mark.parametrize("max_changes", [1, 2, 4])
@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_answers_meet_the_goal_within_the_changes_allowed(name, max_changes):
    problem, made = searched(name, max_changes=max_changes)
    offered = np.flatnonzero(made.offered[:, 0])
    rows = made.values[offered, 0]
    assert problem.goal.take(offered).met(problem.blackbox.ask(rows)).all()
    assert ((rows != QUERIES[offered]).sum(axis=1) <= max_changes).all() and len(offered) > 15
    assert problem.limits.take(offered).kept(rows, QUERIES[offered]).all()
    assert (made.stage[offered, 0] == "search").all() and (made.stage[~made.offered[:, 0], 0] == "").all()


def test_no_query_no_answer():
    _, made = searched(queries=QUERIES[:0])
    assert made.values.shape == (0, 1, 4)


def test_what_an_agent_proposes_too_is_asked_about_if_it_is_better():
    best = QUERIES.copy()
    best[:, 0] -= (QUERIES @ SLOPE) * 1.0001 / SLOPE[0]  # one change, just beyond the boundary
    inside = world().space.limits().kept(best, QUERIES)
    _, without = searched()
    _, made = searched(also=lambda problem: [best[: len(problem)], QUERIES[: len(problem)]])
    space = world().space
    closer = space.distance(made.values[:, 0], QUERIES) <= space.distance(without.values[:, 0], QUERIES) + 1e-9
    assert inside.any() and (made.values[:, 0] == best).all(axis=1).any() and closer.mean() > 0.8


def test_what_is_too_much_or_nothing_is_no_proposal():
    problem = problem_of(world().blackbox, QUERIES, max_changes=2)
    hunt = module.Hunt.begin(world(), problem, Moves.quantiles(ROWS, world().space, 5))
    assert np.isinf(hunt.changes_to(QUERIES).gap).all()
    assert np.isinf(hunt.changes_to(QUERIES + 0.1).gap).all()
    two = QUERIES + np.array([0.1, 0.0, -0.1, 0.0])
    changes = hunt.changes_to(two)
    assert np.isfinite(changes.gap).all()
    np.testing.assert_array_equal(changes.rows(QUERIES, np.zeros(len(QUERIES), dtype=int)), two)


@pytest.mark.slow
def test_a_longer_search_and_a_rescue_follow_where_there_is_one():
    space = world("forest").space
    rescue = Rescue(Neighbours.of(ROWS, 300), Moves.quantiles(ROWS, space, QUANTILES), 3000)
    goal = Goal.flip(min_probability=0.85)
    _, short = searched("forest", goal=goal, max_changes=2)
    _, long = searched("forest", goal=goal, max_changes=2, rescue=rescue)
    assert (long.offered >= short.offered).all() and long.offered.sum() > short.offered.sum()
    stages = set(long.stage[:, 0])
    assert stages <= {"search", "long search", "greedy", "near row", "row by row", ""} and len(stages) > 2
    kept = short.offered[:, 0]
    np.testing.assert_array_equal(long.values[kept], short.values[kept])


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_numbers_and_scores_of_any_size_are_searched_alike(size):
    model = BlackBox(lambda rows: size * (np.asarray(rows) @ SLOPE), task="regression")
    explainer = SurrogateSearch(model, goal=Goal.shift(2.0 * size), fallback=False, max_changes=3).fit(ROWS)
    with np.errstate(over="raise", invalid="raise"):
        found = explainer.explain(QUERIES)
    assert found.found.mean() > 0.9 and found.rows_queried.mean() < 8


@pytest.mark.slow
@pytest.mark.parametrize("reach", [1e6, 1e20, 1e60])
def test_bounds_far_away_do_no_harm(reach):
    space = FeatureSpace.infer(ROWS, bounds={"x0": (-reach, reach)})
    model = lambda rows: linear(np.clip(rows, -9.0, 9.0))  # noqa: E731
    with np.errstate(over="raise", invalid="raise"):
        found = SurrogateSearch(model, space, fallback=False, max_changes=3).fit(ROWS).explain(QUERIES)
    assert found.found.mean() > 0.9


@pytest.mark.slow
def test_every_number_of_changes_may_be_allowed_and_one_feature_is_enough():
    model = LogisticRegression().fit(ROWS, tiny.two_class_labels(ROWS))
    assert SurrogateSearch(model, max_changes=None).fit(ROWS).explain(QUERIES).found.all()
    one = LogisticRegression().fit(ROWS[:, :1], ROWS[:, 0] > 0)
    found = SurrogateSearch(one).fit(ROWS[:, :1]).explain(QUERIES[:, :1])
    assert found.found.all() and found.rows_queried.mean() < 10


@pytest.mark.parametrize("answer", [[0.3, 0.7], [1.0, 0.0]])
def test_a_constant_model_is_hardly_asked(answer):
    constant = world_of(lambda rows: np.tile(answer, (len(rows), 1)), ROWS, share=0.1)
    problem = problem_of(constant.blackbox, QUERIES)
    with np.errstate(over="raise", invalid="raise"):
        made = ImaginedSearch(constant, Moves.quantiles(ROWS, constant.space, 5), 12, None).search(problem)
    assert not made.offered.any() and problem.spent.max() <= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_questions_that_are_left_shorten_the_answers(name, monkeypatch):
    _, shortened = searched(name, rows=60)
    monkeypatch.setattr(hunt_module, "LEAST_ROOM", np.inf)  # nothing is worth shortening
    problem, longer = searched(name, rows=60)
    both = shortened.offered[:, 0] & longer.offered[:, 0]
    queries = np.flatnonzero(both)
    assert both.mean() > 0.9
    distance = [problem.distance(made.values[both, 0], queries) for made in (shortened, longer)]
    assert (distance[0] <= distance[1] + 1e-9).all() and distance[0].sum() < 0.99 * distance[1].sum()
    changed = [made.values[both, 0] != problem.start[both] for made in (shortened, longer)]
    assert (changed[0] == changed[1]).all()
