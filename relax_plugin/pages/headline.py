"""What a benchmark shows, in sentences that claim no more than its numbers; and which method to choose by a wish.

Methods are compared as pairs, the same query of the same seed for both, and not by their means: seeds differ more than
methods do. What differs by less than two standard errors of the mean difference is called a tie.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from relax_plugin.evaluation.ranks import ERRORS, SCORES, Score, by_query, paired
from relax_plugin.formatting import count, hundredths, percents, three_digits
from relax_plugin.pages.palette import short_names

NAMED = 3  # methods at most in a list, the others counted
SAME_COUNT = 0.05  # changed features: a twentieth of one is no difference that matters
SAME_ROWS = 1.1  # times the fewest model rows: what costs no more is called as cheap

VALID = next(score for score in SCORES if score.name == "valid")  # a run that failed has solved nothing
CHANGES = Score("changes", "features changed, of solved queries alone", "sparsity", float("nan"), False)


def finding(rows: pd.DataFrame, table: pd.DataFrame) -> str:
    """The sentence of a benchmark: of its only task, or over all tasks in how many each method is among the best.

    `table` is the summary of its tidy rows, by task and method.
    """
    tasks = list(dict.fromkeys(table.index.get_level_values("task")))
    if len(tasks) == 1:
        return finding_of_task(rows, of_task(table, tasks[0]))
    measured = {task: _measured(of_task(table, task)) for task in tasks}
    measured = {task: part for task, part in measured.items() if len(part) > 1}
    if not measured:
        return "No task was run by two methods, so there is nothing to compare."
    mine = {task: rows[rows["task"] == task] for task in measured}
    ran = Counter(method for part in measured.values() for method in part.index)
    solved = Counter(method for task, part in measured.items() for method in best_validity(mine[task], part))
    fewest = Counter(method for task, part in measured.items() for method in fewest_changes(mine[task], part))
    sentence = f"Most queries solved ({_compared(table)}): {_tally(solved, ran)}."
    if fewest:
        sentence += f" Fewest features changed, on queries that all methods of a task solved: {_tally(fewest, ran)}."
    cheapest = Counter(method for part in measured.values() for method in fewest_rows(part))
    if cheapest:
        sentence += f" Fewest model rows a query: {_tally(cheapest, ran)}."
    return sentence


def finding_of_task(rows: pd.DataFrame, part: pd.DataFrame) -> str:
    """The sentence of one task, from its rows; `part` is its summary, indexed by method."""
    measured = _measured(part)
    if measured.empty:
        return "No method could be measured."
    shares = measured["validity"]
    if len(measured) == 1:
        return f"{measured.index[0]} solves {_percent(shares.iloc[0])} of the queries."
    best = best_validity(rows, measured)
    if len(best) == len(measured):
        told = f"{_span(shares)}; {_compared(part)}"
        sentence = f"All {len(best)} methods solve about the same share of the queries ({told})."
    else:
        span = _span(shares[best])
        rest = shares.drop(best)
        solve = "solves" if len(best) == 1 else "solve"
        sentence = (
            f"{_names(best)} {solve} the most queries ({span}; {_compared(part)}), "
            f"then {rest.idxmax()} ({_percent(rest.max())})."
        )
    return " ".join(told for told in (sentence, _changes(rows, measured), _cost(measured)) if told)


def of_task(table: pd.DataFrame, task: str) -> pd.DataFrame:
    """The lines of one task, indexed by method."""
    return table[table.index.get_level_values("task") == task].droplevel("task")


def best_validity(rows: pd.DataFrame, measured: pd.DataFrame) -> list[str]:
    """The method that solves the most queries of a task, and those that it does not beat query by query."""
    top = str(measured["validity"].idxmax())
    beaten = [
        method
        for method in measured.index
        if method != top and any(pair.outcome == "better" for pair in paired(rows, top, str(method), VALID))
    ]
    return [str(method) for method in measured.index if method not in beaten]


def fewest_changes(rows: pd.DataFrame, measured: pd.DataFrame) -> list[str]:
    """The methods that change the fewest features on the common queries; none if there is nothing to compare.

    Those who change more, but not on enough of these queries to part them, are among them.
    """
    counts = _common_changes(measured)
    if len(counts) < 2:
        return []
    names = [str(method) for method in counts.index]
    common = by_query(rows[rows["method"].isin(names)], CHANGES)[names].dropna()
    more = common[names].sub(common[str(counts.idxmin())], axis=0)
    error = more.std(ddof=1).fillna(np.inf) / np.sqrt(max(len(more), 1))
    tied = more.mean() <= np.maximum(ERRORS * error, SAME_COUNT)
    return [name for name in names if tied[name] or counts[name] <= counts.min() + SAME_COUNT]


def fewest_rows(measured: pd.DataFrame) -> list[str]:
    """The methods that ask the model the fewest rows a query, or hardly more; none if there is nothing to compare."""
    rows = measured["rows"].dropna()
    return list(rows.index[rows <= SAME_ROWS * rows.min()]) if len(rows) > 1 else []


def _measured(part: pd.DataFrame) -> pd.DataFrame:
    return part[part["validity"].notna()]


def _common_changes(measured: pd.DataFrame) -> "pd.Series[float]":
    """Of methods without a failed run: the common queries of a seed are not those of all seeds."""
    return measured.loc[measured["failed"] == 0, "L0 common"].dropna()


def _changes(rows: pd.DataFrame, measured: pd.DataFrame) -> str:
    fewest = fewest_changes(rows, measured)
    if not fewest:
        return ""
    counts = _common_changes(measured)
    low, high, rest = counts[fewest].min(), counts[fewest].max(), counts.drop(fewest)
    span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    if rest.empty:
        return f"On the queries that all of them solved, they change about as many features ({span} on average)."
    change = "changes" if len(fewest) == 1 else "change"
    return (
        f"On the queries that all of them solved, {_names(fewest)} {change} the fewest features "
        f"({span} on average, the next {rest.min():.2f})."
    )


def _cost(measured: pd.DataFrame) -> str:
    rows, cheapest = measured["rows"].dropna(), fewest_rows(measured)
    if not cheapest:
        return ""
    if len(cheapest) == len(rows):
        return (
            f"A query costs about as many model rows with each of them ({_whole(rows.min())} to {_whole(rows.max())})."
        )
    training = measured.loc[cheapest, "training rows"].fillna(0.0)
    low, high = _whole(training.min()), _whole(training.max())
    before = f", after {low if low == high else f'{low} to {high}'} in fit" if training.max() > 0 else ""
    return (
        f"A query costs from {_whole(rows.min())} model rows ({_names(cheapest)}{before}) "
        f"to {_whole(rows.max())} ({rows.idxmax()})."
    )


def _whole(rows: float) -> str:
    return f"{rows:,.0f}"


def _compared(table: pd.DataFrame) -> str:
    seeds = set(table.loc[table["seeds"] > 0, "seeds"].astype(int))
    over = f" over {seeds.pop()} seeds" if len(seeds) == 1 and seeds != {1} else " of one seed" if seeds == {1} else ""
    return f"compared query by query{over}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _span(shares: "pd.Series[float]") -> str:
    low, high = _percent(shares.min()), _percent(shares.max())
    return high if low == high else f"{low} to {high}"


def _names(methods: Sequence[str]) -> str:
    if len(methods) > NAMED:
        return f"{', '.join(methods[:NAMED])} and {len(methods) - NAMED} more"
    return " and ".join([", ".join(methods[:-1]), methods[-1]]) if len(methods) > 1 else methods[0]


def _tally(wins: "Counter[str]", ran: "Counter[str]") -> str:
    order = sorted(ran, key=lambda method: (-wins[method], ran[method]))
    listed = [
        f"{method} on {wins[method]} of {ran[method]} task{'s' * (ran[method] > 1)}" for method in order if wins[method]
    ]
    others = len(listed) - NAMED
    more = f", {others} more method{'s' * (others > 1)} on some" if others > 0 else ""
    return ", ".join(listed[:NAMED]) + more


ENOUGH = 0.9  # of the best validity: who solves less is not chosen for what it does with the rest
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
