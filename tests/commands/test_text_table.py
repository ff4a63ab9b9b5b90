"""Tables for a terminal: no line is wider than it, and nothing of a cell is lost."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len as displayed

from relax_plugin.commands.output import terminal_width, text_table
from relax_plugin.formatting import printable

HEADS = ["task", "method", "validity", "L0", "L1", "model rows", "seconds"]
LONG = "relax-global:effort=search,max_queries=160,config.training=model"
LINES = [
    ["breast_cancer/rf", "greedy", "0.987 ± 0.012", "1.23 ± 0.04", "1.85 ± 0.10", "3,456", "12.3"],
    ["breast_cancer/rf", LONG, "1.000 ± 0.000", "12.34 ± 0.04", "11.85 ± 0.10", "12", "1,234.5"],
    ["slow/missing30/lock3-2000/rule:labels", "greedy", "-", "-", "-", "-", "-"],
]


def test_six_columns_fit_eighty_with_a_long_name_and_deviations() -> None:
    text = text_table(HEADS, LINES, 80, grouped=True)
    lines = text.splitlines()
    assert max(map(displayed, lines)) <= 80
    assert text.count("validity") == 1, "in one part"
    assert "breast_cancer/rf" in lines and "slow/missing30/lock3-2000/rule:labels" in lines
    width = next(line for line in lines if "validity" in line).index("validity") - 5
    names = "".join(line[:width].strip() for line in lines[lines.index("breast_cancer/rf") + 2 : -2])
    assert names == LONG, "wrapped, not cut"


def test_numbers_stand_right_and_texts_left() -> None:
    text = text_table(["name", "count", "what"], [["a", "1,000", "one thing"], ["b", "-", "another"]], 80)
    assert text.splitlines() == [
        "name  count  what",
        "----------------------",
        "a     1,000  one thing",
        "b         -  another",
    ]


def test_what_does_not_fit_side_by_side_comes_below_with_its_names() -> None:
    heads = ["task", *(f"column {number}" for number in range(12))]
    text = text_table(heads, [["sonar/mlp", *["1.000 ± 0.000"] * 12]], 60)
    parts = text.split("\n\n")
    assert len(parts) == 4 and all("sonar/mlp" in part for part in parts)
    assert text.count("1.000 ± 0.000") == 12
    assert max(map(displayed, text.splitlines())) <= 60


def test_a_long_reason_is_wrapped_in_its_own_column() -> None:
    reason = "RuntimeError: " + "something went wrong and is told at length; " * 4
    lines = text_table(["task", "state", "reason"], [["a/b", "crashed", reason]], 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(line[14:].strip() for line in lines[2:]) == reason.strip()


def test_what_steers_a_terminal_is_written_out() -> None:
    assert printable("a\x1b[31mb\nc\td") == "a\\x1b[31mb c d"
    assert "\x1b" not in text_table(["x"], [["\x1b[2J"]], 80)


def test_letters_of_east_asia_take_two_columns() -> None:
    text = text_table(["name", "n"], [["方法" * 20, "1"], ["e\u0301" * 9, "2"]], 50)
    assert max(map(displayed, text.splitlines())) <= 50


def test_the_width_is_that_of_columns_and_eighty_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for told, width in (("120", 120), ("7", 40), ("", 80)):
        monkeypatch.setenv("COLUMNS", told)
        assert terminal_width() == width


CELLS = st.text(st.sampled_from("ab1,.:/-=_ ±方é"), max_size=60)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=4),
    st.lists(st.text(st.sampled_from("abc d"), max_size=30), min_size=4, max_size=4),
    st.integers(40, 130),
    st.booleans(),
)
def test_every_table_fits_and_keeps_every_letter(
    lines: list[list[str]], heads: list[str], width: int, grouped: bool
) -> None:
    text = text_table(heads, lines, width, grouped=grouped)
    assert max(map(displayed, text.splitlines()), default=0) <= width
    for line in lines:
        for cell in line:
            letters = re.sub(r"[\s-]", "", cell)
            assert all(text.count(letter) >= letters.count(letter) for letter in letters)
