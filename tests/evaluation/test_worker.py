"""Facts about workers: whatever a method does to its process, the unit becomes a row and nothing else suffers."""

import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from reference.misbehaving import TEST_ROWS, announced, small_task, told

from relax_plugin.evaluation.judge import COLUMNS, Method, Row, Unit
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.worker import STARTS, Pool, Worker

LIMIT = 1.5  # seconds that a method which hangs is given
SLOW_START = 5.0  # seconds
PATIENCE = 120.0  # seconds after which a test gives up waiting: the machine may be busy


def unit(method: str, task: str | Task | None = None, **options: Any) -> Unit:
    return Unit(small_task() if task is None else task, Method(method, method, options), seed=0)


def gone(pid: int) -> bool:
    """Whether a process ends; one that nobody has waited for yet has ended too."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def wait_for(note: Path, word: str) -> int:
    """The number that a method notes under a word, as soon as it has."""
    deadline = time.monotonic() + PATIENCE
    while not told(note, word):
        assert time.monotonic() < deadline, f"no {word} was noted"
        time.sleep(0.02)
    return int(told(note, word)[0])


@pytest.fixture(scope="module", autouse=True)
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with announced(tmp_path_factory.mktemp("strangers") / "site"):
        yield


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    """Workers to be spoiled; all start at once, since that is what takes the time."""
    started = [Worker() for _ in range(4)]
    yield started
    for worker in started:
        worker.close()


@pytest.fixture
def worker(workers: list[Worker]) -> Worker:
    """A worker that has started and has run a unit; the last test may have spoilt one."""
    while workers[-1].run(unit("stepping"), None)[0]["state"] != "ok":
        workers.pop()
    return workers[-1]


@pytest.fixture
def note(tmp_path: Path) -> Iterator[Path]:
    """A file for what happens in the worker; processes that are named in it do not outlive the test."""
    yield tmp_path / "note"
    for pid in map(int, told(tmp_path / "note", "child")):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


# What works.


@pytest.mark.slow
def test_a_unit_gives_one_row_for_each_instance(worker: Worker) -> None:
    rows = worker.run(unit("nearest-ct"), None)
    assert [row["instance"] for row in rows] == list(range(TEST_ROWS))
    assert all(set(row) == set(COLUMNS) and row["state"] == "ok" for row in rows)
    assert all(row["task_seconds"] >= 0 for row in rows)


@pytest.mark.slow
def test_a_worker_is_used_again_and_has_one_thread(pool: Pool, note: Path) -> None:
    for _ in range(2):
        pool.run(unit("stepping", note=str(note)), None)
    assert len(set(told(note, "process"))) == 1
    assert set(told(note, "parent")) == {str(os.getpid())}
    assert set(told(note, "threads")) == {"1"}


@pytest.mark.slow
def test_what_a_method_prints_does_not_mix_with_the_answers(worker: Worker, note: Path) -> None:
    rows = worker.run(unit("talking", note=str(note)), None)
    assert [row["state"] for row in rows] == ["ok"] * TEST_ROWS
    assert told(note, "input") == ["''"], "and standard input is not the pipe of requests"


# Failures of a method.


@pytest.mark.slow
def test_an_exception_is_a_row_with_its_type_and_message(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "relax_plugin.evaluation.worker"):
        (row,) = worker.run(unit("raising"), None)
    assert (row["state"], row["instance"]) == ("crashed", -1)
    assert row["reason"] == 'RuntimeError: no luck today, "really"\nnot even once'
    assert (row["claimed"], row["valid"], row["changes"]) == (False, False, "[]")
    assert "raising on small/logistic, seed 0" in caplog.text
    assert "in _generate" in caplog.text, "the traceback is logged"
    assert worker.run(unit("stepping"), None)[0]["state"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["inapplicable", "extra"])
def test_a_method_that_does_not_apply_is_skipped_with_the_reason(worker: Worker, method: str) -> None:
    (row,) = worker.run(unit(method), None)
    assert row["state"] == "skipped"
    assert row["reason"].startswith("skipped because ")
    assert worker.usable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "how"),
    [("exiting", "with exit code 3"), ("forking", "with exit code 4"), ("segfaulting", "by signal SIGSEGV")],
    ids=str,
)
def test_the_end_of_the_interpreter_is_a_row_that_says_how_and_leaves_no_process(
    worker: Worker, note: Path, method: str, how: str
) -> None:
    (row,) = worker.run(unit(method, note=str(note)), PATIENCE)
    assert (row["state"], row["reason"]) == ("crashed", f"the process ended {how} in the method")
    assert not worker.usable
    assert all(gone(int(child)) for child in told(note, "child"))


@pytest.mark.slow
def test_a_method_that_hangs_is_ended_at_its_limit_and_the_next_unit_gets_another_worker(
    pool: Pool, note: Path
) -> None:
    assert pool.run(unit("stepping"), None)[0]["state"] == "ok"
    started = time.monotonic()
    (row,) = pool.run(unit("hanging", note=str(note)), LIMIT)
    took = time.monotonic() - started
    assert (row["state"], row["reason"]) == ("timed out", "the method took longer than 1.5 s and was ended")
    assert LIMIT <= took < PATIENCE, "it would have hung for a quarter of an hour"
    (process,), (child,) = told(note, "process"), told(note, "child")
    assert gone(int(process))
    assert gone(int(child)), "what it started ends with it"
    (row, *_) = pool.run(unit("stepping", note=str(note)), None)
    assert (row["state"], row["reason"]) == ("ok", "")
    assert told(note, "process") != [process, process]


@pytest.mark.slow
def test_a_worker_that_was_ended_while_idle_is_replaced(pool: Pool) -> None:
    assert pool.run(unit("stepping"), None)[0]["state"] == "ok"
    (idle,) = pool.idle
    idle.process.kill()
    idle.process.wait()
    (row, *_) = pool.run(unit("stepping"), None)
    assert (row["state"], row["reason"]) == ("ok", "")


@pytest.mark.slow
def test_closing_a_pool_ends_busy_workers_with_their_children(pool: Pool, note: Path) -> None:
    rows: list[Row] = []
    thread = threading.Thread(target=lambda: rows.extend(pool.run(unit("hanging", note=str(note)), None)))
    thread.start()
    child = wait_for(note, "child")
    pool.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert rows[0]["state"] == "crashed"
    assert gone(child)
    assert gone(wait_for(note, "process"))


# Loading, which is not the method's.


class Loaded:
    """A model that does something when it is read from a pickle."""

    def __init__(self, does: Callable[..., Any], *arguments: Any) -> None:
        self.does, self.arguments = does, arguments

    def __reduce__(self) -> Any:
        return self.does, self.arguments


@pytest.mark.slow
def test_a_task_that_cannot_be_loaded_is_a_row_with_the_reason(worker: Worker) -> None:
    (row,) = worker.run(unit("stepping", task="small/logistics"), None)
    assert row["state"] == "crashed"
    assert row["reason"].startswith("UnknownNameError: There is no task 'small/logistics'")
    (row,) = worker.run(unit("stepping", task=small_task(model=Loaded(float, "a number"))), None)
    assert row["state"] == "crashed"
    assert row["reason"] == "ValueError: could not convert string to float: 'a number'"
    assert worker.run(unit("stepping"), None)[0]["state"] == "ok"


@pytest.mark.slow
def test_loading_a_task_that_hangs_is_ended_too(worker: Worker) -> None:
    (row,) = worker.run(unit("stepping", task=small_task(model=Loaded(time.sleep, 1000))), LIMIT)
    assert row["state"] == "timed out"
    assert row["reason"].startswith("loading the task took longer than ")


@pytest.fixture(scope="module")
def slow_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes an interpreter take its time to start, and have no xgboost."""
    folder = tmp_path_factory.mktemp("slow")
    (folder / "sitecustomize.py").write_text(f"import time; time.sleep({SLOW_START})\n")
    (folder / "xgboost.py").write_text("raise ImportError('not installed')\n")
    return folder


@pytest.fixture
def slow_start(slow_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(slow_folder), os.environ["PYTHONPATH"]]))


@pytest.fixture(scope="module")
def slow_starter(slow_folder: Path) -> Iterator[Worker]:
    """A worker that starts so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(slow_folder), os.environ["PYTHONPATH"]]))
        worker = Worker()
    yield worker
    worker.close()


@pytest.mark.slow
def test_starting_a_worker_does_not_count_against_the_limit_of_a_method(slow_starter: Worker) -> None:
    (row, *_) = slow_starter.run(unit("stepping"), SLOW_START - 1)
    assert (row["state"], row["reason"]) == ("ok", "")


@pytest.mark.slow
def test_a_worker_finds_the_modules_that_its_parent_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As benchmarks/ is found, which is not installed."""
    (tmp_path / "beside.py").write_text(
        "from sklearn.linear_model import LogisticRegression\n\n\nclass Beside(LogisticRegression): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    task = small_task()
    found = replace(task, model=importlib.import_module("beside").Beside().fit(task.X_train, task.y_train))
    worker = Worker()
    try:
        assert worker.run(unit("stepping", found), None)[0]["state"] == "ok"
    finally:
        worker.close()
        sys.modules.pop("beside")


KILLED_AT_THE_START = """
import os, pathlib, signal
if "relax_plugin.evaluation.worker" in pathlib.Path("/proc/self/cmdline").read_text():
    with open({note!r}, "a") as file:
        file.write("start\\n")
    if len(pathlib.Path({note!r}).read_text().splitlines()) <= {times}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("times", "state"), [(1, "ok"), (100, "crashed")])
def test_a_worker_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, state: str
) -> None:
    note = tmp_path / "starts"
    (tmp_path / "sitecustomize.py").write_text(KILLED_AT_THE_START.format(note=str(note), times=times))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    pool = Pool()
    try:
        (row, *_) = pool.run(unit("stepping"), None)
    finally:
        pool.close()
    assert row["state"] == state
    assert row["reason"] == ("" if state == "ok" else "the process ended by signal SIGKILL in starting")
    assert len(note.read_text().splitlines()) == (times + 1 if state == "ok" else STARTS)
    assert not pool.busy


def test_a_worker_that_a_closed_pool_ended_while_it_started_is_not_started_again(slow_start: None) -> None:
    pool, rows = Pool(), list[Row]()
    thread = threading.Thread(target=lambda: rows.extend(pool.run(unit("stepping"), None)))
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while not pool.busy:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (starting,) = pool.busy
    pool.close()
    thread.join(PATIENCE)
    assert gone(starting.process.pid)
    assert (rows[0]["state"], pool.busy, pool.idle) == ("crashed", set(), [])


@pytest.mark.slow
def test_a_task_whose_library_is_absent_is_skipped(slow_starter: Worker) -> None:
    (row,) = slow_starter.run(unit("stepping", task="wave2/xgb"), None)
    assert row["state"] == "skipped"
    assert row["reason"].startswith("skipped because This task needs xgboost")
    assert "pip install 'relax-plugin[xgboost]'" in row["reason"]


# The end of everything.

ORPHANING = """
import sys
from reference.misbehaving import small_task
from relax_plugin.evaluation.judge import Method, Unit
from relax_plugin.evaluation.worker import Worker
Worker().run(Unit(small_task(), Method("hanging", "hanging", {"note": sys.argv[1]}), 0), None)
"""


@pytest.mark.slow
def test_a_worker_and_its_children_end_when_the_parent_is_killed(note: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHANING, str(note)])
    try:
        child = wait_for(note, "child")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert gone(wait_for(note, "process"))
    assert gone(child)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["bin", ".", ""], ids=["by its script", "by python -m", "in a notebook"])
def test_a_file_in_the_working_folder_does_not_stand_in_for_a_module(tmp_path, monkeypatch, first):
    for name in ("secrets", "token", "http", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'EXECUTED')!r}, 'a').write('{name} ')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [first and str(tmp_path / first), *sys.path])
    worker = Worker()
    try:
        assert worker.starts()
    finally:
        worker.end()
    assert not (tmp_path / "EXECUTED").exists()
