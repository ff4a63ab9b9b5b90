"""Tables that the benchmarks keep: written for people and spreadsheets, and read again as they were."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from relax_plugin.errors import SavedFileError
from relax_plugin.evaluation.schema import COLUMNS, ROW
from relax_plugin.evaluation.store import FILE, FORMULA, LEFT_OUT, RUN, Notes, guarded
from relax_plugin.files import read_packed, write_text


def unguarded(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it was before `guarded`."""

    def bare(cell: Any) -> Any:
        return cell[1:] if isinstance(cell, str) and cell.startswith("'") and FORMULA.match(cell) else cell

    changed = table.copy()
    for name, dtype in table.dtypes.items():
        if not pd.api.types.is_numeric_dtype(dtype):
            changed[name] = table[name].map(bare)
    return changed.rename(columns=bare)


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table to be kept and read by people, in spreadsheets too."""
    write_text(path, guarded(table)[0].to_csv(index=False, float_format="%.6g"))


def read_table(path: Path, columns: Iterable[str], texts: Iterable[str]) -> pd.DataFrame:
    """A table as it was written, with at least these columns.

    Empty cells of those in `texts` stay texts; all other columns hold numbers. A file that cannot be read, lacks a
    column or has text where numbers belong is a SavedFileError.
    """
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(texts, str))
    except ValueError as error:  # pandas' own are ValueErrors, and so is what is no UTF-8
        raise SavedFileError(f"{path} is damaged: {str(error).strip()}.") from error
    for name in columns:
        if name not in table:
            raise SavedFileError(f"{path} is damaged: it has no column {name!r}.")
    for name in table.columns:
        told = table[name].dropna()
        if name in texts:
            table[name] = table[name].fillna("")
        elif not pd.api.types.is_numeric_dtype(told.infer_objects()):
            wrong = next(cell for cell in told if not isinstance(cell, bool | int | float))
            raise SavedFileError(f"{path} is damaged: column {name!r} holds {wrong!r}, but numbers belong there.")
    return unguarded(table)


def read_kept_rows(folder: Path) -> pd.DataFrame:
    """Rows that were kept, with every column of a benchmark's rows: what was left out is as if nothing were known."""
    path = folder / FILE
    try:
        rows = pd.read_csv(io.BytesIO(read_packed(path)), keep_default_na=False, na_values=[""])
    except ValueError as error:  # pandas' own are ValueErrors
        raise SavedFileError(f"{path} is damaged: {error}.") from error
    absent = [name for name in COLUMNS if name not in rows and name not in LEFT_OUT]
    if absent:
        raise SavedFileError(f"{path} is damaged: it has no column {absent[0]!r}.")
    for column in ROW:
        if column.name in LEFT_OUT:
            rows[column.name] = column.missing
        elif column.type is str:
            rows[column.name] = rows[column.name].fillna("").astype(str)
        else:
            rows[column.name] = rows[column.name].astype(column.type)
    return rows[list(COLUMNS)]


def noted_run(folder: Path) -> Notes:
    """How kept rows were made."""
    return Notes(folder / RUN, ("command", "machine"))
