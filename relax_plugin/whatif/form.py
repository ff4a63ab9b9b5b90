"""The form: each column of a row as a field that a browser can show, and what it sends back as a cell.

A category is a text there, whatever it is in the table; null is a missing cell; a number is a number.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import cell_label, feature_label, format_cell, format_labelled
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
