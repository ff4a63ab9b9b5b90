"""Fingerprints: the answers to probe rows by which a model is known again."""

import string
from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Floats

PROBES = 48
SCORED = 12  # of them, whose scores or numbers are written too
DIGITS = 7  # in which scores are written
DIGITS_AND_LETTERS = string.digits + string.ascii_lowercase
CLOSE = 1e-5  # what answers may differ by on another machine, relative to the largest that the fingerprint has


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
