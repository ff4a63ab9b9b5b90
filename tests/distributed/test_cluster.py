"""Facts about a run in parts on a real Dask cluster of two worker processes, one of which is killed in the middle."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import joblib
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from reference.large_files import PART_ROWS, PARTS, ROWS, command, large_rows, read_parts, wait_for_notes, write_files

from relax_plugin import make_explainer
from relax_plugin.cli import main
from relax_plugin.distributed import explain

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    write_files(folder, trees=100)  # so that a part takes a while
    assert main([*command(folder), "--output", str(folder / "one.parquet")]) == 0
    return folder


def test_a_worker_that_is_killed_changes_no_answer(cluster: LocalCluster, files: Path) -> None:
    out, seen = files / "out", []

    def kill_one() -> None:
        seen.append(wait_for_notes(out, 1))
        with Client(cluster.scheduler_address, set_as_default=False) as client:
            processes = sorted(client.run(os.getpid).values())
            assert len(processes) == 2
            os.kill(processes[0], signal.SIGKILL)
        seen.append(len(list(out.glob("_notes/part-*.json"))))

    killer = threading.Thread(target=kill_one)
    killer.start()
    where = ["--backend", "dask", "--scheduler", cluster.scheduler_address, "--part-rows", str(PART_ROWS)]
    code = main([*command(files), "--output", f"{out}/", *where])
    killer.join()
    assert code == 0
    assert len(seen) == 2 and seen[1] < PARTS, "it was killed in the middle"
    assert len(list(out.glob("part-*.parquet"))) == PARTS
    pd.testing.assert_frame_equal(read_parts(out), pd.read_parquet(files / "one.parquet"), check_exact=True)


def test_a_dask_frame_is_explained_by_the_workers(cluster: LocalCluster, files: Path) -> None:
    training, queries = large_rows(200, 0), large_rows(ROWS, 1)
    explainer = make_explainer("nearest-ct", joblib.load(files / "model.joblib")).fit(training)
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        lazy = explain(dd.from_pandas(queries, npartitions=6), explainer)
        got = client.compute(lazy).result()
    whole = explainer.explain(queries)
    assert whole.found.all()
    assert (got["before"] == whole.before).all() and (got["after"] == whole.after[:, 0]).all()
    pd.testing.assert_frame_equal(got[["a", "b", "c"]], whole.frame[["a", "b", "c"]], check_exact=True)
