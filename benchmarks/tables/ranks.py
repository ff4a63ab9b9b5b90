"""Methods ranked over tasks: Friedman's test, and by how much ranks must differ (Demšar, JMLR 2006).

Means over tasks mislead, since a task where all numbers are large decides them. Ranks do not.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, studentized_range

from relax_plugin.evaluation.ranks import Score, by_query

ALPHA = 0.05


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
