"""How closely a card is printed: the largest letters with which all of it is on one sheet, be that A4 or letter."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from markupsafe import Markup

from relax_plugin.arrays import Floats

SIZES = (9.5, 9.0, 8.5, 8.0, 7.5, 7.0, 6.5, 6.0, 5.5)  # points; less is not read, and goes on on a second sheet
WIDTH, HEIGHT = 538.0, 712.0  # points of what both papers have within margins of 10 mm, less what rounding may take
CHARACTER = 0.56  # of the letters' size, the width of an average one in a wide font
LINE = 1.3  # of the letters' size
HEADING = 2.35  # a heading with the room around it
LEAST_ALTERNATIVE, LEAST_VALUES = 14.0, 19.0  # letters' sizes: the narrowest column of each kind
MOST_VALUE_COLUMNS = 4
MANY_CHANGES, MANY_WIDTH = 4, 20.0  # more changes are no sentence, and stand in columns of such a width
ENDS, SHARES = ("old", "new"), np.array([0.37, 0.31, 0.27])  # of a change; and of the width, the columns of the values
SMALL = 0.93  # tables and notes, against the letters of the card


@dataclass(frozen=True)
class Sheet:
    """The letters in points, and how many columns the alternatives and the values have."""

    points: float
    across: int
    value_columns: int


def sheet_for(card: Mapping[str, Any]) -> Sheet:
    """The sheet on which a card, as the template gets it, has room."""
    lengths = _lengths(card)
    for points in SIZES:
        width = WIDTH / points
        count = max(len(card["alternatives"]), 1)
        across = min(
            range(1, min(count, int(width / LEAST_ALTERNATIVE)) + 1), key=lambda k: (_found(card, width, k), k)
        )
        most = max(1, min(int(width / LEAST_VALUES), MOST_VALUE_COLUMNS))
        columns = min(range(1, most + 1), key=lambda k: (_values(lengths, width, k), k))
        height = (
            _said(card, width) + _found(card, width, across) + _values(lengths, width, columns) + _small(card, width)
        )
        if height * points <= HEIGHT:
            break
    return Sheet(points, across, columns)


def _lines(text: Any, width: float) -> int:
    return max(1, ceil(len(_read(text)) * CHARACTER / max(width, 1.0)))


def _read(text: Any) -> str:
    """What is read of a text: of markup neither tags nor titles."""
    return text.striptags() if isinstance(text, Markup) and "<" in text else str(text)


def _said(card: Mapping[str, Any], width: float) -> float:
    height = 0.3 + 1.9 * _lines(card["name"], width / 1.6) + 1.15 * LINE * _lines(card["before"], width * 0.7) + 0.6
    height += sum(_bar(one, min(width, 32.0)) for one in card["bars"])
    return height + (LINE * _lines(card["wished"], width) + 0.6 if card["wished"] else 0.0)


def _bar(bar: Any, width: float, *, brief: bool = False) -> float:
    told = bar.text if brief else f"{bar.label}: {bar.text} ({bar.line_text})"
    return SMALL * LINE * _lines(told, width) + 2.15


def _changes(changes: list[dict[str, Any]], width: float) -> float:
    columns = max(1, int((width + 1.5) / (MANY_WIDTH + 1.5))) if len(changes) > MANY_CHANGES else 1
    each = (width - 1.5 * (columns - 1)) / columns / SMALL
    heights = [
        SMALL * (LINE * max(_lines(one["name"], 0.38 * each), *(_lines(one[end], 0.28 * each) for end in ENDS)) + 0.4)
        for one in changes
    ]
    return 2.1 + sum(heights) / columns + max(heights, default=0.0) * (columns > 1)


def _found(card: Mapping[str, Any], width: float, across: int) -> float:
    if card["already"]:
        return HEADING + 2.0
    if card["failure"] is not None:
        attempt, height = card["failure"]["attempt"], HEADING + LINE * _lines(card["failure"]["status"], width) + 0.6
        if attempt is None:
            return height
        bar = 0.0 if attempt["bar"] is None else _bar(attempt["bar"], 32.0)
        return height + 5.5 + bar + _changes(attempt["changes"], 34.0)
    inner = (width - 0.5 * (across - 1)) / across - 1.7
    heights = [_alternative(one, inner) for one in card["alternatives"]]
    height = sum(max(heights[first : first + across]) + 0.5 for first in range(0, len(heights), across))
    return HEADING + height + 2.0 * bool(card["fewer"])


def _alternative(one: Mapping[str, Any], width: float) -> float:
    height = 1.6 + 1.4 * _lines(one["after"], width - 10.0) + LINE * _lines(one["sentence"], width) + 0.8
    height += 0.0 if one["bar"] is None else _bar(one["bar"], min(width, 32.0), brief=not one["many"])
    height += LINE * _lines(one["plausible"], width) + 0.6 if one["plausible"] else 0.0
    return height + _changes(one["changes"], width)


def _lengths(card: Mapping[str, Any]) -> Floats:
    """Characters of name, value and what it could become, of each value of the card (values, 3)."""
    rows = [
        (_read(line["name"]), f"{_read(line['value'])} {line['changed']}", line["could"]) for line in card["values"]
    ]
    rows += [(_read(name), _read(cell), "not known to the model") for name, cell in card["carried"]]
    return np.array([[len(text) for text in row] for row in rows], dtype=np.float64)


def _values(lengths: Floats, width: float, columns: int) -> float:
    each = (width - 1.5 * (columns - 1)) / columns / SMALL
    lines = np.maximum(np.ceil(lengths * CHARACTER / (SHARES * each)), 1.0).max(axis=1)
    heights = SMALL * (LINE * lines + 0.4)
    return float(HEADING + 1.6 + heights.sum() / columns + heights.max())


def _small(card: Mapping[str, Any], width: float) -> float:
    each = (width / 2 - 1.0) / SMALL
    held = sum(LINE * _lines(f"{one.what}: {one.about}", each - 1.1) + 0.2 for one in card["held"])
    proved = sum(LINE * _lines(f"{kind}: {text}", each - 1.1) + 0.2 for kind, text in card["proved"])
    proved += HEADING + LINE * 5 * max(1.0, 38.0 / each)
    return SMALL * (HEADING + max(held, proved)) + 0.9 * LINE * _lines(card["foot"], width) + 0.8
