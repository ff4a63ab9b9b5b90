"""The store: folders of results, every file written whole and believed only if it reads back as what it should be.

`Store` keeps the judge's rows, one file a unit; `Cache` whatever else takes long to compute; `Notes` tells
which commands made them; `keep_rows` makes one small file of the rows of a benchmark, without the texts that only a
report needs. In a file that spreadsheets open, a text that one of them would take for a formula is `guarded`.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.errors import InputError, SavedFileError
from relax_plugin.evaluation.plan import Unit
from relax_plugin.evaluation.schema import COLUMNS, ROW, STATES, Row
from relax_plugin.files import read_entries, read_packed, replacing, set_aside, write_packed, write_text

FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # as OWASP lists them; apostrophes before them are ours, or look so


def guarded(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The table with an apostrophe before each text and column name that begins a formula, and their number."""
    count = 0

    def guard(cell: Any) -> Any:
        nonlocal count
        if not isinstance(cell, str) or not FORMULA.match(cell):
            return cell
        count += 1
        return f"'{cell}"

    changed = table.copy()
    for position, dtype in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(dtype):
            cells = np.empty(len(table), dtype=object)  # in which a whole number beside a fraction stays one
            cells[:] = [guard(cell) for cell in table.iloc[:, position].astype(object)]
            changed.isetitem(position, cells)
    return changed.set_axis([guard(name) for name in table.columns], axis=1), count


QUICKLY: Any = {"method": "gzip", "compresslevel": 1}
NOT_UNICODE: Any = "backslashreplace"  # what an exception says may be no Unicode
VERSIONS_OF = ("relax-plugin", "torch", "numpy", "pandas", "scikit-learn", "xgboost", "dice-ml")
ENDING = ".csv.gz"


class Notes:
    """A file that tells what was run, an entry for each time; every entry has a text under each key in `texts`."""

    def __init__(self, path: Path, texts: tuple[str, ...]) -> None:
        self.path, self.texts = path, texts

    def read(self) -> list[dict[str, Any]]:
        """The entries in turn; none if there is no such file."""
        return read_entries(self.path, self.texts)

    def add(self, entry: dict[str, Any]) -> None:
        """Write one more entry; a file that cannot be read is set aside."""
        try:
            entries = self.read()
        except SavedFileError as error:
            set_aside(self.path, error)
            entries = []
        self._write([*entries, entry])

    def complete(self, entry: dict[str, Any]) -> None:
        """Add to the last entry what is known only now."""
        entries = self.read()
        self._write([*entries[:-1], entries[-1] | entry])

    def _write(self, entries: list[dict[str, Any]]) -> None:
        write_text(self.path, json.dumps(entries, indent=1))


class Cache:
    """A folder of frames that take long to compute, each a file of its own.

    The name of a frame holds all that it depends on: of other settings it is another frame.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / f"{name}{ENDING}"

    def write(self, name: str, frame: pd.DataFrame) -> None:
        write_packed(self.path(name), frame.to_csv(index=False))

    def has(self, name: str, check: Callable[[pd.DataFrame], None] | None = None) -> bool:
        """Whether the frame is there. A damaged one is not: it is set aside, which is said in a line.

        `check` raises a ValueError at a frame that is none of this name.
        """
        path = self.path(name)
        if not path.exists():
            return False
        try:
            frame = self.read(name)
            if check is not None:
                check(frame)
        except SavedFileError as error:
            set_aside(path, error)
        except ValueError as error:
            set_aside(path, f"{path} is damaged: {_without_stop(error)}.")
        return path.exists()

    def read(self, name: str) -> pd.DataFrame:
        """The frame of that name, to the last bit of its numbers."""
        path = self.path(name)
        try:
            return pd.read_csv(io.BytesIO(read_packed(path)), engine="python")  # which reads floats as Python does
        except ValueError as error:  # pandas' own are ValueErrors
            raise SavedFileError(f"{path} is damaged: {_without_stop(error)}.") from error


class Store:
    """A folder of results: one file a unit, and `run.json` with the commands and versions that made them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.units = folder / "units"
        self.noted = Notes(folder / "run.json", ("command", "machine"))

    def path(self, unit: Unit) -> Path:
        return self.units / f"{_slug(unit)}-{_digest(_settings(unit))}{ENDING}"

    def done(self, unit: Unit, *, retry: bool = False) -> bool:
        """Whether the unit is stored; with `retry`, one that crashed, timed out or was skipped is not.

        A damaged file is none: it is set aside, which is said in a line.
        """
        path = self.path(unit)
        if [other for other in self.units.glob(f"{_slug(unit)}-*{ENDING}") if other != path]:
            raise InputError(
                f"{self.folder} holds {unit.method.label} on {unit.task_name} with seed {unit.seed}, but with other "
                "rows, n, max_changes, options, data or version of this package; give another output folder."
            )
        if not path.exists():
            return False
        try:
            rows = _of_unit(unit, path)
        except SavedFileError as error:
            set_aside(path, error)
            return False
        return not (retry and rows["state"].iloc[0] != "ok")

    def write(self, unit: Unit, rows: list[Row]) -> None:
        path = self.path(unit)
        # Any text must come back, whatever an exception says: line ends of all kinds, and what is no Unicode.
        safe: dict[str, Any] = {"quoting": csv.QUOTE_NONNUMERIC, "errors": NOT_UNICODE}
        with replacing(path) as temporary:
            pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(temporary, index=False, compression=QUICKLY, **safe)

    def note(self, command: str) -> None:
        """Remember what was run with which versions, on which machine."""
        self.units.mkdir(parents=True, exist_ok=True)
        self.noted.add({"command": command, "started": now(), **environment()})

    def notes(self) -> list[dict[str, Any]]:
        """What was run, in turn; none if it was not remembered."""
        return self.noted.read()

    def rows(self) -> pd.DataFrame:
        """All rows, unit by unit in the order of their file names."""
        try:
            parts = [read_unit(path) for path in sorted(self.units.glob(f"*{ENDING}"))]
        except SavedFileError as error:
            again = f"`relax-plugin bench --output {self.folder}` runs what it held again, if it is in its plan."
            raise SavedFileError(f"{error} {again}") from error
        if not parts:
            raise InputError(f"{self.folder} holds no results; `relax-plugin bench --output {self.folder}` makes some.")
        return pd.DataFrame(pd.concat(parts, ignore_index=True))

    def stored(self, units: Iterable[Unit]) -> list[Unit]:
        """Those of the units that are stored."""
        return [unit for unit in units if self.path(unit).exists()]

    def rows_of(self, units: Iterable[Unit]) -> pd.DataFrame:
        """The rows of these units, in this order; refused if one is not stored, since its method would just be gone."""
        paths = [(unit, self.path(unit)) for unit in units]
        lost = [f"{unit.task_name}, {unit.method.label}, seed {unit.seed}" for unit, path in paths if not path.exists()]
        if lost:
            told = f"{len(lost)} of {len(paths)} runs are no longer in {self.folder}, the first of them {lost[0]}"
            raise SavedFileError(
                f"{told}: something removed their files, or changed the package, meanwhile. Run it again."
            )
        parts = [_of_unit(unit, path) for unit, path in paths]
        return pd.DataFrame(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS)))


def read_unit(path: Path) -> pd.DataFrame:
    """The rows of a unit's file as they were: texts such as "NA" stay texts, and floats come back to the last bit.

    Raises
    ------
    SavedFileError
        If the file is empty, truncated, altered, or no unit at all.
    """
    data = read_packed(path)
    if not data:
        raise SavedFileError(f"{path} is damaged: it is empty.")
    try:
        rows = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False)
        _check_columns(rows)
        for column in ROW:
            if column.type is int:
                rows[column.name] = rows[column.name].astype("int64")
            elif column.type is bool:
                rows[column.name] = rows[column.name] == "True"
            elif column.type is float:
                rows[column.name] = np.array([float(text or "nan") for text in rows[column.name]])
        _check_rows(rows)
    except (ValueError, OverflowError) as error:  # pandas' own are ValueErrors
        raise SavedFileError(f"{path} is damaged: {_without_stop(error)}.") from error
    return rows


def commit() -> str:
    """The commit of the checkout that is run, if it is one and git is there."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return "not a checkout"
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True)
    return told.stdout.strip() or told.stderr.strip()


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment() -> dict[str, Any]:
    """Versions and machine, as far as figures depend on them."""
    versions = {}
    for name in VERSIONS_OF:
        with suppress(metadata.PackageNotFoundError):  # an extra that is not installed has no version to tell
            versions[name] = metadata.version(name)
    machine = f"{os.cpu_count()} cores, {_processor()}, {sys.platform}"
    return {"versions": {"python": sys.version.split()[0], **versions}, "machine": machine}


def _of_unit(unit: Unit, path: Path) -> pd.DataFrame:
    rows = read_unit(path)
    task, method, seed = unit.key
    held = rows["task"].iloc[0], rows["method"].iloc[0], int(rows["seed"].iloc[0])
    if held != (_readable(task), _readable(method), seed):
        raise SavedFileError(
            f"{path} is damaged: it holds {held[1]} on {held[0]} with seed {held[2]}, not {method} on {task} with seed "
            f"{seed}."
        )
    return rows


def _check_columns(rows: pd.DataFrame) -> None:
    if tuple(rows.columns) != COLUMNS:
        raise ValueError(f"it has the columns {', '.join(map(str, rows.columns[:5]))}, ..., which are not a unit's")
    if len(rows) == 0:
        raise ValueError("it has no rows")
    for name in (column.name for column in ROW if column.type is bool):
        if not rows[name].isin(["True", "False"]).all():
            raise ValueError(f"column {name!r} holds something else than True and False")


def _check_rows(rows: pd.DataFrame) -> None:
    for name in ("task", "method", "seed", "state"):
        if rows[name].nunique() > 1:
            raise ValueError(f"column {name!r} holds several values, but a unit has one")
    state = rows["state"].iloc[0]
    if state not in STATES:
        raise ValueError(f"its state is {state!r}, which is none of {', '.join(STATES)}")
    expected = range(len(rows)) if state == "ok" else [-1]
    if rows["instance"].tolist() != list(expected) or (state == "ok" and (rows["instances"] != len(rows)).any()):
        raise ValueError("its rows are not one for each instance")


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)$", told.read_text(), re.MULTILINE) if told.exists() else []
    return names[0] if names else platform.machine()


def _settings(unit: Unit) -> tuple[Any, ...]:
    """What, besides its name, makes a unit this one. Of a Task's own model only its parameters are looked at."""
    data: tuple[Any, ...] = ("",)
    if not isinstance(unit.task, str):
        parameters = unit.task.model.get_params() if hasattr(unit.task.model, "get_params") else ""
        data = joblib.hash((unit.task.X_train, unit.task.X_test)), repr(unit.task.goal), str(parameters)
    method = unit.method.explainer, repr(sorted(unit.method.options.items()))
    seldom: list[Any] = [unit.masks] if unit.masks else []
    seldom += [f"prices {unit.prices}"] if unit.prices else []
    seldom += ["all metrics"] if unit.metrics == "all" else []
    return unit.rows, unit.n, unit.max_changes, *method, *data, *seldom, metadata.version("relax-plugin")


def _slug(unit: Unit) -> str:
    """A file name that can be read, and that no other unit has."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(map(str, unit.key))).strip("-")[:100]
    return f"{readable}-{_digest(unit.key)}"


def _digest(key: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(key, default=int).encode()).hexdigest()[:10]


def _readable(text: str) -> str:
    return text.encode("utf-8", NOT_UNICODE).decode("utf-8")


def _without_stop(error: Exception) -> str:
    return str(error).strip().rstrip(".")


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
    Notes(folder / RUN, ("command", "machine")).add(run)
    return folder / FILE
