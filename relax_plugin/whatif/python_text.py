"""A question as Python: the text that, run after the setup, asks the very same and gets the same answer."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.goal import Goal
from relax_plugin.table.plain_cells import to_plain

NARROW = 100  # letters of a line, as far as a list can be broken
PLAIN = "from relax_plugin.table.plain_cells import from_plain"  # needed by cells that are no literals


def literal(value: Any, indent: int = 0) -> str:
    """A value as Python writes it; a list or mapping too long for a line has a line for each of its parts."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Goal):
        return goal_text(value)
    if isinstance(value, list | tuple):
        parts = [literal(one, indent + 4) for one in value]
        ends = "[]" if isinstance(value, list) else "()"
        return _broken(parts, ends, indent, "," if isinstance(value, tuple) and len(parts) == 1 else "")
    if isinstance(value, Mapping):
        pairs = [f"{literal(key)}: {literal(one, indent + 4)}" for key, one in value.items()]
        return _broken(pairs, "{}", indent)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"from_plain({literal(to_plain(value, 'a cell'))})"


def _broken(parts: list[str], ends: str, indent: int, last: str = "") -> str:
    line = f"{ends[0]}{', '.join(parts)}{last}{ends[1]}"
    if len(line) + indent <= NARROW and "\n" not in line:
        return line
    inner = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{ends[0]}\n{inner}{' ' * indent}{ends[1]}"


def _quoted(text: str) -> str:
    written = repr(text)
    return f'"{written[1:-1]}"' if written.startswith("'") and '"' not in text and "\\'" not in written else written


def goal_text(goal: Goal) -> str:
    """A goal as it is made."""
    said = {
        name: getattr(goal, name)
        for name in ("min_probability", "raise_by", "direction")
        if getattr(goal, name) is not None
    }
    if goal.kind == "shift" and said.get("direction") == "either":
        del said["direction"]
    first = {"flip": [], "to": [goal.label], "shift": [goal.delta], "between": [_end(goal.low), _end(goal.high)]}
    parts = [literal(one) for one in first[goal.kind]]
    return f"Goal.{goal.kind}({', '.join([*parts, *(f'{name}={literal(one)}' for name, one in said.items())])})"


def _end(end: Any) -> Any:
    return None if isinstance(end, float) and math.isinf(end) else end


def call_text(function: str, first: list[str], arguments: Mapping[str, Any]) -> str:
    """A call with a line for each argument, those that say nothing left out."""
    lines = [*first, *(f"{name}={literal(value, 4)}" for name, value in arguments.items())]
    short = f"{function}({', '.join(lines)})"
    if len(short) <= NARROW and "\n" not in short:
        return short
    return f"{function}(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def question_text(
    position: int, row: pd.DataFrame, edited: pd.DataFrame, columns: list[str], arguments: Mapping[str, Any]
) -> str:
    """The question about a row of `rows`, asked of `explainer`.

    `row` is as it is in `rows`, `edited` as it was asked about; in `columns` cells were edited, or computed anew.
    """
    lines = [f"row = rows.iloc[[{position}]]"]
    if columns:
        cells = {name: edited[name].iloc[0] for name in columns}
        others = {name: str(edited[name].dtype) for name in columns if edited[name].dtype != row[name].dtype}
        dtypes = f"{{**rows.dtypes, {literal(others)[1:]}" if others else "rows.dtypes"
        lines.append(f"row = row.assign(**{literal(_plain(cells))}).astype({dtypes})")
    lines.append(call_text("found = explainer.explain", ["row"], arguments))
    text = "\n".join(lines)
    return f"{PLAIN}\n\n{text}" if "from_plain(" in text else text


def _plain(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Cells that an assignment can hold: any that is missing as NaN, which every column takes for its own."""
    return {name: math.nan if pd.api.types.is_scalar(cell) and pd.isna(cell) else cell for name, cell in cells.items()}
