"""The runner: tasks × methods × seeds, each unit in a process that can be ended, stored as it is done.

A unit is stored whole, under its own name, by writing a temporary file and renaming it. Whatever ends the run loses at
most the units under way; run again, it does what is not stored yet.
"""

import csv
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.errors import InputError, MissingExtraError
from relax_plugin.evaluation.files import replacing, write_text
from relax_plugin.evaluation.judge import COLUMNS, Method, Row, Unit
from relax_plugin.evaluation.tasks import ALIASES, Task, check_task_name
from relax_plugin.evaluation.worker import POOL, run_unit
from relax_plugin.registry import check_options

TEXTS = ("task", "method", "state", "reason", "kind", "before", "after", "stage", "sentence", "query", "changes")
WHOLE = ("seed", "instance", "instances", "features", "violations", "found_count")
YES_NO = ("claimed", "valid")
QUICKLY: Any = {"method": "gzip", "compresslevel": 1}
VERSIONS_OF = ("relax-plugin", "torch", "numpy", "pandas", "scikit-learn", "xgboost", "dice-ml")


@dataclass(frozen=True)
class Plan:
    """What a benchmark runs.

    Parameters
    ----------
    tasks : names of `available_tasks()`, or Task objects of your own
    methods : names of the registry, names with options (`relax-global:effort=policy`), or Method objects
    seeds : int
        Of the split, of the model's training and of the method; a Task object keeps its own split and model.
    rows : int, optional
        At most so many test rows, the first ones.
    method_rows : mapping of method label to int
        The same for single methods: slow ones can be given a subset, which tables then state.
    n, max_changes
        Counterfactuals asked for each row, and a limit of changes for every method (None: each method's default).
    limit : seconds, optional
        For fit and explain of one unit; whatever takes longer is ended.
    """

    tasks: Sequence[str | Task]
    methods: Sequence[str | Method]
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    rows: int | None = None
    method_rows: Mapping[str, int] = field(default_factory=dict)
    n: int = 1
    max_changes: int | None = None
    limit: float | None = 600.0

    def units(self) -> list[Unit]:
        """All units, those of one task and seed together: a worker then trains the model once."""
        methods = [Method.parse(method) if isinstance(method, str) else method for method in self.methods]
        self._check(methods)
        return [
            Unit(task, method, seed, self._rows_of(method.label), self.n, self.max_changes)
            for task in self.tasks
            for seed in self.seeds
            for method in methods
        ]

    def _rows_of(self, label: str) -> int | None:
        counts = [count for count in (self.rows, self.method_rows.get(label)) if count is not None]
        return min(counts, default=None)

    def _check(self, methods: Sequence[Method]) -> None:
        """Refuse before anything runs what could not run."""
        for task in self.tasks:
            if isinstance(task, str):
                check_task_name(task)
        for method in methods:
            check_options(method.explainer, method.options)
        labels = [method.label for method in methods]
        for label in self.method_rows:
            if label not in labels:
                raise InputError(f"rows are given for method {label!r}, which is not run; methods are {labels}.")
        names = [ALIASES.get(task, task) if isinstance(task, str) else task.name for task in self.tasks]
        given: dict[str, list[Any]] = {"task": names, "method": labels, "seed": list(self.seeds)}
        for what, values in given.items():
            twice = [value for value in values if values.count(value) > 1]
            if twice:
                raise InputError(f"{what} {twice[0]!r} is given twice.")
            if not values:
                raise InputError(f"there is no {what} to run; give at least one.")
        counts = {"rows": self.rows, "n": self.n, "max_changes": self.max_changes, **self.method_rows}
        for name, count in counts.items():
            if count is not None and count < 1:
                raise InputError(f"{name} is {count}, but must be at least 1.")
        if self.limit is not None and not self.limit > 0:
            raise InputError(f"limit is {self.limit}, but must be a number of seconds above 0, or None for no limit.")


class Store:
    """A folder of results: one file a unit, and `run.json` with the commands and versions that made them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.units = folder / "units"

    def path(self, unit: Unit) -> Path:
        return self.units / f"{_slug(unit)}-{_digest(_settings(unit))}.csv.gz"

    def done(self, unit: Unit, *, retry: bool = False) -> bool:
        """Whether the unit is stored; with `retry`, one that crashed, timed out or was skipped is not."""
        path = self.path(unit)
        if [other for other in self.units.glob(f"{_slug(unit)}-*.csv.gz") if other != path]:
            raise InputError(
                f"{self.folder} holds {unit.method.label} on {unit.task_name} with seed {unit.seed}, but with other "
                "rows, n, max_changes, options, data or version of this package; give another output folder."
            )
        return path.exists() and not (retry and (_read(path)["state"] != "ok").any())

    def write(self, unit: Unit, rows: list[Row]) -> None:
        path = self.path(unit)
        # Any text must come back, whatever an exception says: line ends of all kinds, and what is no Unicode.
        safe: dict[str, Any] = {"quoting": csv.QUOTE_NONNUMERIC, "errors": "backslashreplace"}
        with replacing(path) as temporary:
            pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(temporary, index=False, compression=QUICKLY, **safe)

    def note(self, command: str) -> None:
        """Remember what was run with which versions, on which machine."""
        self.units.mkdir(parents=True, exist_ok=True)
        entry = {"command": command, "started": datetime.now(UTC).isoformat(timespec="seconds"), **environment()}
        write_text(self.folder / "run.json", json.dumps([*self.notes(), entry], indent=1))

    def notes(self) -> list[dict[str, Any]]:
        path = self.folder / "run.json"
        notes: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return notes

    def holds_any(self) -> bool:
        return any(self.units.glob("*.csv.gz"))

    def rows(self) -> pd.DataFrame:
        """All rows, unit by unit in the order of their file names."""
        parts = [_read(path) for path in sorted(self.units.glob("*.csv.gz"))]
        if not parts:
            raise InputError(f"{self.folder} holds no results; `relax-plugin bench --output {self.folder}` makes some.")
        return pd.DataFrame(pd.concat(parts, ignore_index=True))


def run(
    plan: Plan,
    folder: Path | str,
    *,
    jobs: int = 1,
    backend: str = "threading",
    scheduler: str | None = None,
    retry: bool = False,
    command: str = "",
    progress: Callable[[int, int, Unit, list[Row]], None] | None = None,
) -> pd.DataFrame:
    """Run what the folder does not hold yet, and give all rows of the plan.

    Parameters
    ----------
    plan : Plan
    folder : path
        Results of earlier runs in it are kept and not run again.
    jobs : int
        Units side by side, each in a worker process, which is used again as long as nothing goes wrong in it.
    backend : "threading" or "dask"
        Where joblib sends the units: to threads here, or to a Dask cluster, which then needs `scheduler`.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://127.0.0.1:8786``.
    retry : bool
        Run again what crashed, timed out or was skipped.
    command : str
        Remembered as the way to reproduce the run.
    progress : callable, optional
        Given the number done, the number to do, the unit and its rows, whenever one is done.
    """
    return run_units(
        plan.units(),
        folder,
        limit=plan.limit,
        jobs=jobs,
        backend=backend,
        scheduler=scheduler,
        retry=retry,
        command=command,
        progress=progress,
    )


def run_units(
    units: Sequence[Unit],
    folder: Path | str,
    *,
    limit: float | None,
    jobs: int = 1,
    backend: str = "threading",
    scheduler: str | None = None,
    retry: bool = False,
    command: str = "",
    progress: Callable[[int, int, Unit, list[Row]], None] | None = None,
) -> pd.DataFrame:
    """The same as `run` for a list of units, no two of the same task, method label and seed."""
    store = Store(Path(folder))
    if jobs < 1:
        raise InputError(f"jobs is {jobs}, but must be at least 1.")
    if backend not in ("threading", "dask"):
        raise InputError(f"there is no backend {backend!r}; known are 'threading' and 'dask'.")
    if backend == "threading" and scheduler is not None:
        raise InputError(f"the scheduler {scheduler} is for backend 'dask', but the backend is 'threading'.")
    if backend == "dask" and scheduler is None:
        raise InputError("backend 'dask' needs the address of a scheduler, such as tcp://127.0.0.1:8786.")
    open_ = [unit for unit in units if not store.done(unit, retry=retry)]
    store.note(command)
    for done, (unit, rows, seconds) in enumerate(_results(open_, limit, jobs, backend, scheduler), start=1):
        methods = sum(rows[0][name] for name in ("fit_seconds", "explain_seconds", "task_seconds"))
        if rows[0]["state"] == "ok":  # whatever passed between asking and having, the method and its task apart
            for row in rows:
                row["harness_seconds"] = seconds - methods
        store.write(unit, rows)
        if progress is not None:
            progress(done, len(open_), unit, rows)
    order = {unit.key: position for position, unit in enumerate(units)}
    stored = store.rows()
    keys = zip(stored["task"], stored["method"], stored["seed"], strict=True)
    mine = stored.assign(position=np.array([order.get(key, -1) for key in keys])).query("position >= 0")
    return mine.sort_values(["position", "instance"], kind="stable", ignore_index=True).drop(columns="position")


def load_rows(folder: Path | str) -> pd.DataFrame:
    """The rows of a folder of results."""
    return Store(Path(folder)).rows()


def environment() -> dict[str, Any]:
    """Versions and machine, as far as figures depend on them."""
    versions = {}
    for name in VERSIONS_OF:
        with suppress(metadata.PackageNotFoundError):  # an extra that is not installed has no version to tell
            versions[name] = metadata.version(name)
    machine = f"{os.cpu_count()} cores, {_processor()}, {sys.platform}"
    return {"versions": {"python": sys.version.split()[0], **versions}, "machine": machine}


def _processor() -> str:
    """The processor's name where the system tells it, else its kind."""
    told = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)$", told.read_text(), re.MULTILINE) if told.exists() else []
    return names[0] if names else platform.machine()


def _results(
    units: Sequence[Unit], limit: float | None, jobs: int, backend: str, scheduler: str | None
) -> Iterator[tuple[Unit, list[Row], float]]:
    """The units' rows as they come, from joblib's workers here or on a Dask cluster."""
    calls: Iterable[Any] = (joblib.delayed(run_unit)(unit, limit) for unit in units)
    if backend == "dask":
        with _client(scheduler), joblib.parallel_config(backend="dask"):
            yield from joblib.Parallel(return_as="generator_unordered")(calls)
    else:
        try:
            with joblib.parallel_config(backend="threading", n_jobs=jobs):
                yield from joblib.Parallel(return_as="generator_unordered")(calls)
        finally:
            POOL.close()


def _client(scheduler: str | None) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("backend 'dask' needs distributed: pip install 'relax-plugin[dask]'.") from error
    connect: Any = Client  # which has no types
    return connect(scheduler, set_as_default=True)


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


def _read(path: Path) -> pd.DataFrame:
    """The rows as they were: texts such as "NA" stay texts, and floats come back to the last bit."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    for name in COLUMNS:
        if name in WHOLE:
            rows[name] = rows[name].astype("int64")
        elif name in YES_NO:
            rows[name] = rows[name] == "True"
        elif name not in TEXTS:
            rows[name] = np.array([float(text or "nan") for text in rows[name]])
    return rows
