"""What is typed on the command line of `explain` and `serve`, as far as it can be refused without pandas or a model.

A wrong name, a rule that cannot be read, or a file that is not there is refused at once.
"""

import argparse
import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.errors import (
    ColumnError,
    ConstraintError,
    GoalError,
    InputError,
    MissingExtraError,
    UnknownNameError,
    did_you_mean,
)
from relax_plugin.registry import check_name, check_options, read_method
from relax_plugin.rules.language import Parsed, parse_formula, parse_rule, quoted_name

if TYPE_CHECKING:
    pass

AUTO = "auto"  # of --one-hot: groups are found


def split(text: str, names: Iterable[Any], argument: str, wanted: str) -> tuple[str, str]:
    """Name and rest of a text such as `age=10`; a name may have an = in it."""
    name = max((str(name) for name in names if text.startswith(f"{name}=")), key=len, default=None)
    if name is None:
        named, equals, _ = text.partition("=")
        hint = did_you_mean(named, names) if equals else f"write {wanted}."
        raise UnknownNameError(f"--{argument} names feature {named!r}; {hint}")
    return name, text[len(name) + 1 :]


def groups(chosen: argparse.Namespace) -> dict[str, list[str]] | None:
    """The one-hot groups that are typed; none where they are to be found, None where nothing is said."""
    if not chosen.one_hot:
        return None
    if AUTO in chosen.one_hot:
        if len(chosen.one_hot) > 1:
            raise InputError("--one-hot says auto and names groups too; leave out one of them.")
        return {}
    read: dict[str, list[str]] = {}
    for text in chosen.one_hot:
        name, equals, columns = text.partition("=")
        if not equals or not name or "," not in columns:
            raise InputError(f"--one-hot is {text!r}; write auto, or NAME=COLUMN,COLUMN,... with two columns or more.")
        if name in read:
            raise InputError(f"--one-hot names the group {name!r} twice.")
        read[name] = columns.split(",")
    return read


def feature_names(chosen: argparse.Namespace, columns: Sequence[str]) -> list[str]:
    """What can change: the columns, a group in the place of its own, without those that are derived."""
    grouped = groups(chosen) or {}
    own = {column for some in grouped.values() for column in some}
    derived = {split(text, columns, "derived", "COLUMN=FORMULA")[0] for text in chosen.derived}
    return [*(name for name in columns if name not in own and name not in derived), *grouped]


def may_be_found(chosen: argparse.Namespace, name: str, columns: Sequence[str]) -> bool:
    """Whether a group of this name may yet be found: groups are called by the beginning of their columns' names."""
    return AUTO in chosen.one_hot and any(column != name and column.startswith(name) for column in columns)


def rules(chosen: argparse.Namespace) -> list[Parsed]:
    """The rules that are typed, refused where one cannot be read."""
    return [_said("rule", lambda text=text: parse_rule(text)) for text in chosen.rule]


def formulas(chosen: argparse.Namespace, columns: Sequence[str]) -> dict[str, tuple[Parsed, float]]:
    """The formulas of derived columns, each with its tolerance."""
    read: dict[str, tuple[Parsed, float]] = {}
    for text in chosen.derived:
        name, formula = split(text, columns, "derived", "COLUMN=FORMULA, such as 'total=salary + rent'")
        if name in read:
            raise InputError(f"--derived names column {name!r} twice.")
        formula, tolerance = _with_tolerance(formula)
        read[name] = _said("derived", lambda formula=formula: parse_formula(formula.strip())), tolerance
    return read


def _with_tolerance(text: str) -> tuple[str, float]:
    """A formula and the tolerance behind its ~; where that is no number, the formula cannot be read either."""
    formula, _, number = text.rpartition("~")
    try:
        return (formula, float(number)) if formula else (text, 0.0)
    except ValueError:
        return text, 0.0


def orders(chosen: argparse.Namespace, columns: Sequence[str]) -> dict[str, list[str]]:
    """The categories of ordered features, as they are typed."""
    read: dict[str, list[str]] = {}
    for text in chosen.ordered:
        name, said = split(text, columns, "ordered", "FEATURE=A<B<C")
        parts = [part.strip() for part in said.split("<")]
        if len(parts) < 2 or not all(parts) or len(set(parts)) < len(parts):
            raise ConstraintError(f"the order of feature {name!r} is {said!r}; name each category once, as in A<B<C.")
        read[name] = parts
    return read


def costs(chosen: argparse.Namespace, names: Sequence[str]) -> dict[str, float]:
    """The prices of features."""
    read: dict[str, float] = {}
    for text in chosen.cost:
        name, said = split(text, names, "cost", "FEATURE=PRICE")
        try:
            price = float(said)
        except ValueError:
            price = math.nan
        if not 0 < price < math.inf:
            raise ConstraintError(f"the cost of feature {name!r} is {said!r}; give a number above 0.")
        read[name] = price
    return read


def labels(path: Path | None) -> dict[str, Any]:
    """The labels of a JSON file: texts, objects of categories and texts, or lists of both."""
    if path is None:
        return {}
    try:
        read = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"--labels is {path}, which cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"--labels is {path}, which is no JSON: {error}.") from error
    if not isinstance(read, dict):
        raise InputError(f'{path} holds no labels; an object such as {{"status": {{"A11": "overdrawn"}}}} is needed.')
    return read


def check_table(chosen: argparse.Namespace, columns: Sequence[str]) -> None:
    """Refuse what is said about other columns than these."""
    for name, own in (groups(chosen) or {}).items():
        for column in own:
            if column not in columns:
                hint = did_you_mean(column, columns)
                raise UnknownNameError(f"--one-hot names column {column!r} of group {name!r}; {hint}")
    names = feature_names(chosen, columns)
    orders(chosen, names)
    if AUTO not in chosen.one_hot:
        costs(chosen, names)
    known = [*columns, *(groups(chosen) or {})]
    said = [("rule", parsed) for parsed in rules(chosen)]
    said += [("derived", parsed) for parsed, _ in formulas(chosen, columns).values()]
    for argument, parsed in said:
        for cell in parsed.cells():
            if cell.name not in known and not may_be_found(chosen, cell.name, columns):
                written = [name for name in known if parsed.text.startswith(name, cell.at)]
                meant = f"in backticks, {quoted_name(max(written, key=len))} is one." if written else None
                meant = meant or did_you_mean(cell.name, known)
                error = parsed.error(cell.at, f"{cell.name!r} is no column; {meant}")
                raise ConstraintError(f"--{argument}: {error}")
    for name in labels(chosen.labels):
        if name not in (*known, chosen.target) and not may_be_found(chosen, name, columns):
            raise UnknownNameError(f"{chosen.labels} has a label of {name!r}; {did_you_mean(name, known)}")


def _said(argument: str, read: Any) -> Parsed:
    try:
        parsed: Parsed = read()
    except ConstraintError as error:
        raise ConstraintError(f"--{argument}: {error}") from error
    return parsed


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


def columns_concerned(
    chosen: argparse.Namespace, columns: Sequence[str], found: Mapping[str, Sequence[str]]
) -> list[str]:
    """The columns and groups that something is said of; `found` are all groups."""
    derived = formulas(chosen, columns)
    parsed = [*(one for one, _ in derived.values()), *rules(chosen)]
    names = {*derived, *(cell.name for one in parsed for cell in one.cells())}
    features = [*feature_names(chosen, columns), *found]
    names |= {*orders(chosen, features), *costs(chosen, features), *(groups(chosen) or {})}
    names |= {*chosen.fill_missing, *chosen.may_vanish}
    return [name for name in (*columns, *found) if name in names]


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


PICKLES = (".joblib", ".pkl", ".pickle")
PARQUET = ".parquet"
ARROW = (".arrow", ".feather", ".ipc")  # one format: Feather is Arrow's file of record batches
PACKED = (".gz", ".bz2", ".zip", ".xz", ".zst", ".tar")


def check_model_path(path: Path) -> None:
    """Refuse, before anything is read, a file that is not there or is of no known kind."""
    if path.suffix.lower() not in (*PICKLES, ".onnx"):
        raise InputError(f"the model {path} has the ending {path.suffix!r}; a .joblib, .pkl or .onnx file is needed.")
    if not path.is_file():
        raise InputError(f"there is no model file {path}.")


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == PARQUET


def is_columnar(path: Path) -> bool:
    """Whether pyarrow reads and writes it."""
    return path.suffix.lower() in (PARQUET, *ARROW)


def check_parquet(path: Path | None) -> None:
    """Refuse a Parquet or Arrow file where nothing reads or writes it."""
    if path is not None and is_columnar(path) and find_spec("pyarrow") is None:
        raise MissingExtraError(f"{path} needs pyarrow, which is not installed: pip install 'relax-plugin[parquet]'.")


def header(path: Path) -> list[str] | None:
    """The column names of a CSV file as pandas will call them; None where only pandas itself can tell."""
    if path.suffix.lower() in (*PACKED, PARQUET, *ARROW):
        return None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next((line for line in csv.reader(file) if line), None)
    except (UnicodeDecodeError, csv.Error):
        return None
    if not names or len(set(names)) < len(names):
        return None
    return [name or f"Unnamed: {position}" for position, name in enumerate(names)]


RESULT_COLUMNS = ("before", "after")  # added to the features in a table of counterfactuals


def check_read(chosen: argparse.Namespace) -> None:
    """Refuse files that are not there, or that nothing here reads."""
    if not chosen.training.is_file():
        raise InputError(f"there is no file {chosen.training}.")
    check_model_path(chosen.model)
    if chosen.queries is not None and not chosen.queries.is_file():
        raise InputError(f"there is no file {chosen.queries} of queries.")
    for path in (chosen.training, chosen.queries):
        check_parquet(path)


def check_header(chosen: argparse.Namespace) -> None:
    """Refuse names that the training file does not have, as far as its first line can be read without pandas."""
    names = header(chosen.training)
    if names is not None:
        check_columns(chosen, names)


def columns_along(chosen: argparse.Namespace) -> list[str]:
    """The columns that come along with the rows, and are no features."""
    return list(dict.fromkeys([*([] if chosen.id is None else [chosen.id]), *chosen.carry]))


def check_columns(chosen: argparse.Namespace, names: Sequence[str]) -> None:
    if chosen.target is not None and chosen.target not in names:
        raise UnknownNameError(
            f"{chosen.training} has no target column {chosen.target!r}; {did_you_mean(chosen.target, names)}"
        )
    along = columns_along(chosen)
    for name in along:
        argument = "id" if name == chosen.id else "carry"
        if name in RESULT_COLUMNS:
            raise ColumnError(f"--{argument} names column {name!r}, as is a column of the results; rename it.")
        if chosen.queries is None and name not in names:
            raise UnknownNameError(f"--{argument} names column {name!r}; {did_you_mean(name, names)}")
    check_names(chosen, [name for name in names if name != chosen.target and name not in along])
