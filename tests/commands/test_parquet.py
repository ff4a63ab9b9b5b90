"""Parquet files in and out of `relax-plugin explain`."""

import pandas as pd
import pytest
from reference.people_files import write_people

from relax_plugin.cli import main
from relax_plugin.commands import request

ARGUMENTS = ["--model", "people.joblib", "--method", "greedy", "--target", "granted", "--id", "person"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_rows_from_parquet_are_explained_as_those_from_csv_are(folder, capsys):
    pytest.importorskip("pyarrow")
    rows = pd.read_csv("people.csv", na_values=["?"])
    rows.to_parquet("people.parquet")
    rows.head(20).to_parquet("queries.parquet")
    rows.head(20).to_csv("queries.csv", index=False)
    told = []
    for ending in ("csv", "parquet"):
        files = [f"people.{ending}", "--queries", f"queries.{ending}", "--output", f"out.{ending}"]
        assert main(["explain", *files, *ARGUMENTS, "--carry", "remark", "--missing", "?"]) in (0, 1)
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    written = pd.read_parquet("out.parquet")
    pd.testing.assert_frame_equal(written, pd.read_csv("out.csv"), check_dtype=False)
    assert written["debt"].isna().any() and written["age"].dtype == "int64"


@pytest.mark.slow
def test_a_file_that_is_no_parquet_is_refused(folder, capsys):
    pytest.importorskip("pyarrow")
    (folder / "people.parquet").write_text("age,education\n")
    assert main(["explain", "people.parquet", *ARGUMENTS]) == 2
    assert "people.parquet cannot be read as Parquet" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("files", [["people.parquet"], ["people.csv", "--output", "out.parquet"]])
def test_where_pyarrow_is_absent_the_extra_is_named(folder, capsys, monkeypatch, files):
    (folder / "people.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(request, "find_spec", lambda name: None)
    assert main(["explain", *files, *ARGUMENTS]) == 2
    err = capsys.readouterr().err
    assert "pip install 'relax-plugin[parquet]'" in err and "loading it runs" not in err
