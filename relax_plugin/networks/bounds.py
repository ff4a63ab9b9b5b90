"""Bounds: how large linear functions of a network's outputs can be over boxes, for whole batches of boxes.

Every rectifier that a box does not decide lies between two lines. Lines are carried forward through the hidden layers,
as bounds of what goes into each rectifier, and from the outputs backwards, which is tighter there (Zhang, Weng, Chen,
Hsieh, Daniel: Efficient Neural Network Robustness Certification with General Activation Functions, NeurIPS 2018).
"""

from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Floats
from relax_plugin.networks.relu import ReluNetwork


@dataclass(frozen=True)
class Lines:
    """Between what lines the rectifiers of a layer lie: lower · x <= relu(x) <= upper · x + above, in each box."""

    lower: Floats  # (boxes, rectifiers)
    upper: Floats
    above: Floats

    @classmethod
    def over(cls, low: Floats, high: Floats) -> "Lines":
        """The lines of rectifiers whose inputs lie between `low` and `high`."""
        on, off = low >= 0, high <= 0
        span = np.where(on | off, 1.0, high - low)
        upper = np.where(on, 1.0, np.where(off, 0.0, high / span))
        # Of the lines through 0 below it, the one that leaves the smaller area.
        lower = np.where(on, 1.0, np.where(off, 0.0, high > -low))
        return cls(lower, upper, np.where(on | off, 0.0, -low * upper))


@dataclass(frozen=True)
class Bounded:
    """Upper bounds of linear functions of the outputs over boxes."""

    most: Floats  # (boxes, functions)
    # (boxes, functions, moves) of the bounding plane, for half of each side: the best corner is where they point.
    slopes: Floats
    weight: Floats  # (boxes, moves) how much each side of the box matters to what the bound is made of


def upper_bounds(
    network: ReluNetwork, first: Floats, slope: Floats, low: Floats, high: Floats, functions: Floats, offset: Floats
) -> Bounded:
    """The largest that functions · outputs + offset can be over some boxes, `low` to `high` (boxes, moves).

    What goes into the first rectifiers is `first` where no move is made; one unit of each move adds `slope` (boxes,
    moves, rectifiers) to it. The functions are (functions, outputs).
    """
    half = slope * (0.5 * (high - low))[:, :, None]
    middle = first + np.einsum("bk,bkh->bh", 0.5 * (low + high), slope)
    layers = _lines(network, middle, half)
    back = functions @ network.weights[-1].T  # (functions, rectifiers)
    rest = functions @ network.biases[-1] + offset
    boxes = len(low)
    coefficients = np.broadcast_to(back, (boxes, *back.shape))
    most = np.broadcast_to(rest, (boxes, len(rest)))
    for number in range(len(layers) - 1, -1, -1):
        lines = layers[number]
        rise, fall = np.maximum(coefficients, 0.0), np.minimum(coefficients, 0.0)
        most = most + np.einsum("bfh,bh->bf", rise, lines.above)
        seen = rise * lines.upper[:, None] + fall * lines.lower[:, None]
        if number > 0:
            most = most + seen @ network.biases[number]
            coefficients = seen @ network.weights[number].T
    if not layers:  # no rectifier at all: the outputs themselves are linear
        seen = np.broadcast_to(functions, (boxes, *functions.shape))
        most, coefficients = np.broadcast_to(offset, (boxes, len(offset))), seen
    most = most + np.einsum("bfh,bh->bf", seen, middle)
    slopes = seen @ half.transpose(0, 2, 1)
    weight = np.einsum("bfh,bkh->bk", np.abs(coefficients), np.abs(half))
    return Bounded(most + np.abs(slopes).sum(axis=2), slopes, weight)


def _lines(network: ReluNetwork, middle: Floats, half: Floats) -> list[Lines]:
    found = []
    upper = lower = half  # (boxes, moves, rectifiers) of the planes between which the inputs lie,
    over = under = middle  # and their middles
    spread = np.abs(half).sum(axis=1)
    low, high = middle - spread, middle + spread
    for number in range(len(network.hidden)):
        lines = Lines.over(low, high)
        found.append(lines)
        if number + 1 == len(network.hidden):
            break
        weights, bias = network.weights[number + 1], network.biases[number + 1]
        rise, fall = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        top, bottom = upper * lines.upper[:, None], lower * lines.lower[:, None]
        top_middle, bottom_middle = over * lines.upper + lines.above, under * lines.lower
        upper, lower = top @ rise + bottom @ fall, bottom @ rise + top @ fall
        over, under = top_middle @ rise + bottom_middle @ fall + bias, bottom_middle @ rise + top_middle @ fall + bias
        # What interval arithmetic says may be less, where the planes are steep.
        least, most = np.maximum(low, 0.0), np.maximum(high, 0.0)
        low, high = (
            np.maximum(under - np.abs(lower).sum(axis=1), least @ rise + most @ fall + bias),
            np.minimum(over + np.abs(upper).sum(axis=1), most @ rise + least @ fall + bias),
        )
    return found
