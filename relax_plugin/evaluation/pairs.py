"""Two methods compared as pairs: the same seeds, the same models, the same queries.

Seeds are splits and models of their own, and differ more than methods do. Two means over seeds hide in that what the
differences within seeds show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from relax_plugin.evaluation.ranks import Score, by_query

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
