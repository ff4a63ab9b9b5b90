"""DiCE's interfaces read: its model as an estimator, its data and its queries as a FeatureSpace."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from relax_plugin.arrays import Array
from relax_plugin.errors import InputError
from relax_plugin.features import Bounds, FeatureSpace

PRIVATE_ROWS = 1000  # drawn from the ranges of a private data interface, which has no rows to learn from
MISSING_TEXTS = ("nan", "<NA>", "NaT")  # what DiCE makes of missing categories; and of None "None", which may be a word


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
        texts = [category for category in feature.categories if isinstance(category, str)]  # else DiCE kept the number
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
            own = zip(ends, (min(seen[name]), max(seen[name])), strict=True)
            low, high = (end if end is not None and np.isfinite(end) else last for end, last in own)
            some = [number for number in listed_numbers(interface)[1].get(name, ()) if low <= number <= high]
            ranges[name] = some or [low, high]
    return ranges


def listed_numbers(interface: Any) -> tuple[dict[str, float], dict[str, list[Any]]]:
    """The numeric features of a private data interface that list three values or more, as choices to answer with.

    By name the step of those whose values are evenly spaced, and the values, in order, of those whose are not. (DiCE
    itself takes the first two for the ends of a range.)
    """
    steps, ordered = {}, {}
    for name in [] if hasattr(interface, "data_df") else interface.continuous_feature_names:
        numbers = sorted(set(interface.permitted_range[name]))
        gaps = np.diff(np.asarray(numbers, dtype=float))
        if len(interface.permitted_range[name]) > 2 and len(gaps):
            if np.allclose(gaps, gaps[0], rtol=1e-9, atol=0.0):
                steps[name] = float(gaps[0])
            else:
                ordered[name] = numbers
    return steps, ordered


def space_for(
    space: FeatureSpace, queries: pd.DataFrame, permitted: Mapping[Any, Sequence[Any]], *, widened: bool
) -> tuple[FeatureSpace, Bounds]:
    """The space in the dtypes of the queries, `widened` for what is permitted, and that as the bounds of a call."""
    features, bounds = [], {}
    for name in permitted:
        if name in space.columns and name not in space.names:
            told = f"permitted_range names {name!r}, which is part of a one-hot group or derived from other columns"
            raise InputError(f"{told}; accepted are {space.names}.")
    for feature in space.features:
        if feature.columns or feature.carried:
            features.append(feature)
            continue
        choices = permitted.get(feature.name, ())
        if widened and choices and not feature.categories:
            ends = [float(end) for end in choices]
            feature = replace(feature, low=min([feature.low, *ends]), high=max([feature.high, *ends]))
        features.append(fitting(feature, queries[feature.name]))
        if choices:
            texts = {str(category): category for category in features[-1].categories}
            bounds[feature.name] = [texts.get(str(choice), choice) for choice in choices]
    return space.with_features(features), bounds


def named_features(space: FeatureSpace, columns: Any) -> Any:
    """The features of columns that may vary: a group for its columns, and none for a derived one; None is all."""
    if columns is None:
        return None
    groups = {column: feature.name for feature in space.features for column in feature.columns}
    return list(dict.fromkeys(groups.get(name, name) for name in columns if name not in space.formulas))


def fitting(feature: Any, column: "pd.Series[Any]") -> Any:
    """The feature in the dtype of the column."""
    dtype: Any = column.dtype
    if feature.categories:
        known = column.dropna()
        if len(known) == 0:
            return feature
        kind = type(known.iloc[0])
        read: Any = "True".__eq__ if kind in (bool, np.bool_) else kind
        numbers = [isinstance(category, int | float | np.number) for category in feature.categories]
        fractions = kind in (float, np.float64, np.float32) or any(isinstance(c, float) for c in feature.categories)
        if all(numbers) and fractions and issubclass(kind, int | float | np.number):  # their texts differ, 2 and 2.0
            fits = all(kind(category) == category for category in feature.categories)
            return replace(feature, dtype=dtype) if fits else feature  # whole numbers cannot hold 0.5
        categories = tuple(read(str(category)) for category in feature.categories)
        if isinstance(dtype, pd.CategoricalDtype):  # it may lack categories that the counterfactuals need
            dtype = pd.CategoricalDtype(list(categories), dtype.ordered)
        return replace(feature, categories=categories, dtype=dtype)
    if not pd.api.types.is_integer_dtype(dtype):
        return feature if pd.api.types.is_object_dtype(dtype) else replace(feature, dtype=dtype)
    held = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    step = feature.step if feature.step and feature.step % 1 == 0 else 1.0
    low, high = max(feature.low, float(held.min)), min(feature.high, float(held.max))
    return replace(feature, kind="integer", dtype=dtype, step=step, low=low, high=high)


def moved_in(space: FeatureSpace, queries: pd.DataFrame, vary: Any, bounds: Any) -> pd.DataFrame:
    """The queries with every cell within its permitted range."""
    if not bounds:
        return queries
    space, values = space.taking_in(queries)
    limits, missing = space.limits(bounds=bounds), space.is_missing(values)
    moved, nearest = values.copy(), np.clip(values, *limits.span(values))
    for name, bound in bounds.items():
        j = space.names.index(name)
        outside = (values[:, j] < limits.low[0, j]) | (values[:, j] > limits.high[0, j])
        if space.is_categorical[j]:
            codes = [space.features[j].categories.index(category) for category in bound]
            outside, nearest[:, j] = ~np.isin(values[:, j], codes), codes[0]
        outside &= ~missing[:, j]
        moved[outside, j] = nearest[outside, j]
        fixed = space.features[j].immutable or (vary is not None and name not in vary)
        way = {"increase": 1, "decrease": -1, None: 0}[space.features[j].direction]
        wrong = (values[:, j] > limits.high[0, j]) if way > 0 else (values[:, j] < limits.low[0, j]) & (way < 0)
        if (outside & (fixed | wrong)).any():
            value = queries[name].iloc[int(np.argmax(outside))]
            raise InputError(f"{name!r} is {value!r}, which is outside the permitted range and isn't allowed to vary.")
    return queries if (moved == values).all() else pd.DataFrame(space.restore(moved, queries, values))


def may_lack(interface: Any) -> list[str]:
    """The features that some rows of the data interface lack."""
    if not hasattr(interface, "data_df"):
        return []
    data = interface.data_df[interface.feature_names]
    gaps = data.isna() | data.isin([*MISSING_TEXTS, "None"]) & data.columns.isin(interface.categorical_feature_names)
    return [name for name in data if gaps[name].any()]


def as_known(texts: "pd.Series[Any]", shown: "pd.Series[Any] | None") -> "pd.Series[Any]":
    """A column of DiCE's texts: dates as dates, and missing cells missing, as the rows that are shown tell."""
    texts = texts.astype(object)
    blank = texts.isin(MISSING_TEXTS)
    if shown is not None and any(cell is None for cell in shown):
        blank |= texts == "None"
    if shown is not None and is_carried(shown):
        made = pd.to_datetime(texts) if pd.api.types.is_datetime64_any_dtype(shown.dtype) else pd.to_timedelta(texts)
        return made.astype(shown.dtype)
    return texts.where(~blank, None) if blank.any() else texts


def is_carried(column: "pd.Series[Any]") -> bool:
    """Whether the cells are dates or durations, which DiCE takes for categories and no explainer changes."""
    return pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype)


def training_rows(interface: Any, seed: int, shown: pd.DataFrame | None = None) -> tuple[FeatureSpace, pd.DataFrame]:
    """What is learned from, with categories as text, and its space.

    Rows that lack a cell are left out, unless rows that are `shown` lack some too: then the model takes them.
    """
    texts, bounds = interface.categorical_feature_names, interface.permitted_range
    steps, ordered = listed_numbers(interface)
    if hasattr(interface, "data_df"):
        data, seen = interface.data_df[interface.feature_names], interface.get_features_range()[1]
        data = data.dropna() if shown is None or not shown.isna().any(axis=None) else data
        bounds = {name: ends for name, ends in bounds.items() if list(ends) != list(seen[name])}
        # By its text DiCE's float32 becomes the number that was written: 0.1, not 0.10000000149.
        floats = data.select_dtypes(np.float32).columns
        rows = data.astype(dict.fromkeys([*texts, *floats], str)).astype(dict.fromkeys(floats, float))
        rows = rows.assign(**{name: as_known(rows[name], None if shown is None else shown[name]) for name in texts})
    else:
        rng, size = np.random.default_rng(seed), PRIVATE_ROWS
        choices = [*texts, *steps, *ordered]
        ends = {name: (min(cells), max(cells)) for name, cells in bounds.items() if name not in texts}
        drawn = {n: rng.choice(c, size) if n in choices else rng.uniform(*ends[n], size) for n, c in bounds.items()}
        decimals = {n: d for n, d in interface.get_decimal_precisions("dict").items() if n not in choices}
        rows = pd.DataFrame(drawn).round(decimals)
        bounds = {n: ends.get(n, c) for n, c in bounds.items() if n not in ordered}
    chosen = [name for name in texts if not is_carried(rows[name])]
    bounds = {n: b for n, b in bounds.items() if n not in texts or n in chosen}
    space = FeatureSpace.infer(rows, categorical=chosen, bounds=bounds, steps=steps, ordered=ordered)
    given = getattr(interface, "continuous_features_precision", None) or {}
    stepped = [replace(f, step=10.0 ** -given[f.name]) if f.name in given else f for f in space.features]
    return space.with_features(stepped), rows
