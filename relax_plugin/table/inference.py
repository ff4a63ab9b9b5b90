"""Inference: the features of training rows, as the user describes them and else as the data shows them."""

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import ColumnError, ConstraintError, InputError, TableNote
from relax_plugin.table.columns import (
    Feature,
    carried_feature,
    categorical_feature,
    names_rows,
    numeric_feature,
    refuse_inexact,
    warn_of_many_categories,
    with_bounds,
    with_cost,
    with_step,
)
from relax_plugin.table.constraints import listed, mapped, no_features, refuse_unknown, with_direction
from relax_plugin.table.one_hot import find_groups, group_feature, read_groups
from relax_plugin.table.tables import kind_of, numbers_of


def infer_features(
    frame: pd.DataFrame,
    lists: Mapping[str, Iterable[Hashable]],
    bounds: Mapping[Any, Sequence[Any]],
    steps: Mapping[Any, float],
    costs: Mapping[Any, float],
    groups: Any,
    ordered: Mapping[Any, Sequence[Any]],
    derived: Iterable[Hashable] = (),
) -> list[Feature]:
    """The features of the columns of training rows, which are without those that are `derived`.

    `lists` are the arguments of `FeatureSpace.infer` that are lists of names; the others are as it has them.
    """
    if len(frame) == 0:
        raise InputError("a FeatureSpace cannot be inferred from no rows; pass the training rows.")
    said = {argument: listed(names, argument) for argument, names in lists.items()}
    said |= {"bounds": list(bounds), "steps": list(steps), "ordered": list(ordered)}
    said["costs"] = list(mapped(costs, "costs"))
    mapped(ordered, "ordered")
    for own in ("query_id", "cf_id"):
        if own in frame.columns:
            raise ColumnError(f"a feature is called {own!r}, which the results call their own; rename it.")
    grouped = _groups(frame, groups)
    owner = {column: name for name, columns in grouped.items() for column in columns}
    names = list(dict.fromkeys(owner.get(column, column) for column in frame.columns))
    for argument, some in said.items():
        refuse_unknown(argument, some, names, no_features(grouped, derived))
    features = []
    for name in names:
        if name in grouped:
            feature = group_feature(name, frame, grouped[name])
        else:
            feature = _of_column(frame[name], said, ordered.get(name))
        if feature.carried:
            _refuse_wishes_for_carried(feature, said)
        if name in bounds:
            feature = with_bounds(feature, bounds[name])
        if name in steps:
            feature = with_step(feature, steps[name])
        if name in costs:
            feature = with_cost(feature, costs[name])
        for argument, direction in (("increase_only", "increase"), ("decrease_only", "decrease")):
            if name in said[argument]:
                feature = with_direction(feature, direction)
        fixed = feature.carried or name in said["immutable"]
        feature = replace(feature, immutable=fixed, fillable=name in said["fill_missing"])
        feature = _that_may_vanish(feature) if name in said["may_vanish"] else feature
        if feature.kind == "categorical":
            warn_of_many_categories(feature, len(frame))
        else:
            refuse_inexact(feature, numbers_of(name, frame[name]))
        features.append(feature)
    _say_what_is_carried(features, frame, said["immutable"])
    return features


def _of_column(column: "pd.Series[Any]", said: Mapping[str, list[Hashable]], order: Sequence[Any] | None) -> Feature:
    name, kind = column.name, kind_of(column)
    if kind == "carried" and not (name in said["categorical"] or order is not None):
        return carried_feature(name, column)
    if kind == "number" and not (name in said["categorical"] or order is not None):
        return numeric_feature(name, column, name in said["continuous"])
    feature = categorical_feature(name, column, order)
    wanted = any(name in said[argument] for argument in ("categorical", "bounds", "ordered"))
    if wanted or not names_rows(feature, column):
        return feature
    if name not in said["immutable"]:  # else it is no news
        warnings.warn(
            f"feature {name!r} has {len(feature.categories)} different texts in {len(column)} rows: it names rows, and "
            f"is carried to the model as it is. If it may change, say categorical=[{name!r}] (--categorical {name}).",
            stacklevel=4,
        )
    return carried_feature(name, column)


def _groups(frame: pd.DataFrame, groups: Any) -> dict[Hashable, list[Hashable]]:
    """The one-hot groups that are named or found; a warning where one is evident and none is named."""
    if groups is not None:
        found = read_groups(groups, frame)
        if isinstance(groups, str) and found:
            told = "; ".join(f"{name!r} of {columns}" for name, columns in found.items())
            warnings.warn(f"one-hot groups were found, each of which is one feature: {told}.", TableNote, stacklevel=4)
        return found
    for name, columns in find_groups(frame).items():
        warnings.warn(
            f"the columns {columns} look like the one-hot code of one feature, {name!r}: changed one by one they are "
            "torn apart. Say one_hot='auto' (--one-hot auto), or one_hot={} if they are features of their own.",
            stacklevel=4,
        )
    return {}


def _that_may_vanish(feature: Feature) -> Feature:
    if feature.carried or feature.columns:
        kind = "a one-hot group" if feature.columns else "carried to the model as it is"
        raise ConstraintError(f"may_vanish names feature {feature.name!r}, which is {kind}.")
    if feature.kind != "categorical":
        return replace(feature, vanishable=True)
    return replace(
        feature,
        vanishable=True,
        categories=(*feature.categories, np.nan),
        choices=(*feature.choices, True),
        high=feature.high + 1.0,
    )


def _refuse_wishes_for_carried(feature: Feature, said: Mapping[str, list[Hashable]]) -> None:
    for argument in ("continuous", "increase_only", "decrease_only", "fill_missing", "bounds", "steps"):
        if feature.name in said[argument]:
            raise ConstraintError(
                f"{argument} names feature {feature.name!r} of dtype {feature.dtype}, which is neither a number nor a "
                "category; write astype(float), or leave it as it is."
            )


def _say_what_is_carried(features: Sequence[Feature], frame: pd.DataFrame, immutable: list[Hashable]) -> None:
    """Say once which columns are neither numbers nor categories; of those that name rows it was said."""
    carried = [f for f in features if f.carried and f.name not in immutable and kind_of(frame[f.name]) == "carried"]
    if carried:
        told = ", ".join(f"{f.name!r} ({f.dtype})" for f in carried)
        warnings.warn(f"carried to the model as they are, and never changed: {told}.", TableNote, stacklevel=4)
