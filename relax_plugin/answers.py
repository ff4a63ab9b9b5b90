"""Answers: what a model says to a batch, and the refusal of what is no answer."""

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.errors import ModelError


@dataclass(frozen=True)
class Answer:
    """What the model says to a batch: class positions or numbers, and scores (n, classes) where there are any.

    `refused` holds for each row why the model refuses it, "" if it does not; None if it refuses none. Output and scores
    of a refused row are those of another row, so that they have the right shape, and mean nothing.
    """

    output: Floats
    scores: Floats | None = None
    refused: Array | None = None

    def __len__(self) -> int:
        return len(self.output)

    @property
    def answered(self) -> Booleans:
        """Which rows the model did not refuse."""
        return np.ones(len(self), dtype=bool) if self.refused is None else np.asarray(self.refused == "")

    def take(self, index: Any) -> "Answer":
        refused = None if self.refused is None else self.refused[index]
        refused = None if refused is None or (refused == "").all() else refused
        return Answer(self.output[index], None if self.scores is None else self.scores[index], refused)

    def where_refused(self, other: "Answer") -> "Answer":
        """The same, with the other's answers to the rows that were refused."""
        return self if self.refused is None else self.replaced(~self.answered, other)

    @property
    def told(self) -> Floats:
        """All that it says to each row: the scores where there are any."""
        return self.output if self.scores is None else self.scores

    def nearly(self, other: "Answer") -> Booleans:
        """Whether both say the same to each row; batches of another size may differ in the last digits of float32."""
        same = np.isclose(self.told, other.told, rtol=1e-4, atol=1e-6)
        return np.asarray(same.reshape(len(self), -1).all(axis=1))

    def replaced(self, where: Booleans, other: "Answer") -> "Answer":
        """The same, with the other's answers where it is told."""
        scores = None
        if self.scores is not None and other.scores is not None:
            scores = np.where(where[:, None], other.scores, self.scores)
        refused = None
        if self.refused is not None or other.refused is not None:
            refused = np.where(where, other._words, self._words)
        return Answer(np.where(where, other.output, self.output), scores, refused)

    @staticmethod
    def joined(first: "Answer", second: "Answer") -> "Answer":
        """Both batches as one."""
        scores = None
        if first.scores is not None and second.scores is not None:
            scores = np.concatenate([first.scores, second.scores])
        refused = None
        if first.refused is not None or second.refused is not None:
            refused = np.concatenate([first._words, second._words])
        return Answer(np.concatenate([first.output, second.output]), scores, refused)

    @property
    def _words(self) -> Array:
        return np.full(len(self), "", dtype=object) if self.refused is None else self.refused


def as_plain_array(answer: Any) -> Array:
    """The model's answer as an array of numpy: of tensors and sparse matrices too, a masked entry as missing."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(answer, torch.Tensor):
            answer = answer.detach().cpu().to_dense()
            answer = (answer.double() if answer.is_floating_point() else answer).numpy()
        if issparse(answer):
            answer = answer.toarray()
        if np.ma.isMaskedArray(answer) and np.ma.is_masked(answer):
            answer = np.where(answer.mask, np.array(None, dtype=object), answer.data.astype(object))
            answer = answer if answer.ndim == 1 else answer.astype(np.float64)  # None becomes NaN
        array = np.asarray(answer)
        if array.dtype.kind in "US" and not isinstance(answer, np.ndarray):
            exact = np.asarray(answer, dtype=object)  # numpy drops a NUL at the end of a text
            array = array if (exact == array).all() else exact
    except Exception as error:
        raise ModelError(
            f"the model's answer, a {type(answer).__name__}, cannot be read as an array: {error}"
        ) from error
    if array.dtype.kind == "c":
        raise ModelError("the model answered complex numbers; one real number or text a row is needed.")
    return array


def refuse_missing_answers(labels: Any) -> None:
    """Refuse labels of which some are missing."""
    missing = pd.isna(np.asarray(labels))
    if missing.any():
        raise ModelError(f"the model answered {np.asarray(labels)[missing][0]!r} for row {int(np.argmax(missing))}.")


def refuse_what_is_no_label(labels: Any) -> None:
    """Refuse answers that are not one number or text a row."""
    array = np.asarray(labels)
    if array.ndim > 1 or array.dtype.kind not in "biufOUS":
        raise ModelError(
            f"the model answered {array.dtype} of shape {array.shape}; one number or text a row is needed."
        )
    if array.dtype == object and not all(isinstance(label, Hashable) for label in array):
        raise ModelError("the model answered lists or dicts as labels; one number or text a row is needed.")


def distinct_labels(labels: Any) -> Array:
    """The labels that occur, in order; of several types, by type and text."""
    array = np.asarray(labels)
    try:
        return np.unique(array)
    except TypeError:
        found = sorted(set(array.tolist()), key=lambda label: (type(label).__name__, str(label)))
        classes = np.empty(len(found), dtype=object)
        classes[:] = found
        return classes


def positions_of(labels: Any, classes: Array) -> Integers:
    """Where labels stand among the classes, -1 for others: the one place where labels are read.

    Equal is what Python calls equal: 1, 1.0 and True are one label, 1 and "1" are two.
    """
    if isinstance(labels, np.ndarray) and labels.dtype == classes.dtype and classes.dtype.kind in "biuf":
        order = np.argsort(classes)
        nearest = order[np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)]
        return np.where(classes[nearest] == labels, nearest, -1)
    place = {label: position for position, label in reversed(list(enumerate(classes.tolist())))}
    found = [place.get(label, -1) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)]
    return np.array(found, dtype=np.int64)


def refuse_fractions(labels: Any) -> None:
    """Refuse labels that look like a regressor's numbers."""
    labels = np.asarray(labels)
    if np.issubdtype(labels.dtype, np.floating) and np.isfinite(labels).all() and (labels % 1 != 0).any():
        raise ModelError(
            f"the model answered {labels[labels % 1 != 0][0]}, which is no class label, nor are its answers "
            "probabilities, from 0 to 1; pass BlackBox(model, task='regression') if it predicts numbers, else a "
            "function that answers labels, or probabilities: (n,) of class 1, or (n, classes)."
        )


def as_numbers(answers: Any, what: Literal["value", "score"]) -> Floats:
    """The answers as numbers: one a row if they are values."""
    try:
        numbers = np.asarray(answers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the model answered {type(answers).__name__}, which is not numeric: {error}.") from error
    if what == "value" and numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if what == "value" and numbers.ndim != 1:
        raise ModelError(f"the model answered shape {numbers.shape}; a regressor gives one number a row.")
    return numbers
