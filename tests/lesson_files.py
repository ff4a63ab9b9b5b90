"""The lessons and their solutions, and how a test runs one of them; for the tests of lessons, solutions, notebooks."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LESSONS = sorted(EXAMPLES.glob("[0-9]*.py"))
SOLUTIONS = sorted((EXAMPLES / "solutions").glob("*.py"))
LONGEST = 300  # seconds on the clock, of a machine that may be busy; a lesson takes some twenty


def command(module):
    """A script of examples/ as a module: they import each other from their own folder."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))


def name(path):
    return str(path.relative_to(EXAMPLES).with_suffix(""))


def run(arguments, folder):
    """The finished process."""
    surroundings = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=LONGEST)


def check_script(path, folder):
    done = run([path], folder)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr  # a student would wonder
