"""How long a refused command takes, from the shell's view: a fresh interpreter, its imports, one sentence."""

import subprocess
import sys

import pytest

from benchmarks.speed.measuring import children_cpu, describe, timed

COMMANDS = {
    "help": ["--help"],
    "an unknown command": ["banch"],
    "an unknown option": ["bench", "--tsaks", "sonar/mlp"],
    "an unknown method": ["bench", "--methods", "gredy"],
    "an unknown option of a method": ["bench", "--methods", "relax-global:efort=policy"],
    "an unknown task": ["bench", "--tasks", "xx"],
    "no such file": ["explain", "nofile.csv", "--model", "nofile.joblib"],
    "a folder without results": ["report", "nowhere"],
}


@pytest.mark.parametrize("label", COMMANDS)
def test_refusal(benchmark, label, tmp_path):
    describe(benchmark, "refused command", label)
    command = [sys.executable, "-m", "relax_plugin.cli", *COMMANDS[label]]

    def refused():
        return subprocess.run(command, cwd=tmp_path, capture_output=True).returncode

    code = timed(benchmark, refused, rounds=5, warmup=1, cpu_clock=children_cpu)
    assert code == (0 if label == "help" else 2)
