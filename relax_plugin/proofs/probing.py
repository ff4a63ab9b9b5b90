"""Probe rows: drawn over a space, by which a model is known again, or compared with what was read from it."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import ModelError, UnsupportedError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.readers import Reader

RANDOM = 256  # rows drawn evenly from the space
MOST_SPECIAL = 48  # values of a feature that are tried for a reason: ends, categories, beside thresholds
TOLD_CELLS = 12  # of a row that a sentence names

Probed = tuple[tuple[Any, ...], str]  # the features of the rows, and the sentence of a refusal or ""
KNOWN: WeakKeyDictionary[Reader, dict[str, Probed]] = WeakKeyDictionary()  # what was probed, by who asks the model


def random_values(space: FeatureSpace, start: Values, count: int) -> Values:
    """Rows all over the space; cells that are neither numbers nor categories are those of `start` (features,).

    Fewer rows are the first of more rows.
    """
    share = np.random.default_rng(0).random((count, len(space)))
    rows = np.repeat(start[None, :], count, axis=0)
    for j, feature in enumerate(space.features):
        if feature.kind != "categorical":
            rows[:, j] = feature.low + share[:, j] * (feature.high - feature.low)
        elif not feature.carried:
            rows[:, j] = np.floor(share[:, j] * (len(feature.categories) - feature.vanishable))
    moved = np.where(space.is_categorical, rows, space.grid.nearest(rows))
    carried = np.array([feature.carried for feature in space.features], dtype=bool)
    return np.where(carried, rows, moved)


def probe_values(space: FeatureSpace, start: Values, cuts: Sequence[Floats] | None = None) -> Values:
    """Random rows of the space, and others in which about half of the cells are special values.

    Special are the lowest and the highest number, every category, what is missing where that is allowed, and values
    next to thresholds (`cuts`); each occurs in one row at least. Cells that are carried to the model are taken from
    `start`, a row that it was asked.
    """
    rng = np.random.default_rng(1)
    special = [_special(space, j, None if cuts is None else cuts[j], rng) for j in range(len(space))]
    rows = random_values(space, start, RANDOM + 2 * max(map(len, special), default=0))
    low, high, mixed = rows[:1].copy(), rows[:1].copy(), rows[RANDOM:]
    for j, values in enumerate(special):
        if len(values):
            mixed[rng.permutation(len(mixed))[: len(values)], j] = values
            low[0, j], high[0, j] = values[:2] if len(values) > 1 else values[[0, 0]]
    return np.concatenate([rows, low, high])


def _special(space: FeatureSpace, j: int, cuts: Floats | None, rng: np.random.Generator) -> Floats:
    """Values of a feature that are tried for a reason; the lowest and the highest are the first two."""
    feature = space.features[j]
    if feature.carried:
        return np.empty(0)
    if feature.kind == "categorical":
        codes = np.arange(len(feature.categories), dtype=np.float64)
        ends, more = codes[[0, -1]], codes[1:-1]
    else:
        ends, more = np.array([feature.low, feature.high]), np.empty(0)
        if cuts is not None:
            inside = np.asarray(cuts)[(cuts >= feature.low) & (cuts <= feature.high)]
            chosen = rng.permutation(inside)[: MOST_SPECIAL // 3]
            beside = [chosen, np.nextafter(chosen, np.inf), chosen + (feature.step or 0.0)]
            more = np.clip(np.concatenate(beside), feature.low, feature.high)
        ends, more = (space.grid.nearest(values, np.full(len(values), j)) for values in (ends, more))
        if feature.vanishable or feature.fillable:
            more = np.append(feature.missing_code, more)
    return np.concatenate([ends, rng.permutation(np.unique(more))])[:MOST_SPECIAL]


def refuse_another_model(
    blackbox: BlackBox,
    space: FeatureSpace,
    what: str,
    probes: Callable[[], Values],
    read: Callable[[Values], Answer],
    tolerance: float,
) -> None:
    """Refuse a model that answers probe rows otherwise than what was read from it: UnsupportedError, *skipped because*.

    The model, with its classes known, is asked once for each fitted explainer and kind of reading (`what`, "trees" or
    "network"). Rows that it refuses are left out. `read` answers rows by what was read: labels, or numbers, and
    probabilities if these are to be compared; they, and numbers relatively, may differ by `tolerance`.
    """
    known, features = KNOWN.setdefault(blackbox.reader, {}), tuple(space.features)
    if what not in known or known[what][0] != features:
        known[what] = features, _probed(blackbox.for_call(), space, what, probes(), read, tolerance)
    if known[what][1]:
        raise UnsupportedError(known[what][1])


def _probed(
    blackbox: BlackBox,
    space: FeatureSpace,
    what: str,
    values: Values,
    read: Callable[[Values], Answer],
    tolerance: float,
) -> str:
    asked = _answered(blackbox, space.model_input(values), np.arange(len(values)))
    if not asked:
        name = type(blackbox.model).__name__
        return f"skipped because the {name} refuses all {len(values)} rows by which its {what} would be checked."
    values, said = (
        values[np.concatenate([part for part, _ in asked])],
        reduce(Answer.joined, (told for _, told in asked)),
    )
    return difference(blackbox, space, what, values, said, read(values), tolerance)


def difference(
    blackbox: BlackBox, space: FeatureSpace, what: str, values: Values, said: Answer, own: Answer, tolerance: float
) -> str:
    """The first row to which a model `said` otherwise than its reading does of its `own`, in a sentence; "" if none."""
    name, verb = type(blackbox.model).__name__, "does" if what == "network" else "do"
    if blackbox.task == "regression":
        wrong = ~np.isclose(own.output, said.output, rtol=tolerance, atol=tolerance)
    else:
        wrong = own.output != said.output
        if own.scores is not None and said.scores is not None:
            if own.scores.shape != said.scores.shape:
                return f"skipped because the {what} read from the {name} {verb} not know the classes that it does."
            wrong |= ~np.isclose(own.scores, said.scores, rtol=0.0, atol=tolerance).all(axis=1)
    if not wrong.any():
        return ""
    row = int(np.argmax(wrong))
    cells = [(name, cell[0]) for name, cell in space.frame(space.model_input(values[[row]])).to_dict("list").items()]
    told = ", ".join(f"{name} = {cell!r}" for name, cell in cells[:TOLD_CELLS]) + ", ..." * (len(cells) > TOLD_CELLS)
    one, other = (_told(blackbox, answer, row) for answer in (said, own))
    return (
        f"skipped because the {what} read from the {name} {verb} not answer as it does: to the row {told} the model "
        f"answers {one}, and the {what} {other}."
    )


def _answered(blackbox: BlackBox, rows: Rows, index: Integers) -> list[tuple[Integers, Answer]]:
    """The model's own answers to rows, in batches without those that it refuses."""
    some: Any = rows.iloc[index] if hasattr(rows, "iloc") else rows[index]
    try:
        return [(index, blackbox.confirm(some))]
    except ModelError:
        if len(index) == 1:
            return []
    halves = np.array_split(index, 2)
    return [part for half in halves for part in _answered(blackbox, rows, half)]


def _told(blackbox: BlackBox, answer: Answer, row: int) -> str:
    label = blackbox.labels(answer.output[[row]])[0]
    if answer.scores is None:
        return str(label)
    return f"{label} (scores {', '.join(f'{score:.6g}' for score in answer.scores[row])})"
