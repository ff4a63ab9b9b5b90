"""How rows, cells and probabilities are called when they are read by people."""

import math
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.results import Counterfactuals

DIGITS = 6  # significant ones of a number that is no whole one
MOST_WHOLE = 1e15  # whole numbers from here on are no longer told one from the next as floats
LEAST_PLAIN = 1e-4  # smaller numbers are written with a power of ten
FINEST = 4  # decimals of a percentage
BY_BOUNDS = "by bounds of the network"  # how something was proved, at the end of the sentence that says what
BY_SOLVER = "by a solver's word"


def row_names(result: Counterfactuals) -> list[str]:
    """What people call the queries, by the index of their table: "Row 7", "customer 17" if it has a name, "Smith"."""
    if not isinstance(result.queries, pd.DataFrame):
        return [f"Row {position}" for position in range(len(result))]
    index = result.queries.index
    if isinstance(index, pd.MultiIndex):
        heads = ["" if name is None else f"{name} " for name in index.names]
        kind = "" if any(heads) else "Row "
        keys = [", ".join(f"{head}{part}" for head, part in zip(heads, key, strict=True)) for key in index]
        return [f"{kind}{key}" for key in keys]
    head = "" if index.name is None else str(index.name)
    return [_row_name(head, key) for key in index]


def _row_name(head: str, key: Any) -> str:
    return str(key) if not head and isinstance(key, str) and key else f"{head or 'Row'} {key}"


def row_name(result: Counterfactuals, query: int) -> str:
    """What people call one query."""
    return row_names(result[query])[0]


def spoken(cell: Any) -> str:
    """A cell or an answer in a sentence: thousands apart, six digits of numbers that are not whole."""
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float | np.integer | np.floating):
        return str(cell)
    if isinstance(cell, int | np.integer):
        return f"{int(cell):,}"
    number = float(cell)
    size = abs(number)
    if not math.isfinite(number) or size >= MOST_WHOLE or 0.0 < size < LEAST_PLAIN:
        return f"{number:.{DIGITS}g}"
    if number.is_integer():
        return f"{number:,.0f}"
    decimals = max(DIGITS - 1 - math.floor(math.log10(size)), 0)
    text = f"{number:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A probability in percent, with as many digits as keep it off 0, 50 and 100 where it is none of them."""
    for decimals in range(FINEST + 1):
        text = f"{100.0 * share:.{decimals}f}"
        if float(text) not in (0.0, 50.0, 100.0) or float(text) == 100.0 * share:
            break
    return f"{text}%"
