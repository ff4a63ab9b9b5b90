"""Suggested rules: orders between columns that every row keeps, and that chance would have broken.

That two columns stand in an order in every row says little if their ranges hardly overlap. So an order is suggested
only if it would often have been broken, had the cells of both columns been shuffled independently of each other.
"""

from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import InputError
from relax_plugin.rules.language import quoted_name
from relax_plugin.table.tables import as_frame

LOOKED_AT = 1000  # first rows, in which most orders of two columns that are none are broken


class SuggestedRule(str):
    """A rule as text, for a person to accept, with what speaks for it.

    Attributes
    ----------
    rows : rows of the data
    kept : rows in which both columns have a value; all of them keep the rule
    expected_breaks : how many of those would break it if the columns had nothing to do with each other
    """

    rows: int
    kept: int
    expected_breaks: float

    def __new__(cls, text: str, *, rows: int, kept: int, expected_breaks: float) -> "SuggestedRule":
        rule = super().__new__(cls, text)
        rule.rows, rule.kept, rule.expected_breaks = rows, kept, expected_breaks
        return rule

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:  # for copies and pickles
        return (str(self),), {"rows": self.rows, "kept": self.kept, "expected_breaks": self.expected_breaks}


def suggest_rules(X: Any, *, least_breaks: float = 30) -> list[SuggestedRule]:
    """Orders between numeric columns that the rows support, to read and to accept: nothing is enforced by itself.

    Parameters
    ----------
    X : rows (DataFrame of pandas, polars, ..., or array); columns that hold no numbers are passed over
    least_breaks : how many rows chance would have to break for an order to be suggested

    Returns
    -------
    list of SuggestedRule
        Texts such as `"mean_area <= worst_area"`, those first that chance would break most often; two columns that are
        always equal are suggested as `"a == b"`. What follows from two others is left out: `"a <= c"` where there are
        `"a <= b"` and `"b <= c"`.

    Examples
    --------
    >>> X = pd.DataFrame({"mean": np.arange(100.0), "worst": np.arange(100.0) + 1})
    >>> suggest_rules(X)
    ['mean <= worst']
    """
    if isinstance(least_breaks, bool) or not isinstance(least_breaks, int | float) or not least_breaks > 0:
        raise InputError(f"least_breaks is {least_breaks!r}, but must be a number above 0.")
    frame = as_frame(X)
    names, columns = _numbers(frame)
    if len(names) < 2 or not len(frame):
        return []
    present = ~np.isnan(columns)
    counts = present.astype(np.float64) @ present.T.astype(np.float64)  # rows in which both have a value
    orders = _orders(columns) & (counts >= least_breaks)
    expected = np.zeros(orders.shape)
    ranks = np.argsort(columns, axis=1)
    ordered, complete = np.take_along_axis(columns, ranks, axis=1), present.all()
    for one, other in np.argwhere(orders):
        low, high = ordered[one], ordered[other]
        if not complete:
            both = present[one] & present[other]
            low, high = low[both[ranks[one]]], high[both[ranks[other]]]
        expected[one, other] = _expected_breaks(low, high)
    orders &= expected >= least_breaks
    equal = _first_of_equals(orders)
    kept = [(one, other, "<=") for one, other in np.argwhere(_without_implied(orders, equal))]
    kept += [(equal[other], other, "==") for other in np.flatnonzero(equal != np.arange(len(names)))]
    found = []
    for one, other, sign in kept:
        # of two equal columns chance breaks either order, but not both in one row
        breaks = expected[one, other] + (expected[other, one] if sign == "==" else 0.0)
        text = f"{quoted_name(names[one])} {sign} {quoted_name(names[other])}"
        found.append(SuggestedRule(text, rows=len(frame), kept=int(counts[one, other]), expected_breaks=float(breaks)))
    return sorted(found, key=lambda rule: -rule.expected_breaks)


def _numbers(frame: pd.DataFrame) -> tuple[list[Any], Floats]:
    numeric = pd.api.types.is_numeric_dtype, pd.api.types.is_bool_dtype, pd.api.types.is_complex_dtype
    chosen = [j for j, dtype in enumerate(frame.dtypes) if [test(dtype) for test in numeric] == [True, False, False]]
    columns = [frame.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan) for j in chosen]
    return [frame.columns[j] for j in chosen], np.array(columns).reshape(len(chosen), len(frame))


def _orders(columns: Floats) -> Booleans:
    """Whether each column is at most each other one wherever both have a value."""
    orders = ~np.eye(len(columns), dtype=bool)
    for one, column in enumerate(columns):
        orders[one] &= ~(column[:LOOKED_AT] > columns[:, :LOOKED_AT]).any(axis=1)
        left = np.flatnonzero(orders[one])
        orders[one, left] = ~(column > columns[left]).any(axis=1)
    return orders


def _expected_breaks(low: Floats, high: Floats) -> float:
    """Rows with low > high to be expected, were these sorted columns shuffled: rows times the share of such pairs."""
    if not len(low) or low[-1] <= high[0]:
        return 0.0
    return float(np.searchsorted(high, low, side="left").sum() / len(high))


def _first_of_equals(orders: Booleans) -> Array:
    """For each column the first one that it equals, both being at most the other; most equal only themselves."""
    both = (orders & orders.T) | np.eye(len(orders), dtype=bool)
    return np.asarray(both.argmax(axis=1))


def _without_implied(orders: Booleans, equal: Array) -> Booleans:
    """The orders that do not follow from others; of columns that are equal only the first counts."""
    first = equal == np.arange(len(equal))
    orders = orders & first[:, None] & first[None, :]
    known = orders
    while True:
        steps = known.astype(np.float32)
        implied = np.asarray(steps @ steps > 0) & ~np.eye(len(steps), dtype=bool)
        if not (implied & ~known).any():
            # with missing cells there may be a circle of orders, in which each follows from the others: keep those
            return orders & ~(implied & ~known.T)
        known = known | implied
