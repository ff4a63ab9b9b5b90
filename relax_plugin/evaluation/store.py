"""The store: a folder of results, one file a unit, written whole and believed only if it reads back as a unit."""

import csv
import hashlib
import io
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.errors import InputError, SavedFileError
from relax_plugin.evaluation.units import COLUMNS, STATES, Row, Unit
from relax_plugin.files import read_entries, read_packed, replacing, set_aside, write_text

TEXTS = ("task", "method", "state", "reason", "kind", "before", "after", "stage", "sentence", "query", "changes")
WHOLE = ("seed", "instance", "instances", "features", "violations", "found_count")
YES_NO = ("claimed", "valid")
QUICKLY: Any = {"method": "gzip", "compresslevel": 1}
NOT_UNICODE: Any = "backslashreplace"  # what an exception says may be no Unicode
VERSIONS_OF = ("relax-plugin", "torch", "numpy", "pandas", "scikit-learn", "xgboost", "dice-ml")
ENDING = ".csv.gz"


class Store:
    """A folder of results: one file a unit, and `run.json` with the commands and versions that made them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.units = folder / "units"

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
        """Remember what was run with which versions, on which machine; notes that cannot be read are set aside."""
        self.units.mkdir(parents=True, exist_ok=True)
        entry = {"command": command, "started": datetime.now(UTC).isoformat(timespec="seconds"), **environment()}
        try:
            notes = self.notes()
        except SavedFileError as error:
            set_aside(self.folder / "run.json", error)
            notes = []
        write_text(self.folder / "run.json", json.dumps([*notes, entry], indent=1))

    def notes(self) -> list[dict[str, Any]]:
        """What was run, in turn; none if it was not remembered."""
        return read_entries(self.folder / "run.json", ("command", "machine"))

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

    def rows_of(self, units: Iterable[Unit]) -> pd.DataFrame:
        """The rows of those units that are stored, in this order; there may be none."""
        paths = [(unit, self.path(unit)) for unit in units]
        parts = [_of_unit(unit, path) for unit, path in paths if path.exists()]
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
        for name in COLUMNS:
            if name in WHOLE:
                rows[name] = rows[name].astype("int64")
            elif name in YES_NO:
                rows[name] = rows[name] == "True"
            elif name not in TEXTS:
                rows[name] = np.array([float(text or "nan") for text in rows[name]])
        _check_rows(rows)
    except (ValueError, OverflowError) as error:  # pandas' own are ValueErrors
        raise SavedFileError(f"{path} is damaged: {str(error).strip().rstrip('.')}.") from error
    return rows


def environment() -> dict[str, Any]:
    """Versions and machine, as far as figures depend on them."""
    versions = {}
    for name in VERSIONS_OF:
        with suppress(metadata.PackageNotFoundError):  # an extra that is not installed has no version to tell
            versions[name] = metadata.version(name)
    machine = f"{os.cpu_count()} cores, {_processor()}, {sys.platform}"
    return {"versions": {"python": sys.version.split()[0], **versions}, "machine": machine}


def _of_unit(unit: Unit, path: Path) -> pd.DataFrame:
    """The rows of a file that must be those of this unit."""
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
    for name in YES_NO:
        if not rows[name].isin(["True", "False"]).all():
            raise ValueError(f"column {name!r} holds something else than True and False")


def _check_rows(rows: pd.DataFrame) -> None:
    """Refuse rows that no unit leaves: of several units, some missing, in a state that there is not."""
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
    """The processor's name where the system tells it, else its kind."""
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
    return unit.rows, unit.n, unit.max_changes, *method, *data, metadata.version("relax-plugin")


def _slug(unit: Unit) -> str:
    """A file name that can be read, and that no other unit has."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(map(str, unit.key))).strip("-")[:100]
    return f"{readable}-{_digest(unit.key)}"


def _digest(key: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(key, default=int).encode()).hexdigest()[:10]


def _readable(text: str) -> str:
    """A text as it comes back from a file."""
    return text.encode("utf-8", NOT_UNICODE).decode("utf-8")
