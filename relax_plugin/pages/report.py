"""The report of a benchmark: its tidy rows as one HTML file that needs nothing else, neither network nor scripts."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation import tables
from relax_plugin.files import write_text
from relax_plugin.pages import plots, table_columns
from relax_plugin.pages.changes import by_answer
from relax_plugin.pages.choose import WISHES, Chosen, choose
from relax_plugin.pages.drawing import figure_class
from relax_plugin.pages.explorer import explorer_data, first_sentences
from relax_plugin.pages.headline import finding, finding_of_task, of_task
from relax_plugin.pages.html import script_data, template
from relax_plugin.pages.palette import method_styles, short_names
from relax_plugin.pages.svg import PAGE_COLOURS, inline
from relax_plugin.pages.table_columns import CORE, COST, QUALITY, REALISM
from relax_plugin.pages.trade_offs import CAPTION, trade_offs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    made = table_columns.overview(table)
    return {**made, "alike": table_columns.all_alike(made["lines"])}


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
    quality = [column for column in QUALITY if several or column.key not in table_columns.OF_SEVERAL]
    realism = table_columns.known(part, REALISM)
    draw = part["seeds"].any() and not _why_no_figures()
    chosen, classes = choose(mine, part), table_columns.classes(mine)
    main, *more = _figures(mine, list(legend), number, chosen) if draw else [None]
    return {
        "name": task,
        "anchor": f"task-{number}",
        "finding": finding_of_task(mine.assign(method=mine["method"].map(short)), part.rename(index=short)),
        "chosen": chosen,
        "short": short,
        "core": {"columns": CORE, "lines": table_columns.lines(part, CORE)},
        "main": main,
        "quality": {"columns": quality, "lines": table_columns.lines(part, quality)},
        "realism": {"columns": realism, "lines": table_columns.lines(part, realism)},
        "cost": {"columns": COST, "lines": table_columns.lines(part, COST)},
        "classes": classes,
        "classes_alike": table_columns.all_alike(classes["lines"]) if classes else None,
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
