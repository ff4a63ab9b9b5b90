"""Cells as plain data: what JSON does not know is written with its kind, and read back as it was."""

import datetime
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin.errors import InputError
from relax_plugin.table.plain_cells import from_plain, to_plain

CELLS: list[Any] = [
    *("text", "", 1, 1.5, True, False, 2**60, -0.0),
    *(pd.Timestamp("2020-01-01 12:00:00.000000001", tz="Europe/Rome"), pd.Timestamp("1900-02-03")),
    *(pd.Timedelta("3 days 00:00:00.000000007"), datetime.timedelta(days=-3, microseconds=5)),
    *(datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.date(1999, 12, 31), datetime.time(12, 30, 0, 1)),
    *(Decimal("1.10"), b"\x00\xff", 1 + 2j),
    *([], [1, [None, "x"]], ("a", 1), {"a": [1], 2: None}, {1, 2}),
]


@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_cells_are_read_as_they_were_written(cell: Any) -> None:
    again = from_plain(json.loads(json.dumps(to_plain(cell, "f"))))
    assert type(again) is type(cell) and again == cell and repr(again) == repr(cell)


def test_what_is_missing_stays_what_it_is() -> None:
    assert from_plain(to_plain(None, "f")) is None
    assert from_plain(to_plain(pd.NA, "f")) is pd.NA and from_plain(to_plain(pd.NaT, "f")) is pd.NaT
    assert np.isnan(from_plain(to_plain(np.nan, "f"))) and np.isnan(from_plain(to_plain(np.float32("nan"), "f")))


@pytest.mark.parametrize("cell", [np.int64(3), np.bool_(True), np.str_("x"), np.float32(0.5)])
def test_scalars_of_numpy_become_those_of_python(cell: Any) -> None:
    assert from_plain(to_plain(cell, "f")) == cell.item()


def test_arrays_are_lists() -> None:
    assert from_plain(to_plain(np.array([1, 2]), "f")) == [1, 2]


@pytest.mark.parametrize("cell", [object(), lambda: 0, type("Own", (), {})()])
def test_what_no_file_can_hold_is_refused_by_name(cell: Any) -> None:
    with pytest.raises(InputError, match=r"feature 'tags' has .*, which a file cannot hold"):
        to_plain(cell, "tags")


def test_lists_within_lists_without_an_end_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InputError, match="cannot hold"):
        to_plain(endless, "tags")


@pytest.mark.parametrize(
    "data", [[1], {"$": "code", "is": "x"}, {"is": 1}, {"$": "decimal", "is": "1" * 20_000}, {"$": "list", "is": [[1]]}]
)
def test_what_none_wrote_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match="a file holds"):
        from_plain(data)
