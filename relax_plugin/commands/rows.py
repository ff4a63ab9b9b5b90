"""Rows from CSV, Parquet and Arrow files, with a sentence that names file, row and cell where they cannot be used."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.commands.output import say as say_so
from relax_plugin.commands.request import columns_along, is_columnar
from relax_plugin.distributed.parts import arrow_frame, csv_frame
from relax_plugin.errors import ColumnError, InputError, did_you_mean


def read_rows(path: Path, missing: Sequence[str] = (), dtypes: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """The rows of a file: of a CSV, whole numbers are integers, true and false bools, the rest text.

    Texts in `missing` mean a missing cell, as an empty one does; `dtypes` are for columns of a CSV.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    frame = arrow_frame(path, missing) if is_columnar(path) else csv_frame(path, path, missing, dtypes)
    if len(frame) == 0:
        raise InputError(f"{path} has a header, but no rows.")
    return frame


def read_queries(chosen: argparse.Namespace, training: pd.DataFrame, *, say: bool = True) -> pd.DataFrame:
    """The rows to explain, with the columns of the training rows, in their order and of their types, and what comes
    along with them."""
    frame = read_rows(chosen.queries, chosen.missing, dict.fromkeys(text_columns(training), str))
    return queries_in(frame, chosen, training, chosen.queries, say=say)


def text_columns(training: pd.DataFrame) -> list[str]:
    """The columns that are texts in other files too: a category such as 1 is text if it was text in training."""
    kinds = {name: getattr(dtype, "categories", training[name]).dtype for name, dtype in training.dtypes.items()}
    return [str(name) for name, kind in kinds.items() if pd.api.types.is_string_dtype(kind)]


def queries_in(
    frame: pd.DataFrame, chosen: argparse.Namespace, training: pd.DataFrame, path: Path, *, say: bool = True
) -> pd.DataFrame:
    """The columns of a table that are features, as `training` has them, or come along."""
    along = columns_along(chosen)
    for name in along:
        if name not in frame.columns:
            argument = "id" if name == chosen.id else "carry"
            raise ColumnError(f"--{argument} names column {name!r} of {path}; {did_you_mean(name, frame.columns)}")
    names = list(training.columns)
    queries = chosen_columns(frame.drop(columns=chosen.target or [], errors="ignore"), [*names, *along], path, say=say)
    for name in names:
        if is_number(training[name]) and pd.api.types.is_string_dtype(queries[name]):
            wrong = pd.to_numeric(queries[name], errors="coerce").isna() & queries[name].notna()
            if wrong.any():  # else all cells are missing
                row = int(np.argmax(wrong.to_numpy()))
                value = queries[name].iloc[row]
                raise InputError(f"feature {name!r} is {value!r} in row {row} of {path}, but a number is needed.")
    return queries


def rows_to_explain(
    chosen: argparse.Namespace, training: pd.DataFrame, whole: pd.DataFrame, rows: Iterable[int] | None
) -> pd.DataFrame:
    """The rows of the file of queries, or these of the training rows (None: all), with what is carried.

    Their index says which rows of their file they are, by number or by the column of --id.
    """
    if chosen.queries is not None:
        queries = read_queries(chosen, training)
    else:
        queries = whole[[*training.columns, *columns_along(chosen)]]
        queries = queries if rows is None else queries.iloc[list(dict.fromkeys(rows))]
    if chosen.id is None:
        return queries
    names = row_names(queries, chosen.id, chosen.queries or chosen.training)
    named = queries.set_axis(names, axis=0).rename_axis(chosen.id)
    return named.drop(columns=[] if chosen.id in chosen.carry else [chosen.id])


def row_names(queries: pd.DataFrame, column: str, source: Path) -> "pd.Series[Any]":
    """The cells of a column that name the rows, refused if one is missing or names two of them."""
    names = queries[column]
    for wrong, told in ((names.isna(), "is missing"), (names.duplicated(), "is that of another row")):
        if wrong.any():
            row = int(np.argmax(wrong.to_numpy()))
            cell = "" if told == "is missing" else f": {names.iloc[row]!r}"
            raise InputError(f"--id names column {column!r}, which {told} in row {row} of {source}{cell}.")
    return names


def chosen_columns(rows: pd.DataFrame, names: list[Any], source: Path, *, say: bool = True) -> pd.DataFrame:
    """These columns in this order; what is left out is said on stderr."""
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise ColumnError(f"{source} has no column {missing[0]!r}; {did_you_mean(missing[0], rows.columns)}")
    others = [str(name) for name in rows.columns if name not in names]
    if others and say:
        say_so(f"Left out of {source}, since they are no features: {', '.join(others)}.")
    return rows[names]


def is_number(column: "pd.Series[Any]") -> bool:
    """Whether the cells of a column are numbers; true and false are none."""
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
