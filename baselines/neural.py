"""Networks: a differentiable copy of the model, for the methods that follow its gradient (`deepfool`, `grace`).

These methods look inside the model. scikit-learn's networks and linear models are copied into torch, together with the
steps of a Pipeline that only scale or rotate; a torch module is used as it is. What goes through the copy is not asked
of the black box: `rows_queried` leaves it out, `Network.spent` counts it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.readers import SWITCHING

Layer = Callable[[torch.Tensor], torch.Tensor]

LINEAR = (LogisticRegression, RidgeClassifier, LinearSVC, LinearRegression, Ridge, ElasticNet, LinearSVR)
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
NEEDED = "it needs a differentiable network (a torch module, or scikit-learn's MLP or linear models)"


class Network:
    """The model as a differentiable function of the raw values of a FeatureSpace, for whole batches.

    Parameters
    ----------
    layers : functions of a float64 tensor (n, features), one after the other
        The last gives (n, classes) logits, (n, 1) the logit of the second class, or (n, 1) numbers for a regressor.
    regression : bool
    module : torch module, optional
        One of the layers, to be put into evaluation mode while it is used.

    Attributes
    ----------
    rows : int
        How many rows went through it so far; a row whose gradient is taken counts once.
    """

    def __init__(self, layers: list[Layer], regression: bool, module: torch.nn.Module | None = None) -> None:
        self.layers = layers
        self.regression = regression
        self.module = module
        self.spent = 0

    @classmethod
    def of(cls, blackbox: BlackBox) -> "Network":
        """The copy of a model; raises UnsupportedError with a reason where there can be none."""
        regression = blackbox.task == "regression"
        if not isinstance(blackbox.model, torch.nn.Module):
            return cls(_layers(blackbox.model), regression)
        layers: list[Layer] = [partial(_run_module, blackbox.model)]
        if not regression and getattr(blackbox.reader, "gives_probabilities", None):
            layers.append(_logits_of_probabilities)
        return cls(layers, regression, blackbox.model)

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
            return self._per_class(self._forward(torch.tensor(values)).numpy())

    def jacobian(self, values: Values) -> tuple[Floats, Floats]:
        """Outputs (n, classes or 1), and their gradients (n, classes or 1, features) in the user's units."""
        with torch.inference_mode(False), torch.enable_grad():  # whatever the caller has switched off
            inputs = torch.tensor(values, requires_grad=True)
            outputs = self._forward(inputs)
            last = outputs.shape[1] - 1
            # Rows do not see each other, so that the gradient of a column's sum has every row's own gradient.
            gradients = [
                torch.autograd.grad(outputs[:, column].sum(), inputs, retain_graph=column < last)[0]
                for column in range(last + 1)
            ]
        return self._per_class(outputs.detach().numpy()), self._per_class(torch.stack(gradients, dim=1).numpy())

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

    supports = Supports(categorical=False, labels_only=False)

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


def _layers(model: Any) -> list[Layer]:
    """A fitted scikit-learn model as layers that end in logits or numbers."""
    if _is_frozen(model):
        return _layers(model.estimator)
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps]
        return [layer for step in steps[:-1] for layer in _scaling(step)] + _layers(steps[-1])
    if isinstance(model, TransformedTargetRegressor):
        return _layers(model.regressor_) + _unscaling(model.transformer_)
    if isinstance(model, MLPClassifier | MLPRegressor):
        if model.out_activation_ != "softmax" and model.n_outputs_ > 1:
            raise UnsupportedError(f"{NEEDED}, and the model has {model.n_outputs_} answers a row")
        layers: list[Layer] = []
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True):
            layers += [_dense(weights, bias), ACTIVATIONS[model.activation]]
        return layers[:-1] + ([ACTIVATIONS["exp"]] if model.out_activation_ == "exp" else [])
    if isinstance(model, LINEAR):
        coefficients = np.atleast_2d(model.coef_)
        return [_dense(coefficients.T, np.broadcast_to(model.intercept_, len(coefficients)))]
    raise UnsupportedError(f"{NEEDED}, and the model is a {type(model).__name__}")


def _scaling(step: Any) -> list[Layer]:
    """A fitted transformer as layers, if it does no more than shift, scale or rotate."""
    if step is None or isinstance(step, str):  # "passthrough"
        return []
    if _is_frozen(step):
        return _scaling(step.estimator)
    if isinstance(step, Pipeline):
        return [layer for _, part in step.steps for layer in _scaling(part)]
    if isinstance(step, StandardScaler):
        return [_elementwise(step.mean_ if step.with_mean else None, step.scale_)]
    if isinstance(step, RobustScaler):
        return [_elementwise(step.center_, step.scale_)]
    if isinstance(step, MaxAbsScaler) and not getattr(step, "clip", False):
        return [_elementwise(None, step.scale_)]
    if isinstance(step, MinMaxScaler) and not step.clip:
        return [_elementwise(-step.min_ / step.scale_, 1 / step.scale_)]
    if isinstance(step, PCA):
        lengths = np.sqrt(step.explained_variance_) if step.whiten else np.ones(len(step.components_))
        return [_elementwise(step.mean_, None), _dense((step.components_ / lengths[:, None]).T, 0.0)]
    clips = " that clips" if getattr(step, "clip", False) else ""
    raise UnsupportedError(
        f"it needs a network behind steps that only scale, and the model has a {type(step).__name__}{clips}"
    )


def _unscaling(transformer: Any) -> list[Layer]:
    """The way back from a scaled target to the user's unit."""
    if isinstance(transformer, StandardScaler):
        shift, scale = transformer.mean_ if transformer.with_mean else None, transformer.scale_
    elif isinstance(transformer, MinMaxScaler) and not transformer.clip:
        shift, scale = -transformer.min_ / transformer.scale_, 1 / transformer.scale_
    else:
        name = type(transformer).__name__
        raise UnsupportedError(f"it needs a network whose target is only scaled, and the model's is by a {name}")
    scale = 1.0 if scale is None else scale
    return [_elementwise(None if shift is None else -shift / scale, 1 / scale)]


def _is_frozen(model: Any) -> bool:
    """Whether it is scikit-learn's wrapper around a fitted estimator, which older versions do not have."""
    return type(model).__name__ == "FrozenEstimator" and hasattr(model, "estimator")


def _elementwise(shift: Any, scale: Any) -> Layer:
    """(x - shift) / scale, in the order of scikit-learn's own operations; None leaves a part out."""
    zero, one = np.zeros(1), np.ones(1)
    return partial(
        _shift_and_scale,
        torch.tensor(np.asarray(zero if shift is None else shift, dtype=np.float64)),
        torch.tensor(np.asarray(one if scale is None else scale, dtype=np.float64)),
    )


def _dense(weights: Any, bias: Any) -> Layer:
    return partial(
        _multiply_and_add,
        torch.tensor(np.asarray(weights, dtype=np.float64)),
        torch.tensor(np.asarray(bias, dtype=np.float64)),
    )


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
