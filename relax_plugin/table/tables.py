"""The tables that rows come in: DataFrames of several libraries and arrays, their columns read and written."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals
import numpy as np
import pandas as pd
from scipy.sparse import issparse

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import ColumnError, InputError, UnknownNameError, did_you_mean

Rows = pd.DataFrame | Array

MOST_TOLD = 8  # values that a message lists


def pandas_or_array(X: Any) -> Rows:
    """The rows themselves; those of another library's table (polars, pyarrow, ...), of a dict, of a Series, and of a
    list of these as a pandas DataFrame."""
    if isinstance(X, pd.DataFrame | np.ndarray):
        return X
    if issparse(X):  # one of whose formats is a mapping
        raise InputError(f"the rows are a sparse {type(X).__name__}, which is not supported; pass X.toarray().")
    if isinstance(X, pd.Series):
        return X.to_frame().T.infer_objects()
    if isinstance(X, Mapping):
        several = all(isinstance(cell, list | tuple | np.ndarray | pd.Series) for cell in X.values())
        return pd.DataFrame(dict(X)) if several else pd.DataFrame([dict(X)])
    if isinstance(X, list | tuple) and X and all(isinstance(row, Mapping) for row in X):
        return pd.DataFrame([dict(row) for row in X])
    if isinstance(X, list | tuple) and X and all(isinstance(row, pd.Series) for row in X):
        return pd.DataFrame(list(X)).infer_objects()
    table = narwhals.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(table, narwhals.DataFrame):
        raise InputError(
            "rows must be a DataFrame (pandas, polars, ...), a numpy array, or a dict, a Series or a list of these, "
            f"not {type(X).__name__}."
        )
    exact = [name for name, kind in table.schema.items() if isinstance(kind, narwhals.Decimal)]
    return pd.DataFrame({name: table[name].to_numpy() for name in table.columns}).astype(dict.fromkeys(exact, float))


def without_columns(X: Rows, names: Any, features: Collection[Hashable]) -> tuple[Rows, pd.DataFrame | None]:
    """The rows without some columns, and these; columns of the model's are refused."""
    if names is None:
        return X, None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"carry must be a list of column names, not {names!r}.")
    if not isinstance(X, pd.DataFrame):
        raise InputError("carry names columns, and an array has none; give a DataFrame.")
    listed = list(names)
    for name in listed:
        if name in features:
            raise ColumnError(f"carry names column {name!r}, which the model knows: it is in the results anyway.")
        if name not in X.columns:
            more = [column for column in X.columns if column not in features]
            hint = did_you_mean(name, more) if more else "the rows have none that the model does not know."
            raise UnknownNameError(f"carry names column {name!r}; {hint}")
        if name in ("query_id", "cf_id") or listed.count(name) > 1:
            raise ColumnError(f"carry names column {name!r} twice, or as the results call their own; rename it.")
    return X.drop(columns=listed), X[listed].copy()


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
    if X.dtype != object:
        return frame
    frame = frame.infer_objects()
    for j, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, pd.StringDtype) and frame.iloc[:, j].hasnans:  # which would have no None, only NaN
            cells: Any = pd.Series(X[:, j], dtype=object)  # an array would be read as text again
            frame.isetitem(j, cells)
    return frame


Kind = Literal["number", "category", "carried"]


def kind_of(column: "pd.Series[Any]") -> Kind:
    """What a column holds: numbers, categories, or cells that only the model can make something of."""
    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        raise InputError(f"feature {column.name!r} is sparse; give dense columns: frame.sparse.to_dense().")
    if len(column) and not column.notna().any():
        return "carried"
    if pd.api.types.is_object_dtype(dtype):
        return "carried" if column.dropna().map(_is_of_its_own_kind).any() else "category"
    if is_category_dtype(dtype, numbers=False):
        return "category"
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return "number"
    return "carried"


def _is_of_its_own_kind(cell: Any) -> bool:
    """Whether an object is neither text nor a plain number: a date, a Decimal, a list."""
    return not isinstance(cell, str | bytes | bool | int | float | np.bool_ | np.integer | np.floating)


def is_category_dtype(dtype: Any, numbers: bool = True) -> bool:
    """Whether a column of the dtype may hold categories; those written as numbers only where the user says so."""
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return True
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype) or is_arrow_dictionary(dtype):
        return True
    return numbers and pd.api.types.is_numeric_dtype(dtype)


def is_arrow_dictionary(dtype: Any) -> bool:
    """Whether it is pyarrow's kind of category, as `read_parquet(dtype_backend="pyarrow")` gives."""
    return isinstance(dtype, pd.ArrowDtype) and hasattr(dtype.pyarrow_dtype, "index_type")


def row_name(rows: Rows, position: int) -> str:
    """A row in a message: by the label of its table, and by its position where that is another."""
    label = rows.index[position] if isinstance(rows, pd.DataFrame) else position
    same = isinstance(label, int | float | np.number) and label == position  # a missing label equals nothing
    return f"row {position}" if same else f"row {item_of(label)!r} (position {position})"


def some_of(values: Sequence[Any]) -> str:
    """The values in a message: the first few, and how many more there are."""
    more = len(values) - MOST_TOLD
    return f"{list(values[:MOST_TOLD])}{f' and {more} more' if more > 0 else ''}"


def item_of(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def refuse_unhashable(name: Hashable, column: "pd.Series[Any]") -> None:
    hashable = column.map(lambda cell: isinstance(cell, Hashable)).to_numpy(dtype=bool)
    if not hashable.all():
        row = int(np.argmin(hashable))
        raise InputError(
            f"feature {name!r} is {column.iloc[row]!r} in row {row}, a {type(column.iloc[row]).__name__}; "
            "a cell must be one number or one category."
        )


def numbers_of(name: Hashable, column: "pd.Series[Any]") -> Floats:
    """The cells of a column of numbers; NaN where one is missing."""
    if len(column) and pd.api.types.is_string_dtype(column):  # numbers as text would be cast silently
        row = int(np.argmax(column.notna().to_numpy()))
        raise InputError(f"feature {name!r} should be numeric, but is text in row {row}: {column.iloc[row]!r}.")
    try:
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"feature {name!r} should be numeric, but has dtype {column.dtype}: {error}.") from error
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(f"feature {name!r} is {numbers[row]} in row {row}, but must be finite.")
    return numbers


def with_cells(column: "pd.Series[Any]", where: Booleans, cells: "pd.Series[Any]") -> "pd.Series[Any]":
    """The column with new cells; in a dtype that holds both where the query's own (whole numbers, say) cannot."""
    kinds: Any = column.dtype, cells.dtype
    if (
        all(isinstance(kind, pd.CategoricalDtype) for kind in kinds)
        and (cells.isin(kinds[0].categories) | cells.isna()).all()
    ):
        cells = cells.astype(column.dtype)  # which has unseen categories besides
    if column.dtype == cells.dtype:
        own = column.array.copy()
        own[where] = cells.array
        return pd.Series(own, index=column.index, dtype=column.dtype)
    # A missing cell must stay what it is, which it would not in a dtype that has another one.
    if isinstance(column.dtype, pd.StringDtype) and isinstance(cells.dtype, pd.StringDtype):
        return with_cells(column, where, cells.astype(column.dtype))
    if _is_of(column, "biuf") and _is_of(cells, "biuf") and cells.isin((0, 1)).all():  # dummies, true or 1
        return with_cells(column, where, cells.astype(column.dtype))
    if _is_of(column, "f") and column.isna().any():
        numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        held = numbers.astype(kinds[0])
        if np.array_equal(held, numbers, equal_nan=True):
            return with_cells(column, where, pd.Series(held))
    both: pd.Series[Any] = pd.concat([column[~where], cells.set_axis(column.index[where])])
    return both.sort_index()


def _is_of(column: "pd.Series[Any]", kinds: str) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in kinds


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
        told = "Complex data not supported: " if dtype.kind == "c" else ""
        raise InputError(f"{told}an array has dtype {text!r}; numbers, text and objects are supported.")
    return np.dtype("U") if dtype.kind == "U" else dtype
