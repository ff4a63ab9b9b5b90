"""What is typed on a command line, as the words of the package: method, feature space, model and goal."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from relax_plugin.blackbox import BlackBox, Task
from relax_plugin.errors import ConstraintError, GoalError, InputError, ModelError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace, Values
from relax_plugin.goal import Goal
from relax_plugin.registry import check_options

# Parameters of every explainer that have an argument of their own.
SAID_OTHERWISE = {"max_changes": "--max-changes", "seed": "--seed", "goal": "--to, --shift or --between"}


def method(text: str, further: Sequence[str], max_changes: int | None) -> tuple[str, dict[str, Any]]:
    """The explainer's name and options, from `greedy:quantiles=10` and from texts such as `quantiles=10`."""
    from relax_plugin.evaluation.judge import Method

    named = Method.parse(text)
    options = dict(named.options)
    for option in further:
        options |= Method.parse(f"{named.explainer}:{option}").options
    for option, argument in SAID_OTHERWISE.items():
        if option in options:
            raise InputError(f"the option {option!r} is said by an argument of its own: {argument}.")
    check_options(named.explainer, options)
    if max_changes is not None:
        options["max_changes"] = max_changes
    return named.explainer, options


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
    numeric = chosen.shift is not None or chosen.between is not None
    if model.task == "regression":
        if chosen.to is not None or chosen.min_probability is not None:
            argument = "--to" if chosen.to is not None else "--min-probability"
            raise GoalError(f"{argument} is for classifiers; a regressor needs --shift DELTA or --between LOW HIGH.")
        if not numeric:
            raise GoalError("a regressor needs a goal: --shift DELTA or --between LOW HIGH.")
        if chosen.shift is not None:
            return Goal.shift(chosen.shift)
        low, high = chosen.between
        return Goal.between(_end(low, float("-inf")), _end(high, float("inf")))
    if numeric:
        argument = "--shift" if chosen.shift is not None else "--between"
        raise GoalError(f"{argument} is for regressors; a classifier takes --to LABEL, or nothing for another class.")
    if chosen.to is None:
        return Goal.flip(min_probability=chosen.min_probability)
    known = model.reader.classes(None)
    if known is None:
        model.learn(values)
        known = model.classes
    assert known is not None
    return Goal.to(_matching(chosen.to, list(known), "the model", "class"), min_probability=chosen.min_probability)


def _end(text: str, none: float) -> float:
    try:
        return none if text == "-" else float(text)
    except ValueError as error:
        raise GoalError(f"--between has the end {text!r}; a number is needed, or - for no limit.") from error


def _bound(text: str, features: FeatureSpace) -> tuple[str, list[Any]]:
    """A feature's name and its bounds, from `age=18:80` or `town=Rome|Bonn`."""
    name = max((str(name) for name in features.names if text.startswith(f"{name}=")), key=len, default=None)
    if name is None:
        named, equals, _ = text.partition("=")
        hint = did_you_mean(named, features.names) if equals else "write FEATURE=LOW:HIGH, or FEATURE=A|B."
        raise UnknownNameError(f"--bounds names feature {named!r}; {hint}")
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
