"""Formatting: cells, numbers, intervals and names as people read them, and texts that would not steer a terminal.

Every error imports this module, which is why it imports neither NumPy nor pandas at once.
"""

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relax_plugin.results import Counterfactuals

DIGITS = 6  # significant ones of a number that is no whole one
MOST_WHOLE = 1e15  # whole numbers from here on are no longer told one from the next as floats
LEAST_PLAIN = 1e-4  # smaller numbers are written with a power of ten
FINEST = 4  # decimals of a percents
GIVEN_AWAY = 0.01  # share of an interval that rounding may leave out at each of its ends
LONG = 6  # digits from which on a number is too long to be kept only because it admits the answer itself
PLAIN = Decimal("1e-6"), Decimal("1e16")  # ends of intervals between these are written without a power of ten
BY_BOUNDS = "by bounds of the network"  # how something was proved, at the end of the sentence that says what
BY_SOLVER = "by a solver's word"

# NumPy's scalars in a sentence, in a list or a tuple too; not in the middle of a text of the user's.
SCALAR = re.compile(r"""(?<![\w'"])np\.(?:bool_?|u?int\d+|float\d+|longdouble|str_)\(('[^']*'|"[^"]*"|[^()'"]*)\)""")

# Columns of tables: every number of one has the same decimals.
percents = "{:.1%}".format
hundredths = "{:.2f}".format
tenths = "{:,.1f}".format
count = "{:,.0f}".format
exact = "{:.3g}".format  # nothing but 0 reads as 0


def three_digits(number: float) -> str:
    """Three digits, as times of a millisecond and of an hour stand in one column."""
    return count(number) if number >= 99.95 else f"{number:#.3g}"


def plain_scalars(sentence: str) -> str:
    """The sentence with `0` where it has `np.int64(0)`."""
    return SCALAR.sub(r"\1", sentence)


def printable(text: str) -> str:
    """A text in one line, without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def printable_lines(text: str) -> str:
    """The same of a text whose line ends are meant."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(letter: str) -> str:
    return " " if letter.isspace() else letter.encode("unicode_escape").decode("ascii")


def percent(share: float) -> str:
    """A probability in percent, with as many digits as keep it off 0, 50 and 100 where it is none of them."""
    for decimals in range(FINEST + 1):
        text = f"{100.0 * share:.{decimals}f}"
        if float(text) not in (0.0, 50.0, 100.0) or float(text) == 100.0 * share:
            break
    return f"{text}%"


def format_cell(cell: Any) -> str:
    """A cell or an answer in a sentence: thousands apart, six digits of numbers that are not whole."""
    if isinstance(cell, bool) or not isinstance(cell, Real):
        return str(cell)
    if isinstance(cell, Integral):
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


def six_digits(value: Any) -> str:
    """A cell or an answer where there is little room: numbers in at most six digits."""
    whole = isinstance(value, Integral) or not isinstance(value, Real)
    return str(value) if whole else f"{value:.{DIGITS}g}"


def feature_label(labels: Mapping[Any, Any], name: Hashable) -> str:
    """What people call a feature."""
    own, _ = labels.get(name, (None, {}))
    return str(name) if own is None else own


def cell_label(labels: Mapping[Any, Any], name: Hashable, cell: Any) -> Any:
    """What people call a cell of a feature: words for its category, "missing", or the cell itself."""
    import pandas as pd

    _, categories = labels.get(name, (None, {}))
    if categories and isinstance(cell, Hashable) and cell in categories:
        return categories[cell]
    return "missing" if pd.api.types.is_scalar(cell) and pd.isna(cell) else cell


def format_labelled(labels: Mapping[Any, Any], name: Hashable, cell: Any) -> str:
    """A cell of a feature in a sentence, by its label if it has one."""
    return format_cell(cell_label(labels, name, cell))


def row_names(result: "Counterfactuals") -> list[str]:
    """What people call the queries, by the index of their table: "Row 7", "customer 17" if it has a name, "Smith"."""
    index: Any = getattr(result.queries, "index", None)
    if index is None:
        return [f"Row {position}" for position in range(len(result))]
    if index.nlevels > 1:
        heads = ["" if name is None else f"{name} " for name in index.names]
        kind = "" if any(heads) else "Row "
        keys = [", ".join(f"{head}{part}" for head, part in zip(heads, key, strict=True)) for key in index]
        return [f"{kind}{key}" for key in keys]
    head = "" if index.name is None else str(index.name)
    return [_row_name(head, key) for key in index]


def _row_name(head: str, key: Any) -> str:
    return str(key) if not head and isinstance(key, str) and key else f"{head or 'Row'} {key}"


def row_name(result: "Counterfactuals", query: int) -> str:
    """What people call one query."""
    return row_names(result[query])[0]


def format_interval(low: float, high: float, value: float, rises: bool | None, ends: tuple[bool, bool]) -> str | None:
    """ "at least 6,580", "at most 12" or "between 3 and 7"; None of an interval of a single number.

    Both ends are included. `rises` is whether the answer, `value`, is higher than the query; None where neither is.
    Nothing needs to be said of those of the two `ends` that are the end of what is allowed.
    """
    if not low < high:
        return None
    least, most = rounded_inwards(low, high, value, up=True), rounded_inwards(low, high, value, up=False)
    upwards, downwards = f"at least {format_decimal(least)}", f"at most {format_decimal(most)}"
    said = {(False, True): upwards, (True, False): downwards}.get(ends)
    if all(ends):
        said = downwards if rises is False else upwards
    if said is None:
        said = f"between {format_decimal(least)} and {format_decimal(most)}" if least < most else None
    return said


def format_choice(words: Iterable[Any]) -> str | None:
    """ "one of A, B"; None of a single one. Words of several words are quoted: one of "200 or more", "none"."""
    told = [str(word) for word in words]
    if any(" " in word or "," in word for word in told):
        told = [f'"{word}"' for word in told]
    return f"one of {', '.join(told)}" if len(told) > 1 else None


def rounded_inwards(low: float, high: float, value: float, *, up: bool) -> Decimal:
    """The number of the fewest digits near an end of an interval that lies in it: above its low end, or below its high.

    It admits the answer itself, unless that would take many digits. Among numbers of as few digits, the nearest to the
    end.
    """
    # As they are written: 0.1 is in an interval from the float64 that is called 0.1 on.
    end, other, answer = (Decimal(repr(float(number))) for number in ((low, high, value) if up else (high, low, value)))
    room = Decimal(str(GIVEN_AWAY)) * abs(other - end)
    for within in (min(room, abs(answer - end)), room):
        found = _shortest(end, within, up)
        if _digits(found) < LONG or within == room:
            break
    return found


def _shortest(end: Decimal, within: Decimal, up: bool) -> Decimal:
    """The number of the fewest significant digits from an end on, no further away than `within`."""
    if (up and end <= 0 <= end + within) or (not up and end - within <= 0 <= end):
        return Decimal(0)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    top = end.adjusted() + 1  # where the next power of ten is
    for exponent in range(top, end.adjusted() - 40, -1):
        unit = Decimal(1).scaleb(exponent)
        candidate = (end / unit).to_integral_value(rounding=rounding) * unit
        if abs(candidate - end) <= within:
            return candidate.normalize()
    return end


def _digits(number: Decimal) -> int:
    return len(number.normalize().as_tuple().digits)


def format_decimal(number: Decimal) -> str:
    """A number with separators of thousands: 6,580 or 0.25."""
    size = abs(number)
    plain = size == 0 or PLAIN[0] <= size < PLAIN[1]
    return f"{number.normalize():,f}" if plain else f"{number.normalize():e}"
