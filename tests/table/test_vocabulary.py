"""Foreign cells: told apart by what they are, not only by what they equal."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin.table.vocabulary import Foreign, Group, is_missing

LIST = ["a"]
CELLS = [1, True, 1.0, "1", None, np.nan, pd.NA, pd.NaT, LIST, ("a",), pd.Timestamp("2020-01-01")]


@pytest.mark.parametrize("cell", [None, np.nan, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_what_is_missing_is_missing(cell: object) -> None:
    assert is_missing(cell)


@pytest.mark.parametrize("cell", [0, "", False, [], np.array([np.nan]), "nan", (np.nan,)])
def test_what_is_there_is_not_missing(cell: object) -> None:
    assert not is_missing(cell)


def test_each_cell_has_a_place_of_its_own() -> None:
    places, foreign = Foreign().and_these(CELLS)
    assert places.tolist() == list(range(len(CELLS)))
    assert foreign.find([True, 1, None, float("nan"), LIST, ["a"], "2"]).tolist() == [1, 0, 4, 5, 8, -1, -1]
    assert foreign.missing.tolist() == [is_missing(cell) for cell in CELLS]
    again, more = foreign.and_these([None, "new", "new"])
    assert again.tolist() == [4, len(CELLS), len(CELLS)] and len(more.cells) == len(CELLS) + 1
    assert len(foreign.cells) == len(CELLS), "the old one is as it was"


def test_cells_of_a_group_with_gaps_are_found_again() -> None:
    one, other = (Group([1.0, float("nan"), 0.0]) for _ in range(2))
    foreign = Foreign.of([one, Group([1.0, 1.0, 0.0])])
    assert foreign.find([other, Group([1.0, None, 0.0])]).tolist() == [0, -1]
    assert foreign.missing.tolist() == [True, False]
