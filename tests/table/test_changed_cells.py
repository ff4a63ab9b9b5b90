"""What answers change, cell by cell: in order, in the user's own cells, one-hot groups by their categories."""

import numpy as np
import pandas as pd

from relax_plugin import FeatureSpace
from relax_plugin.table.changed_cells import Answers, ChangedCell, changed_cells

ROWS = pd.DataFrame(
    {"age": [20, 30, 40, 50], "job_a": [1, 0, 0, 1], "job_b": [0, 1, 1, 0], "home": ["own", "rent", "rent", "own"]},
    index=["w", "x", "y", "z"],
)
SPACE = FeatureSpace.infer(ROWS, one_hot={"job": ["job_a", "job_b"]})


def answers(query, slot, changes):
    """Answers to some of the rows, each with some features at other values."""
    start = SPACE.values(ROWS)[query]
    values = start.copy()
    for row, feature, value in changes:
        values[row, SPACE.names.index(feature)] = value
    cells = SPACE.restore(values, ROWS.iloc[query], start).reset_index(drop=True)
    return Answers(np.array(query), np.array(slot), start, values, cells)


def test_changed_cells_come_answer_by_answer_in_the_order_of_the_features():
    made = answers([1, 1, 3], [0, 1, 0], [(0, "home", 0), (0, "age", 25), (1, "job", 0), (2, "age", 40)])
    told = changed_cells(SPACE, ROWS, made)
    assert told == [
        ChangedCell(1, 0, "age", 30, 25),
        ChangedCell(1, 0, "home", "rent", "own"),
        ChangedCell(1, 1, "job", "b", "a"),
        ChangedCell(3, 0, "age", 50, 40),
    ]
    assert [type(cell.before) for cell in told] == [int, str, str, int]


def test_answers_that_change_nothing_have_no_changed_cells():
    assert changed_cells(SPACE, ROWS, answers([0, 2], [0, 0], [])) == []
