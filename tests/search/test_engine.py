"""Laws of the engine and of the methods that are lists of proposers: what is found keeps to all that was asked."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.problems import ORIGIN, TRAINING, problem_of

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.problem import Problem
from relax_plugin.search import engine as engine_module
from relax_plugin.search.candidates import Candidates
from relax_plugin.search.engine import Engine, rows_of_search
from relax_plugin.search.explainer import CounterfactualSearch
from relax_plugin.search.moves import Moves
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.polish import drop_and_shorten, unpolished
from relax_plugin.search.proposers import GreedyChanges, NearRows

GRADES = ["none", "low", "some", "high"]


class Barren:
    """A proposer that finds nothing, and remembers how many queries it was given."""

    name = "barren"

    def __init__(self) -> None:
        self.queries: list[int] = []

    def propose(self, candidates: Candidates) -> None:
        self.queries.append(len(candidates.problem))


def engine_of(problem: Problem, **options: Any) -> Engine:
    moves = Moves.quantiles(TRAINING, problem.space, 20)
    return Engine([GreedyChanges(moves, every_feature=True)], moves=moves, **({"polished": drop_and_shorten} | options))


def test_the_wider_proposers_get_what_is_left() -> None:
    problem = problem_of(lambda x: x[:, 0] / 5, [[0.0, 0, 0], [4.9, 0, 0]])
    wider = Barren()
    made = engine_of(problem, wider=[wider]).search(problem)
    assert made.offered.all() and wider.queries == []
    assert made.stage.ravel().tolist() == ["greedy"] * 2
    first = Barren()
    made = replace(engine_of(problem), proposers=[first], wider=engine_of(problem).proposers).search(problem)
    assert made.offered.all() and first.queries == [2]


def test_better_rows_than_those_known_are_not_looked_for_at_any_price() -> None:
    problem = replace(problem_of(lambda x: x[:, 0] / 50, ORIGIN), preferred=True)
    wider = Barren()
    assert not engine_of(problem, wider=[wider]).search(problem).offered.any()
    assert wider.queries == []


def test_a_query_that_is_not_solved_has_its_closest_attempt() -> None:
    problem = problem_of(lambda x: 0.06 * x[:, 0] + 0.03 * x[:, 1] - x[:, 2], ORIGIN)
    made = engine_of(problem).search(problem)
    assert not made.offered.any()
    assert made.values[0, 0].tolist() == pytest.approx([10, 10, 0], abs=0.01)


def test_the_closest_attempt_is_kept_where_the_wider_proposers_find_none() -> None:
    problem = problem_of(lambda x: 0.06 * x[:, 0] + 0.03 * x[:, 1] - x[:, 2], ORIGIN)
    made = engine_of(problem, wider=[Barren()]).search(problem)
    assert made.values[0, 0].tolist() == pytest.approx([10, 10, 0], abs=0.01)


@pytest.mark.parametrize("rows", [0, 3, 20, 60])
def test_the_rows_of_a_query_are_never_exceeded(rows: int) -> None:
    for objective in ("sparse", "closest"):
        problem = replace(problem_of(lambda x: x.sum(axis=1) / 22, [[0.0, 0, 0], [3.0, 9, 9]]), objective=objective)
        near = NearRows(AnsweredRows(Neighbours.of(TRAINING)), Moves.quantiles(TRAINING, problem.space, 20), undone=9)
        engine_of(problem, rows=rows, wider=[near]).search(problem)
        assert (problem.spent <= rows).all()


def test_when_the_time_is_over_what_was_found_is_delivered() -> None:
    problem = problem_of(lambda x: x[:, 0] / 5, ORIGIN)
    made = engine_of(problem, until=time.perf_counter() - 1).search(problem)
    assert not made.offered.any() and "time" in made.note[0]


def test_queries_side_by_side_find_what_each_finds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    start = np.random.default_rng(0).uniform(0, 9, (12, 3))
    problem = problem_of(lambda x: x.sum(axis=1) / 25 + 0.1 * np.sin(3 * x[:, 0]), start)
    together = engine_of(problem).search(problem)
    monkeypatch.setattr(engine_module, "CELLS", 1)
    alone = engine_of(problem).search(problem)
    np.testing.assert_array_equal(together.values, alone.values)
    np.testing.assert_array_equal(together.offered, alone.offered)


def test_where_distance_counts_the_search_goes_on_for_closer_rows() -> None:
    problem = problem_of(lambda x: x[:, 0] / 5 + (x[:, 1] + x[:, 2]) / 10, ORIGIN)
    dear = problem.space.with_costs({problem.space.names[0]: 10.0})
    problem = replace(problem, space=dear, objective="closest")
    made = engine_of(problem, polished=unpolished).search(problem)
    assert made.values[0, 0, 0] == 0 and (made.values[0, 0, 1:] > 0).any()


@pytest.mark.parametrize(("max_queries", "rows"), [(None, None), (12, 7), (40, 35), (5, 1), (1, 1)])
def test_the_query_the_confirmation_and_a_last_look_at_each_change_are_paid_first(
    max_queries: int | None, rows: int | None
) -> None:
    assert rows_of_search(problem_of(lambda x: x[:, 0], ORIGIN), max_queries) == rows


# Laws of the methods


def explainer(name: str, model: Any, space: FeatureSpace, **options: Any) -> Any:
    if name == "search":
        return CounterfactualSearch(model, space, **options)
    return make_explainer(name, model, space, **options)


def people(rng: np.random.Generator) -> pd.DataFrame:
    rows = pd.DataFrame(
        {
            "x": rng.normal(size=60).round(2),
            "count": rng.integers(0, 9, 60),
            "up": rng.normal(size=60).round(1),
            "fixed": rng.normal(size=60).round(1),
            "town": rng.choice(["Rome", "Bonn", "Oslo"], 60),
            "grade": rng.choice(GRADES, 60),
            "red": 0,
            "blue": 0,
            "gap": np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60).round(2)),
        }
    )
    rows["red"] = rng.integers(0, 2, 60)
    rows["blue"] = 1 - rows["red"]
    return rows


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
@pytest.mark.parametrize(
    ("name", "told"),
    [
        *(("search", told) for told in ("scores", "labels", "number")),
        *(("greedy", "scores"), ("greedy", "number"), ("nearest-ct", "scores"), ("random-order", "labels")),
    ],
)
def test_what_is_found_keeps_to_all_that_was_asked(name: str, told: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = people(rng)
    weights, bend = rng.normal(size=9), rng.normal(size=9)

    def codes(asked: pd.DataFrame) -> Any:
        towns = asked["town"].map({"Rome": -1.0, "Bonn": 0.0, "Oslo": 1.5})
        grades = asked["grade"].map({grade: float(place) for place, grade in enumerate(GRADES)})
        return asked.assign(town=towns, grade=grades).astype(float).fillna(0.4).to_numpy()

    def model(asked: pd.DataFrame) -> Any:
        x = codes(asked)
        number = x @ weights + np.sin(2 * x) @ bend
        if told != "scores":
            return number if told == "number" else np.where(number > 0, "yes", "no")
        high = 1 / (1 + np.exp(-number))
        return np.column_stack([1 - high, high])

    space = FeatureSpace.infer(
        rows,
        immutable=["fixed"],
        increase_only=["up"],
        bounds={"x": (-2.0, 2.0)},
        ordered={"grade": GRADES},
        one_hot={"colour": ["red", "blue"]},
    )
    goal = Goal.shift(0.7) if told == "number" else Goal.flip()
    blackbox = BlackBox(model, space, "regression" if told == "number" else "classification")
    made = explainer(name, blackbox, space, goal=goal, max_changes=3).fit(rows)
    queries = rows[:8]
    result = made.explain(queries)
    again = made.explain(queries)
    np.testing.assert_array_equal(result.values, again.values)
    found = np.flatnonzero(result.found[:, 0])
    if len(found) == 0:
        return
    start, values = space.values(queries), result.values[:, 0]
    assert ((values != start).sum(axis=1)[found] <= 3).all()
    assert space.limits().kept(values[found], start[found]).all()
    blackbox = made.blackbox_
    bound = goal.bind(blackbox, blackbox.ask(start))
    assert bound.take(found).met(blackbox.ask(values[found])).all()
    # No change can be taken back: without any one of them the goal is missed.
    for query in found if name != "nearest-ct" else []:
        changed = np.flatnonzero(values[query] != start[query])
        if len(changed) > 1:
            without = np.repeat(values[[query]], len(changed), axis=0)
            without[np.arange(len(changed)), changed] = start[query, changed]
            assert not bound.take(np.full(len(changed), query)).met(blackbox.ask(without)).any()


@pytest.mark.parametrize("name", ["search", "greedy", "random-order"])
def test_rules_hold_in_what_is_found(name: str) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(np.sort(rng.uniform(0, 9, (80, 2)), axis=1).round(1), columns=["low", "high"])
    rows["z"] = rng.normal(size=80).round(1)
    space = FeatureSpace.infer(rows, rules=["low <= high"])
    model = BlackBox(lambda asked: asked["low"] + 0.1 * asked["z"], space, "regression")
    result = explainer(name, model, space, goal=Goal.between(7, 20), max_changes=3).fit(rows).explain(rows[:10])
    values = result.values[:, 0]
    assert result.found.mean() >= (0.4 if name == "greedy" else 0.8)
    assert (values[:, 0] <= values[:, 1] + 1e-9).all()
