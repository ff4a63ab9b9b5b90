"""Explainers as one must expect them of strangers: they hang, raise, bring the interpreter down, print and lie.

`announced` makes them known by entry points, as an installed package would, to this process and to its children.
`small_task` is what they are tried on: a logistic regression over four numbers, one of them immutable.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.tasks import Task
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.results import Counterfactuals

TESTS = Path(__file__).resolve().parent.parent
COLUMNS = ["income", "debt", "savings", "age"]
TRAINING_ROWS, TEST_ROWS = 120, 8


def small_rows(n: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).standard_normal((n, len(COLUMNS))).round(3), columns=COLUMNS)


def small_task(name: str = "small/logistic", seed: int = 0, model: Any = None) -> Task:
    """A task of a moment; its model answers "granted" or "refused"."""
    X_train, X_test = small_rows(TRAINING_ROWS, seed), small_rows(TEST_ROWS, seed + 1)
    y_train, y_test = (pd.Series(np.where(truth(X) > 0, "granted", "refused")) for X in (X_train, X_test))
    model = LogisticRegression().fit(X_train, y_train) if model is None else model
    space = FeatureSpace.infer(X_train, immutable=["age"], increase_only=["savings"])
    return Task(name, model, space, None, X_train, X_test, y_train, y_test)


def truth(rows: pd.DataFrame) -> Any:
    return (1.5 * rows["income"] - rows["debt"] + 0.5 * rows["savings"] + 0.5 * rows["age"]).to_numpy()


class Stepping(CounterfactualExplainer):
    """Honest: moves the income to the end of its range, which flips nearly every answer of the small task."""

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = None,
        seed: int = 0,
        note: str = "",
        pause: float = 0.0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.note = note  # a file that tells the test what happened in the worker
        self.pause = pause

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._tell("process", os.getpid())
        self._tell("parent", os.getppid())
        self._tell("threads", os.environ.get("OMP_NUM_THREADS"))
        time.sleep(self.pause)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        low, high = problem.span
        granted = problem.before.output == 0
        made.values[:, :, 0] = np.where(granted, low[:, 0], high[:, 0])[:, None]
        made.offered[:, 0], made.stage[:] = True, "step"
        return made

    def _tell(self, word: str, what: object) -> None:
        if self.note:
            with Path(self.note).open("a") as file:
                file.write(f"{word} {what}\n")


def told(note: Path, word: str) -> list[str]:
    """What explainers have noted under a word, in turn."""
    lines = note.read_text().splitlines() if note.exists() else []
    return [line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} ")]


class Hanging(Stepping):
    """Starts a process of its own and never comes back."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        other = subprocess.Popen(["sleep", "1000"])
        self._tell("child", other.pid)
        while True:
            time.sleep(60)


class Exiting(Stepping):
    """Ends the interpreter, as a library in C may, and leaves a child behind."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        other = subprocess.Popen(["sleep", "1000"])
        self._tell("child", other.pid)
        os._exit(3)


class Forking(Stepping):
    """The child left behind is a copy of the process, as multiprocessing makes them: it holds every open pipe."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        other = os.fork()
        if other == 0:
            time.sleep(1000)
        self._tell("child", other)
        os._exit(4)


class Segfaulting(Stepping):
    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError("the signal has ended the process")


class Raising(Stepping):
    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        raise RuntimeError('no luck today, "really"\nnot even once')


class Inapplicable(Stepping):
    supports = Supports(tasks=("regression",))


class Extra(Stepping):
    """Needs a library that is not installed."""

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        raise MissingExtraError("this method needs luck: pip install 'stranger[luck]'.")


class Talking(Stepping):
    """Prints on every way there is, reads its standard input, and is honest otherwise."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        print("I talk", flush=True)
        os.write(1, b"\x08\x00\x00\x00\x00\x00\x00\x00straight to the descriptor")
        subprocess.run([sys.executable, "-S", "-c", "print('and so do my children')"], check=True)
        self._tell("input", repr(sys.stdin.read()))
        return super()._generate(problem, n, rng)


class Lying(Stepping):
    """Overrides `explain`, so that the core's verdict is not heard: claims every query, with whatever `_made_up`."""

    def explain(self, X: Rows, **asked: Any) -> Counterfactuals:  # type: ignore[override]
        result = super().explain(X, **asked)
        result.values[:, 0] = self._made_up(result)
        result.found[:, 0], result.status[:] = True, "found"
        return result

    def _made_up(self, result: Counterfactuals) -> Values:
        """Nothing changes but a hair of the income."""
        made_up = result.start.copy()
        made_up[:, 0] = np.round(made_up[:, 0] - 0.001, 3)
        return made_up


class LyingOnImmutables(Lying):
    """Flips the answer in fact, by way of the age."""

    def _made_up(self, result: Counterfactuals) -> Values:
        made_up = result.values[:, 0].copy()
        made_up[:, 3] += 1.0
        return made_up


class LyingOnChanges(Lying):
    """Changes all three features it may, whatever it is asked for."""

    def _made_up(self, result: Counterfactuals) -> Values:
        low, high = self.space_.limits().span(result.start)
        up = np.asarray(result.before == "refused")[:, None]
        made_up = np.where(up, high, low)
        made_up[:, 1] = np.where(up[:, 0], low[:, 1], high[:, 1])
        made_up[:, 2], made_up[:, 3] = high[:, 2], result.start[:, 3]
        return made_up


class LyingOnTheLimit(LyingOnChanges):
    """And says that it was asked for nothing else."""

    def _made_up(self, result: Counterfactuals) -> Values:
        self.max_changes = None
        return super()._made_up(result)


class Overwriting(Stepping):
    """Writes into the rows it is handed, in `fit` and in `explain`."""

    def fit(self, X: Rows) -> Self:
        super().fit(X)
        X[:] = 0.0
        return self

    def explain(self, X: Rows, **asked: Any) -> Counterfactuals:  # type: ignore[override]
        X[:] = 0.0
        return super().explain(X, **asked)


MISBEHAVING = {
    "stepping": Stepping,
    "hanging": Hanging,
    "exiting": Exiting,
    "forking": Forking,
    "segfaulting": Segfaulting,
    "raising": Raising,
    "inapplicable": Inapplicable,
    "extra": Extra,
    "talking": Talking,
    "lying": Lying,
    "lying-on-immutables": LyingOnImmutables,
    "lying-on-changes": LyingOnChanges,
    "lying-on-the-limit": LyingOnTheLimit,
    "overwriting": Overwriting,
}


@contextmanager
def announced(folder: Path) -> Iterator[Path]:
    """Entry points of all of them in a folder that is on the path, here and in child processes."""
    import pytest  # not at the top: workers import this module too, and should start fast

    info = folder / "misbehaving-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    points = [f"{name} = {kind.__module__}:{kind.__name__}" for name, kind in MISBEHAVING.items()]
    (info / "entry_points.txt").write_text("\n".join(["[relax_plugin.explainers]", *points, ""]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(TESTS)]))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield folder
