"""Tables of `plausible`, and what was aimed at: answers that look like training rows, and what they cost.

Ratios are against the default search on the instances that both solved. Who tells outliers: `outlier_table`.
"""

from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import Methods, Numbers, Table, Target, joined, number_of, shown
from relax_plugin.evaluation.tables import number

NAMES = {
    measured.SEARCH: "default",
    measured.PREFER: "`prefer`",
    measured.REQUIRE: "`require`",
    measured.REQUIRE_8: "`require`, 8 changes",
}


def _is_hard(task: str) -> bool:
    return task == measured.HARD_TO_BE_PLAUSIBLE


def _is_easy(task: str) -> bool:
    return not _is_hard(task)


def _behind_default(of: Methods) -> float:
    return of(measured.SEARCH)["validity"] - of(measured.PREFER)["validity"]


def _milliseconds(of: Numbers) -> str:
    """CPU time of one query: other work on the machine counts less than in wall seconds."""
    return number(1000 * of["explain CPU s"] / of["instances"], 0)


TABLES: dict[str, Table] = {
    "plausible": Table(
        "plausible",
        "Plausible answers: share of outliers by a LocalOutlierFactor of the training rows, and by one of the test "
        "rows, which no search has seen; of real rows in brackets",
        {
            "validity": shown("validity", 3),
            "outliers [test rows]": joined(" [", shown("outliers", 3), lambda of: f"{shown('real outliers', 3)(of)}]"),
            "unseen outliers [training rows]": joined(
                " [", shown("unseen outliers", 3), lambda of: f"{shown('real unseen outliers', 3)(of)}]"
            ),
            "L0, ratio; rows; CPU ms a query": joined(
                "; ", joined(", ", shown("L0", 2), shown("L0 ratio", 2)), shown("rows", 1), _milliseconds
            ),
        },
        names=NAMES,
    ),
    "plausible_targets": Table(
        "plausible",
        "What was aimed at with plausible answers",
        targets=(
            Target("outliers, `require`", number_of(measured.REQUIRE, "outliers"), 0.05),
            Target("L0 ratio, `require`", number_of(measured.REQUIRE, "L0 ratio"), 1.2, decimals=2),
            Target(
                "validity, `require`",
                number_of(measured.REQUIRE, "validity"),
                0.98,
                at_least=True,
                apart={measured.HARD_TO_BE_PLAUSIBLE: 0.80},
            ),
            Target(
                "validity, `require`, 8 changes",
                number_of(measured.REQUIRE_8, "validity"),
                0.95,
                at_least=True,
                among=_is_hard,
            ),
            Target("model rows a query, `require`", number_of(measured.REQUIRE, "rows"), 100, decimals=1),
            Target("validity of the default, less that of `prefer`", _behind_default, 0.0),
            Target("outliers, `prefer`", number_of(measured.PREFER, "outliers"), 0.10, among=_is_easy),
            Target("outliers, `prefer`", number_of(measured.PREFER, "outliers"), 0.25, among=_is_hard),
        ),
    ),
}
