"""The search on the surrogate: few rows, never more than allowed, valid by the model, each query as if alone."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from reference import tiny
from reference.worlds import problem_of, world_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines.surrogate_search import SurrogateSearch as Explainer
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.plausibility import Plausibility, PlausibleRows, TrainingRows
from relax_plugin.registry import make_explainer
from relax_plugin.search.moves import Moves, natural_steps
from relax_plugin.search.polish import snapped
from relax_plugin.surrogate import acquisition as module
from relax_plugin.surrogate.acquisition import SurrogateProblem, SurrogateSearch, predicted_answers
from relax_plugin.surrogate.belief import Belief
from relax_plugin.surrogate.model import FOREMOST

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


def engine(surrogate, rows, **options):
    moves, near = Moves.quantiles(ROWS, surrogate.space), predicted_answers(surrogate, ROWS)
    return SurrogateSearch(surrogate, moves, near, rows, **options)


def searched(name="linear", queries=QUERIES, goal=None, max_changes=3, rows=12, **options):
    problem = problem_of(world(name).blackbox, queries, goal, max_changes)
    return problem, engine(world(name), rows, **options).search(problem)


@pytest.mark.parametrize("max_changes", [1, 2, 4])
@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_answers_meet_the_goal_within_the_changes_and_limits(name, max_changes):
    problem, made = searched(name, max_changes=max_changes)
    offered = np.flatnonzero(made.offered[:, 0])
    rows = made.values[offered, 0]
    assert problem.goal.take(offered).met(problem.blackbox.ask(rows)).all()
    assert ((rows != QUERIES[offered]).sum(axis=1) <= max_changes).all() and len(offered) > 15
    assert problem.limits.take(offered).kept(rows, QUERIES[offered]).all()
    assert set(made.stage[offered, 0]) <= {"surrogate", "longer search", "near row"}
    assert (made.stage[~made.offered[:, 0], 0] == "").all()


def test_on_a_linear_model_it_finds_one_change_where_one_is_enough_close_to_the_boundary():
    _, made = searched()
    assert made.offered.all()
    values, far = made.values[:, 0], np.abs(QUERIES @ SLOPE)
    low, high = world().space.limits().ends
    sign = -np.sign(QUERIES @ SLOPE)[:, None] * np.sign(SLOPE)
    room = np.where(sign > 0, high - QUERIES, QUERIES - low) * np.abs(SLOPE)
    one_is_enough = room.max(axis=1) > far + 0.5
    changes = (values != QUERIES).sum(axis=1)
    assert (changes[one_is_enough] == 1).all() and one_is_enough.mean() > 0.8
    assert np.median(np.abs(values @ SLOPE)) < 0.5 * np.median(far)


def test_of_a_wide_table_each_query_is_searched_in_the_features_that_can_do_most():
    rows = np.random.default_rng(0).normal(size=(200, FOREMOST + 40))
    learned = world_of(lambda table: linear(table[:, :4]), rows)
    problem = problem_of(learned.blackbox, rows[:2])
    frozen = np.zeros((2, len(learned.space)), dtype=bool)
    frozen[1, :2] = True
    problem = replace(problem, limits=replace(problem.limits, frozen=frozen))
    belief = Belief(learned.space, problem.start, learned.error, np.zeros(2))
    free = ~SurrogateProblem.of(problem, learned, belief).limits.frozen
    assert free.sum(axis=1).tolist() == [FOREMOST, FOREMOST]
    assert free[0, :3].all() and not free[1, :2].any() and free[1, 2]
    alone = SurrogateProblem.of(problem.part(np.array([1])), learned, belief.of(np.array([1])))
    np.testing.assert_array_equal(~alone.limits.frozen[0], free[1])


@pytest.mark.parametrize("rows", [5, 8, 12, 20])
@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_no_more_rows_are_asked_than_allowed_and_none_twice(name, rows, monkeypatch):
    blackbox = world(name).blackbox
    counting = tiny.Counting(blackbox.reader.model)
    monkeypatch.setattr(blackbox.reader, "model", counting)
    problem = problem_of(blackbox, QUERIES)
    counting.forget()
    made = engine(world(name), rows).search(problem, persistent=False)
    assert problem.spent.max() <= rows - 2 and problem.spent.sum() == counting.rows
    seen = np.concatenate(counting.seen)
    assert len(np.unique(seen, axis=0)) == len(seen)
    solved = np.flatnonzero(made.offered[:, 0])
    changes = (made.values[solved, 0] != QUERIES[solved]).sum(axis=1)
    left = np.where(changes > 1, changes, 0)  # each of several changes will be tried without
    assert (problem.spent[solved] + left <= max(rows - 2, 4)).all()


@pytest.mark.parametrize("grain", [0.0, 0.25])
@pytest.mark.parametrize("rows", [8, 12, 13])
def test_the_query_and_the_confirmation_count_where_scores_and_labels_are_asked_apart(grain, rows):
    model = Apart(grain)
    explainer = Explainer(model, max_queries=rows, max_changes=3).fit(ROWS)
    assert explainer.blackbox_.rows_per_question == (2 if grain else 1)
    model.rows = 0
    found = explainer.explain(QUERIES)
    assert found.rows_queried.sum() == model.rows
    assert found.rows_queried[found.stages[:, 0] == "surrogate"].max() <= rows
    assert found.found.mean() > 0.5


def test_more_is_spent_on_queries_that_are_left_and_no_more_than_the_others_have_not_used():
    task = load_task("lock3/rule")
    explainer = Explainer(task.model, task.space, max_queries=8).fit(task.X_train)
    found = explainer.explain(task.X_test[:40])
    solved, stages = found.found[:, 0], found.stages[:, 0]
    spent = found.rows_queried[stages == "surrogate"]
    assert np.median(spent) <= 8 and spent.max() <= 8 + 5, "with what is taken back, and what is left tried again"
    assert found.rows_queried[stages == "longer search"].max(initial=0) <= 24 + 5, "with what is taken back"
    assert not solved.all() or found.rows_queried.mean() <= 24
    scores = task.model.predict_proba(task.space.restore(found.values[:, 0], task.X_test[:40]))
    assert np.array_equal(found.scores_after[solved, 0], scores[solved])


@pytest.mark.parametrize("name", ["linear", "forest", "numbers"])
def test_a_query_alone_is_answered_as_among_others(name):
    """As well, but for digits: where two candidates promise as much, the last digit of a sum decides which is asked."""
    goal = Goal.flip(min_probability=0.8) if name != "numbers" else Goal.shift(3.0)
    _, whole = searched(name, goal=goal)
    some = np.flatnonzero(whole.stage[:, 0] == "surrogate")[:12]
    alone = np.concatenate([searched(name, QUERIES[[query]], goal)[1].values[0] for query in some])
    together = whole.values[some, 0]
    ways = [np.abs(made - QUERIES[some]).sum(axis=1).mean() for made in (alone, together)]
    assert max(ways) < 1.2 * min(ways)
    assert ((alone != QUERIES[some]).sum(axis=1) == (together != QUERIES[some]).sum(axis=1)).mean() > 0.8


def test_pieces_of_a_batch_are_searched_as_the_whole(monkeypatch):
    _, whole = searched("forest")
    monkeypatch.setattr(module, "CELLS", 2_000)
    _, pieces = searched("forest")
    solved = whole.stage[:, 0] == "surrogate"
    assert np.isclose(pieces.values[solved], whole.values[solved]).all(axis=(1, 2)).mean() > 0.7


def test_the_same_search_again_gives_the_same():
    (one, made), (other, again) = searched("forest"), searched("forest")
    np.testing.assert_array_equal(made.values, again.values)
    np.testing.assert_array_equal(one.spent, other.spent)


def test_no_query_no_answer():
    _, made = searched(queries=QUERIES[:0])
    assert made.values.shape == (0, 1, 4)


class Best:
    """A proposer that knows the row just beyond the boundary."""

    name = "best"

    def propose(self, candidates):
        rows = candidates.problem.start.copy()
        rows[:, 0] -= (rows @ SLOPE) * 1.0001 / SLOPE[0]
        candidates.ask(rows, np.arange(len(rows)))


def test_what_a_further_proposer_finds_is_asked_about_if_it_is_better():
    _, without = searched()
    _, made = searched(further=[Best()])
    best = QUERIES.copy()
    best[:, 0] -= (QUERIES @ SLOPE) * 1.0001 / SLOPE[0]
    space = world().space
    closer = space.distance(made.values[:, 0], QUERIES) <= space.distance(without.values[:, 0], QUERIES) + 1e-9
    assert (made.values[:, 0] == best).all(axis=1).any() and closer.mean() > 0.8


@pytest.mark.parametrize("answer", [[0.3, 0.7], [1.0, 0.0]])
def test_a_constant_model_is_hardly_asked(answer):
    constant = world_of(lambda rows: np.tile(answer, (len(rows), 1)), ROWS, share=0.1)
    problem = problem_of(constant.blackbox, QUERIES)
    with np.errstate(over="raise", invalid="raise"):
        made = engine(constant, 12).search(problem)
    assert not made.offered.any() and problem.spent.max() <= 34


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_numbers_and_scores_of_any_size_are_searched_alike(size):
    model = BlackBox(lambda rows: size * (np.asarray(rows) @ SLOPE), task="regression")
    explainer = Explainer(model, goal=Goal.shift(2.0 * size), max_changes=3).fit(ROWS)
    with np.errstate(over="raise", invalid="raise"):
        found = explainer.explain(QUERIES)
    assert found.found.mean() > 0.9 and found.rows_queried.mean() <= 12


@pytest.mark.slow
@pytest.mark.parametrize("reach", [1e6, 1e20, 1e60])
def test_bounds_far_away_do_no_harm(reach):
    space = FeatureSpace.infer(ROWS, bounds={"x0": (-reach, reach)})
    model = lambda rows: linear(np.clip(rows, -9.0, 9.0))  # noqa: E731
    with np.errstate(over="raise", invalid="raise"):
        found = Explainer(model, space, max_changes=3).fit(ROWS).explain(QUERIES)
    assert found.found.mean() > 0.9


@pytest.mark.slow
def test_every_number_of_changes_may_be_allowed_and_one_feature_is_enough():
    model = LogisticRegression().fit(ROWS, tiny.two_class_labels(ROWS))
    assert Explainer(model, max_changes=None).fit(ROWS).explain(QUERIES).found.all()
    one = LogisticRegression().fit(ROWS[:, :1], ROWS[:, 0] > 0)
    found = Explainer(one).fit(ROWS[:, :1]).explain(QUERIES[:, :1])
    assert found.found.all() and found.rows_queried.mean() <= 12


def test_no_change_can_be_taken_back():
    near = {f"x{j}": (-0.8, 0.8) for j in range(4)}
    explainer = Explainer(linear, max_changes=4).fit(ROWS)
    found = explainer.explain(QUERIES, goal=Goal.flip(min_probability=0.9), bounds=near)
    several = np.flatnonzero((found.values[:, 0] != QUERIES).sum(axis=1) > 1)
    assert len(several) > 3
    for query in several[found.found[several, 0]]:
        values, start = found.values[query, 0], QUERIES[query]
        for j in np.flatnonzero(values != start):
            without = values.copy()
            without[j] = start[j]
            wanted = 1 - linear(start[None]).argmax()
            assert linear(without[None])[0, wanted] < 0.9


def test_it_is_far_better_than_asking_at_random():
    """What a search could do with as many random questions within the limits is behind in nearly every query."""
    _, made = searched("forest")
    rng, space, model = np.random.default_rng(0), world("forest").space, world("forest").blackbox
    tried = np.repeat(QUERIES, 10, axis=0)
    j = rng.integers(0, 4, len(tried))
    tried[np.arange(len(tried)), j] = ROWS[rng.integers(0, len(ROWS), len(tried)), j]
    met = model.ask(tried).output != np.repeat(model.ask(QUERIES).output, 10)
    distance = np.where(met, space.distance(tried, np.repeat(QUERIES, 10, axis=0)), np.inf).reshape(30, 10).min(axis=1)
    own = np.where(made.offered[:, 0], space.distance(made.values[:, 0], QUERIES), np.inf)
    one = (made.values[:, 0] != QUERIES).sum(axis=1) == 1
    assert made.offered.mean() > 0.9 and (own[one] <= distance[one] + 0.05).mean() > 0.8


def test_changed_numbers_are_moved_away_to_natural_ones():
    rows = np.round(ROWS * 10) * 50
    space = FeatureSpace.infer(pd.DataFrame(rows, columns=list("abcd")))
    start = rows[:5]
    steps = natural_steps(rows, space)
    assert (steps == 50).all()
    blackbox = BlackBox(lambda values: linear(np.asarray(values) / 500), space)
    blackbox.learn(rows)
    problem = problem_of(blackbox, start)
    values, owner = start.copy(), np.arange(5)
    values[:, 0] += 20.0
    values[:, 1] -= 20.0
    moved = snapped(problem, values, owner, steps)
    low, high = problem.span
    wanted = start + np.array([50.0, -50.0, 0.0, 0.0])
    expected = np.clip(wanted, low, high)
    np.testing.assert_array_equal(moved[:, 2:], start[:, 2:])
    inside = (expected == wanted)[:, :2]
    np.testing.assert_array_equal(moved[:, :2][inside], expected[:, :2][inside])


# Conditions on whole rows

RNG = np.random.default_rng(0)
LINE = RNG.normal(size=300)
TABLE = pd.DataFrame(
    {
        "a": LINE.round(2),
        "b": (LINE + 0.05 * RNG.normal(size=300)).round(2),
        "c": RNG.normal(size=300).round(2),
        "town": np.where(LINE + 0.3 * RNG.normal(size=300) > 0, "Rome", "Oslo"),
    }
)
SPACE = FeatureSpace.infer(TABLE)


def along_a_line(rows):
    positive = 1 / (1 + np.exp(-(rows["a"] + rows["b"] + 0.1 * rows["c"]).to_numpy(dtype=float) * 3))
    return np.column_stack([1 - positive, positive])


@pytest.mark.slow
def test_the_model_is_not_asked_about_rows_that_may_not_be_delivered():
    asked = []

    def watched(rows):
        asked.append(rows.copy())
        return along_a_line(rows)

    explainer = make_explainer("surrogate-search", watched, SPACE, query_budget=400).fit(TABLE)
    asked.clear()
    result = explainer.explain(TABLE[:30], plausible="require")
    assert result.found.mean() > 0.9
    detector = explainer.training_rows_.detector(Plausibility())
    start = SPACE.values(TABLE[:30])
    lowest = PlausibleRows.of(detector, start).bar.min()
    values = np.concatenate([SPACE.values(rows) for rows in asked[1:]])
    assert (detector.score(values) >= lowest).mean() > 0.9, "but for changes taken back, and what tells why"
    assert isinstance(explainer.training_rows_, TrainingRows)


def test_rules_and_limits_of_the_call_hold():
    explainer = make_explainer("surrogate-search", along_a_line, SPACE, query_budget=400).fit(TABLE)
    bounded = explainer.explain(TABLE[:20], bounds={"a": (-1.0, 1.0)}, vary=["a", "b"], rules=["a <= b + 0.5"])
    found = bounded.found[:, 0]
    values, start = bounded.values[found, 0], SPACE.values(TABLE[:20])[found]
    changed = values != start
    assert found.any() and not changed[:, 2:].any()
    assert (np.abs(values[changed[:, 0], 0]) <= 1.0).all()
    held_before = start[:, 0] <= start[:, 1] + 0.5
    assert (values[held_before, 0] <= values[held_before, 1] + 0.5 + 1e-9).all()
