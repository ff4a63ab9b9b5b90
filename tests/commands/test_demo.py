"""The demo: on the task where the stored results of its methods differ most, whoever is best there."""

from pathlib import Path

import pandas as pd

from relax_plugin.commands.demo import METHODS, MOST_CHANGES, SLOW, TASK
from relax_plugin.evaluation.tasks import CORE_TASKS

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "paper" / "sparsity.csv"


def stored() -> pd.DataFrame:
    """Mean of the stored runs under the demo's limit of changes, of the demo's methods."""
    rows = pd.read_csv(STORED)
    rows = rows[(rows["cap"] == MOST_CHANGES) & (rows["state"] == "ok") & rows["method"].isin(METHODS)]
    rows = rows.assign(seconds=rows["explain_seconds"] / rows["instances"])
    return rows.groupby(["task", "method"])[["validity", "L0", "rows", "seconds", "fit_seconds"]].mean()


def test_the_demo_has_the_task_on_which_its_methods_differ_most() -> None:
    table = stored()
    assert set(METHODS) == set(table.loc[TASK].index)
    assert TASK in CORE_TASKS
    assert table["validity"].groupby("task").std().idxmax() == TASK
    assert table["rows"].groupby("task").std().idxmax() == TASK


def test_the_demo_takes_about_two_minutes() -> None:
    """By the stored seconds: two runs side by side, no longer than the longest one and half of all."""
    table = stored().loc[TASK]
    queries = pd.Series(SLOW).reindex(table.index).fillna(63)
    seconds = table["fit_seconds"] + queries * table["seconds"]
    assert max(seconds.max(), seconds.sum() / 2) < 120
