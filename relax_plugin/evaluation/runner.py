"""The runner: tasks × methods × seeds, each unit in a process that can be ended, stored as it is done.

A unit is stored whole, under its own name, by writing a temporary file and renaming it. Whatever ends the run loses at
most the units under way; run again, it does what is not stored yet, or not readably.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.plan import Plan, Unit, check_place
from relax_plugin.evaluation.schema import Row
from relax_plugin.evaluation.store import Store, environment
from relax_plugin.evaluation.worker import POOL, run_unit

Progress = Callable[[int, int, Unit, list[Row]], None]
Started = Callable[[int, Unit], None]

__all__ = ["Plan", "Progress", "Store", "environment", "judged_units", "load_rows", "run", "schedule"]


def run(
    plan: Plan,
    folder: Path | str,
    *,
    jobs: int = 1,
    backend: str = "threading",
    scheduler: str | None = None,
    retry: bool = False,
    command: str = "",
    progress: Progress | None = None,
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
        Given the number done, the number to do, the unit and its rows, whenever one is done. If it has a method
        `started`, that is given the number to do and the unit, whenever one begins here, in the thread that waits for
        it; a Dask cluster does not tell.
    """
    store = Store(Path(folder))
    check_place(jobs, backend, scheduler)
    units = plan.units()
    open_ = [unit for unit in units if not store.done(unit, retry=retry)]
    store.note(command)
    told: Started | None = getattr(progress, "started", None)
    started = None if told is None else partial(told, len(open_))
    answers = judged_units(open_, limit=plan.limit, jobs=jobs, backend=backend, scheduler=scheduler, started=started)
    for done, (unit, rows, seconds) in enumerate(answers, start=1):
        apart = ("fit_seconds", "explain_seconds", "task_seconds", "start_seconds")
        methods = sum(rows[0][name] for name in apart)
        if rows[0]["state"] == "ok":  # whatever passed between asking and having, the method, task and starts apart
            for row in rows:
                row["harness_seconds"] = seconds - methods
        store.write(unit, rows)
        if progress is not None:
            progress(done, len(open_), unit, rows)
    return store.rows_of(units)


def load_rows(folder: Path | str) -> pd.DataFrame:
    """The rows of a folder of results."""
    return Store(Path(folder)).rows()


def judged_units(
    units: Iterable[Unit],
    *,
    limit: float | None,
    jobs: int = 1,
    backend: str = "threading",
    scheduler: str | None = None,
    started: Callable[[Unit], None] | None = None,
) -> Iterator[tuple[Unit, list[Row], float]]:
    """Each unit as it is done, its rows, and the seconds it took; each in a worker process that can be ended.

    `started` is told of each that begins, where that is here and not on a cluster.
    """
    run_one: Callable[[Unit], Any] = partial(run_unit, limit=limit)
    if started is not None and backend != "dask":
        run_one = partial(_announced, run_one, started)
    try:
        yield from schedule(run_one, units, jobs=jobs, backend=backend, scheduler=scheduler)
    finally:
        if backend != "dask":
            POOL.close()


def _announced(run_one: Callable[[Unit], Any], started: Callable[[Unit], None], unit: Unit) -> Any:
    started(unit)
    return run_one(unit)


def schedule(
    function: Callable[[Any], Any],
    cases: Iterable[Any],
    *,
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
) -> Iterator[Any]:
    """What the function gives for each case, as it comes.

    Parameters
    ----------
    function : callable of one case
    cases : iterable
    jobs : int
        Side by side.
    backend : "loky", "threading" or "dask"
        Processes of one thread each, threads (for those who start processes themselves), or a Dask cluster.
    scheduler : str, optional
        Address of the cluster's scheduler.
    """
    calls = (joblib.delayed(function)(case) for case in cases)
    places: dict[str, Any] = {
        "loky": {"n_jobs": jobs, "inner_max_num_threads": 1},
        "threading": {"n_jobs": jobs},
        "dask": {},  # as many as the cluster has workers
    }
    connected = _client(scheduler) if backend == "dask" else nullcontext()
    with connected, joblib.parallel_config(backend=backend, **places[backend]):
        yield from joblib.Parallel(return_as="generator_unordered")(calls)


def _client(scheduler: str | None) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("backend 'dask' needs distributed: pip install 'relax-plugin[dask]'.") from error
    connect: Any = Client  # which has no types
    return connect(scheduler, set_as_default=True)
