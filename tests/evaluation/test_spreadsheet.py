"""Formulas in CSV files: a spreadsheet that opens what a command wrote runs nothing, and numbers stay numbers."""

import csv
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from benchmarks.stored import unguarded
from relax_plugin.cli import main
from relax_plugin.evaluation.store import guarded

HOSTILE = "=cmd|' /C calc'!A0"


@pytest.mark.parametrize("text", [HOSTILE, "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=", "'=1"])
def test_a_text_that_begins_a_formula_begins_with_an_apostrophe(text: str) -> None:
    table, count = guarded(pd.DataFrame({"a": [text, "fine", "a=b"], text: [1, 2, 3]}))
    assert table["a"].tolist() == [f"'{text}", "fine", "a=b"]
    assert list(table.columns) == ["a", f"'{text}"] and count == 2


def test_numbers_are_never_changed() -> None:
    mixed = pd.Series([-1, -2.5, True, None, "-3"], dtype=object)
    frame = pd.DataFrame({"whole": [-1] * 5, "real": [-0.5] * 5, "yes": [True] * 5, "mixed": mixed})
    table, count = guarded(frame)
    assert table["mixed"].tolist() == [-1, -2.5, True, None, "'-3"] and count == 1
    pd.testing.assert_frame_equal(table.drop(columns="mixed"), frame.drop(columns="mixed"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="'=+-@\t\r\n a1"), min_size=1, max_size=5))
@example(["'=", "''=", "'", "''", "="])
def test_every_text_comes_back(texts: list[str]) -> None:
    frame = pd.DataFrame({"a": pd.Series(texts, dtype=object)})
    assert unguarded(guarded(frame)[0])["a"].tolist() == texts


def test_explain_writes_no_formula_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"@town": rng.choice([HOSTILE, "Rome"], 80), "gain": rng.integers(-50, -1, 80)})
    labels = np.where(rows["@town"] == "Rome", "+granted", "-refused")
    rows.to_csv("train.csv", index=False)
    encoder = make_column_transformer((OneHotEncoder(), ["@town"]), remainder="passthrough")
    joblib.dump(make_pipeline(encoder, DecisionTreeClassifier()).fit(rows, labels), "model.joblib")
    arguments = ["explain", "train.csv", "--model", "model.joblib", "--method", "greedy", "--output", "out.csv"]
    assert main(arguments) == 0
    err = capsys.readouterr().err
    with open("out.csv", newline="") as file:
        header, *lines = csv.reader(file)
    assert "'@town" in header and {"'" + HOSTILE, "Rome"} >= {line[header.index("'@town")] for line in lines}
    assert {line[header.index("after")] for line in lines} <= {"'+granted", "'-refused"}
    assert all(int(line[header.index("gain")]) < 0 for line in lines), "a negative number is no formula"
    formulas = sum(cell.startswith("'") for line in (header, *lines) for cell in line)
    assert f"In out.csv, {formulas} texts that a spreadsheet would take for formulas begin with an apostrophe." in err


def test_the_help_of_output_tells_of_the_apostrophe(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    assert "apostrophe" in capsys.readouterr().out
