"""How long the lessons take, each in a process of its own: they promise less than two minutes of a CPU."""

import pytest
from lesson_files import LESSONS, name, run

from benchmarks.speed.measuring import children_cpu, describe, timed


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_lesson(benchmark, path, tmp_path):
    describe(benchmark, "a lesson", name(path))
    done = timed(benchmark, lambda: run([path], tmp_path), rounds=1, cpu_clock=children_cpu)
    assert done.returncode == 0, done.stderr
