"""How much nearer polished answers are: `python -m benchmarks.tables.polish`, some minutes of CPU.

Training rows that were set aside are explained as the model is asked by default, and by `accelerate="polish"`, and held
against the floor, which knows the fewest changes and the least distance with so few. What was seen is in
results/polish.csv.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin import BlackBox, make_explainer
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.files import write_text
from relax_plugin.trees.floor import floor

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "polish.csv"
TASKS = ("breast_cancer/rf", "wave2/xgb", "diabetes/ada", "german/rf", "default/xgb")
METHODS = ("relax-global", "greedy")
WAYS: dict[str, Any] = {"none": None, "polish": "polish"}
SEEDS, ROWS = range(3), 100
FITTED = 0.8  # share of the training rows that explainers are fitted with
MOST_CHANGES = 3


def look_at(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One line for each method and way of asking the model."""
    task = load_task(name, seed)
    order = np.random.default_rng(seed).permutation(len(task.X_train))
    fitted, held = np.split(order, [int(FITTED * len(order))])
    rows = task.X_train.iloc[held]
    if task.goal is not None and task.goal.kind == "to":
        rows = rows[task.model.predict(rows) != task.goal.label]
    rows = rows.iloc[:ROWS]
    best = floor(task.model, task.space, rows, task.goal, most_changes=MOST_CHANGES)
    for method in METHODS:
        for way, accelerate in WAYS.items():
            box = BlackBox(task.model, accelerate=accelerate)
            explainer = make_explainer(method, box, task.space, goal=task.goal, seed=seed)
            explainer.fit(task.X_train.iloc[fitted])
            started = time.process_time()
            result = explainer.explain(rows)
            seconds = time.process_time() - started
            known = result.found[:, 0] & (best.changes > 0)
            same = known & (result.sparsity[:, 0] == best.changes)
            yield {
                "task": name,
                "seed": seed,
                "rows": len(rows),
                "method": method,
                "way": way,
                "found": result.found[:, 0].mean(),
                "changes": result.sparsity[known, 0].mean(),
                "fewest": best.changes[known].mean(),
                "above": result.proximity[same, 0].sum() / best.distance[same].sum() - 1,
                "model_rows": result.rows_queried.mean(),
                "ms": 1000 * seconds / len(rows),
            }


def main() -> None:
    """Look at every task and seed, and store the lines."""
    warnings.simplefilter("ignore")
    lines = []
    for name in sys.argv[1:] or TASKS:
        for seed in SEEDS:
            lines += list(look_at(name, seed))
            print(pd.DataFrame(lines[-4:]).round(3).to_string(index=False, header=seed == SEEDS[0]), flush=True)
    if not sys.argv[1:]:
        write_text(STORED, pd.DataFrame(lines).round(6).to_csv(index=False))


if __name__ == "__main__":
    main()
