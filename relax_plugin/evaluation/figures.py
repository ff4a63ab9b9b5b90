"""The figures about ReLAX itself: Markdown tables of what `relax-plugin figures` measured, from the lines it stored.

Every table is a function of the lines of all measurements, as `stored` reads them; none is wider than six columns.
Ratios are against greedy search on the instances that both solved; seconds of fit are CPU seconds, except in the
tables of `judged` and `inside`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from relax_plugin.evaluation import measurements as measured
from relax_plugin.evaluation.metrics import break_even, total_rows
from relax_plugin.evaluation.store import Notes, read_table
from relax_plugin.evaluation.tables import number, over_seeds, whole, with_deviation
from relax_plugin.evaluation.tasks import LABELS

INSTANCES = (1, 10, 100, 1_000, 10_000)
AMORTISED = {
    measured.YARDSTICK: "greedy",
    "move-table": "move-table",
    "surrogate-search": "surrogate-search",
    measured.ON_THE_MODEL: "ReLAX, model",
    measured.SEARCH: "ReLAX, imagined",
}
"""The methods whose model rows are added up, and what they are called beside each other."""
TEXTS = ("task", "method", "state")

Numbers = defaultdict[str, float]


def stored(folder: Path) -> pd.DataFrame:
    """The lines of the measurements that a folder holds, one below the other; the column `measurement` tells which."""
    parts = []
    for what in measured.MEASUREMENTS:
        path = folder / f"{what}.csv"
        if path.exists():
            parts.append(read_table(path, ["task", "method", "seed", "state", *measured.KEPT], TEXTS))
            parts[-1]["measurement"] = what
    return pd.DataFrame(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["measurement"]))


def notes(folder: Path) -> Notes:
    """With which commands, versions and machine the lines of a folder were made."""
    return Notes(folder / "about.json", ("command", "started", "machine"))


class Means:
    """Means over the seeds of one measurement; what was not run is NaN, which reads as a dash."""

    def __init__(self, lines: pd.DataFrame, what: str) -> None:
        self.table = over_seeds(lines[lines["measurement"] == what].drop(columns="measurement"))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(str(task) for task, _ in self.table.index))

    def of(self, task: str, method: str) -> Numbers:
        """The numbers of a method on a task."""
        known = self.table[self.table.index.isin([(task, method)])].to_dict("records")
        return defaultdict(lambda: np.nan, {str(name): value for line in known for name, value in line.items()})

    def lines(self) -> list[tuple[str, str, Numbers]]:
        """Each task and method, with the numbers."""
        return [(task, method, self.of(task, method)) for task, method in self.table.index]


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def judged(lines: pd.DataFrame) -> str:
    """The seven tasks of the paper by the default settings: quality."""
    return markdown(
        ["task", "method", "validity", "L0", "L1", "L0 / L1, common"],
        [
            [task, f"`{method}`", *_quality(of), f"{number(of['L0 common'], 2)} / {number(of['L1 common'], 2)}"]
            for task, method, of in Means(lines, "judged").lines()
        ],
    )


def judged_cost(lines: pd.DataFrame) -> str:
    """The same: redundant changes and cost, in wall seconds."""
    return markdown(
        ["task", "method", "redundant", "model rows a query", "fit, s", "a query, ms"],
        [
            [
                *(task, f"`{method}`", number(of["redundant"], 2), number(of["rows"], 1)),
                *(number(of["fit s"], 1), number(of["ms each"], 1)),
            ]
            for task, method, of in Means(lines, "judged").lines()
        ],
    )


def inside(lines: pd.DataFrame) -> str:
    """The methods that look inside, beside those that do not: quality."""
    return markdown(
        ["task", "method", "queries", "validity", "L0", "L1"],
        [
            [task, f"`{method}`", whole(of["instances"]), *_quality(of)]
            for task, method, of in Means(lines, "inside").lines()
        ],
    )


def inside_floor(lines: pd.DataFrame) -> str:
    """The same on trees: how far each method is from the optimum, where that is known."""
    means = Means(lines, "inside")
    return markdown(
        ["task", "method", "floor known", "floor L0", "at the floor L0", "L1 above its floor"],
        [
            [
                *(task, f"`{method}`", number(of["floor known"], 1), number(of["floor L0"], 2)),
                *(number(of["at floor L0"], 2), number(of["L1 above floor"], 2)),
            ]
            for task, method, of in means.lines()
            if not np.isnan(of["floor known"])
        ],
    )


def inside_cost(lines: pd.DataFrame) -> str:
    """The same: model rows and wall time."""
    return markdown(
        ["task", "method", "model rows a query", "a query, ms"],
        [
            [task, f"`{method}`", whole(of["rows"]), number(of["ms each"], 1)]
            for task, method, of in Means(lines, "inside").lines()
        ],
    )


def imagination(lines: pd.DataFrame) -> str:
    """Trained on the model and in imagination, beside all that needs no agent: validity, L0 / L1 ratio."""
    means = Means(lines, "imagination")
    others = [method for method in AMORTISED if method != measured.YARDSTICK]
    return markdown(
        ["task", "greedy: validity, L0, L1", *(AMORTISED[method] for method in others)],
        [
            [
                *(task, ", ".join(_three(means.of(task, measured.YARDSTICK)))),
                *(_with_ratios(means.of(task, method)) for method in others),
            ]
            for task in means.tasks
        ],
    )


def imagination_cost(lines: pd.DataFrame) -> str:
    """The same: total model rows for 100 instances, break-even with greedy search, seconds of fit."""
    means, agents = Means(lines, "imagination"), (measured.ON_THE_MODEL, measured.SEARCH)
    return markdown(
        ["task", "rows for 100: greedy / model / imagined", "break-even: model / imagined", "fit, s: model / imagined"],
        [
            [
                task,
                " / ".join(whole(_total(means.of(task, method), 100)) for method in (measured.YARDSTICK, *agents)),
                " / ".join(whole(_break_even(means, task, method)) for method in agents),
                " / ".join(number(means.of(task, method)["fit CPU s"], 1) for method in agents),
            ]
            for task in means.tasks
        ],
    )


def imagination_policy(lines: pd.DataFrame) -> str:
    """The agent alone by what it was trained on, and the search by an agent that was trained for the policy."""
    means = Means(lines, "imagination")
    alone = (measured.POLICY_ON_THE_MODEL, measured.POLICY)
    search = (measured.SEARCH, measured.LONGER.label)
    return markdown(
        ["task", "policy, model", "policy, imagined", "search", "search, imagined for longer"],
        [
            [
                *(task, *(number(means.of(task, method)["validity"], 3) for method in alone)),
                *(_with_ratios(means.of(task, method)) for method in search),
            ]
            for task in means.tasks
        ],
    )


def amortised(lines: pd.DataFrame) -> str:
    """Model rows, training and generation together, for 1, 10, 100, 1,000 and 10,000 instances."""
    means = Means(lines, "imagination")
    return markdown(
        ["task", *AMORTISED.values()],
        [
            [
                task,
                *(
                    ", ".join(_short(_total(means.of(task, method), many)) for many in INSTANCES)
                    for method in AMORTISED
                ),
            ]
            for task in means.tasks
        ],
    )


def amortised_rows(lines: pd.DataFrame) -> pd.DataFrame:
    """What `plots.amortisation` draws: the model rows of training and of a query, for each task and method."""
    table = Means(lines, "imagination").table[["training rows", "rows"]]
    table = table[table.index.get_level_values("method").isin(list(AMORTISED))]
    return pd.DataFrame(table.rename(index=AMORTISED, level="method"))


def efforts(lines: pd.DataFrame) -> str:
    """ReLAX-Global at its three efforts."""
    means = Means(lines, "core")
    made = []
    for task in means.tasks:
        policy, refined, search, long = (
            means.of(task, method)
            for method in (measured.POLICY, measured.REFINED, measured.SEARCH, measured.LONG_SEARCH)
        )
        seconds = ", ".join(number(of["fit CPU s"], 1) for of in (policy, search))
        made.append(
            [
                task,
                f"{_validity(policy)}, {number(policy['L0 ratio'], 2)}, {number(policy['rows'], 1)}",
                f"{_with_ratios(refined)}, {number(refined['rows'], 1)}",
                f"{_with_ratios(search)}, {number(search['rows'], 1)}",
                f"{number(long['L1 ratio'], 3)}, {whole(long['rows'])}",
                f"{seconds} + {number(search['explain CPU s'], 1)}",
            ]
        )
    return markdown(
        [
            "task",
            "policy: validity, L0 ratio, rows",
            "refined: validity, L0 / L1 ratio, rows",
            "search, 40 rows: validity, L0 / L1 ratio, rows",
            "search, 120 rows: L1 ratio, rows",
            "fit of policy, fit of search + explain, s",
        ],
        made,
    )


def controls(lines: pd.DataFrame) -> str:
    """The same search without fallback, guided by something that has not learned: validity and L0 ratio."""
    means = Means(lines, "core")
    return markdown(
        ["task", "ReLAX", "table of moves", "random order", "untrained network"],
        [
            [
                task,
                *(
                    f"{number(of['validity'], 3)}, {number(of['L0 ratio'], 2)}"
                    for of in (means.of(task, method) for method in measured.CONTROLS)
                ),
            ]
            for task in means.tasks
        ],
    )


def masked(lines: pd.DataFrame) -> str:
    """A random half of the features frozen at the call."""
    means, methods = Means(lines, "masked"), (measured.YARDSTICK, measured.POLICY, measured.SEARCH)
    return markdown(
        ["task", "greedy: validity", "policy: validity", "search: validity", "search: rows"],
        [
            [
                *(task, *(number(means.of(task, method)["validity"], 3) for method in methods)),
                whole(means.of(task, measured.SEARCH)["rows"]),
            ]
            for task in means.tasks
        ],
    )


def labels(lines: pd.DataFrame) -> str:
    """The model asked for labels alone: validity and L0 ratio of the search, validity of the policy in brackets."""
    means = Means(lines, "labels")
    made = []
    for task in (task for task in means.tasks if task.endswith(LABELS)):
        cells = []
        for training in ("model", "imagined"):
            for curiosity in (0.0, 0.05):
                alone, search = (
                    means.of(task, measured.with_labels(training, curiosity, effort)) for effort in ("policy", "search")
                )
                cells.append(f"{_validity(search)}, {number(search['L0 ratio'], 2)} [{_validity(alone)}]")
        made.append([task.removesuffix(LABELS), *cells])
    curious = "with curiosity .05"
    return markdown(["task", "trained on the model (default)", curious, "in imagination", curious], made)


def labels_cost(lines: pd.DataFrame) -> str:
    """The same: model rows of training and of a query, and seconds of fit."""
    means = Means(lines, "labels")
    made = []
    for task in (task for task in means.tasks if task.endswith(LABELS)):
        both = [means.of(task, measured.with_labels(training, 0.0, "search")) for training in ("model", "imagined")]
        cells = [
            " / ".join(number(of[name], decimals) for of in both)
            for name, decimals in (("training rows", 0), ("rows", 0), ("fit CPU s", 1))
        ]
        made.append([task.removesuffix(LABELS), *cells])
    names = ("training rows", "rows a query", "fit, s")
    return markdown(["task", *(f"{name}: model / imagined" for name in names)], made)


def local(lines: pd.DataFrame) -> str:
    """Effort "policy" of both variants."""
    means = Means(lines, "local")
    names = {
        measured.POLICY: "global",
        measured.LOCAL: "local",
        measured.FROM_SCRATCH: "local, not pretrained",
    }
    return markdown(
        ["task, method", "validity", "L0", "L1", "rows", "fit + explain, s"],
        [
            [
                f"{task}, {name}",
                *(_validity(of), number(of["L0"], 2), number(of["L1"], 2), whole(of["rows"])),
                f"{number(of['fit CPU s'], 1)} + {number(of['explain CPU s'], 1)}",
            ]
            for task in means.tasks
            for name, of in ((name, means.of(task, method)) for method, name in names.items())
        ],
    )


TABLES: dict[str, Callable[[pd.DataFrame], str]] = {
    "judged": judged,
    "judged_cost": judged_cost,
    "efforts": efforts,
    "controls": controls,
    "imagination": imagination,
    "imagination_cost": imagination_cost,
    "imagination_policy": imagination_policy,
    "amortised": amortised,
    "masked": masked,
    "labels": labels,
    "labels_cost": labels_cost,
    "local": local,
    "inside": inside,
    "inside_floor": inside_floor,
    "inside_cost": inside_cost,
}
MEASURED_BY = {"efforts": "core", "controls": "core", "amortised": "imagination"}
"""The measurement that a table is of, where its name does not begin with it."""


def measurement_of(table: str) -> str:
    """The measurement whose lines a table is made of."""
    return MEASURED_BY.get(table, table.partition("_")[0])


def _validity(of: Numbers) -> str:
    return with_deviation(of["validity"], of["± validity"])


def _quality(of: Numbers) -> list[str]:
    return [
        _validity(of),
        *(f"{number(of[name], 2)} ± {number(of[f'± {name}'], 2)}" for name in ("L0", "L1")),
    ]


def _three(of: Numbers) -> list[str]:
    return [number(of["validity"], 3), number(of["L0"], 2), number(of["L1"], 2)]


def _with_ratios(of: Numbers) -> str:
    return f"{number(of['validity'], 3)}, {number(of['L0 ratio'], 3)} / {number(of['L1 ratio'], 3)}"


def _total(of: Numbers, instances: int) -> float:
    return float(total_rows(of["training rows"], of["rows"], instances))


def _break_even(means: Means, task: str, method: str) -> float:
    """Instances from which on a method has asked fewer rows than greedy search."""
    ours, theirs = means.of(task, method), means.of(task, measured.YARDSTICK)
    return break_even(ours["training rows"], ours["rows"], theirs["training rows"], theirs["rows"])


def _short(rows: float) -> str:
    """A large number in thousands."""
    return f"{rows / 1000:,.0f}k" if rows >= 100_000 else whole(rows)
