"""Asked: the question that a call put, kept with its answers, for whoever reads them later."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.goal import Goal
from relax_plugin.plausibility import read_plausibility
from relax_plugin.registry import name_of
from relax_plugin.table.constraints import Constraints
from relax_plugin.table.plain_cells import from_plain, to_plain

if TYPE_CHECKING:
    from relax_plugin.base import CounterfactualExplainer


@dataclass(frozen=True)
class Asked:
    """What was asked of an explainer: the goal, and the constraints of the call beside those of the space.

    Rules and costs of a call are in the space of its result, which has them beside its own.
    """

    method: str  # the registry's name, or that of the class
    goal: Goal
    classes: tuple[Any, ...] | None  # of a classifier, in the order of its scores
    probabilities: bool  # whether the scores are probabilities
    max_changes: int
    objective: str
    vary: tuple[Hashable, ...] | None = None  # None: all that the space allows
    bounds: Mapping[Any, tuple[Any, ...]] = field(default_factory=dict)  # an end may be a tuple, one a row
    immutable: tuple[Hashable, ...] = ()
    increase_only: tuple[Hashable, ...] = ()
    decrease_only: tuple[Hashable, ...] = ()
    plausible: str | None = None
    further_models: int = 0  # how many beside the first an answer must hold for

    @property
    def constraints(self) -> Constraints:
        """What the call said about features."""
        names = ("immutable", "increase_only", "decrease_only")
        return Constraints(self.vary, self.bounds or None, *(getattr(self, name) or None for name in names))

    def take(self, rows: Any) -> "Asked":
        """The question about some of the rows, their positions."""
        bounds = {
            name: tuple(_chosen(end, rows) if isinstance(end, tuple) else end for end in ends)
            for name, ends in self.bounds.items()
        }
        return replace(self, goal=self.goal.chunk(rows), bounds=bounds)

    def to_dict(self) -> dict[str, Any]:
        """As a mapping that JSON can hold."""
        lists = {name: _plain(getattr(self, name)) for name in ("vary", "immutable", "increase_only", "decrease_only")}
        bounds = [[to_plain(name, name), _plain(ends)] for name, ends in self.bounds.items()]
        goal = self.goal.to_dict()
        goal["label"] = _plain(goal["label"])
        return {**vars(self), **lists, "goal": goal, "classes": _plain(self.classes), "bounds": bounds}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Asked":
        """What `to_dict` wrote."""
        lists = {name: _read(data[name]) for name in ("vary", "immutable", "increase_only", "decrease_only", "classes")}
        goal = Goal.from_dict({**data["goal"], "label": _read(data["goal"]["label"])})
        bounds = {from_plain(name): _read(ends) for name, ends in data["bounds"]}
        return cls(**{**data, **lists, "goal": goal, "bounds": bounds})


def asked_of(explainer: "CounterfactualExplainer", goal: Goal | None, said: Constraints) -> Asked:
    """The question of a call; the explainer is the copy that answered it."""
    wanted, classes = read_plausibility(explainer.plausible), explainer.blackbox_.classes
    return Asked(
        method=name_of(explainer),
        goal=explainer.wanted_goal(goal).spelled(explainer.blackbox_),
        classes=None if classes is None else tuple(np.asarray(classes).tolist()),
        probabilities=explainer.blackbox_.has_probabilities,
        max_changes=explainer._most_changes(),
        objective=explainer.objective_,
        vary=None if said.vary is None else tuple(said.vary),
        bounds={name: tuple(map(_kept, ends)) for name, ends in (said.bounds or {}).items()},
        immutable=tuple(said.immutable or ()),
        increase_only=tuple(said.increase_only or ()),
        decrease_only=tuple(said.decrease_only or ()),
        plausible=None if wanted is None else "require" if wanted.strict else "prefer",
        further_models=len(explainer.further_),
    )


def _kept(end: Any) -> Any:
    """An end of a range; of one for each row a tuple, since the user may write into it later."""
    return tuple(np.asarray(end).tolist()) if pd.api.types.is_list_like(end) else end


def _chosen(ends: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
    return ends if len(ends) == 1 else tuple(np.array(ends, dtype=object)[rows].tolist())


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else to_plain(value, "asked")


def _read(value: Any) -> Any:
    return tuple(_read(one) for one in value) if isinstance(value, list) else from_plain(value)
