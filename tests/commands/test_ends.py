"""How commands end: models that misbehave, readers that stop reading, Ctrl-C; with a sentence and nothing half."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import joblib
import psutil
import pytest
from reference.saved_models import Leaving, Misbehaving, write_files

from benchmarks.reproduction.models import COLUMNS
from relax_plugin.cli import main
from relax_plugin.evaluation.store import Cache

TESTS = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "relax_plugin.cli"]
EXPLAIN = ["explain", "train.csv", "--target", "approved", "--method", "nearest-ct", "--rows", "1", "2", "3"]
PATIENCE = 120.0  # seconds after which a test gives up waiting


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    write_files(folder)
    joblib.dump(Leaving(), folder / "leaving.joblib")
    return folder


def environment() -> dict[str, str]:
    """That of the tests, in which children find the models of the tests too."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}


# Models.


@pytest.mark.parametrize("good", [0, 2])
@pytest.mark.parametrize(
    ("what", "sentence"), [("raises", "no luck today"), ("exits", "SystemExit"), ("NaN", "nan")], ids=str
)
def test_a_model_that_misbehaves_is_quoted_in_a_sentence(
    folder: Path,
    what: str,
    good: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    joblib.dump(Misbehaving(what, good), "bad.joblib")
    assert main([*EXPLAIN, "--model", "bad.joblib", "--output", "out.csv"]) == 2
    out, err = capsys.readouterr()
    assert "relax-plugin: the model " in err and sentence in err.lower() + err
    assert "Traceback" not in err and out == "" and not Path("out.csv").exists()


@pytest.mark.slow
def test_a_model_that_hangs_for_a_second_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    joblib.dump(Misbehaving("hangs"), "slow.joblib")
    assert main([*EXPLAIN, "--model", "slow.joblib"]) == 0


def test_a_file_that_ends_the_program_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main([*EXPLAIN, "--model", "leaving.joblib"]) == 2
    assert "leaving.joblib cannot be loaded: it ends the program, with exit code 0" in capsys.readouterr().err


# Readers that stop reading.


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["bench", "--help"],
        ["list"],
        [*EXPLAIN, "--model", "model.joblib"],
    ],
    ids=["help", "help of bench", "list", "explain"],
)
@pytest.mark.parametrize("buffered", [True, False])
def test_a_closed_pipe_is_quiet(folder: Path, arguments: list[str], buffered: bool) -> None:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment() | {"PYTHONUNBUFFERED": "" if buffered else "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    swallowed = "--help" in arguments and not buffered  # by argparse, which then ends with 0
    assert process.wait(PATIENCE) == (0 if swallowed else 141)
    assert "BrokenPipe" not in err and "Traceback" not in err and "ignored" not in err


@pytest.mark.slow
def test_a_closed_pipe_of_messages_is_quiet_too(folder: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, *EXPLAIN, "--model", "model.joblib"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(PATIENCE) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        told = subprocess.run(
            [*COMMAND, "report", "--help"],
            cwd=folder,
            env=environment() | {"PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert told.returncode == 2
    assert told.stderr.startswith("relax-plugin: OSError: ") and len(told.stderr.splitlines()) == 1


# Ctrl-C.


class Started:
    """A command in a process of its own, which heeds Ctrl-C though the shell of the tests may not."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.errors = folder / "errors.txt"
        with self.errors.open("w") as errors:
            self.process = psutil.Popen(
                [*COMMAND, *arguments],
                cwd=folder,
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def wait_until(self, fact: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not fact():
            assert time.monotonic() < deadline and self.process.poll() is None, self.errors.read_text()
            time.sleep(0.02)

    def interrupt(self) -> str:
        """Send Ctrl-C; see that it ends so, with its children; give what it said."""
        children = self.process.children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE) == 130, self.errors.read_text()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE)
        assert alive == []
        said = self.errors.read_text()
        assert "Traceback" not in said
        return said


@pytest.mark.slow
def test_an_interrupted_explain_writes_nothing(folder: Path, tmp_path: Path) -> None:
    joblib.dump(Misbehaving("sleeps", 2), tmp_path / "asleep.joblib")
    (tmp_path / "train.csv").write_bytes((folder / "train.csv").read_bytes())
    (tmp_path / "out.csv").write_text("old")
    there = {path.name for path in tmp_path.iterdir()} | {"errors.txt"}
    started = Started([*EXPLAIN, "--model", "asleep.joblib", "--output", "out.csv", "--html", "page.html"], tmp_path)
    started.wait_until(lambda: "asleep" in started.errors.read_text().splitlines())
    assert started.interrupt().endswith("relax-plugin: interrupted.\n")
    assert {path.name for path in tmp_path.iterdir()} == there
    assert (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.slow
def test_an_interrupted_start_is_no_traceback(folder: Path) -> None:
    started = Started([*EXPLAIN, "--model", "model.joblib", "--method", "relax-global"], folder)
    started.wait_until(lambda: "loading it runs" in started.errors.read_text())
    assert "Traceback" not in started.interrupt()


@pytest.mark.slow
def test_an_interrupted_reproduction_keeps_what_is_done_and_leaves_no_process(tmp_path: Path) -> None:
    models = tmp_path / "out" / "quick" / "units" / "models"
    started = Started(["reproduce", "--quick", "--output", "out"], tmp_path)
    started.wait_until(lambda: any(models.glob("*.csv.gz")))
    assert started.interrupt().endswith("relax-plugin: interrupted.\n")
    assert not list(models.glob(".*.tmp"))
    for path in models.glob("*.csv.gz"):
        frame = Cache(models).read(path.name.removesuffix(".csv.gz"))
        assert list(frame.columns) == COLUMNS and frame["chosen"].sum() == 1
