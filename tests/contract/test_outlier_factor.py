"""OutlierFactor: the factor of scikit-learn on a one-hot encoding, the same in any batch, in bounded memory."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import LocalOutlierFactor

from relax_plugin import outlier_factor
from relax_plugin.outlier_factor import OutlierFactor

RNG = np.random.default_rng(0)


def mixed(rows: int, numbers: int, categories: tuple[int, ...], step: float = 0.0) -> Any:
    """Numbers, rounded to multiples of a step if there is one, and codes behind them."""
    values = RNG.normal(size=(rows, numbers))
    values = np.round(values / step) * step if step else values
    return np.column_stack([values, *(RNG.integers(0, size, rows) for size in categories)])


def one_hot(rows: Any, numbers: int, categories: tuple[int, ...]) -> Any:
    parts = [rows[:, numbers + place, None] == np.arange(size) for place, size in enumerate(categories)]
    return np.concatenate([rows[:, :numbers], *parts], axis=1, dtype=np.float64)


@pytest.mark.parametrize(
    ("count", "numbers", "categories", "neighbours"),
    [(600, 3, (), 20), (600, 3, (2, 40, 300), 20), (23, 1, (4,), 20), (23, 2, (), 22), (2, 1, (), 1)],
)
def test_it_is_the_factor_of_scikit_learn(count: int, numbers: int, categories: Any, neighbours: int) -> None:
    rows, new = mixed(count, numbers, categories), mixed(200, numbers, categories)
    new[0, 0] = 1e6
    mine = OutlierFactor(numbers, neighbours).fit(rows)
    its = LocalOutlierFactor(neighbours, novelty=True, algorithm="brute").fit(one_hot(rows, numbers, categories))
    np.testing.assert_allclose(mine.negative_outlier_factor_, its.negative_outlier_factor_, rtol=1e-7)
    np.testing.assert_allclose(mine.score_samples(new), its.score_samples(one_hot(new, numbers, categories)), rtol=1e-6)


@pytest.mark.parametrize(("numbers", "categories"), [(3, (5, 50)), (0, (3, 3, 4, 5)), (2, ())])
def test_a_row_has_the_same_score_in_any_batch(monkeypatch: Any, numbers: int, categories: Any) -> None:
    """Also where many training rows are equally far away, and to the last bit."""
    rows, new = np.unique(mixed(500, numbers, categories, step=0.5), axis=0), mixed(90, numbers, categories, step=0.5)
    factor = OutlierFactor(numbers, 10).fit(rows)
    scores = factor.score_samples(new)
    assert scores.tolist() == [factor.score_samples(row[None])[0] for row in new]
    for pairs in (1, 4 * len(rows)):
        monkeypatch.setattr(outlier_factor, "PAIRS_AT_ONCE", pairs)
        assert scores.tolist() == factor.score_samples(new).tolist()
        assert OutlierFactor(numbers, 10).fit(rows).density.tolist() == factor.density.tolist()


def test_a_category_that_no_training_row_has_is_as_far_away_as_another() -> None:
    rows, new = mixed(100, 2, (3,)), mixed(5, 2, (3,))
    without = rows[rows[:, 2] != 1]
    factor = OutlierFactor(2, 10).fit(without)
    unseen, foreign = new.copy(), new.copy()
    unseen[:, 2], foreign[:, 2] = 1, 77
    assert factor.score_samples(unseen).tolist() == factor.score_samples(foreign).tolist()


def test_equal_rows_and_very_large_numbers_have_finite_scores() -> None:
    rows = np.concatenate([np.zeros((30, 2)), mixed(20, 2, ()), [[1e200, 0.0]]])
    factor = OutlierFactor(2, 5).fit(rows)
    assert np.isfinite(factor.negative_outlier_factor_).all()
    assert np.isfinite(factor.score_samples(np.array([[0.0, 0.0], [1e300, -1e300], [1.0, 1.0]]))).all()


def test_memory_is_bounded_by_the_pairs_that_are_compared_at_once(monkeypatch: Any) -> None:
    """Not by the rows to score, nor by the number of categories: one-hot these would be 80 MB."""
    rows, new = mixed(1000, 2, (5000,)), mixed(2000, 2, (5000,))
    monkeypatch.setattr(outlier_factor, "PAIRS_AT_ONCE", 20_000)
    factor = OutlierFactor(2, 10).fit(rows)
    tracemalloc.start()
    factor.score_samples(new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = new.nbytes + 2 * 8 * 10 * len(new)  # the neighbours and distances of all
    assert peak < 3 * kept + 4 * 8 * 20_000
