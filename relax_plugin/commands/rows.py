"""Rows from CSV files, with a sentence that names the file, the row and the cell where they cannot be used."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import ColumnError, InputError, MissingValueError, did_you_mean


def read_rows(path: Path, dtypes: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """The rows of a CSV file with a header: whole numbers are integers, true and false bools, the rest text."""
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        header = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0]
        frame = pd.read_csv(path, dtype=dtypes, low_memory=False)  # one type a column, however long it is
    except (OSError, ValueError) as error:  # pandas' own are ValueErrors: no columns, cells too many, another encoding
        raise InputError(f"{path} cannot be read as CSV: {str(error).strip()}.") from error
    twice = header[header.duplicated() & header.notna()]
    if len(twice):
        raise ColumnError(f"column {twice.iloc[0]!r} occurs twice in {path}.")
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes a column without a name for an index
        raise InputError(f"the rows of {path} have more cells than its header has names.")
    if len(frame) == 0:
        raise InputError(f"{path} has a header, but no rows.")
    return frame


def read_queries(path: Path, training: pd.DataFrame, target: str | None, *, say: bool = True) -> pd.DataFrame:
    """The rows to explain, with the columns of the training rows, in their order and of their types."""
    text = {name: str for name in training.columns if pd.api.types.is_string_dtype(training[name])}
    frame = read_rows(path, text)  # a category such as 1 is text if it was text in training
    frame = frame.drop(columns=[] if target is None else target, errors="ignore")
    queries = chosen_columns(frame, list(training.columns), path, say=say)
    refuse_gaps(queries, path)
    for name in queries.columns:
        if _numeric(training[name]) and pd.api.types.is_string_dtype(queries[name]):
            wrong = pd.to_numeric(queries[name], errors="coerce").isna().to_numpy()
            row = int(np.argmax(wrong))
            value = queries[name].iloc[row]
            raise InputError(f"feature {name!r} is {value!r} in row {row} of {path}, but a number is needed.")
    return queries


def chosen_columns(rows: pd.DataFrame, names: list[Any], source: Path, *, say: bool = True) -> pd.DataFrame:
    """These columns in this order; what is left out is said on stderr."""
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise ColumnError(f"{source} has no column {missing[0]!r}; {did_you_mean(missing[0], rows.columns)}")
    others = [str(name) for name in rows.columns if name not in names]
    if others and say:
        print(f"Left out of {source}, since they are no features: {', '.join(others)}.", file=sys.stderr, flush=True)
    return rows[names]


def refuse_gaps(rows: pd.DataFrame, source: Path) -> None:
    """Refuse rows with an empty cell."""
    for name in rows.columns:
        missing = rows[name].isna().to_numpy()
        if missing.any():
            row = int(np.argmax(missing))
            raise MissingValueError(
                f"feature {name!r} is missing in row {row} of {source}; fill it in or drop the row."
            )


def _numeric(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
