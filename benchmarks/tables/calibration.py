"""Hold methods against the packages of their authors, row by row: docs/results/calibration.csv.

    pip install --no-deps --target FOLDER NICEx==0.2.3
    python -m benchmarks.tables.calibration --nicex FOLDER

NICEx wants older versions of numpy and pandas than this package, but runs with newer ones: hence the folder of its own.
It is asked without true labels (`justified_cf=False`), with the same training rows and, for the reward "plausibility",
the same autoencoder. `same` is the share of rows on which all cells of the counterfactuals agree.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.baselines.nice import REWARDS, Nice
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.files import write_text

OUT = Path(__file__).resolve().parents[2] / "docs" / "results" / "calibration.csv"
TASKS = ("breast_cancer/mlp", "diabetes/ada", "german/rf", "wave2/xgb")
ROWS = 25  # test rows of each task at most
VERSION = "NICEx 0.2.3"


def compared(task_name: str, reward: str, theirs: Any) -> dict[str, Any]:
    """One line: how many counterfactuals of `nice` are those of NICEx, cell by cell, and what both cost."""
    task = load_task(task_name)
    explainer = Nice(task.model, reward=reward).fit(task.X_train)  # without the constraints, of which NICEx knows none
    space, queries = explainer.space_, task.X_test[:ROWS]
    found = explainer.explain(queries)
    training, start = space.values(task.X_train), found.start

    def predict(values: Any) -> Any:
        return task.model.predict_proba(space.model_input(np.asarray(values, dtype=np.float64)))

    categories = np.flatnonzero(space.is_categorical).tolist()
    network = explainer.autoencoder_
    made = theirs(
        predict,
        training.copy(),
        categories,
        optimization=reward,
        justified_cf=False,
        auto_encoder=None if network is None else network.error,
    )
    rows = np.concatenate([made.explain(row[None].copy()) for row in start]).astype(np.float64)
    ours = found.values[:, 0]
    turned = predict(rows).argmax(axis=1) != predict(start).argmax(axis=1)
    return {
        "method": "nice",
        "options": f"reward={reward}",
        "against": VERSION,
        "task": task_name,
        "rows": len(start),
        "same": float((rows == ours).all(axis=1).mean()),
        "valid": float(found.found[:, 0].mean()),
        "valid, theirs": float(turned.mean()),
        "changes": float((ours != start).sum(axis=1).mean()),
        "changes, theirs": float((rows != start).sum(axis=1).mean()),
        "distance": float(space.distance(ours, start).mean()),
        "distance, theirs": float(space.distance(rows, start).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Hold nice against NICEx; writes docs/results/calibration.csv.")
    parser.add_argument("--nicex", required=True, help="folder in which NICEx is installed")
    sys.path.insert(0, parser.parse_args().nicex)
    from nice import NICE

    lines = [compared(task, reward, NICE) for task in TASKS for reward in REWARDS]
    table = pd.DataFrame(lines)
    print(table.to_string(index=False))
    write_text(OUT, table.to_csv(index=False, float_format="%.6g"))


if __name__ == "__main__":
    main()
