"""Layers: a network of scikit-learn or torch, and the steps before it that only scale or rotate, as plain arrays.

Methods that follow gradients make torch functions of them (`baselines/neural.py`), proofs linear programs (`relu.py`).
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from relax_plugin.arrays import Floats
from relax_plugin.errors import UnsupportedError
from relax_plugin.proofs.exact import why_altered

LINEAR = {
    *(LogisticRegression, LogisticRegressionCV, RidgeClassifier, LinearSVC),
    *(LinearRegression, Ridge, ElasticNet, Lasso, LinearSVR),
}
NEEDED = "it needs a differentiable network (a torch module, or scikit-learn's MLP or linear models)"
OF_MODULES = "it needs a torch Sequential of Linear, ReLU, BatchNorm1d and Dropout"
PASSED_OVER = ("Dropout", "Identity", "Flatten", "AlphaDropout")  # modules that do nothing to rows when in use
OF_TORCH = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "logistic", "Softmax": "softmax"}


@dataclass(frozen=True)
class Scale:
    """(x - shift) / scale, column by column, in the order of scikit-learn's own operations."""

    shift: Floats
    scale: Floats


@dataclass(frozen=True)
class Dense:
    """x @ weights + bias."""

    weights: Floats  # (inputs, outputs)
    bias: Floats  # (outputs,)


@dataclass(frozen=True)
class Activation:
    """A function of every number by itself: "relu", "tanh", "logistic", "identity", "exp"; or "softmax"."""

    name: str


Layer = Scale | Dense | Activation


def read_layers(model: Any) -> list[Layer]:
    """A fitted scikit-learn model as layers that end in logits or numbers; UnsupportedError where it is none."""
    kind = _kind(model)
    if kind is FrozenEstimator:
        return read_layers(model.estimator)
    if kind is Pipeline:
        steps = [step for _, step in model.steps]
        return [layer for step in steps[:-1] for layer in _scaling(step)] + read_layers(steps[-1])
    if kind is TransformedTargetRegressor:
        return read_layers(model.regressor_) + _unscaling(model.transformer_)
    if kind in (MLPClassifier, MLPRegressor):
        if model.out_activation_ != "softmax" and model.n_outputs_ > 1:
            raise UnsupportedError(f"{NEEDED}, and the model has {model.n_outputs_} answers a row")
        layers: list[Layer] = []
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True):
            layers += [_dense(weights, bias), Activation(model.activation)]
        return layers[:-1] + ([Activation("exp")] if model.out_activation_ == "exp" else [])
    if kind in LINEAR:
        coefficients = np.atleast_2d(model.coef_)
        return [_dense(coefficients.T, np.broadcast_to(model.intercept_, len(coefficients)))]
    raise UnsupportedError(f"{NEEDED}, and the model is a {type(model).__name__}")


def is_module(model: Any) -> bool:
    """Whether it is a torch module; torch is not imported for that."""
    return "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module)


def read_module(module: Any) -> list[Layer]:
    """A torch Sequential as layers, as it answers when in use; a last sigmoid or softmax is among them."""
    name, reason = type(module).__name__, why_altered(module)
    if reason or type(module) is not getattr(sys.modules["torch"].nn, name, None):
        raise UnsupportedError(f"{OF_MODULES}, and the model {reason or f'has a {name}'}")
    if name == "Sequential":
        return [layer for part in module for layer in read_module(part)]
    if name in PASSED_OVER:
        return []
    if name in OF_TORCH:
        return [Activation(OF_TORCH[name])]
    if name == "Linear":
        weights = _numbers(module.weight).T
        return [_dense(weights, np.zeros(weights.shape[1]) if module.bias is None else _numbers(module.bias))]
    if name == "BatchNorm1d" and module.running_mean is not None:
        spread = np.sqrt(_numbers(module.running_var) + module.eps)
        layers: list[Layer] = [Scale(_numbers(module.running_mean), spread)]
        if module.affine:
            layers.append(_dense(np.diag(_numbers(module.weight)), _numbers(module.bias)))
        return layers
    raise UnsupportedError(f"{OF_MODULES}, and the model has a {name}")


def precision_of(model: Any) -> float:
    """The rounding of one operation of the network: of float32 for torch and for weights so stored, else of float64."""
    if is_module(model):
        types = {str(parameter.dtype) for parameter in model.parameters()}
        if types - {"torch.float32"}:
            raise UnsupportedError(f"it needs a torch module of float32, and the model has {min(types)}")
        return float(np.finfo(np.float32).eps)
    if isinstance(model, Pipeline):
        return precision_of(model.steps[-1][1])
    if isinstance(model, TransformedTargetRegressor):
        return precision_of(model.regressor_)
    if isinstance(model, FrozenEstimator):
        return precision_of(model.estimator)
    weights = model.coefs_[0] if hasattr(model, "coefs_") else model.coef_
    return float(np.finfo(np.asarray(weights).dtype).eps)


def _scaling(step: Any) -> list[Layer]:
    """A fitted transformer as layers, if it does no more than shift, scale or rotate."""
    if step is None or isinstance(step, str):  # "passthrough"
        return []
    kind = _kind(step)
    if kind is FrozenEstimator:
        return _scaling(step.estimator)
    if kind is Pipeline:
        return [layer for _, part in step.steps for layer in _scaling(part)]
    if kind is StandardScaler:
        return [_elementwise(step.mean_ if step.with_mean else None, step.scale_)]
    if kind is RobustScaler:
        return [_elementwise(step.center_, step.scale_)]
    if kind is MaxAbsScaler and not getattr(step, "clip", False):
        return [_elementwise(None, step.scale_)]
    if kind is MinMaxScaler and not step.clip:
        return [_elementwise(-step.min_ / step.scale_, 1 / step.scale_)]
    if kind is PCA:
        lengths = np.sqrt(step.explained_variance_) if step.whiten else np.ones(len(step.components_))
        return [_elementwise(step.mean_, None), _dense((step.components_ / lengths[:, None]).T, 0.0)]
    clips = " that clips" if getattr(step, "clip", False) else ""
    raise UnsupportedError(
        f"it needs a network behind steps that only scale, and the model has a {type(step).__name__}{clips}"
    )


def _unscaling(transformer: Any) -> list[Layer]:
    kind = _kind(transformer)
    if kind is StandardScaler:
        shift, scale = transformer.mean_ if transformer.with_mean else None, transformer.scale_
    elif kind is MinMaxScaler and not transformer.clip:
        shift, scale = -transformer.min_ / transformer.scale_, 1 / transformer.scale_
    else:
        name = type(transformer).__name__
        raise UnsupportedError(f"it needs a network whose target is only scaled, and the model's is by a {name}")
    scale = 1.0 if scale is None else scale
    return [_elementwise(None if shift is None else -shift / scale, 1 / scale)]


def _kind(part: Any) -> type:
    """The class of a part of scikit-learn; refused where its object may do otherwise."""
    if isinstance(part, BaseEstimator) and (reason := why_altered(part)):
        raise UnsupportedError(f"it reads layers as their library wrote them, and the model {reason}")
    return type(part)


def _elementwise(shift: Any, scale: Any) -> Scale:
    """(x - shift) / scale; None leaves a part out."""
    return Scale(
        np.asarray(np.zeros(1) if shift is None else shift, dtype=np.float64),
        np.asarray(np.ones(1) if scale is None else scale, dtype=np.float64),
    )


def _dense(weights: Any, bias: Any) -> Dense:
    return Dense(np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64))


def _numbers(tensor: Any) -> Floats:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)
