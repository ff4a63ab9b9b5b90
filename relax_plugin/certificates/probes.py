"""Probe rows, by whose answers a model is known again: drawn over the space, the same whoever draws them."""

import string
from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Floats, Values
from relax_plugin.features import FeatureSpace

PROBES = 48
SCORED = 12  # of them, whose scores or numbers are written too
DIGITS = 7  # in which scores are written
DIGITS_AND_LETTERS = string.digits + string.ascii_lowercase
CLOSE = 1e-5  # what answers may differ by on another machine, relative where they are above 1


def probe_values(space: FeatureSpace, start: Values) -> Values:
    """Rows all over the space; cells that are neither numbers nor categories are those of `start` (features,)."""
    share = np.random.default_rng(0).random((PROBES, len(space)))
    rows = np.repeat(start[None, :], PROBES, axis=0)
    for j, feature in enumerate(space.features):
        if feature.kind != "categorical":
            rows[:, j] = feature.low + share[:, j] * (feature.high - feature.low)
        elif not feature.carried:
            rows[:, j] = np.floor(share[:, j] * (len(feature.categories) - feature.vanishable))
    moved = np.where(space.is_categorical, rows, space.grid.nearest(rows))
    carried = np.array([feature.carried for feature in space.features], dtype=bool)
    return np.where(carried, rows, moved)


def short(numbers: Any) -> list[float]:
    """Numbers in few digits."""
    return [float(f"{number:.{DIGITS}g}") for number in np.asarray(numbers, dtype=np.float64).ravel()]


def near(told: Any, numbers: Any) -> bool:
    """Whether numbers are those that were written, up to what another machine may round."""
    one, other = np.asarray(told, dtype=np.float64), np.asarray(numbers, dtype=np.float64).ravel()
    return one.shape == other.shape and bool((np.abs(one - other) <= CLOSE * np.maximum(1.0, np.abs(one))).all())


def fingerprint(name: str, task: str, labels: Array, scores: Floats | None) -> dict[str, Any]:
    """How a model answers the probe rows, as plain data.

    Parameters
    ----------
    name : str
        Of its type.
    task : "classification" or "regression"
    labels : array (PROBES,)
        As the model writes them.
    scores : array (PROBES, classes), optional
    """
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
    return all(near(told[name], now[name]) if name in numbers else told[name] == now[name] for name in told)
