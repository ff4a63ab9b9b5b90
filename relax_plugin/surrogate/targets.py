"""Targets: what a surrogate model imitates of a model's answers, and how far predicted ones are from a goal."""

import numpy as np

from relax_plugin.arrays import Floats
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.goal import BoundGoal

LABEL_LOGIT = 3.0  # where the model answers labels only, a label counts as this logit
FARTHEST = 1e9  # units that a gap may be: what is squared must not overflow in single precision


class Targets:
    """One number a row where that says all (a regressor's value, the logit of two classes), else one a class.

    A regressor's values and decision scores may be of any size, and single precision and trees are at home around 1:
    they are measured from a `centre` in a `unit`. Logits are of the right size already.
    """

    def __init__(self, blackbox: BlackBox) -> None:
        self.blackbox = blackbox
        self.classes = 0 if blackbox.task == "regression" else len(np.asarray(blackbox.classes))
        self.count = 1 if self.classes in (0, 2) else self.classes
        self.centre, self.unit = 0.0, 1.0

    def measure(self, answer: Answer) -> None:
        """Find centre and unit for answers like these; the unit is a power of two, so that nothing is rounded."""
        if self.classes and (answer.scores is None or self.blackbox.has_probabilities):
            return
        self.centre, self.unit = 0.0, 1.0
        numbers = self.of(answer)
        self.centre = 0.0 if self.classes else float(np.median(numbers))
        size = float(np.abs(numbers - self.centre).mean()) or float(np.abs(numbers).mean()) or 1.0
        self.unit = float(np.exp2(np.round(np.log2(np.clip(size, 1e-300, 1e300)))))

    def of(self, answer: Answer) -> Floats:
        """Targets of answers (rows, count): values, logits without their mean over classes, or decision scores."""
        if self.classes == 0:
            return np.asarray((answer.output[:, None] - self.centre) / self.unit)
        if answer.scores is None:
            scores = LABEL_LOGIT * (answer.output[:, None] == np.arange(self.classes))
        else:
            scores = self.blackbox.logits(answer.scores) / self.unit
        if self.classes == 2:
            return np.asarray(scores[:, 1:] - scores[:, :1])
        return np.asarray(scores - scores.mean(axis=1, keepdims=True))

    def answer(self, targets: Floats) -> Answer:
        """Targets as the model would answer; the inverse of `of` up to the grain of the model's scores."""
        if self.classes == 0:
            return Answer(targets[:, 0] * self.unit + self.centre)
        if self.classes == 2:
            targets = 0.5 * np.concatenate([-targets, targets], axis=1)
        output = targets.argmax(axis=1).astype(np.float64)
        if self.blackbox.reader.has_scores and self.blackbox.reader.score_kind != "probability":
            return Answer(output, targets * self.unit)
        exponents = np.exp(targets - targets.max(axis=1, keepdims=True))
        return Answer(output, exponents / exponents.sum(axis=1, keepdims=True))

    def gap(self, goal: BoundGoal, targets: Floats) -> Floats:
        """How far predicted answers are from the goals of their queries, in units."""
        return self.gap_of(goal, self.answer(targets))

    def gap_of(self, goal: BoundGoal, answer: Answer) -> Floats:
        """How far answers are from their goals, in units."""
        return np.clip(goal.gap(answer) / self.unit, -FARTHEST, FARTHEST)
