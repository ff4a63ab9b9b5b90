"""Surrogate models of tiny models, and problems for the search in imagination."""

from typing import Any

import numpy as np

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.limits import Limits
from relax_plugin.problem import Problem
from relax_plugin.surrogate.model import SurrogateModel


def learned(model: Any, rows: Any, task: Any = "auto", space: FeatureSpace | None = None) -> tuple[BlackBox, Any, Any]:
    """A black box that has seen the rows, the rows as values, and its answer to them."""
    space = space or FeatureSpace.infer(rows)
    blackbox, values = BlackBox(model, space, task), space.values(rows)
    return blackbox, values, blackbox.learn(values)


def goal_of(blackbox, answer):
    """The goal of another class, or of a value that is higher by what values differ."""
    if blackbox.task == "regression":
        return Goal.shift(float(np.ptp(answer.output)) or 1.0).bind(blackbox, answer)
    return Goal.flip().bind(blackbox, answer)


def world_of(
    model: Any, rows: Any, task: Any = "auto", space: FeatureSpace | None = None, seed: int = 0, share: float = 1.0
) -> SurrogateModel:
    """A surrogate model fitted to the first half of the rows for a share of the effort, and judged by the others."""
    blackbox, values, answer = learned(model, rows, task, space)
    world, half = SurrogateModel(blackbox, values, seed), len(values) // 2
    world.fit(values[:half], answer.take(slice(half)), share)
    others = answer.take(slice(half, None))
    world.judge(values[half:], others, goal_of(blackbox, others))
    return world


def problem_of(
    blackbox: BlackBox, start: Any, goal: Goal | None = None, max_changes: int = 3, limits: Limits | None = None
) -> Problem:
    """The queries of one call, whose own answers are known and paid for."""
    assert blackbox.space is not None
    before = blackbox.ask(start)
    default = Goal.shift(1.0) if blackbox.task == "regression" else Goal.flip()
    bound = (goal or default).bind(blackbox, before)
    spent = np.zeros(len(start), dtype=np.int64)
    limits = limits or blackbox.space.limits()
    return Problem(blackbox.space, blackbox, start, before, bound, limits, max_changes, spent)
