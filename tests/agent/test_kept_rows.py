"""Kept rows: training rows in a file, with those of their cells that are neither numbers nor categories."""

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.agent.kept_rows import middle_row, read_rows, written_rows
from relax_plugin.errors import InputError

ROWS = pd.DataFrame(
    {
        "a": [1.5, np.nan, 2.5, 0.5],
        "town": pd.Series(["Rome", None, "Bonn", np.nan], dtype=object),
        "when": pd.date_range("2020-01-01", periods=4),
        "tags": pd.Series([["x"], [], ["x", "y"], ["z"]], dtype=object),
        "job_cook": [1.0, 0.0, np.nan, 1.0],
        "job_smith": [0.0, 1.0, 0.0, 0.0],
    }
)


class Own:
    """A cell that no file can hold."""


def taken_in(rows: pd.DataFrame) -> tuple[FeatureSpace, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        space = FeatureSpace.infer(rows.dropna(), one_hot={"job": ["job_cook", "job_smith"]})
        return space.taking_in(rows)


def through_a_file(space: FeatureSpace, rows: Any) -> tuple[FeatureSpace, Any]:
    kept, cells = written_rows(space, rows)
    bare = FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    known, neighbours = read_rows(bare, kept, json.loads(json.dumps(cells)))
    return known, neighbours.rows


def test_rows_are_read_as_they_were_written() -> None:
    space, values = taken_in(ROWS)
    known, rows = through_a_file(space, values)
    pd.testing.assert_frame_equal(pd.DataFrame(known.model_input(rows)), pd.DataFrame(space.model_input(values)))
    assert known.model_input(rows)["town"].iloc[1] is None and np.isnan(known.model_input(rows)["town"].iloc[3])
    assert (
        known.values(ROWS.drop(columns="tags").assign(tags=known.model_input(rows)["tags"])).tolist() == rows.tolist()
    )


def test_some_rows_need_only_their_own_cells() -> None:
    space, values = taken_in(ROWS)
    _, cells = written_rows(space, values[2:3])
    assert {space.names[int(j)]: len(some) for j, some in cells.items()} == dict.fromkeys(
        ["town", "when", "tags", "job"], 1
    )
    assert "2020-01-03" in json.dumps(cells)
    known, rows = through_a_file(space, values[2:3])
    assert known.model_input(rows)["tags"].tolist() == [["x", "y"]]


def test_a_row_with_a_cell_that_no_file_holds_is_left_out() -> None:
    own = ROWS.copy()
    own["tags"] = pd.Series([["x"], Own(), ["y"], Own()], dtype=object)
    space, values = taken_in(own)
    known, rows = through_a_file(space, values)
    assert known.model_input(rows)["tags"].tolist() == [["x"], ["y"]]
    own["tags"] = pd.Series([Own() for _ in range(4)], dtype=object)
    space, values = taken_in(own)
    with pytest.raises(InputError, match=r"feature 'tags' has .*, which a file cannot hold"):
        written_rows(space, values)


def test_without_rows_there_is_a_cell_of_each_carried_column_to_ask_with() -> None:
    space, values = taken_in(ROWS)
    known, rows = through_a_file(space, values[:0])
    assert len(rows) == 0
    asked = known.model_input(middle_row(known))
    assert asked["when"].tolist() == [pd.Timestamp("2020-01-01")] and asked["tags"].tolist() == [["x"]]
    assert asked[["job_cook", "job_smith"]].sum(axis=1).tolist() == [1.0]


@pytest.mark.parametrize(
    "cells",
    [
        {"9": ["x"]},
        {"0": ["x"]},
        {"1": []},
        {"1": "x"},
        {"1": ["x", "x"]},
        {"4": [{"$": "list", "is": [1.0]}]},
        {"1": [{"$": "code"}]},
    ],
)
def test_what_no_rows_could_have_left_is_refused(cells: Any) -> None:
    space, _ = taken_in(ROWS)
    bare = FeatureSpace.from_dict(space.to_dict())
    with pytest.raises(InputError, match="cell"):
        read_rows(bare, np.zeros((0, len(bare))), cells)


def test_codes_beyond_the_cells_are_refused() -> None:
    space, values = taken_in(ROWS)
    kept, cells = written_rows(space, values)
    bare = FeatureSpace.from_dict(space.to_dict())
    with pytest.raises(InputError, match="a category that there cannot be"):
        read_rows(bare, kept, {})
    kept[0, 2] = 99.0
    with pytest.raises(InputError, match="a category that there cannot be"):
        read_rows(bare, kept, cells)
