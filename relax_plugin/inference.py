"""Inference: the features of training rows, as the user describes them and else as the data shows them."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from relax_plugin.columns import (
    Direction,
    Feature,
    categorical_feature,
    numeric_feature,
    refuse_inexact,
    warn_of_many_categories,
    with_bounds,
    with_step,
)
from relax_plugin.errors import ColumnError, ConstraintError, InputError, UnknownNameError, did_you_mean
from relax_plugin.tables import is_categorical, numbers_of, refuse_missing


def infer_features(
    frame: pd.DataFrame,
    lists: Mapping[str, Iterable[Hashable]],
    bounds: Mapping[Any, Sequence[Any]],
    steps: Mapping[Any, float],
) -> list[Feature]:
    """The features of the columns.

    Parameters
    ----------
    frame : DataFrame of training rows
    lists : the arguments of `FeatureSpace.infer` that are lists of names, by what they are called
    bounds, steps : as `FeatureSpace.infer` has them
    """
    if len(frame) == 0:
        raise InputError("a FeatureSpace cannot be inferred from no rows; pass the training rows.")
    said = {argument: listed(names, argument) for argument, names in lists.items()}
    said |= {"bounds": list(bounds), "steps": list(steps)}
    for name in ("query_id", "cf_id"):
        if name in frame.columns:
            raise ColumnError(f"a feature is called {name!r}, which the results call their own; rename it.")
    for argument, names in said.items():
        refuse_unknown(argument, names, frame.columns)
    features = []
    for name in frame.columns:
        column = frame[name]
        refuse_missing(name, column)
        if is_categorical(column) or name in said["categorical"]:
            feature = categorical_feature(name, column)
        else:
            feature = numeric_feature(name, column, name in said["continuous"])
        if name in bounds:
            feature = with_bounds(feature, bounds[name])
        if name in steps:
            feature = with_step(feature, steps[name])
        up, down = name in said["increase_only"], name in said["decrease_only"]
        if up and down:
            raise ConstraintError(f"feature {name!r} is both increase_only and decrease_only; make it immutable.")
        if (up or down) and feature.kind == "categorical" and not feature.ordered:
            raise ConstraintError(
                f"feature {name!r} has a direction, but its categories {list(feature.categories)} have no order; "
                "make it an ordered pandas Categorical or an integer."
            )
        direction: Direction = "increase" if up else "decrease" if down else None
        feature = replace(feature, immutable=name in said["immutable"], direction=direction)
        if feature.kind == "categorical":
            warn_of_many_categories(feature, len(frame))
        else:
            refuse_inexact(feature, numbers_of(name, column))
        features.append(feature)
    return features


def refuse_unknown(argument: str, names: Iterable[Hashable], known: Collection[Hashable]) -> None:
    """Refuse names that are none of a feature."""
    for name in names:
        if name not in known:
            raise UnknownNameError(f"{argument} names feature {name!r}; {did_you_mean(name, known)}")


def listed(names: Iterable[Hashable], argument: str) -> list[Hashable]:
    """The names as a list; a sentence if they are none, or a single text."""
    if not isinstance(names, Iterable):
        raise InputError(f"{argument} must be a list of feature names, not {names!r}.")
    if isinstance(names, str):
        raise InputError(f"{argument} must be a list of feature names, not the string {names!r}; write [{names!r}].")
    return list(names)
