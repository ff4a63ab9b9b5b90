"""Facts about what a row may become: the ends of each feature, the projection, and each constraint by itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.errors import InputError

GRADES = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)


def numbers(**rules: Any) -> FeatureSpace:
    """One number from 0 to 1 without a grid of its own."""
    return FeatureSpace.infer(pd.DataFrame({"x": [0.0, 1.0]}), continuous=["x"], **rules)


def grades(**rules: Any) -> FeatureSpace:
    return FeatureSpace.infer(pd.DataFrame({"grade": pd.Categorical(GRADES.categories, dtype=GRADES)}), **rules)


def kept(space: FeatureSpace, value: float, start: float, **call: Any) -> bool:
    return bool(space.limits(**call).kept(np.array([[value]]), np.array([[start]]))[0])


def ends(space: FeatureSpace, start: float, **call: Any) -> tuple[float, float]:
    low, high = space.limits(**call).span(np.array([[start]]))
    return float(low[0, 0]), float(high[0, 0])


# The ends.


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((0.1, 0.3), (0.1, 0.3)), ((0.0999, 0.29999), (0.1, 0.2)), ((0.10001, 0.3001), (0.2, 0.3))],
    ids=["on the grid", "a hair below", "a hair above"],
)
def test_the_ends_are_the_outermost_points_of_the_grid_within_the_bounds(
    bounds: tuple[float, float], expected: tuple[float, float]
) -> None:
    assert ends(numbers(steps={"x": 0.1}), 0.2, bounds={"x": bounds}) == expected


def test_a_frozen_feature_has_no_room() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]}), immutable=["x"])
    low, high = space.limits().span(np.array([[0.0, 0.0]]))
    assert (low[0].tolist(), high[0].tolist()) == ([0.0, 0.0], [0.0, 1.0])


@pytest.mark.parametrize(("rule", "expected"), [("increase_only", (0.5, 1.0)), ("decrease_only", (0.0, 0.5))])
def test_a_direction_ends_at_the_row_itself(rule: str, expected: tuple[float, float]) -> None:
    assert ends(numbers(**{rule: ["x"]}), 0.5) == expected


# Whether a row can move at all.


@pytest.mark.parametrize(
    ("rule", "start", "movable"),
    [
        ("increase_only", 0, True),
        ("increase_only", 1, True),
        ("increase_only", 2, False),
        ("decrease_only", 0, False),
        ("decrease_only", 1, True),
    ],
)
def test_a_row_can_move_as_long_as_one_category_is_left_to_it(rule: str, start: int, movable: bool) -> None:
    limits = grades(**{rule: ["grade"]}).limits()
    assert limits.movable(np.array([[float(start)]])).tolist() == [movable]


def test_a_row_of_the_only_category_that_may_be_chosen_cannot_move() -> None:
    limits = grades(bounds={"grade": ["high"]}).limits()
    assert limits.movable(np.array([[0.0], [2.0]])).tolist() == [True, False]


# The projection.


def test_what_is_projected_keeps_its_bounds_where_steps_are_as_fine_as_floats() -> None:
    """48818.8 has floats 7e-12 apart: counting steps of 1e-11 there is off by one at times."""
    bounds = (48818.80000000002, 48818.80000000033)
    rows = pd.DataFrame({"x": [48818.8, 48818.8 + 6e-10]})
    space = FeatureSpace.infer(rows, continuous=["x"], steps={"x": 1e-11})
    values = np.linspace(48818.8, 48818.8 + 6e-10, 200)[:, None]
    projected = space.limits(bounds={"x": bounds}).project(values, np.full_like(values, 48818.9))
    assert bounds[0] <= projected.min() <= projected.max() <= bounds[1]


def test_what_is_proposed_out_of_bounds_comes_to_their_ends() -> None:
    limits = numbers(steps={"x": 0.1}).limits(bounds={"x": (0.15, 0.45)})
    values, start = np.array([[-7.0], [0.21], [9.0]]), np.full((3, 1), 0.3)
    assert limits.project(values, start).tolist() == [[0.2], [0.2], [0.4]]


@pytest.mark.parametrize("shared", [True, False], ids=["limits of the call", "limits of each row"])
@pytest.mark.parametrize("seed", range(10))
def test_single_cells_land_where_they_would_within_whole_rows(seed: int, shared: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = mixed_rows(rng)
    space = FeatureSpace.infer(rows, **rules_of_mixed_rows(rng))
    limits, start = space.limits(), space.values(rows)
    start[:10, ~space.is_categorical] *= 3  # of which some lie outside the bounds
    if not shared:
        frozen, choices = rng.random(start.shape) < 0.3, rng.random((len(start), len(limits.choices[0]))) < 0.7
        limits = replace(limits, frozen=limits.frozen | frozen, choices=limits.choices & choices)
    feature = rng.integers(0, len(space), 40)
    values = start[rng.integers(0, len(start), len(start))][:, feature] * rng.choice([1.0, 0.9, 2.0], 40)
    values = np.where(space.is_categorical[feature], np.floor(values), values)
    alone = limits.project(values, start, feature)
    for column, j in enumerate(feature):
        whole = start.copy()
        whole[:, j] = values[:, column]
        assert alone[:, column].tolist() == limits.project(whole, start)[:, j].tolist()


def mixed_rows(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "real": rng.normal(size=50),
            "single": rng.normal(size=50).astype(np.float32),
            "tenths": rng.normal(size=50).round(1),
            "stepped": rng.uniform(0, 10, 50),
            "count": rng.integers(0, 9, 50),
            "letter": rng.choice(list("abcde"), 50),
            "grade": pd.Categorical(rng.choice(GRADES.categories, 50), dtype=GRADES),
        }
    )


def rules_of_mixed_rows(rng: np.random.Generator) -> dict[str, Any]:
    up, down, still = rng.permutation(["real", "single", "tenths", "stepped", "count", "grade"])[:3]
    bounds = {"real": (-0.5, 1.0), "count": (2, 7), "letter": list("abd")}
    return {
        "increase_only": [up],
        "decrease_only": [down],
        "immutable": [still],
        "steps": {"stepped": float(rng.choice([0.25, 1 / 3, 2.0]))},
        "bounds": {name: bounds[name] for name in rng.permutation(list(bounds))[:2]},
    }


# Each constraint by itself.


@pytest.mark.parametrize(("value", "expected"), [(0.0, True), (1.0, True), (-0.001, False), (1.001, False)])
def test_what_lies_out_of_bounds_is_not_kept(value: float, expected: bool) -> None:
    assert kept(numbers(), value, 0.5) is expected


def test_what_goes_against_the_direction_is_not_kept() -> None:
    up, down = numbers(increase_only=["x"]), numbers(decrease_only=["x"])
    assert [kept(space, value, 0.5) for space in (up, down) for value in (0.4, 0.6)] == [False, True, True, False]


def test_what_changes_a_frozen_feature_is_not_kept() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]}))
    start = np.zeros((2, 2))
    assert space.limits(vary=["y"]).kept(np.array([[1.0, 0.0], [0.0, 1.0]]), start).tolist() == [False, True]


def test_a_category_that_may_not_be_chosen_is_not_kept() -> None:
    space = grades(bounds={"grade": ["low", "high"]})
    assert [kept(space, code, 0.0) for code in (1.0, 2.0, 3.0, 1.5)] == [False, True, False, False]


def test_no_rows_with_categories_of_their_own_are_projected_to_none() -> None:
    limits = grades().limits()
    none = replace(limits, choices=limits.choices[:0])
    assert none.project(np.zeros((0, 1)), np.zeros((0, 1))).shape == (0, 1)


@pytest.mark.parametrize(("value", "expected"), [(1 / 3, True), (2 / 3, True), (0.3334, False), (0.5, False)])
def test_what_is_only_near_a_grid_is_not_on_it(value: float, expected: bool) -> None:
    """Thirds have no short decimals: they are told by counting steps."""
    assert kept(numbers(steps={"x": 1 / 3}), value, 0.0) is expected


def test_tenths_are_on_their_grid_as_written_and_not_as_computed() -> None:
    space = numbers(steps={"x": 0.1})
    assert kept(space, 0.3, 0.0)
    assert not kept(space, 0.1 + 0.2, 0.0)


def test_a_cell_that_is_left_alone_breaks_nothing() -> None:
    space = numbers(steps={"x": 0.1}, bounds={"x": (0.2, 0.4)})
    assert kept(space, 0.777, 0.777)


# Numbers that cannot be computed with.


@pytest.mark.parametrize("count", [2**53, 2**62])
def test_whole_numbers_that_floats_cannot_tell_apart_are_refused_unless_they_stay(count: int) -> None:
    rows = pd.DataFrame({"id": [count, count + 1], "x": [0.0, 1.0]})
    with pytest.raises(InputError, match="'id'"):
        FeatureSpace.infer(rows)
    space = FeatureSpace.infer(rows, immutable=["id"])
    moved = space.values(rows)
    moved[:, 1] = 0.5
    assert space.restore(moved, rows)["id"].tolist() == [count, count + 1]


# What is missing.


def test_a_number_gets_the_code_of_a_gap_only_where_it_may_vanish() -> None:
    for vanishing in (False, True):
        space = numbers(may_vanish=["x"] if vanishing else [])
        (code,) = space.missing_codes
        gap, there = np.array([[code]]), np.array([[0.5]])
        assert space.limits().project(gap, there).item() == (code if vanishing else 0.5)
        assert space.limits().kept(gap, there).item() is vanishing


@pytest.mark.parametrize("direction", ["increase_only", "decrease_only"])
def test_a_gap_stays_unless_it_may_be_filled_and_knows_no_direction(direction: str) -> None:
    for fillable in (False, True):
        space = numbers(fill_missing=["x"] if fillable else [], **{direction: ["x"]})
        gap = space.missing_codes[None]
        limits = space.limits(values=gap)
        for value in (0.0, 0.4, 1.0):
            there = np.array([[value]])
            assert limits.project(there, gap).item() == (value if fillable else gap.item())
            assert limits.kept(there, gap).item() is fillable
        assert limits.movable(gap).tolist() == [fillable]
        assert limits.kept(gap, gap).all()
