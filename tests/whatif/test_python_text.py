"""Questions as Python: texts that evaluate to what they were written from."""

import datetime
import math

import numpy as np
import pandas as pd
import pytest

from relax_plugin.goal import Goal
from relax_plugin.table.plain_cells import from_plain
from relax_plugin.whatif.python_text import call_text, literal, question_text


@pytest.mark.parametrize(
    "value",
    [
        1,
        -2.5,
        True,
        None,
        "plain",
        "both \" and '",
        "it's",
        "line\nbreak \\ <b>",
        [1, "a", (None, 2.0)],
        (3,),
        {"a": [1, 2], "b": {"c": "d" * 90}, 3: "long " * 30},
        math.inf,
        np.float64(0.1),
        np.int64(7),
        np.str_("text"),
        pd.Timestamp("2024-02-03"),
        datetime.date(2024, 2, 3),
    ],
)
def test_a_literal_is_what_it_was_written_from(value):
    assert eval(literal(value), {"from_plain": from_plain}) == value


def test_nan_is_written_too():
    assert math.isnan(eval(literal(math.nan)))


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (Goal.flip(), "Goal.flip()"),
        (Goal.flip(min_probability=0.8), "Goal.flip(min_probability=0.8)"),
        (Goal.to("yes", min_probability=0.9), 'Goal.to("yes", min_probability=0.9)'),
        (Goal.to(1, raise_by=0.1), "Goal.to(1, raise_by=0.1)"),
        (Goal.shift(3), "Goal.shift(3.0)"),
        (Goal.shift(3, direction="down"), 'Goal.shift(3.0, direction="down")'),
        (Goal.between(None, 5), "Goal.between(None, 5.0)"),
        (Goal.between(1, 5), "Goal.between(1.0, 5.0)"),
    ],
)
def test_a_goal_is_written_as_it_is_made(goal, text):
    assert literal(goal) == text and eval(text) == goal


def test_long_calls_have_a_line_for_each_argument():
    short = call_text("f", ["row"], {"n": 3})
    long = call_text("f", ["row"], {"n": 3, "names": ["a name that is long"] * 5})
    assert short == "f(row, n=3)"
    assert long.splitlines()[1:3] == ["    row,", "    n=3,"]
    compile(long, "text", "exec")


def test_edited_cells_keep_the_dtypes_of_the_rows():
    rows = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None], "c": pd.Categorical(["u", "v"]), "odd name": [True, False]})
    edited = rows.iloc[[0]].assign(a=3.0, b=None, c=pd.Categorical(["v"], categories=["u", "v"]), **{"odd name": False})
    edited = edited.astype(rows.dtypes)
    text = question_text(0, rows.iloc[[0]], edited, list(rows.columns), {"n": 1})

    class Explainer:
        def explain(self, row: pd.DataFrame, n: int) -> pd.DataFrame:
            return row

    namespace = {"rows": rows, "explainer": Explainer()}
    exec(text, namespace)
    pd.testing.assert_frame_equal(namespace["found"], edited)


def test_a_computed_column_of_another_dtype_is_written_with_it():
    rows = pd.DataFrame({"total": [1, 2]})
    edited = pd.DataFrame({"total": [2.5]})
    text = question_text(0, rows.iloc[[0]], edited, ["total"], {})
    assert 'astype({**rows.dtypes, "total": "float64"})' in text
