"""Runs tests in a copy of the checkout, in a process of their own, and makes sure that the copy is what they saw."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import pytest

FAILED = 1  # pytest's exit code for a failed test; 2 and above mean that none could run
ANOTHER_COPY = 99  # exit code: the tests saw other sources than those of the copy
PRELOADED = ("pandas", "torch", "gymnasium", "sklearn.ensemble", "sklearn.neural_network", "hypothesis", "pytest")
TOLD = "told.txt"  # what the tests print, in the root of the copy

FORKS = get_context("forkserver")


def preload() -> None:
    """Import once, for all processes that follow, what takes seconds; nothing of a checkout is among it."""
    FORKS.set_forkserver_preload(list(PRELOADED))


def run_tests(tree: Path, module: str, tests: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Run tests in a copy: pytest's exit code, None if the time was over; and what they printed."""
    process = FORKS.Process(target=_run, args=(tree, module, tests))
    process.start()
    process.join(seconds)
    late = process.is_alive()
    if late:
        process.kill()
        process.join()
    told = (tree / TOLD).read_text(encoding="utf-8") if (tree / TOLD).is_file() else ""
    return None if late else process.exitcode, told


def _run(tree: Path, module: str, tests: Sequence[str]) -> None:
    """What the new process does."""
    with (tree / TOLD).open("w", encoding="utf-8") as told:
        for stream in (1, 2):
            os.dup2(told.fileno(), stream)
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = True
    # For the processes that tests start. Some plugins take longer to load than most tests to run.
    os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0"]
    code = int(pytest.main(["-q", "-x", "--no-header", "--tb=short", *plugins, *tests]))
    if code <= FAILED:
        spec = find_spec(module)  # of a module that was imported, what was imported
        source = Path(str(spec and spec.origin)).resolve()
        if not source.is_relative_to(tree):
            print(f"{module} was imported from {source}, not from the copy in {tree}")
            code = ANOTHER_COPY
    sys.exit(code)
