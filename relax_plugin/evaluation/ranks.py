"""Methods ranked over tasks: Friedman's test, and by how much ranks must differ (Demšar, JMLR 2006).

Means over tasks mislead, since a task where all numbers are large decides them. Ranks do not; and what two methods are
ranked by here is over *all* queries, an unsolved one counting as the worst, so that giving up does not look good.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, studentized_range

ALPHA = 0.05


@dataclass(frozen=True)
class Score:
    """What methods are ranked by: a number of each query.

    Parameters
    ----------
    name, meaning : str
    column : str
        Of the rows; NaN where there is no valid counterfactual.
    unsolved : float, or "features"
        What such a query counts instead: a number, or as many as the task has features.
    high : bool
        Whether more is better.
    of_unit : bool
        Whether the column is the same for all queries of a unit, of all of them together.
    complement : bool
        Whether 1 less the number counts.
    """

    name: str
    meaning: str
    column: str
    unsolved: float | str
    high: bool
    of_unit: bool = False
    complement: bool = False


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


def by_task(rows: pd.DataFrame, score: Score) -> pd.DataFrame:
    """The mean of a score over the queries of a task, all seeds together: a line for each task, a column a method."""
    return by_query(rows, score).groupby("task", sort=False).mean()


def ranked(table: pd.DataFrame, *, high: bool) -> pd.DataFrame:
    """The rank of each method on each task, 1 the best, ties sharing theirs; of methods that ran on every task."""
    whole = table.dropna(axis=1)
    return whole.rank(axis=1, ascending=not high)


def friedman(ranks: pd.DataFrame) -> tuple[float, float]:
    """Friedman's statistic, and the probability of ranks so different if no method were better than another.

    NaN where it cannot be told: with fewer than three methods or two tasks, or where all are tied.
    """
    if ranks.shape[1] < 3 or len(ranks) < 2 or bool((ranks.nunique(axis=1) == 1).all()):
        return float("nan"), float("nan")
    found = friedmanchisquare(*(ranks[method] for method in ranks))
    return float(found.statistic), float(found.pvalue)


def critical_difference(methods: int, tasks: int, alpha: float = ALPHA) -> float:
    """By how much the mean ranks of two of several methods must differ not to be chance (Nemenyi).

    q √(k (k + 1) / 6 N), where q is the studentized range of k means with infinite degrees of freedom, over √2.
    """
    if methods < 2 or tasks < 1:
        return float("nan")
    q = float(studentized_range.ppf(1.0 - alpha, methods, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(methods * (methods + 1) / (6.0 * tasks)))


def groups(means: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """The widest runs of sorted mean ranks, first and last of each, that differ by less than so much."""
    found: list[tuple[int, int]] = []
    for first in range(len(means)):
        last = max(at for at in range(first, len(means)) if means[at] - means[first] < difference or at == first)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _numbers(mine: pd.DataFrame, score: Score) -> pd.DataFrame:
    """The score of each query of a method, NaN where it has none."""
    if score.column == "seconds":
        number = mine["fit_seconds"] + mine["explain_seconds"]
    else:
        number = mine[score.column].astype(np.float64)
    number = number if score.of_unit or score.column == "rows" else number.where(mine["valid"].astype(bool))
    return mine[["task", "seed", "instance"]].assign(number=1.0 - number if score.complement else number)
