"""What is typed on the command line of `explain`, as the words of the package: feature space, black box and goal."""

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, make_explainer
from relax_plugin.blackbox import BlackBox, Task
from relax_plugin.commands import request
from relax_plugin.commands.models import load_model
from relax_plugin.commands.output import said_warnings, say
from relax_plugin.commands.rows import read_queries, read_rows
from relax_plugin.errors import ConstraintError, InputError, ModelError, UnknownNameError
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.table.one_hot import find_groups


def model_and_rows(
    chosen: argparse.Namespace, rows: pd.DataFrame | None = None
) -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    """The model, the columns of the training rows that it knows, and all columns of them but the target.

    If the `rows` of the training file are given, files are large: neither it nor the file of queries is read.
    """
    whole = _training(chosen, rows)
    training = whole.drop(columns=[name for name in request.columns_along(chosen) if name in whole.columns])
    check_named(chosen, training, with_queries=rows is None)
    model, training = load_model(chosen.model, training, chosen.training, chosen.task)
    return model, training, whole


def _training(chosen: argparse.Namespace, rows: pd.DataFrame | None) -> pd.DataFrame:
    rows, target = read_rows(chosen.training, chosen.missing) if rows is None else rows, chosen.target
    request.check_columns(chosen, [str(name) for name in rows.columns])
    for row in chosen.rows or ():
        if not 0 <= row < len(rows):
            raise InputError(f"there is no row {row} in {chosen.training}; there are 0 to {len(rows) - 1}.")
    return rows.drop(columns=[] if target is None else [str(target)])


def check_named(chosen: argparse.Namespace, training: pd.DataFrame, *, with_queries: bool = True) -> None:
    """Refuse constraints that do not fit their columns, and queries that lack one of these or hold wrong cells in it.

    Which of the other columns are features only the model knows, and it is loaded after this.
    """
    groups = all_groups(chosen, training)
    names = request.named(chosen, [str(name) for name in training.columns], groups)
    rows = training[names]
    if names:
        concerned = {name: own for name, own in groups.items() if set(own) <= set(names)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the space of all features is made
            FeatureSpace.infer(rows, **_arguments(chosen, rows, concerned)).limits(chosen.vary or None)
    if chosen.queries is not None and with_queries:
        read_queries(chosen, rows, say=False)


def all_groups(chosen: argparse.Namespace, training: pd.DataFrame) -> dict[str, list[str]]:
    """The one-hot groups that are named, or found."""
    if request.AUTO not in chosen.one_hot:
        return request.groups(chosen) or {}
    return {str(name): [str(column) for column in own] for name, own in find_groups(training).items()}


def space(chosen: argparse.Namespace, training: pd.DataFrame) -> FeatureSpace:
    """The features as the training rows show them and the arguments limit them; what is noteworthy is said."""
    with said_warnings():
        features = FeatureSpace.infer(training, **space_arguments(chosen, training))
    groups = all_groups(chosen, training)
    if groups and request.AUTO in chosen.one_hot:
        told = "; ".join(f"{name} ({', '.join(own)})" for name, own in groups.items())
        say(f"Note: One-hot groups, each of which is one feature: {told}.")
    return features


def space_arguments(chosen: argparse.Namespace, training: pd.DataFrame) -> dict[str, Any]:
    """The arguments of `FeatureSpace.infer` that are typed."""
    return _arguments(chosen, training, all_groups(chosen, training) if chosen.one_hot else None)


def _arguments(
    chosen: argparse.Namespace, training: pd.DataFrame, groups: Mapping[str, Sequence[str]] | None
) -> dict[str, Any]:
    columns = [str(name) for name in training.columns]
    formulas = request.formulas(chosen, columns)
    ordered = {
        name: [_typed(part, training[name]) for part in parts]
        for name, parts in request.orders(chosen, columns).items()
    }
    described: dict[str, Any] = {
        "categorical": chosen.categorical,
        "one_hot": groups,
        "ordered": ordered,
        "derived": {name: (parsed.text, tolerance) for name, (parsed, tolerance) in formulas.items()},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the same rows again
        plain = FeatureSpace.infer(training, **described)
    return described | {
        "immutable": chosen.immutable,
        "increase_only": chosen.increase_only,
        "decrease_only": chosen.decrease_only,
        "bounds": dict(_bound(text, plain) for text in chosen.bounds),
        "costs": request.costs(chosen, [str(name) for name in plain.names]),
        "rules": [parsed.text for parsed in request.rules(chosen)],
        "fill_missing": chosen.fill_missing,
        "may_vanish": chosen.may_vanish,
        "labels": _labels(chosen, plain),
    }


def _typed(text: str, column: "pd.Series[Any]") -> Any:
    """The category of a column that is typed so; one that no row has is the text, or the number."""
    for value in column.dropna().unique():
        if str(value) == text or (_number(value) is not None and _number(value) == _number(text)):
            return _plain(value)
    number = _number(text)
    return text if number is None or not pd.api.types.is_numeric_dtype(column) else number


def _labels(chosen: argparse.Namespace, features: FeatureSpace) -> dict[str, Any]:
    """The labels of the features and derived columns; categories, which JSON writes as texts, as they are."""
    known = {str(f.name): f for f in features.features} | dict.fromkeys(map(str, features.formulas))
    read: dict[str, Any] = {}
    for name, said in request.labels(chosen.labels).items():
        if name not in known:
            continue  # of the target, or of a column that the model does not know
        feature = known[name]
        categories = {str(category): category for category in feature.categories} if feature is not None else {}

        def as_they_are(part: Any, categories: dict[str, Any] = categories) -> Any:
            return {categories.get(key, key): text for key, text in part.items()} if isinstance(part, dict) else part

        read[name] = [as_they_are(part) for part in said] if isinstance(said, list) else as_they_are(said)
    return read


def blackbox(model: Any, features: FeatureSpace, task: Task) -> BlackBox:
    """The model to ask, or a sentence that says which argument tells what it is for."""
    try:
        return BlackBox(model, features, task)
    except ModelError as error:
        raise ModelError(
            f"the model, a {type(model).__name__}, may be a classifier or a regressor; say --task classification or "
            "--task regression."
        ) from error


def goal(chosen: argparse.Namespace, model: BlackBox, values: Values) -> Goal:
    """What is wanted of the model's answer; its classes are learned from the training rows if it does not tell them."""
    request.check_kind(chosen, model.task)
    if chosen.shift is not None:
        return Goal.shift(chosen.shift, direction=chosen.direction or "either")
    if chosen.between is not None:
        return Goal.between(*request.between(chosen.between))
    if chosen.to is None:
        return Goal.flip(min_probability=chosen.min_probability)
    known = model.reader.classes(None)
    if known is None:
        model.learn(values)
        known = model.classes
    assert known is not None
    return Goal.to(_matching(chosen.to, list(known), "the model", "class"), min_probability=chosen.min_probability)


def unfitted(
    chosen: argparse.Namespace, model: Any, training: pd.DataFrame, method: str, options: Mapping[str, Any]
) -> CounterfactualExplainer:
    """The explainer of the method, over what the arguments say of the table."""
    features = space(chosen, training)
    features.limits(chosen.vary or None)
    features, values = features.taking_in(training)
    box = blackbox(model, features, chosen.task)
    wanted = goal(chosen, box, values)
    return make_explainer(method, box, features, goal=wanted, seed=chosen.seed, **options)


def _bound(text: str, features: FeatureSpace) -> tuple[str, list[Any]]:
    """A feature's name and its bounds, from `age=18:80` or `town=Rome|Bonn`."""
    name = request.bounded(text, features.names)
    said, feature = text[len(name) + 1 :], features.features[features.names.index(name)]
    if feature.kind == "categorical":
        return name, [_matching(part, feature.categories, f"feature {name!r}", "category") for part in said.split("|")]
    try:
        low, high = (float(end) if end.strip() else None for end in said.split(":"))
    except ValueError as error:
        raise ConstraintError(
            f"the bounds of feature {name!r} are {said!r}; give LOW:HIGH, such as {feature.low:g}:{feature.high:g}."
        ) from error
    return name, [low, high]


def _matching(text: str, known: Sequence[Any], owner: str, what: str) -> Any:
    """The label or category that is typed so: as it is written, in other letters, or as the same number."""
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda value: str(value) == text,
        lambda value: str(value).lower() == text.lower(),
        lambda value: _number(value) is not None and _number(value) == _number(text),
    )
    for same in tests:
        matches = [value for value in known if same(value)]
        if len(matches) == 1:
            return matches[0]
    raise UnknownNameError(f"{owner} has no {what} {text!r}; it has {', '.join(repr(_plain(v)) for v in known)}.")


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
