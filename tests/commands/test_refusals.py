"""Refusals of the commands: at once, before anything heavy is imported, and before a model's file is unpickled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reference.saved_models import write_files

from benchmarks.figures.command import WHAT
from benchmarks.figures.measurements import MEASUREMENTS
from relax_plugin.cli import main
from relax_plugin.commands import play
from relax_plugin.evaluation.toy import MODELS

HEAVY = ("torch", "sklearn", "scipy", "pandas", "matplotlib", "joblib")

EXPLAIN = ["explain", "train.csv", "--model", "trap.joblib", "--target", "approved"]
REFUSED = [
    ["--help"],
    ["bench", "--help"],
    ["banch"],
    ["bench", "--tsaks", "sonar/mlp"],
    ["bench", "--methods", "gredy"],
    ["bench", "--tasks", "xx"],
    ["bench", "--budgets", "0"],
    ["bench", "--n", "0"],
    ["bench", "--n", "2.5"],
    ["bench", "--jobs", "0"],
    ["bench", "--floor", "0"],
    ["bench", "--output", "train.csv/results"],
    ["demo", "--seed", "-1"],
    ["demo", "--report", "nowhere/page.html"],
    ["figures", "cores"],
    ["figures", "core", "--tasks", "sonar/mpl"],
    ["figures", "core", "--seeds", "0"],
    ["figures", "core", "--jobs", "0"],
    ["methods", "--methods", "gredy"],
    ["methods", "--results", "nowhere"],
    ["play", "--model", "treees"],
    ["report", "nowhere"],
    ["reproduce", "--jobs", "0"],
    ["reproduce", "--output", "train.csv"],
    ["reproduce", "--only", "no such case"],
    ["reproduce", "--quick", "--report-only", "--output", "nowhere"],
    ["figures", "--tables", "nowhere"],
    ["figures", "core", "--tables", "nowhere"],
    ["report", "nowhere", "--table", "sumary"],
    ["list", "--wiide"],
    ["explain", "nofile.csv"],
    ["explain", "nofile.csv", "--model", "trap.joblib"],
    ["explain", "train.csv", "--model", "nofile.joblib"],
    [*EXPLAIN, "-n", "0"],
    [*EXPLAIN, "-n", "-3"],
    [*EXPLAIN, "-n", "two"],
    [*EXPLAIN, "-n", "²"],
    [*EXPLAIN, "-n", "9" * 20],
    [*EXPLAIN, "-n", "9" * 5000],
    [*EXPLAIN, "--seed", "9" * 20],
    ["demo", "--seed", "9" * 20],
    ["play", "--seed", "9" * 20],
    [*EXPLAIN, "--method", "gredy"],
    [*EXPLAIN, "--target", "aproved"],
    [*EXPLAIN, "--immutable", "zz"],
    [*EXPLAIN, "--vary", "income", "--immutable", "income"],
    [*EXPLAIN, "--bounds", "zz=1:2"],
    [*EXPLAIN, "--fill-missing", "zz"],
    [*EXPLAIN, "--may-vanish", "zz"],
    [*EXPLAIN, "--one-hot", "member"],
    [*EXPLAIN, "--one-hot", "job=member,zz"],
    [*EXPLAIN, "--ordered", "town=Rome"],
    [*EXPLAIN, "--ordered", "twon=Rome<Bonn"],
    [*EXPLAIN, "--derived", "income"],
    [*EXPLAIN, "--derived", "income=zz + 1"],
    [*EXPLAIN, "--derived", "income=income >= 3"],
    [*EXPLAIN, "--rule", "income >="],
    [*EXPLAIN, "--rule", "incme >= 3"],
    [*EXPLAIN, "--rule", "age (years) >= 18"],
    [*EXPLAIN, "--cost", "income=cheap"],
    [*EXPLAIN, "--cost", "zz=3"],
    [*EXPLAIN, "--labels", "nofile.json"],
    [*EXPLAIN, "--labels", "train.csv"],
    [*EXPLAIN, "--plausible", "perhaps"],
    [*EXPLAIN, "--id", "zz"],
    [*EXPLAIN, "--carry", "zz"],
    [*EXPLAIN, "--option", "plausible=require"],
    [*EXPLAIN, "--min-probability", "2"],
    [*EXPLAIN, "--shift", "nan"],
    [*EXPLAIN, "--between", "5", "3"],
    [*EXPLAIN, "--task", "regression", "--to", "yes"],
    [*EXPLAIN, "--output", "out.txt"],
    [*EXPLAIN, "--queries", "nofile.csv"],
]

WITH_OPTIONS = [
    ["bench", "--methods", "move-table:rows=3"],
    [*EXPLAIN, "--method", "greedy", "--option", "quantils=3"],
]

WATCHED = """
import json, sys
from relax_plugin.cli import main
commands, heavy = json.loads(sys.argv[1])
codes = []
for command in commands:
    try:
        code = main(command)
    except SystemExit as end:
        code = end.code
    codes.append([code, [name for name in heavy if name in sys.modules]])
print("\\n" + json.dumps(codes))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    write_files(folder)
    return folder


@pytest.mark.slow
def test_a_refused_command_imports_nothing_heavy(folder: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps([REFUSED, HEAVY])], cwd=folder, capture_output=True, text=True
    )
    assert "Traceback" not in told.stderr
    for command, (code, imported) in zip(REFUSED, json.loads(told.stdout.splitlines()[-1]), strict=True):
        assert (code, imported) == (0 if "--help" in command else 2, []), command


@pytest.mark.slow
def test_options_are_refused_without_torch_where_their_method_needs_none(folder: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps([WITH_OPTIONS, ["torch"]])],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert json.loads(told.stdout.splitlines()[-1]) == [[2, []]] * len(WITH_OPTIONS), told.stderr


@pytest.mark.slow
def test_fetching_is_refused_without_torch(folder: Path) -> None:
    watched = json.dumps([[["fetch", "covid"], ["fetch", "covid", "--folder", "nowhere"]], ["torch", "sklearn"]])
    environment = {name: value for name, value in os.environ.items() if name != "RELAX_DATA_HOME"}
    told = subprocess.run(
        [sys.executable, "-c", WATCHED, watched], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert json.loads(told.stdout.splitlines()[-1]) == [[2, []], [2, []]], told.stderr


def test_what_a_command_knows_without_importing_is_what_there_is() -> None:
    assert tuple(MEASUREMENTS) == WHAT
    assert tuple(MODELS) == play.MODELS


# Before the model is loaded.


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--immutable", "zz"], "--immutable names feature 'zz'; known are"),
        (["--immutable", "incme"], "--immutable names feature 'incme'; did you mean 'income'?"),
        (["--immutable", "approved"], "--immutable names feature 'approved'; known are"),
        (["--vary", "zz"], "--vary names feature 'zz'"),
        (["--vary", "income", "--immutable", "income"], "--vary names feature 'income', which --immutable names too"),
        (["--increase-only", "town"], "have no order"),
        (["--increase-only", "income", "--decrease-only", "income"], "--increase-only and --decrease-only"),
        (["--bounds", "income=9:1"], "[9.0, 1.0]"),
        (["--bounds", "town=Paris"], "has no category 'Paris'"),
        (["--rows", "150"], "there is no row 150"),
        (["--queries", "few.csv", "--immutable", "income"], "few.csv has no column 'income'"),
        (["--queries", "word.csv", "--immutable", "income"], "feature 'income' is 'much' in row 0 of word.csv"),
        (["--queries", "empty.csv"], "empty.csv cannot be read as CSV"),
    ],
)
def test_what_the_files_tell_is_refused_before_the_model_is_unpickled(
    folder: Path,
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "few.csv").write_text("town\nRome\n")
    (folder / "word.csv").write_text("income,town\nmuch,Rome\n")
    (folder / "empty.csv").write_text("")
    monkeypatch.chdir(folder)
    assert main([*EXPLAIN, *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "CODE RAN" not in err and "loading it runs whatever code" not in err


def test_a_header_that_only_pandas_can_read_is_not_refused_too_early(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    data = (folder / "train.csv").read_bytes()
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + data)
    (tmp_path / "blank.csv").write_bytes(b"\n\n" + data)
    (tmp_path / "quoted.csv").write_bytes(data.replace(b"income", b'"income"', 1))
    for name in ("marked.csv", "blank.csv", "quoted.csv"):
        arguments = ["--model", "model.joblib", "--method", "greedy", "--rows", "4", "--target", "approved"]
        assert main(["explain", str(tmp_path / name), *arguments, "--immutable", "age (years)", "income"]) in (0, 1)
