"""The model's own answers, and whether they meet a goal: asked and decided apart from the explainers' black box."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import CertificateError
from relax_plugin.features import Rows
from relax_plugin.goal import Goal
from relax_plugin.readers import make_reader, task_of

ROUNDING = 1e-9  # by which a probability that is a sum may fall short


@dataclass(frozen=True)
class Said:
    """What a model says of rows: labels as it writes them, or numbers; and scores, a column for each class."""

    labels: Array
    scores: Floats | None
    classes: list[Any] | None

    def __len__(self) -> int:
        return len(self.labels)

    def chance(self, labels: Array) -> Floats:
        """The score of one class for each row."""
        if self.scores is None or self.classes is None:
            raise CertificateError("its goal is about a probability, and the model gives none.")
        places = [self.classes.index(label) if label in self.classes else -1 for label in labels.tolist()]
        chance = self.scores[np.arange(len(places)), places]
        return np.where(np.array(places) < 0, 0.0, chance)


class Native:
    """A model that is asked by its `predict`, where it has one; how others are read, its first answer tells."""

    def __init__(self, model: Any, task: str) -> None:
        self.reader = make_reader(model, task)
        self.name, self.task = type(model).__name__, task_of(model, self.reader, task)
        self.rows = 0

    def ask(self, rows: Rows, *, scores: bool = True) -> Said:
        """The model's answers; its scores beside them only if they are wanted, or come along."""
        self.rows += len(rows)
        labels, given = self.reader.read(rows.copy(), want_labels=True)
        if self.task == "regression":
            return Said(np.asarray(labels, dtype=np.float64), None, None)
        if given is None and scores and self.reader.has_scores:
            _, given = self.reader.read(rows.copy(), want_labels=False)
        classes = None if given is None else [_item(one) for one in self.reader.classes(given)]
        if given is not None and not self.reader.labels_apart:
            assert classes is not None
            labels = [classes[place] for place in given.argmax(axis=1)]
        if given is not None and (classes is None or given.shape[1:] != (len(classes),)):
            given = classes = None  # votes of pairs, say, which are no scores of classes
        told = np.empty(len(rows), dtype=object)
        told[:] = [_item(label) for label in labels]
        return Said(told, given, classes)


def meets(goal: Goal, query: Said, answers: Said) -> Booleans:
    """Whether each answer meets the goal of one query."""
    if goal.kind == "between":
        low, high = (np.float64(end) for end in (goal.low, goal.high))  # type: ignore[arg-type]
        return np.asarray((answers.labels >= low) & (answers.labels <= high))
    if goal.kind == "shift":
        moved, delta = answers.labels, float(goal.delta or 0.0)
        up, down = moved >= query.labels[0] + delta, moved <= query.labels[0] - delta
        return np.asarray({"up": up, "down": down}.get(str(goal.direction), up | down))
    if goal.kind == "flip":
        met = np.array([label != query.labels[0] for label in answers.labels], dtype=bool)
        wanted = answers.labels
    else:
        met = np.array([label == goal.label for label in answers.labels], dtype=bool)
        wanted = np.full(len(answers), goal.label, dtype=object)
    if goal.raise_by is not None:
        needed = query.chance(wanted[:1])[0] + goal.raise_by
        return np.asarray(answers.chance(wanted) >= min(needed, 1.0 if needed <= 1.0 + ROUNDING else needed))
    if goal.min_probability is not None:
        met &= answers.chance(wanted) >= goal.min_probability
    return met


def hopeless(goal: Goal, query: Said) -> bool:
    """Whether no answer whatever can meet the goal: a probability above 1 is wanted."""
    if goal.raise_by is None:
        return False
    wanted = np.full(1, goal.label, dtype=object)
    return bool(query.chance(wanted)[0] + goal.raise_by > 1.0 + ROUNDING)


def _item(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
