"""Facts about what the judge checks of whole rows: each kind of lie is counted, in its own column, and nothing else."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace, Rule
from relax_plugin.evaluation.whole_rows import KINDS, WholeRows

TRAINING = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 60, 45],
        "years": [1, 5, 9, 20, 40, 3],
        "income": [1.0, 2.0, np.nan, 4.0, 5.0, 3.0],
        "home": pd.Series(["own", None, "rent", "own", float("nan"), "rent"], dtype=object),
        "job_a": [1, 0, 0, 1, 0, 0],
        "job_b": [0, 1, 0, 0, 1, 0],
        "job_c": [0, 0, 1, 0, 0, 1],
        "since": pd.Series([date(2020, 1, day) for day in range(1, 7)], dtype=object),
    }
)
TRAINING["total"] = TRAINING["age"] + 2.0 * TRAINING["years"]


def space_of(**said: Any) -> FeatureSpace:
    groups, formulas = {"job": ["job_a", "job_b", "job_c"]}, {"total": "age + 2 * years"}
    return FeatureSpace.infer(TRAINING, one_hot=groups, derived=formulas, rules=["age >= years + 16"], **said)


def counted(space: FeatureSpace, row: int, **cells: Any) -> dict[str, int]:
    """What is counted of one delivered row with these cells."""
    before = TRAINING.iloc[[row]]
    after = before.astype(dict.fromkeys(cells, object)).copy()
    for name, cell in cells.items():
        after[name] = pd.Series([cell], index=after.index, dtype=object)
        if before[name].dtype != object:
            after[name] = after[name].astype(before[name].dtype)
    counts = WholeRows(space, before, after).counts()
    return {kind: int(counts[kind][0]) for kind in KINDS if counts[kind][0]}


def test_a_row_that_keeps_everything_is_not_counted() -> None:
    assert counted(space_of(), 0) == {}
    assert counted(space_of(), 0, years=4, total=28.0, job_a=0, job_b=1, income=2.5, home="rent") == {}


def test_a_broken_rule_is_counted() -> None:
    assert counted(space_of(), 0, years=5, total=30.0) == {"broken_rules": 1}


def test_a_query_that_breaks_a_rule_breaks_nothing_while_nothing_changes() -> None:
    space = space_of().with_rules(["age > 1000", Rule(lambda after, before: after["age"] > 1000, columns=["age"])])
    assert counted(space, 0) == {}
    assert counted(space, 0, income=2.0) == {"broken_rules": 2}


@pytest.mark.parametrize("cells", [{"job_b": 1}, {"job_a": 0}, {"job_a": 2}])
def test_a_torn_group_is_counted(cells: dict[str, int]) -> None:
    assert counted(space_of(), 0, **cells) == {"torn_groups": 1}


def test_a_filled_gap_a_vanished_value_and_another_kind_of_gap_are_counted() -> None:
    assert counted(space_of(), 2, income=3.0) == {"changed_gaps": 1}
    assert counted(space_of(), 1, home="own") == {"changed_gaps": 1}
    assert counted(space_of(), 0, income=np.nan) == {"changed_gaps": 1}
    assert counted(space_of(), 1, home=float("nan"))["changed_gaps"] == 1


def test_what_may_be_filled_or_vanish_is_not_counted() -> None:
    space = space_of(fill_missing=["income", "home"], may_vanish=["income"])
    assert counted(space, 2, income=3.0) == {}
    assert counted(space, 1, home="own") == {}
    assert counted(space, 0, income=np.nan) == {}


def test_a_wrong_derived_cell_is_counted() -> None:
    assert counted(space_of(), 0, years=4, total=22.0) == {"altered_cells": 1}
    assert counted(space_of(), 0, total=22.5) == {"altered_cells": 1}


def test_a_carried_cell_that_differs_is_counted() -> None:
    assert counted(space_of(), 0, since=date(1999, 1, 1)) == {"altered_cells": 1}


def test_an_equal_cell_of_another_type_or_sign_is_counted() -> None:
    rows = pd.DataFrame({"a": [0.0, -0.0, 1.0], "b": pd.Series(["x", "y", "z"], dtype=object)})
    space = FeatureSpace.infer(rows)
    assert WholeRows(space, rows, rows.assign(a=[0.0, 0.0, 1.0])).altered_cells().tolist() == [0, 1, 0]
    texts = pd.Series([np.str_("x"), "y", "z"], dtype=object)
    assert WholeRows(space, rows, rows.assign(b=texts)).altered_cells().tolist() == [1, 0, 0]
