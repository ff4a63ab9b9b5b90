"""Which method to choose, by what one wants: the sparsest, nearest, cheapest, quickest and most plausible of a task.

Methods are compared on the queries that all of those compared have solved, query by query. What is not parted by the
noise is called a tie: two methods of which the one is better by less than two standard errors of their differences.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from relax_plugin.formatting import count, hundredths, percents, three_digits
from relax_plugin.pages.headline import best_validity
from relax_plugin.pages.palette import short_names

ENOUGH = 0.9  # of the best validity: who solves less is not chosen for what it does with the rest
ERRORS = 2.0  # standard errors of a mean difference that part two methods
SAME_TIME = 1.2  # times that differ by less are the machine's, where there is one seed


@dataclass(frozen=True)
class Wish:
    """What one may want of a method: its name, the column of the rows that is to be small, and how it is told."""

    name: str
    column: str
    text: Callable[[float], str]
    unit: str
    meaning: str


WISHES = (
    Wish("Sparsest", "sparsity", hundredths, "features changed", "L0, mean over the common queries"),
    Wish("Nearest", "proximity", hundredths, "standard deviations away", "L1, mean over the common queries"),
    Wish(
        "Cheapest",
        "rows",
        count,
        "model rows a query",
        "mean over the common queries, without those asked once, in fit",
    ),
    Wish("Quickest", "milliseconds", three_digits, "ms a query", "wall time, without that of fit"),
    Wish(
        "Most plausible",
        "neighbour_distance",
        hundredths,
        "to its neighbours",
        "distance to the 5 nearest training rows of the answer reached, mean over the common queries",
    ),
)


@dataclass(frozen=True)
class Choice:
    """The answer to a wish."""

    wish: str
    methods: list[str]  # the best one, then those that the noise does not part from it
    number: str  # that of the best
    unit: str
    meaning: str
    note: str  # what has to be known besides: ties, the next best, the rows of fit


@dataclass(frozen=True)
class Chosen:
    """The choices of a task, who was not compared and why, and on how many queries."""

    choices: list[Choice]
    left_out: list[str]
    common: int

    @property
    def winners(self) -> list[str]:
        """Every method that is the best or tied in something, each once."""
        return list(dict.fromkeys(method for choice in self.choices for method in choice.methods))


def choose(rows: pd.DataFrame, part: pd.DataFrame) -> Chosen:
    """The choices of one task, from its tidy rows and its summary (`part`), which is indexed by method."""
    measured = part[(part["validity"] > 0) & (part["failed"] == 0)]
    if measured.empty:
        return Chosen([], [], 0)
    enough = measured[measured["validity"] >= ENOUGH * measured["validity"].max()]
    compared = [str(method) for method in enough.index]
    short = short_names([str(method) for method in part.index])
    left_out = [
        f"{short[str(method)]} ({percents(share)} solved)"
        for method, share in part["validity"].dropna().items()
        if method not in compared
    ]
    if len(compared) < 2:
        return Chosen([], left_out, 0)
    pairs = _paired(rows, compared)
    common = len(pairs["rows"])
    choices = [_most_solved(rows, enough, short)]
    choices += [_choice(wish, pairs[wish.column], enough, short) for wish in WISHES if len(pairs[wish.column])]
    return Chosen(choices, left_out, common)


def _paired(rows: pd.DataFrame, methods: Sequence[str]) -> dict[str, pd.DataFrame]:
    """For each wish a table of queries × methods, of the queries that all of these solved.

    Times are of a whole unit: one line for each seed.
    """
    mine = rows[rows["method"].isin(methods) & (rows["state"] == "ok")]
    solved = mine[mine["valid"].astype(bool)]
    made = {}
    for wish in WISHES:
        if wish.column == "milliseconds":
            units = mine.drop_duplicates(["method", "seed"])
            times = units.assign(milliseconds=1000 * units["explain_seconds"] / units["instances"].clip(lower=1))
            wide = times.pivot(index="seed", columns="method", values="milliseconds")
        else:
            wide = solved.pivot(index=["seed", "instance"], columns="method", values=wish.column)
        made[wish.column] = wide.reindex(columns=list(methods)).dropna()
    return made


def _most_solved(rows: pd.DataFrame, enough: pd.DataFrame, short: Mapping[str, str]) -> Choice:
    best = best_validity(rows, enough)
    top = enough["validity"].idxmax()
    first = [str(top), *(method for method in best if method != top)]
    rest = enough["validity"].drop(first)
    note = (
        f"next: {short[str(rest.idxmax())]}, {percents(rest.max())}"
        if len(rest)
        else "no method solves more than another"
    )
    text = percents(enough["validity"].max())
    return Choice("Solves most", first, text, "of the queries", "share of all queries with a valid one", note)


def _choice(wish: Wish, table: pd.DataFrame, enough: pd.DataFrame, short: Mapping[str, str]) -> Choice:
    means = table.mean()
    best = str(means.idxmin())
    tied = [str(other) for other in table.columns if other != best and _tie(wish, table[best], table[other])]
    tied.sort(key=lambda method: means[method])
    rest = means.drop([best, *tied])
    notes = [f"next: {short[str(rest.idxmin())]}, {wish.text(float(rest.min()))}"] if len(rest) else []
    if not len(rest):
        notes = ["no method differs from it by more than noise"]
    training, fit = (float(enough[name].astype(float)[best]) for name in ("training rows", "fit s"))
    if wish.column == "rows" and training > 0:
        notes.append(f"after {count(training)} in fit")
    if wish.column == "milliseconds":
        notes.append(f"after {three_digits(fit)} s of fit")
    return Choice(wish.name, [best, *tied], wish.text(float(means[best])), wish.unit, wish.meaning, "; ".join(notes))


def _tie(wish: Wish, best: "pd.Series[float]", other: "pd.Series[float]") -> bool:
    """Whether noise may have parted two methods, from their numbers query by query (times: seed by seed)."""
    differences = (other - best).to_numpy(dtype=np.float64)
    if len(differences) < 2:
        return bool(other.mean() <= SAME_TIME * best.mean()) if wish.column == "milliseconds" else False
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return bool(differences.mean() <= ERRORS * error)
