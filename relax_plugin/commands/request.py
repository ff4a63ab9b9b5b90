"""What is typed on the command line of `explain`, as far as it can be refused without rows and without a model."""

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

from relax_plugin.commands.table_request import (
    AUTO,
    check_table,
    columns_concerned,
    feature_names,
    may_be_found,
    split,
)
from relax_plugin.errors import GoalError, InputError, UnknownNameError, did_you_mean
from relax_plugin.registry import check_name, check_options, read_method

# Arguments that name features.
CONSTRAINTS = (
    *("categorical", "immutable", "increase_only", "decrease_only", "vary"),
    *("fill_missing", "may_vanish"),
)

# Parameters of every explainer that have an argument of their own.
SAID_OTHERWISE = {
    "max_changes": "--max-changes",
    "seed": "--seed",
    "goal": "--to, --shift or --between",
    "plausible": "--plausible",
}


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


def check_goal(chosen: argparse.Namespace, *, needed: bool = True) -> None:
    """Refuse a goal that no model could have, or that is `needed` and not there."""
    probability = chosen.min_probability
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise GoalError(f"--min-probability is {probability}, but must lie between 0 and 1.")
    if chosen.shift is not None and -math.inf < chosen.shift < 0:
        raise GoalError(
            f"--shift is {chosen.shift:g}, but must be more than 0; for a lower answer say "
            f"--shift {-chosen.shift:g} --direction down."
        )
    if chosen.direction is not None and chosen.shift is None:
        raise GoalError(f"--direction {chosen.direction} says where --shift leads; give --shift DELTA with it.")
    if chosen.shift is not None and (chosen.shift == 0 or not math.isfinite(chosen.shift)):
        raise GoalError(f"--shift is {chosen.shift}, but must be a finite number other than 0.")
    if chosen.between is not None:
        low, high = between(chosen.between)
        if not low <= high:
            raise GoalError(f"--between is [{low}, {high}], which is empty; give numbers LOW <= HIGH.")
        if math.isinf(low) and math.isinf(high):
            raise GoalError("--between has no end, so that every answer lies in it; give LOW, HIGH or both.")
    if chosen.task != "auto":
        check_kind(chosen, chosen.task, needed=needed)


def check_kind(chosen: argparse.Namespace, task: str, *, needed: bool = True) -> None:
    """Refuse a goal that is for the other kind of model, and none where one is `needed`."""
    numeric = next((name for name in ("shift", "between") if getattr(chosen, name) is not None), None)
    if task == "regression":
        if chosen.to is not None or chosen.min_probability is not None:
            argument = "--to" if chosen.to is not None else "--min-probability"
            raise GoalError(f"{argument} is for classifiers; a regressor needs --shift DELTA or --between LOW HIGH.")
        if numeric is None and needed:
            raise GoalError("a regressor needs a goal: --shift DELTA or --between LOW HIGH.")
    elif numeric is not None:
        raise GoalError(f"--{numeric} is for regressors; a classifier takes --to LABEL, or nothing for another class.")


def between(ends: Sequence[str]) -> tuple[float, float]:
    """The range that is typed, in which - is no limit."""
    low, high = ends
    return _end(low, -math.inf), _end(high, math.inf)


def check_names(chosen: argparse.Namespace, columns: Sequence[str]) -> None:
    """Refuse constraints on features that are not among these columns."""
    check_table(chosen, columns)
    names = feature_names(chosen, columns)
    for constraint in CONSTRAINTS:
        for name in getattr(chosen, constraint):
            if name not in names and not may_be_found(chosen, name, columns):
                argument = constraint.replace("_", "-")
                raise UnknownNameError(f"--{argument} names feature {name!r}; {did_you_mean(name, names)}")
    if AUTO not in chosen.one_hot:
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
    return split(text, names, "bounds", "FEATURE=LOW:HIGH, or FEATURE=A|B")[0]


def named(chosen: argparse.Namespace, columns: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns that a constraint names, each of which has to be one of the model; of one-hot groups all."""
    said = {name for constraint in CONSTRAINTS for name in getattr(chosen, constraint)}
    said |= {bounded(text, [*columns, *groups]) for text in chosen.bounds}
    said |= set(columns_concerned(chosen, columns, groups))
    for name, own in groups.items():
        if name in said or said & set(own):
            said |= set(own)
    return [name for name in columns if name in said]


def _end(text: str, none: float) -> float:
    try:
        return none if text == "-" else float(text)
    except ValueError as error:
        raise GoalError(f"--between has the end {text!r}; a number is needed, or - for no limit.") from error
