"""The report of a benchmark: its tidy rows as one HTML file that needs nothing else, neither network nor scripts."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation import tables
from relax_plugin.evaluation.schema import SUMMARY, Number
from relax_plugin.files import write_text
from relax_plugin.formatting import six_digits
from relax_plugin.pages import plots
from relax_plugin.pages.drawing import figure_class
from relax_plugin.pages.headline import WISHES, Chosen, choose, finding, finding_of_task, of_task
from relax_plugin.pages.html import PAGE_COLOURS, capitalised, inline, script_data, template
from relax_plugin.pages.palette import method_styles, short_names
from relax_plugin.pages.plots import CAPTION, arrow, by_answer, sign, trade_offs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


MOST_INSTANCES = 100  # of the first seed of each task: enough to look around, and the file stays small
MOST_SENTENCES = 8  # instances of each task that are also there without scripts


def explorer_data(rows: pd.DataFrame, methods: Sequence[str]) -> list[dict[str, Any]]:
    """For each task: names of features and methods, the queries, and the results by method and query.

    Everything is text or a plain number, so that a page has only to put it in place.
    """
    tasks = []
    for task, in_task in rows[rows["state"] == "ok"].groupby("task", sort=False):
        seed = int(in_task["seed"].min())
        mine = in_task[in_task["seed"] == seed]
        instances = sorted(set(mine["instance"].tolist()))
        kept = mine[mine["instance"].isin(instances[:MOST_INSTANCES])]
        asked = kept.drop_duplicates("instance")
        queries = {int(i): json.loads(text) for i, text in zip(asked["instance"], asked["query"], strict=True)}
        changed = [str(name) for text in kept["changes"] for name, _, _ in json.loads(text)]
        # A change may be of a one-hot group, which is no column of a query.
        features = list(dict.fromkeys([*map(str, next(iter(queries.values()))), *sorted(set(changed))]))
        order = sorted(queries)
        results = {
            method: _by_instance(kept[kept["method"] == method], features, order)
            for method in methods
            if (kept["method"] == method).any()
        }
        tasks.append(
            {
                "task": str(task),
                "seed": seed,
                "total": len(instances),
                "features": features,
                "instances": order,
                "queries": [_cells(queries[instance], features) for instance in order],
                "results": results,
                "typical": typical(kept, order),
            }
        )
    return tasks


def typical(rows: pd.DataFrame, order: Sequence[int]) -> int:
    """The position of the query to begin with: the median by the features that the methods change, on average.

    Of the queries that all methods solved, or if there is none, of those that most of them did; so that nobody looks
    good or bad there by chance.
    """
    valid = rows[rows["valid"].astype(bool)]
    if valid.empty:
        return 0
    by_query = valid.groupby("instance")["sparsity"].agg(["size", "mean"])
    solved_most = by_query.loc[by_query["size"] == by_query["size"].max(), "mean"].sort_index()
    ranked = solved_most.sort_values(kind="stable")
    return list(order).index(int(ranked.index[(len(ranked) - 1) // 2]))


def _cells(query: dict[str, Any], features: list[str]) -> list[str]:
    return [six_digits(query[name]) if name in query else "" for name in features]


def first_sentences(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sentences of the first queries of each task, for a reader without scripts."""
    return [
        {
            "task": task["task"],
            "lines": [
                (instance, method, results[position]["sentence"], results[position]["valid"])
                for position, instance in enumerate(task["instances"][:MOST_SENTENCES])
                for method, results in task["results"].items()
                if results[position] is not None
            ],
        }
        for task in data
    ]


def _by_instance(rows: pd.DataFrame, features: list[str], order: list[int]) -> list[dict[str, Any] | None]:
    """The results of a method in the order of the queries; None where it was not asked."""
    place = {name: i for i, name in enumerate(features)}
    found = {row["instance"]: _result(row, place) for row in rows.to_dict("records")}
    return [found.get(instance) for instance in order]


def _result(row: dict[Any, Any], place: dict[str, int]) -> dict[str, Any]:
    return {
        "valid": bool(row["valid"]),
        "sentence": capitalised(str(row["sentence"] if row["valid"] else f"No counterfactual; {row['reason']}.")),
        "before": str(row["before"]),
        "after": str(row["after"]),
        "probability": [_number(row["probability_before"], 4), _number(row["probability_after"], 4)],
        "changes": [
            [place[str(name)], six_digits(new), arrow(sign(old, new))] for name, old, new in json.loads(row["changes"])
        ],
        "sparsity": _number(row["sparsity"], 0),
        "proximity": _number(row["proximity"], 2),
        "rows": _number(row["rows"], 0),
    }


def _number(value: Any, digits: int) -> float | int | None:
    if not np.isfinite(value):
        return None
    return round(float(value), digits) if digits else int(value)


def write_report(
    rows: pd.DataFrame,
    path: Path,
    *,
    title: str,
    command: str | None = None,
    versions: Mapping[str, str] | None = None,
    machine: str | None = None,
    note: str | None = None,
) -> Path:
    """Write the report of tidy rows, as `runner.load_rows` gives them, as one file, whole or not at all.

    `command` is what to type to get the rows again; several lines are several commands. `note` is a sentence below the
    title.
    """
    text = render(rows, title=title, command=command, versions=versions, machine=machine, note=note)
    write_text(path, text)
    return path


def render(
    rows: pd.DataFrame,
    *,
    title: str,
    command: str | None = None,
    versions: Mapping[str, str] | None = None,
    machine: str | None = None,
    note: str | None = None,
) -> str:
    """The report as text; the same rows give the same text."""
    methods = list(dict.fromkeys(rows["method"]))
    columns = [column.key for column in (*QUALITY, *REALISM, *COST)]
    table = tables.summary(rows).reindex(columns=[*columns, "± validity", "± L0", "± L1"])
    legend = _legend(methods)
    explorer = explorer_data(rows, methods)
    return template("report.html.jinja").render(
        title=title,
        note=note,
        finding=finding(
            rows.assign(method=rows["method"].map(short_names(methods))),
            table.rename(index=short_names(methods), level="method"),
        ),
        size=_size(rows),
        checked=_checked(rows),
        overview=_overview(table) if len(_tasks(rows)) > 1 else None,
        tasks=[_task(rows, table, task, i, legend) for i, task in enumerate(_tasks(rows))],
        wishes=["Solves most", *(wish.name for wish in WISHES)],
        no_figures=_why_no_figures(),
        legend=legend,
        meanings=[(column.heading, column.meaning) for column in (*QUALITY, *REALISM, *COST)],
        explorer=explorer,
        explorer_json=script_data(explorer),
        sentences=first_sentences(explorer),
        failures=_collapsed(tables.failures(rows)),
        unsolved=_unsolved(rows),
        seeds=sorted(set(rows["seed"].tolist())),
        command=command,
        versions=dict(versions or {}),
        machine=machine,
    )


def _tasks(rows: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(rows["task"]))


def _overview(table: pd.DataFrame) -> dict[str, Any]:
    made = overview(table)
    return {**made, "alike": all_alike(made["lines"])}


def _size(rows: pd.DataFrame) -> dict[str, int]:
    units = rows.drop_duplicates(["task", "method", "seed"])["state"]
    return {
        "tasks": rows["task"].nunique(),
        "methods": rows["method"].nunique(),
        "seeds": rows["seed"].nunique(),
        "explanations": int((rows["instance"] >= 0).sum()),
        "failed": int(units.isin(["crashed", "timed out"]).sum()),
        "skipped": int((units == "skipped").sum()),
    }


def _checked(rows: pd.DataFrame) -> dict[str, Any]:
    broken = rows[rows["violations"].fillna(0) > 0]
    by_method = broken.groupby(["task", "method"], sort=False)["violations"].sum().reset_index()
    return {
        "delivered": int(rows["claimed"].sum()),
        "violations": int(broken["violations"].sum()),
        "offenders": by_method.to_dict("records"),
        "refuted": int((rows["claimed"].astype(bool) & ~rows["valid"].astype(bool)).sum()),
    }


def _why_no_figures() -> str:
    try:
        figure_class()
    except MissingExtraError as error:
        return str(error)  # tables are still worth a page
    return ""


def _task(rows: pd.DataFrame, table: pd.DataFrame, task: str, number: int, legend: dict[str, Any]) -> dict[str, Any]:
    mine, part = rows[rows["task"] == task], of_task(table, task)
    short = short_names(list(part.index))
    asked = part["instances"].dropna().unique()
    several = (part["found"] > 1).any()
    quality = [column for column in QUALITY if several or column.key not in OF_SEVERAL]
    realism = known(part, REALISM)
    draw = part["seeds"].any() and not _why_no_figures()
    chosen, by_answer_before = choose(mine, part), classes(mine)
    main, *more = _figures(mine, list(legend), number, chosen) if draw else [None]
    return {
        "name": task,
        "anchor": f"task-{number}",
        "finding": finding_of_task(mine.assign(method=mine["method"].map(short)), part.rename(index=short)),
        "chosen": chosen,
        "short": short,
        "core": {"columns": CORE, "lines": lines(part, CORE)},
        "main": main,
        "quality": {"columns": quality, "lines": lines(part, quality)},
        "realism": {"columns": realism, "lines": lines(part, realism)},
        "cost": {"columns": COST, "lines": lines(part, COST)},
        "classes": by_answer_before,
        "classes_alike": all_alike(by_answer_before["lines"]) if by_answer_before else None,
        "unequal": len(asked) > 1,
        "methods": list(part.index),
        "figures": more,
        "heat_maps": _heat_maps(mine, list(legend), number) if draw else [],
    }


def _figures(rows: pd.DataFrame, methods: Sequence[str], number: int, chosen: Chosen) -> list[dict[str, Any]]:
    """The pictures of a task with their captions, as SVG, the one that tells most first."""
    wanted = chosen.winners
    drawn = [
        (
            "rows",
            plots.quality(rows, methods, wanted=wanted),
            "Features changed on the queries that all methods solved, against the model rows a query costs, which are "
            "on a logarithmic scale. Further down and to the left is better; who solves fewer queries than the best "
            "has its share beside its name. A line joins one method at several budgets (bench --budgets).",
        ),
        (
            "tradeoff",
            plots.tradeoff(rows, methods, wanted=wanted, legend=False),
            "The share of queries solved when at most k features may change. Further up and to the left is better; "
            "bands are one standard deviation over seeds.",
        ),
        (
            "anytime",
            plots.anytime(rows, methods, wanted=wanted, legend=False),
            "The share of queries solved by searches that asked the model at most so many rows. Rows asked in fit are "
            "not in it; they stand in the table of cost.",
        ),
        (
            "pareto",
            plots.pareto(rows, methods, wanted=wanted),
            "Each method's validity against the mean distance of its own valid counterfactuals; the dotted line joins "
            "those that none beats in both. Bars are one standard deviation over seeds.",
        ),
        ("trade-offs", trade_offs(rows, methods, wanted=wanted), CAPTION),
    ]
    return [_figure(name, number, figure, caption) for name, figure, caption in drawn]


def _heat_maps(rows: pd.DataFrame, methods: Sequence[str], number: int) -> list[dict[str, Any]]:
    return [
        _figure(f"changed-{i}", number, plots.changed_features(part, methods), f"Changed features{answer}")
        for i, (answer, part) in enumerate(by_answer(rows))
        if len(part)
    ]


def _figure(name: str, number: int, figure: "Figure", caption: str) -> dict[str, Any]:
    return {"name": name, "svg": Markup(inline(figure, f"{name}-{number}", caption)), "caption": caption}


def _legend(methods: Sequence[str]) -> dict[str, Any]:
    return {
        method: {
            "colour": PAGE_COLOURS[style.colour],
            "marker": style.marker,
            "dashes": style.dashes,
            "filled": style.filled,
        }
        for method, style in method_styles(methods).items()
    }


def _collapsed(failures: pd.DataFrame) -> list[dict[str, Any]]:
    """Failures that differ in the seed only, as one line."""
    groups = failures.groupby(["task", "method", "state", "reason"], sort=False)["seed"]
    return [
        {"task": task, "method": method, "state": state, "reason": reason, "seeds": ", ".join(map(str, sorted(seeds)))}
        for (task, method, state, reason), seeds in groups
    ]


def _unsolved(rows: pd.DataFrame) -> list[dict[Hashable, Any]]:
    unsolved = rows[(rows["state"] == "ok") & ~rows["valid"].astype(bool)]
    counts = unsolved.groupby(["task", "method", "reason"], sort=False).size().rename("count").reset_index()
    return counts.sort_values("count", ascending=False, kind="stable").to_dict("records")


__all__ = ["render", "write_report"]
