"""Conversion of columns: the user's cells as float64 values, and values as cells in the user's dtypes.

Both are done for every query: a column is looked at closely only where something may be wrong with it. A missing number
is its feature's `missing_code`; a cell that is none of a feature's categories has a place behind them (`Foreign`).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Floats, Integers, Values
from relax_plugin.errors import InputError, UnknownCategoryError
from relax_plugin.table.columns import EXACT, Feature, as_integers, refuse_inexact
from relax_plugin.table.tables import numbers_of, some_of
from relax_plugin.table.vocabulary import Foreign, is_missing


def plain_numbers(table: Any, dtypes: Any, codes: Floats) -> Values | None:
    """All cells of a frame or column, if they are numbers of numpy about which nothing can be wrong; else None."""
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes):
        return None
    numbers = np.array(table.to_numpy(dtype=np.float64), order="C")
    exact = np.abs(numbers) < EXACT
    if exact.all():
        return numbers
    missing = np.isnan(numbers)
    return np.where(missing, codes, numbers) if (exact | missing).all() else None


def numbers_as_values(feature: Feature, column: "pd.Series[Any]") -> Floats:
    """The cells of a column of numbers."""
    numbers = plain_numbers(column, [column.dtype], np.array(feature.missing_code))
    if numbers is None:
        numbers = numbers_of(feature.name, column)
        refuse_inexact(feature, numbers)
        numbers = np.where(np.isnan(numbers), feature.missing_code, numbers)
    return numbers


def categories_as_values(
    feature: Feature, column: "pd.Series[Any]", places: Mapping[Hashable, int], foreign: Foreign
) -> tuple[Floats, Integers]:
    """The places of the cells of a column among categories and foreign cells; and the rows of those not known."""
    cells = column.tolist()
    try:
        codes = np.array([places.get(cell, -1) for cell in cells], dtype=np.float64)
    except TypeError:  # a cell that cannot be hashed
        codes = np.full(len(cells), -1.0)
    rows = np.flatnonzero(codes < 0)
    if len(rows) == 0:
        return codes, rows
    odd = [cells[row] for row in rows]
    if feature.vanishable:
        gaps = np.array([is_missing(cell) for cell in odd], dtype=bool)
        codes[rows[gaps]] = len(feature.categories) - 1.0  # the last one, which stands for all that is missing
        rows, odd = rows[~gaps], [cell for cell, gap in zip(odd, gaps, strict=True) if not gap]
    known = foreign.find(odd)
    codes[rows[known >= 0]] = len(feature.categories) + known[known >= 0]
    return codes, rows[known < 0]


def refuse_category(feature: Feature, column: "pd.Series[Any]", row: int) -> None:
    """Refuse a cell that is neither a category nor a foreign cell that is known."""
    cell = column.iloc[row]
    if is_missing(cell) or feature.carried:
        raise InputError(
            f"feature {feature.name!r} is {cell!r} in row {row}, which the rows of this call did not have."
        )
    raise UnknownCategoryError(
        f"feature {feature.name!r} is {cell!r} in row {row}, "
        f"but the training data has only {some_of(feature.categories)}."
    )


def column_of(feature: Feature, values: Floats, foreign: Foreign) -> "pd.Series[Any]":
    """Values of a feature as a column in its dtype."""
    cells: Any
    if feature.kind != "categorical":
        cells = _numbers(feature, values)
    else:
        objects = np.empty(len(feature.categories) + len(foreign.cells), dtype=object)
        objects[: len(feature.categories)] = feature.categories
        for place, cell in enumerate(foreign.cells, start=len(feature.categories)):
            objects[place] = cell  # which may be a list: it must not be spread out
        codes = values.astype(int)
        if isinstance(feature.dtype, pd.CategoricalDtype):
            cells = _categorical(feature, objects, codes)
        else:
            strange = feature.vanishable or (codes >= len(feature.categories)).any()
            dtype = _dtype_that_holds(feature.dtype, objects[np.unique(codes)]) if strange else feature.dtype
            cells = pd.array(objects[codes], dtype=dtype)
    column: pd.Series[Any] = pd.Series(cells, dtype=cells.dtype)  # else text of dtype object is read as str
    return column


def _numbers(feature: Feature, values: Floats) -> Any:
    missing = values == feature.missing_code
    if isinstance(feature.dtype, np.dtype):
        return in_dtype(np.where(missing, np.nan, values) if missing.any() else values, feature.dtype)
    present = np.where(missing, feature.low, values)
    whole = as_integers(present, feature.dtype) if pd.api.types.is_integer_dtype(feature.dtype) else present
    fractions = pd.array(present, dtype="float64")  # which queries may have where training had none
    cells: Any = fractions if whole is None else pd.array(whole).astype(feature.dtype)
    if missing.any():
        cells[missing] = pd.NA if not isinstance(cells.dtype, np.dtype) else np.nan
    return cells


def _categorical(feature: Feature, objects: Array, codes: Integers) -> pd.Categorical:
    """Cells of a pandas Categorical, whose own order may be another than the feature's; an unseen category is added."""
    known = feature.dtype.categories
    used = {place: objects[place] for place in np.unique(codes) if not is_missing(objects[place])}
    unseen = list(dict.fromkeys(cell for cell in used.values() if cell not in known))
    dtype = pd.CategoricalDtype([*known, *unseen], ordered=False) if unseen else feature.dtype
    place = np.full(len(objects), -1)
    for own, cell in used.items():
        place[own] = dtype.categories.get_loc(cell)
    return pd.Categorical.from_codes(place[codes], dtype=dtype)


def _dtype_that_holds(dtype: Any, cells: Array) -> Any:
    plain = isinstance(dtype, np.dtype) and dtype.kind in "biu"
    if plain and all(is_missing(cell) or isinstance(cell, int | float) for cell in cells):
        return np.dtype(object) if dtype.kind == "b" else np.dtype(np.float64)
    try:
        pd.array(cells, dtype=dtype)
    except (TypeError, ValueError):
        return np.dtype(object)
    return dtype


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
