"""The judge's own detectors: what they see of rows, and whom they call outliers, counted by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin.evaluation.yardsticks import SHARE, Encoding, outliers


def test_numbers_are_standardised_gaps_are_average_and_categories_become_columns() -> None:
    training = pd.DataFrame({"x": [1.0, 3.0, np.nan], "town": ["Rome", None, "Bonn"], "same": [7, 7, 7]})
    rows = pd.DataFrame({"x": [4.0, np.nan], "town": ["Bonn", None], "same": [8, 7]})
    expected = [[2.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]  # mean 2, deviation 1; a column without spread counts whole
    np.testing.assert_allclose(Encoding(training)(rows), expected)


def test_a_local_outlier_is_one_where_it_is_much_less_dense_than_around_its_neighbours() -> None:
    """Of 0, 1, … 20 on a line every point has neighbours at the same distances, the ends apart."""
    known = np.arange(21, dtype=np.float64)[:, None]
    found = outliers("lof", known)
    assert not found(np.array([[10.2], [5.0]])).any()
    assert found(np.array([[300.0], [-80.0]])).all()
    assert found(np.zeros((0, 1))).shape == (0,)


@pytest.mark.parametrize("kind", ["lof", "forest"])
def test_a_twentieth_of_the_rows_that_it_was_fitted_on_are_outliers(kind: str) -> None:
    known = np.random.default_rng(0).normal(size=(400, 3))
    found: Any = outliers(kind, known)
    far = np.full((1, 3), 9.0)
    assert found(far).all()
    if kind == "forest":  # a LocalOutlierFactor that is asked about its own rows finds them as their own neighbours
        assert found(known).mean() == pytest.approx(SHARE)
