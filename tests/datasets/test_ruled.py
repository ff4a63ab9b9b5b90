"""Facts about the tables whose columns depend on each other: they keep their rules, and any seed gives its own rows."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.datasets import credit, load, simplex
from relax_plugin.datasets.generators import SHARES, with_dummies
from relax_plugin.errors import InputError


@pytest.mark.parametrize("name", ["credit", "simplex"])
def test_every_row_keeps_every_rule(name: str) -> None:
    dataset = load(name)
    space, values = dataset.space.taking_in(dataset.X)
    for rule in space.bound_rules:
        assert rule.holds(space.cells(values), space.cells(values)).all(), rule.text  # type: ignore[arg-type]
    assert 0.45 < dataset.y.mean() < 0.55


def test_credit_has_as_many_rules_and_derived_columns_as_it_says() -> None:
    space = load("credit").space
    assert len(space.rules) == 7 and len(space.derived) == 2 and len(space) == 10
    assert set(space.columns) - set(space.names) == {"payment", "left"}


def test_shares_sum_to_a_hundred() -> None:
    X, _ = simplex(500, seed=3)
    assert list(X.columns) == list(SHARES)
    assert np.allclose(X.sum(axis=1), 100.0, rtol=0, atol=1e-9) and (X >= 0).all().all()


@pytest.mark.parametrize("generate", [credit, simplex])
def test_the_same_seed_gives_the_same_rows_and_another_one_others(generate) -> None:  # type: ignore[no-untyped-def]
    (X, y), (again, y_again), (other, _) = generate(50, 1), generate(50, 1), generate(50, 2)
    pd.testing.assert_frame_equal(X, again)
    assert y.equals(y_again) and not X.equals(other)
    with pytest.raises(InputError):
        generate(0)


def test_dummies_are_one_group_for_each_column_of_categories() -> None:
    german = load("german")
    wide, constraints = with_dummies(german.X, german.constraints)
    space = FeatureSpace.infer(wide, **constraints)
    assert set(space.names) == set(german.X.columns)
    assert {feature.name for feature in space.features if feature.columns} == set(german.constraints["categorical"])
    assert next(feature for feature in space.features if feature.name == "personal").immutable
