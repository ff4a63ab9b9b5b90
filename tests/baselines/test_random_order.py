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


@pytest.mark.parametrize("limit", [5, 12, 40])
def test_a_query_costs_no_more_than_it_may(limit: int) -> None:
    result = made(max_queries=limit).explain(ROWS[100:])
    assert (result.rows_queried <= limit).all()
    assert result.found.mean() >= {5: 0.0, 12: 0.5, 40: 1.0}[limit]


def test_without_a_limit_all_are_solved() -> None:
    assert made().explain(ROWS[100:]).found.all()


def test_another_seed_is_another_order() -> None:
    first, again, other = (made(seed=seed, max_queries=15).explain(ROWS[100:]).values for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("limit", [1, 2.5, 10**10, "40", True])
def test_a_wrong_limit_is_refused_by_a_sentence(limit: object) -> None:
    with pytest.raises(InputError, match=r"^max_queries is .* must be .*\.$"):
        made(max_queries=limit)
