"""Conversion of columns: the user's cells as float64 values, and values as cells in the user's dtypes.

Both are done for every query: a column is looked at closely only where something may be wrong with it.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Floats, Values
from relax_plugin.columns import EXACT, Feature, as_integers, refuse_inexact
from relax_plugin.errors import UnknownCategoryError
from relax_plugin.tables import numbers_of, refuse_missing, refuse_unhashable


def plain_numbers(table: Any, dtypes: Any) -> Values | None:
    """All cells of a frame or column, if they are numbers of numpy about which nothing can be wrong; else None."""
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes):
        return None
    numbers = np.array(table.to_numpy(dtype=np.float64), order="C")
    return numbers if (np.abs(numbers) < EXACT).all() else None  # which a missing number is not either


def values_of(feature: Feature, column: "pd.Series[Any]", places: Mapping[Hashable, int]) -> Floats:
    """The cells of a column as numbers: of a category, its place among all."""
    if feature.kind == "categorical":
        try:
            codes = np.array([places.get(cell, -1) for cell in column.tolist()], dtype=np.float64)
        except TypeError:  # a cell that cannot be hashed
            codes = np.full(1, -1.0)
        if (codes < 0).any():
            _refuse_category(feature, column, codes)
        return codes
    numbers = plain_numbers(column, [column.dtype])
    if numbers is None:
        refuse_missing(feature.name, column)
        numbers = numbers_of(feature.name, column)
        refuse_inexact(feature, numbers)
    return numbers


def _refuse_category(feature: Feature, column: "pd.Series[Any]", codes: Floats) -> None:
    refuse_missing(feature.name, column)
    refuse_unhashable(feature.name, column)
    row = int(np.argmax(codes < 0))
    raise UnknownCategoryError(
        f"feature {feature.name!r} is {column.iloc[row]!r} in row {row}, "
        f"but the training data has only {list(feature.categories)}."
    )


def column_of(feature: Feature, values: Floats) -> "pd.Series[Any]":
    """Values of a feature as a column in its dtype."""
    cells: Any
    if isinstance(feature.dtype, np.dtype) and feature.kind != "categorical":
        cells = in_dtype(values, feature.dtype)
    elif feature.kind != "categorical":
        whole = as_integers(values, feature.dtype) if pd.api.types.is_integer_dtype(feature.dtype) else values
        fractions = pd.array(values, dtype="float64")  # which queries may have where training had none
        cells = fractions if whole is None else pd.array(whole).astype(feature.dtype)
    elif isinstance(feature.dtype, pd.CategoricalDtype):
        cells = pd.Categorical.from_codes(values.astype(int), dtype=feature.dtype)
    else:
        objects = np.empty(len(feature.categories), dtype=object)
        objects[:] = feature.categories
        cells = pd.array(objects[values.astype(int)], dtype=feature.dtype)
    column: pd.Series[Any] = pd.Series(cells, dtype=cells.dtype)  # else text of dtype object is read as str
    return column


def columns_by_dtype(features: Sequence[Feature]) -> dict[np.dtype[Any], Any]:
    """The columns of each dtype, if all hold numbers in dtypes of numpy; else nothing."""
    dtypes = [feature.dtype for feature in features]
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes)
    if not plain or any(feature.kind == "categorical" for feature in features):
        return {}
    if len(set(dtypes)) == 1:
        return {dtypes[0]: slice(None)}
    return {dtype: np.flatnonzero([own == dtype for own in dtypes]) for dtype in dict.fromkeys(dtypes)}


def in_dtype(values: Floats, dtype: np.dtype[Any]) -> Array:
    """A copy of the values in a dtype of numpy; as they are where it holds whole numbers and some have fractions."""
    cells = as_integers(values, dtype) if dtype.kind in "iu" else values.astype(dtype)
    return values.copy() if cells is None else cells
