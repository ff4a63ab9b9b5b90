"""How a table of the figures is put together from means over seeds: its cells, its lines, and what was aimed at."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.tables import number, over_seeds, with_deviation
from relax_plugin.evaluation.tasks import LABELS
from relax_plugin.formatting import three_digits

Numbers = defaultdict[str, float]  # of a method on a task; what was not measured is NaN, which reads as a dash
Methods = Callable[[str], Numbers]  # of all methods on a task
Cell = Callable[[Numbers], str]
TaskCell = Callable[[Methods], str]
Value = Callable[[Methods], float]
Finding = Callable[[Sequence[Methods]], str]  # of all tasks, a sentence
ROUNDING = 1e-9  # by which means over seeds may differ, though they are the same


@dataclass(frozen=True)
class Target:
    """What was aimed at on every task; called with the numbers of all tasks, a line that says which reach it.

    Parameters
    ----------
    what : str
    value : what a task has, from the numbers of its methods
    aim : float
        The most it may be, or with `at_least` the least.
    apart : tasks with an aim of their own
    among : whether it is aimed at on a task of that name; on all by default
    decimals : of the value
    """

    what: str
    value: Value
    aim: float
    at_least: bool = False
    apart: Mapping[str, float] = field(default_factory=dict)
    among: Callable[[str], bool] = bool
    decimals: int = 3

    def lines(self, by_task: Mapping[str, defaultdict[str, Numbers]]) -> list[list[str]]:
        """One line; none if no task was measured."""
        values = {task: self.value(methods.__getitem__) for task, methods in by_task.items() if self.among(task)}
        values = {task: value for task, value in values.items() if not np.isnan(value)}
        if not values:
            return []
        sign = -1.0 if self.at_least else 1.0
        beyond = {task: sign * (value - self.apart.get(task, self.aim)) for task, value in values.items()}
        farthest = max(beyond, key=beyond.__getitem__)
        missed = [f"{task} {three_digits(by)}" for task, by in beyond.items() if by > ROUNDING]
        aims = [f"{self.aim:,g}", *(f"{aim:,g} on {task}" for task, aim in self.apart.items() if task in values)]
        return [
            [
                self.what,
                f"{'at least' if self.at_least else 'at most'} {', '.join(aims)}",
                number(float(np.median(list(values.values()))), self.decimals),
                f"{len(values) - len(missed)} of {len(values)}",
                f"{number(values[farthest], self.decimals)} ({farthest})",
                ", ".join(missed) or "none",
            ]
        ]


@dataclass(frozen=True)
class Table:
    """A table of one measurement, of the lines of all: `cells`, or called with them Markdown.

    Parameters
    ----------
    measurement : a name of `MEASUREMENTS`
    about : str
    of_methods : columns of a table with a line for each task and method, by heading
    of_tasks : columns of a table with a line for each task, by heading
    targets : lines of a table that says which tasks reach what was aimed at
    finding : a sentence on all tasks, which stands before the table
    names : what methods are called, if it is not what they are
    among : whether a task of that name is in the table; all are by default
    """

    measurement: str
    about: str
    of_methods: Mapping[str, Cell] = field(default_factory=dict)
    of_tasks: Mapping[str, TaskCell] = field(default_factory=dict)
    targets: Sequence[Target] = ()
    finding: Finding | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    among: Callable[[str], bool] = bool

    def __call__(self, lines: pd.DataFrame) -> str:
        heads, cells = self.cells(lines)
        return "".join(f"| {' | '.join(line)} |\n" for line in [heads, ["---"] * len(heads), *cells])

    def told(self, lines: pd.DataFrame) -> str:
        """What the table is about, and what it says in a sentence, if it has one."""
        by_task = self._by_task(lines)
        if self.finding is None or not by_task:
            return self.about
        return f"{self.about}. {self.finding([methods.__getitem__ for methods in by_task.values()])}"

    def _by_task(self, lines: pd.DataFrame) -> dict[str, defaultdict[str, Numbers]]:
        by_task: dict[str, defaultdict[str, Numbers]] = {}
        known: Any = self.means(lines).to_dict("index")
        for (task, method), numbers in known.items():
            if self.among(task):
                by_task.setdefault(task, defaultdict(_nothing))[method] = _nothing() | numbers
        return by_task

    def cells(self, lines: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
        """The headings, and the cells of every line, as texts."""
        by_task = self._by_task(lines)
        if self.targets:
            heads = ["what", "aim", "median", "reached by", "farthest from it", "missed by"]
            cells = [line for target in self.targets for line in target.lines(by_task)]
        elif self.of_methods:
            heads = ["task", "method", *self.of_methods]
            cells = [
                [task, self.names.get(method, f"`{method}`"), *(cell(numbers) for cell in self.of_methods.values())]
                for task, methods in by_task.items()
                for method, numbers in methods.items()
            ]
        else:
            heads = ["task", *self.of_tasks]
            cells = [
                [task.removesuffix(LABELS), *(cell(methods.__getitem__) for cell in self.of_tasks.values())]
                for task, methods in by_task.items()
            ]
        names = 2 if self.of_methods else 1
        return heads, [line for line in cells if {*line[names:]} != {"-"}]  # what has no number at all is left out

    def means(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Means over the seeds, by task and method."""
        means = over_seeds(lines[lines["measurement"] == self.measurement].drop(columns="measurement"))
        if self.measurement == "labels":  # the yardstick alone was given scores, and has no line of its own
            means = means[means.index.get_level_values("task").str.endswith(LABELS)]
        return means


def _nothing() -> Numbers:
    return defaultdict(lambda: np.nan)


def shown(name: str, decimals: int) -> Cell:
    """A number."""
    return lambda of: number(of[name], decimals)


def spread(name: str, decimals: int) -> Cell:
    """A number and its standard deviation over seeds."""
    return lambda of: with_deviation(of[name], of[f"± {name}"], decimals)


def joined(separator: str, *cells: Cell) -> Cell:
    """Several cells in one."""
    return lambda of: separator.join(cell(of) for cell in cells)


def at(method: str, cell: Cell) -> TaskCell:
    """A cell of one method."""
    return lambda of: cell(of(method))


def beside(cell: Cell, *methods: str) -> TaskCell:
    """The same of several methods, in one cell."""
    return lambda of: " / ".join(cell(of(method)) for method in methods)


def number_of(method: str, name: str) -> Value:
    """A number of one method."""
    return lambda of: of(method)[name]


RATIOS = joined(", ", shown("validity", 3), joined(" / ", shown("L0 ratio", 3), shown("L1 ratio", 3)))
