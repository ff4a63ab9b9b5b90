"""Tables of `rules` and `missing`, and what was aimed at: rows that are whole, beside brute force and greedy search."""

from collections.abc import Sequence

from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import Table, Target, Value, joined, number_of, shown
from benchmarks.figures.whole_table import BROKEN, BRUTE_TASKS, SHARE_BREAKING
from relax_plugin.evaluation.tasks import UNTOLD


def _is_told(task: str) -> bool:
    return not task.endswith(UNTOLD)


def _has_brute_force(task: str) -> bool:
    return task in BRUTE_TASKS


def _behind(number: str, method: str, yardstick: str) -> Value:
    return lambda of: of(yardstick)[number] - of(method)[number]


def _behind_brute_force(method: str) -> Value:
    return lambda of: of(method)["brute validity"] - of(method)["validity"]


def _most_of(methods: Sequence[str], numbers: Sequence[str]) -> Value:
    """The largest of some numbers over methods; what was not measured is none."""
    return lambda of: max(of(method)[number] for method in methods for number in numbers)


TABLES: dict[str, Table] = {
    "rules": Table(
        "rules",
        "Rules between columns, derived columns and one-hot groups, told and untold: share of delivered rows that "
        "break one",
        {
            "validity": shown("validity", 3),
            "breaking": shown(SHARE_BREAKING, 3),
            "L0 [above brute force]": joined(" [", shown("L0", 2), lambda of: f"{shown('L0 above brute', 3)(of)}]"),
            "rows; ms a query": joined("; ", shown("rows", 1), shown("ms each", 0)),
        },
    ),
    "rules_targets": Table(
        "rules",
        "What was aimed at with rules",
        targets=(
            Target(
                "rules broken, groups torn, cells changed that are to stay; any method",
                _most_of(measured.WHOLE_METHODS, BROKEN),
                0.0,
                among=_is_told,
                decimals=0,
            ),
            *(
                target
                for method in (measured.SEARCH, measured.RICHER)
                for target in (
                    Target(
                        f"validity of brute force, less that of `{method}`",
                        _behind_brute_force(method),
                        0.0,
                        among=_has_brute_force,
                    ),
                    Target(
                        f"L0 of `{method}` above brute force",
                        number_of(method, "L0 above brute"),
                        0.0,
                        among=_has_brute_force,
                    ),
                    Target(
                        f"model rows a query of `{method}`",
                        number_of(method, "rows"),
                        45,
                        among=_has_brute_force,
                        decimals=1,
                    ),
                )
            ),
        ),
    ),
    "missing": Table(
        "missing",
        "With 10 % and 30 % of the cells missing in training and test rows",
        {
            "validity": shown("validity", 3),
            "L0 / L1": joined(" / ", shown("L0", 2), shown("L1", 2)),
            "rows; ms a query": joined("; ", shown("rows", 1), shown("ms each", 0)),
            "missing cells changed": shown("changed gaps", 0),
        },
    ),
    "missing_targets": Table(
        "missing",
        "What was aimed at with missing cells",
        targets=(
            Target("missing cells changed; any method", _most_of(measured.WHOLE_METHODS, BROKEN), 0.0, decimals=0),
            Target(
                "validity of greedy search, less that of `relax-global`",
                _behind("validity", measured.SEARCH, measured.YARDSTICK),
                0.0,
            ),
        ),
    ),
}
