"""Tables for spreadsheets: a text that one of them would take for a formula begins with an apostrophe.

A cell such as `=cmd|' /C calc'!A0` in a CSV file is run by programs that open it. Numbers, negative ones too, stay as
they are. What `guarded` does is undone by `unguarded`, whatever the texts are.
"""

import re
from typing import Any

import numpy as np
import pandas as pd

FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # as OWASP lists them; apostrophes before them are ours, or look so


def guarded(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The table with an apostrophe before each text and column name that begins a formula, and their number."""
    count = 0

    def guard(cell: Any) -> Any:
        nonlocal count
        if not isinstance(cell, str) or not FORMULA.match(cell):
            return cell
        count += 1
        return f"'{cell}"

    changed = table.copy()
    for position, dtype in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(dtype):
            cells = np.empty(len(table), dtype=object)  # in which a whole number beside a fraction stays one
            cells[:] = [guard(cell) for cell in table.iloc[:, position].astype(object)]
            changed.isetitem(position, cells)
    return changed.set_axis([guard(name) for name in table.columns], axis=1), count


def unguarded(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it was before `guarded`."""

    def bare(cell: Any) -> Any:
        return cell[1:] if isinstance(cell, str) and cell.startswith("'") and FORMULA.match(cell) else cell

    changed = table.copy()
    for name, dtype in table.dtypes.items():
        if not pd.api.types.is_numeric_dtype(dtype):
            changed[name] = table[name].map(bare)
    return changed.rename(columns=bare)
