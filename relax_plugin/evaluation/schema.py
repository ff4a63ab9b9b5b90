"""The columns of the judge's rows, and the numbers of the tables made of them: each is told once, in `columns.json`.

The judge makes rows by it, the store reads them by it, and tables and pages take headings and meanings from it.
Nothing heavy is imported here: a plan is checked, and refused, before pandas, scikit-learn or torch are needed.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from relax_plugin import formatting

Row = dict[str, Any]
STATES = ("ok", "crashed", "timed out", "skipped")

_TYPES: dict[str, tuple[type, Any]] = {  # and what stands in such a column where nothing is known
    "text": (str, ""),
    "count": (int, 0),
    "number": (float, math.nan),
    "truth": (bool, False),
}
_TOLD = json.loads(resources.files(__package__).joinpath("columns.json").read_bytes())


@dataclass(frozen=True)
class Column:
    """A column of the rows: its type, what stands in it where nothing is known, and what it means."""

    name: str
    type: type
    missing: Any
    meaning: str


@dataclass(frozen=True)
class Number:
    """A number of a table: its name there, its heading on a page, how it is written, and what it means."""

    key: str
    heading: str
    text: Callable[[float], str]
    meaning: str
    best: Literal["high", "low", ""] = ""  # which way is better; "" where methods were measured on other queries
    mean_of: str = ""  # the column of the rows that it is the mean of over a unit's instances
    spread: bool = False  # the standard deviation over seeds stands beside it
    # One seed without it makes it unknown, lest a method looks better for a seed that it failed.
    of_all_seeds: bool = False


def _column(told: dict[str, Any]) -> Column:
    kind, nothing = _TYPES[told["type"]]
    return Column(told["name"], kind, told.get("missing", nothing), told["meaning"])


def _number(key: str, text: str, meaning: str, heading: str = "", **how: Any) -> Number:
    return Number(key, heading or key, getattr(formatting, text), meaning, **how)


ROW = tuple(map(_column, _TOLD["rows"]))
"""One row for each task, method, seed and instance."""
COLUMNS = tuple(column.name for column in ROW)

SUMMARY = {told["key"]: _number(**told) for told in _TOLD["summary"]}
"""The numbers of a method on a task, by their names in `tables.summary`."""
NUMBERS = tuple(key for key in SUMMARY if key not in ("seeds", "failed", "skipped"))
"""Those of them that one seed has."""
