"""How many counterfactuals of a benchmark are outliers: the judge's own detectors, on rows that it encodes itself.

One is fitted on the distinct training rows, as a search for plausible answers sees them. The other is fitted on all
distinct test rows, which no search has seen. Beside both stands how many real rows each calls outliers.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.evaluation.yardsticks import detector_of

COLUMNS = ("outliers", "unseen outliers", "real outliers", "real unseen outliers")


def outliers_by_seed(rows: pd.DataFrame, load: Callable[[str, int], Task] = load_task) -> pd.DataFrame:
    """One line for each task, method and seed that ran, with the shares of its valid counterfactuals.

    Columns: `outliers` by the training rows and `unseen outliers` by the test rows; `real outliers`, how many of the
    test rows are by the training rows; and `real unseen outliers`, how many of the training rows are by the test rows.

    Parameters
    ----------
    rows : DataFrame
        Of a benchmark, as `runner.run` gives them.
    load : callable
        Gives the task of a name and a seed.
    """
    lines: list[tuple[Any, ...]] = []
    for key, unit in rows[rows["state"] == "ok"].groupby(["task", "method", "seed"], sort=False):
        name, method, seed = str(key[0]), str(key[1]), int(str(key[2]))
        task = load(name, seed)
        training, test = task.X_train, task.X_test
        delivered = delivered_rows(unit[unit["valid"]], test)
        by_training, by_test = detector_of(task, "training"), detector_of(task, "test")
        shares = (by_training(delivered), by_test(delivered), by_training(test), by_test(training))
        lines.append((name, method, seed, *(float(share.mean()) if len(share) else np.nan for share in shares)))
    return pd.DataFrame(lines, columns=["task", "method", "seed", *COLUMNS])


def delivered_rows(unit: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """The counterfactuals of a unit, from the queries and the changes that its rows tell."""
    rows = test.iloc[unit["instance"].to_numpy()].reset_index(drop=True)
    cells = {name: rows[name].tolist() for name in rows.columns}
    for row, changes in enumerate(unit["changes"]):
        for name, _, new in json.loads(changes):
            cells[name][row] = new
    return pd.DataFrame(cells, columns=rows.columns)
