"""Facts about the values that a search tries of each feature, and about natural steps."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.search.moves import Moves, natural_steps, repeated_values


def test_the_moves_are_the_quantiles_between_the_bounds_and_every_category() -> None:
    rows = pd.DataFrame({"x": np.arange(101.0), "few": [1, 2, 4] * 33 + [1, 2], "c": (list("ab") * 51)[:101]})
    space = FeatureSpace.infer(rows, continuous=["x"])
    moves = Moves.quantiles(space.values(rows), space, 5)
    by_feature = [moves.value[moves.feature == j].tolist() for j in range(3)]
    assert by_feature == [[-np.inf, 25, 50, 75, np.inf], [-np.inf, 2, np.inf], [0, 1]]


def test_the_move_nearest_to_a_cell_is_found_in_each_feature() -> None:
    moves = Moves(np.array([0, 0, 0, 0, 2, 2, 2]), np.array([-np.inf, 1.0, 2.0, np.inf, 0.0, 1.0, 2.0]))
    features, nearest = moves.nearest(np.array([[0.9, 5.0, 1.0], [1.6, 5.0, 2.0], [9.0, 5.0, 0.0]]))
    assert features.tolist() == [0, 2]
    assert moves.value[nearest].tolist() == [[-np.inf, 1.0], [2.0, 2.0], [np.inf, 0.0]]


@pytest.mark.parametrize(
    ("column", "step"),
    [
        (np.arange(0, 40) * 500.0, 500.0),
        (np.arange(0, 40) * 12.0, 12.0),
        (np.arange(0, 40) / 10, 0.1),
        (np.arange(7.0, 47.0), 1.0),  # from 0, not from the minimum
        (np.random.default_rng(0).normal(size=40), 0.0),
    ],
)
def test_the_natural_step_is_what_nearly_all_values_are_multiples_of(column: np.ndarray, step: float) -> None:
    rows = pd.DataFrame({"x": np.concatenate([column, [0.0] * 30])})
    space = FeatureSpace.infer(rows, continuous=["x"])
    assert natural_steps(space.values(rows), space) == pytest.approx([step])


def test_a_number_that_its_step_leaves_one_value_has_moves() -> None:
    rows = pd.DataFrame({"x": np.linspace(0.0, 30.0, 50), "y": np.arange(50.0)})
    space = FeatureSpace.infer(rows, steps={"x": 1000.0})
    assert (Moves.quantiles(space.values(rows), space).feature == 0).any()


def test_a_number_that_is_always_missing_has_no_natural_step() -> None:
    rows = pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50.0)})
    space = FeatureSpace.infer(rows)
    values = space.values(rows)
    values[:, 0] = space.missing_codes[0]
    assert natural_steps(values, space)[0] == 0.0


def test_the_values_of_a_column_are_those_that_nine_tenths_of_its_rows_repeat() -> None:
    thirds, rng = np.array([1 / 3, 2 / 3, 5 / 7, 9 / 7]), np.random.default_rng(0)
    often = np.concatenate([thirds.repeat(10), rng.normal(size=3)])
    rows = np.column_stack([often, rng.normal(size=43), np.where(rng.random(43) < 0.95, 0.0, rng.normal(size=43))])
    assert [known.tolist() for known in repeated_values(rows)] == [thirds.tolist(), [], []]
