"""The lessons and their solutions, and how a test runs one of them; for test_lessons.py and test_solutions.py."""

import os
import resource
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LESSONS = sorted(EXAMPLES.glob("[0-9]*.py"))
SOLUTIONS = sorted((EXAMPLES / "solutions").glob("*.py"))
LONGEST = 300  # seconds on the clock, of a machine that may be busy; a lesson takes some twenty
MOST_CPU = 120  # seconds of a CPU, whatever else the machine does: what the lessons promise


def name(path):
    return str(path.relative_to(EXAMPLES).with_suffix(""))


def run(arguments, folder):
    """The finished process, and the seconds of a CPU that it and its own children took."""
    surroundings = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    before = _cpu_of_children()
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=LONGEST)
    return done, _cpu_of_children() - before


def check_script(path, folder):
    done, seconds = run([path], folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr  # a student would wonder
    assert 0 < seconds < MOST_CPU


def _cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
