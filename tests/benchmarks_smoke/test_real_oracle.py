"""The oracle of real tables: an honest result passes, and every kind of lie is noticed by the promise it breaks."""

import warnings
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.fuzz.real_cases import RealCall, RealCase, RealSetting
from benchmarks.fuzz.real_oracle import RealOracle
from benchmarks.fuzz.real_rules import RealRule
from benchmarks.fuzz.real_tables import RealColumn, RealTable

pytestmark = pytest.mark.slow

CASE = RealCase(
    RealTable(
        (
            RealColumn("float64", gaps=0.3),
            RealColumn("float64", rule="increase"),
            RealColumn("Int64", gaps=0.2, fills=True),
            RealColumn("object", gaps=0.2),
            RealColumn("ordered"),
            RealColumn("date"),
            RealColumn("float64", rule="immutable"),
        ),
        groups=((3, "int64"),),
        derived=((0, 1, "sum"),),
        shares=True,
        seed=3,
    ),
    rules=(RealRule("order", 0, 1), RealRule("was label", 1, 0, 0)),
    call=RealCall(60),
    max_changes=6,
)


class Told:
    def __init__(self) -> None:
        self.setting = RealSetting(CASE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.result = self.setting.explain(self.setting.explainer())

    def broken(self, frame: pd.DataFrame) -> set[str]:
        lie = replace(self.result)
        lie.__dict__["frame"] = frame
        return {kind for kind, _ in RealOracle(self.setting, lie).check()}

    def with_cells(self, name: str, where: Any, cell: Any) -> pd.DataFrame:
        """The delivered rows with another cell in some of them."""
        frame = self.result.frame.copy()
        cells = [cell if there else old for old, there in zip(frame[name].tolist(), where, strict=True)]
        made = pd.Series([None] * len(cells), dtype=object)
        for i, one in enumerate(cells):
            made.iat[i] = one
        frame[name] = (
            made.set_axis(frame.index)
            if frame[name].dtype == object
            else made.astype(frame[name].dtype).set_axis(frame.index)
        )
        return frame


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


def test_an_honest_result_passes(told: Told) -> None:
    assert len(told.result.frame) > 40
    assert told.broken(told.result.frame) == set()


def test_a_filled_gap_is_noticed(told: Told) -> None:
    gaps = told.result.frame["n0"].isna()
    assert gaps.any() and "filled" in told.broken(told.with_cells("n0", gaps, 10.0))


def test_a_vanished_value_is_noticed(told: Told) -> None:
    assert "vanished" in told.broken(told.with_cells("n1", told.result.frame["n1"].notna(), np.nan))


def test_another_kind_of_missing_is_noticed(told: Told) -> None:
    none = [cell is None for cell in told.result.frame["c3"].tolist()]
    assert any(none) and "kind of missing" in told.broken(told.with_cells("c3", none, float("nan")))


def test_a_carried_cell_is_noticed(told: Told) -> None:
    assert "carried" in told.broken(told.with_cells("c5", [True] * len(told.result.frame), date(1999, 1, 1)))


def test_an_immutable_cell_and_a_wrong_way_are_noticed(told: Told) -> None:
    every = [True] * len(told.result.frame)
    assert "immutable" in told.broken(told.with_cells("n6", every, 10.0))
    assert {"direction", "bounds"} <= told.broken(told.with_cells("n1", every, -1000.0))


def test_a_torn_group_is_noticed(told: Told) -> None:
    name = told.setting.table.group_columns["g0"][0]
    set_ = told.result.frame[name] == 1
    assert set_.any() and "torn group" in told.broken(told.with_cells(name, set_, 0))


def test_a_wrong_derived_cell_is_noticed(told: Told) -> None:
    known = told.result.frame["d0"].notna()
    kinds = told.broken(told.with_cells("d0", known, 12345.0))
    assert kinds & {"derived", "derived, though nothing changed"}


def test_shares_that_do_not_sum_up_are_noticed(told: Told) -> None:
    assert "shares" in told.broken(told.with_cells("s0", [True] * len(told.result.frame), 99.0))


def test_a_broken_rule_and_too_many_changes_are_noticed(told: Told) -> None:
    every = [True] * len(told.result.frame)
    assert "rule (order)" in told.broken(told.with_cells("n0", told.result.frame["n0"].notna(), 1e6))
    told.setting.max_changes = 1
    kinds = told.broken(told.with_cells("n1", every, 1000.0))
    told.setting.max_changes = CASE.max_changes
    assert "max_changes" in kinds
