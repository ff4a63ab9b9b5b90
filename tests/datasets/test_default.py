"""Facts about `default` as it is embedded: what a customer may be told, and what not."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.datasets import Dataset, load
from relax_plugin.evaluation.whole_rows import WholeRows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def default() -> Dataset:
    return load("default")


@pytest.fixture(scope="module")
def space(default: Dataset) -> FeatureSpace:
    return default.space


def test_codes_are_categories_with_words_and_amounts_have_the_units_of_the_source(
    default: Dataset, space: FeatureSpace
) -> None:
    kinds = {feature.name: feature.kind for feature in space.features}
    assert {name for name, kind in kinds.items() if kind == "categorical"} == {"SEX", "EDUCATION", "MARRIAGE"}
    for name in ("SEX", "EDUCATION", "MARRIAGE"):
        assert set(default.X[name]) == set(default.words[name]), name
    assert (default.X["LIMIT_BAL"] % 10_000 == 0).sum() == 29_997  # the step of the space
    assert default.y.mean() == pytest.approx(0.2212)
    assert default.origin.count("CC BY 4.0") == 1


def test_what_a_person_is_and_what_is_past_stays(space: FeatureSpace) -> None:
    fixed = {feature.name for feature in space.features if feature.immutable}
    assert {"SEX", "AGE", "EDUCATION", "MARRIAGE", "PAY_6", "BILL_AMT4", "PAY_AMT5"} <= fixed
    assert not fixed & {"LIMIT_BAL", "PAY_0", "BILL_AMT1", "PAY_AMT1"}
    directions = {feature.name: feature.direction for feature in space.features}
    assert (directions["PAY_0"], directions["BILL_AMT1"], directions["PAY_AMT1"]) == (
        "decrease",
        "decrease",
        "increase",
    )


def test_rows_as_they_are_break_no_rule(default: Dataset, space: FeatureSpace) -> None:
    rows = default.X[:2000]
    assert not WholeRows(space, rows, rows).broken_rules().any()


@pytest.mark.parametrize(
    ("cells", "broken"),
    [
        ({"PAY_0": 0}, 1),  # less late, and has paid nothing
        ({"PAY_0": 0, "PAY_AMT1": 400}, 0),
        ({"PAY_AMT1": 9_000}, 1),  # more than the bill
        ({"LIMIT_BAL": 10_000, "BILL_AMT1": 12_000}, 1),
        ({"LIMIT_BAL": 10_000, "BILL_AMT1": 9_000}, 0),
    ],
)
def test_a_rule_is_broken_by_what_no_officer_would_say(
    default: Dataset, space: FeatureSpace, cells: dict[str, Any], broken: int
) -> None:
    row = default.X.iloc[[0]].assign(LIMIT_BAL=20_000, BILL_AMT1=15_000, BILL_AMT2=4_000, PAY_AMT1=0, PAY_0=2)
    changed = pd.DataFrame(row.assign(**cells))
    assert np.asarray(WholeRows(space, row, changed).broken_rules()).tolist() == [broken]
