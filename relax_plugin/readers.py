"""Readers: how each family of models is asked for labels and scores."""

import inspect
import json
import re
import sys
import warnings
from abc import ABC, abstractmethod
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_outlier_detector, is_regressor

from relax_plugin.answers import as_numbers, as_plain_array
from relax_plugin.arrays import Floats
from relax_plugin.errors import InputError, ModelError
from relax_plugin.features import Rows
from relax_plugin.locks import fork_safe_lock

Read = tuple[Any, Floats | None]

KERAS = ("keras.", "tf_keras.", "tensorflow.python.keras.", "tensorflow.keras.")
LIGHTGBM_CLASSES = ("binary", "multiclass", "multiclassova", "cross_entropy")
LIGHTGBM_NUMBERS = ("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie")
LOGITS = "torch.nn.Sequential(model, torch.nn.Sigmoid()) if it gives logits"  # for one column, or Softmax(1)
OF_SHAPE = ("Squeeze", "Unsqueeze", "View", "Select", "Slice", "Reshape", "Unsafe", "Expand", "Clone", "ToCopy", "T")
ROUNDING = 1e-6  # what a probability may exceed 1 by: softmax in float32
OPAQUE = (type, ModuleType, FunctionType, pd.DataFrame, pd.Series, pd.Index)  # no parts of a model
SWITCHING = fork_safe_lock()  # torch modules are switched to evaluation and back: two threads must take turns


class Reader(ABC):
    """Asks one family of models."""

    has_scores = False
    score_kind = "probability"  # or "decision"
    labels_apart = False  # labels come from a method of their own, which may disagree with the largest score
    task: str | None = None  # where the family tells it

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
            labels = as_plain_array(self.model.predict(rows))
            return (labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels), None
        scores = as_numbers(as_plain_array(getattr(self.model, str(self.scorer))(rows)), "score")
        return None, np.column_stack([-scores, scores]) / 2 if scores.ndim == 1 else scores

    def classes(self, scores: Floats | None) -> Any:
        if hasattr(self.model, "__sklearn_tags__") and is_outlier_detector(self.model):
            return np.array([-1, 1])  # these have no classes_; a positive decision means an inlier, 1
        return getattr(self.model, "classes_", super().classes(scores))


class CallableReader(Reader):
    """A plain function: its first answer tells what it gives.

    (n, classes) is probabilities or other scores; (n,) and (n, 1) are labels, or, as floats from 0 to 1 of which some
    are fractions, probabilities of class 1 of the classes 0 and 1; for a regressor, numbers.
    """

    def __init__(self, model: Any, regression: bool) -> None:
        self.model = model
        self.regression = regression
        self.known = False
        self.options: dict[str, Any] = {}
        self.one_column = False  # whether it answers one probability a row, that of class 1
        self.gives_probabilities: bool | None = None  # whether one number a row is one, if that is known before

    def read(self, rows: Rows, want_labels: bool) -> Read:
        answer = as_plain_array(self.model(rows, **self.options))
        if answer.ndim == 2 and answer.shape[1] == 1:
            answer = answer[:, 0]
        if answer.ndim not in (1, 2):
            raise ModelError(f"the model answered shape {answer.shape}; (n,) or (n, classes) is needed.")
        if self.regression:
            return answer, None
        if not self.known:
            self.known, self.has_scores = True, answer.ndim == 2
            if answer.ndim == 1:
                if self.gives_probabilities is None:
                    told = answer[~pd.isna(answer)]  # other rows may be refused
                    self.gives_probabilities = _fractions(told) and _are_probabilities(told)
                self.has_scores = self.one_column = self.gives_probabilities
            elif not _are_probabilities(answer[~pd.isna(answer).any(axis=1)]):
                self.score_kind = "decision"
        elif (answer.ndim == 2) != (self.has_scores and not self.one_column):
            raise ModelError(f"the model answered shape {answer.shape}, but at first something else.")
        if self.one_column:
            return self._of_class_one(answer)
        if not self.has_scores:
            return answer, None
        scores = as_numbers(answer, "score")
        return np.argmax(scores, axis=1), scores

    def _of_class_one(self, answer: Any) -> Read:
        """Labels and scores of probabilities of class 1; those that are exactly 0 or 1 may come as whole numbers."""
        chance = as_numbers(answer, "score")
        _refuse_other_than_probabilities(chance, "BlackBox(model, task='regression') if it predicts numbers")
        scores = np.column_stack([1.0 - chance, chance])
        return np.argmax(scores, axis=1), scores


class PredictReader(CallableReader):
    """An object with `predict` alone, as a function; one of Keras is asked with arrays of floats, in silence."""

    def __init__(self, model: Any, regression: bool) -> None:
        super().__init__(model.predict, regression)
        self.options = {"verbose": 0} if "verbose" in _parameters(model.predict) else {}
        precise = getattr(model, "compute_dtype", None) == "float64"
        self.dtype = (np.float64 if precise else np.float32) if _is_of_keras(model) else None
        self.task = "classification" if self.dtype is not None and not regression else None

    def read(self, rows: Rows, want_labels: bool) -> Read:
        return super().read(rows if self.dtype is None else np.array(rows, dtype=self.dtype), want_labels)


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
                    output = as_numbers(as_plain_array(self.model(torch.as_tensor(array, device=device))), "score")
                if output.ndim == 2 and output.shape[1] == 1:
                    output = output[:, 0]
                if self.gives_probabilities is None and not self.regression:  # the first batch tells: the training rows
                    told = output[np.isfinite(output).reshape(len(output), -1).all(axis=1)]
                    self.gives_probabilities = _are_probabilities(told)
                    if self.gives_probabilities and output.ndim == 1:
                        self.gives_probabilities = self._ends_in_probabilities(array[:2], device)
            finally:
                for module, training in modes:
                    module.training = training
        if self.regression:
            return output, None
        if self.gives_probabilities:
            _refuse_other_than_probabilities(output, LOGITS)
        if output.ndim == 1:
            positive = output if self.gives_probabilities else np.exp(-np.logaddexp(0.0, -output))
            scores = np.column_stack([1.0 - positive, positive])
        elif self.gives_probabilities:
            scores = output
        else:
            exponents = np.exp(output - output.max(axis=1, keepdims=True))
            scores = exponents / exponents.sum(axis=1, keepdims=True)
        return np.argmax(scores, axis=1), scores

    def _ends_in_probabilities(self, array: Any, device: Any) -> bool:
        """Whether one number a row, which always lay within 0 and 1 so far, is a probability: the last operation tells.

        A sigmoid or softmax gives one, a linear layer a logit. Of anything else it is only likely.
        """
        torch = sys.modules["torch"]
        try:
            rows = torch.as_tensor(array, device=device).requires_grad_().clone()
            step = self.model(rows).grad_fn
        except (RuntimeError, AttributeError):  # of a module that has no gradient
            step = None
        while step is not None and step.name().startswith(OF_SHAPE) and step.next_functions:
            step = step.next_functions[0][0]
        name = "" if step is None else step.name()
        if name.startswith(("Sigmoid", "Softmax")):
            return True
        if name.startswith(("Addmm", "Mm", "Mv", "Linear")):
            return False
        warnings.warn(
            "the torch module answers one number from 0 to 1 for each training row; it is read as the probability of "
            f"class 1. Pass {LOGITS}.",
            stacklevel=2,
        )
        return True


class BoosterReader(Reader):
    """A bare Booster of XGBoost or LightGBM; its objective tells the task."""

    def __init__(self, ask: Any, task: str) -> None:
        self.ask = ask
        self.task = task
        self.has_scores = task == "classification"

    @classmethod
    def of_xgboost(cls, model: Any) -> "BoosterReader":
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
        if not objective.startswith(("binary:logistic", "multi:softprob", "reg:")):
            raise InputError(
                f"an XGBoost Booster with objective {objective!r} gives neither probabilities nor numbers; "
                "binary:logistic, multi:softprob and reg:* are supported, or pass a callable."
            )
        return cls(model.inplace_predict, "regression" if objective.startswith("reg:") else "classification")

    @classmethod
    def of_lightgbm(cls, model: Any) -> "BoosterReader":
        found = re.search(r"(?m)^objective=(\S+)", model.model_to_string(num_iteration=1))  # told in a file, too
        objective = "of your own" if found is None else found.group(1)
        if objective not in (*LIGHTGBM_CLASSES, *LIGHTGBM_NUMBERS):
            raise InputError(
                f"a LightGBM Booster with the objective {objective!r} may give scores of any kind; pass a callable "
                "that answers probabilities, or BlackBox(booster.predict, task='regression') if it predicts numbers."
            )
        return cls(model.predict, "regression" if objective in LIGHTGBM_NUMBERS else "classification")

    def read(self, rows: Rows, want_labels: bool) -> Read:
        answer = as_numbers(as_plain_array(self.ask(rows)), "score")
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
        return BoosterReader.of_xgboost(model)
    if type(model).__name__ == "Booster" and type(model).__module__.startswith("lightgbm"):
        return BoosterReader.of_lightgbm(model)
    if _is_of_keras(model) or (task == "classification" and _has_predict_alone(model)):
        return PredictReader(model, regression)
    if hasattr(model, "predict"):
        return EstimatorReader(model, regression or told_task(model) == "regression")
    if callable(model):
        return CallableReader(model, regression)
    raise InputError(
        f"the model is a {type(model).__name__}; an estimator with predict, a torch module, a Booster of XGBoost or "
        "LightGBM, or a callable is needed."
    )


def with_categories_of(model: Any, X: pd.DataFrame) -> pd.DataFrame:
    """The rows with pandas categories where a booster was fitted with such, as text of a CSV file or of polars."""
    trained = vars(model).get("_Booster", model) if hasattr(model, "__dict__") else model
    if type(trained).__name__ != "Booster":
        return X
    lightgbm = type(trained).__module__.startswith("lightgbm")
    names = _categories_of_lightgbm(trained, X) if lightgbm else _categories_of_xgboost(trained, X)
    plain = [name for name in names if not isinstance(X[name].dtype, pd.CategoricalDtype)]
    return X.astype(dict.fromkeys(plain, "category")) if plain else X


def _categories_of_lightgbm(trained: Any, X: pd.DataFrame) -> list[Any]:
    """The columns of pandas categories, of which a LightGBM Booster keeps the categories, but not the names."""
    known = getattr(trained, "pandas_categorical", None) or []
    text = [name for name, dtype in X.dtypes.items() if pd.api.types.is_string_dtype(dtype)]
    if len(text) == len(known):
        return text
    found = re.search(r"(?m)^feature_infos=(.*)$", trained.model_to_string(num_iteration=1))
    told = [] if found is None else found.group(1).split(" ")  # "[0:7.5]" of a number, "0:1:2" of a category
    places = [place for place, info in enumerate(told) if ":" in info and not info.startswith("[")]
    if len(told) != X.shape[1] or len(places) != len(known):
        return []
    fits = (X.iloc[:, place].dropna().isin(own).all() for place, own in zip(places, known, strict=True))
    return [X.columns[place] for place in places] if all(fits) else []


def _categories_of_xgboost(trained: Any, X: pd.DataFrame) -> list[Any]:
    """The columns of which an XGBoost Booster keeps the categories.

    Of others, and of all before XGBoost 3.1, it knows codes alone: those of the rows at hand may be different ones.
    """
    kinds = trained.feature_types or []
    if "c" not in kinds:
        return []
    booster = json.loads(trained.save_raw("json"))["learner"]["gradient_booster"]
    kept = (booster.get("gbtree", booster)["model"].get("cats") or {}).get("enc", [])
    encoded = [bool(own.get("values") or own.get("offsets")) for own in kept]
    known = zip(trained.feature_names or [], encoded, strict=False)
    names = {name for name, has_categories in known if has_categories}
    return [name for name in X.columns if str(name) in names]


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


def _is_of_keras(model: Any) -> bool:
    modules = [base.__module__ for base in type(model).__mro__]
    return hasattr(model, "predict") and any(f"{name}.".startswith(KERAS) for name in modules)


def _has_predict_alone(model: Any) -> bool:
    told = ("classes_", "n_features_in_", "__sklearn_tags__", "_estimator_type")
    return hasattr(model, "predict") and _score_method(model) is None and not any(hasattr(model, n) for n in told)


def _parameters(function: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # functions written in C need not tell
        return ()


def _fractions(answer: Any) -> bool:
    """Whether the answers are floats, and not all whole."""
    return np.issubdtype(answer.dtype, np.floating) and bool((answer % 1 != 0).any())


def _score_method(model: Any) -> str | None:
    return next((name for name in ("predict_proba", "decision_function") if hasattr(model, name)), None)


def _refuse_other_than_probabilities(output: Floats, otherwise: str) -> None:
    outside = ((output < -ROUNDING) | (output > 1.0 + ROUNDING)).reshape(len(output), -1).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        raise ModelError(
            f"the model answered {output[row]} for row {row} of a batch of {len(output)}, but at first one "
            f"probability a row, from 0 to 1; pass {otherwise}."
        )


def _are_probabilities(answer: Any) -> bool:
    if not np.issubdtype(np.asarray(answer).dtype, np.number) or not ((answer >= 0) & (answer <= 1)).all():
        return False
    return np.ndim(answer) == 1 or bool(np.allclose(np.sum(answer, axis=1), 1.0, atol=1e-3))


class Fingerprint:
    """Tells whether a model has been fitted again, or grown. Numbers changed in place inside arrays go unnoticed."""

    def __init__(self, model: Any) -> None:
        self.known: list[tuple[Any, dict[Any, Any]]] = []  # the objects that it consists of, such as trees
        left, seen = [model], set()
        while left:
            one = left.pop()
            members = _members(one)
            if members and id(one) not in seen:
                seen.add(id(one))
                self.known.append((one, members))
                left.extend(members.values())

    def altered(self) -> bool:
        return any(_differ(_members(one), members) for one, members in self.known)


def _members(one: Any) -> dict[Any, Any]:
    """The parts of a container or an object; of a bare Booster, which grows in place, the number of its trees."""
    if isinstance(one, list | tuple):
        return dict(enumerate(one))
    if isinstance(one, np.ndarray):
        return dict(enumerate(one.ravel())) if one.dtype == object else {}
    if isinstance(one, dict):
        return dict(one)
    if type(one).__name__ == "Booster":
        return {"trees": one.num_trees() if hasattr(one, "num_trees") else one.num_boosted_rounds()}
    return {} if isinstance(one, OPAQUE) else dict(getattr(one, "__dict__", {}))


def _differ(now: dict[Any, Any], then: dict[Any, Any]) -> bool:
    """Whether a part has gone or is another, or a list has grown; an attribute may have been added as a cache."""
    if isinstance(then.get("trees"), int):
        return now != then
    grown = len(now) > len(then) and all(isinstance(key, int) for key in then)
    return grown or any(key not in now or now[key] is not part for key, part in then.items())
