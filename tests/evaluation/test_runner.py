"""Facts about the runner: tidy rows, a run that can be ended at any moment and goes on, and what a plan refuses."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference.misbehaving import announced, small_task, told

from relax_plugin.errors import InputError, SavedFileError, UnknownNameError
from relax_plugin.evaluation.judge import COLUMNS, Method, Row, Unit, judge
from relax_plugin.evaluation.runner import Plan, Store, load_rows, run

TIMED = [name for name in COLUMNS if name.endswith(("seconds", "cpu"))]
KEY = ["task", "method", "seed", "instance"]
MARK = "RELAX_PLUGIN_TEST_RUN"  # a variable by which the processes of a run are known, whoever their parent is


@pytest.fixture(scope="module", autouse=True)
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with announced(tmp_path_factory.mktemp("strangers") / "site"):
        yield


def untimed(rows: pd.DataFrame) -> pd.DataFrame:
    """What must be the same however a run came about."""
    return rows.drop(columns=TIMED)


def slow_plan(note: Path) -> Plan:
    """Sixteen units: good ones, one of them slow, and some that fail or do not apply."""
    slow = Method("slow", "stepping", {"pause": 1.5, "note": str(note)})
    tasks = [small_task("small/one"), small_task("small/two", seed=7)]
    return Plan(tasks, ["nearest-ct", slow, "raising", "inapplicable"], seeds=[0, 1], rows=5, limit=60.0)


class Finished:
    """A run from beginning to end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.note = folder / "results", folder / "note"
        self.plan = slow_plan(self.note)
        self.seen: list[tuple[int, int, tuple[str, str, int], bool]] = []
        self.rows = run(self.plan, self.folder, jobs=2, command="bench it", progress=self.see)

    def see(self, done: int, of: int, unit: Unit, rows: list[Row]) -> None:
        self.seen.append((done, of, unit.key, Store(self.folder).path(unit).exists()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return Finished(tmp_path_factory.mktemp("finished"))


class Watching:
    """Takes note of what begins and of what is done, in turn."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, tuple[str, str, int]]] = []

    def started(self, of: int, unit: Unit) -> None:
        self.told.append(("begins", of, unit.key))

    def __call__(self, done: int, of: int, unit: Unit, rows: list[Row]) -> None:
        self.told.append((f"done {done}", of, unit.key))


@pytest.mark.slow
def test_who_has_started_is_told_what_begins_before_it_is_done(tmp_path: Path) -> None:
    watching = Watching()
    task = small_task("small/one")
    run(Plan([task], ["nearest-ct"], seeds=[0, 1], rows=2), tmp_path, progress=watching)
    first, second = ("small/one", "nearest-ct", 0), ("small/one", "nearest-ct", 1)
    assert sorted(watching.told) == sorted(
        [("begins", 2, first), ("begins", 2, second), ("done 1", 2, first), ("done 2", 2, second)]
    )
    assert all(watching.told.index(("begins", 2, key)) < place for place, (what, _, key) in enumerate(watching.told)
               if what != "begins")  # fmt: skip


@pytest.mark.slow
def test_a_run_whose_file_is_removed_meanwhile_is_not_left_out_in_silence(tmp_path: Path) -> None:
    def remove_the_first(done: int, *_: Any) -> None:
        if done == 2:
            next((tmp_path / "units").iterdir()).unlink()

    with pytest.raises(
        SavedFileError, match=r"1 of 2 runs are no longer in .*, the first of them small/one, nearest-ct"
    ):
        run(Plan([small_task("small/one")], ["nearest-ct"], seeds=[0, 1], rows=2), tmp_path, progress=remove_the_first)


def refuse_to_run(*_: Any) -> None:
    raise AssertionError("nothing was to be run")


# Tidy rows.


@pytest.mark.slow
def test_there_is_one_row_for_each_task_method_seed_and_instance(finished: Finished) -> None:
    rows = finished.rows
    assert tuple(rows.columns) == COLUMNS
    expected = [
        (task, method, seed, instance)
        for task in ("small/one", "small/two")
        for seed in (0, 1)
        for method in ("nearest-ct", "slow", "raising", "inapplicable")
        for instance in ([-1] if method in ("raising", "inapplicable") else range(5))
    ]
    assert list(rows[KEY].itertuples(index=False, name=None)) == expected
    states = rows.groupby("method")["state"].unique().map(list).to_dict()
    assert states == {"nearest-ct": ["ok"], "slow": ["ok"], "raising": ["crashed"], "inapplicable": ["skipped"]}
    assert (rows["instances"][rows["state"] == "ok"] == 5).all()


@pytest.mark.slow
def test_the_rows_are_those_of_the_judge(finished: Finished) -> None:
    rows = finished.rows.set_index(["task", "method", "seed"], drop=False)
    for unit in finished.plan.units():
        if unit.method.label == "nearest-ct":
            expected = pd.DataFrame(judge(unit, unit.load()), columns=list(COLUMNS))
            mine = rows.loc[[unit.key]].reset_index(drop=True)
            pd.testing.assert_frame_equal(untimed(mine), untimed(expected), check_dtype=False, check_exact=True)


@pytest.mark.slow
def test_each_time_is_counted_once(finished: Finished) -> None:
    ran = finished.rows[finished.rows["state"] == "ok"]
    parts = ran[["fit_seconds", "explain_seconds", "task_seconds", "harness_seconds", "fit_cpu", "explain_cpu"]]
    assert (parts >= 0).all(axis=None)
    slow = ran[ran["method"] == "slow"]
    assert (slow["fit_seconds"] >= 0.3).all()
    assert (slow["fit_cpu"] < slow["fit_seconds"]).all()


@pytest.mark.slow
def test_units_run_side_by_side_and_each_is_stored_as_it_is_done(finished: Finished) -> None:
    assert len(set(told(finished.note, "process"))) == 2
    assert [(done, of) for done, of, _, _ in finished.seen] == [(i, 16) for i in range(1, 17)]
    assert sorted(key for _, _, key, _ in finished.seen) == sorted(unit.key for unit in finished.plan.units())
    assert all(stored for _, _, _, stored in finished.seen)


@pytest.mark.slow
def test_the_folder_tells_how_it_was_made(finished: Finished) -> None:
    first = Store(finished.folder).notes()[0]
    assert first["command"] == "bench it"
    assert set(first["versions"]) >= {"python", "relax-plugin", "numpy", "pandas", "scikit-learn"}
    assert "cores" in first["machine"]


@pytest.mark.slow
def test_no_worker_outlives_the_run(finished: Finished) -> None:
    pids = {int(pid) for pid in told(finished.note, "process")}
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


# Going on.


@pytest.mark.slow
def test_what_is_stored_is_not_run_again_and_is_told_the_same(finished: Finished) -> None:
    again = run(finished.plan, finished.folder, progress=refuse_to_run)
    pd.testing.assert_frame_equal(again, finished.rows, check_exact=True)
    stored = load_rows(finished.folder).sort_values(KEY, ignore_index=True)
    pd.testing.assert_frame_equal(stored, finished.rows.sort_values(KEY, ignore_index=True), check_exact=True)


@pytest.mark.slow
def test_a_smaller_plan_is_given_its_own_rows_only(finished: Finished) -> None:
    smaller = replace(finished.plan, tasks=finished.plan.tasks[1:], methods=["nearest-ct"], seeds=[1])
    rows = run(smaller, finished.folder, progress=refuse_to_run)
    assert rows["instance"].tolist() == list(range(5))
    assert rows[["task", "method", "seed"]].drop_duplicates().to_numpy().tolist() == [["small/two", "nearest-ct", 1]]


@pytest.mark.slow
def test_temporary_files_do_not_disturb(finished: Finished) -> None:
    (path, *_) = (finished.folder / "units").glob("*.csv.gz")
    half = path.with_name(f".{path.name}.4711.tmp")
    half.write_bytes(path.read_bytes()[:40])
    try:
        pd.testing.assert_frame_equal(run(finished.plan, finished.folder, progress=refuse_to_run), finished.rows)
    finally:
        half.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"rows": 4}, {"rows": None}, {"n": 2}, {"max_changes": 3}, {"method_rows": {"nearest-ct": 2}}], ids=str
)
def test_a_folder_with_other_settings_is_refused(finished: Finished, change: dict[str, Any]) -> None:
    notes = Store(finished.folder).notes()
    with pytest.raises(InputError, match="holds nearest-ct on small/one with seed 0, but with other rows"):
        run(replace(finished.plan, **change), finished.folder)
    assert Store(finished.folder).notes() == notes, "what was refused was not run"


@pytest.mark.slow
def test_a_folder_with_other_options_under_the_same_label_is_refused(finished: Finished) -> None:
    other = replace(finished.plan, methods=[Method("nearest-ct", "nearest-ct", {"reverted": True})])
    with pytest.raises(InputError, match="give another output folder"):
        run(other, finished.folder)


@pytest.mark.slow
def test_only_what_failed_is_tried_again(finished: Finished, tmp_path: Path) -> None:
    folder = shutil.copytree(finished.folder, tmp_path / "results")
    late = finished.plan.units()[0]
    Store(folder).write(late, [late.failure("timed out", "the method took longer than 1 s and was ended")])
    before = run(finished.plan, folder, progress=refuse_to_run)
    assert before["state"].iloc[0] == "timed out", "without being asked for, nothing is tried again"
    tried: list[str] = []
    rows = run(finished.plan, folder, retry=True, progress=lambda *seen: tried.append(seen[2].method.label))
    assert sorted(tried) == [*["inapplicable"] * 4, "nearest-ct", *["raising"] * 4]
    pd.testing.assert_frame_equal(untimed(rows), untimed(finished.rows), check_exact=True)


# Killed.


KILLED = """
import os, pickle, signal, sys
from relax_plugin.evaluation import runner

plan, folder, jobs, survived = sys.argv[1:]
replace, renamed = os.replace, []

def deadly(source, target):
    if str(target).endswith(".csv.gz"):
        renamed.append(target)
        if len(renamed) > int(survived):
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = deadly
with open(plan, "rb") as file:
    runner.run(pickle.load(file), folder, jobs=int(jobs))
"""


class Interrupted:
    """A run in a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results, self.note = folder, folder / "results", folder / "note"
        self.plan = slow_plan(self.note)
        (folder / "plan").write_bytes(cloudpickle.dumps(self.plan))

    def start(self, jobs: int = 2, survived: int = 100) -> "subprocess.Popen[bytes]":
        """Run it; it dies by itself when so many units are stored and the next one is written, but not yet named."""
        command = [sys.executable, "-c", KILLED, str(self.folder / "plan"), str(self.results), str(jobs), str(survived)]
        # A shell that runs the tests in the background ignores Ctrl-C for them: not for this one.
        heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
        return subprocess.Popen(command, env=os.environ | {MARK: str(self.folder)}, stderr=subprocess.DEVNULL, **heeds)

    def stored(self) -> set[Path]:
        return set((self.results / "units").glob("*.csv.gz"))

    def wait_until_more_than(self, stored: int) -> None:
        deadline = time.monotonic() + 300
        while len(self.stored()) <= stored:
            assert time.monotonic() < deadline, "the run does not go on"
            time.sleep(0.005)

    def orphans(self) -> list[int]:
        """Processes of the run that are still there some time after its end."""
        deadline = time.monotonic() + 60
        while True:
            alive = [process.pid for process in psutil.process_iter() if self._is_mine(process)]
            if not alive or time.monotonic() > deadline:
                return alive
            time.sleep(0.1)

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_rows(tmp_path: Path, finished: Finished) -> None:
    interrupted = Interrupted(tmp_path)

    process = interrupted.start(jobs=1, survived=1)
    assert process.wait(300) == -signal.SIGKILL
    assert len(interrupted.stored()) == 1
    assert len(list((interrupted.results / "units").glob(".*.tmp"))) == 1, "it was killed in the middle of writing"
    assert interrupted.orphans() == []

    process = interrupted.start()
    interrupted.wait_until_more_than(4)
    process.send_signal(signal.SIGKILL)
    process.wait(300)
    stored = {path: path.stat().st_mtime_ns for path in interrupted.stored()}
    assert 5 <= len(stored) < 16
    assert interrupted.orphans() == []

    process = interrupted.start(jobs=1)
    interrupted.wait_until_more_than(len(stored))
    process.send_signal(signal.SIGINT)  # as Ctrl-C does
    assert process.wait(300) != 0
    assert len(interrupted.stored()) < 16
    assert interrupted.orphans() == []

    left = 16 - len(interrupted.stored())
    counts: list[int] = []
    rows = run(interrupted.plan, interrupted.results, progress=lambda done, of, *_: counts.append(of))
    assert counts == [left] * left
    assert {path: path.stat().st_mtime_ns for path in stored} == stored, "what was stored was not run again"
    assert not rows.duplicated(KEY).any()
    pd.testing.assert_frame_equal(untimed(rows), untimed(finished.rows), check_exact=True)
    assert len(load_rows(interrupted.results)) == len(rows)
    assert len(told(interrupted.note, "process")) <= 4 + 1 + 2 + 1, "each time at most those under way were lost"


# What a plan refuses.


def test_a_plan_makes_all_units_those_of_a_task_and_seed_together() -> None:
    task = small_task()
    plan = Plan(
        [task, "sonar/mlp"],
        ["greedy", "nearest-ct:reverted=True"],
        seeds=range(2),
        rows=9,
        method_rows={"greedy": 3, "nearest-ct:reverted=True": 20},
        n=2,
        max_changes=4,
    )
    units = plan.units()
    assert [unit.key for unit in units] == [
        (name, method, seed)
        for name in ("small/logistic", "sonar/mlp")
        for seed in (0, 1)
        for method in ("greedy", "nearest-ct:reverted=True")
    ]
    assert [unit.rows for unit in units[:2]] == [3, 9]
    assert {(unit.n, unit.max_changes) for unit in units} == {(2, 4)}
    assert units[0].task is task


GOOD: dict[str, Any] = {"tasks": ["sonar/mlp"], "methods": ["greedy"], "seeds": [0]}


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"tasks": ["sonar/mpl"]}, UnknownNameError, "no task 'sonar/mpl'; did you mean 'sonar/mlp'"),
        ({"methods": ["greedyy"]}, UnknownNameError, "no explainer 'greedyy'; did you mean 'greedy'"),
        ({"methods": ["greedy:quantile=3"]}, UnknownNameError, "no option 'quantile'; did you mean 'quantiles'"),
        ({"methods": ["greedy:quantiles"]}, InputError, "write name:option=value"),
        ({"tasks": []}, InputError, "there is no task to run"),
        ({"methods": []}, InputError, "there is no method to run"),
        ({"seeds": []}, InputError, "there is no seed to run"),
        ({"tasks": ["sonar/mlp", "german/rf", "sonar/mlp"]}, InputError, "task 'sonar/mlp' is given twice"),
        ({"methods": ["greedy", "greedy"]}, InputError, "method 'greedy' is given twice"),
        ({"methods": ["greedy", Method("greedy", "move-table")]}, InputError, "method 'greedy' is given twice"),
        ({"seeds": [0, 1, 0]}, InputError, "seed 0 is given twice"),
        ({"rows": 0}, InputError, "rows is 0, but must be at least 1"),
        ({"n": 0}, InputError, "n is 0, but must be at least 1"),
        ({"max_changes": -1}, InputError, "max_changes is -1, but must be at least 1"),
        ({"method_rows": {"greedy": 0}}, InputError, "greedy is 0, but must be at least 1"),
        ({"method_rows": {"greed": 5}}, InputError, "rows are given for method 'greed', which is not run"),
        ({"limit": 0}, InputError, "limit is 0, but must be a number of seconds above 0"),
        ({"limit": float("nan")}, InputError, "limit is nan"),
    ],
    ids=str,
)
def test_a_plan_refuses_what_could_not_run(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        run(Plan(**GOOD | change), tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_two_tasks_of_your_own_need_two_names() -> None:
    with pytest.raises(InputError, match="task 'small/logistic' is given twice"):
        Plan([small_task(), small_task(seed=3)], ["greedy"]).units()


def test_seeds_and_counts_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    plain = Plan(**GOOD | {"rows": 3}).units()
    numpy = Plan(**GOOD | {"rows": np.int64(3), "seeds": np.arange(1)}).units()
    store = Store(tmp_path)
    assert [store.path(unit) for unit in numpy] == [store.path(unit) for unit in plain]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"backend": "threads"}, "there is no backend 'threads'; known are 'threading' and 'dask'"),
        ({"backend": "dask"}, "needs the address of a scheduler"),
        ({"jobs": 0}, "jobs is 0, but must be at least 1"),
    ],
    ids=str,
)
def test_an_unknown_place_to_run_is_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        run(Plan(**GOOD), tmp_path / "results", **options)
    assert not (tmp_path / "results").exists()


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no results"):
        load_rows(tmp_path)


# Files.


ODD = ["", "None", "NA", "nan", "NULL", " a ", 'a,"b"', "x\ny", "x\r\ny"]
ODD += ["1\r2", "\t", "Zürich → 東京", "\\", "1e5", "#"]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3),
    st.lists(st.floats(), min_size=3, max_size=3),
)
@example(ODD[:3], [0.1 + 0.2, float("nan"), -0.0])
@example(ODD[3:6], [5e-324, 1.7976931348623157e308, float("-inf")])
@example(ODD[6:9], [1 / 3, 1e22, 123456789.123456789])
@example(ODD[9:12], [0.0, 1.0, -1.0])
@example(ODD[12:15], [0.0, 1.0, -1.0])
def test_rows_are_read_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], numbers: list[float]
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    store.units.mkdir()
    unit = Unit("task, with a comma", Method('ünïcode: "label"', "greedy"), seed=3)
    columns = ("before", "after", "sentence", "query")
    rows = [
        unit.failure("ok", text, {**dict.fromkeys(columns, text), "sparsity": number, "fit_cpu": number})
        | {"instance": instance, "instances": len(texts), "valid": instance == 1, "violations": instance}
        for instance, (text, number) in enumerate(zip(texts, numbers, strict=True))
    ]
    store.write(unit, rows)
    read = store.rows()
    expected = pd.DataFrame(rows, columns=list(COLUMNS))
    pd.testing.assert_frame_equal(read, expected, check_dtype=False, check_exact=True)
    assert read["valid"].dtype == bool
    signs = [np.signbit(frame["sparsity"].dropna().astype(float)).tolist() for frame in (read, expected)]
    assert signs[0] == signs[1]


def test_a_reason_that_no_file_can_hold_does_not_end_the_run(tmp_path: Path) -> None:
    unit = Unit("task", Method.parse("greedy"), seed=0)
    store = Store(tmp_path)
    store.units.mkdir()
    store.write(unit, [unit.failure("crashed", f"FileNotFoundError: {os.fsdecode(bytes([0xFF]))}")])
    assert store.rows()["reason"].iloc[0].startswith("FileNotFoundError: ")


def test_units_with_similar_names_have_files_of_their_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    labels = ["a:b=1", "a-b-1", "a b 1", "A:b=1", "a:b=1,c=2", "é", "è", "", "x" * 300, "x" * 301]
    paths = {store.path(Unit("t", Method(label, "greedy"), seed)) for label in labels for seed in (0, 1)}
    assert len({path.name.lower() for path in paths}) == 2 * len(labels)
    assert all(len(path.name.encode()) < 255 for path in paths)
