"""The probabilities of answers: before, after, and of the class that was reached."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Floats
from relax_plugin.results import Counterfactuals


@dataclass(frozen=True)
class Probabilities:
    """Of a result whose model gives probabilities; NaN where a class has none.

    `before` and `after` (queries, slots) are of the class that a counterfactual reached, or came closest with.
    """

    own: Floats  # (queries,), of the answer to the query itself
    before: Floats  # at the query
    after: Floats  # at the counterfactual


def probabilities(result: Counterfactuals) -> Probabilities | None:
    """The probabilities of a result's answers; None if the model gives none, or its classes are not known."""
    asked, before, after = result.asked, result.scores_before, result.scores_after
    if asked is None or not asked.probabilities or asked.classes is None or before is None or after is None:
        return None
    if before.shape[1:] != (len(asked.classes),):
        return None  # of one class alone a model may give something else
    wanted = _wanted(result)
    return Probabilities(
        _of_class(before, _positions(result.before, asked.classes)),
        _of_class(np.repeat(before[:, None], after.shape[1], axis=1), wanted),
        _of_class(after, wanted),
    )


def reached_labels(result: Counterfactuals) -> Array:
    """The class whose probability is told of each counterfactual (queries, slots): the goal's, or the one reached."""
    asked = result.asked
    if asked is None or asked.goal.kind != "to":
        return result.after
    labels = asked.goal.label if isinstance(asked.goal.label, tuple) else (asked.goal.label,) * len(result)
    told = np.empty(result.found.shape, dtype=object)
    for query, label in enumerate(labels):
        told[query, :] = label
    return told


def _wanted(result: Counterfactuals) -> Array:
    assert result.asked is not None and result.asked.classes is not None
    return _positions(reached_labels(result), result.asked.classes)


def _positions(labels: Array, classes: tuple[Any, ...]) -> Array:
    """Where labels stand among the classes; -1 for others."""
    place = {label: position for position, label in enumerate(classes)}
    flat = [place.get(label.item() if isinstance(label, np.generic) else label, -1) for label in labels.ravel()]
    return np.array(flat, dtype=np.int64).reshape(labels.shape)


def _of_class(scores: Floats, positions: Array) -> Floats:
    """The score at each position, NaN at -1."""
    picked = np.take_along_axis(scores, np.maximum(positions, 0)[..., None], axis=-1)[..., 0]
    return np.where(positions >= 0, picked, np.nan)
