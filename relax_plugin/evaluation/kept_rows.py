"""The tidy rows of a benchmark as one small file, to be kept beside what is said about them.

Texts that only a report needs are left out, and numbers have five digits: what tables and ranks are made of stays.
"""

import gzip
import io
from pathlib import Path
from typing import Any

import pandas as pd

from relax_plugin.errors import SavedFileError
from relax_plugin.evaluation.schema import COLUMNS, ROW
from relax_plugin.evaluation.store import Notes
from relax_plugin.files import read_packed, replacing

FILE, RUN = "rows.csv.gz", "run.json"
LEFT_OUT = ("sentence", "query", "changes", "stage", "before", "after")  # texts that are long, or of a report alone
DIGITS = "%.5g"


def keep_rows(rows: pd.DataFrame, folder: Path, run: dict[str, Any]) -> Path:
    """Write the rows, and how they were made, into a folder; the same rows give the same bytes.

    `run` (the command, the time, versions and machine) replaces what was noted before, whose rows are gone.
    """
    kept = rows[[name for name in COLUMNS if name not in LEFT_OUT]].copy()
    kept["reason"] = kept["reason"].where(kept["state"] != "ok", "")
    text = kept.to_csv(index=False, float_format=DIGITS)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0))
    (folder / RUN).unlink(missing_ok=True)
    noted_run(folder).add(run)
    return folder / FILE


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
