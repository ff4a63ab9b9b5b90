"""Units: one method on one task with one seed.

Nothing heavy is imported here: a plan is checked, and refused, before pandas, scikit-learn or torch are needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relax_plugin.evaluation.schema import ROW, Row
from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.registry import full_name, read_method


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
