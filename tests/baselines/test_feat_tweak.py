"""Facts about FeatTweak, on trees small enough to follow by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.feat_tweak import slow_tweaks
from reference.gaps import problem_with_gaps, space_with
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines import common
from relax_plugin.baselines.feat_tweak import EPSILONS, FeatTweak, tweaked
from relax_plugin.errors import InputError, UnsupportedError
from relax_plugin.evaluation.judge import Method, Unit, judge
from relax_plugin.problem import Problem
from relax_plugin.trees.ensemble import Decision, Tree, Trees
from relax_plugin.trees.readers import read_trees

RNG = np.random.default_rng(2)
NAMES = ["a", "b", "c", "d"]
ROWS = pd.DataFrame(RNG.normal(size=(250, 4)), columns=NAMES)
WIDE = FeatureSpace.infer(ROWS, bounds=dict.fromkeys(NAMES, (-100, 100)))
SIGNAL = ROWS["a"] + ROWS["b"] * ROWS["c"] + 0.5 * RNG.normal(size=250)
TARGETS = {"two": (SIGNAL > 0).to_numpy(), "three": np.digitize(SIGNAL, [-0.5, 0.5])}
MODELS: dict[str, Any] = {
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(9, max_depth=4, random_state=0),
    "adaboost": AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=9, random_state=0),
}

# Two features; the class is "yes" where 2.5 < x <= 3.5, or where x > 6.5 and y > 4.5.
SMALL = pd.DataFrame([(x, y) for x in range(10) for y in range(10)], columns=["x", "y"])
YES = ((SMALL["x"] == 3) | ((SMALL["x"] >= 7) & (SMALL["y"] >= 5))).to_numpy()
SMALL_TREE = DecisionTreeClassifier(random_state=0).fit(SMALL.astype(float), np.where(YES, "yes", "no"))


def problem_of(model: Any, space: FeatureSpace, queries: pd.DataFrame, goal: Goal, most: int = 4) -> Problem:
    blackbox, start = BlackBox(model, space), space.values(queries)
    blackbox.learn(start)
    before = blackbox.ask(start)
    spent = np.zeros(len(start), dtype=np.int64)
    return Problem(space, blackbox, start, before, goal.bind(blackbox, before), space.limits(), most, spent)


def explained(query: list[float], space: FeatureSpace, **options: Any) -> Any:
    rows = pd.DataFrame([query], columns=["x", "y"])
    return FeatTweak(SMALL_TREE, space, **options).fit(SMALL.astype(float)).explain(rows)


# By hand.


@pytest.mark.parametrize(
    ("query", "expected"),
    [([1, 0], [3, 0]), ([6, 9], [7, 9]), ([9, 3], [9, 5]), ([5, 0], [3, 0]), ([3, 0], [2, 0])],
    ids=["rise", "the nearer path", "another feature", "fall", "out of an interval"],
)
def test_failed_tests_are_passed_and_others_left_alone(query: list[float], expected: list[float]) -> None:
    space = FeatureSpace.infer(SMALL)
    result = FeatTweak(SMALL_TREE, space).fit(SMALL).explain(pd.DataFrame([query], columns=["x", "y"]))
    assert result.values[0, 0].tolist() == expected
    assert result.stage.tolist() == ["path"]


@pytest.mark.parametrize(("start", "epsilon", "expected"), [(0.0, 0.1, None), (0.0, 9.0, 3.0), (5.0, 9.0, 3.0)])
def test_a_margin_stays_within_the_interval_of_a_path(start: float, epsilon: float, expected: float | None) -> None:
    space = FeatureSpace.infer(SMALL.astype(float), continuous=["x", "y"])
    reached = explained([start, 0.0], space, epsilon=epsilon).values[0, 0, 0]
    beyond = 2.5 + 0.1 * space.scale[0] if expected is None else expected
    assert reached == pytest.approx(beyond, abs=1e-6)


def test_a_margin_that_the_grid_rounds_away_becomes_a_step() -> None:
    rows = SMALL.astype(float)
    space = FeatureSpace.infer(rows, continuous=["x", "y"], bounds={"x": (0.2, 9.2)}, steps={"x": 0.75})
    # The grid is 0.2, 0.95, 1.7, 2.45, 3.2: a margin of 0.03 beyond 2.5 rounds back to 2.45.
    assert explained([0.95, 0.0], space, epsilon=0.01).values[0, 0].tolist() == [3.2, 0.0]


def up_to(threshold: float, left: int) -> Trees:
    """One test, x <= threshold, with this class to the left of it and the other to the right."""
    scores = np.eye(2)[[0, left, 1 - left]]
    at, none = np.array([0, -1, -1]), np.array([threshold, np.inf, np.inf])
    tree = Tree(at, none, left=np.array([1, -1, -1]), right=np.array([2, -1, -1]), scores=scores)
    return Trees.joined([tree], Decision("largest score", np.array([0, 1])), features=2)


@pytest.mark.parametrize(("left", "start", "expected"), [(0, 1.0, 3.0), (1, 5.0, 2.5)], ids=["not right", "left"])
def test_a_value_on_the_threshold_is_on_its_left(left: int, start: float, expected: float) -> None:
    """The grid of halves rounds a small margin beside 2.5 back onto it."""
    trees = up_to(2.5, left)
    space = FeatureSpace.infer(SMALL.astype(float), continuous=["x", "y"], steps={"x": 0.5})
    query = pd.DataFrame([[start, 0.0]], columns=["x", "y"])
    problem = problem_of(lambda rows: np.eye(2)[trees.labels(np.asarray(rows)).astype(int)], space, query, Goal.flip())
    values, _ = tweaked(trees, problem, (0.01,), "distance")
    assert values.tolist() == [[expected, 0.0]]


@pytest.mark.parametrize(
    ("constraint", "found"),
    [({"immutable": ["x"]}, False), ({"decrease_only": ["x"]}, False), ({"increase_only": ["x"]}, True)],
    ids=str,
)
def test_a_path_that_may_not_be_gone_is_left_out(constraint: dict[str, Any], found: bool) -> None:
    result = explained([1.0, 0.0], FeatureSpace.infer(SMALL.astype(float), **constraint))
    assert result.found.tolist() == [[found]]
    assert found or result.statuses[0, 0] == "none was found on the paths of single trees"


def test_a_path_of_too_many_changes_is_left_out() -> None:
    space = FeatureSpace.infer(SMALL.astype(float), bounds={"x": (4, 9)})
    assert explained([5.0, 0.0], space).sparsity.tolist() == [[2.0]]
    assert not explained([5.0, 0.0], space, max_changes=1).found.any()


# Against the loop.


@pytest.mark.slow
@pytest.mark.parametrize("margins", [(0.1,), (0.5, 0.01, 1.0)], ids=str)
@pytest.mark.parametrize("kind", list(TARGETS))
@pytest.mark.parametrize("name", list(MODELS))
def test_vectorised_paths_equal_the_loop(name: str, kind: str, margins: tuple[float, ...]) -> None:
    model = MODELS[name].fit(ROWS.to_numpy(), TARGETS[kind])
    trees = read_trees(model)
    goal = Goal.flip() if kind == "two" else Goal.to(2)
    problem = problem_of(model, WIDE, ROWS[:25], goal, most=3)
    pending = np.flatnonzero(~problem.goal.met(problem.before))
    problem = problem.part(pending)
    values, owner = tweaked(trees, problem, margins, "distance")
    assert len(owner) > 20
    for query in range(len(problem)):
        slow = slow_tweaks(trees, problem, query, margins)
        fast = values[owner == query]
        assert len(fast) == len(slow)
        assert np.allclose(problem.space.distance(fast, problem.start[query]), [distance for distance, _ in slow])
        assert np.allclose(sorted(fast.tolist()), sorted(row for _, row in slow)) or len(slow) == 0


@pytest.mark.slow
def test_the_cheapest_that_the_ensemble_confirms_is_delivered() -> None:
    model = MODELS["forest"].fit(ROWS, TARGETS["two"])
    trees = read_trees(model)
    result = FeatTweak(model, WIDE).fit(ROWS).explain(ROWS[:40])
    problem = problem_of(model, WIDE, ROWS[:40], Goal.flip())
    for query in range(40):
        slow = slow_tweaks(trees, problem, query, EPSILONS)
        labels = trees.labels(np.array([row for _, row in slow])) if slow else np.empty(0)
        turned = labels != problem.before.output[query]
        valid = [distance for (distance, _), good in zip(slow, turned, strict=True) if good]
        assert result.found[query, 0] == bool(valid)
        if valid:
            assert WIDE.distance(result.values[query, 0], result.start[query]) == pytest.approx(min(valid))


def test_stumps_solve_exactly_what_one_change_can_solve() -> None:
    model = AdaBoostClassifier(n_estimators=30, random_state=0).fit(ROWS, ROWS.sum(axis=1) > 0)
    trees, start = read_trees(model), WIDE.values(ROWS[:80])
    before, possible = trees.labels(start), np.zeros(80, dtype=bool)
    for j, cuts in enumerate(trees.cuts):
        for value in [*cuts, 50.0]:
            moved = start.copy()
            moved[:, j] = value
            possible |= trees.labels(moved) != before
    assert 0 < possible.sum() < 80
    result = FeatTweak(model, WIDE, epsilon=1e-5).fit(ROWS).explain(ROWS[:80])
    assert result.found[:, 0].tolist() == possible.tolist()
    assert np.nanmax(result.sparsity) == 1


# Options and goals.


def test_fewest_changes_are_preferred_where_they_are_the_cost() -> None:
    model = MODELS["forest"].fit(ROWS, TARGETS["two"])
    near = FeatTweak(model, WIDE).fit(ROWS).explain(ROWS[:60])
    few = FeatTweak(model, WIDE, cost="changes").fit(ROWS).explain(ROWS[:60])
    assert (near.found == few.found).all()
    both = near.found[:, 0]
    assert (few.sparsity[both] <= near.sparsity[both]).all()
    assert (few.sparsity[both] < near.sparsity[both]).any()


def test_several_are_distinct_and_dearer_one_by_one() -> None:
    model = MODELS["forest"].fit(ROWS, TARGETS["three"])
    result = FeatTweak(model, WIDE).fit(ROWS).explain(ROWS[:30], n=4)
    assert result.found.sum() > 60
    distance = WIDE.distance(result.values, result.start[:, None])
    for query in range(30):
        own = result.found[query]
        assert (np.diff(distance[query, own]) >= 0).all()
        assert len(np.unique(result.values[query, own], axis=0)) == own.sum()


@pytest.mark.slow
def test_equal_rows_lie_side_by_side_also_where_others_are_equally_far() -> None:
    rows = (ROWS * 2).round() / 2
    space = FeatureSpace.infer(rows, bounds=dict.fromkeys(NAMES, (-5, 5)), steps=dict.fromkeys(NAMES, 0.5))
    model = RandomForestClassifier(40, random_state=0).fit(rows.to_numpy(), TARGETS["two"])
    values, owner = tweaked(read_trees(model), problem_of(model, space, rows[:20], Goal.flip()), EPSILONS, "distance")
    marked = np.column_stack([owner, values])
    runs = 1 + (marked[1:] != marked[:-1]).any(axis=1).sum()
    assert runs == len(np.unique(marked, axis=0)) < len(marked)


def test_of_several_margins_each_query_has_the_cheapest_that_works() -> None:
    model = GradientBoostingClassifier(n_estimators=80, max_depth=2, random_state=0).fit(ROWS, TARGETS["two"])
    margins = (0.05, 0.4, 1.5)
    alone = [FeatTweak(model, WIDE, epsilon=margin).fit(ROWS).explain(ROWS[:60]) for margin in margins]
    together = FeatTweak(model, WIDE, epsilon=margins).fit(ROWS).explain(ROWS[:60])
    far = np.stack([np.where(r.found[:, 0], WIDE.distance(r.values[:, 0], r.start), np.inf) for r in alone])
    assert len(set(far.argmin(axis=0))) > 1, "no single margin is the cheapest everywhere"
    assert together.found[:, 0].tolist() == np.isfinite(far.min(axis=0)).tolist()
    found = together.found[:, 0]
    assert np.allclose(WIDE.distance(together.values[found, 0], together.start[found]), far.min(axis=0)[found])


def test_a_probability_can_be_asked_for_where_the_class_is_right_already() -> None:
    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(ROWS, TARGETS["two"])
    chance = model.predict_proba(ROWS)[:, 1]
    queries = ROWS[(chance > 0.5) & (chance < 0.65)][:10]
    result = FeatTweak(model, WIDE).fit(ROWS).explain(queries, goal=Goal.to(True, min_probability=0.7))
    assert result.found[:, 0].mean() >= 0.5
    assert (model.predict_proba(result.frame[NAMES])[:, 1] >= 0.7).all()


def test_chunks_of_queries_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = FeatTweak(MODELS["forest"].fit(ROWS, TARGETS["two"]), WIDE).fit(ROWS)
    together = explainer.explain(ROWS[:20], n=2)
    monkeypatch.setattr(common, "CHUNK_CELLS", 3 * len(explainer.trees_.leaf_tree) * 4)
    apart = explainer.explain(ROWS[:20], n=2)
    assert (together.values == apart.values).all()
    assert together.rows_queried.tolist() == apart.rows_queried.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon is 0"),
        ({"epsilon": np.nan}, "epsilon is nan"),
        ({"epsilon": ()}, r"epsilon is \(\)"),
        ({"epsilon": (0.1, -1)}, r"epsilon is \(0.1, -1\)"),
        ({"epsilon": "wide"}, "epsilon is 'wide'"),
        ({"cost": "chnges"}, "'changes'"),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FeatTweak(SMALL_TREE, **options).fit(SMALL)


def test_other_models_are_skipped_with_a_reason() -> None:
    model = SVC().fit(ROWS, TARGETS["two"])
    with pytest.raises(UnsupportedError, match="skipped because it needs a tree ensemble, and the model is a SVC"):
        FeatTweak(model).fit(ROWS)


# Before the judge.


@pytest.mark.slow
def test_the_judge_confirms_what_is_found_and_is_told_why_a_task_is_skipped() -> None:
    unit = Unit("diabetes/ada", Method.parse("feat-tweak"), 0, rows=30)
    rows = judge(unit, unit.load())
    assert {row["state"] for row in rows} == {"ok"}
    assert all(row["claimed"] == row["valid"] and row["violations"] == 0 for row in rows)
    assert sum(row["valid"] for row in rows) >= 24
    unit = Unit("german/rf", Method.parse("feat-tweak"), 0, rows=6)
    rows = judge(unit, unit.load())
    assert {row["state"] for row in rows} == {"ok"} and all(row["claimed"] == row["valid"] for row in rows)
    unit = Unit("sonar/mlp", Method.parse("feat-tweak"), 0, rows=30)
    (row,) = judge(unit, unit.load())
    assert row["state"] == "skipped"
    assert row["reason"].startswith("skipped because it needs a tree ensemble")


# Missing numbers.


@pytest.mark.slow
@pytest.mark.parametrize("fillable", [(), tuple(NAMES)], ids=["stays", "may be filled"])
def test_a_missing_number_stays_or_is_filled_within_the_constraints(fillable: tuple[str, ...]) -> None:
    holed = ROWS.mask(np.random.default_rng(3).random(ROWS.shape) < 0.25)
    model = RandomForestClassifier(9, max_depth=4, random_state=0).fit(holed, TARGETS["two"])
    space = space_with(ROWS, fillable)
    method = FeatTweak(model, space).fit(ROWS)
    lacking = holed[holed.isna().any(axis=1)].iloc[:40]
    problem = problem_with_gaps(method, lacking)
    made = method._generate(problem, 1, np.random.default_rng(0))
    offered = np.flatnonzero(made.offered[:, 0])
    values, start = made.values[offered, 0], problem.start[offered]
    assert len(offered) > 0.7 * len(problem)
    answer = problem.blackbox.confirm(space.model_input(values))
    assert problem.goal.take(offered).met(answer).all()
    assert problem.limits.take(offered).kept(values, start).all()
    assert ((start == space.missing_codes) & (values != start)).any() == bool(fillable)


def test_a_leaf_behind_a_missing_number_is_reached_only_if_it_may_be_filled() -> None:
    """Who lacks x is "no" whatever y is; a filled x is "yes" above 2.5."""
    rows = pd.DataFrame({"x": np.r_[np.arange(6.0), [np.nan] * 6], "y": np.tile(np.arange(6.0), 2)})
    tree = DecisionTreeClassifier(random_state=0).fit(rows, np.where(rows["x"] > 2.5, "yes", "no"))
    for fillable, expected in (((), None), (("x",), 3.0)):
        method = FeatTweak(tree, space_with(rows.dropna(), fillable)).fit(rows.dropna())
        problem = problem_with_gaps(method, rows[-1:])
        made = method._generate(problem, 1, np.random.default_rng(0))
        assert made.offered[0, 0] == (expected is not None)
        if expected is not None:
            assert made.values[0, 0].tolist() == [expected, 5.0]
            assert problem.distance(made.values[0], np.array([0]))[0] == 1.0
