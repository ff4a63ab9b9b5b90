"""Feature arrays: cells by name, rows of values as rules and formulas see them."""

import warnings

import numpy as np
import pandas as pd

from relax_plugin import FeatureSpace

ROWS = pd.DataFrame(
    {
        "a": [1.0, np.nan, 3.5],
        "size": pd.Categorical(["S", "L", None], categories=["S", "M", "L"], ordered=True),
        "job_cook": [1, 0, 0],
        "job_smith": [0, 1, 1],
        "twice": [2.0, np.nan, 7.0],
    }
)
SPACE, VALUES = FeatureSpace.infer(
    ROWS, one_hot={"job": ["job_cook", "job_smith"]}, derived={"twice": "a * 2"}
).taking_in(ROWS)


def test_cells_are_numbers_places_columns_of_groups_and_derived_ones() -> None:
    cells = SPACE.cells(VALUES)
    np.testing.assert_array_equal(cells["a"], [1.0, np.nan, 3.5])
    np.testing.assert_array_equal(cells["size"], [0.0, 2.0, np.nan])
    np.testing.assert_array_equal(cells["job"], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(cells["job_cook"], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(cells["twice"], [2.0, np.nan, 7.0])
    assert set(cells) == {"a", "size", "job", "job_cook", "job_smith", "twice"} and len(cells) == 6


def test_the_columns_of_a_torn_group_are_unknown() -> None:
    torn = ROWS.assign(job_cook=[1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        space, values = SPACE.taking_in(torn)
    np.testing.assert_array_equal(space.cells(values)["job_cook"], [1.0, np.nan, np.nan])
