"""Facts about `relax-plugin explain --output FOLDER/`: parts together are the table of one process."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from reference.large_files import ENDINGS, PART_ROWS, PARTS, ROWS, command, read_parts, wait_for_notes, write_files

from relax_plugin.cli import main
from relax_plugin.commands.explain_parts import PartWork

HERE = ["--part-rows", "40", "--jobs", "1"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    write_files(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_parts_are_the_table_of_one_process(files: Path, tmp_path: Path, ending: str) -> None:
    asked = [*command(files, f"large.{ending}"), "--id", "person", "--n", "2"]
    whole = main([*asked, "--output", str(tmp_path / f"one.{ending}")])
    code = main([*asked, "--output", f"{tmp_path / 'out'}/", *HERE])
    assert code == whole
    one = tmp_path / "one" / f"part-00000.{ending}"
    one.parent.mkdir()
    shutil.move(tmp_path / f"one.{ending}", one)
    parts = read_parts(tmp_path / "out", ending)
    pd.testing.assert_frame_equal(parts, read_parts(one.parent, ending), check_exact=True)
    assert len(list((tmp_path / "out").glob("part-*"))) == 3
    assert parts["query_id"].str.startswith("person").all()


@pytest.mark.slow
def test_a_saved_explainer_and_rows_of_the_training_file(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --queries all rows of TRAINING are explained; ReLAX is saved in the folder and read from there."""
    asked = [*command(files, None, method="relax-global"), "--output", f"{tmp_path / 'out'}/", "--part-rows", "100"]
    assert main([*asked, "--training-rows", "150", "--jobs", "1", "--format", "csv", "--json"]) in (0, 1)
    told = capsys.readouterr()
    assert "Of 200 rows of" in told.err and "150 are learned from" in told.err
    notes = json.loads(told.out)
    assert [note["rows"] for note in notes] == [100, 100]
    assert (tmp_path / "out" / "_explainer.safetensors").is_file()
    (tmp_path / "out" / "part-00001.csv").unlink()
    before = (tmp_path / "out" / "part-00000.csv").stat().st_mtime_ns
    assert main([*asked, "--training-rows", "150", "--jobs", "2", "--format", "csv"]) in (0, 1)
    told = capsys.readouterr()
    assert "holds 1 of 2 parts of this run, which goes on" in told.err and "Fitting" not in told.err
    assert (tmp_path / "out" / "part-00000.csv").stat().st_mtime_ns == before
    assert len(read_parts(tmp_path / "out", "csv")["query_id"].unique()) == sum(note["solved"] for note in notes)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_stopped(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = [*command(files), "--output", f"{out}/", "--part-rows", "4", "--jobs", "1"]
    run = subprocess.Popen([sys.executable, "-m", "relax_plugin.cli", *asked], start_new_session=True)
    try:
        wait_for_notes(out, 2)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    done = {path: path.stat().st_mtime_ns for path in out.glob("part-*") if _note_of(path).is_file()}
    assert 2 <= len(done) < ROWS // 4
    assert main(asked) in (0, 1)
    assert all(path.stat().st_mtime_ns == written for path, written in done.items())
    assert len(list(out.glob("part-*"))) == ROWS // 4
    main([*command(files), "--output", str(tmp_path / "one.parquet")])
    pd.testing.assert_frame_equal(read_parts(out), pd.read_parquet(tmp_path / "one.parquet"), check_exact=True)


def _note_of(path: Path) -> Path:
    return path.parent / "_notes" / f"{path.stem}.json"


@pytest.mark.slow
def test_another_run_is_refused_and_the_summary_names_rows_without_an_answer(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*command(files), "--output", f"{tmp_path / 'out'}/", *HERE, "--vary", "c", "--max-changes", "1"]
    assert main(asked) == 1
    told = capsys.readouterr().out
    assert "rows without one" in told and f"of {ROWS} rows have a counterfactual" in told and "in 3 parts" in told
    assert main(asked) == 1, "all parts are there, and nothing is done again"
    assert capsys.readouterr().out.split("; ")[0] == told.split("; ")[0]
    for other, name in ((["--seed", "7"], "seed: 0, not 7"), (["--format", "csv"], 'format: ".parquet", not ".csv"')):
        assert main([*asked, *other]) == 2
        assert f"holds a run with another {name}" in capsys.readouterr().err
    os.utime(files / "large.parquet")
    assert main(asked) == 2
    assert "holds a run with another tables" in capsys.readouterr().err


@pytest.mark.slow
def test_a_wrong_cell_is_named_with_its_row_in_the_file(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(files / "large.csv").astype({"a": object})
    table.loc[95, "a"] = "much"
    for name in ("train.csv", "model.joblib"):
        shutil.copy(files / name, tmp_path)
    table.to_csv(tmp_path / "wrong.csv", index=False)
    assert main([*command(tmp_path, "wrong.csv"), "--output", f"{tmp_path / 'out'}/", *HERE]) == 2
    told = capsys.readouterr().err
    assert f"feature 'a' is 'much' in row 95 of {tmp_path / 'wrong.csv'}, but a number is needed" in told
    assert not (tmp_path / "out").exists(), "a refused run leaves nothing that another would stumble over"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--output", "out/", "--html", "page.html"], "--html is for tables that fit in memory"),
        (["--output", "out/", "--rows", "3"], "--rows is for tables that fit in memory"),
        (["--output", "out/", "--regions"], "--regions is for tables that fit in memory"),
        (["--output", "out/", "--backend", "dask"], "needs the address of a scheduler"),
        (["--output", "out/", "--scheduler", "tcp://127.0.0.1:1"], "is for --backend dask"),
        (["--output", "out/", "--backend", "dask", "--scheduler", "a", "--jobs", "2"], "--jobs is for processes"),
        (["--output", "out.csv", "--jobs", "2"], "--jobs is for a folder of parts"),
        (["--output", "out.csv", "--backend", "dask"], "--backend is for a folder of parts"),
        (["--output", "train.csv/"], "but that is a file; give a folder"),
        (["--output", "out/", "--vary", "income"], "--vary names feature 'income'"),
        (["--output", "out/", "--id", "nobody"], "--id names column 'nobody'"),
    ],
)
def test_wrong_requests_are_refused(
    files: Path, asked: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert main(["explain", "train.csv", "--model", "model.joblib", "--target", "target", *asked]) == 2
    assert told in capsys.readouterr().err
    assert not (files / "out").exists()


def test_the_work_on_a_part_is_code_that_other_processes_can_import() -> None:
    assert PartWork.__module__ == "relax_plugin.commands.explain_parts"
    assert PARTS * PART_ROWS == ROWS
