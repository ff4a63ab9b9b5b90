"""Intervals over seeds, and when two of them part: the only sense in which anything here is called better."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import t as students_t

from relax_plugin.arrays import Floats

CONFIDENCE = 0.95

Outcome = Literal["higher", "lower", "overlap"]


@dataclass(frozen=True)
class Interval:
    """The mean of some seeds with its 95 % interval (Student's t); a single seed has no finite one."""

    mean: float
    low: float
    high: float
    deviation: float  # standard deviation over seeds, as the paper prints it
    count: int

    @classmethod
    def of(cls, values: "Sequence[float] | pd.Series[float] | Floats") -> "Interval":
        """The interval of the values that are numbers."""
        known = np.asarray(values, dtype=np.float64)
        known = known[np.isfinite(known)]
        count = len(known)
        if count == 0:
            return cls(np.nan, np.nan, np.nan, np.nan, 0)
        mean = float(known.mean())
        if count == 1:
            return cls(mean, -np.inf, np.inf, float("nan"), 1)
        deviation = float(known.std(ddof=1))
        half = _quantile(count - 1) * deviation / np.sqrt(count)
        return cls(mean, mean - half, mean + half, deviation, count)

    def against(self, other: "Interval") -> Outcome:
        """Whether this interval lies wholly above or below the other one. Two equal numbers without spread overlap."""
        if self.low > other.high:
            return "higher"
        if self.high < other.low:
            return "lower"
        return "overlap"

    def text(self, decimals: int = 2) -> str:
        """Mean ± standard deviation over seeds."""
        if self.count == 0:
            return "-"
        spread = f" ± {self.deviation:.{decimals}f}" if np.isfinite(self.deviation) else ""
        return f"{self.mean:.{decimals}f}{spread}"


@cache
def _quantile(freedom: int) -> float:
    return float(students_t.ppf(0.5 + CONFIDENCE / 2, freedom))


ZERO = Interval(0.0, 0.0, 0.0, 0.0, 1)  # to hold differences against


def by_seed(frame: pd.DataFrame, column: str) -> Interval:
    """The interval of a column over the seeds of a frame that has one line a seed; what was skipped is not in it.

    A case that crashed or timed out solved nothing: its validity is 0.
    """
    states, values = frame["state"].to_numpy(dtype=object), frame[column].to_numpy(np.float64, na_value=np.nan)
    if column.startswith("validity"):
        values = np.where(states == "ok", values, 0.0)
    return Interval.of(values[states != "skipped"])
