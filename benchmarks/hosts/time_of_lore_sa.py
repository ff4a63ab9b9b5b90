"""How long LORE takes in its authors' package, beside ours: `pip install lore-sa==1.1.3`, then run this file.

Only the time: lore-sa answers rules and not rows (see baselines/lore.py). Its genetic generator runs with its own
defaults, one query at a time, as it is meant to be used, on one thread, for the tuned models of the reproduction.
`relax-plugin reproduce --report-only` then shows it beside ours. Nothing of it is part of the package or of its tests.
"""

import argparse
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import threadpoolctl
from lore_sa.bbox import AbstractBBox
from lore_sa.dataset import TabularDataset
from lore_sa.lore import TabularGeneticGeneratorLore

from benchmarks.reproduction.models import tuned_task
from benchmarks.reproduction.plan import PAIRS
from benchmarks.reproduction.run import Folder
from relax_plugin.evaluation.tasks import Task


class Model(AbstractBBox):
    """A task's model for lore-sa, which asks it about arrays."""

    def __init__(self, task: Task) -> None:
        self.model, self.names = task.model, list(task.X_train.columns)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(self._frame(X))).astype(str).astype(object)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self._frame(X)))

    def _frame(self, X: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(np.asarray(X, dtype=float), columns=self.names)


def seconds_a_row(task: Task, rows: int) -> float:
    """CPU seconds of lore-sa for one of the first test rows: other work on the machine is not counted."""
    table = task.X_train.assign(target=task.y_train.astype(str))
    lore = TabularGeneticGeneratorLore(Model(task), TabularDataset(table, class_name="target"))
    queries = task.X_test.iloc[:rows].to_numpy(dtype=float)
    started = time.process_time()
    for query in queries:
        lore.explain(query)
    return (time.process_time() - started) / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2, help="queries of each task (default 2)")
    parser.add_argument("--folder", type=Path, default=Path("docs/results/paper"), help="results of the reproduction")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    folder, lines = Folder(chosen.folder), []
    tuned = folder.read("models")
    for name in PAIRS:
        with threadpoolctl.threadpool_limits(1):
            seconds = seconds_a_row(tuned_task(tuned, name, 0), chosen.rows)
        lines.append({"task": name, "version": version("lore-sa"), "rows": chosen.rows, "seconds_a_row": seconds})
        print(lines[-1], flush=True)
    folder.write("lore_sa", pd.DataFrame(lines))


if __name__ == "__main__":
    main()
