"""Tables of `rivals`, `unlimited` and `slow`: ReLAX beside all that needs no agent, and what was aimed at.

`lead` is a method's validity less that of the better one of greedy search and of nearest-ct, reverted and within the
same limit, on the rows that both were asked about, for each seed. Seconds of so many queries are the fit's and, for
each query, those of the mean query that was measured.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import (
    RATIOS,
    Numbers,
    Table,
    Target,
    TaskCell,
    Value,
    at,
    beside,
    joined,
    number_of,
    shown,
)
from relax_plugin.evaluation.metrics import total_rows
from relax_plugin.evaluation.tables import number
from relax_plugin.evaluation.task_models import SECONDS_A_ROW
from relax_plugin.evaluation.tasks import SLOW

Seconds = Callable[[Numbers], float]  # of a method on a task

VALIDITY = shown("validity", 3)
DISTANCES = joined(", ", shown("L0 ratio", 3), shown("L1 ratio", 3))
ROWS = joined(" + ", shown("training rows", 0), shown("rows", 1))
CPU = joined(" + ", shown("fit CPU s", 2), shown("explain CPU s", 2))
BEYOND = "validity beyond that of the better rival:"
UNTRAINED = (measured.NEAREST_WITHIN, measured.DICE)


def _cpu(queries: int) -> Seconds:
    """CPU seconds for so many queries, the fit included."""
    return lambda of: of["fit CPU s"] + queries * of["explain CPU s"] / of["instances"]


def _wall(queries: int) -> Seconds:
    """Wall seconds for so many queries, the fit included."""
    return lambda of: of["fit s"] + queries * of["ms each"] / 1000


def _reckoned(queries: int) -> Seconds:
    """The same of a slow model, reckoned from the rows that it is asked and the CPU seconds."""
    asked = partial(total_rows, instances=queries)
    return lambda of: SECONDS_A_ROW * asked(of["training rows"], of["rows"]) + _cpu(queries)(of)


def _times(seconds: Seconds, method: str, rival: str) -> Value:
    """How many times as long as its rival a method takes."""
    return lambda of: seconds(of(method)) / seconds(of(rival))


def _measured_and_reckoned(method: str) -> TaskCell:
    """How many times as long as ReLAX a method takes for 100 queries to a slow model."""
    both = [_told(_times(seconds, method, measured.SEARCH), 1) for seconds in (_wall(100), _reckoned(100))]
    return lambda of: " / ".join(cell(of) for cell in both)


def _told(value: Callable[[Any], float], decimals: int) -> Callable[[Any], str]:
    return lambda of: number(value(of), decimals)


TABLES: dict[str, Table] = {
    "rivals_targets": Table(
        "rivals",
        "What was aimed at, and the tasks that miss it",
        targets=(
            Target(f"{BEYOND} ReLAX", number_of(measured.SEARCH, measured.LEAD), 0.0, at_least=True),
            Target(f"{BEYOND} surrogate-search", number_of(measured.SURROGATE, measured.LEAD), 0.0, at_least=True),
            Target("L0 ratio", number_of(measured.SEARCH, "L0 ratio"), 1.02),
            Target("L1 ratio", number_of(measured.SEARCH, "L1 ratio"), 1.05, apart={"wave2/xgb": 1.15}),
            Target("L1 ratio with 40 rows a query", number_of(measured.RICHER, "L1 ratio"), 1.0),
            Target("model rows a query", number_of(measured.SEARCH, "rows"), 12, apart={"sonar/mlp": 16}, decimals=1),
            Target("model rows of the fit", number_of(measured.SEARCH, "training rows"), 1000, decimals=0),
            Target("CPU seconds of the fit", number_of(measured.SEARCH, "fit CPU s"), 0.4, decimals=2),
            Target(
                "CPU seconds for 100 queries, of greedy's, forests apart",
                _times(_cpu(100), measured.SEARCH, measured.YARDSTICK),
                1.0,
                among=lambda task: not task.endswith("/rf"),
                decimals=2,
            ),
            Target(
                "CPU seconds for 200 queries, of greedy's, forests",
                _times(_cpu(200), measured.SEARCH, measured.YARDSTICK),
                1.0,
                among=lambda task: task.endswith("/rf"),
                decimals=2,
            ),
        ),
    ),
    "rivals": Table(
        "rivals",
        "Validity",
        of_tasks={
            "ReLAX / with 40 rows": beside(VALIDITY, measured.SEARCH, measured.RICHER),
            "surrogate-search": at(measured.SURROGATE, VALIDITY),
            "greedy": at(measured.YARDSTICK, VALIDITY),
            "nearest-ct, reverted: 5 changes / any": beside(VALIDITY, measured.NEAREST_WITHIN, measured.NEAREST),
            "dice-random": at(measured.DICE, VALIDITY),
        },
    ),
    "rivals_ratios": Table(
        "rivals",
        "The same: L0 ratio, L1 ratio against greedy search",
        of_tasks={
            "ReLAX": at(measured.SEARCH, DISTANCES),
            "ReLAX with 40 rows": at(measured.RICHER, DISTANCES),
            "surrogate-search": at(measured.SURROGATE, DISTANCES),
            "nearest-ct, reverted: 5 changes / any": beside(DISTANCES, measured.NEAREST_WITHIN, measured.NEAREST),
            "dice-random": at(measured.DICE, DISTANCES),
        },
    ),
    "rivals_rows": Table(
        "rivals",
        "The same: model rows of the fit + of a query",
        of_tasks={
            "ReLAX": at(measured.SEARCH, ROWS),
            "ReLAX with 40 rows": at(measured.RICHER, ROWS),
            "surrogate-search": at(measured.SURROGATE, ROWS),
            "greedy": at(measured.YARDSTICK, ROWS),
            "nearest-ct, reverted, 5 changes / dice-random": beside(ROWS, *UNTRAINED),
        },
    ),
    "rivals_cpu": Table(
        "rivals",
        "The same: CPU seconds of fit + explain of so many queries; milliseconds of a query; seconds for 100 and 200 "
        "queries, fit included, of greedy's",
        of_tasks={
            "queries": at(measured.YARDSTICK, shown("instances", 0)),
            "ReLAX / surrogate-search, s": beside(CPU, measured.SEARCH, measured.SURROGATE),
            "greedy, s": at(measured.YARDSTICK, CPU),
            "nearest-ct, reverted, 5 changes / dice-random, ms": beside(
                _told(lambda of: 1000 * of["explain CPU s"] / of["instances"], 0), *UNTRAINED
            ),
            "ReLAX for 100 / 200, of greedy's": lambda of: " / ".join(
                _told(_times(_cpu(queries), measured.SEARCH, measured.YARDSTICK), 2)(of) for queries in (100, 200)
            ),
        },
    ),
    "unlimited": Table(
        "unlimited",
        "Without a limit of changes: validity, L0 / L1 ratio",
        of_tasks={
            "greedy: validity, L0, L1": at(measured.YARDSTICK, joined(", ", VALIDITY, shown("L0", 2), shown("L1", 2))),
            "ReLAX": at(measured.SEARCH, RATIOS),
            "surrogate-search": at(measured.SURROGATE, RATIOS),
            "nearest-ct, reverted": at(measured.NEAREST, RATIOS),
            "rows a query: ReLAX / surrogate-search / greedy": beside(
                shown("rows", 1), measured.SEARCH, measured.SURROGATE, measured.YARDSTICK
            ),
        },
    ),
    "slow_targets": Table(
        "slow",
        "A model that sleeps a millisecond for each row it is asked: what was aimed at",
        targets=(
            Target(
                "wall seconds of greedy for 100 queries, times ReLAX's",
                _times(_wall(100), measured.YARDSTICK, measured.SEARCH),
                5,
                at_least=True,
                apart={f"{SLOW}{name}": 10 for name in ("wave2/xgb", "wave2/mlp", "sonar/mlp")},
                decimals=1,
            ),
            Target(
                "wall seconds of dice-random for 100 queries, times ReLAX's",
                _times(_wall(100), measured.DICE, measured.SEARCH),
                40,
                at_least=True,
                decimals=1,
            ),
        ),
    ),
    "slow": Table(
        "slow",
        "The same: wall seconds for 100 queries, fit included; times ReLAX's, measured and reckoned from model rows "
        "at a millisecond each and CPU seconds",
        of_tasks={
            "ReLAX / surrogate-search": beside(_told(_wall(100), 1), measured.SEARCH, measured.SURROGATE),
            "greedy / dice-random": beside(_told(_wall(100), 0), measured.YARDSTICK, measured.DICE),
        }
        | {
            f"{method}, times ReLAX's: measured / reckoned": _measured_and_reckoned(method)
            for method in (measured.YARDSTICK, measured.DICE)
        },
    ),
}
