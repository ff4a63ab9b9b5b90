"""Wording: an interval as people say it, "at least 6,580"; rounded inwards, so that all it admits lies in it."""

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

GIVEN_AWAY = 0.01  # share of an interval that rounding may leave out at each of its ends
LONG = 6  # digits from which on a number is too long to be kept only because it admits the answer itself
PLAIN = 1e-6, 1e16  # numbers between these are written without a power of ten


def interval_in_words(low: float, high: float, value: float, rises: bool | None, ends: tuple[bool, bool]) -> str | None:
    """ "at least 6,580", "at most 12" or "between 3 and 7"; None of an interval of a single number.

    Parameters
    ----------
    low, high : float
        The interval, both ends included.
    value : float
        The answer in it.
    rises : bool, or None
        Whether the answer is higher than the query; None where neither is.
    ends : two bools
        Whether low, and high, is the end of what is allowed: then nothing needs to be said of it.
    """
    if not low < high:
        return None
    least, most = rounded_inwards(low, high, value, up=True), rounded_inwards(low, high, value, up=False)
    upwards, downwards = f"at least {number_in_words(least)}", f"at most {number_in_words(most)}"
    said = {(False, True): upwards, (True, False): downwards}.get(ends)
    if all(ends):
        said = downwards if rises is False else upwards
    if said is None:
        said = f"between {number_in_words(least)} and {number_in_words(most)}" if least < most else None
    return said


def categories_in_words(words: Iterable[Any]) -> str | None:
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


def number_in_words(number: Decimal) -> str:
    """A number with separators of thousands: 6,580 or 0.25."""
    size = abs(number)
    if size != 0 and not Decimal(PLAIN[0]) <= size < Decimal(PLAIN[1]):
        return f"{number.normalize():e}"
    return f"{number.normalize():,f}"
