"""One benchmark of `make bench`, from pytest to the table of ratios."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.speed.ratios import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_benchmark_ends_in_the_table_of_ratios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")  # whose threads benchmarks/speed/conftest.py counts
    written = tmp_path / "benchmarks.json"
    options = ["-q", "-p", "no:cacheprovider", "--benchmark-only", f"--benchmark-json={written}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "benchmarks/speed/test_speed_of_refusals.py", "-khelp"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    main([str(written), "--json"])
    assert all(line["seconds"] > 0 and line["ratio"] > 0 for line in json.loads(capsys.readouterr().out))
