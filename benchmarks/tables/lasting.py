"""How many answers last when a model is fitted again: `python -m benchmarks.tables.lasting`, some minutes of CPU.

Test rows are explained by default, with a probability of at least .9 asked for, and with two further models for which
answers must hold too. Then the model is fitted again, on bootstrap samples of its training rows and with other seeds,
and each answer is asked of these models, which no search has seen. What was seen is in results/lasting.csv.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin import Goal, ReLAX
from relax_plugin.evaluation.robustness import refit
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.files import write_text

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "lasting.csv"
TASKS = ("breast_cancer/rf", "diabetes/ada", "wave2/xgb", "sonar/mlp", "german/rf")
SEEDS, ROWS = range(5), 60
FURTHER, AGAIN = 2, 10  # models that are named to the search, and models that judge it
SURE = 0.9
LIMIT = 5  # changes


def look_at(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One line for each way of asking."""
    task = load_task(name, seed)
    again = [refit(task, 1000 * seed + number) for number in range(1, FURTHER + AGAIN + 1)]
    explainer = ReLAX(task.model, task.space, max_changes=LIMIT, seed=seed).fit(task.X_train)
    ways: dict[str, dict[str, Any]] = {
        "by default": {},
        f"min_probability={SURE}": {"goal": Goal.flip(min_probability=SURE)},
        f"also={FURTHER} models fitted again": {"also": again[:FURTHER]},
    }
    for way, said in ways.items():
        result = explainer.explain(task.X_test.iloc[:ROWS], **said)
        rows, query = result.frame[task.space.columns], result.frame["query_id"].to_numpy()
        wanted = result.after[query, 0]
        models = again[FURTHER:] if len(rows) else []  # AdaBoost is never so sure
        lasts = [(np.asarray(model.predict(rows)) == wanted).mean() for model in models] or [np.nan]
        yield {
            "task": name,
            "seed": seed,
            "way": way,
            "validity": result.found[:, 0].mean(),
            "lasts": np.mean(lasts),
            "changes": np.nanmean(result.sparsity[:, 0]) if len(rows) else np.nan,
            "distance": np.nanmean(result.proximity[:, 0]) if len(rows) else np.nan,
            "rows": result.rows_queried.mean(),
            "further rows": 0.0 if result.rows_also is None else result.rows_also.mean(),
        }


def main() -> None:
    """Look at every task and seed, and store the lines."""
    warnings.simplefilter("ignore")
    lines = []
    for name in sys.argv[1:] or TASKS:
        for seed in SEEDS:
            lines += list(look_at(name, seed))
            print(pd.DataFrame(lines[-3:]).round(3).to_string(index=False, header=seed == SEEDS[0]), flush=True)
    write_text(STORED, pd.DataFrame(lines).round(6).to_csv(index=False))


if __name__ == "__main__":
    main()
