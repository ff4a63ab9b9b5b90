"""The runner: tasks × methods × seeds, each unit in a process that can be ended, stored as it is done.

A unit is stored whole, under its own name, by writing a temporary file and renaming it. Whatever ends the run loses at
most the units under way; run again, it does what is not stored yet, or not readably.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.plan import Plan, check_place
from relax_plugin.evaluation.store import Store, environment
from relax_plugin.evaluation.units import Row, Unit
from relax_plugin.evaluation.worker import POOL, run_unit

__all__ = ["Plan", "Store", "environment", "load_rows", "run", "run_units"]


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
    check_place(jobs, backend, scheduler)
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
    return store.rows_of(units)


def load_rows(folder: Path | str) -> pd.DataFrame:
    """The rows of a folder of results."""
    return Store(Path(folder)).rows()


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
