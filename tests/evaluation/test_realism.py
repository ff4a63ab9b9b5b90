"""How real counterfactuals look: each number computed by hand on a few cells."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.evaluation.metrics import Neighbours, edge_cells, percentile_shift, unseen_cells, ynn

TRAINING = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [10, 20, 20, 40], "town": ["Bonn", "Bonn", "Rome", "Rome"]})
SPACE = FeatureSpace.infer(TRAINING)
KNOWN = SPACE.values(TRAINING)  # of towns the positions: Bonn 0, Rome 1
QUERY = np.array([[1.0, 20.0, 0.0]])


def changed(**cells: float) -> np.ndarray:
    row = QUERY.copy()
    for name, value in cells.items():
        row[0, SPACE.names.index(name)] = value
    return row


def test_ynn_is_the_share_of_the_nearest_rows_with_the_answer_reached() -> None:
    nearest = np.array([[0, 1, 2, 3], [2, 3, 0, 1]])[:, :3]
    known = np.array([0.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(ynn(nearest, known, np.array([1.0, 0.0])), [2 / 3, 2 / 3])
    assert ynn(nearest, known, np.array([5.0, 1.0])).tolist() == [0.0, 1 / 3]


def test_the_nearest_rows_are_those_of_the_distance_of_the_space() -> None:
    query = np.array([[2.2, 20.0, 1.0], [0.1, 12.0, 1.0]])
    nearest = Neighbours(SPACE, KNOWN).nearest(query, 2)
    for row, found in zip(query, nearest, strict=True):
        distances = SPACE.distance(np.repeat(row[None], len(KNOWN), axis=0), KNOWN)
        assert found.tolist() == np.argsort(distances)[:2].tolist()
    assert Neighbours(SPACE, KNOWN).nearest(query, 9).shape == (2, 4), "all of them where there are fewer"
    assert Neighbours(SPACE, KNOWN).nearest(query[:0], 2).shape == (0, 2)


@pytest.mark.parametrize(
    ("row", "edge", "unseen"),
    [
        (changed(x=2.0, y=40), 0.5, 0.0),  # 40 is the largest y
        (changed(x=0.5), 0.0, 1.0),  # between two that were seen
        (changed(x=-7.0, y=50, town=1.0), 2 / 3, 2 / 3),  # beyond both; a town is at no end, and was seen
        (changed(x=3.0), 1.0, 0.0),
        (changed(), np.nan, np.nan),
    ],
)
def test_changed_cells_at_the_edge_of_the_data_or_never_seen_are_counted(
    row: np.ndarray, edge: float, unseen: float
) -> None:
    np.testing.assert_allclose(edge_cells(SPACE, QUERY, row, KNOWN), [edge])
    np.testing.assert_allclose(unseen_cells(QUERY, row, KNOWN), [unseen])


def test_the_percentile_shift_counts_the_rows_that_a_number_passes() -> None:
    rows = np.concatenate([changed(x=3.0), changed(y=10), changed(x=-1.0, town=1.0), changed()])
    # x: 1 has a share of 2/4 at or below it, 3 all. y: 20 has 3/4, 10 has 1/4. -1 has none, and a town counts 1.
    np.testing.assert_allclose(
        percentile_shift(SPACE, np.repeat(QUERY, 4, axis=0), rows, KNOWN), [0.5, 0.5, 0.5 + 1.0, 0.0]
    )


def test_missing_cells_are_at_no_edge_and_count_one_shift() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"x": [1.0, 2.0, np.nan]}), fill_missing=["x"], may_vanish=["x"])
    known = space.values(pd.DataFrame({"x": [1.0, 2.0, np.nan]}))
    gone, start = known[2:], np.array([[1.0]])
    assert edge_cells(space, start, gone, known).tolist() == [0.0]
    assert percentile_shift(space, start, gone, known).tolist() == [1.0]
    assert edge_cells(space, gone, np.array([[1.5]]), known).tolist() == [0.0], "a gap is not the smallest number"
