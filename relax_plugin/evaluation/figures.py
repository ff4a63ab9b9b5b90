"""The figures about ReLAX itself: Markdown tables of what `relax-plugin figures` measured, from the lines it stored.

Every table of `TABLES` is a function of the lines of all measurements, as `stored` reads them. Ratios are against
greedy search on the instances that both solved; seconds are CPU seconds, except in the tables of `judged`, `inside` and
`slow`.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from relax_plugin.evaluation import agent_tables, cost_tables, plausible_tables, real_tables, rival_tables
from relax_plugin.evaluation import measurements as measured
from relax_plugin.evaluation.figure_table import (
    RATIOS,
    Cell,
    Methods,
    Table,
    Target,
    TaskCell,
    at,
    beside,
    joined,
    number_of,
    shown,
    spread,
)
from relax_plugin.evaluation.metrics import break_even, total_rows
from relax_plugin.evaluation.store import Notes, read_table
from relax_plugin.evaluation.tables import whole

INSTANCES = (1, 10, 100, 1_000, 10_000)
AMORTISED = {
    measured.YARDSTICK: "greedy",
    "move-table": "move-table",
    "surrogate-search": "surrogate-search",
    measured.BY_RANKING: "ReLAX, model",
    measured.SEARCH: "ReLAX, imagined",
}
"""The methods whose model rows are added up, and what they are called beside each other."""


def stored(folder: Path) -> pd.DataFrame:
    """The lines of the measurements that a folder holds, one below the other; the column `measurement` tells which."""
    parts = [pd.DataFrame(columns=["measurement"])]
    for what in measured.MEASUREMENTS:
        path = folder / f"{what}.csv"
        if path.exists():
            columns = ["task", "method", "seed", "state", *measured.KEPT]
            parts.append(read_table(path, columns, ("task", "method", "state")).assign(measurement=what))
    return pd.DataFrame(pd.concat(parts[1:] or parts, ignore_index=True))


def notes(folder: Path) -> Notes:
    """With which commands, versions and machine the lines of a folder were made."""
    return Notes(folder / "about.json", ("command", "started", "machine"))


def amortised_rows(lines: pd.DataFrame) -> pd.DataFrame:
    """What `plots.amortisation` draws: the model rows of training and of a query, for each task and method."""
    means = TABLES["amortised"].means(lines)[["training rows", "rows"]]
    means = means[means.index.get_level_values("method").isin(list(AMORTISED))]
    return pd.DataFrame(means.rename(index=AMORTISED, level="method"))


def _total(instances: int, text: Callable[[float], str] = whole) -> Cell:
    return lambda of: text(float(total_rows(of["training rows"], of["rows"], instances)))


def _short(rows: float) -> str:
    """A large number in thousands."""
    return f"{rows / 1000:,.0f}k" if rows >= 100_000 else whole(rows)


def _break_even(method: str) -> TaskCell:
    """Instances from which on a method has asked fewer rows than greedy search."""
    costs = ("training rows", "rows")
    return lambda of: whole(break_even(*(of(name)[cost] for name in (method, measured.YARDSTICK) for cost in costs)))


def _beyond_greedy(of: Methods) -> float:
    return of(measured.SEARCH)["validity"] - of(measured.YARDSTICK)["validity"]


def _with_labels(training: str) -> TaskCell:
    """The search, and in brackets the policy alone, where the model answers labels only."""
    policy, search = (measured.with_labels(training, effort) for effort in ("policy", "search"))
    return lambda of: f"{joined(', ', VALIDITY, shown('L0 ratio', 2))(of(search))} [{VALIDITY(of(policy))}]"


VALIDITY = spread("validity", 3)
QUALITY = {"validity": VALIDITY, "L0": spread("L0", 2), "L1": spread("L1", 2)}
AGENTS = (measured.BY_RANKING, measured.SEARCH)
LABEL_SEARCHES = tuple(measured.with_labels(training, "search") for training in ("model", "imagined"))

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
        "ReLAX-Global at its four efforts",
        of_tasks={
            "policy: validity, L0 ratio, rows": at(
                measured.POLICY, joined(", ", VALIDITY, shown("L0 ratio", 2), shown("rows", 1))
            ),
            "plan: validity, L0 ratio, rows": at(
                measured.PLAN, joined(", ", VALIDITY, shown("L0 ratio", 2), shown("rows", 1))
            ),
            "refined: validity, L0 / L1 ratio, rows": at(measured.REFINED, joined(", ", RATIOS, shown("rows", 1))),
            "search: validity, L0 / L1 ratio, rows": at(measured.SEARCH, joined(", ", RATIOS, shown("rows", 1))),
            "with 40 rows: L1 ratio, rows": at(measured.RICHER, joined(", ", shown("L1 ratio", 3), shown("rows", 1))),
        },
    ),
    "efforts_cost": Table(
        "core",
        "The same: model rows and seconds of the fit",
        of_tasks={
            f"{what}: policy / plan / search": beside(cell, measured.POLICY, measured.PLAN, measured.SEARCH)
            for what, cell in (("training rows", shown("training rows", 0)), ("fit, s", shown("fit CPU s", 1)))
        },
    ),
    "controls": Table(
        "core",
        "The search by a ranking of actions, 40 rows, no fallback, and what ranks them: validity and L0 ratio",
        of_tasks={
            name: at(method, joined(", ", shown("validity", 3), shown("L0 ratio", 2)))
            for name, method in zip(
                ("trained agent", "table of moves", "random order", "untrained network"), measured.CONTROLS, strict=True
            )
        },
    ),
    "imagination": Table(
        "imagination",
        "Trained on the model and in imagination, beside all that needs no agent: validity, L0 / L1 ratio",
        of_tasks={
            "greedy: validity, L0, L1": at("greedy", joined(", ", shown("validity", 3), shown("L0", 2), shown("L1", 2)))
        }
        | {name: at(method, RATIOS) for method, name in AMORTISED.items() if method != measured.YARDSTICK},
    ),
    "imagination_cost": Table(
        "imagination",
        "The same: model rows for 100 instances, instances to break even with greedy search, seconds",
        of_tasks={
            "rows for 100: greedy / model / imagined": beside(_total(100), measured.YARDSTICK, *AGENTS),
            "break-even: model": _break_even(measured.BY_RANKING),
            "break-even: imagined": _break_even(measured.SEARCH),
            "fit: model / imagined, s": beside(shown("fit CPU s", 1), *AGENTS),
            "explain: model / imagined, s": beside(shown("explain CPU s", 1), *AGENTS),
        },
    ),
    "imagination_policy": Table(
        "imagination",
        "Validity of the agent alone by what it was trained on; the search with an agent that was trained in any case",
        of_tasks={
            "policy, model": at(measured.POLICY_ON_THE_MODEL, shown("validity", 3)),
            "policy, imagined": at(measured.POLICY, shown("validity", 3)),
            "search: validity, L0 / L1 ratio": at(measured.SEARCH, RATIOS),
            "the same with an agent": at(measured.WITH_AGENT, RATIOS),
        },
    ),
    "amortised": Table(
        "imagination",
        "Model rows, training and generation together, for 1, 10, 100, 1,000 and 10,000 instances",
        of_tasks={
            name: at(method, joined(", ", *(_total(instances, _short) for instances in INSTANCES)))
            for method, name in AMORTISED.items()
        },
    ),
    "masked": Table(
        "masked",
        "A random half of the features frozen at the call",
        of_tasks={
            "greedy: validity": at(measured.YARDSTICK, shown("validity", 3)),
            "policy: validity": at(measured.POLICY, shown("validity", 3)),
            "plan: validity": at(measured.PLAN, shown("validity", 3)),
            "search: validity": at(measured.SEARCH, shown("validity", 3)),
            "search: rows": at(measured.SEARCH, shown("rows", 0)),
        },
    ),
    "labels": Table(
        "labels",
        "The model asked for labels alone: validity and L0 ratio of the search, validity of the policy in brackets",
        of_tasks={
            "trained on the model (default)": _with_labels("model"),
            "in imagination": _with_labels("imagined"),
        },
    ),
    "labels_cost": Table(
        "labels",
        "The same: model rows and seconds",
        of_tasks={
            "training rows: model / imagined": beside(shown("training rows", 0), *LABEL_SEARCHES),
            "rows a query: model / imagined": beside(shown("rows", 0), *LABEL_SEARCHES),
            "fit: model / imagined, s": beside(shown("fit CPU s", 1), *LABEL_SEARCHES),
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
    "imagination_targets": Table(
        "imagination",
        "What was aimed at in imagination",
        targets=(
            Target("validity, less that of greedy search", _beyond_greedy, 0.0, at_least=True),
            Target("L0 ratio", number_of(measured.SEARCH, "L0 ratio"), 1.03),
            Target("L1 ratio", number_of(measured.SEARCH, "L1 ratio"), 1.1),
            Target("model rows a query", number_of(measured.SEARCH, "rows"), 40, decimals=1),
            Target("CPU seconds of the fit", number_of(measured.SEARCH, "fit CPU s"), 15, decimals=1),
            Target(
                "validity of the agent alone",
                number_of(measured.POLICY, "validity"),
                0.99,
                at_least=True,
                among="boston/mlp-0.6".__eq__,
            ),
        ),
    ),
    **agent_tables.TABLES,
    **rival_tables.TABLES,
    **plausible_tables.TABLES,
    **cost_tables.TABLES,
    **real_tables.TABLES,
}
