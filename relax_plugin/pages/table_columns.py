"""The tables of a report: which columns, what they mean, and numbers as people read them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation import tables

NOTHING = "\N{EN DASH}"
MOST_CLASSES = 8  # columns of the table of classes


@dataclass(frozen=True)
class Column:
    """A column of the summary: its heading, how its numbers are written, and what it means."""

    key: str
    heading: str
    text: Callable[[float], str]
    meaning: str
    best: str = ""  # "high" or "low" where the best is marked; "" where methods were measured on other queries


@dataclass(frozen=True)
class Cell:
    """A number as it is read, and as it is sorted by."""

    text: str
    value: float | None = None
    best: bool = False


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def hundredths(number: float) -> str:
    return f"{number:.2f}"


def tenths(number: float) -> str:
    return f"{number:,.1f}"


def count(number: float) -> str:
    return f"{number:,.0f}"


def digits(number: float) -> str:
    """Three digits, as times of a millisecond and of an hour stand in one column."""
    return f"{number:,.0f}" if number >= 99.95 else f"{number:#.3g}"


def exact(number: float) -> str:
    """Nothing but 0 reads as 0."""
    return f"{number:.3g}"


QUALITY = (
    Column(
        "validity", "validity", percent,
        "share of all queries with a valid counterfactual, which the model confirms and which violates no constraint; "
        "unsolved queries and failed runs count as 0", "high",
    ),
    Column("worst class", "worst class", percent, "validity over the queries of the class where it is lowest", "high"),
    Column(
        "L0", "L0", hundredths,
        "features changed, mean over the method's own valid counterfactuals: giving up on hard queries makes it lower",
    ),
    Column(
        "L1", "L1", hundredths,
        "distance in standard deviations, a changed category counting 1, over the method's own valid counterfactuals",
    ),
    Column("L0 common", "L0 common", hundredths, "features changed, over queries that all methods solved", "low"),
    Column("L1 common", "L1 common", hundredths, "distance, over the same common queries", "low"),
    Column("common", "common", tenths, "number of these common queries, mean over seeds"),
    Column(
        "violations", "violations", exact,
        "constraints violated by delivered counterfactuals, counted apart from the method; must be 0",
    ),
    Column("redundant", "redundant", hundredths, "changes of a counterfactual that could be reverted one at a time"),
    Column("inside box", "inside box", percent, "share of counterfactuals within the ranges of the training rows"),
    Column(
        "neighbours", "neighbours", hundredths,
        "distance to the 5 nearest training rows of the answer reached: lower is more plausible",
    ),
    Column("found", "found", hundredths, "counterfactuals found for a query; above 1 only where several are asked for"),
    Column("diversity", "diversity", hundredths, "mean distance between the counterfactuals of a query, if several"),
)  # fmt: skip
OF_SEVERAL = ("found", "diversity")  # columns that say nothing where one counterfactual is asked for
COST = (
    Column("training rows", "training rows", count, "rows the model was asked in fit, once", "low"),
    Column("rows", "rows a query", tenths, "rows the model was asked to explain one query, mean", "low"),
    Column("max changes", "changes at most", count, "the method's limit of changed features; \N{EN DASH}: none"),
    Column("calls", "calls", count, "calls of the model to explain all queries"),
    Column("fit s", "fit, s", digits, "wall seconds to prepare, once", "low"),
    Column("fit CPU s", "fit, CPU s", digits, "the same in CPU seconds", "low"),
    Column("explain s", "explain, s", digits, "wall seconds to explain all queries"),
    Column("explain CPU s", "explain, CPU s", digits, "the same in CPU seconds"),
    Column("ms each", "a query, ms", digits, "wall milliseconds to explain one query, fit not included", "low"),
    Column("in model", "in model", percent, "share of the seconds spent inside the model"),
    Column("instances", "queries", count, "test rows the method was asked to explain, for each seed"),
    Column("seeds", "seeds", count, "runs, each with its own split, model and random numbers"),
    Column("failed", "failed", count, "runs that crashed or took too long; they count as validity 0"),
    Column("skipped", "skipped", count, "runs for which the method does not apply; they count nowhere"),
)
SHARE = Column("validity", "", percent, "", "high")


def lines(part: pd.DataFrame, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The lines of a table of one task: a method and its cells.

    A method with a failed run has no other number of that seed than its validity, 0. It is not compared in the others.
    """
    whole = part[part["failed"] == 0]
    best = {c.key: _best((part if c.key == "validity" else whole)[c.key], c) for c in columns if c.best}
    made = []
    for method, numbers in part.iterrows():
        compared = best if method in whole.index else {}
        cells = [_cell(numbers, column, compared.get(column.key)) for column in columns]
        made.append({"method": method, "cells": cells, "measured": numbers["seeds"] > 0})
    return made


def classes(task: pd.DataFrame) -> dict[str, Any] | None:
    """Validity by the answer to be changed, from the rows of a task; None for a regressor or too many classes."""
    table = tables.by_class(task)
    labels = sorted(set(table["class"]))
    queries = task[task["instance"] >= 0].drop_duplicates(["seed", "instance"])["before"].value_counts()
    if not 1 < len(labels) <= MOST_CLASSES or 2 * len(labels) > queries.sum():
        return None
    nothing = pd.Series({"validity": np.nan})
    cells = {(line["method"], line["class"]): _cell(line, SHARE, None) for _, line in table.iterrows()}
    return {
        "labels": [(label, int(queries[label])) for label in labels],
        "lines": [
            {"method": method, "cells": [cells.get((method, label), _cell(nothing, SHARE, None)) for label in labels]}
            for method in dict.fromkeys(table["method"])
        ],
    }


def overview(table: pd.DataFrame) -> dict[str, Any]:
    """Validity of each method on each task, and the mean over tasks of those that ran on all."""
    shares = table["validity"].unstack("task", sort=False)
    shares = shares.reindex(index=list(dict.fromkeys(table.index.get_level_values("method"))))
    tasks = list(shares.columns)
    shares["mean"] = shares.mean(axis=1, skipna=False)
    best = {name: _best(shares[name], SHARE) for name in shares}
    made = [
        {"method": method, "cells": [_cell(pd.Series({"validity": share}), SHARE, best[name]) for name, share in line]}
        for method, line in ((method, line.items()) for method, line in shares.iterrows())
    ]
    return {"tasks": tasks, "lines": made}


def _cell(numbers: "pd.Series[Any]", column: Column, best: str | None) -> Cell:
    value = float(numbers[column.key])
    if not np.isfinite(value):
        return Cell(NOTHING)
    text, spread = column.text(value), numbers.get(f"± {column.key}", np.nan)
    with_spread = f"{text} ± {column.text(spread).rstrip('%')}" if np.isfinite(spread) else text
    return Cell(with_spread, value, text == best)


def _best(values: "pd.Series[Any]", column: Column) -> str | None:
    """The best value as it is written, so that what reads the same is marked the same; None if all read the same."""
    known = values.dropna()
    if known.map(column.text).nunique() < 2:
        return None
    return column.text(known.max() if column.best == "high" else known.min())
