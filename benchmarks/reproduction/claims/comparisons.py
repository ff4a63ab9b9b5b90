"""Comparisons of ReLAX with others, from which claims and targets are decided."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pandas as pd

from benchmarks.reproduction.claims.intervals import ZERO, Interval, Outcome, by_seed
from benchmarks.reproduction.plan import CAPS, LIMIT, PAIRS, SOME_CAPS
from benchmarks.reproduction.results import at_cap
from relax_plugin.evaluation.tasks import describe_tasks

Status = Literal["held", "held in part", "not held", "reversed", "compatible", "different", "not measured"]

LEAST_ROWS = 30  # over all seeds: fewer queries decide nothing, however much alike the seeds are


@dataclass(frozen=True)
class Claim:
    """One claim of the paper in our words, what became of it, and by how much."""

    source: str
    text: str
    status: Status
    evidence: str


@dataclass(frozen=True)
class Duel:
    """ReLAX-Global against one method, at one cap, on the queries that both were given."""

    task: str
    method: str
    cap: int
    ours: Interval
    theirs: Interval
    within: Interval  # of the differences within seeds, ReLAX less the other
    queries: float  # over all seeds

    @property
    def enough(self) -> bool:
        return self.queries >= LEAST_ROWS

    @property
    def outcome(self) -> Outcome:
        return self.ours.against(self.theirs) if self.enough else "overlap"

    @property
    def paired(self) -> Outcome:
        return self.within.against(ZERO) if self.enough else "overlap"

    @property
    def behind(self) -> bool:
        """Whether ReLAX is behind by more than its own standard deviation."""
        return bool(self.theirs.mean - self.ours.mean > np.nan_to_num(self.ours.deviation) + 1e-12)


def duels(sparsity: pd.DataFrame, methods: Iterable[str], ours: Literal["same", "alone"] = "same") -> list[Duel]:
    """Validity with at most k changes, for every pair of data set and model, method and cap that was measured.

    `ours` is ReLAX-Global with its default search ("same") or the agent alone, as in the paper ("alone"), which was run
    at some of the caps.
    """
    found = []
    caps = SOME_CAPS if ours == "alone" else CAPS
    for task in PAIRS:
        for method in methods:
            mine = sparsity[(sparsity["task"] == task) & (sparsity["method"] == method)]
            for cap in caps if len(mine) else ():
                lines = at_cap(mine, cap)
                relax, theirs = by_seed(lines, f"{ours}_validity@{cap}"), by_seed(lines, f"validity@{cap}")
                if theirs.count and relax.count == theirs.count:
                    within = Interval.of(lines[f"{ours}_validity@{cap}"] - lines[f"validity@{cap}"])
                    found.append(Duel(task, method, cap, relax, theirs, within, float(lines["instances"].sum())))
    return found


def counted(outcomes: Iterable[Outcome], what: str, whom: str = "ReLAX") -> tuple[Status, str]:
    """Status and words for many comparisons, of which "higher" is what the paper claims."""
    count = Counter(outcomes)
    total = sum(count.values())
    if total == 0:
        return "not measured", "nothing to compare"
    words = f"{what}: {count['higher']} of {total} intervals part for {whom}, {count['lower']} against it, "
    words += f"{count['overlap']} overlap"
    if count["higher"] == total:
        return "held", words
    if count["lower"] > count["higher"]:
        return "reversed", words
    return ("held in part" if count["higher"] else "not held"), words


def distances(lines: pd.DataFrame, name: str) -> tuple[Interval, Interval, Outcome, Outcome]:
    """L0 or L1 of ReLAX and of another method on the rows that both solved, and who is closer: "higher" is ReLAX.

    First by the two intervals, as everything here is decided; then by the interval of the differences within seeds,
    which the spread between splits does not blur. Below 30 common rows neither says anything.
    """
    ours, theirs = lines[f"common_{name}_ours"], lines[f"common_{name}"]
    mine, other = Interval.of(ours), Interval.of(theirs)
    if not enough_in_common(lines):
        return mine, other, "overlap", "overlap"
    return mine, other, other.against(mine), Interval.of(theirs - ours).against(ZERO)


def enough_in_common(lines: pd.DataFrame) -> bool:
    """Whether there are queries enough that both solved."""
    return bool(lines["common"].sum() >= LEAST_ROWS)


def within_seeds(outcomes: Iterable[Outcome]) -> str:
    """In words what the differences within seeds say."""
    count = Counter(outcomes)
    return f"by the differences within seeds {count['higher']} part for ReLAX, {count['lower']} against it"


def seconds_for_all(frame: pd.DataFrame, test_rows: float) -> Interval:
    """Seconds of fit and of so many rows, from the seconds of a row that were measured.

    A run that was ended took at least the time it was given for the rows it was given.
    """
    ended = frame["state"] == "timed out"
    each = frame["explain_seconds"].where(~ended, LIMIT) / frame["instances"]
    return Interval.of((frame["fit_seconds"].where(~ended, 0.0) + each * test_rows)[ended | (frame["state"] == "ok")])


def rows_for_all(frame: pd.DataFrame, test_rows: float) -> Interval:
    """Model rows of fit and of so many queries."""
    return Interval.of((frame["fit_rows"] + frame["rows"] * test_rows)[frame["state"] == "ok"])


def rows_to_explain(task: str, models: pd.DataFrame) -> int:
    """How many test rows a task has: all rows without those of training."""
    return _all_rows()[task] - int(models[models["task"] == task]["training_rows"].iloc[0])


@cache
def _all_rows() -> dict[str, int]:
    return {line["task"]: int(line["rows"]) for line in describe_tasks()}
