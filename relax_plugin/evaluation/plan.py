"""The plan of a benchmark: tasks × methods × seeds, refused before anything heavy is imported if it could not run.

Suites are fixed plans by name, so that whoever runs one measures the same as everybody else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relax_plugin.errors import InputError, UnknownNameError, did_you_mean
from relax_plugin.evaluation.schema import ROW, Row
from relax_plugin.evaluation.tasks import ALIASES, TOLD_TASKS, Task, check_task_name, load_task
from relax_plugin.registry import check_name, check_options, full_name, read_method


@dataclass(frozen=True)
class Method:
    """An explainer of the registry with options, and the label it has in tables."""

    label: str
    explainer: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Method":
        """A name, or a name with options such as `relax-global:effort=policy,max_queries=120`."""
        return cls(full_name(text), *read_method(text))


@dataclass(frozen=True)
class Unit:
    """What is run, timed and stored as a whole: one method on one task with one seed."""

    task: str | Task
    method: Method
    seed: int
    rows: int | None = None  # at most so many test rows, the first ones
    n: int = 1  # counterfactuals asked for each
    max_changes: int | None = None  # for every method; None: each method's own default
    masks: int = 0  # so many random halves of the features frozen at the call, one after another; 0: none is frozen
    metrics: str = "cheap"  # or "all": with models fitted again, and queries explained again with noise
    prices: str = ""  # "told" or "hidden": half of the features are ten times as dear, and the method knows it or not

    @property
    def task_name(self) -> str:
        return self.task if isinstance(self.task, str) else self.task.name

    @property
    def key(self) -> tuple[str, str, int]:
        return self.task_name, self.method.label, self.seed

    def load(self) -> Task:
        return load_task(self.task, seed=self.seed) if isinstance(self.task, str) else self.task

    def failure(self, state: str, reason: str, known: Mapping[str, Any] | None = None) -> Row:
        """The single row of a unit that gave no counterfactuals."""
        row: Row = {column.name: column.missing for column in ROW}
        row |= {"task": self.task_name, "method": self.method.label, "seed": self.seed}
        readable = reason.encode("utf-8", "backslashreplace").decode("utf-8")  # a file name may hold what no text may
        return row | {"state": state, "reason": readable} | dict(known or {})


PRICES = ("", "told", "hidden")
METRICS = ("cheap", "all")
BACKENDS = ("threading", "dask")


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
    masks : int
        Above 0 the rows are explained so many times without a new fit, a random half of the features frozen each time.
    prices : "", "told" or "hidden"
        If there are some, a random half of the features, the seed's, is ten times as dear to change as the others. The
        judge goes by them; the methods do so if they are told at the call.
    metrics : "cheap" or "all"
        All of them take models fitted again and queries explained again: some times what the cheap ones take.
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
    masks: int = 0
    prices: str = ""
    metrics: str = "cheap"
    limit: float | None = 600.0

    def units(self) -> list[Unit]:
        """All units, those of one task and seed together: a worker then trains the model once."""
        methods = [Method.parse(method) if isinstance(method, str) else method for method in self.methods]
        self._check(methods)
        return [
            Unit(
                *(task, method, seed, self._rows_of(method.label), self.n, self.max_changes),
                masks=self.masks,
                prices=self.prices,
                metrics=self.metrics,
            )
            for task in self.tasks
            for seed in self.seeds
            for method in methods
        ]

    def _rows_of(self, label: str) -> int | None:
        counts = [count for count in (self.rows, self.method_rows.get(label)) if count is not None]
        return min(counts, default=None)

    def _check(self, methods: Sequence[Method]) -> None:
        for task in self.tasks:
            if isinstance(task, str):
                check_task_name(task)
        for method in methods:
            check_name(method.explainer)
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
        if self.masks < 0:
            raise InputError(f"masks is {self.masks}, but must be at least 0.")
        if self.prices not in PRICES:
            raise InputError(f"prices is {self.prices!r}, but must be one of {', '.join(map(repr, PRICES))}.")
        if self.metrics not in METRICS:
            raise InputError(f"metrics is {self.metrics!r}, but must be one of {', '.join(map(repr, METRICS))}.")
        if self.limit is not None and not self.limit > 0:
            raise InputError(f"limit is {self.limit}, but must be a number of seconds above 0, or None for no limit.")
        for method in methods:  # the last: an explainer of another package is imported for it
            check_options(method.explainer, method.options)


def check_place(jobs: int, backend: str = "threading", scheduler: str | None = None) -> None:
    """Refuse a place to run units that is none."""
    if jobs < 1:
        raise InputError(f"jobs is {jobs}, but must be at least 1.")
    if backend not in BACKENDS:
        raise InputError(f"there is no backend {backend!r}; known are 'threading' and 'dask'.")
    if backend == "threading" and scheduler is not None:
        raise InputError(f"the scheduler {scheduler} is for backend 'dask', but the backend is 'threading'.")
    if backend == "dask" and scheduler is None:
        raise InputError("backend 'dask' needs the address of a scheduler, such as tcp://127.0.0.1:8786.")


@dataclass(frozen=True)
class Suite:
    """A benchmark: every method on every task, seed and query, under one limit."""

    name: str
    tasks: tuple[str, ...]
    methods: tuple[str, ...]  # with options where they need some
    seeds: int
    rows: int  # the same for every method: who does not get through them in time has not
    limit: float  # seconds for fit and explain of one method on one task and seed
    max_changes: int  # for every method alike

    @classmethod
    def told(cls, tasks: list[str], methods: list[str], why: str, **numbers: Any) -> "Suite":
        """A suite of `tasks.json`, which also says why it is made so."""
        return cls(tasks=tuple(tasks), methods=tuple(methods), **numbers)

    def plan(self) -> Plan:
        """What `runner.run` runs, with every metric."""
        return Plan(
            tasks=self.tasks,
            methods=self.methods,
            seeds=range(self.seeds),
            rows=self.rows,
            max_changes=self.max_changes,
            metrics="all",
            limit=self.limit,
        )

    def narrowed(
        self,
        tasks: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        seeds: int | None = None,
        rows: int | None = None,
        limit: float | None = None,
    ) -> "Suite":
        """The same with what is given in place of its own: to try it, not to compare with others."""
        return replace(
            self,
            tasks=self.tasks if tasks is None else tuple(tasks),
            methods=self.methods if methods is None else tuple(methods),
            seeds=self.seeds if seeds is None else seeds,
            rows=self.rows if rows is None else rows,
            limit=self.limit if limit is None else limit,
        )


SUITES = {told["name"]: Suite.told(**told) for told in TOLD_TASKS["suites"]}


def suite_of(name: str) -> Suite:
    """The suite of a name."""
    if name not in SUITES:
        raise UnknownNameError(f"There is no suite {name!r}; {did_you_mean(name, list(SUITES))}")
    return SUITES[name]
