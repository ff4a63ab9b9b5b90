"""Facts about rules bound to columns: whether rows keep them, and what does not fit."""

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_plugin.arrays import Floats
from relax_plugin.errors import ConstraintError
from relax_plugin.rules.expression import Column
from relax_plugin.rules.rule import BoundFunction, BoundRule, Formula, Kind, Rule

few = settings(deadline=None, max_examples=100)

nan = np.nan
SIZES = ("S", "M", "L")
KINDS = {
    **{name: Kind() for name in ("a", "b", "c", "marital-x")},
    "marital-status": Kind(("Married", "Single", "Widowed")),
    "partner": Kind(("Single", "Engaged", "Married")),
    "size": Kind(SIZES, ordered=True),
    "wish": Kind(SIZES, ordered=True),
    "other_size": Kind(("M", "L"), ordered=True),
    "grade": Kind((1, 2, 5), ordered=True),
    "flag": Kind((False, True)),
    7: Kind(),
}


def holds(text: str, before: dict[Any, list[float]] | None = None, **after: list[float]) -> list[bool]:
    rule = Rule(text).bind(KINDS)
    assert isinstance(rule, BoundRule)
    cells = [{name: np.array(column, dtype=float) for name, column in side.items()} for side in (after, before or {})]
    return list(rule.holds(cells[0], cells[1]).tolist())


def refusal(text: str) -> str:
    with pytest.raises(ConstraintError) as error:
        Rule(text).bind(KINDS)
    return str(error.value)


def test_rows_are_judged_one_by_one() -> None:
    assert holds("a >= b + 16", a=[20, 20, 20], b=[3, 4, 5]) == [True, True, False]
    assert holds("0 <= a <= b", a=[-1, 0, 5, 6], b=[5, 5, 5, 5]) == [False, True, True, False]
    assert holds("not 0 <= a <= b", a=[-1, 0, 5, 6], b=[5, 5, 5, 5]) == [True, False, False, True]
    assert holds("a in [1, 2.5]", a=[1, 2, 2.5]) == [True, False, True]
    assert holds("a not in [1, 2.5]", a=[1, 2, 2.5]) == [False, True, False]


def test_was_is_the_value_of_the_query() -> None:
    text = "size <= was(size) or a >= was(a) + 2"
    before = {"size": [0, 0, 0, 2], "a": [30, 30, 30, 30]}
    assert holds(text, before, size=[0, 1, 1, 1], a=[30, 31, 32, 30]) == [True, False, True, True]
    assert Rule(text).bind(KINDS).names == ("size", "a")


def test_a_rule_with_a_missing_cell_counts_as_kept() -> None:
    assert holds("a <= 1 and b <= 1", a=[nan, 2, 2], b=[2, nan, 2]) == [True, True, False]
    assert holds("size == 'S'", size=[nan, 1]) == [True, False]
    assert holds("a <= was(a)", {"a": [nan, 1]}, a=[2, 2]) == [True, False]


def test_decimals_that_add_up_on_paper_are_equal() -> None:
    assert 0.1 + 0.2 != 0.3
    assert holds("a + b == c", a=[0.1, 0.1], b=[0.2, 0.2], c=[0.3, 0.3000001]) == [True, False]
    assert holds("a + b <= c", a=[0.1], b=[0.2], c=[0.3]) == [True]
    assert holds("a + b > c", a=[0.1], b=[0.2], c=[0.3]) == [False]
    assert holds("a + b != c", a=[0.1], b=[0.2], c=[0.3]) == [False]
    assert holds("a + b - c == 0", a=[1e9 + 0.1], b=[-1e9], c=[0.1]) == [True]  # of the largest term, not of the result
    assert holds("a * b == c", a=[1e8], b=[0.1 + 0.2], c=[3e7]) == [True]


def test_whole_numbers_are_compared_exactly() -> None:
    assert holds("a < b", a=[1_700_000_000.0], b=[1_700_000_001.0]) == [True]
    assert holds("a == b + 1", a=[2.0**40], b=[2.0**40]) == [False]
    assert holds("a * 3 == b", a=[10.0**10], b=[3 * 10.0**10 + 1]) == [False]


def test_a_kind_may_say_that_its_numbers_are_rounded_more() -> None:
    cells = {"a": np.array([np.float32(0.1)], dtype=float), "b": np.array([np.float32(0.7)], dtype=float)}
    for rounding, expected in ((1e-9, False), (1e-6, True)):
        rule = Rule("a + b == 0.8").bind({"a": Kind(rounding=rounding), "b": Kind(rounding=rounding)})
        assert isinstance(rule, BoundRule) and rule.holds(cells, {}).tolist() == [expected]


@pytest.mark.slow
@given(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
@few
def test_exactly_one_of_less_equal_greater_holds_and_not_is_the_opposite(sign: str, a: float, b: float) -> None:
    assert sum(holds(f"a {one} b", a=[a], b=[b])[0] for one in ("<", "==", ">")) == 1
    assert holds(f"not a {sign} b", a=[a], b=[b]) != holds(f"a {sign} b", a=[a], b=[b])


def test_what_cannot_be_computed_neither_holds_nor_does_its_opposite() -> None:
    assert holds("a / b <= 1", a=[1], b=[0]) == holds("a / b > 1", a=[1], b=[0]) == [False]
    assert holds("not a / b > 1", a=[1], b=[0]) == [False]
    assert holds("a / b != 1", a=[1], b=[0]) == [False]
    assert holds("a * a * a > 1", a=[1e200]) == [False]


def test_categories_are_compared_by_their_labels() -> None:
    assert holds("`marital-status` == 'Married'", **{"marital-status": [0, 1, 2, 3]}) == [True, False, False, False]
    assert holds("'Married' != `marital-status`", **{"marital-status": [0, 1, 3]}) == [False, True, True]
    assert holds("`marital-status` in ['Single', 'Widowed']", **{"marital-status": [0, 1, 2]}) == [False, True, True]
    assert holds("`marital-status` not in ['Single']", **{"marital-status": [0, 1, 5]}) == [True, False, True]
    both: dict[str, list[float]] = {"marital-status": [0, 0, 1, 2, 3, 1], "partner": [2, 0, 0, 1, 3, 3]}
    assert holds("`marital-status` == partner", **both) == [True, False, True, False, False, False]
    assert holds("partner != `marital-status`", **both) == [False, True, False, True, True, True]


def test_ordered_categories_have_an_order() -> None:
    assert holds("size <= 'M'", size=[0, 1, 2]) == [True, True, False]
    assert holds("'S' < size <= 'L'", size=[0, 1, 2]) == [False, True, True]
    assert holds("size >= wish", size=[0, 1, 2], wish=[1, 1, 1]) == [False, True, True]
    assert holds("grade >= 2", grade=[0, 1, 2]) == [False, True, True]


def test_a_text_that_is_no_category_has_no_place_in_the_order() -> None:
    assert holds("size <= 'M'", size=[3]) == holds("size > 'M'", size=[3]) == [False]
    assert holds("size >= was(size)", {"size": [3, 4, 3]}, size=[3, 3, 0]) == [True, False, False]
    assert holds("size == was(size)", {"size": [3, 4]}, size=[3, 3]) == [True, False]
    assert holds("size == wish", size=[3], wish=[3]) == [False]


def test_place_is_the_place_of_a_category_in_its_order() -> None:
    assert holds("place(size) >= 2", size=[0, 1, 2]) == [False, True, True]
    assert holds("place(size) == a", size=[0, 1, 2], a=[1, 2, 4]) == [True, True, False]
    assert holds("place(size) - place(was(size)) <= 1", {"size": [0, 0, 1]}, size=[1, 2, 2]) == [True, False, True]
    assert holds("place(size) > 0", size=[0, nan]) == [True, True]
    assert holds("place(size) > 0 or place(size) <= 0", size=[3]) == [False], "a text that is no category has none"
    formula = Formula("10 * place(size)").bind(KINDS)
    assert formula.names == ("size",)
    assert np.array_equal(formula.value({"size": np.array([0.0, 2.0, 3.0, nan])}), [10, 30, nan, nan], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("place(a) > 1", "place() is of a column of ordered categories, and this is none"),
        ("place(size + 1) > 1", "place() is of a column of ordered categories, and this is none"),
        ("place(partner) > 1", "place() needs an order, but the categories ['Single', 'Engaged', 'Married']"),
        ("place(sise) > 1", "'sise' is no column; did you mean 'size'?"),
        ("place(size, a) > 1", "place() takes 1 argument, not 2"),
    ],
)
def test_place_of_what_has_no_order_is_refused(text: str, said: str) -> None:
    assert said in refusal(text)


def test_implies_and_iff_are_what_logic_says() -> None:
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    assert holds("implies(a == 1, b == 1)", a=a, b=b) == [True, True, False, True]
    assert holds("iff(a == 1, b == 1)", a=a, b=b) == [True, False, False, True]
    assert holds("not implies(a == 1, b == 1)", a=a, b=b) == [False, False, True, False]
    mixed = "iff(size == 'M', a == 1) and implies(a == 0, b >= was(b))"
    assert holds(mixed, {"b": [0, 1, 1]}, size=[0, 1, 0], a=[0, 1, 0], b=[1, 0, 0]) == [True, True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("implies(a, b > 1)", "this is a value, but implies() takes conditions"),
        ("iff(a > 1)", "iff() takes 2 arguments, not 1"),
        ("implies(a > 1, b > 1) + 1 > 2", "this is true or false, but arithmetic needs a value"),
        ("iff(a > 1, iff(b > 1, a > 2))", "iff() stands within iff()"),
    ],
)
def test_implies_and_iff_take_two_conditions(text: str, said: str) -> None:
    assert said in refusal(text)


def test_categories_that_are_numbers_or_bools_are_compared_with_numbers() -> None:
    assert holds("grade == 5", grade=[0, 1, 2]) == [False, False, True]
    assert holds("grade in [1, 2.0]", grade=[0, 1, 2]) == [True, True, False]
    assert holds("flag == True", flag=[0, 1]) == holds("flag == 1", flag=[0, 1]) == [False, True]
    assert "'grade' has no category 3; known are 1, 2, 5." in refusal("grade == 3")
    assert "did you mean 2, which is int, not str?" in refusal("grade == '2'")


@pytest.mark.parametrize(
    ("text", "said", "caret"),
    [
        ("a > bb", "'bb' is no column; ", 4),
        ("marital_status == 'x'", "did you mean 'marital-status'?", 0),
        ("a > 1 and marital-status == 'Married'", "'marital' is no column; in backticks, `marital-status` is one.", 10),
        ("`marital-status` == 'Maried'", "has no category 'Maried'; did you mean 'Married'?", 20),
        ("`marital-status` in ['Single', 'Divorced']", "has no category 'Divorced'; known are", 31),
        ("`marital-status` < 'Single'", "< needs an order", 17),
        ("not size < partner", "< needs an order", 9),
        ("size < partner", "categories ['Single', 'Engaged', 'Married'] of 'partner' have none", 5),
        ("size < other_size", "needs one order of categories", 5),
        ("size + 1 > 2", "'size' holds categories, with which one cannot calculate", 0),
        ("abs(flag) > 2", "'flag' holds categories", 4),
        ("size == a", "'size' holds categories, which cannot be compared with a number that is calculated", 5),
        ("grade == 1 + 1", "cannot be compared with a number that is calculated", 6),
        ("a == 'M'", "'a' holds numbers", 5),
        ("a + 1 in ['M']", "can be compared only with categories", 10),
        ("'x' == 'y' or a > 1", "can be compared only with categories", 0),
    ],
)
def test_what_does_not_fit_the_columns_is_refused_where_it_stands(text: str, said: str, caret: int) -> None:
    sentence, shown, under = refusal(text).split("\n")
    assert said in sentence and shown == "    " + text and under == " " * (4 + caret) + "^"


def test_names_that_are_no_texts_go_by_their_text() -> None:
    rule = Rule("`7` > 1").bind(KINDS)
    assert rule.names == (7,)
    with pytest.raises(ConstraintError, match="'7' is the name of 2 columns"):
        Rule("`7` > 1").bind({7: Kind(), Named(): Kind()})
    assert Rule("`7` > 1").bind({"7": Kind(), 7: Kind()}).names == ("7",)


class Named:
    def __str__(self) -> str:
        return "7"


def test_a_formula_is_a_number_a_row() -> None:
    def value(text: str, **cells: list[float]) -> list[float]:
        bound = Formula(text).bind(KINDS)
        result: Floats = bound.value({name: np.array(column, dtype=float) for name, column in cells.items()})
        return list(result.tolist())

    assert value("a + 12 * b - c / 4", a=[1, 2], b=[1, 1], c=[4, 8]) == [12, 12]
    assert value("max(a, -b)", a=[1, -5], b=[3, 3]) == [1, -3]
    with np.errstate(all="raise"):
        np.testing.assert_equal(value("a / b", a=[1, 0, 1, nan], b=[0, 0, 2, 1]), [nan, nan, 0.5, nan])
        np.testing.assert_equal(value("a * a", a=[1e300]), [nan])
        np.testing.assert_equal(value("min(a, b)", a=[nan, 1], b=[1, 2]), [nan, 1])
    assert Formula("a + b + a").bind(KINDS).names == ("a", "b")
    for text in ("size", "a + size", "-flag"):
        with pytest.raises(ConstraintError, match="holds categories"):
            Formula(text).bind(KINDS)
    with pytest.raises(ConstraintError, match="'d' is no column"):
        Formula("a + d").bind(KINDS)
    assert Formula("a + b") == Formula("a + b") != Formula("b + a") and len({Formula("a"), Formula("a")}) == 1


def test_bound_rules_name_their_columns_and_survive_pickles_and_copies() -> None:
    rule = Rule("a + abs(b) < max(c, 1) and was(a) in [1] and `marital-status` == partner").bind(KINDS)
    assert isinstance(rule, BoundRule) and rule.names == ("a", "b", "c", "marital-status", "partner")
    assert len(list(rule.condition.comparisons())) == 3 and Column("a", True) in rule.columns
    for again in (pickle.loads(pickle.dumps(rule)), copy.deepcopy(rule)):
        assert again == rule
    assert pickle.loads(pickle.dumps(Rule("a > 1"))) == Rule("a > 1")


def test_a_rule_reads_as_its_text_or_name() -> None:
    def older(after: pd.DataFrame, before: pd.DataFrame) -> Any:
        return after["a"] >= before["a"]

    text, function = Rule("a >= 18"), Rule(older, columns=["a"])
    assert (str(text), text.text, repr(text)) == ("a >= 18", "a >= 18", "Rule('a >= 18')")
    assert (str(function), function.text, repr(function)) == ("older", None, "Rule(older, ['a'])")
    assert str(Rule(older, columns=["a"], name="no one gets younger")) == "no one gets younger"
    assert str(Rule("a >= 18", name="adults")) == "adults" and Rule("a >= 18", name="adults").text == "a >= 18"
    assert Rule.of("a >= 18") == text and Rule.of(function) is function and len({text, Rule("a >= 18")}) == 1


def test_what_is_neither_text_nor_function_with_columns_is_no_rule() -> None:
    for wrong, said in ((3, "a rule is a text such as"), (None, "a rule is a text such as"), (len, "a bare function")):
        with pytest.raises(ConstraintError, match=said):
            Rule.of(wrong)  # type: ignore[arg-type]
    for columns in (None, "a", 3):
        with pytest.raises(ConstraintError, match="needs a list of the names"):
            Rule(len, columns=columns)  # type: ignore[arg-type]
    with pytest.raises(ConstraintError, match="name at least one"):
        Rule(len, columns=[])  # type: ignore[arg-type]
    with pytest.raises(ConstraintError, match="names its columns itself"):
        Rule("a > 1", columns=["a"])
    with pytest.raises(ConstraintError, match="'age' among its columns, which is none; known are"):
        Rule(len, columns=["age"]).bind({"x": Kind()})  # type: ignore[arg-type]


AFTER = pd.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"], "unasked": [0, 0, 0]}, index=[5, 3, 4])


def answer(function: Any) -> list[bool]:
    rule = Rule(function, columns=["s", "a"], name="mine").bind({"a": Kind(), "s": Kind(("x", "y", "z"))})
    assert isinstance(rule, BoundFunction)
    return list(rule.holds(AFTER, AFTER.assign(a=[2, 2, 2])).tolist())


def test_a_function_judges_frames_of_its_columns_in_the_users_dtypes() -> None:
    seen = []

    def rule(after: pd.DataFrame, before: pd.DataFrame) -> Any:
        seen.append((after.copy(), before.copy()))
        result = (after["a"] >= before["a"]) & (after["s"] != "z")
        after["a"] = 0  # its own copy
        return result

    assert answer(rule) == [False, True, False]
    assert list(seen[0][0].columns) == ["s", "a"] and seen[0][0]["a"].dtype == AFTER["a"].dtype
    assert AFTER["a"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "result",
    [
        np.array([True, False, True]),
        [True, False, True],
        np.array([1, 0, 1]),
        np.array([1.0, 0.0, 1.0]),
        np.array([True, False, True], dtype=object),
        pd.array([True, False, True], dtype="boolean"),
        pd.Series([True, False, True], index=AFTER.index),
    ],
)
def test_a_function_may_answer_any_array_of_truths(result: Any) -> None:
    assert answer(lambda after, before: result) == [True, False, True]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (True, r"bool of shape \(\) for 3 rows"),
        (None, r"NoneType of shape \(\)"),
        ([True, False], r"list of shape \(2,\)"),
        (np.ones((3, 1), dtype=bool), r"shape \(3, 1\)"),
        ([[True], [True, False], []], "in row 0"),
        (AFTER[["a"]] > 1, r"DataFrame of shape \(3, 1\)"),
        ([0, 1, 2], "answered .*2.* in row 2"),
        ([1.0, np.nan, 0.0], "nan.* in row 1"),
        (["yes", "no", "yes"], "'yes'.* in row 0"),
        (pd.array([True, None, False], dtype="boolean"), "<NA> in row 1"),
        ([True, None, False], "None in row 1"),
        (pd.Series([True, False, True], index=[3, 4, 5]), "in another order"),
    ],
)
def test_a_function_that_answers_something_else_is_refused(result: Any, said: str) -> None:
    with pytest.raises(ConstraintError, match=said):
        answer(lambda after, before: result)


def test_an_exception_of_a_function_is_quoted() -> None:
    with pytest.raises(ConstraintError, match=r"rule 'mine' raised KeyError for 3 rows of .*'age'") as error:
        answer(lambda after, before: after["age"] > 1)
    assert isinstance(error.value.__cause__, KeyError)
