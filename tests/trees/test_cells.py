"""Cells of a space as trees see it: sets of categories, each once."""

import numpy as np
import pytest

from relax_plugin.trees.cells import COUNTED, distinct_rows


@pytest.mark.parametrize("width", [1, 5, COUNTED, COUNTED + 1])
@pytest.mark.parametrize("leaves", [0, 1, 200])
def test_distinct_rows_are_those_that_sorting_finds(width, leaves):
    met = np.random.default_rng(width).random((leaves, width)) < 0.6
    inside, which = distinct_rows(met)
    expected, places = np.unique(met, axis=0, return_inverse=True)
    assert np.array_equal(inside, expected) and inside.dtype == bool
    assert np.array_equal(which, places.ravel())
