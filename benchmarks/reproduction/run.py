"""Running the plan: models first, then every case under the judge, then the case study; whatever is done stays done.

A folder of results holds `*.csv` (tidy, small, to be kept), `about.json` (commands, versions, machine) and `units/`
(every single answer, from which the tables are made and by which an interrupted run goes on). Where the units are gone,
`only` runs a part again and the tables keep the rest.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import joblib
import pandas as pd
from sklearn.model_selection import ParameterGrid

from benchmarks.reproduction.covid.section import FRAMES, run_studies
from benchmarks.reproduction.models import COLUMNS as MODEL_COLUMNS
from benchmarks.reproduction.models import FOLDS, GRIDS, tune
from benchmarks.reproduction.plan import (
    LIMIT,
    PARTS,
    STUDY_SECONDS,
    TUNING_SECONDS,
    Case,
    cases,
    chosen_cases,
    models_needed,
    seeds_of,
    task_of,
)
from benchmarks.reproduction.results import TABLE_COLUMNS, TEXTS, results
from benchmarks.stored import read_table, write_table
from relax_plugin.errors import InputError
from relax_plugin.evaluation.judge import Row, Unit
from relax_plugin.evaluation.runner import Plan, Store, schedule
from relax_plugin.evaluation.runner import run as run_plan
from relax_plugin.evaluation.store import Cache, Notes, commit, environment, now

Say = Callable[[str], None]


class Watcher(Protocol):
    """Who is told what runs and how far it is: the live line of a terminal (`commands.live.Live`)."""

    left: float | None  # seconds

    def begins(self, of: int, name: str) -> None: ...

    def ends(self, done: int, of: int, name: str) -> None: ...


TABLES = ("models", *PARTS, "lore_sa")  # the last one by benchmarks/hosts/time_of_lore_sa.py
STUDY, TUNING = "the case study on COVID-19", "cross-validation of the models"  # what a watcher is told
VERDICTS, VERDICTS_BEFORE = "verdicts", "verdicts_before"


@dataclass(frozen=True)
class Listed(Plan):
    """Units that are listed, and no tasks × methods × seeds."""

    listed: Sequence[Unit] = ()

    def units(self) -> list[Unit]:
        return list(self.listed)


class Folder:
    """A folder of results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.units = path / "units"
        self.notes = Notes(path / "about.json", ("command", "started", "machine"))

    def write(self, name: str, table: pd.DataFrame) -> None:
        """Keep a table."""
        write_table(self.path / f"{name}.csv", table)

    def read(self, name: str) -> pd.DataFrame:
        """A table as it was written."""
        path = self.path / f"{name}.csv"
        if not path.exists():
            raise InputError(f"{self.path} holds no {path.name}; `relax-plugin reproduce` makes it.")
        return read_table(path, TABLE_COLUMNS.get(name, ()), TEXTS)

    def covid(self) -> dict[str, pd.DataFrame]:
        """The frames of the case study, if it was run."""
        return {name: self.read(f"covid_{name}") for name in FRAMES if self.has(f"covid_{name}")}

    def has(self, name: str) -> bool:
        return (self.path / f"{name}.csv").exists()

    def remember_verdicts(self) -> None:
        """Keep the verdicts that were written last as those before, beside which the next ones are shown."""
        if self.has(VERDICTS):
            (self.path / f"{VERDICTS}.csv").replace(self.path / f"{VERDICTS_BEFORE}.csv")

    def verdicts_before(self) -> pd.DataFrame | None:
        """The verdicts before those of now, if there are any."""
        return self.read(VERDICTS_BEFORE) if self.has(VERDICTS_BEFORE) else None

    def about(self) -> list[dict[str, Any]]:
        """What was typed, in turn, when, with which versions, on which machine, and how long it took."""
        return self.notes.read()


class Clock:
    """Tells how long it will still take: the seconds expected, corrected by how it went so far."""

    def __init__(self, expected: float, jobs: int) -> None:
        self.left, self.jobs = expected, jobs
        self.done = 0.0
        self.started = time.perf_counter()

    def tick(self, expected: float) -> None:
        self.left -= expected
        self.done += expected

    @property
    def minutes(self) -> float:
        spent = time.perf_counter() - self.started
        pace = spent / self.done if self.done > 60.0 else 1.0 / self.jobs  # the first cases tell little
        return max(self.left, 0.0) * pace / 60.0


def reproduce(
    folder: Folder,
    *,
    quick: bool,
    jobs: int,
    command: str,
    say: Say,
    retry: bool = False,
    only: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> None:
    """Run what the folder does not hold yet, and write its tables, also if it is interrupted.

    Parameters
    ----------
    folder : Folder
    quick : bool
        Two seeds and fewer rows, instead of five.
    jobs : int
        Runs side by side.
    command : str
        Remembered as what was typed.
    say : callable
        Told how far it is, in lines.
    retry : bool
        Run again what crashed, timed out or was skipped, for instance because a library was missing.
    only : texts
        Run the cases with one of them in their label, and the case study if "covid" is one. Models and lines of other
        cases stay as the folder's tables have them, and the verdicts that it had are kept as those before.
    watcher : Watcher, optional
        Told what runs.
    """
    started = time.perf_counter()
    wanted, needed = cases(quick), models_needed(quick)
    chosen = {(case.task, case.label, case.seed) for case in chosen_cases(wanted, only)}
    kept = {part: folder.read(part) for part in PARTS if only and folder.has(part)}
    if only and not folder.units.exists():  # else this run goes on with one that was interrupted
        folder.remember_verdicts()
    folder.units.mkdir(parents=True, exist_ok=True)
    folder.notes.add({"command": command, "started": now(), "commit": commit(), **environment()})
    before = folder.read("models") if only and folder.has("models") else None
    tuned = _models(folder, needed, jobs, say, before, watcher)
    folder.write("models", tuned)
    by_key = {(case.task, case.label, case.seed): case for case in wanted}
    units = [case.unit(task) for case, task in _with_tasks(wanted, tuned)]
    store = Store(folder.units)
    to_run = [unit for unit in units if unit.key in chosen]
    open_ = [by_key[unit.key] for unit in to_run if not store.done(unit, retry=retry)]
    clock = Clock(sum(case.expected_seconds for case in open_), jobs)
    say(f"{len(open_)} of {len(to_run)} cases are still to be run, in about {clock.minutes:.0f} minutes.")
    progress = Progress(by_key, clock, say, watcher)
    try:
        plan = Listed((), (), limit=LIMIT, listed=to_run)
        run_plan(plan, folder.units, jobs=jobs, retry=retry, command=command, progress=progress)
    finally:
        # What was not run, or was interrupted, is as the tables had it: `kept`.
        for part, frame in results(wanted, store.rows_of(store.stored(units)), kept).items():
            folder.write(part, frame)
    studied: dict[str, pd.DataFrame] = {}
    if not only or "covid" in only:
        if watcher is not None:
            watcher.begins(1, STUDY)
        studied = run_studies(folder.units / "covid", seeds_of(quick), jobs, say)
        if watcher is not None:
            watcher.ends(1, 1, STUDY)
    for name, frame in studied.items():
        folder.write(f"covid_{name}", frame)
    folder.notes.complete({"finished": now(), "seconds": round(time.perf_counter() - started)})


def expected_minutes(quick: bool, jobs: int) -> float:
    """How long a run from the beginning takes on a machine like that of README."""
    if jobs < 1:
        raise InputError(f"jobs is {jobs}, but must be at least 1.")
    seconds = TUNING_SECONDS * len(models_needed(quick)) + STUDY_SECONDS * len(seeds_of(quick))
    return (seconds + sum(case.expected_seconds for case in cases(quick))) / jobs / 60.0


def _models(
    folder: Folder,
    needed: Sequence[tuple[str, int]],
    jobs: int,
    say: Say,
    kept: pd.DataFrame | None,
    watcher: Watcher | None,
) -> pd.DataFrame:
    """The tuned models, each stored as soon as it is there; those that an earlier run chose among the same are kept."""
    cache = Cache(folder.units / "models")
    if kept is not None:
        for name, seed in needed:
            frame = kept[(kept["task"] == name) & (kept["seed"] == seed)]
            candidates = [json.dumps(candidate, sort_keys=True) for candidate in ParameterGrid(GRIDS[name])]
            if frame["parameters"].tolist() == candidates and not cache.has(_stored_as(name, seed)):
                cache.write(_stored_as(name, seed), frame)
    missing = [case for case in needed if not cache.has(_stored_as(*case), partial(_check_tuned, *case))]
    if watcher is not None and missing:
        watcher.begins(len(missing), TUNING)
    for done, frame in enumerate(schedule(_tune, missing, jobs=jobs), start=1):
        name, seed = str(frame["task"].iloc[0]), int(frame["seed"].iloc[0])
        cache.write(_stored_as(name, seed), frame)
        chosen = frame[frame["chosen"]].iloc[0]
        say(f"[model {done}/{len(missing)}] {name}, seed {seed}: {chosen['measure']} {chosen['test']:.3f}")
        if watcher is not None:
            watcher.ends(done, len(missing), TUNING if done == len(missing) else "")
    return pd.DataFrame(pd.concat([cache.read(_stored_as(*case)) for case in needed], ignore_index=True))


def _tune(case: tuple[str, int]) -> pd.DataFrame:
    return tune(*case)


def _stored_as(name: str, seed: int) -> str:
    """With the candidates in it: other ones would be another result."""
    return f"{name.replace('/', '-')}-{seed}-{joblib.hash((GRIDS[name], FOLDS))[:8]}"


def _check_tuned(name: str, seed: int, frame: pd.DataFrame) -> None:
    """Refuse a frame of `tune` that is not this model's, or does not say which candidate was chosen."""
    if list(frame.columns) != MODEL_COLUMNS:
        raise ValueError(f"it has not the columns {', '.join(MODEL_COLUMNS)}")
    if set(frame["task"]) != {name} or set(frame["seed"]) != {seed} or frame["chosen"].sum() != 1:
        raise ValueError(f"it does not tell which model of {name} with seed {seed} was chosen")


def _with_tasks(wanted: Sequence[Case], tuned: pd.DataFrame) -> list[tuple[Case, Any]]:
    """Each case with its task, one object for all cases of the same task and seed."""
    tasks: dict[tuple[str, int], Any] = {}
    for case in wanted:
        if (case.task, case.seed) not in tasks:
            tasks[case.task, case.seed] = task_of(case, tuned)
    return [(case, tasks[case.task, case.seed]) for case in wanted]


class Progress:
    """Says in a line how each case went, and tells a watcher what runs and how long it may still take."""

    def __init__(
        self, by_key: dict[tuple[str, str, int], Case], clock: Clock, say: Say, watcher: Watcher | None
    ) -> None:
        self.by_key, self.clock, self.say, self.watcher = by_key, clock, say, watcher

    def started(self, of: int, unit: Unit) -> None:
        if self.watcher is not None:
            self.watcher.left = 60.0 * self.clock.minutes
            self.watcher.begins(of, _name(unit))

    def __call__(self, done: int, total: int, unit: Unit, rows: list[Row]) -> None:
        self.clock.tick(self.by_key[unit.key].expected_seconds)
        if self.watcher is not None:
            self.watcher.left = None if done == total else 60.0 * self.clock.minutes
            self.watcher.ends(done, total, _name(unit))
        state = rows[0]["state"]
        told = f"{sum(row['valid'] for row in rows)} of {len(rows)} solved" if state == "ok" else state
        self.say(f"[{done}/{total}] {_name(unit)}: {told}; {self.clock.minutes:.0f} min left")


def _name(unit: Unit) -> str:
    return f"{unit.task_name}, seed {unit.seed}, {unit.method.label}"
