"""Facts about words for intervals: what they admit lies in the interval, and they take few digits."""

from decimal import Decimal

import numpy as np
import pytest

from relax_plugin.regions.wording import categories_in_words, interval_in_words, number_in_words, rounded_inwards

FREE = (False, False)


@pytest.mark.parametrize(
    ("low", "high", "value", "rises", "ends", "words"),
    [
        (6579.3, 9000.0, 6580.0, True, (False, True), "at least 6,580"),
        (0.0, 12.0, 3.0, False, (True, False), "at most 12"),
        (3.0, 7.0, 5.0, True, FREE, "between 3 and 7"),
        (3.0, 7.0, 5.0, True, (True, True), "at least 3"),
        (3.0, 7.0, 5.0, False, (True, True), "at most 7"),
        (0.0, 7.0, 5.0, True, (True, False), "at most 7"),  # the query is above, or below, another range
        (5.0, 5.0, 5.0, True, FREE, None),
        (-2.7262, 0.7233, 0.5, False, (True, False), "at most 0.7"),
        (-5000.0, -1234.0, -2000.0, False, (True, False), "at most -1,240"),
        (-0.01, 9.0, 1.0, True, (False, True), "at least 0"),
        (0.0313, 0.0316, 0.0314, True, FREE, "between 0.0313 and 0.0316"),
        (48.2, 67.1, 48.2, True, (False, True), "at least 48.2"),
        (1e18, 2e18, 1.5e18, True, (False, True), "at least 1e+18"),
    ],
)
def test_intervals_are_told_as_people_say_them(
    low: float, high: float, value: float, rises: bool, ends: tuple[bool, bool], words: str | None
) -> None:
    assert interval_in_words(low, high, value, rises, ends) == words


def test_a_long_number_is_rounded_inwards_even_past_the_answer_itself() -> None:
    """An answer just at the end of its interval has no short number between the two."""
    low = 6579.300000000001
    assert interval_in_words(low, 9000.0, low, True, (False, True)) == "at least 6,600"


def test_numbers_are_never_rounded_outwards_and_give_little_away() -> None:
    rng = np.random.default_rng(3)
    for _ in range(800):
        low = rng.normal() * 10.0 ** rng.integers(-6, 9)
        high = low + abs(rng.normal()) * 10.0 ** rng.integers(-6, 9)
        if not low < high:
            continue
        value = float(np.clip(low + rng.random() * (high - low), low, high))
        least, most = (rounded_inwards(low, high, value, up=up) for up in (True, False))
        assert low <= float(least) <= low + 0.0101 * (high - low)
        assert high - 0.0101 * (high - low) <= float(most) <= high
        for written, number in ((number_in_words(least), least), (number_in_words(most), most)):
            assert Decimal(written.replace(",", "")) == number


def test_of_numbers_that_admit_the_answer_the_shortest_is_said() -> None:
    rng = np.random.default_rng(4)
    for _ in range(80):
        low = float(np.round(rng.uniform(0, 1000), 3))
        high, value = low + 500.0, low + float(rng.uniform(0, 3))
        found = rounded_inwards(low, high, value, up=True)
        digits = len(found.normalize().as_tuple().digits)
        if digits >= 6:
            continue
        shorter = [round(k * 10.0**e, 6) for e in range(-3, 4) for k in range(10 ** (digits - 1))]
        assert not [number for number in shorter if low <= number <= value and number > 0]
        assert float(found) <= value


def test_categories_are_listed_and_a_single_one_says_nothing() -> None:
    assert categories_in_words(["A", "B"]) == "one of A, B"
    assert categories_in_words(["200 or more", "none"]) == 'one of "200 or more", "none"'
    assert categories_in_words(["A"]) is None
