"""DiCE's interfaces read: its model as an estimator, its data and its queries as a FeatureSpace."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from relax_plugin.arrays import Array, Values
from relax_plugin.errors import InputError
from relax_plugin.features import Bounds, FeatureSpace

PRIVATE_ROWS = 1000  # drawn from the ranges of a private data interface, which has no rows to learn from


class AskedModel:
    """The model as DiCE asks it, with the manners of an estimator."""

    def __init__(self, interface: Any, names: Sequence[str]) -> None:
        self.interface = interface
        self._estimator_type = interface.model_type
        own = list(getattr(interface.model, "feature_names_in_", ()))
        self.columns = own if interface.transformer.func is None and set(own) == set(names) else list(names)
        self.logits: bool | None = None  # whether scores are those of a network, before softmax
        if hasattr(interface.model, "classes_"):
            self.classes_, self.logits = np.asarray(interface.model.classes_), False
        if hasattr(interface, "set_eval_mode"):
            interface.set_eval_mode()  # dropout would make the answers random

    def predict_proba(self, rows: pd.DataFrame) -> Array:
        scores = np.asarray(self.interface.get_output(rows[self.columns])).reshape(len(rows), -1)
        if scores.shape[1] == 1 and not hasattr(self, "classes_"):  # a network's P(class 1)
            return np.concatenate([1.0 - scores, scores], axis=1)
        if self.logits is None:  # the first answer, to some training rows, tells
            self.logits = bool((scores < 0).any() or (np.abs(scores.sum(axis=1) - 1.0) > 1e-3).any())
        return np.asarray(softmax(scores, axis=1)) if self.logits else scores

    def predict(self, rows: pd.DataFrame) -> Array:
        if self._estimator_type == "regressor":
            return np.asarray(self.interface.get_output(rows[self.columns])).reshape(len(rows))
        if not hasattr(self, "classes_"):
            return np.asarray(self.predict_proba(rows).argmax(axis=1))
        return np.asarray(self.interface.get_output(rows[self.columns], model_score=False))


def refuse_doubtful(space: FeatureSpace) -> None:
    """Refuse categories whose texts may be the model's numbers, truths or texts alike."""
    for feature in space.features:
        texts = feature.categories
        numbers = all(text.lstrip("+-").replace(".", "", 1).isdigit() for text in texts)
        if texts and (numbers or set(texts) <= {"True", "False"}):
            known = f"{feature.name!r} has the categories {list(texts)}, which the model may know as text or not"
            raise InputError(f"{known}; show some rows as it is asked with: fit(X_train).")


def with_ends(interface: Any, permitted: Mapping[str, Sequence[Any]] | None) -> dict[str, list[Any]] | None:
    """The permitted ranges, an end that is None or infinite being that of the data."""
    if permitted is None:
        return None
    ranges = {name: list(ends) for name, ends in permitted.items()}
    seen = interface.get_features_range()[1] if hasattr(interface, "data_df") else interface.permitted_range
    for name, ends in ranges.items():
        if not ends:
            raise InputError(f"permitted_range of {name!r} is empty; give [low, high], or the categories to choose.")
        if name in interface.continuous_feature_names and len(ends) == 2:
            own = zip(ends, seen[name], strict=True)
            ranges[name] = [end if end is not None and np.isfinite(end) else last for end, last in own]
    return ranges


def space_for(
    space: FeatureSpace, queries: pd.DataFrame, permitted: Mapping[Any, Sequence[Any]], *, widened: bool
) -> tuple[FeatureSpace, Bounds]:
    """The space in the dtypes of the queries, `widened` for what is permitted, and that as the bounds of a call."""
    features, bounds = [], {}
    for feature in space.features:
        choices = permitted.get(feature.name, ())
        if widened and choices and not feature.categories:
            ends = [float(end) for end in choices]
            feature = replace(feature, low=min([feature.low, *ends]), high=max([feature.high, *ends]))
        features.append(fitting(feature, queries[feature.name]))
        if choices:
            texts = {str(category): category for category in features[-1].categories}
            bounds[feature.name] = [texts.get(str(choice), choice) for choice in choices]
    return FeatureSpace(features), bounds


def fitting(feature: Any, column: "pd.Series[Any]") -> Any:
    """The feature in the dtype of the column."""
    dtype: Any = column.dtype
    if feature.categories:
        kind = type(column.iloc[0])
        read: Any = "True".__eq__ if kind in (bool, np.bool_) else kind
        categories = tuple(read(str(category)) for category in feature.categories)
        if isinstance(dtype, pd.CategoricalDtype):  # it may lack categories that the counterfactuals need
            dtype = pd.CategoricalDtype(list(categories), dtype.ordered)
        return replace(feature, categories=categories, dtype=dtype)
    if not pd.api.types.is_integer_dtype(dtype):
        return replace(feature, dtype=dtype)
    held = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    step = feature.step if feature.step and feature.step % 1 == 0 else 1.0
    low, high = max(feature.low, float(held.min)), min(feature.high, float(held.max))
    return replace(feature, kind="integer", dtype=dtype, step=step, low=low, high=high)


def moved_in(space: FeatureSpace, queries: pd.DataFrame, vary: Any, bounds: Any) -> pd.DataFrame:
    """The queries with every cell within its permitted range."""
    if not bounds:
        return queries
    values, limits = space.values(queries), space.limits(bounds=bounds)
    moved, nearest = values.copy(), np.clip(values, *limits.span(values))
    for name, bound in bounds.items():
        j = space.names.index(name)
        outside = (values[:, j] < limits.low[0, j]) | (values[:, j] > limits.high[0, j])
        if space.is_categorical[j]:
            codes = [space.features[j].categories.index(category) for category in bound]
            outside, nearest[:, j] = ~np.isin(values[:, j], codes), codes[0]
        moved[outside, j] = nearest[outside, j]
        fixed = space.features[j].immutable or (vary is not None and name not in vary)
        way = {"increase": 1, "decrease": -1, None: 0}[space.features[j].direction]
        wrong = (values[:, j] > limits.high[0, j]) if way > 0 else (values[:, j] < limits.low[0, j]) & (way < 0)
        if (outside & (fixed | wrong)).any():
            value = queries[name].iloc[int(np.argmax(outside))]
            raise InputError(f"{name!r} is {value!r}, which is outside the permitted range and isn't allowed to vary.")
    return queries if (moved == values).all() else pd.DataFrame(space.restore(moved, queries))


def training_values(interface: Any, seed: int) -> tuple[Values, FeatureSpace]:
    """What is learned from, and its space, with categories as text."""
    texts, bounds = interface.categorical_feature_names, interface.permitted_range
    if hasattr(interface, "data_df"):
        data, seen = interface.data_df[interface.feature_names].dropna(), interface.get_features_range()[1]
        bounds = {name: ends for name, ends in bounds.items() if list(ends) != list(seen[name])}
        # By its text DiCE's float32 becomes the number that was written: 0.1, not 0.10000000149.
        floats = data.select_dtypes(np.float32).columns
        rows = data.astype(dict.fromkeys([*texts, *floats], str)).astype(dict.fromkeys(floats, float))
    else:
        rng, size = np.random.default_rng(seed), PRIVATE_ROWS
        drawn = {n: rng.choice(c, size) if n in texts else rng.uniform(c[0], c[1], size) for n, c in bounds.items()}
        rows = pd.DataFrame(drawn).round(interface.get_decimal_precisions("dict"))
    space = FeatureSpace.infer(rows, categorical=texts, bounds=bounds)
    given = getattr(interface, "continuous_features_precision", None) or {}
    stepped = [replace(f, step=10.0 ** -given[f.name]) if f.name in given else f for f in space.features]
    return space.values(rows), FeatureSpace(stepped)
