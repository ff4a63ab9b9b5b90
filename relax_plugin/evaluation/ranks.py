"""What methods are ranked and compared by: a number of each query.

It is over *all* queries, an unsolved one counting as the worst, so that giving up does not look good.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Score:
    """What methods are ranked by: a number of each query."""

    name: str
    meaning: str
    column: str  # of the rows; NaN where there is no valid counterfactual
    unsolved: float | str  # what such a query counts instead; "features": as many as the task has
    high: bool  # more is better
    of_unit: bool = False  # the column is the same for all queries of a unit, of all of them together
    complement: bool = False  # 1 less the number counts


SCORES = (
    Score("valid", "queries with a valid counterfactual", "valid", 0.0, True),
    Score("changes", "features changed, an unsolved query counting all", "sparsity", "features", False),
    Score(
        "plausible", "queries with a valid counterfactual that is no outlier (LOF)", "local_outlier", 0.0, True,
        complement=True,
    ),
    Score("lasting", "share of models fitted again that agree, of an unsolved query none", "lasting", 0.0, True),
    Score("model rows", "model rows a query, those of fit apart", "rows", np.inf, False),
    Score("seconds", "wall seconds to fit and to explain all queries", "seconds", np.inf, False, of_unit=True),
)  # fmt: skip


def by_query(rows: pd.DataFrame, score: Score) -> pd.DataFrame:
    """A score of every query: a line for each task, seed and instance, a column for each method.

    A unit that crashed or timed out solved nothing. One that was skipped, or was not run, has NaN.
    """
    ran = rows[rows["state"] == "ok"]
    queries = ran[["task", "seed", "instance", "features"]].drop_duplicates(["task", "seed", "instance"])
    worst = queries["features"].to_numpy(dtype=np.float64) if score.unsolved == "features" else float(score.unsolved)
    made = queries[["task", "seed", "instance"]].copy()
    for method in dict.fromkeys(rows["method"]):
        mine = rows[rows["method"] == method]
        own = made.merge(_numbers(mine[mine["state"] == "ok"], score), "left", ["task", "seed", "instance"])["number"]
        units = mine.drop_duplicates(["task", "seed"])[["task", "seed", "state"]]
        state = queries[["task", "seed"]].merge(units, "left", ["task", "seed"])["state"].fillna("skipped").to_numpy()
        made[str(method)] = np.where(state == "skipped", np.nan, own.fillna(pd.Series(worst, own.index)))
    return made.set_index(["task", "seed", "instance"])


def _numbers(mine: pd.DataFrame, score: Score) -> pd.DataFrame:
    if score.column == "seconds":
        number = mine["fit_seconds"] + mine["explain_seconds"]
    else:
        number = mine[score.column].astype(np.float64)
    number = number if score.of_unit or score.column == "rows" else number.where(mine["valid"].astype(bool))
    return mine[["task", "seed", "instance"]].assign(number=1.0 - number if score.complement else number)
