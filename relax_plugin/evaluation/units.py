"""Units: one method on one task with one seed, and the columns of the rows that the judge makes of it.

Nothing heavy is imported here: a plan is checked, and refused, before pandas, scikit-learn or torch are needed.
"""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relax_plugin.errors import InputError
from relax_plugin.evaluation.tasks import Task, load_task

Row = dict[str, Any]

UNIT_COLUMNS = ("task", "method", "seed", "state", "reason", "instances", "features", "kind", "max_changes")
COST_COLUMNS = tuple(f"{part}_{what}" for part in ("fit", "explain") for what in ("seconds", "cpu", "rows", "calls"))
TIME_COLUMNS = ("model_seconds", "task_seconds", "harness_seconds")
INSTANCE_COLUMNS = (
    *("instance", "claimed", "valid", "violations", "sparsity", "proximity", "redundant", "inside_box"),
    *("neighbour_distance", "found_count", "diversity", "before", "after", "probability_before", "probability_after"),
    *("stage", "sentence", "rows", "query", "changes"),
)
COLUMNS = (*UNIT_COLUMNS, *INSTANCE_COLUMNS, *COST_COLUMNS, *TIME_COLUMNS)
STATES = ("ok", "crashed", "timed out", "skipped")


@dataclass(frozen=True)
class Method:
    """An explainer of the registry with options, and the label it has in tables."""

    label: str
    explainer: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Method":
        """A name, or a name with options such as `relax-global:effort=policy,rows_per_instance=120`."""
        name, _, tail = text.partition(":")
        options = {}
        for part in tail.split(",") if tail else ():
            key, equals, value = part.partition("=")
            if not key or not equals:
                raise InputError(f"method {text!r} has the option {part!r}; write name:option=value,option=value.")
            options[key] = _literal(value)
        return cls(text, name, options)


@dataclass(frozen=True)
class Unit:
    """What is run, timed and stored as a whole: one method on one task with one seed."""

    task: str | Task
    method: Method
    seed: int
    rows: int | None = None  # at most so many test rows, the first ones
    n: int = 1  # counterfactuals asked for each
    max_changes: int | None = None  # for every method; None: each method's own default

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
        row: Row = dict.fromkeys(COLUMNS, math.nan)
        nothing = {"claimed": False, "valid": False, "changes": "[]"}
        nothing |= dict.fromkeys(("instances", "features", "violations", "found_count"), 0)
        texts = dict.fromkeys(("kind", "before", "after", "stage", "sentence", "query"), "")
        row |= {"task": self.task_name, "method": self.method.label, "seed": self.seed, "instance": -1}
        return row | nothing | texts | {"state": state, "reason": reason} | dict(known or {})


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: brackets without end
        return text
