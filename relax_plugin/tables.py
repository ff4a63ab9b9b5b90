"""The tables that rows come in: DataFrames of several libraries and arrays, their columns read and written."""

from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any

import narwhals
import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import ColumnError, InputError, MissingValueError

Rows = pd.DataFrame | Array


def pandas_or_array(X: Any) -> Rows:
    """The rows themselves, or those of another library's table (polars, pyarrow, ...) as a pandas DataFrame."""
    if isinstance(X, pd.DataFrame | np.ndarray):
        return X
    table = narwhals.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(table, narwhals.DataFrame):
        raise InputError(f"rows must be a DataFrame (pandas, polars, ...) or a numpy array, not {type(X).__name__}.")
    for name, kind in table.schema.items():
        if isinstance(kind, narwhals.Time):
            raise InputError(f"column {name!r} holds times of day, which are neither numbers nor categories.")
    exact = [name for name, kind in table.schema.items() if isinstance(kind, narwhals.Decimal)]
    return pd.DataFrame({name: table[name].to_numpy() for name in table.columns}).astype(dict.fromkeys(exact, float))


def as_frame(X: Rows, width: int | None = None) -> pd.DataFrame:
    """A DataFrame of the rows; columns of an array are called x0, x1, ..."""
    X = pandas_or_array(X)
    if isinstance(X, pd.DataFrame):
        if not X.columns.is_unique:
            raise ColumnError(f"column {X.columns[X.columns.duplicated()][0]!r} occurs twice.")
        return X
    if X.ndim != 2 or (width is not None and X.shape[1] != width):
        wanted = "(rows, features)" if width is None else f"(rows, {width})"
        raise ColumnError(f"the array has shape {X.shape}, but {wanted} is needed.")
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return frame.infer_objects() if X.dtype == object else frame


def is_categorical(column: "pd.Series[Any]") -> bool:
    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        raise InputError(f"feature {column.name!r} is sparse; give dense columns: frame.sparse.to_dense().")
    if pd.api.types.is_object_dtype(dtype):
        exact = column.map(lambda cell: isinstance(cell, Decimal)).to_numpy(dtype=bool)
        if exact.any():
            row = int(np.argmax(exact))
            raise InputError(
                f"feature {column.name!r} is Decimal({column.iloc[row]}) in row {row}; numbers must be int or float: "
                "write astype(float)."
            )
    if is_category_dtype(dtype, numbers=False):
        return True
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return False
    raise InputError(f"feature {column.name!r} has dtype {dtype}; numbers, text, bool and Categorical are supported.")


def is_category_dtype(dtype: Any, numbers: bool = True) -> bool:
    """Whether a column of the dtype may hold categories; those written as numbers only where the user says so."""
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return True
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return True
    return numbers and pd.api.types.is_numeric_dtype(dtype)


def refuse_missing(name: Hashable, column: "pd.Series[Any]") -> None:
    missing = column.isna().to_numpy()
    if missing.any():
        row = int(np.argmax(missing))
        raise MissingValueError(f"feature {name!r} is missing in row {row}; fill it in or drop the row.")


def refuse_unhashable(name: Hashable, column: "pd.Series[Any]") -> None:
    hashable = column.map(lambda cell: isinstance(cell, Hashable)).to_numpy(dtype=bool)
    if not hashable.all():
        row = int(np.argmin(hashable))
        raise InputError(
            f"feature {name!r} is {column.iloc[row]!r} in row {row}, a {type(column.iloc[row]).__name__}; "
            "a cell must be one number or one category."
        )


def numbers_of(name: Hashable, column: "pd.Series[Any]") -> Floats:
    if len(column) and pd.api.types.is_string_dtype(column):  # numbers as text would be cast silently
        raise InputError(f"feature {name!r} should be numeric, but is text in row 0: {column.iloc[0]!r}.")
    try:
        numbers = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"feature {name!r} should be numeric, but has dtype {column.dtype}: {error}.") from error
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InputError(f"feature {name!r} is {numbers[row]} in row {row}, but must be finite.")
    return numbers


def with_cells(column: "pd.Series[Any]", where: Booleans, cells: "pd.Series[Any]") -> "pd.Series[Any]":
    """The column with new cells; in a dtype that holds both where the query's own (whole numbers, say) cannot."""
    if column.dtype == cells.dtype:
        own = column.array.copy()
        own[where] = cells.array
        return pd.Series(own, index=column.index, dtype=column.dtype)
    both: pd.Series[Any] = pd.concat([column[~where], cells.set_axis(column.index[where])])
    return both.sort_index()


def array_with_cells(array: Array, where: Booleans, cells: Mapping[int, "pd.Series[Any]"]) -> Array:
    """A copy of the array with new cells, column by column; in a dtype that holds both."""
    dtype = array.dtype
    if dtype.kind not in "OU":
        dtype = np.result_type(dtype, *(np.asarray(column).dtype for column in cells.values()))
    array = array.astype(object if dtype.kind == "U" else dtype)  # the longest text may be new
    for j, column in cells.items():
        array[where[:, j], j] = np.asarray(column, dtype=array.dtype)
    return array.astype(str) if dtype.kind == "U" else array


def as_array(frame: pd.DataFrame, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "U":  # as wide as the longest text, which may be a new one
        return frame.to_numpy(dtype=object).astype(str)
    kind = dtype if dtype.kind == "O" else np.result_type(dtype, frame.to_numpy())
    return frame.to_numpy(dtype=kind, copy=True)  # without a copy it cannot be written to, and some models do


def array_dtype(text: str) -> np.dtype[Any]:
    """The dtype of an array from its name in a file; of text without a width, which is that of the longest one."""
    dtype = np.dtype(text)
    if dtype.kind not in "biufOU":
        raise InputError(f"an array has dtype {text!r}; numbers, text and objects are supported.")
    return np.dtype("U") if dtype.kind == "U" else dtype
