"""Networks: a differentiable copy of the model, for the methods that follow its gradient (`deepfool`, `grace`).

These methods look inside the model. scikit-learn's networks and linear models are copied into torch, together with the
steps of a Pipeline that only scale or rotate; a torch module is used as it is. What goes through the copy is not asked
of the black box: `rows_queried` leaves it out, `Network.spent` counts it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.networks.layers import Dense, Scale, read_layers
from relax_plugin.networks.layers import Layer as ReadLayer
from relax_plugin.readers import SWITCHING

Layer = Callable[[torch.Tensor], torch.Tensor]

ACTIVATIONS: dict[str, Layer] = {
    "identity": torch.nn.Identity(),
    "logistic": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": torch.exp,
}
LEAST_PROBABILITY = 1e-30  # of a module that gives probabilities; its logarithm is taken
TOLERANCE = 1e-4  # by which the copy may differ from the model, which may compute in single precision
COUNTING = threading.Lock()  # threads that share a copy count its rows together


class Network:
    """The model as a differentiable function of the raw values of a FeatureSpace, for whole batches.

    Parameters
    ----------
    layers : functions of a float64 tensor (n, features), one after the other
        The last gives (n, classes) logits, (n, 1) the logit of the second class, or (n, 1) numbers for a regressor.
    regression : bool
    module : torch module, optional
        One of the layers, to be put into evaluation mode while it is used.
    missing_codes : array (features,), optional
        What stands for a missing number of each feature: the layers are given NaN, as the model is.

    Attributes
    ----------
    rows : int
        How many rows went through it so far; a row whose gradient is taken counts once.
    """

    def __init__(
        self,
        layers: list[Layer],
        regression: bool,
        module: torch.nn.Module | None = None,
        missing_codes: Floats | None = None,
    ) -> None:
        self.layers = layers
        self.regression = regression
        self.module = module
        self.missing_codes = missing_codes
        self.spent = 0

    @classmethod
    def of(cls, blackbox: BlackBox) -> "Network":
        """The copy of a model; raises UnsupportedError with a reason where there can be none."""
        regression = blackbox.task == "regression"
        codes = None if blackbox.space is None else blackbox.space.missing_codes
        if not isinstance(blackbox.model, torch.nn.Module):
            return cls(_functions(read_layers(blackbox.model)), regression, missing_codes=codes)
        layers: list[Layer] = [partial(_run_module, blackbox.model)]
        if not regression and getattr(blackbox.reader, "gives_probabilities", None):
            layers.append(_logits_of_probabilities)
        return cls(layers, regression, blackbox.model, codes)

    def answer(self, values: Values) -> Answer:
        """What the model would say: class positions and probabilities, or numbers."""
        outputs = self.outputs(values)
        if self.regression:
            return Answer(outputs[:, 0])
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return Answer(np.argmax(outputs, axis=1).astype(np.float64), powers / powers.sum(axis=1, keepdims=True))

    def outputs(self, values: Values) -> Floats:
        """Logits (n, classes), whose softmax is the model's probabilities; or numbers (n, 1)."""
        with torch.no_grad():
            return self._per_class(self._forward(torch.tensor(self._as_asked(values))).numpy())

    def jacobian(self, values: Values) -> tuple[Floats, Floats]:
        """Outputs (n, classes or 1), and their gradients (n, classes or 1, features) in the user's units."""
        with torch.inference_mode(False), torch.enable_grad():  # whatever the caller has switched off
            inputs = torch.tensor(self._as_asked(values), requires_grad=True)
            outputs = self._forward(inputs)
            last = outputs.shape[1] - 1
            # Rows do not see each other, so that the gradient of a column's sum has every row's own gradient.
            gradients = [
                torch.autograd.grad(outputs[:, column].sum(), inputs, retain_graph=column < last)[0]
                for column in range(last + 1)
            ]
        return self._per_class(outputs.detach().numpy()), self._per_class(torch.stack(gradients, dim=1).numpy())

    def _as_asked(self, values: Values) -> Values:
        return values if self.missing_codes is None else np.where(values == self.missing_codes, np.nan, values)

    def _forward(self, values: torch.Tensor) -> torch.Tensor:
        with COUNTING:
            self.spent += len(values)
        with _evaluating(self.module):
            for layer in self.layers:
                values = layer(values)
        return values

    def _per_class(self, columns: Floats) -> Floats:
        """One column a class: the single logit of a binary model is split into halves of opposite sign."""
        if self.regression or columns.shape[1] > 1:
            return columns
        return np.concatenate([-columns, columns], axis=1) / 2


class NetworkExplainer(CounterfactualExplainer):
    """Base of the methods that follow the gradient of a network. They look inside the model, and say so."""

    supports = Supports(categorical=False, several_columns=False, labels_only=False)

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        reason = super().skip_reason(blackbox, space)
        if reason is not None:
            return reason
        try:
            network = Network.of(blackbox)
            network.jacobian(space.mean[None, :])
        except UnsupportedError as error:
            return str(error)
        except RuntimeError as error:  # torch's: no gradient comes back from the module
            return f"it needs the gradient of the model, and torch cannot give it: {str(error).splitlines()[0]}"
        return None

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.network_ = Network.of(self.blackbox_)
        known, answer = self.known_
        expected = answer.output[:, None] if answer.scores is None else answer.scores
        if self.blackbox_.has_probabilities:
            copied = self.network_.answer(known).scores
            assert copied is not None
        else:
            copied = self.network_.outputs(known)
        if copied.shape != expected.shape or not np.allclose(copied, expected, rtol=TOLERANCE, atol=TOLERANCE):
            name = type(self.blackbox_.model).__name__
            raise UnsupportedError(f"skipped because the {name} answers otherwise than a copy of its weights does.")


def _functions(layers: Sequence[ReadLayer]) -> list[Layer]:
    """What was read from a scikit-learn model, as functions of tensors."""
    return [_function(layer) for layer in layers]


def _function(layer: ReadLayer) -> Layer:
    if isinstance(layer, Scale):
        return partial(_shift_and_scale, torch.tensor(layer.shift), torch.tensor(layer.scale))
    if isinstance(layer, Dense):
        return partial(_multiply_and_add, torch.tensor(layer.weights), torch.tensor(layer.bias))
    return ACTIVATIONS[layer.name]


# Functions of the module and not closures, so that an explainer can be pickled.


def _shift_and_scale(shift: torch.Tensor, scale: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (values - shift) / scale


def _multiply_and_add(weights: torch.Tensor, bias: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return values @ weights + bias


def _run_module(module: torch.nn.Module, values: torch.Tensor) -> torch.Tensor:
    """The module on single-precision rows, on its own device, as the black box asks it."""
    device = next((parameter.device for parameter in module.parameters()), None)
    outputs: torch.Tensor = module(values.to(device=device, dtype=torch.float32))
    outputs = outputs.cpu().double()
    return outputs[:, None] if outputs.ndim == 1 else outputs


def _logits_of_probabilities(probabilities: torch.Tensor) -> torch.Tensor:
    """Logarithms, or the log odds of a single column; where single precision says 0 or 1 there is no gradient left."""
    logarithms = torch.log(probabilities.clamp(min=LEAST_PROBABILITY))
    if probabilities.shape[1] > 1:
        return logarithms
    return logarithms - torch.log((1 - probabilities).clamp(min=LEAST_PROBABILITY))


@contextmanager
def _evaluating(module: torch.nn.Module | None) -> Iterator[None]:
    """Dropout and batch norm as in use, not as in training; every part is left as it was found.

    The mode belongs to the module, which threads share: they take turns, here and where the black box asks it.
    """
    if module is None:
        yield
        return
    with SWITCHING:
        modes = [(part, part.training) for part in module.modules()]
        module.eval()
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training
