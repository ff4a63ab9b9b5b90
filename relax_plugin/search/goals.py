"""Goals to learn with: one for each training row, so that what is learned serves other goals of the same kind too."""

from dataclasses import replace

import numpy as np

from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import GoalError
from relax_plugin.goal import BoundGoal, Goal


def random_goals(goal: Goal | None, blackbox: BlackBox, answer: Answer, rng: np.random.Generator) -> BoundGoal:
    """A goal for each row: of several classes half are targeted, so that what is learned serves both kinds of goal."""
    if goal is None:  # of a regressor: what is learned with half a standard deviation serves other goals too
        half = float(np.std(answer.output)) / 2 if len(answer) else 0.0
        return Goal.shift(half or 1.0).bind(blackbox, answer)
    if blackbox.task == "regression":
        if goal.rows == 0:
            raise GoalError("Goal.between has no range, and fit needs one to learn with; give it to explain instead.")
        if goal.rows is not None:  # one for each query: what is learned serves any of them
            goal = goal.chunk(rng.integers(0, goal.rows, len(answer)))
        return goal.bind(blackbox, answer)
    if goal.raise_by is not None:
        return _random_rises(goal, goal.raise_by, blackbox, answer, rng)
    untargeted = Goal.flip(min_probability=goal.min_probability).bind(blackbox, answer)
    untargeted = replace(untargeted, avoided=None)
    assert untargeted.wanted is not None
    classes = untargeted.wanted.shape[1]
    if classes <= 2:
        return untargeted
    target = rng.integers(0, classes, len(answer))
    if goal.kind == "to" and not isinstance(goal.label, tuple):
        fixed = goal.bind(blackbox, answer).wanted
        assert fixed is not None
        target = np.where(rng.random(len(answer)) < 0.5, fixed.argmax(axis=1), target)
    targeted = target[:, None] == np.arange(classes)
    pick = (rng.random(len(answer)) < 0.5)[:, None]
    return replace(untargeted, wanted=np.where(pick, targeted, untargeted.wanted))


def _random_rises(
    goal: Goal, raise_by: float, blackbox: BlackBox, answer: Answer, rng: np.random.Generator
) -> BoundGoal:
    """A class to make likelier for each row: half of them the goal's own; another where that is nearly 1."""
    assert answer.scores is not None
    rows, classes = answer.scores.shape
    target = rng.integers(0, classes, rows)
    if not isinstance(goal.label, tuple):
        own = blackbox.positions([goal.label])[0]
        target = np.where(rng.random(rows) < 0.5, own, target)
    possible = answer.scores[np.arange(rows), target] + raise_by <= 1.0
    target = np.where(possible, target, answer.scores.argmin(axis=1))
    return BoundGoal(blackbox, wanted=target[:, None] == np.arange(classes)).risen(answer, raise_by)
