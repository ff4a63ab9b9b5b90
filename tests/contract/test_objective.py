"""Costs of changes and the objective: distances computed by hand, and every explainer under prices."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAX, ReLAXConfig, make_explainer
from relax_plugin.errors import ConstraintError, InputError, UnknownNameError, UnsupportedError
from relax_plugin.problem import CLOSEST, OBJECTIVES, SPARSE, check_objective, chosen_objective
from relax_plugin.search.neighbours import Neighbours

ROWS = pd.DataFrame({"age": [20.0, 40.0, 20.0, 40.0], "pay": [1.0, 2.0, 3.0, 4.0], "town": ["a", "b", "c", "a"]})
RNG = np.random.default_rng(4)
TABLE = pd.DataFrame(
    {
        "a": RNG.integers(0, 6, 80),
        "b": RNG.integers(0, 6, 80),
        "c": RNG.integers(0, 6, 80),
        "kind": RNG.choice(list("xyz"), 80),
    }
)
NUMBERS = TABLE[["a", "b", "c"]].astype(float)
COSTS = {"a": 10.0, "c": 0.5}
SMALL = ReLAXConfig(
    steps=20, episodes=32, updates_per_step=1, hidden=16, start_pool=256, local_steps=5, local_episodes=4
)
QUICK: dict[str, dict[str, Any]] = {
    "relax-global": {"config": SMALL, "progress": False},
    "surrogate-search": {"max_queries": 24},
    "relax-local": {"config": SMALL, "progress": False},
    "dice-random": {"sample_size": 200},
    "lore": {"population": 200},
    "focus": {"iterations": 80, "learning_rate": 0.2},
    "mace": {"seconds_per_row": 60.0},
    "cfrl": {"steps": 60},
    "fastar": {"steps": 4_000, "tries": 3},
}
THOSE_THAT_KNOW_BOTH = ("greedy", "surrogate-search", "relax-global")


def chance(rows: Any) -> Any:
    """Class 1 for what lies beyond a slope over the numbers; 'z' is worth two steps of any."""
    numbers = np.asarray(rows[["a", "b", "c"]], dtype=float).sum(axis=1)
    logit = numbers + 2.0 * (rows["kind"] == "z").to_numpy() - 8.5
    return np.column_stack([1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit))])


def space_of(**options: Any) -> FeatureSpace:
    return FeatureSpace.infer(TABLE, **options)


# The space


def test_a_distance_is_the_sum_of_standard_deviations_and_categories_times_their_prices() -> None:
    space = FeatureSpace.infer(ROWS, costs={"age": 10, "town": 3})
    here, there = space.values(ROWS.iloc[[0]]), space.values(ROWS.iloc[[3]].assign(town="b"))
    deviation = np.std([1.0, 2.0, 3.0, 4.0])
    assert space.prices.tolist() == [10.0, 1.0, 3.0]
    assert space.distances(here, there)[0] == pytest.approx([10 * 20 / 10, 3 / deviation, 3.0])
    assert space.distance(here, there)[0] == pytest.approx(20 + 3 / deviation + 3)


def test_without_costs_every_price_is_one_and_distances_are_bit_identical() -> None:
    space = FeatureSpace.infer(NUMBERS)
    a, b = NUMBERS.to_numpy()[:40], NUMBERS.to_numpy()[40:]
    assert not space.has_prices
    assert (space.distances(a, b) == np.abs(a - b) / space.scale).all()


@pytest.mark.parametrize("cost", [0, -1.0, np.inf, np.nan, "dear", True, None])
def test_a_cost_is_a_finite_number_above_zero(cost: Any) -> None:
    for make in (lambda: FeatureSpace.infer(ROWS, costs={"age": cost}), lambda: SPACE.with_costs({"age": cost})):
        with pytest.raises(
            ConstraintError, match=r"the cost of feature 'age' is .*, but must be a finite number above 0"
        ):
            make()


SPACE = FeatureSpace.infer(ROWS)


def test_a_cost_of_an_unknown_feature_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"costs names feature 'ages'; did you mean 'age'"):
        FeatureSpace.infer(ROWS, costs={"ages": 2})
    with pytest.raises(UnknownNameError, match=r"costs names feature 'ages'; did you mean 'age'"):
        SPACE.with_costs({"ages": 2})
    with pytest.raises(InputError, match="give a mapping of feature name to number"):
        SPACE.with_costs([("age", 2)])  # type: ignore[arg-type]


def test_costs_survive_as_plain_data_and_older_data_has_none() -> None:
    space = FeatureSpace.infer(ROWS, costs={"age": 10, "town": 3})
    data = space.to_dict()
    assert FeatureSpace.from_dict(data) == space != SPACE
    assert "cost 10" in repr(space)
    for row in data["features"]:
        del row["cost"]
    assert FeatureSpace.from_dict(data) == SPACE


@pytest.mark.parametrize("cost", [0, -3.0, np.nan, True, "1"])
def test_a_file_with_an_impossible_cost_is_refused(cost: Any) -> None:
    data = SPACE.to_dict()
    data["features"][0]["cost"] = cost
    with pytest.raises(InputError, match="contradicts itself"):
        FeatureSpace.from_dict(data)


def test_other_prices_make_another_space_and_leave_the_first_as_it_was() -> None:
    first = FeatureSpace.infer(ROWS, costs={"age": 10})
    assert first.has_prices
    other = first.with_costs({"pay": 2.0})
    assert other.prices.tolist() == [10.0, 2.0, 1.0]
    assert first.prices.tolist() == [10.0, 1.0, 1.0]
    assert other.with_costs({"age": 1, "pay": 1}) == SPACE


# Distances that are computed elsewhere


def test_neighbours_are_near_at_the_prices_of_the_problem() -> None:
    space = space_of(costs={"a": 10, "kind": 4})
    explainer = make_explainer("nearest-ct", chance, space).fit(TABLE)
    found: list[np.ndarray] = []
    generate = explainer._generate

    def watched(problem: Any, n: int, rng: np.random.Generator) -> Any:
        rows = Neighbours.of(space.values(TABLE))
        found.append(rows.distances(problem, np.arange(len(problem))))
        found.append(space.distance(rows.rows, problem.start[:, None]))
        return generate(problem, n, rng)

    explainer._generate = watched  # type: ignore[method-assign]
    explainer.explain(TABLE.iloc[:5])
    assert found[0] == pytest.approx(found[1])


# The objective


def test_the_objective_of_a_call_is_what_is_asked_for_and_else_sparse() -> None:
    assert chosen_objective(None, OBJECTIVES, "Greedy") == SPARSE
    assert chosen_objective(None, (SPARSE,), "Lore") == SPARSE
    assert chosen_objective("sparse", OBJECTIVES, "Greedy") == SPARSE
    assert chosen_objective("closest", OBJECTIVES, "Greedy") == CLOSEST


@pytest.mark.parametrize("name", ["greedy", "surrogate-search"])
def test_costs_change_prices_and_not_the_objective(name: str) -> None:
    explainer = make_explainer(name, chance, space_of()).fit(TABLE)
    queries, costs = TABLE.iloc[:30], {"a": 10.0}
    priced = explainer.explain(queries, costs=costs)
    sparse, closest = (explainer.explain(queries, costs=costs, objective=one) for one in OBJECTIVES)
    assert priced.asked is not None and priced.asked.objective == SPARSE
    np.testing.assert_array_equal(priced.values, sparse.values)
    assert priced.sparsity.mean() == explainer.explain(queries).sparsity.mean() < closest.sparsity.mean()
    assert closest.proximity.mean() < priced.proximity.mean()


@pytest.mark.slow
def test_a_method_that_does_not_know_an_objective_refuses_it_by_a_sentence() -> None:
    with pytest.raises(UnsupportedError, match=r"Lore does not know objective='closest'; it knows 'sparse'"):
        chosen_objective("closest", (SPARSE,), "Lore")
    with pytest.raises(InputError, match=r"objective is 'near'.*'closest'"):
        check_objective("near")
    policy = ReLAX(chance, space_of(), effort="policy", objective="closest", config=SMALL, progress=False).fit(TABLE)
    with pytest.raises(UnsupportedError, match="ReLAX does not know objective='closest'"):
        policy.explain(TABLE.iloc[:2])


@pytest.mark.parametrize("name", [*THOSE_THAT_KNOW_BOTH])
def test_a_wrong_objective_is_refused_when_fitting(name: str) -> None:
    with pytest.raises(InputError, match="objective is 'cheapest'"):
        make_explainer(name, chance, space_of(), objective="cheapest").fit(TABLE)


# Every explainer


@every_explainer
def test_every_explainer_keeps_constraints_and_validity_under_costs(name: str) -> None:
    rows, model = NUMBERS, DecisionTreeClassifier(max_leaf_nodes=12, random_state=0)
    model.fit(rows, (rows.sum(axis=1) > 7.5).to_numpy().astype(int))
    space = FeatureSpace.infer(rows, costs=COSTS, immutable=["b"], increase_only=["c"])
    explainer = make_explainer(name, model, space, **QUICK.get(name, {}))
    try:
        explainer.fit(rows)
    except UnsupportedError as error:
        pytest.skip(str(error))
    queries = rows.iloc[:12]
    result = explainer.explain(queries, n=2)
    frame = result.frame
    start = queries.iloc[frame["query_id"]]
    assert len(frame)
    assert (model.predict(frame[["a", "b", "c"]]) != model.predict(start)).all()
    assert (frame["c"].to_numpy() >= start["c"].to_numpy()).all()
    assert (frame["b"].to_numpy() == start["b"].to_numpy()).all()
    expected = space.distance(result.values, result.start[:, None])
    assert result.proximity[result.found] == pytest.approx(expected[result.found])


def brute_force(space: FeatureSpace, model: Any, row: pd.DataFrame, most: int) -> tuple[float, float]:
    """The least cost at all, and of those with the fewest changes, of all rows of a small table."""
    grid = [range(6), range(6), range(6), list("xyz")]
    every = pd.DataFrame(list(product(*grid)), columns=list(TABLE))
    values, start = space.values(every), space.values(row)
    changes = (values != start).sum(axis=1)
    wanted = 1 - model(row).argmax(axis=1)[0]
    good = (model(every).argmax(axis=1) == wanted) & (changes <= most)
    cost = space.distance(values, start)
    return float(cost[good].min()), float(cost[good & (changes == changes[good].min())].min())


@pytest.mark.slow
@pytest.mark.parametrize("costs", [{}, {"a": 10.0}, {"a": 5.0, "kind": 0.2}, {"b": 20.0, "c": 20.0}])
@pytest.mark.parametrize("name", THOSE_THAT_KNOW_BOTH)
def test_closest_answers_cost_no_more_than_sparse_ones_and_hardly_more_than_the_least(
    name: str, costs: dict[str, float]
) -> None:
    space = space_of(costs=costs)
    options = {**QUICK.get(name, {}), "max_changes": 4}
    queries = TABLE.iloc[:30]
    found = {}
    for objective in OBJECTIVES:
        explainer = make_explainer(name, chance, space, objective=objective, **options).fit(TABLE)
        found[objective] = explainer.explain(queries)
        assert found[objective].found.all()
    sparse, closest = (found[objective].proximity[:, 0] for objective in OBJECTIVES)
    least = np.array([brute_force(space, chance, queries.iloc[[i]], 4)[0] for i in range(len(queries))])
    assert (closest >= least - 1e-9).all()
    assert closest.mean() <= sparse.mean() + 1e-9
    assert closest.mean() <= (1.2 if name == "surrogate-search" else 1.1) * least.mean()
    assert (found[SPARSE].sparsity.mean() <= found[CLOSEST].sparsity.mean()) or np.isclose(closest, sparse).all()


@pytest.mark.parametrize("name", ["greedy", "surrogate-search"])
def test_prices_of_a_call_are_those_of_the_search_whatever_the_fit_knew(name: str) -> None:
    plain = make_explainer(name, chance, space_of()).fit(TABLE)
    cheap_a, dear_a = space_of(costs={"b": 50, "c": 50, "kind": 50}), space_of(costs={"a": 50})
    queries = TABLE[(TABLE["a"] == 2) & (chance(TABLE).argmax(axis=1) == 0)].iloc[:4]
    queries = queries.assign(b=3, c=2, kind="x")
    for space, changes_a in ((cheap_a, True), (dear_a, False)):
        result = plain.for_space(space).explain(queries)
        assert result.found.all()
        assert ((result.values[:, 0, 0] != result.start[:, 0]) == changes_a).all()


def test_goals_of_numbers_are_reached_at_the_least_cost_too() -> None:
    def total(rows: Any) -> Any:
        return np.asarray(rows[["a", "b", "c"]], dtype=float).sum(axis=1)

    space = FeatureSpace.infer(NUMBERS, costs={"a": 10.0})
    model = BlackBox(total, task="regression")
    explainer = make_explainer("greedy", model, space, goal=Goal.between(9, 99), objective=CLOSEST).fit(NUMBERS)
    result = explainer.explain(NUMBERS.iloc[:10].assign(a=1.0, b=2.0, c=2.0))
    assert result.found.all()
    assert (result.values[:, 0, 0] == 1.0).all()
