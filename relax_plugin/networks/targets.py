"""Targets: a goal as linear inequalities of a network's outputs.

A row meets its goal if in one of some *groups* every sum, matrix · outputs + offset, is at least 0. Nearer to 0 than
the margin of rounding the model itself has to be asked.
"""

from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Floats
from relax_plugin.errors import UnsupportedError
from relax_plugin.goal import BoundGoal


@dataclass(frozen=True)
class Target:
    """The goal of one query."""

    matrix: Floats  # (groups, sums, outputs)
    offset: Floats  # (groups, sums)
    slack: float = 0.0  # what one rounding of a probability is worth in logits

    def gap(self, outputs: Floats) -> Floats:
        """How far above 0 the worst sum of the best group is (rows,)."""
        return np.asarray(self.sums(outputs).min(axis=2).max(axis=1))

    def sums(self, outputs: Floats) -> Floats:
        """The sums (rows, groups, sums)."""
        return np.asarray(np.einsum("gso,no->ngs", self.matrix, outputs) + self.offset)

    def margin(self, error: Floats, precision: float) -> float:
        """How far a sum may be from the exact one, given how far each output may be, and the rounding of an answer."""
        return float((np.abs(self.matrix) @ error).max() + self.slack * precision)


def target_of(goal: BoundGoal, row: int, width: int) -> Target:
    """The target of a query; raises UnsupportedError, *it ...*, where the goal is not linear in the outputs."""
    if goal.wanted is None:
        assert goal.lower is not None and goal.upper is not None
        above, below = (1.0, -float(goal.lower[row])), (-1.0, float(goal.upper[row]))
        if not goal.inside:
            above, below = (1.0, -float(goal.upper[row])), (-1.0, float(goal.lower[row]))
        finite = [side for side in (above, below) if np.isfinite(side[1])]
        matrix, offset = np.array([[side] for side, _ in finite]), np.array([end for _, end in finite])
        return Target(matrix[None], offset[None]) if goal.inside else Target(matrix[:, None], offset[:, None])
    wanted = goal.wanted[row]
    if not wanted.any():  # a model of one class
        return Target(np.zeros((1, 1, width)), np.full((1, 1), -np.inf))
    if width == 1:
        return _of_two(goal, row, bool(wanted[1]))
    identity, count = np.eye(width), int(wanted.sum())
    if goal.needs_scores:
        if width > 2:
            raise UnsupportedError("it proves nothing about the probability of a class among more than two")
        own = int(wanted.argmax())
        least, slack = _least_logit(goal, row)
        return Target((identity[own] - identity[1 - own])[None, None], np.array([[-least]]), slack)
    rivals = np.flatnonzero(~wanted) if count > 1 else None
    groups = [
        identity[own] - identity[np.delete(np.arange(width), own) if rivals is None else rivals]
        for own in np.flatnonzero(wanted)
    ]
    matrix = np.array(groups)
    return Target(matrix, np.zeros(matrix.shape[:2]))


def _of_two(goal: BoundGoal, row: int, rises: bool) -> Target:
    """Two classes, one logit: class 1 above 0."""
    least, slack = _least_logit(goal, row) if goal.needs_scores else (0.0, 0.0)
    return Target(np.full((1, 1, 1), 1.0 if rises else -1.0), np.array([[-least]]), slack)


def _least_logit(goal: BoundGoal, row: int) -> tuple[float, float]:
    """The least log odds of the wanted class, and what rounding is worth there."""
    told = goal.min_probability if goal.least is None else float(goal.least[row])
    assert told is not None
    probability = float(np.clip(told, 1e-15, 1 - 1e-15))
    logit = float(np.log(probability) - np.log1p(-probability))
    slack = 16.0 / (probability * (1 - probability))
    return (max(logit, 0.0) if goal.least is None else logit), slack
