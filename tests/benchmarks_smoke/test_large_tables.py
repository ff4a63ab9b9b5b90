"""What benchmarks/tables/large_tables.py reads off the notes of a run in parts, and what it stores."""

import json
import os

import pandas as pd
import pytest

from benchmarks.tables import large_tables


@pytest.fixture
def script(monkeypatch, tmp_path):
    monkeypatch.setattr(large_tables, "STORED", tmp_path / "stored.csv")
    return large_tables


def write_note(folder, part, ends, **note):
    path = folder / "_notes" / f"part-{part:05d}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"rows": 100, "solved": 90, "cpu_seconds": 2.0, "peak_mebibytes": 500.0, **note}))
    os.utime(path, (ends, ends))


def test_a_run_lasts_from_the_begin_of_its_first_part_and_says_how_many_were_at_work(script, tmp_path):
    write_note(tmp_path, 0, ends=1010.0, seconds=10.0)
    write_note(tmp_path, 1, ends=1012.0, seconds=10.0, peak_mebibytes=600.0)  # by another process, side by side
    write_note(tmp_path, 2, ends=1020.0, seconds=8.0, solved=60)
    told = script.told_by_notes(tmp_path)
    assert told == {
        "rows": 300,
        "parts": 3,
        "solved": 0.8,
        "seconds": 20.0,
        "rows a second": 15.0,
        "rows a CPU second": 50.0,
        "at work": 1.4,
        "MiB of a worker": 600.0,
    }


def test_a_line_takes_the_place_of_one_of_its_kind_only(script):
    kind = {"effort": "policy", "rows": 100, "backend": "processes", "processes": 1}
    for line in ({"load": 1.0}, {"load": 2.0}, {"load": 3.0, "backend": "dask"}, {"load": 4.0, "rows": 200}):
        script.store({**kind, **line})
    assert sorted(pd.read_csv(script.STORED)["load"]) == [2.0, 3.0, 4.0]
