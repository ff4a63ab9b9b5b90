"""Puts every mutant of the catalogue into a copy of the checkout and runs the test that must notice it: `make mutants`.

    PYTHONPATH=tests python -m benchmarks.mutants.run [part of a file's or test's name ...]

One line a mutant; at the end how many were killed. The exit code is 0 only if all were, and if all named tests pass
on the code as it is.
"""

import compileall
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from benchmarks.mutants.catalogue import ROOT, Mutant, catalogue
from benchmarks.mutants.in_tree import ANOTHER_COPY, FAILED, preload, run_tests

SIDE_BY_SIDE = 2
SECONDS = 60  # in which a test must have noticed its mutant
SECONDS_UNCHANGED = 900  # for all named tests on the code as it is
COPIED = ("relax_plugin", "adapters", "baselines", "benchmarks", "tests", "pyproject.toml", "README.md")
NEVER_COPIED = shutil.ignore_patterns("__pycache__", ".*")


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant: "killed", or what stands in the way."""

    mutant: Mutant
    state: str
    seconds: float
    told: str = ""

    def line(self, root: Path = ROOT) -> str:
        verb = {"killed": "killed by", "SURVIVED": "not noticed by"}.get(self.state, "meant for")
        return f"{self.state:<9} {self.seconds:5.1f} s  {self.mutant.where(root)}  {verb} {self.mutant.test}"


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """A temporary copy of what the tests need of a checkout."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder).resolve()
        for name in COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=NEVER_COPIED)
            elif source.is_file():
                shutil.copy2(source, tree / name)
        compileall.compile_dir(tree, quiet=2)
        yield tree


def outcome(mutant: Mutant, tree: Path) -> Outcome:
    """What the named test says to the mutant; the copy is left as it was."""
    stale = mutant.staleness(tree)
    if stale:
        return Outcome(mutant, "STALE", 0.0, stale)
    path = tree / mutant.file
    before = path.read_bytes()
    # Bytecode is trusted by size and second, and a mutant may share both with what stands there.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
    started = time.perf_counter()
    try:
        mutant.apply(tree)
        code, told = run_tests(tree, mutant.module, [mutant.test], SECONDS)
    finally:
        path.write_bytes(before)
    states = {FAILED: "killed", 0: "SURVIVED", None: "TOO SLOW", ANOTHER_COPY: "NOT SEEN"}
    return Outcome(mutant, states.get(code, "NOT RUN"), time.perf_counter() - started, told)


def outcomes(mutants: Sequence[Mutant], trees: Sequence[Path]) -> Iterator[Outcome]:
    """The mutants one by one, as many side by side as there are copies."""
    free: SimpleQueue[Path] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def run(mutant: Mutant) -> Outcome:
        tree = free.get()
        try:
            return outcome(mutant, tree)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(run, mutants)


def unchanged(mutants: Sequence[Mutant], trees: Sequence[Path]) -> list[str]:
    """What the named tests printed where they do not all pass on the code as it is; empty if they do."""
    tests = sorted({mutant.test for mutant in mutants})
    parts = [tests[position :: len(trees)] for position in range(len(trees))]
    with ThreadPoolExecutor(len(trees)) as pool:
        runs = pool.map(lambda tree, part: _passed(tree, part), trees, parts)
        return [told for told in runs if told]


def _passed(tree: Path, tests: Sequence[str]) -> str:
    if not tests:
        return ""
    code, told = run_tests(tree, "relax_plugin", tests, SECONDS_UNCHANGED)
    return "" if code == 0 else told or f"exit code {code}"


def main(wanted: Sequence[str], root: Path = ROOT, mutants: Sequence[Mutant] | None = None) -> int:
    """Run the mutants whose file or test has one of the words in its name, or all; the exit code."""
    chosen = [
        mutant
        for mutant in (catalogue() if mutants is None else mutants)
        if not wanted or any(word in f"{mutant.file} {mutant.test}" for word in wanted)
    ]
    with ExitStack() as stack:
        trees = [stack.enter_context(copy_of(root)) for _ in range(SIDE_BY_SIDE)]
        for told in unchanged(chosen, trees):
            print(f"a named test does not pass on the code as it is:\n{told}")
            return 1
        killed = 0
        for result in outcomes(chosen, trees):
            print(result.line(root), flush=True)
            if result.state == "killed":
                killed += 1
            elif result.state != "SURVIVED":
                print(result.told, flush=True)
    print(f"{killed} of {len(chosen)} killed")
    return 0 if chosen and killed == len(chosen) else 1


if __name__ == "__main__":
    preload()
    sys.exit(main(sys.argv[1:]))
