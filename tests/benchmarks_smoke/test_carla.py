"""CARLA's own `Benchmark` and measures run with our recourse method."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(sys.prefix) / "carla"  # where `make venv` puts the wheel


@pytest.mark.slow
def test_the_benchmark_of_carla_measures_what_the_adapter_promises(tmp_path: Path) -> None:
    if not list(WHEELS.glob("carla_recourse-*.whl")):
        pytest.skip("the wheel of carla-recourse is not here: make venv")
    (tmp_path / "carla").mkdir()
    for wheel in WHEELS.glob("*.whl"):
        (tmp_path / "carla" / wheel.name).symlink_to(wheel)
    script = ROOT / "benchmarks" / "hosts" / "benchmark_of_carla.py"
    options = ["--explainers", "greedy", "relax-global", "--rows", "10", "--folder", str(tmp_path / "carla")]
    done = subprocess.run([sys.executable, str(script), *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "greedy" in done.stdout and "relax-global" in done.stdout
