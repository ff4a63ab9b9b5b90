"""Starts of training: mixtures of training rows are rows that there might be."""

import numpy as np
import pandas as pd
import pytest
from reference import tiny

from relax_plugin.agent.starts import mixtures
from relax_plugin.features import FeatureSpace

MIXED = tiny.mixed_rows()
SPACE = tiny.mixed_space(MIXED)
ROWS = SPACE.values(MIXED)


@pytest.mark.parametrize("count", [0, 1, 500])
def test_mixtures_are_rows_that_there_might_be(count):
    made = mixtures(ROWS, SPACE, np.random.default_rng(0), count)
    assert made.shape == (count, len(SPACE))
    low, high = SPACE.limits().ends
    numbers = ~SPACE.is_categorical
    assert ((made >= low) & (made <= high))[:, numbers].all()
    for j in np.flatnonzero(SPACE.is_categorical):
        assert set(made[:, j]) <= set(ROWS[:, j])


def test_what_never_changes_comes_from_a_training_row():
    rows = pd.DataFrame({"a": [0.5, 1.5, 2.5] * 20, "when": pd.date_range("2020-01-01", periods=60)})
    space, values = FeatureSpace.infer(rows, immutable=["when"]).taking_in(rows)
    mixed = mixtures(values, space, np.random.default_rng(0), 200)
    assert set(mixed[:, 1]) <= set(values[:, 1])


def test_mixtures_of_rows_with_gaps_have_gaps_or_numbers_within_bounds():
    rows = pd.DataFrame({"a": [0.5, 1.5, np.nan, 2.5] * 20, "b": [1.0, 4.0, 9.0, np.nan] * 20})
    space = FeatureSpace.infer(rows)
    mixed = mixtures(space.values(rows), space, np.random.default_rng(0), 500)
    gone = mixed == space.missing_codes
    assert gone.any(axis=0).all() and not gone.all(axis=0).any()
    low, high = space.limits().ends
    assert (gone | ((mixed >= low) & (mixed <= high))).all()
