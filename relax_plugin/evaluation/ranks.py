"""What methods are ranked and compared by: a number of each query, over *all* queries, an unsolved one being the worst.

Two methods are compared as pairs, the same query of the same seed: seeds are splits and models of their own, and differ
more than methods do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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


ERRORS = 2.0  # standard errors of the mean difference that part two methods

Outcome = Literal["better", "worse", "tied"]


@dataclass(frozen=True)
class Pairing:
    """How one method does against another on a task."""

    task: str
    difference: float  # mean over pairs of queries, so that above 0 the first is better
    error: float  # standard error of it
    pairs: int

    @property
    def outcome(self) -> Outcome:
        if not abs(self.difference) > ERRORS * self.error:
            return "tied"
        return "better" if self.difference > 0 else "worse"


def paired(rows: pd.DataFrame, one: str, other: str, score: Score) -> list[Pairing]:
    """The first method against the second on every task that both ran on, query by query of the same seeds.

    An unsolved query counts as the worst.
    """
    numbers = by_query(rows[rows["method"].isin([one, other])], score)
    if one not in numbers or other not in numbers:
        return []
    found = []
    for task, part in numbers[[one, other]].dropna().groupby("task", sort=False):
        found.append(_pairing(str(task), part[one].to_numpy(), part[other].to_numpy(), high=score.high))
    return found


def _pairing(
    task: str, one: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray, *, high: bool
) -> Pairing:
    with np.errstate(invalid="ignore"):
        differences = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    differences = np.where(np.isnan(differences), 0.0, differences)  # both failed: infinitely dear, and equally so
    differences = differences if high else -differences
    if np.isinf(differences).any():  # one of them failed a seed, the other did not
        return Pairing(task, float(np.sign(differences[np.isinf(differences)]).sum()) * np.inf, 0.0, len(differences))
    error = float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else float("inf")
    return Pairing(task, float(differences.mean()), error, len(differences))
