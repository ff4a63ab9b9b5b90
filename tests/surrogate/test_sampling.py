"""Training rows that are crossed, and moved as a search moves them: within every constraint, and again the same."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tiny

from relax_plugin.features import FeatureSpace
from relax_plugin.search.moves import Moves
from relax_plugin.surrogate.learning import QUANTILES, crossings, moved

MIXED = tiny.mixed_rows()
SPACE = tiny.mixed_space(MIXED)
ROWS = SPACE.values(MIXED)


def moved_mixed(seed):
    return moved(ROWS, SPACE, Moves.quantiles(ROWS, SPACE, QUANTILES), np.random.default_rng(seed))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_moved_rows_keep_every_constraint(seed):
    result = moved_mixed(seed)
    changed = result != ROWS
    assert changed.sum(axis=1).max() <= 3
    assert SPACE.limits().kept(result, ROWS).all()
    for j, feature in enumerate(SPACE.features):
        now, before = result[changed[:, j], j], ROWS[changed[:, j], j]
        assert len(now) == 0 or feature.name != "birthplace"
        assert feature.name not in ("grade", "years") or (now > before).all()
        assert feature.name != "single" or (now < before).all()


def test_moved_rows_differ_in_none_to_three_features_often_at_a_bound_and_again_so():
    one, again, other = (moved_mixed(seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any() and (SPACE.values(MIXED) == ROWS).all()  # what is given stays as it is
    changed = one != ROWS
    assert set(changed.sum(axis=1)) == {0, 1, 2, 3}
    np.testing.assert_array_equal(changed.any(axis=0), [name != "birthplace" for name in SPACE.names])
    smooth = one[changed[:, 0], 0]
    assert (smooth == -3.0).any() and (smooth == 5.0).any() and np.abs(smooth - 1.0).min() < 1.0


def test_a_crossing_has_every_value_from_one_of_two_rows():
    rows = tiny.gaussian_rows(30)
    space = FeatureSpace.infer(rows)
    made = crossings(rows, np.arange(30) % 2, space, 50, np.random.default_rng(0))
    assert all(np.isin(made[:, feature], rows[:, feature]).all() for feature in range(rows.shape[1]))
    assert (made[:, None] != rows[None]).any(axis=2).all(axis=1).mean() > 0.5  # most are no rows of before


def test_crossings_keep_every_constraint():
    output = np.arange(len(ROWS)) % 2
    made = crossings(ROWS, output, SPACE, 50, np.random.default_rng(0))
    frozen = SPACE.limits().frozen[0]
    assert made.shape == (50, ROWS.shape[1])
    assert (made[:, None, frozen] == ROWS[None][:, :, frozen]).all(axis=2).any(axis=1).all()  # all of it from one row
    assert crossings(ROWS, output, SPACE, 0, np.random.default_rng(0)).shape == (0, ROWS.shape[1])


def test_rows_of_a_rare_class_are_crossed_as_often_as_others():
    rare = np.r_[np.ones(5), np.zeros(195)]
    frame = pd.DataFrame({"rare": rare, "x": np.arange(200.0)})
    space = FeatureSpace.infer(frame)
    made = crossings(space.values(frame), rare, space, 2000, np.random.default_rng(0))
    # Half of the first rows are of the rare class, and keep 60 % of their features on average.
    assert 0.25 < made[:, 0].mean() < 0.40


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_feature_without_moves_stays_as_it_is(place):
    rows = pd.DataFrame({"a": [0.5, 1.5, 2.5] * 20, "b": [1.0, 4.0, 9.0] * 20})
    rows.insert(place, "when", pd.date_range("2020-01-01", periods=60))
    space, values = FeatureSpace.infer(rows, immutable=["when"]).taking_in(rows)
    made = moved(values, space, Moves.quantiles(values, space, QUANTILES), np.random.default_rng(0))
    assert (made[:, place] == values[:, place]).all() and (made != values).any()
