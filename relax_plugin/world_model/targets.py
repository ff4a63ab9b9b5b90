"""Targets: what a world model imitates of a model's answers, and how far imagined ones are from a goal."""

import numpy as np

from relax_plugin.arrays import Floats
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.goal import BoundGoal

LABEL_LOGIT = 3.0  # where the model answers labels only, a label counts as this logit


class Targets:
    """One number a row where that says all (a regressor's value, the logit of two classes), else one a class."""

    def __init__(self, blackbox: BlackBox) -> None:
        self.blackbox = blackbox
        self.classes = 0 if blackbox.task == "regression" else len(np.asarray(blackbox.classes))
        self.count = 1 if self.classes in (0, 2) else self.classes

    def of(self, answer: Answer) -> Floats:
        """Targets of answers (rows, count): values, logits without their mean over classes, or decision scores."""
        if self.classes == 0:
            return answer.output[:, None]
        if answer.scores is None:
            scores = LABEL_LOGIT * (answer.output[:, None] == np.arange(self.classes))
        else:
            scores = self.blackbox.logits(answer.scores)
        if self.classes == 2:
            return np.asarray(scores[:, 1:] - scores[:, :1])
        return np.asarray(scores - scores.mean(axis=1, keepdims=True))

    def answer(self, targets: Floats) -> Answer:
        """Targets as the model would answer; the inverse of `of` up to the grain of the model's scores."""
        if self.classes == 0:
            return Answer(targets[:, 0])
        if self.classes == 2:
            targets = 0.5 * np.concatenate([-targets, targets], axis=1)
        output = targets.argmax(axis=1).astype(np.float64)
        if self.blackbox.reader.has_scores and self.blackbox.reader.score_kind != "probability":
            return Answer(output, targets)
        exponents = np.exp(targets - targets.max(axis=1, keepdims=True))
        return Answer(output, exponents / exponents.sum(axis=1, keepdims=True))

    def gap(self, goal: BoundGoal, targets: Floats) -> Floats:
        """How far imagined answers (queries, ..., count) are from the goals of their queries, as `BoundGoal.gap` is."""
        several = (slice(None),) + (None,) * (targets.ndim - 2)
        if goal.wanted is None:
            assert goal.lower is not None and goal.upper is not None
            number, lower, upper = targets[..., 0], goal.lower[several], goal.upper[several]
            return (
                np.maximum(lower - number, number - upper)
                if goal.inside
                else np.minimum(number - lower, upper - number)
            )
        logs = targets
        if goal.min_probability is not None:
            both = 0.5 * np.concatenate([-targets, targets], axis=-1) if self.classes == 2 else targets
            logs = both - np.logaddexp.reduce(both, axis=-1, keepdims=True)
        elif self.classes == 2:
            wanted = goal.wanted
            sign = (wanted[:, 0].astype(targets.dtype) - wanted[:, 1])[several]
            one_only = np.where(wanted.all(axis=1), -1.0, 1.0).astype(targets.dtype)[several]
            return np.where(sign == 0, one_only, targets[..., 0] * sign)
        wanted = goal.wanted[(*several, slice(None))]
        best_wanted = np.where(wanted, logs, -np.inf).max(axis=-1)
        best_other = np.where(wanted, -np.inf, logs).max(axis=-1)
        gap = np.where(np.isfinite(best_other), best_other - best_wanted, -1.0)
        if goal.min_probability is not None:
            gap = np.maximum(gap, np.log(max(goal.min_probability, 1e-12)) - best_wanted)
        return np.where(np.isfinite(best_wanted), gap, 1.0)
