"""The figures about ReLAX itself: Markdown tables of what `relax-plugin figures` measured, from the lines it stored.

Every table of `TABLES` is a function of the lines of all measurements, as `stored` reads them. Ratios are against
greedy search on the instances that both solved; seconds are CPU seconds, except in the tables of `judged`, `inside` and
`slow`.
"""

from pathlib import Path

import pandas as pd

from benchmarks.figures import agent_tables, cost_tables, plausible_tables, real_tables, rival_tables
from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import (
    RATIOS,
    Table,
    TaskCell,
    at,
    beside,
    joined,
    shown,
    spread,
)
from benchmarks.stored import read_table
from relax_plugin.evaluation.store import Notes


def stored(folder: Path) -> pd.DataFrame:
    """The lines of the measurements that a folder holds, one below the other; the column `measurement` tells which."""
    parts = [pd.DataFrame(columns=["measurement"])]
    for what in measured.MEASUREMENTS:
        path = folder / f"{what}.csv"
        if path.exists():
            columns = ["task", "method", "seed", "state", *measured.KEPT]
            parts.append(read_table(path, columns, ("task", "method", "state")).assign(measurement=what))
    lines = pd.DataFrame(pd.concat(parts[1:] or parts, ignore_index=True))
    return lines.assign(method=lines["method"].map(in_current_options)) if len(lines) else lines


def in_current_options(method: str) -> str:
    """A method with options of version 0.2 by those of today: its stored measurements stay until they are repeated."""
    name, _, tail = method.partition(":")
    options = [option for option in tail.split(",") if option]
    kept = [option for option in options if not option.startswith(("fallback=", "rescue_rows="))]
    kept = [option.replace("rows_per_instance=", "max_queries=") for option in kept]
    if len(kept) < len(options) and not any(option.startswith("max_queries=") for option in kept):
        kept.insert(0, f"max_queries={40 if name in ('move-table', 'random-order') else 12}")  # their default of then
    return f"{name}:{','.join(kept)}" if kept else name


def notes(folder: Path) -> Notes:
    """With which commands, versions and machine the lines of a folder were made."""
    return Notes(folder / "about.json", ("command", "started", "machine"))


def _with_labels(training: str) -> TaskCell:
    """Effort refined, and in brackets the policy alone, where the model answers labels only."""
    policy, search = (measured.with_labels(training, effort) for effort in ("policy", "refined"))
    return lambda of: f"{joined(', ', VALIDITY, shown('L0 ratio', 2))(of(search))} [{VALIDITY(of(policy))}]"


VALIDITY = spread("validity", 3)
QUALITY = {"validity": VALIDITY, "L0": spread("L0", 2), "L1": spread("L1", 2)}
LABELLED = tuple(measured.with_labels(training, "refined") for training in ("model", "surrogate"))
EFFORTS = (measured.POLICY, measured.REFINED, measured.SEARCH)

TABLES: dict[str, Table] = {
    "judged": Table(
        "judged",
        "The seven tasks of the paper by default settings",
        QUALITY | {"L0 / L1, common": joined(" / ", shown("L0 common", 2), shown("L1 common", 2))},
    ),
    "judged_cost": Table(
        "judged",
        "The same: changes that can be reverted singly, and cost in wall seconds",
        {
            "redundant": shown("redundant", 2),
            "model rows a query": shown("rows", 1),
            "fit, s": shown("fit s", 1),
            "a query, ms": shown("ms each", 1),
        },
    ),
    "efforts": Table(
        "core",
        "ReLAX-Global at its three efforts",
        of_tasks={
            "policy: validity, L0 ratio, rows": at(
                measured.POLICY, joined(", ", VALIDITY, shown("L0 ratio", 2), shown("rows", 1))
            ),
            "refined: validity, L0 / L1 ratio, rows": at(measured.REFINED, joined(", ", RATIOS, shown("rows", 1))),
            "search: validity, L0 / L1 ratio, rows": at(measured.SEARCH, joined(", ", RATIOS, shown("rows", 1))),
        },
    ),
    "efforts_cost": Table(
        "core",
        "The same: model rows and seconds of the fit",
        of_tasks={
            f"{what}: policy / refined / search": beside(cell, *EFFORTS)
            for what, cell in (("training rows", shown("training rows", 0)), ("fit, s", shown("fit CPU s", 1)))
        },
    ),
    "masked": Table(
        "masked",
        "A random half of the features frozen at the call",
        of_tasks={
            "greedy: validity": at(measured.YARDSTICK, shown("validity", 3)),
            "policy: validity": at(measured.POLICY, shown("validity", 3)),
            "refined: validity": at(measured.REFINED, shown("validity", 3)),
            "table of moves: validity": at(measured.TABLE, shown("validity", 3)),
            "search: validity": at(measured.SEARCH, shown("validity", 3)),
        },
    ),
    "labels": Table(
        "labels",
        "The model asked for labels alone: validity and L0 ratio of refined, validity of the policy in brackets",
        of_tasks={
            "trained on the model (default)": _with_labels("model"),
            "on a surrogate model": _with_labels("surrogate"),
        },
    ),
    "labels_cost": Table(
        "labels",
        "The same: model rows and seconds",
        of_tasks={
            "training rows: model / surrogate": beside(shown("training rows", 0), *LABELLED),
            "rows a query: model / surrogate": beside(shown("rows", 0), *LABELLED),
            "fit: model / surrogate, s": beside(shown("fit CPU s", 1), *LABELLED),
        },
    ),
    "local": Table(
        "local",
        'Effort "policy" of both variants',
        {
            "validity": VALIDITY,
            "L0 / L1": joined(" / ", shown("L0", 2), shown("L1", 2)),
            "rows": shown("rows", 0),
            "fit + explain, s": joined(" + ", shown("fit CPU s", 1), shown("explain CPU s", 1)),
        },
        names={
            measured.POLICY: "global",
            measured.LOCAL: "local",
            measured.FROM_SCRATCH: "local, not pretrained",
        },
    ),
    "inside": Table(
        "inside",
        "The methods that look inside the model, beside those that do not",
        {"queries": shown("instances", 0)} | QUALITY,
    ),
    "inside_floor": Table(
        "inside",
        "The same: how far from the optimum, where that is known",
        {
            "floor known": shown("floor known", 1),
            "floor L0": shown("floor L0", 2),
            "at the floor L0": shown("at floor L0", 2),
            "L1 above its floor": shown("L1 above floor", 2),
        },
    ),
    "inside_cost": Table(
        "inside",
        "The same: model rows and wall time",
        {"model rows a query": shown("rows", 0), "a query, ms": shown("ms each", 1)},
    ),
    **agent_tables.TABLES,
    **rival_tables.TABLES,
    **plausible_tables.TABLES,
    **cost_tables.TABLES,
    **real_tables.TABLES,
}
