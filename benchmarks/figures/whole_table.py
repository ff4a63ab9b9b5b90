"""What delivered rows of a benchmark break beside single limits, and how far methods are from brute force."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.figures.brute_force import stored_fewest
from relax_plugin.evaluation import metrics
from relax_plugin.evaluation.tasks import Task, load_task
from relax_plugin.evaluation.whole_rows import KINDS

BRUTE_TASKS = ("credit/xgb", "simplex/rf")  # small enough for every set of three features
BROKEN = tuple(kind.replace("_", " ") for kind in KINDS)
SHARE_BREAKING = "share breaking"  # of what is delivered, that breaks any of these
BRUTE_COLUMNS = ("brute validity", "brute L0", "L0 above brute")


def broken_by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Task, method, seed; how much of each of `KINDS` the delivered rows have, and the share of them that has any."""
    lines: list[tuple[Any, ...]] = []
    for key, unit in rows[rows["state"] == "ok"].groupby(["task", "method", "seed"], sort=False):
        delivered = unit[unit["claimed"]]
        breaks = delivered[list(KINDS)].sum(axis=1) > 0
        share = float(breaks.mean()) if len(delivered) else np.nan
        lines.append((*key, *(float(unit[kind].sum()) for kind in KINDS), share))
    return pd.DataFrame(lines, columns=["task", "method", "seed", *BROKEN, SHARE_BREAKING])


def brute_by_seed(rows: pd.DataFrame, folder: Path, load: Callable[[str, int], Task] = load_task) -> pd.DataFrame:
    """Task, method, seed; what brute force finds, and how many changes more the method's valid answers have.

    Parameters
    ----------
    rows : DataFrame
        Of a benchmark, as `runner.run` gives them.
    folder : path
        Of its results: what brute force finds is kept there.
    load : callable
        Gives the task of a name and a seed.
    """
    lines: list[tuple[Any, ...]] = []
    ran = rows[(rows["state"] == "ok") & rows["task"].isin(BRUTE_TASKS)]
    for key, units in ran.groupby(["task", "seed"], sort=False):
        name, seed = str(key[0]), int(str(key[1]))
        fewest = stored_fewest(load(name, seed), seed, int(units["instances"].max()), folder)
        for method, unit in units.groupby("method", sort=False):
            best = fewest[unit["instance"].to_numpy()]
            sparsity = unit["sparsity"].to_numpy()  # NaN where nothing valid was found
            known = best >= 0
            both = known & ~np.isnan(sparsity)
            above = metrics.mean_over(both, sparsity - best)
            lines.append((name, method, seed, float(known.mean()), metrics.mean_over(both, best.astype(float)), above))
    return pd.DataFrame(lines, columns=["task", "method", "seed", *BRUTE_COLUMNS])
