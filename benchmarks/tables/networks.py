"""How many proofs of networks end in time: `python -m benchmarks.tables.networks`, up to an hour of CPU.

For some test rows of each task: the fewest features that have to change (and the nearest row with so few), and the
least distance with any number of changes, within 10 seconds a row, and within 60 where that was not enough. What was
seen is in results/networks.csv.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from relax_plugin.evaluation.tasks import load_task
from relax_plugin.files import write_text
from relax_plugin.networks.floor import NetworkFloor, floor, least_distance

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "networks.csv"
TASKS = ("breast_cancer/mlp", "boston/mlp", "sonar/mlp")
LIMITS = (10.0, 60.0)  # seconds a row
MOST_CHANGES = 5
WITHIN = 1e-3  # relative difference of a distance and what is proved of it that counts as none
ROWS = {"fewest": 20, "least distance": 6}  # test rows of each question
QUESTIONS: dict[str, Callable[..., NetworkFloor]] = {
    "fewest": partial(floor, most_changes=MOST_CHANGES),
    "least distance": least_distance,
}


def look_at(name: str, question: str) -> Iterator[dict[str, Any]]:
    """A line for each row and limit; a proof that ends within the first limit ends within the second."""
    task = load_task(name)
    rows = task.X_test.iloc[: ROWS[question]]
    for row in range(len(rows)):
        known: dict[str, Any] = {}
        for limit in LIMITS:
            if not known or not known["proved"] or not known["closest"]:
                told = QUESTIONS[question](task.model, task.space, rows.iloc[[row]], task.goal, seconds_per_row=limit)
                proved = told.changes[0] == told.proved[0] and told.changes[0] > 0
                closest = bool(told.closest[0])
                if question == "least distance":
                    proved = closest = bool(told.distance[0] <= told.at_least[0] * (1 + WITHIN))
                known = {
                    "proved": bool(proved),
                    "closest": closest,
                    "changes": int(told.changes[0]),
                    "no fewer than": int(told.proved[0]),
                    "distance": told.distance[0],
                    "at least": told.at_least[0],
                    "seconds": told.seconds[0],
                    "note": told.notes[0],
                }
            yield {"task": name, "question": question, "row": row, "limit": limit, **known, "load": os.getloadavg()[0]}


def main() -> None:
    """Look at every task and question, and store the lines."""
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    for question in QUESTIONS:
        for name in sys.argv[1:] or TASKS:
            for line in look_at(name, question):
                lines.append(line)
                print(pd.DataFrame([line]).round(3).to_string(index=False, header=len(lines) == 1), flush=True)
            write_text(STORED, pd.DataFrame(lines).round(6).to_csv(index=False))


if __name__ == "__main__":
    main()
