"""Facts about LORE, on models whose rules are known by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.lore import slow_fitness, slow_neighbourhood
from reference.tiny import Counting

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines import common, lore
from relax_plugin.baselines.lore import Breeding, Lore
from relax_plugin.errors import InputError
from relax_plugin.problem import Problem

RNG = np.random.default_rng(3)
GRID = pd.DataFrame({name: RNG.integers(0, 6, 200) for name in ("x0", "x1", "x2", "x3")})
MIXED = pd.DataFrame(
    {
        "income": RNG.normal(size=200).round(2),
        "years": RNG.integers(0, 10, 200),
        "town": RNG.choice(["Rome", "Bonn", "Oslo"], 200),
    }
)


def box(rows: Any) -> Any:
    """Yes where x0 > 1 and x1 <= 2: labels alone."""
    return np.where((rows["x0"] > 1) & (rows["x1"] <= 2), "yes", "no")


def loan(rows: Any) -> Any:
    """Yes in Rome from an income of 0.5 on."""
    return np.where((rows["town"] == "Rome") & (rows["income"] >= 0.5), "yes", "no")


def problem_of(model: Any, rows: pd.DataFrame, queries: pd.DataFrame, **constraints: Any) -> Problem:
    space = FeatureSpace.infer(rows, **constraints)
    blackbox, start = BlackBox(model, space), space.values(queries)
    blackbox.learn(space.values(rows))
    before = blackbox.ask(start)
    spent = np.zeros(len(start), dtype=np.int64)
    goal = Goal.flip().bind(blackbox, before)
    return Problem(space, blackbox, start, before, goal, space.limits(), len(space), spent)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ([0, 4, 3, 3], [2, 2, 3, 3]),
        ([5, 5, 0, 1], [5, 2, 0, 1]),
        ([0, 0, 5, 5], [2, 0, 5, 5]),
        ([2, 1, 3, 3], [1, 1, 3, 3]),
    ],
    ids=["both are falsified", "only the second", "only the first", "a rule of the other class"],
)
def test_exactly_the_falsified_conditions_are_made_true(query: list[int], expected: list[int]) -> None:
    result = Lore(box).fit(GRID).explain(pd.DataFrame([query], columns=list(GRID)))
    assert result.frame[list(GRID)].to_numpy().tolist() == [expected]
    assert result.stage.tolist() == ["rule"]


@pytest.mark.parametrize(
    ("denied", "granted", "expected"),
    [([0, 0, 0], 2, [1.01, 2]), ([0, 0, 0], -2, [-1, -2]), ([0, 1.91, 2.2], 2, [1.96, 2])],
    ids=["above a threshold", "below one", "between two"],
)
def test_a_rule_is_tried_at_its_threshold_and_at_its_neighbour(denied: Any, granted: float, expected: Any) -> None:
    query = pd.DataFrame({"income": [0.0], "years": [5], "town": ["Bonn"]})
    problem = problem_of(loan, MIXED, query)
    neighbours = np.tile(problem.start, (4, 1))
    neighbours[:, 0], neighbours[:, 1] = [*denied, granted], [5, 7, 9, 7]  # years tell nothing
    met = np.array([False, False, False, True])
    rows = lore.apply_rules(problem, 0, neighbours, met, lore.Columns(problem.space), 0)
    assert rows[:, 0].tolist() == expected
    assert (rows[:, 1:] == problem.start[0, 1:]).all()


def test_falsified_categories_are_changed_with_the_numbers() -> None:
    queries = pd.DataFrame({"income": [-1.0, 1.0, 1.0], "years": [3, 3, 3], "town": ["Bonn", "Oslo", "Rome"]})
    result = Lore(loan).fit(MIXED).explain(queries)
    changes = result.changes().groupby("query_id")["feature"].agg(set).tolist()
    assert changes[:2] == [{"income", "town"}, {"town"}]
    assert result.frame["town"].tolist()[:2] == ["Rome", "Rome"]
    assert 0.5 <= result.frame["income"][0] < 1.5
    assert len(changes[2]) == 1
    assert (result.stages[:, 0] == "rule").all()


def test_the_neighbourhood_has_both_classes_and_stays_near_the_query() -> None:
    problem = problem_of(loan, MIXED, MIXED[:20])
    values, met = Breeding(problem, problem.space.values(MIXED), 250).evolve(10, np.random.default_rng(0))
    assert values.shape == (20, 500, 3)
    assert (met[:, :250].mean(axis=1) < 0.4).all()
    assert (met[:, 250:].mean(axis=1) > 0.6).all()
    flat, owner = values.reshape(-1, 3), np.repeat(np.arange(20), 500)
    assert (problem.judge(flat, owner)[0] == met.ravel()).all(), "what was not asked again is still right"
    anywhere = problem.space.values(MIXED)[RNG.integers(0, 200, 10_000)]
    assert problem.distance(flat, owner).mean() < 0.6 * problem.distance(anywhere, owner).mean()


def test_side_by_side_equals_one_at_a_time() -> None:
    problem = problem_of(loan, MIXED, MIXED[:3], increase_only=["years"])
    genes = problem.space.values(MIXED)
    values, met = Breeding(problem, genes, 12).evolve(4, np.random.default_rng(8))
    assert met.any()
    for query in range(3):
        slow = slow_neighbourhood(problem, query, genes, 12, 4, np.random.default_rng(8))
        assert (values[query] == slow[0]).all()
        assert (met[query] == slow[1]).all()


def test_fitness_is_the_formula_of_the_paper() -> None:
    problem = problem_of(loan, MIXED, MIXED[:4])
    genes = problem.space.values(MIXED)
    breeding = Breeding(problem, genes, 10)
    assert (breeding.fitness() == np.array([1.0, 0.0])[:, None]).all(), "the query itself: 1 + 1 - 1 and 0 + 1 - 1"
    breeding.values = genes[RNG.integers(0, 200, (4, 2, 10))]
    breeding.met = RNG.random((4, 2, 10)) < 0.5
    fast, width = breeding.fitness(), np.ptp(genes, axis=0)
    for q, g, i in np.ndindex(4, 2, 10):
        as_wanted = bool(breeding.met[q, g, i] == bool(g))
        assert fast[q, g, i] == pytest.approx(slow_fitness(problem, q, breeding.values[q, g, i], as_wanted, width))


def test_every_neighbour_keeps_the_constraints() -> None:
    options: dict[str, Any] = {"immutable": ["x3"], "increase_only": ["x0"], "decrease_only": ["x1"]}
    problem = problem_of(box, GRID, GRID[:15], steps={"x2": 2}, bounds={"x0": (0, 4)}, **options)
    values, _ = Breeding(problem, problem.space.values(GRID), 100).evolve(6, np.random.default_rng(1))
    flat, owner = values.reshape(-1, 4), np.repeat(np.arange(15), 200)
    assert problem.limits.take(owner).kept(flat, problem.start[owner]).all()
    assert (flat != problem.start[owner]).any(axis=0).tolist() == [True, True, True, False]


def test_a_query_is_explained_the_same_alone_and_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = Lore(box, population=200).fit(GRID)
    together = explainer.explain(GRID[:12], n=2)
    alone = explainer.explain(GRID[7:8], n=2)
    assert (together.values[7] == alone.values[0]).all()
    assert together.rows_queried[7] == alone.rows_queried[0]
    monkeypatch.setattr(common, "CHUNK_CELLS", 5 * 200 * 4)
    assert (explainer.explain(GRID[:12], n=2).values == together.values).all(), "chunks of five"


def test_a_neighbour_is_offered_when_the_model_denies_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lore, "apply_rules", lambda problem, query, *_: problem.start[[query]])
    result = Lore(box).fit(GRID).explain(GRID[:10])
    assert result.found.all()
    assert (result.stage == "neighbour").all()


def test_further_slots_are_further_rules_then_neighbours() -> None:
    result = Lore(loan, population=400).fit(MIXED).explain(MIXED[:6], n=12)
    for query in range(6):
        stages = [stage for stage in result.stages[query] if stage]
        assert stages == sorted(stages, reverse=True), "rule before neighbour"
    assert set(result.stage.ravel()) >= {"rule", "neighbour"}


def test_what_changes_too_much_is_not_offered() -> None:
    queries = pd.DataFrame([[0, 5, 3, 3], [0, 0, 3, 3]], columns=list(GRID))
    result = Lore(box, max_changes=1).fit(GRID).explain(queries, n=4)
    assert result.found.tolist() == [[False] * 4, [True] * 4], "the first needs two changes"


def test_one_model_call_a_generation_and_no_row_asked_without_need() -> None:
    model = Counting(box)
    explainer = Lore(model, population=200, generations=5).fit(GRID)
    calls, rows = model.calls, model.rows
    result = explainer.explain(GRID[:25])
    assert model.calls - calls <= 5 + 1 + 2, "generations, rules, and the confirmation of queries and of results"
    assert result.rows_queried.sum() == model.rows - rows
    assert (result.rows_queried < 0.7 * 5 * 200).all()


@pytest.mark.parametrize("options", [{"population": 7}, {"population": 50.5}, {"generations": 0}], ids=str)
def test_wrong_sizes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be a whole number of at least"):
        Lore(box, **options).fit(GRID)
