"""Cells as plain data: what JSON does not know is written with its kind, and read back as it was."""

import base64
import datetime
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import InputError
from relax_plugin.table.vocabulary import is_missing

KIND = "$"  # the key of what is no plain cell
MISSING: dict[str, Any] = {"nan": np.nan, "NA": pd.NA, "NaT": pd.NaT}
MOST_LETTERS = 10_000  # of a number or a time in a file
DEEPEST = 20  # lists in lists

WRITERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    pd.Timestamp: ("timestamp", lambda cell: [cell.isoformat(), None if cell.tz is None else str(cell.tz)]),
    pd.Timedelta: ("timedelta", lambda cell: cell.isoformat()),
    datetime.datetime: ("datetime", lambda cell: cell.isoformat()),
    datetime.date: ("date", lambda cell: cell.isoformat()),
    datetime.time: ("time", lambda cell: cell.isoformat()),
    datetime.timedelta: ("timedelta of Python", lambda cell: [cell.days, cell.seconds, cell.microseconds]),
    Decimal: ("decimal", str),
    bytes: ("bytes", lambda cell: base64.b64encode(cell).decode()),
    complex: ("complex", lambda cell: [cell.real, cell.imag]),
}
READERS: dict[str, Callable[[Any], Any]] = {
    "timestamp": lambda parts: (
        pd.Timestamp(parts[0]) if parts[1] is None else pd.Timestamp(parts[0]).tz_convert(parts[1])
    ),
    "timedelta": pd.Timedelta,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta of Python": lambda parts: datetime.timedelta(*parts),
    "decimal": Decimal,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "complex": lambda parts: complex(*parts),
    "list": lambda cells: [from_plain(cell) for cell in cells],
    "tuple": lambda cells: tuple(from_plain(cell) for cell in cells),
    "dict": lambda pairs: {from_plain(key): from_plain(value) for key, value in pairs},
    "set": lambda cells: {from_plain(cell) for cell in cells},
}


def to_plain(cell: Any, where: Hashable, depth: int = 0) -> Any:
    """A cell as JSON knows it; `where` is the name of its feature, for the refusal of what cannot be written."""
    if isinstance(cell, np.bool_ | np.number | np.str_):
        cell = cell.item()
    if is_missing(cell):
        name = "nan" if isinstance(cell, float) else "NA" if cell is pd.NA else "NaT"
        return None if cell is None else {KIND: name}
    if isinstance(cell, str | bool | int | float):
        return cell
    if type(cell) in WRITERS:
        kind, write = WRITERS[type(cell)]
        return {KIND: kind, "is": write(cell)}
    several = {list: "list", tuple: "tuple", set: "set", np.ndarray: "list"}.get(type(cell))
    if depth < DEEPEST and several is not None:
        return {KIND: several, "is": [to_plain(one, where, depth + 1) for one in cell]}
    if depth < DEEPEST and type(cell) is dict:
        pairs = [[to_plain(key, where, depth + 1), to_plain(value, where, depth + 1)] for key, value in cell.items()]
        return {KIND: "dict", "is": pairs}
    raise InputError(f"feature {where!r} has {cell!r} of type {type(cell).__name__}, which a file cannot hold.")


def from_plain(data: Any) -> Any:
    """What `to_plain` wrote; whatever else a file may hold is refused."""
    if not isinstance(data, dict):
        if isinstance(data, list):
            raise InputError("a file holds a bare list as a cell.")
        return data
    kind = data.get(KIND)
    if kind in MISSING:
        return MISSING[kind]
    if kind not in READERS:
        raise InputError(f"a file holds a cell of the unknown kind {kind!r}.")
    written = data.get("is")
    if isinstance(written, str) and len(written) > MOST_LETTERS and kind != "bytes":
        raise InputError(f"a file holds a cell of kind {kind!r} with {len(written)} letters.")
    return READERS[kind](written)
