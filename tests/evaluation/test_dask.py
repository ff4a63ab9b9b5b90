"""Facts about a run on a Dask cluster: a real one of two worker processes gives what threads here give."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from distributed import Client, LocalCluster, get_client
from reference.misbehaving import announced, small_task, told

from relax_plugin.cli import main
from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.judge import COLUMNS, Method
from relax_plugin.evaluation.runner import Plan, load_rows, run

pytestmark = pytest.mark.dask

TIMED = [name for name in COLUMNS if name.endswith(("seconds", "cpu"))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with announced(tmp_path_factory.mktemp("strangers") / "site"), LocalCluster(**options) as cluster:
        yield cluster


def plan(note: Path) -> Plan:
    """Units that work, one of them slow enough for both workers to take part; and every way to fail."""
    slow = Method("slow", "stepping", {"pause": 2.0, "note": str(note)})
    methods = [slow, "nearest-ct", "raising", "inapplicable", "talking"]
    return Plan([small_task()], methods, seeds=[0, 1, 2], rows=4)


@pytest.fixture(scope="module")
def distributed_run(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    """The rows and the folder of a run on the cluster."""
    folder = tmp_path_factory.mktemp("dask")
    rows = run(plan(folder / "note"), folder / "results", backend="dask", scheduler=cluster.scheduler_address)
    return rows, folder


def test_the_cluster_gives_the_rows_that_threads_give(
    distributed_run: tuple[pd.DataFrame, Path], tmp_path: Path
) -> None:
    rows, folder = distributed_run
    here = run(plan(tmp_path / "note"), tmp_path / "results")
    pd.testing.assert_frame_equal(rows.drop(columns=TIMED), here.drop(columns=TIMED), check_exact=True)
    assert len(load_rows(folder / "results")) == len(rows)


def test_both_workers_of_the_cluster_take_part(
    distributed_run: tuple[pd.DataFrame, Path], cluster: LocalCluster
) -> None:
    _, folder = distributed_run
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        members = {str(pid) for pid in client.run(_pid).values()}
    assert len(members) == 2
    assert set(told(folder / "note", "parent")) == members


def _pid() -> int:
    import os

    return os.getpid()


def test_the_client_is_closed_and_forgotten(distributed_run: tuple[pd.DataFrame, Path]) -> None:
    with pytest.raises(ValueError, match="No global client found"):
        get_client()


def test_what_the_folder_holds_is_not_sent_to_the_cluster_again(
    distributed_run: tuple[pd.DataFrame, Path], cluster: LocalCluster
) -> None:
    rows, folder = distributed_run
    asked = len(told(folder / "note", "process"))
    again = run(plan(folder / "note"), folder / "results", backend="dask", scheduler=cluster.scheduler_address)
    pd.testing.assert_frame_equal(again, rows, check_exact=True)
    assert len(told(folder / "note", "process")) == asked == 3


def test_the_time_limit_and_a_crash_hold_on_the_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    hanging = Method("hanging", "hanging", {"note": str(tmp_path / "note")})
    failing = Plan([small_task()], [hanging, "segfaulting", "stepping"], seeds=[0], rows=2, limit=4.0)
    rows = run(failing, tmp_path / "results", backend="dask", scheduler=cluster.scheduler_address)
    assert rows[["method", "state", "reason"]].drop_duplicates().to_numpy().tolist() == [
        ["hanging", "timed out", "the method took longer than 4 s and was ended"],
        ["segfaulting", "crashed", "the process ended by signal SIGSEGV in the method"],
        ["stepping", "ok", ""],
    ]
    for word in ("process", "child"):
        (pid,) = told(tmp_path / "note", word)
        assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


def test_the_command_line_runs_on_a_cluster(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = ["bench", "--tasks", "diabetes/ada", "--methods", "nearest-ct", "--seeds", "1", "--rows", "5"]
    where = ["--backend", "dask", "--scheduler", cluster.scheduler_address, "--output", str(tmp_path)]
    assert main([*what, *where]) == 0
    assert "nearest-ct" in capsys.readouterr().out
    rows = load_rows(tmp_path)
    assert rows["state"].tolist() == ["ok"] * 5


def test_without_distributed_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"needs distributed: pip install 'relax-plugin\[dask\]'"):
        run(Plan(["sonar/mlp"], ["greedy"], seeds=[0]), tmp_path, backend="dask", scheduler="tcp://127.0.0.1:1")
