"""Readers: how each family of models is asked for labels and scores."""

import inspect
import json
import sys
import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_outlier_detector, is_regressor

from relax_plugin.arrays import Floats
from relax_plugin.errors import InputError, ModelError
from relax_plugin.features import Rows

Read = tuple[Any, Floats | None]

SWITCHING = threading.Lock()  # torch modules are switched to evaluation and back: two threads must take turns


class Reader(ABC):
    """Asks one family of models.

    Attributes
    ----------
    has_scores : bool
    score_kind : "probability" or "decision"
    labels_apart : bool
        Whether labels come from a method of their own, which may disagree with the largest score.
    task : str or None
        Where the family tells it.
    """

    has_scores = False
    score_kind = "probability"
    labels_apart = False
    task: str | None = None

    @abstractmethod
    def read(self, rows: Rows, want_labels: bool) -> Read:
        """Labels, scores, or both: at least labels if wanted, at least scores if not."""

    def classes(self, scores: Floats | None) -> Any:
        """The class labels in the order of the scores' columns; None if only answers can tell."""
        return None if scores is None else np.arange(scores.shape[1])


class EstimatorReader(Reader):
    """scikit-learn's manners: `predict`, and `predict_proba` or `decision_function` where they exist."""

    def __init__(self, model: Any, regression: bool) -> None:
        self.model = model
        self.labels_apart = True
        self.scorer = None if regression else _score_method(model)
        self.has_scores = self.scorer is not None
        self.score_kind = "decision" if self.scorer == "decision_function" else "probability"
        # scikit-learn warns about names it was not fitted with, and refuses rows without those it was.
        self.plain_arrays = hasattr(model, "n_features_in_") and not hasattr(model, "feature_names_in_")

    def read(self, rows: Rows, want_labels: bool) -> Read:
        if self.plain_arrays and isinstance(rows, pd.DataFrame):
            rows = rows.to_numpy(copy=True)  # without a copy it cannot be written to, and some models do
        if want_labels:
            labels = np.asarray(self.model.predict(rows))
            return (labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels), None
        scores = np.asarray(getattr(self.model, str(self.scorer))(rows), dtype=np.float64)
        return None, np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores

    def classes(self, scores: Floats | None) -> Any:
        if hasattr(self.model, "__sklearn_tags__") and is_outlier_detector(self.model):
            return np.array([-1, 1])  # these have no classes_; a positive decision means an inlier, 1
        return getattr(self.model, "classes_", super().classes(scores))


class CallableReader(Reader):
    """A plain function: (n, classes) is probabilities, (n,) is labels, or numbers for a regressor."""

    def __init__(self, model: Any, regression: bool) -> None:
        self.model = model
        self.regression = regression
        self.known = False

    def read(self, rows: Rows, want_labels: bool) -> Read:
        answer = np.asarray(self.model(rows))
        if answer.ndim == 2 and answer.shape[1] == 1:
            answer = answer[:, 0]
        if answer.ndim not in (1, 2):
            raise ModelError(f"the model answered shape {answer.shape}; (n,) or (n, classes) is needed.")
        scored = answer.ndim == 2 and not self.regression
        if not self.known:  # the first answer tells what the function gives
            self.known, self.has_scores = True, scored
            if scored and not _are_probabilities(answer):
                self.score_kind = "decision"
        if scored != self.has_scores:
            raise ModelError(f"the model answered shape {answer.shape}, but at first something else.")
        if not scored:
            return answer, None
        return np.argmax(answer, axis=1), answer.astype(np.float64)


class TorchReader(Reader):
    """A torch module on float32 rows: logits or probabilities, one column (binary) or one a class."""

    def __init__(self, model: Any, regression: bool) -> None:
        self.model = model
        self.regression = regression
        self.has_scores = not regression
        self.gives_probabilities: bool | None = None

    def read(self, rows: Rows, want_labels: bool) -> Read:
        torch = sys.modules["torch"]
        array = np.array(rows, dtype=np.float32)  # a copy that can be written to
        device = next((parameter.device for parameter in self.model.parameters()), None)
        with SWITCHING:
            modes = [(module, module.training) for module in self.model.modules()]  # a frozen part stays frozen
            self.model.eval()  # dropout and batch norm must not make the answers random
            try:
                with torch.no_grad():
                    output = self.model(torch.as_tensor(array, device=device)).detach().cpu().double().numpy()
            finally:
                for module, training in modes:
                    module.training = training
        if output.ndim == 2 and output.shape[1] == 1:
            output = output[:, 0]
        if self.regression:
            return output, None
        if self.gives_probabilities is None:  # the first batch tells: the training rows
            self.gives_probabilities = _are_probabilities(output)
        if output.ndim == 1:
            positive = output if self.gives_probabilities else np.exp(-np.logaddexp(0.0, -output))
            scores = np.column_stack([1.0 - positive, positive])
        elif self.gives_probabilities:
            scores = output
        else:
            exponents = np.exp(output - output.max(axis=1, keepdims=True))
            scores = exponents / exponents.sum(axis=1, keepdims=True)
        return np.argmax(scores, axis=1), scores


class BoosterReader(Reader):
    """A bare XGBoost Booster; its objective tells the task."""

    def __init__(self, model: Any) -> None:
        self.model = model
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
        if not objective.startswith(("binary:logistic", "multi:softprob", "reg:")):
            raise InputError(
                f"an XGBoost Booster with objective {objective!r} gives neither probabilities nor numbers; "
                "binary:logistic, multi:softprob and reg:* are supported, or pass a callable."
            )
        self.task = "regression" if objective.startswith("reg:") else "classification"
        self.has_scores = self.task == "classification"

    def read(self, rows: Rows, want_labels: bool) -> Read:
        answer = np.asarray(self.model.inplace_predict(rows), dtype=np.float64)
        if self.task == "regression":
            return answer, None
        scores = np.column_stack([1.0 - answer, answer]) if answer.ndim == 1 else answer
        return np.argmax(scores, axis=1), scores


def make_reader(model: Any, task: str) -> Reader:
    """The reader for this model's family."""
    regression = task == "regression"
    if inspect.isclass(model):
        raise InputError(f"the model is the class {model.__name__}; a fitted instance of it is needed.")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return TorchReader(model, regression)
    if type(model).__name__ == "Booster" and type(model).__module__.startswith("xgboost"):
        return BoosterReader(model)
    if hasattr(model, "predict"):
        return EstimatorReader(model, regression or told_task(model) == "regression")
    if callable(model):
        return CallableReader(model, regression)
    raise InputError(
        f"the model is a {type(model).__name__}; an estimator with predict, a torch module, an XGBoost Booster or a "
        "callable is needed."
    )


def told_task(model: Any) -> str | None:
    """The task an estimator says it is for; None if it says nothing, as callables and classes of the user's own."""
    told = getattr(model, "_estimator_type", None)
    if told is None and hasattr(model, "__sklearn_tags__"):
        told = "classifier" if is_classifier(model) else "regressor" if is_regressor(model) else None
    return {"classifier": "classification", "regressor": "regression"}.get(str(told))


def task_of(model: Any, reader: Reader, task: str) -> str:
    """The task: as the user says it, or as the model or its family tells it."""
    if task != "auto":
        return task
    told = reader.task or told_task(model)
    if told is not None:
        return told
    if reader.has_scores or not hasattr(model, "predict"):
        return "classification"
    raise ModelError(
        f"a {type(model).__name__} may be a classifier or a regressor; "
        "wrap it as BlackBox(model, task='classification') or task='regression'."
    )


def _score_method(model: Any) -> str | None:
    return next((name for name in ("predict_proba", "decision_function") if hasattr(model, name)), None)


def _are_probabilities(answer: Any) -> bool:
    if not np.issubdtype(np.asarray(answer).dtype, np.number) or not ((answer >= 0) & (answer <= 1)).all():
        return False
    return np.ndim(answer) == 1 or bool(np.allclose(np.sum(answer, axis=1), 1.0, atol=1e-3))
