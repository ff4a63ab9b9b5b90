"""Rows of a benchmark as one small file: what tables are made of comes back, and damage is noticed."""

import pandas as pd
import pytest
from reference.sample_rows import TIME_OUT_REASON, sample_rows

from benchmarks.stored import noted_run, read_kept_rows
from relax_plugin.errors import SavedFileError
from relax_plugin.evaluation import tables
from relax_plugin.evaluation.schema import COLUMNS
from relax_plugin.evaluation.store import FILE, LEFT_OUT, keep_rows

RUN = {"command": "relax-plugin bench", "machine": "2 cores", "started": "2026-01-01", "versions": {"numpy": "2"}}


def test_tables_of_kept_rows_are_those_of_the_rows(tmp_path) -> None:
    rows = sample_rows()
    keep_rows(rows, tmp_path / "kept", RUN)
    kept = read_kept_rows(tmp_path / "kept")
    assert list(kept) == list(COLUMNS) and len(kept) == len(rows)
    apart = ["worst class"]  # of which the classes are needed
    told = [tables.summary(frame).drop(columns=apart) for frame in (rows, kept)]
    pd.testing.assert_frame_equal(*told, rtol=1e-4, check_dtype=False)
    assert TIME_OUT_REASON in set(kept["reason"])
    assert (kept[list(LEFT_OUT)].nunique() == 1).all()
    assert noted_run(tmp_path / "kept").read() == [RUN]


def test_the_same_rows_are_the_same_bytes_and_other_runs_replace_the_note(tmp_path) -> None:
    path = keep_rows(sample_rows(), tmp_path, RUN)
    first = path.read_bytes()
    assert keep_rows(sample_rows(), tmp_path, RUN | {"command": "again"}).read_bytes() == first
    assert [entry["command"] for entry in noted_run(tmp_path).read()] == ["again"]


def test_damage_is_told(tmp_path) -> None:
    path = keep_rows(sample_rows(), tmp_path, RUN)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SavedFileError, match=FILE):
        read_kept_rows(tmp_path)
    keep_rows(sample_rows(), tmp_path, RUN)
    rows = pd.read_csv(path).drop(columns="sparsity")
    rows.to_csv(path, index=False)
    with pytest.raises(SavedFileError, match="no column 'sparsity'"):
        read_kept_rows(tmp_path)
