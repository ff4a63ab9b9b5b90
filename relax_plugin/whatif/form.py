"""The form: each column of a row as a field that a browser can show; and what it sends back, as a question.

A category is a text there, whatever it is in the table; null is a missing cell; a number is a number. What the browser
sends is read into a row and the arguments of `explain`, or refused in a sentence.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import GoalError, InputError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import cell_label, feature_label, format_cell, format_labelled
from relax_plugin.goal import Goal
from relax_plugin.table.columns import EXACT, Feature, range_of
from relax_plugin.table.vocabulary import is_missing

MOST_LETTERS = 200  # of a cell that is shown and not chosen: a remark may be a novel


@dataclass(frozen=True)
class Form:
    """The fields of the rows of a space, one for each feature and each derived column."""

    space: FeatureSpace  # of a fitted explainer: it knows which missing cells the training rows have
    gaps: frozenset[Hashable] = field(default_factory=frozenset)  # numbers that are missing in some row

    @cached_property
    def places(self) -> dict[str, int]:
        """Where the feature of each name stands in the space."""
        return {str(name): j for j, name in enumerate(self.space.names)}

    @cached_property
    def categories(self) -> list[dict[str, int]]:
        """For each feature its categories, as the browser calls them, and their places."""
        return [self._categories(f) for f in self.space.features]

    def _categories(self, feature: Feature) -> dict[str, int]:
        real = feature.categories[: len(feature.categories) - feature.vanishable]
        return {text: place for place, text in enumerate(distinct_texts(real))}

    def place(self, name: Any, what: str) -> int:
        """Where a feature stands, refused if there is none of that name."""
        if not isinstance(name, str) or name not in self.places:
            told = hint(name, self.places)
            if name in map(str, self.space.formulas):
                told = "it is computed from others, and never chosen."
            raise UnknownNameError(f"{what} names feature {brief(name)}; {told}")
        return self.places[name]

    def fields(self) -> list[dict[str, Any]]:
        """What the browser has to know of each field, whatever the row: its words, kind, range and own limits."""
        return [*map(self._field, range(len(self.space))), *map(self._derived_field, self.space.formulas)]

    def _field(self, j: int) -> dict[str, Any]:
        feature, labels = self.space.features[j], self.space.labels
        told = {
            "name": str(feature.name),
            "words": feature_label(labels, feature.name),
            "kind": "carried" if feature.carried else feature.kind,
            "fixed": feature.immutable,
            "direction": feature.direction,
            "ordered": feature.kind != "categorical" or feature.ordered,
            "may_be_missing": self.missing_value(j) is not None,
        }
        if feature.kind != "categorical":
            return told | {"low": feature.low, "high": feature.high, "step": feature.step}
        return told | {
            "categories": [
                {
                    "value": text,
                    "words": format_labelled(labels, feature.name, feature.categories[place]),
                    "allowed": bool(feature.choices[place]),
                }
                for text, place in self.categories[j].items()
            ]
        }

    def _derived_field(self, name: Hashable) -> dict[str, Any]:
        formula = self.space.formulas[name].formula.text
        return {
            "name": str(name),
            "words": feature_label(self.space.labels, name),
            "kind": "derived",
            "formula": formula,
            "fixed": True,
        }

    def missing_value(self, j: int) -> float | None:
        """The value of a missing cell of a feature; None where none may be chosen."""
        feature = self.space.features[j]
        if feature.kind != "categorical":
            return feature.missing_code if feature.vanishable or feature.name in self.gaps else None
        if feature.vanishable:
            return len(feature.categories) - 1.0
        known = self.space.foreign.get(j)
        if known is None or feature.carried or feature.columns or not known.missing.any():
            return None
        return float(len(feature.categories) + int(np.argmax(known.missing)))

    def cells(self, space: FeatureSpace, values: Values, row: pd.DataFrame) -> dict[str, Any]:
        """The cells of a row by field, what is chosen there, and how people read it; `space` knows the row."""
        told: dict[str, Any] = {}
        missing = space.is_missing(values)[0]
        for j, feature in enumerate(space.features):
            gap = {"cell": None, "shown": "missing"}
            told[str(feature.name)] = gap if missing[j] else self._cell(space, j, float(values[0, j]), row)
        for name in space.formulas:
            told[str(name)] = {"cell": None, "shown": brief_cell(row[name].iloc[0])}
        return told

    def _cell(self, space: FeatureSpace, j: int, value: float, row: pd.DataFrame) -> dict[str, Any]:
        feature = space.features[j]
        if feature.kind != "categorical":
            return {"cell": number(value), "shown": format_cell(number(value))}
        place = int(value)
        if place < len(feature.categories):
            text = next(text for text, own in self.categories[j].items() if own == place)
            words = cell_label(space.labels, feature.name, feature.categories[place])
            return {"cell": text, "shown": format_cell(words)}
        # None of the categories: unseen, carried, or columns of a group that are no one-hot code.
        cell = row[list(feature.columns)].iloc[0].tolist() if feature.columns else row[feature.name].iloc[0]
        return {"cell": None, "shown": brief_cell(cell), "foreign": True}

    def value(self, name: Any, cell: Any) -> tuple[int, float]:
        """Which feature a cell of the browser is for, and its value, refused if it can have no such."""
        j = self.place(name, "the row")
        feature = self.space.features[j]
        if feature.carried:
            raise InputError(f"feature {name!r} is neither a number nor a category; it reaches the model as it is.")
        if cell is None:
            missing = self.missing_value(j)
            if missing is None:
                raise InputError(f"feature {name!r} is missing, which it is in no training row; give it a value.")
            return j, missing
        return j, self.category(j, cell) if feature.kind == "categorical" else self.number(j, cell)

    def category(self, j: int, cell: Any) -> float:
        """The place of a category."""
        known, name = self.categories[j], self.space.names[j]
        text = plain_text(cell)
        if text is None or text not in known:
            raise UnknownNameError(f"feature {name!r} has no category {brief(cell)}; {hint(text, known)}")
        return float(known[text])

    def number(self, j: int, cell: Any) -> float:
        """A number that a cell of the feature can hold."""
        feature = self.space.features[j]
        read = finite(cell, f"feature {feature.name!r}")
        low, high = range_of(feature.dtype)
        low, high = max(low, 1.0 - EXACT), min(high, EXACT - 1.0)
        if not low <= read <= high:
            raise InputError(
                f"feature {feature.name!r} is {read:g}; its column holds numbers from {low:g} to {high:g}."
            )
        if feature.kind == "integer" and read != math.floor(read):
            raise InputError(f"feature {feature.name!r} is {read!r}; a whole number is needed.")
        return read


def distinct_texts(labels: Sequence[Any]) -> list[str]:
    """A text for each category or class, by which the browser calls it; 1 and "1" get different ones."""
    texts = [str(label) for label in labels]
    texts = [repr(label) if texts.count(text) > 1 else text for text, label in zip(texts, labels, strict=True)]
    return [f"{text} #{place}" if texts.count(text) > 1 else text for place, text in enumerate(texts)]


def finite(value: Any, what: str) -> float:
    """A number of JSON, refused if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{what} is {brief(value)}; a number is needed.")
    try:
        read = float(value)
    except OverflowError as error:
        raise InputError(f"{what} is a number too long for anything here to hold.") from error
    if not math.isfinite(read):
        raise InputError(f"{what} is {value!r}; a finite number is needed.")
    return read


def number(value: float) -> int | float:
    """A number as JSON writes it best."""
    return int(value) if value == math.floor(value) and abs(value) < EXACT else float(value)


def brief_cell(cell: Any) -> str:
    """A cell that is shown only, cut short."""
    text = "missing" if is_missing(cell) else format_cell(cell)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def brief(value: Any) -> str:
    """What was sent, for a sentence: never a page of it."""
    if isinstance(value, Mapping | list):
        return f"a {'list' if isinstance(value, list) else 'mapping'}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def hint(value: Any, known: Iterable[object]) -> str:
    """What would be accepted; texts without end are not compared letter by letter."""
    return did_you_mean(value[:60] if isinstance(value, str) else "", known)


def plain_text(sent: Any) -> str | None:
    """A category or class as the browser calls it; None for what can be none."""
    if isinstance(sent, str):
        return sent
    return str(sent) if isinstance(sent, bool | float) or (isinstance(sent, int) and abs(sent) < EXACT) else None


MOST_ALTERNATIVES = 10  # on one page; more are no reading
PLAUSIBLE = {"no": False, "prefer": "prefer", "require": "require"}
SHIFTS: dict[str, Literal["up", "down", "either"]] = {"up": "up", "down": "down", "either": "either"}
DIRECTIONS = {"up": "increase_only", "down": "decrease_only"}

KEYS = ("row", "cells", "features", "goal", "n", "max_changes", "plausible", "tab", "keep")
GOAL_KEYS = {
    "flip": ("min_probability",),
    "to": ("label", "min_probability"),
    "shift": ("delta", "direction"),
    "between": ("low", "high"),
}
LIMIT_KEYS = ("locked", "low", "high", "categories", "direction")


@dataclass(frozen=True)
class Question:
    """A row by its position, values in the place of its own, and arguments of `explain`."""

    row: int
    values: Mapping[int, float] = field(default_factory=dict)  # edited by hand, by feature
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of `explain`, those that say something
    tab: str = ""  # which page asks; its history is its own
    keep: bool = True  # whether it belongs into the history


def read_question(sent: Any, form: Form, rows: int, classes: Iterable[Any] | None, features: int) -> Question:
    """What a browser sent as a question about one of `rows` rows, of which at most `features` features may change."""
    sent = _mapping(sent, "the question")
    _refuse_unknown("the question", sent, KEYS)
    cells = _mapping(sent.get("cells", {}), "cells")
    values = dict(form.value(name, cell) for name, cell in cells.items())
    arguments: dict[str, Any] = {}
    if sent.get("goal") is not None:
        arguments["goal"] = read_goal(sent["goal"], classes)
    arguments["n"] = _whole(sent.get("n", 1), "n", 1, MOST_ALTERNATIVES)
    arguments |= _limits(_mapping(sent.get("features", {}), "features"), form)
    if sent.get("max_changes") is not None:
        arguments["max_changes"] = _whole(sent["max_changes"], "max_changes", 1, features)
    plausible = sent.get("plausible", "no")
    if not isinstance(plausible, str) or plausible not in PLAUSIBLE:
        raise UnknownNameError(f"plausible is {brief(plausible)}; {hint(plausible, PLAUSIBLE)}")
    arguments["plausible"] = PLAUSIBLE[plausible]
    keep = _truth(sent.get("keep", True), "keep")
    return Question(read_row(sent.get("row"), rows), values, arguments, read_tab(sent.get("tab", "")), keep)


def read_row(sent: Any, rows: int) -> int:
    """The position of a row."""
    if isinstance(sent, bool) or not isinstance(sent, int) or not 0 <= sent < rows:
        raise InputError(f"there is no row {brief(sent)}; there are 0 to {rows - 1}.")
    return sent


def read_tab(sent: Any) -> str:
    """The name that a page gave itself."""
    if not isinstance(sent, str) or len(sent) > 40 or not (sent == "" or sent.isalnum()):
        raise InputError(f"tab is {brief(sent)}; at most 40 letters and digits are needed.")
    return sent


def read_goal(sent: Any, classes: Iterable[Any] | None) -> Goal:
    """What is wanted of the answer, refused if it is for the other kind of model."""
    sent = _mapping(sent, "the goal")
    kinds = ("shift", "between") if classes is None else ("flip", "to")
    kind = sent.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise GoalError(f"the goal is of kind {brief(kind)}; {hint(kind, kinds)}")
    _refuse_unknown("the goal", sent, ("kind", *GOAL_KEYS[kind]))
    numbers = {
        name: finite(sent[name], f"{name} of the goal")
        for name in ("min_probability", "delta", "low", "high")
        if sent.get(name) is not None
    }
    if kind == "flip":
        return Goal.flip(min_probability=numbers.get("min_probability"))
    if kind == "to":
        label = _label(sent.get("label"), list(classes or ()))
        return Goal.to(label, min_probability=numbers.get("min_probability"))
    if kind == "between":
        return Goal.between(numbers.get("low"), numbers.get("high"))
    if "delta" not in numbers:
        raise GoalError("a shift needs a delta: how far away the answer has to be.")
    direction = sent.get("direction", "either")
    if not isinstance(direction, str) or direction not in SHIFTS:
        raise GoalError(f"the direction of the goal is {brief(direction)}; {hint(direction, SHIFTS)}")
    return Goal.shift(numbers["delta"], direction=SHIFTS[direction])


def _label(sent: Any, classes: list[Any]) -> Any:
    known = dict(zip(distinct_texts(classes), classes, strict=True))
    text = plain_text(sent)
    if text is None or text not in known:
        raise GoalError(f"the model has no class {brief(sent)}; {hint(text, known)}")
    return known[text]


def _limits(sent: Mapping[str, Any], form: Form) -> dict[str, Any]:
    named: dict[str, list[Hashable]] = {"immutable": [], "increase_only": [], "decrease_only": []}
    bounds: dict[Hashable, Any] = {}
    for text, said in sent.items():
        j = form.place(text, "what may change")
        feature, what = form.space.features[j], f"the limit of feature {text!r}"
        said = _mapping(said, what)
        _refuse_unknown(what, said, LIMIT_KEYS)
        if _truth(said.get("locked", False), f"locked of feature {text!r}") or feature.carried:
            named["immutable"].append(feature.name)
            continue
        direction = said.get("direction")
        if direction is not None:
            if not isinstance(direction, str) or direction not in DIRECTIONS:
                accepted = hint(direction, DIRECTIONS)
                raise InputError(f"the direction of feature {text!r} is {brief(direction)}; {accepted}")
            named[DIRECTIONS[direction]].append(feature.name)
        bound = _bound(text, said, j, form)
        if bound is not None:
            bounds[feature.name] = bound
    told: dict[str, Any] = {argument: names for argument, names in named.items() if names}
    return told | ({"bounds": bounds} if bounds else {})


def _bound(text: str, said: Mapping[str, Any], j: int, form: Form) -> Any:
    feature = form.space.features[j]
    wrong = ("low", "high") if feature.kind == "categorical" else ("categories",)
    for name in wrong:
        if said.get(name) is not None:
            needed = "categories" if feature.kind == "categorical" else "low and high"
            raise InputError(f"feature {text!r} has no {name} to limit; say {needed}.")
    if feature.kind == "categorical":
        chosen = said.get("categories")
        if chosen is None:
            return None
        if chosen == []:
            raise InputError(f"feature {text!r} may become none of its categories; name some, or lock it.")
        if not isinstance(chosen, list):
            raise InputError(f"the categories of feature {text!r} are {brief(chosen)}; give a list of some.")
        return list(dict.fromkeys(feature.categories[int(form.category(j, one))] for one in chosen))
    ends = tuple(None if said.get(end) is None else finite(said[end], f"{end} of {text!r}") for end in ("low", "high"))
    return None if ends == (None, None) else ends


def _mapping(sent: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(sent, Mapping):
        raise InputError(f"{what} is {brief(sent)}; a mapping is needed.")
    return sent


def _refuse_unknown(what: str, sent: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in sent:
        if key not in known:
            raise UnknownNameError(f"{what} has {brief(key)}; {hint(key, known)}")


def _whole(sent: Any, what: str, least: int, most: int) -> int:
    if isinstance(sent, bool) or not isinstance(sent, int) or not least <= sent <= most:
        raise InputError(f"{what} is {brief(sent)}; a whole number from {least} to {most} is needed.")
    return sent


def _truth(sent: Any, what: str) -> bool:
    if not isinstance(sent, bool):
        raise InputError(f"{what} is {brief(sent)}; true or false is needed.")
    return sent
