"""ReluNetwork: a network as affine maps with rectifiers in between, how it rounds, and its bounds over boxes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from relax_plugin.arrays import Floats
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.networks.layers import (
    Activation,
    Dense,
    Layer,
    Scale,
    is_module,
    precision_of,
    read_layers,
    read_module,
)

EXACT = float(np.finfo(np.float64).eps)
SAFETY = 4.0  # times the textbook bound of rounding


@dataclass(frozen=True)
class ReluNetwork:
    """outputs = relu(… relu(x @ weights[0] + biases[0]) …) @ weights[-1] + biases[-1], in float64."""

    weights: list[Floats]  # of each affine map, scalers before and after it folded in
    biases: list[Floats]
    layers: Sequence[Layer]  # as the library computes them one after the other
    precision: float  # the rounding of one of the library's operations

    @classmethod
    def of(cls, blackbox: BlackBox) -> "ReluNetwork":
        """The network that a model is; raises UnsupportedError, *it needs ...*, where it is none."""
        model = blackbox.model
        if is_module(model):
            layers = read_module(model)
            ends_in = layers[-1].name if layers and isinstance(layers[-1], Activation) else ""
            if ends_in in ("logistic", "softmax") and blackbox.task == "classification":
                layers = layers[:-1]  # what is compared are the logits
        else:
            layers = read_layers(model)
        weights, biases = _folded(layers)
        return cls(weights, biases, layers, precision_of(model))

    @property
    def hidden(self) -> list[int]:
        """How many rectifiers each layer has."""
        return [len(bias) for bias in self.biases[:-1]]

    @property
    def width(self) -> int:
        """How many outputs there are: 1 of a regressor and of two classes, else one a class."""
        return len(self.biases[-1])

    def outputs(self, inputs: Floats) -> Floats:
        """Logits or numbers (rows, width) of rows as the model gets them."""
        return self.from_first(inputs @ self.weights[0] + self.biases[0])

    def from_first(self, sums: Floats) -> Floats:
        """The outputs, given what goes into the first rectifiers."""
        for weights, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            sums = np.maximum(sums, 0.0) @ weights + bias
        return np.asarray(sums)

    def rounding(self, low: Floats, high: Floats, precision: float) -> Floats:
        """How far the library's outputs, and those here, may be from exact ones for inputs in a box (width,).

        The textbook's bound of the error of a dot product (Higham 2002, §3.1), layer by layer, with the largest numbers
        that interval arithmetic allows.
        """
        eps = SAFETY * (max(self.precision, precision) + EXACT)
        error = eps * np.maximum(np.abs(low), np.abs(high))  # rows may be cast to the library's precision
        for layer in self.layers:
            size = np.maximum(np.abs(low), np.abs(high))
            if isinstance(layer, Scale):
                error = (error + eps * (size + np.abs(layer.shift))) / np.abs(layer.scale)
                ends = (low - layer.shift) / layer.scale, (high - layer.shift) / layer.scale
                low, high = np.minimum(*ends), np.maximum(*ends)
                error = error + eps * np.maximum(np.abs(low), np.abs(high))
            elif isinstance(layer, Dense):
                rise, fall = np.maximum(layer.weights, 0.0), np.minimum(layer.weights, 0.0)
                terms = (len(layer.weights) + 2) * eps * (size @ (rise - fall) + np.abs(layer.bias))
                error = error @ (rise - fall) + terms
                low, high = low @ rise + high @ fall + layer.bias, high @ rise + low @ fall + layer.bias
            elif layer.name == "relu":
                low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
        return np.asarray(error + 16 * eps)  # of the sigmoid that labels may be read from


def _folded(layers: Sequence[Layer]) -> tuple[list[Floats], list[Floats]]:
    weights: list[Floats] = []
    biases: list[Floats] = []
    first = next((len(layer.weights) for layer in layers if isinstance(layer, Dense)), 0)
    if first == 0:
        raise UnsupportedError("it needs a network, and the model has no layer of weights")
    map_, bias = np.eye(first), np.zeros(first)
    for layer in layers:
        if isinstance(layer, Scale):
            map_, bias = map_ / layer.scale, (bias - layer.shift) / layer.scale
        elif isinstance(layer, Dense):
            map_, bias = map_ @ layer.weights, bias @ layer.weights + layer.bias
        elif layer.name == "relu":
            weights.append(map_)
            biases.append(bias)
            map_, bias = np.eye(len(bias)), np.zeros(len(bias))
        elif layer.name != "identity":
            raise UnsupportedError(f"it needs rectifiers (relu) between layers, and the model has {layer.name!r}")
    return [*weights, map_], [*biases, bias]


# Bounds over boxes: how large linear functions of the outputs can be, for whole batches of boxes. Every rectifier that
# a box does not decide lies between two lines. Lines are carried forward through the hidden layers, as bounds of what
# goes into each rectifier, and from the outputs backwards, which is tighter there (Zhang, Weng, Chen, Hsieh, Daniel:
# Efficient Neural Network Robustness Certification with General Activation Functions, NeurIPS 2018).


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
    layers = [one.lines for one in layer_bounds(network, half, middle, lambda planes: np.abs(planes).sum(axis=1))]
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


class Layered(NamedTuple):
    """What goes into the rectifiers of a layer, from `low` to `high` (boxes, rectifiers), and the lines round these."""

    low: Floats
    high: Floats
    lines: Lines


def layer_bounds(
    network: ReluNetwork, slope: Floats, first: Floats, support: Callable[[Floats], Floats]
) -> Iterator[Layered]:
    """The bounds of every hidden layer, by planes above and below what goes into its rectifiers.

    Into the first ones goes `first` (boxes, rectifiers) and `slope` (boxes, moves, rectifiers) times the moves;
    `support` is the largest that such planes add to that (boxes, rectifiers).
    """
    upper = lower = slope
    over = under = first  # where the planes are without any move
    low, high = first - support(-slope), first + support(slope)
    for number in range(len(network.hidden)):
        lines = Lines.over(low, high)
        yield Layered(low, high, lines)
        if number + 1 == len(network.hidden):
            return
        weights, bias = network.weights[number + 1], network.biases[number + 1]
        rise, fall = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        top, bottom = upper * lines.upper[:, None], lower * lines.lower[:, None]
        top_middle, bottom_middle = over * lines.upper + lines.above, under * lines.lower
        upper, lower = top @ rise + bottom @ fall, bottom @ rise + top @ fall
        over, under = top_middle @ rise + bottom_middle @ fall + bias, bottom_middle @ rise + top_middle @ fall + bias
        # What interval arithmetic says may be less, where the planes are steep.
        least, most = np.maximum(low, 0.0), np.maximum(high, 0.0)
        low = np.maximum(under - support(-lower), least @ rise + most @ fall + bias)
        high = np.minimum(over + support(upper), most @ rise + least @ fall + bias)
