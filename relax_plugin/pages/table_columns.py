"""The tables of a report: which columns, and numbers as people read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation import tables
from relax_plugin.evaluation.schema import SUMMARY, Number

NOTHING = "\N{EN DASH}"
MOST_CLASSES = 8  # columns of the table of classes


@dataclass(frozen=True)
class Cell:
    """A number as it is read, and as it is sorted by."""

    text: str
    value: float | None = None
    best: bool = False


QUALITY = [
    SUMMARY[key]
    for key in (
        *("validity", "worst class", "L0", "L1", "L0 common", "L1 common", "common", "violations", "redundant"),
        *("inside box", "neighbours", "found", "diversity"),
    )
]
REALISM = [
    SUMMARY[key]
    for key in (
        *("LOF outliers", "real LOF outliers", "IF outliers", "real IF outliers", "yNN", "real yNN"),
        *("edge cells", "unseen cells", "probability", "lasting", "real lasting", "noise distance"),
        *("cost", "percentile shift", "broken rules"),
    )
]
OF_SEVERAL = ("found", "diversity")  # columns that say nothing where one counterfactual is asked for
COST = [
    SUMMARY[key]
    for key in (
        *("training rows", "rows", "max changes", "calls", "fit s", "fit CPU s", "explain s", "explain CPU s"),
        *("ms each", "in model", "instances", "seeds", "failed", "skipped"),
    )
]
CORE = [SUMMARY[key] for key in ("validity", "L0 common", "L1 common", "rows", "training rows", "ms each", "fit s")]
SHARE = SUMMARY["validity"]


def known(part: pd.DataFrame, columns: Sequence[Number]) -> list[Number]:
    """Those columns of which some method has a number."""
    return [column for column in columns if part[column.key].notna().any()]


def lines(part: pd.DataFrame, columns: Sequence[Number]) -> list[dict[str, Any]]:
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


def all_alike(lines: Sequence[dict[str, Any]]) -> str | None:
    """What every measured cell of a table reads, if all read the same; such a table says nothing more."""
    texts = {cell.text.partition(" ± ")[0] for line in lines for cell in line["cells"] if cell.value is not None}
    return texts.pop() if len(texts) == 1 else None


def overview(table: pd.DataFrame) -> dict[str, Any]:
    """Validity of each method on each task, and the mean over tasks of those that ran on all."""
    methods, tasks = (list(table.index.unique(level)) for level in ("method", "task"))
    shares = table["validity"].unstack("task").reindex(methods, columns=tasks)  # `sort=False` errs in pandas 2.2
    shares["mean"] = shares.mean(axis=1, skipna=False)
    best = {name: _best(shares[name], SHARE) for name in shares}
    made = [
        {"method": method, "cells": [_cell(pd.Series({"validity": share}), SHARE, best[name]) for name, share in line]}
        for method, line in ((method, line.items()) for method, line in shares.iterrows())
    ]
    return {"tasks": tasks, "lines": made}


def _cell(numbers: "pd.Series[Any]", column: Number, best: str | None) -> Cell:
    value = float(numbers[column.key])
    if not np.isfinite(value):
        return Cell(NOTHING)
    text, spread = column.text(value), numbers.get(f"± {column.key}", np.nan)
    with_spread = f"{text} ± {column.text(spread).rstrip('%')}" if np.isfinite(spread) else text
    return Cell(with_spread, value, text == best)


def _best(values: "pd.Series[Any]", column: Number) -> str | None:
    """The best value as it is written, so that what reads the same is marked the same; None if all read the same."""
    known = values.dropna()
    if known.map(column.text).nunique() < 2:
        return None
    return column.text(known.max() if column.best == "high" else known.min())
