"""What is typed about the table on the command line of `explain`: groups, orders, formulas, rules, prices, labels.

All of it is read without pandas, so that a wrong name or a rule that cannot be read is refused at once.
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relax_plugin.errors import ConstraintError, InputError, UnknownNameError, did_you_mean
from relax_plugin.rules.language import Parsed, parse_formula, parse_rule, quoted_name

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


def _said(argument: str, read: Any) -> Parsed:
    try:
        parsed: Parsed = read()
    except ConstraintError as error:
        raise ConstraintError(f"--{argument}: {error}") from error
    return parsed
