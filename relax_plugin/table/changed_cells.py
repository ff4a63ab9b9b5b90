"""Changed cells: what answers change, cell by cell, as plain tuples that are read much quicker than a table."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relax_plugin.arrays import Integers, Values
from relax_plugin.table.translation import Translation


class ChangedCell(NamedTuple):
    """One cell of a counterfactual that is not as in its query."""

    query: int
    slot: int
    feature: Hashable
    before: Any
    after: Any


class Answers(NamedTuple):
    """Counterfactuals, a row each, in the order of their queries and slots."""

    query: Integers
    slot: Integers
    start: Values
    values: Values
    cells: pd.DataFrame  # as they are delivered


def changed_cells(space: Translation, queries: pd.DataFrame, answers: Answers) -> list[ChangedCell]:
    """All changed cells of answers to queries, answer by answer, in the order of the features.

    Of a one-hot group the categories are what is read.
    """
    query, slot = answers.query.tolist(), answers.slot.tolist()
    rows, features = np.nonzero(answers.values != answers.start)
    cells: dict[int, tuple[list[Any], list[Any]]] = {}  # of each feature that changes: before and after, by answer
    for j in np.unique(features).tolist():
        if space.features[j].columns:
            before, after = (space.categories_of_group(j, codes[:, j]) for codes in (answers.start, answers.values))
            cells[j] = before.tolist(), after.tolist()
        else:
            asked = queries[space.names[j]].tolist()
            cells[j] = [asked[one] for one in query], answers.cells[space.names[j]].tolist()
    return [
        ChangedCell(query[row], slot[row], space.names[j], cells[j][0][row], cells[j][1][row])
        for row, j in zip(rows.tolist(), features.tolist(), strict=True)
    ]
