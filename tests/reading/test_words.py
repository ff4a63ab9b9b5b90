"""What rows, numbers and probabilities are called."""

import numpy as np
import pandas as pd
import pytest
from reference.readable import explained

from relax_plugin.reading.words import percent, row_name, row_names, spoken


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (6580, "6,580"),
        (np.int64(-12000), "-12,000"),
        (6580.0, "6,580"),
        (0.5, "0.5"),
        (1234.5678, "1,234.57"),
        (123456.789, "123,457"),
        (0.1 + 0.2, "0.3"),
        (0.00001234567, "1.23457e-05"),
        (1e20, "1e+20"),
        (float("nan"), "nan"),
        (True, "True"),
        (np.float32(2.5), "2.5"),
        ("A11", "A11"),
        (0, "0"),
        (0.0, "0"),
    ],
)
def test_a_cell_is_spoken_with_thousands_apart_and_six_digits(cell, text):
    assert spoken(cell) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.31, "31%"),
        (0.5, "50%"),
        (0.4996, "49.96%"),
        (0.501, "50.1%"),
        (0.0, "0%"),
        (1.0, "100%"),
        (0.0004, "0.04%"),
        (0.9999, "99.99%"),
    ],
)
def test_a_percentage_does_not_round_to_none_half_or_all(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (pd.RangeIndex(2), ["Row 0", "Row 1"]),
        (pd.Index([17, 4]), ["Row 17", "Row 4"]),
        (pd.Index([17, 4], name="customer"), ["customer 17", "customer 4"]),
        (pd.Index(["Smith", "Wu"]), ["Smith", "Wu"]),
        (pd.Index(["Smith", "Wu"], name="client"), ["client Smith", "client Wu"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["Row a, 1", "Row b, 2"]),
        (
            pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["shop", "till"]),
            ["shop a, till 1", "shop b, till 2"],
        ),
    ],
)
def test_a_query_is_called_by_the_index_of_its_table(index, names):
    result = explained(rows=2, index=index)
    assert row_names(result) == names
    assert [row_name(result, query) for query in range(2)] == names
