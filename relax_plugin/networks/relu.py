"""ReluNetwork: a network as affine maps with rectifiers in between, and how far the library's answers are from it."""

from collections.abc import Sequence
from dataclasses import dataclass

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
