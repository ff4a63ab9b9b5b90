"""Reading: trees as their library has them, and how the columns that they test are made of a model's rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Integers
from relax_plugin.proofs.exact import why_altered
from relax_plugin.trees.ensemble import Trees


class Unreadable(Exception):
    """Why a model is no tree ensemble that can be read; the end of a sentence."""


def refuse_altered(*parts: Any) -> None:
    """Refuse parts of a model that may behave otherwise than their library wrote them."""
    for part in parts:
        if reason := why_altered(part):
            raise Unreadable(f"it reads models and steps as their library wrote them, and the model {reason}")


@dataclass(frozen=True)
class Source:
    """The column of the model's rows that a tested column is made of."""

    column: int
    apart: str = ""  # who takes single values of it apart, so that it does not rise with a number; "" if nobody does


@dataclass(frozen=True)
class Reading:
    """Trees over a matrix that is made of the model's rows, column by column."""

    trees: Trees
    sources: tuple[Source, ...]  # of every column of the matrix
    matrix: Callable[[Any], Floats]  # the model's rows -> what its trees compare
    plain: bool = True  # whether the matrix is the rows themselves, as numbers
    gaps_of_sparse: bool = False  # whether what a sparse matrix leaves out is missing, not 0

    @classmethod
    def of_rows(cls, trees: Trees, gaps_of_sparse: bool = False) -> "Reading":
        """Trees over the very columns of the rows."""
        return cls(trees, tuple(map(Source, range(trees.features))), as_numbers, gaps_of_sparse=gaps_of_sparse)


def as_numbers(rows: Any) -> Floats:
    """Rows of numbers as a matrix; of a sparse one, what is left out is 0."""
    if hasattr(rows, "toarray"):
        return np.asarray(rows.toarray(), dtype=np.float64)
    if isinstance(rows, pd.DataFrame):
        return np.asarray(rows.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(rows, dtype=np.float64)


def as_codes(categories: dict[int, list[Any] | None]) -> Callable[[Any], Floats]:
    """How frames with columns of categories become a matrix of positions: among these, or those of the column."""

    def matrix(rows: Any) -> Floats:
        if not isinstance(rows, pd.DataFrame):
            return as_numbers(rows)
        columns = []
        for place in range(rows.shape[1]):
            column = rows.iloc[:, place]
            if isinstance(column.dtype, pd.CategoricalDtype):
                known = categories.get(place)
                codes = (column if known is None else column.cat.set_categories(known)).cat.codes.to_numpy()
                columns.append(np.where(codes < 0, np.nan, codes.astype(np.float64)))
            else:
                columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.column_stack(columns)

    return matrix


def nested_nodes(root: Any, sides: tuple[str, str]) -> tuple[list[Any], Integers]:
    """The nodes of a tree of mappings, the root first, and the places of their children (2, nodes), -1 of leaves."""
    nodes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(node[side] for side in sides[::-1] if side in node)
    place = {id(node): index for index, node in enumerate(nodes)}
    children = [[place[id(node[side])] if side in node else -1 for node in nodes] for side in sides]
    return nodes, np.array(children, dtype=np.int64)
