"""What is typed on the command line of `explain`, as far as it can be refused without rows and without a model."""

import argparse
import math
from collections.abc import Sequence
from typing import Any

from relax_plugin.errors import GoalError, InputError, UnknownNameError, did_you_mean
from relax_plugin.registry import check_name, check_options, read_method

CONSTRAINTS = ("categorical", "immutable", "increase_only", "decrease_only", "vary")  # arguments that name features

# Parameters of every explainer that have an argument of their own.
SAID_OTHERWISE = {"max_changes": "--max-changes", "seed": "--seed", "goal": "--to, --shift or --between"}


def method(text: str, further: Sequence[str], max_changes: int | None) -> tuple[str, dict[str, Any]]:
    """The explainer's name and options, from `greedy:quantiles=10` and from texts such as `quantiles=10`."""
    name, options = read_method(text)
    check_name(name)
    for option in further:
        options |= read_method(f"{name}:{option}")[1]
    for option, argument in SAID_OTHERWISE.items():
        if option in options:
            raise InputError(f"the option {option!r} is said by an argument of its own: {argument}.")
    check_options(name, options)
    if max_changes is not None:
        options["max_changes"] = max_changes
    return name, options


def check_goal(chosen: argparse.Namespace) -> None:
    """Refuse a goal that no model could have."""
    probability = chosen.min_probability
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise GoalError(f"--min-probability is {probability}, but must lie between 0 and 1.")
    if chosen.shift is not None and (chosen.shift == 0 or not math.isfinite(chosen.shift)):
        raise GoalError(f"--shift is {chosen.shift}, but must be a finite number other than 0.")
    if chosen.between is not None:
        low, high = between(chosen.between)
        if not low <= high:
            raise GoalError(f"--between is [{low}, {high}], which is empty; give numbers LOW <= HIGH.")
    if chosen.task != "auto":
        check_kind(chosen, chosen.task)


def check_kind(chosen: argparse.Namespace, task: str) -> None:
    """Refuse a goal that is for the other kind of model."""
    numeric = next((name for name in ("shift", "between") if getattr(chosen, name) is not None), None)
    if task == "regression":
        if chosen.to is not None or chosen.min_probability is not None:
            argument = "--to" if chosen.to is not None else "--min-probability"
            raise GoalError(f"{argument} is for classifiers; a regressor needs --shift DELTA or --between LOW HIGH.")
        if numeric is None:
            raise GoalError("a regressor needs a goal: --shift DELTA or --between LOW HIGH.")
    elif numeric is not None:
        raise GoalError(f"--{numeric} is for regressors; a classifier takes --to LABEL, or nothing for another class.")


def between(ends: Sequence[str]) -> tuple[float, float]:
    """The range that is typed, in which - is no limit."""
    low, high = ends
    return _end(low, -math.inf), _end(high, math.inf)


def check_names(chosen: argparse.Namespace, names: Sequence[str]) -> None:
    """Refuse constraints on features that are not among these columns."""
    for constraint in CONSTRAINTS:
        for name in getattr(chosen, constraint):
            if name not in names:
                argument = constraint.replace("_", "-")
                raise UnknownNameError(f"--{argument} names feature {name!r}; {did_you_mean(name, names)}")
    for text in chosen.bounds:
        bounded(text, names)
    for name in chosen.vary:
        if name in chosen.immutable:
            raise InputError(f"--vary names feature {name!r}, which --immutable names too; leave out one of them.")
    for name in chosen.increase_only:
        if name in chosen.decrease_only:
            raise InputError(f"feature {name!r} is named by --increase-only and --decrease-only; make it --immutable.")


def bounded(text: str, names: Sequence[Any]) -> str:
    """The feature that a text such as `age=18:80` bounds."""
    name = max((str(name) for name in names if text.startswith(f"{name}=")), key=len, default=None)
    if name is None:
        named, equals, _ = text.partition("=")
        hint = did_you_mean(named, names) if equals else "write FEATURE=LOW:HIGH, or FEATURE=A|B."
        raise UnknownNameError(f"--bounds names feature {named!r}; {hint}")
    return name


def named(chosen: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """The columns that a constraint names, each of which has to be a feature of the model."""
    said = {name for constraint in CONSTRAINTS for name in getattr(chosen, constraint)}
    said |= {bounded(text, names) for text in chosen.bounds}
    return [name for name in names if name in said]


def _end(text: str, none: float) -> float:
    try:
        return none if text == "-" else float(text)
    except ValueError as error:
        raise GoalError(f"--between has the end {text!r}; a number is needed, or - for no limit.") from error
