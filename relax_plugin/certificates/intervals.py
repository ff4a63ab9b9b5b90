"""Networks checked again by plain intervals: the checker's own reading and arithmetic, which no prover uses.

The boxes are those of all rows that change so many features, and more. Each layer of the network is bounded by
intervals; where they do not decide, the box is halved. That is far weaker than what the provers do, and needs more
boxes, but what it says is the same, and there is little in it that could be wrong.
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from relax_plugin.arrays import Array, Floats, Values
from relax_plugin.certificates.allowed import Allowed
from relax_plugin.certificates.native import Native, Said
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.proofs.exact import why_altered
from relax_plugin.proofs.probing import RANDOM, random_values

MOST_BOXES = 100_000
CHUNK = 2_048  # boxes looked at side by side
ROUNDING = 1e-6  # of what is added up: how far from the goal outputs must stay
NARROWEST = 1e-9  # sides of boxes, as the network sees them
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)  # column by column, never falling

Part = tuple[Floats, float]  # a linear function of the outputs: coefficients and offset


@dataclass(frozen=True)
class Network:
    """A multilayer perceptron of scikit-learn and the scalers before it."""

    front: Any  # the pipeline without its last step, or None
    weights: list[Floats]
    biases: list[Floats]

    @classmethod
    def of(cls, model: Any) -> "Network | None":
        """The network that a model is; None if it is none that is known here."""
        if why_altered(model):
            return None
        if type(model) is TransformedTargetRegressor:
            return cls._scaled_back(cls.of(model.regressor_), model.transformer_)
        *scalers, last = [step for _, step in model.steps] if type(model) is Pipeline else [model]
        if type(last) not in (MLPClassifier, MLPRegressor) or any(map(why_altered, (*scalers, last))):
            return None
        if last.activation != "relu" or last.out_activation_ not in ("logistic", "softmax", "identity"):
            return None
        for step in scalers:
            if type(step) not in SCALERS or getattr(step, "clip", False):
                return None
        weights, biases = (list(map(np.asarray, parts)) for parts in (last.coefs_, last.intercepts_))
        if any(part.dtype != np.float64 for part in weights):  # whose own rounding would have to be looked at
            return None
        if last.out_activation_ == "logistic":  # one logit, which is compared with 0
            weights[-1] = np.column_stack([np.zeros(len(weights[-1])), weights[-1]])
            biases[-1] = np.r_[0.0, biases[-1]]
        return cls(model[:-1] if scalers else None, weights, biases)

    @classmethod
    def _scaled_back(cls, network: "Network | None", scaler: Any) -> "Network | None":
        if network is None or type(scaler) is not StandardScaler or why_altered(scaler):
            return None
        if scaler.scale_ is None or scaler.mean_ is None:
            return None
        *weights, last = network.weights
        *biases, bias = network.biases
        return cls(network.front, [*weights, last * scaler.scale_], [*biases, bias * scaler.scale_ + scaler.mean_])

    def inputs(self, rows: Any) -> Floats:
        """The rows as the first layer gets them."""
        made = rows if self.front is None else self.front.transform(rows)
        return np.asarray(made, dtype=np.float64)

    def labels(self, rows: Any, classes: list[Any] | None) -> Array:
        """The labels, or numbers, of rows."""
        made = self.inputs(rows)
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            made = np.maximum(made @ weights + bias, 0.0)
        outputs = made @ self.weights[-1] + self.biases[-1]
        return outputs[:, 0] if classes is None else np.array(classes, dtype=object)[outputs.argmax(axis=1)]

    def most(self, low: Floats, high: Floats, parts: list[Part]) -> Floats:
        """The largest that each part can be over boxes, with a reserve for rounding (boxes, parts)."""
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            middle, half = 0.5 * (low + high) @ weights + bias, 0.5 * (high - low) @ np.abs(weights)
            low, high = np.maximum(middle - half, 0.0), np.maximum(middle + half, 0.0)
        planes = np.column_stack([self.weights[-1] @ factor for factor, _ in parts])
        offset = np.array([self.biases[-1] @ factor + own for factor, own in parts])
        middle, half = 0.5 * (low + high) @ planes + offset, 0.5 * (high - low) @ np.abs(planes)
        return np.asarray(middle + half + ROUNDING * (1.0 + high @ np.abs(planes) + np.abs(offset)))


def out_of_reach(
    native: Native,
    model: Any,
    space: FeatureSpace,
    allowed: list[Allowed],
    start: Values,
    goal: Goal,
    before: Said,
    changes: int,
) -> str | None:
    """How it was shown that no row with so many changes, or fewer, meets the goal; None if that is not decided.

    `native` is asked about probe rows, that the network read from the model answers as it does; `start` are the values
    of the query, and `before` is the model's answer to it.
    """
    network, ways = Network.of(model), _ways(goal, before)
    ends = None if network is None or ways is None else _ends(network, space, allowed, start)
    if network is None or ways is None or ends is None:
        return None
    base, lows, highs = ends
    free = np.flatnonzero((lows != base).any(axis=1) | (highs != base).any(axis=1))
    if comb(len(free), changes) > MOST_BOXES or not _answers_alike(network, native, space, start):
        return None
    sets = np.array(list(combinations(free, min(changes, len(free)))), dtype=np.int64)
    low, high = base + (lows - base)[sets].sum(axis=1), base + (highs - base)[sets].sum(axis=1)
    parts = [part for way in ways for part in way]
    first = np.cumsum([0, *(len(way) for way in ways)])[:-1]
    weight, count = np.abs(network.weights[0]).sum(axis=1), 0
    while len(low):
        some, low = low[-CHUNK:], low[:-CHUNK]
        other, high = high[-CHUNK:], high[:-CHUNK]
        count += len(some)
        if count > MOST_BOXES:
            return None
        worst = np.minimum.reduceat(network.most(some, other, parts), first, axis=1)  # of each way its least part
        alive = np.flatnonzero((worst >= 0).any(axis=1))
        some, other = some[alive], other[alive]
        side = ((other - some) * weight).argmax(axis=1)
        row = np.arange(len(some))
        if len(some) and (other - some)[row, side].min() < NARROWEST:
            return None
        middle = 0.5 * (some + other)[row, side]
        left, right = other.copy(), some.copy()
        left[row, side] = right[row, side] = middle
        low, high = np.concatenate([low, some, right]), np.concatenate([high, left, other])
    return f"intervals over {count} boxes of rows that could refute it, by the checker's own arithmetic"


def _answers_alike(network: Network, native: Native, space: FeatureSpace, start: Values) -> bool:
    rows = space.model_input(random_values(space, start, RANDOM))
    said = native.ask(rows, scores=True)
    if native.task == "regression":
        return bool(np.allclose(network.labels(rows, None), said.labels, rtol=ROUNDING, atol=ROUNDING))
    return bool((network.labels(rows, said.classes) == said.labels).all())


def _ways(goal: Goal, before: Said) -> list[list[Part]] | None:
    """Ways to meet a goal, each a list of functions that must not be negative; None for goals not known here."""
    if goal.min_probability is not None or goal.raise_by is not None:
        return None
    if goal.kind in ("between", "shift"):
        up, down = np.ones(1), -np.ones(1)
        if goal.kind == "between":
            return [[(up, -float(goal.low)), (down, float(goal.high))]]  # type: ignore[arg-type]
        now, by = float(before.labels[0]), float(goal.delta or 0.0)
        both = {"up": [(up, -now - by)], "down": [(down, now - by)]}
        return [both[str(goal.direction)]] if str(goal.direction) in both else [both["up"], both["down"]]
    if before.classes is None:
        return None
    names = before.classes
    if goal.kind == "flip":
        now_at = names.index(before.labels[0])
        return [[_difference(len(names), k, now_at)] for k in range(len(names)) if k != now_at]
    to = names.index(goal.label)
    return [[_difference(len(names), to, k) for k in range(len(names)) if k != to]]


def _difference(count: int, one: int, other: int) -> Part:
    factor = np.zeros(count)
    factor[one], factor[other] = 1.0, -1.0
    return factor, 0.0


def _ends(
    network: Network, space: FeatureSpace, allowed: list[Allowed], start: Values
) -> tuple[Floats, Floats, Floats] | None:
    """The query as the first layer gets it, and how low and high each feature takes each input (features, inputs)."""
    if space.derived:
        return None
    values, owner = [start], [-1]
    for j, one in enumerate(allowed):
        feature, now = one.feature, float(start[j])
        if feature.carried or feature.vanishable or (feature.kind != "categorical" and now == feature.missing_code):
            return None
        if one.frozen:
            continue
        if feature.kind == "categorical":
            options = [float(code) for code in one.codes if (code - now) * one.direction >= 0]
        else:
            options = [max(one.low, now) if one.direction > 0 else one.low]
            options.append(min(one.high, now) if one.direction < 0 else one.high)
        for option in options:
            row = start.copy()
            row[j] = option
            values.append(row)
            owner.append(j)
    made = network.inputs(space.model_input(np.array(values)))
    low, high = (np.repeat(made[:1], len(allowed), axis=0) for _ in range(2))
    np.minimum.at(low, owner[1:], made[1:])
    np.maximum.at(high, owner[1:], made[1:])
    return made[0], low, high
