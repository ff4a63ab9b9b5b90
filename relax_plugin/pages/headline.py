"""What a benchmark shows, in sentences that claim no more than its numbers: ties within the spread are called ties."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

NAMED = 3  # methods at most in a list, the others counted
SAME_SHARE = 0.0005  # validities that read the same in the table
SAME_COUNT = 0.05  # changed features: a twentieth of one is no difference that matters
SAME_ROWS = 1.1  # times the fewest model rows: what costs no more is called as cheap


def finding(table: pd.DataFrame) -> str:
    """The sentence of a summary: of its only task, or over all tasks in how many each method is among the best."""
    tasks = list(dict.fromkeys(table.index.get_level_values("task")))
    if len(tasks) == 1:
        return finding_of_task(of_task(table, tasks[0]))
    measured = {task: _measured(of_task(table, task)) for task in tasks}
    measured = {task: part for task, part in measured.items() if len(part) > 1}
    if not measured:
        return "No task was run by two methods, so there is nothing to compare."
    ran = Counter(method for part in measured.values() for method in part.index)
    solved = Counter(method for part in measured.values() for method in best_validity(part))
    fewest = Counter(method for part in measured.values() for method in fewest_changes(part))
    sentence = f"Most queries solved ({_spread(table)}): {_tally(solved, ran)}."
    if fewest:
        sentence += f" Fewest features changed, on queries that all methods of a task solved: {_tally(fewest, ran)}."
    cheapest = Counter(method for part in measured.values() for method in fewest_rows(part))
    if cheapest:
        sentence += f" Fewest model rows a query: {_tally(cheapest, ran)}."
    return sentence


def finding_of_task(part: pd.DataFrame) -> str:
    """The sentence of one task; `part` is indexed by method."""
    measured = _measured(part)
    if measured.empty:
        return "No method could be measured."
    shares = measured["validity"]
    best = best_validity(measured)
    if len(measured) == 1:
        return f"{measured.index[0]} solves {_percent(shares.iloc[0])} of the queries."
    if len(best) == len(measured):
        told = f"{_span(shares)}; {_spread(part)}"
        sentence = f"All {len(best)} methods solve about the same share of the queries ({told})."
    else:
        span = _span(shares[best])
        rest = shares.drop(best)
        solve = "solves" if len(best) == 1 else "solve"
        sentence = (
            f"{_names(best)} {solve} the most queries ({span}; {_spread(part)}), "
            f"then {rest.idxmax()} ({_percent(rest.max())})."
        )
    return " ".join(part for part in (sentence, _changes(measured), _cost(measured)) if part)


def of_task(table: pd.DataFrame, task: str) -> pd.DataFrame:
    """The lines of one task, indexed by method."""
    return table[table.index.get_level_values("task") == task].droplevel("task")


def best_validity(measured: pd.DataFrame) -> list[str]:
    """The methods whose validity is the highest, or less than a standard deviation (the larger one) below it.

    A run that failed makes a large deviation; it is no excuse.
    """
    top = measured.iloc[int(measured["validity"].argmax())]
    below = top["validity"] - measured["validity"]
    spread = np.fmax(measured["± validity"].fillna(0.0).to_numpy(), np.nan_to_num(top["± validity"]))
    spread = np.where(measured["failed"] == 0, spread, 0.0)
    return list(measured.index[below.to_numpy() <= np.maximum(spread, SAME_SHARE)])


def fewest_changes(measured: pd.DataFrame) -> list[str]:
    """The methods that change the fewest features on the common queries; none if there is nothing to compare."""
    counts = _common_changes(measured)
    return list(counts.index[counts <= counts.min() + SAME_COUNT]) if len(counts) > 1 else []


def fewest_rows(measured: pd.DataFrame) -> list[str]:
    """The methods that ask the model the fewest rows a query, or hardly more; none if there is nothing to compare."""
    rows = measured["rows"].dropna()
    return list(rows.index[rows <= SAME_ROWS * rows.min()]) if len(rows) > 1 else []


def _measured(part: pd.DataFrame) -> pd.DataFrame:
    return part[part["validity"].notna()]


def _common_changes(measured: pd.DataFrame) -> "pd.Series[float]":
    """Of methods without a failed run: the common queries of a seed are not those of all seeds."""
    return measured.loc[measured["failed"] == 0, "L0 common"].dropna()


def _changes(measured: pd.DataFrame) -> str:
    fewest = fewest_changes(measured)
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
    """What a query costs, from the cheapest to the dearest, and what the cheapest ones asked before."""
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


def _spread(table: pd.DataFrame) -> str:
    seeds = set(table.loc[table["seeds"] > 0, "seeds"].astype(int))
    if seeds <= {1}:
        return "one seed, so the spread is unknown"
    return f"within the spread over {seeds.pop()} seeds" if len(seeds) == 1 else "within the spread over seeds"


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
    """Methods with the number of tasks on which they are among the best, of those they ran on."""
    order = sorted(ran, key=lambda method: (-wins[method], ran[method]))
    listed = [
        f"{method} on {wins[method]} of {ran[method]} task{'s' * (ran[method] > 1)}" for method in order if wins[method]
    ]
    others = len(listed) - NAMED
    more = f", {others} more method{'s' * (others > 1)} on some" if others > 0 else ""
    return ", ".join(listed[:NAMED]) + more
