"""How fast a table larger than memory is explained, and in how much of it: `python -m benchmarks.tables.large_tables`.

Rows like those of wave2 are written as Parquet, and `relax-plugin explain --output FOLDER/` explains them: with effort
"policy" and with the default search, in one process and in more, and by the workers of a Dask cluster on this machine.
What was seen, with the load of the machine at the time, is in results/large_tables.csv; a line replaces one of the same
effort, rows, backend and processes.

    python -m benchmarks.tables.large_tables --rows 1000000 10000000 --efforts policy --jobs 1
    python -m benchmarks.tables.large_tables --rows 131072 --efforts policy --jobs 1 2 --backends processes dask
"""

import argparse
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.evaluation.tasks import load_task
from relax_plugin.files import write_text

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "large_tables.csv"
TASK = "wave2/xgb"
KEY = ["effort", "rows", "backend", "processes"]
AT_ONCE = 250_000  # rows made at once
NOISE = 0.05  # standard deviations by which each row differs from one of the test set


def write_table(path: Path, rows: int) -> None:
    """So many rows, each a test row with noise, in the precision of the data."""
    import pyarrow
    import pyarrow.parquet

    test, rng = load_task(TASK).X_test, np.random.default_rng(0)
    spread = test.std().to_numpy()
    writer = None
    for first in range(0, rows, AT_ONCE):
        drawn = test.iloc[rng.integers(0, len(test), min(AT_ONCE, rows - first))].reset_index(drop=True)
        table = pyarrow.Table.from_pandas((drawn + NOISE * spread * rng.standard_normal(drawn.shape)).round(4))
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def explained(folder: Path, typed: list[str], backend: str, jobs: int) -> dict[str, Any]:
    """Run the command, and read off what its parts have noted."""
    command = [sys.executable, "-m", "relax_plugin.cli", "explain", *typed, "--output", f"{folder}/"]
    load = [os.getloadavg()[0]]
    with ExitStack() as stack:
        where = ["--jobs", str(jobs)]
        if backend == "dask":
            from distributed import LocalCluster

            cluster = stack.enter_context(LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None))
            where = ["--backend", "dask", "--scheduler", cluster.scheduler_address]
        done = subprocess.run([*command, *where], capture_output=True, text=True)
    load.append(os.getloadavg()[0])
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} was refused: {done.stderr}")
    (largest,) = re.findall(r"at most ([\d,]+) MiB a process", done.stdout)
    return {
        "backend": backend,
        "processes": jobs,
        **told_by_notes(folder),
        "MiB of the largest": int(largest.replace(",", "")),
        "load": float(np.mean(load)),
        "machine": f"{os.cpu_count()} cores, {platform.system()}",
        "measured": datetime.now(UTC).isoformat(timespec="minutes"),
    }


def told_by_notes(folder: Path) -> dict[str, Any]:
    """Rows a second from the begin of the first part to the end of the last, and the most memory of a worker.

    How many workers were at work at a time, on the mean, is the same however much else the machine has to do.
    """
    paths = sorted(folder.glob("_notes/*.json"))
    notes, ends = [json.loads(path.read_bytes()) for path in paths], [path.stat().st_mtime for path in paths]
    at_work = [note["seconds"] for note in notes]
    seconds = max(ends) - min(end - own for end, own in zip(ends, at_work, strict=True))
    rows, cpu = (sum(note[name] for note in notes) for name in ("rows", "cpu_seconds"))
    return {
        "rows": rows,
        "parts": len(notes),
        "solved": sum(note["solved"] for note in notes) / rows,
        "seconds": seconds,
        "rows a second": rows / seconds,
        "rows a CPU second": rows / cpu,
        "at work": sum(at_work) / seconds,
        "MiB of a worker": max(note["peak_mebibytes"] for note in notes),
    }


def main() -> None:
    """Measure every combination that is asked for, and store each as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--efforts", nargs="+", default=["policy", "search"])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--backends", nargs="+", default=["processes"], choices=["processes", "dask"])
    parser.add_argument("--part-rows", type=int, default=65_536)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        here, task = Path(place), load_task(TASK)
        joblib.dump(task.model, here / "model.joblib")
        task.X_train.to_csv(here / "train.csv", index=False)
        for rows in chosen.rows:
            write_table(here / "large.parquet", rows)
            for effort in chosen.efforts:
                typed = [str(here / "train.csv"), "--model", str(here / "model.joblib"), "--plausible", "no"]
                typed += ["--queries", str(here / "large.parquet"), "--option", f"effort={effort}"]
                typed += ["--part-rows", str(chosen.part_rows)]
                first = None
                for backend, jobs in itertools.product(chosen.backends, chosen.jobs):
                    folder = here / f"{rows}-{effort}-{backend}-{jobs}"
                    if first is not None:  # the same explainer: the run "goes on" with nothing done
                        folder.mkdir()
                        for name in ("_run.json", "_explainer.safetensors"):
                            shutil.copy(first / name, folder)
                    line = {"effort": effort, **explained(folder, typed, backend, jobs)}
                    first = first or folder
                    store(line)
                    print(json.dumps(line, indent=1), flush=True)


def store(line: dict[str, Any]) -> None:
    """Put a line in the place of an older one of its kind."""
    lines = pd.DataFrame([line])
    if STORED.exists():
        lines = pd.concat([pd.read_csv(STORED), lines]).drop_duplicates(KEY, keep="last")
    write_text(STORED, lines.sort_values(KEY).round(4).to_csv(index=False))


if __name__ == "__main__":
    main()
