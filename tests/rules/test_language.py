"""Facts about the language of rules: what it reads, what it refuses, and where an error points."""

import ast
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relax_plugin.errors import ConstraintError
from relax_plugin.rules.language import MOST_CHARACTERS, MOST_NESTING, parse_formula, parse_rule, quoted_name
from relax_plugin.rules.rule import Formula, Kind, Rule

few = settings(deadline=None, max_examples=200)

NAMES = ("a", "b", "c")
KINDS = dict.fromkeys(NAMES, Kind())


def place(error: pytest.ExceptionInfo[ConstraintError], text: str) -> str:
    """What the caret of an error points at, to the end of the rule."""
    sentence, shown, caret = str(error.value).split("\n")
    assert shown == "    " + text and caret.strip() == "^" and sentence.startswith(("rule ", "formula "))
    return text[len(caret) - 5 :]


@pytest.mark.parametrize(
    ("text", "there", "said"),
    [
        ("a >= 3 and", "", "it ends where"),
        ("a = 3", "= 3", "write =="),
        ("a <> 3", "<> 3", "write !="),
        ("a => 3", "=> 3", "write >="),
        ("a =< 3", "=< 3", "write <="),
        ("a ≥ 3", "≥ 3", "write >="),
        ("a > 1 && b > 2", "&& b > 2", "write and"),
        ("a > 1 | b > 2", "| b > 2", "write or"),
        ("!a > 1", "!a > 1", "write not"),
        ("a.real > 1", ".real > 1", "backticks"),
        ("mean radius > 1", "radius > 1", "backticks"),
        ("a ** 2 > 1", "** 2 > 1", "a product"),
        ("a // 2 > 1", "// 2 > 1", "'//' stands where"),
        ("a % 2 > 1", "% 2 > 1", "'%' stands where"),
        ("a[0] > 1", "[0] > 1", "a list stands only after in"),
        ("a := 3", ":= 3", "':' stands where"),
        ("f'{a}' == b", "'{a}' == b", "stands where"),
        ("[a for a in b]", "[a for a in b]", "a list stands only after in"),
        ("lambda: a > 1", ": a > 1", "stands where"),
        ("a if b > 1 else c", "if b > 1 else c", "write implies(condition, consequence)"),
        ("a is 3", "is 3", "write =="),
        ("__import__('os') == 1", "__import__('os') == 1", "is no function"),
        ("a > exp(b)", "exp(b)", "it has abs, min, max, place, implies, iff and was"),
        ("a > 'x", "'x", "has no closing '"),
        ("a > 1.5e", "1.5e", "'1.5e' is no number"),
        ("a > 0x10", "0x10", "is no number"),
        ("a > 1e999", "1e999", "beyond what a number can be"),
        (r"a == 'x\n'", r"\n'", "a backslash stands only before"),
        ("a > `", "`", "stands where"),
        ("a in b", "b", "a list, such as"),
        ("a in [b]", "b]", "a number or a text"),
        ("a in []", "]", "a number or a text"),
        ("a in [1] == b", "== b", "join the two by and"),
        ("a < b in [1]", "in [1]", "join the two by and"),
        ("a not 3", "not 3", "write not in, or !="),
        ("(a, b) > 1", ", b) > 1", "',' stands where there should be )"),
        ("min(a, b,) > 1", ") > 1", "a name, a number or a text in quotes"),
        ("a > 1 if", "if", "write implies(condition, consequence)"),
        ("min(a) > 1", "min(a) > 1", "takes 2 arguments, not 1"),
        ("abs(a, b) > 1", "abs(a, b) > 1", "takes 1 argument, not 2"),
        ("was(a + b) > 1", "+ b) > 1", "the name of a column"),
        ("was(3) > 1", "3) > 1", "the name of a column"),
        ("was(was(a)) > 1", "was(a)) > 1", "the name of a column"),
        ("was(a, b) > 1", "a, b) > 1", "the name of a column"),
        ("(a > b) + 1 > 2", "> b) + 1 > 2", "arithmetic needs a value"),
        ("(a > b) == (b > c)", "> b) == (b > c)", "needs a value"),
        ("a and b > 1", "a and b > 1", "must be true or false"),
        ("not a", "a", "must be true or false"),
        ("'x' + a > 1", "'x' + a > 1", "cannot calculate"),
        ("1 < 2", "< 2", "names no column"),
        ("", "", "is empty"),
    ],
)
def test_what_is_outside_of_the_language_is_refused_where_it_stands(text: str, there: str, said: str) -> None:
    with pytest.raises(ConstraintError, match=re.escape(said)) as error:
        parse_rule(text)
    assert place(error, text) == there


@pytest.mark.parametrize("text", ["a + b", "a", "-a", "min(a, b)", "'x'", "3"])
def test_a_value_is_no_rule(text: str) -> None:
    with pytest.raises(ConstraintError, match="a rule must be true or false"):
        parse_rule(text)


@pytest.mark.parametrize("text", ["a > b", "a > 1 and b > 1", "not a > 1", "a in [1]"])
def test_a_truth_is_no_formula(text: str) -> None:
    with pytest.raises(ConstraintError, match="a formula must be a number"):
        parse_formula(text)


def test_a_formula_knows_no_query_and_needs_a_column() -> None:
    with pytest.raises(ConstraintError, match=r"was\(\) is for rules") as error:
        parse_formula("a + was(b)")
    assert place(error, "a + was(b)") == "was(b)"
    with pytest.raises(ConstraintError, match="names no column"):
        parse_formula("1 + 2")
    with pytest.raises(ConstraintError, match="this is a text"):
        parse_formula("'x'")
    with pytest.raises(ConstraintError, match="such as 'a \\+ b', not 3"):
        parse_formula(3)


def test_names_in_backticks_may_be_anything() -> None:
    cells = list(parse_rule("`marital-status` == 'Married' and `a``b` < was(`mean radius`) and `in` > `1`").cells())
    assert [cell.name for cell in cells] == ["marital-status", "a`b", "mean radius", "in", "1"]
    assert [cell.was for cell in cells] == [False, False, True, False, False]


def test_functions_are_names_where_nothing_is_called() -> None:
    assert [cell.name for cell in parse_rule("max >= min and was > abs").cells()] == ["max", "min", "was", "abs"]


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30))
@few
def test_a_quoted_name_reads_as_the_name(name: str) -> None:
    assert [cell.name for cell in parse_rule(f"{quoted_name(name)} > 1").cells()] == [name]


def test_numbers_and_texts_are_what_they_are_in_python() -> None:
    literals = ["1", "1_000", "1.5", ".5", "2.", "1e3", "1.5E-2", "-3", "True", "'x'", '"it\'s"', r"'it\'s'", r"'a\\b'"]
    for literal in literals:
        value = compared_with(f"a == {literal}")
        assert value == eval(literal) and type(value) is type(eval(literal))


def compared_with(text: str) -> Any:
    """The literal on the right of a comparison."""
    parsed = parse_rule(text)
    assert isinstance(parsed.tree, ast.Compare)
    return parsed.literal(parsed.tree.comparators[0])


def test_whole_numbers_are_read_exactly() -> None:
    assert compared_with(f"a == {2**63 + 1}") == 2**63 + 1


def test_a_rule_may_have_several_lines_and_the_caret_is_right_under_wide_letters() -> None:
    cells = {"a": np.array([0.0, 2.0]), "b": np.array([3.0, 3.0])}
    assert Rule("a > 1\n  and\n b > 2").bind(KINDS).holds(cells, {}).tolist() == [False, True]
    with pytest.raises(ConstraintError) as error:
        parse_rule("日本 > 1\nand = 2")
    assert str(error.value).split("\n")[1:] == ["    日本 > 1 and = 2", "    " + " " * 13 + "^"]


def test_an_error_in_a_long_rule_shows_its_surroundings() -> None:
    text = " and ".join(["a > 1"] * 50) + " and = " + " and ".join(["a > 1"] * 50)
    with pytest.raises(ConstraintError) as error:
        parse_rule(text)
    _, shown, caret = str(error.value).split("\n")
    assert len(shown) < 120 and shown[len(caret) - 1] == "="


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1900,
        "not " * 450 + "a > 1",
        "-" * 1900 + "a > 1",
        "abs(" * 450,
        "a > " + "-(" * 900,
        "a" * (MOST_CHARACTERS + 1),
        "a > " + "9" * 1900,
        "`" * 1999,
        "'\\" * 900,
    ],
)
def test_hostile_texts_end_in_a_sentence(text: str) -> None:
    with pytest.raises(ConstraintError):
        parse_rule(text)


def test_what_is_long_but_not_deep_is_read() -> None:
    cells = {"a": np.ones(2)}
    assert Formula("a" + " + a" * 490).bind({"a": Kind()}).value(cells).tolist() == [491, 491]
    assert Formula("a" + " * a" * 490).bind({"a": Kind()}).value(cells).tolist() == [1, 1]
    assert Rule("a > 0" + " and a > 0" * 190).bind({"a": Kind()}).holds(cells, {}).all()
    assert Rule("a" + " >= a" * 390).bind({"a": Kind()}).holds(cells, {}).all()
    deep = "(" * MOST_NESTING + "a" + ")" * MOST_NESTING
    assert Rule(f"{deep} > 0").bind({"a": Kind()}).holds(cells, {}).all()
    with pytest.raises(ConstraintError, match="nested more than"):
        parse_rule(f"({deep}) > 0")


def test_implications_within_each_other_are_read_as_quickly_as_any_text() -> None:
    deep = "implies(" * 30 + "a > 0" + ", a > 0)" * 30  # a billion steps, were each part read twice
    assert Rule(deep).bind(KINDS).holds({"a": np.array([1.0])}, {}).all()


PIECES = [
    *("a", "b", "`x y`", "was(", "(", ")", "[", "]", ",", "1", "2.5", "'s'", '"', "'", "`", "\\", "and", "or", "not"),
    *("in", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "abs(", "min(", "max(", ".", "=", "**", "é", "\0"),
    *("\n", "lambda", ":", "True", "{", "f'", "1e9", "0x", "\ud800"),
]


@pytest.mark.slow
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join)))
@example("a" * 5000)
@settings(deadline=None, max_examples=600)
def test_no_text_ends_in_anything_but_a_tree_or_a_constraint_error(text: str) -> None:
    kinds = {"a": Kind(), "b": Kind(), "x y": Kind(("s", "t"), True)}
    cells = {name: np.array([0.0, 1.0, np.nan]) for name in kinds}
    assert outcome(lambda: Rule(text).bind(kinds).holds(cells, cells)) in (POINTED_AT, (3,))
    assert outcome(lambda: Formula(text).bind(kinds).value(cells)) in (POINTED_AT, (3,))


POINTED_AT = "an error that points at a place"


def outcome(compute: Any) -> Any:
    try:
        return compute().shape
    except ConstraintError as error:
        return POINTED_AT if str(error).endswith("^") else error


def numbers_with(signs: str) -> st.SearchStrategy[str]:
    """Texts of numbers, calculated by these signs."""
    return st.recursive(
        st.one_of(st.sampled_from(NAMES), st.integers(-5, 5).map(lambda n: f"({n})"), st.sampled_from([".5", "2.25"])),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(signs), inner).map(" ".join),
            st.tuples(inner, st.sampled_from(signs), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda part: f"-{part}"),
            inner.map(lambda part: f"abs({part})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda f: f"{f[0]}({f[1]}, {f[2]})"),
        ),
        max_leaves=8,
    )


numbers = numbers_with("+-*")  # a quotient is rounded, and Python's == knows no rounding
signs = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
comparisons = st.one_of(
    st.tuples(numbers, signs, numbers).map(" ".join),
    st.tuples(numbers, signs, numbers, signs, numbers).map(" ".join),
    st.tuples(numbers, st.sampled_from(["in", "not in"]), st.just("[1, -2, 3.5]")).map(" ".join),
)
truths = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda part: f"not {part}"),
        inner.map(lambda part: f"not ({part})"),
    ),
    max_leaves=4,
)
quarters = st.lists(st.integers(-12, 12).map(lambda n: n / 4), min_size=3, max_size=3)


def in_python(text: str, row: list[float]) -> Any:
    """What Python makes of the text; None where it divides by zero somewhere."""
    try:
        return eval(text, {"__builtins__": {"abs": abs, "min": min, "max": max}}, dict(zip(NAMES, row, strict=True)))
    except ZeroDivisionError:
        return None


@pytest.mark.slow
@given(numbers_with("+-*/").filter(lambda text: any(name in re.findall(r"\w+", text) for name in NAMES)), quarters)
@few
def test_a_formula_is_what_python_makes_of_it(text: str, row: list[float]) -> None:
    cells = {name: np.array([cell]) for name, cell in zip(NAMES, row, strict=True)}
    value, expected = Formula(text).bind(KINDS).value(cells)[0], in_python(text, row)
    assert np.isnan(value) if expected is None else value == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.slow
@given(truths.filter(lambda text: any(name in re.findall(r"\w+", text) for name in NAMES)), quarters)
@few
def test_a_rule_is_what_python_makes_of_it(text: str, row: list[float]) -> None:
    cells = {name: np.array([cell]) for name, cell in zip(NAMES, row, strict=True)}
    assert Rule(text).bind(KINDS).holds(cells, {})[0] == in_python(text, row)
