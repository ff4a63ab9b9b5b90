"""The model's own answers, whether they meet a goal, and the fingerprint by which a model is known again."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import CertificateError
from relax_plugin.features import Rows
from relax_plugin.goal import Goal
from relax_plugin.readers import make_reader, task_of

PROBES = 48
SCORED = 12  # of them, whose scores or numbers are written too
DIGITS = 7  # in which scores are written
DIGITS_AND_LETTERS = string.digits + string.ascii_lowercase
CLOSE = 1e-5  # what answers may differ by on another machine, relative to the largest that the fingerprint has
ROUNDING = 1e-9  # by which a probability that is a sum may fall short


def short(numbers: Any) -> list[float]:
    """Numbers in few digits."""
    return [float(f"{number:.{DIGITS}g}") for number in np.asarray(numbers, dtype=np.float64).ravel()]


def near(model: Mapping[str, Any], told: Any, numbers: Any) -> bool:
    """Whether numbers are those that were written, up to what another machine may round.

    The scores or numbers of the fingerprint, `model`, tell how large the model's are.
    """
    one, other = np.asarray(told, dtype=np.float64), np.asarray(numbers, dtype=np.float64).ravel()
    size = np.abs([*model.get("numbers", []), *model.get("scores", [])]).max(initial=0.0)
    return one.shape == other.shape and bool((np.abs(one - other) <= CLOSE * np.maximum(size, np.abs(one))).all())


def fingerprint(name: str, task: str, labels: Array, scores: Floats | None) -> dict[str, Any]:
    """How a model, by the name of its type, answers the probe rows, as plain data; labels as the model writes them."""
    told: dict[str, Any] = {"type": name, "task": task}
    if task == "regression":
        return told | {"numbers": short(labels[:SCORED])}
    texts = [str(label) for label in labels]
    names = sorted(set(texts))
    told |= {"labels": names, "answers": _spelled([names.index(text) for text in texts], len(names))}
    return told if scores is None else told | {"scores": short(scores[:SCORED].max(axis=1))}


def _spelled(places: list[int], count: int) -> Any:
    """Places of labels as one text, if a digit or letter is enough for each."""
    return "".join(DIGITS_AND_LETTERS[place] for place in places) if count <= len(DIGITS_AND_LETTERS) else places


def same_model(told: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two fingerprints are of one model."""
    if set(told) != set(now):
        return False
    numbers = ("numbers", "scores")
    return all(near(told, told[name], now[name]) if name in numbers else told[name] == now[name] for name in told)


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
