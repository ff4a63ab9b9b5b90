"""`random-order`: a control whose answers owe nothing to learning."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace, make_explainer
from relax_plugin.errors import InputError

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 6)), columns=list("abcdef"))


def one_sided(rows: pd.DataFrame) -> np.ndarray:
    """Probabilities that rise with every feature."""
    high = 1.0 / (1.0 + np.exp(-rows.to_numpy().sum(axis=1)))
    return np.column_stack([1.0 - high, high])


def made(**options: object):
    return make_explainer("random-order", one_sided, FeatureSpace.infer(ROWS), **options).fit(ROWS[:100])


def test_it_finds_by_search_alone_within_its_rows() -> None:
    result = made(fallback=False).explain(ROWS[100:])
    assert result.found.all()
    assert (result.rows_queried <= 40).all()


def test_another_seed_is_another_order() -> None:
    first, again, other = (made(seed=seed).explain(ROWS[100:]).values for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_its_options_are_those_of_every_search() -> None:
    with pytest.raises(InputError, match="rows_per_instance is 1"):
        made(rows_per_instance=1)
