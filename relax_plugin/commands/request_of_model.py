"""What is typed on the command line of `explain`, as the words of the package: feature space, black box and goal."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.blackbox import BlackBox, Task
from relax_plugin.commands import request
from relax_plugin.commands.rows import read_queries, refuse_gaps
from relax_plugin.errors import ConstraintError, ModelError, UnknownNameError
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal


def check_named(chosen: argparse.Namespace, training: pd.DataFrame) -> None:
    """Refuse constraints that do not fit their columns, and queries that lack one of these or hold wrong cells in it.

    Which of the other columns are features only the model knows, and it is loaded after this.
    """
    names = request.named(chosen, [str(name) for name in training.columns])
    rows = training[names]
    if names:
        refuse_gaps(rows, chosen.training)
        space(chosen, rows).limits(chosen.vary or None)
    if chosen.queries is not None:
        read_queries(chosen.queries, rows, chosen.target, say=False)


def space(chosen: argparse.Namespace, training: pd.DataFrame) -> FeatureSpace:
    """The features as the training rows show them and the arguments limit them."""
    plain = FeatureSpace.infer(training, categorical=chosen.categorical)
    return FeatureSpace.infer(
        training,
        categorical=chosen.categorical,
        immutable=chosen.immutable,
        increase_only=chosen.increase_only,
        decrease_only=chosen.decrease_only,
        bounds=dict(_bound(text, plain) for text in chosen.bounds),
    )


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
        return Goal.shift(chosen.shift)
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
