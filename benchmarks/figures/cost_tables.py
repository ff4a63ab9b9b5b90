"""Tables of `costs` and `closest`: what answers cost where changes have prices, and how close they can be without."""

from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import Methods, Table, Target, at, beside, joined, number_of, shown

UNTOLD = f"{measured.SEARCH}{measured.NOT_TOLD}"
GREEDY_UNTOLD = f"{measured.YARDSTICK}{measured.NOT_TOLD}"
HARD = "diabetes/ada"  # where few features do anything


def _less_valid(of: Methods) -> float:
    return of(measured.SEARCH)["validity"] - of(UNTOLD)["validity"]


TABLES: dict[str, Table] = {
    "costs": Table(
        "costs",
        "Half of the features ten times as dear: cost of the answers as a share of what those cost that do not know it",
        of_tasks={
            "cost: not told / told": beside(shown("L1", 2), UNTOLD, measured.SEARCH),
            "share": at(measured.SEARCH, shown(measured.OF_UNTOLD, 3)),
            "share: fewest changes first / greedy": beside(
                shown(measured.OF_UNTOLD, 3), measured.SPARSE_SEARCH, measured.YARDSTICK
            ),
            "validity: not told / told": beside(shown("validity", 3), UNTOLD, measured.SEARCH),
            "L0: not told / told": beside(shown("L0", 2), UNTOLD, measured.SEARCH),
        },
    ),
    "costs_rows": Table(
        "costs",
        "The same: model rows and wall milliseconds a query",
        of_tasks={
            "rows: not told / told": beside(shown("rows", 1), UNTOLD, measured.SEARCH),
            "ms: not told / told": beside(shown("ms each", 1), UNTOLD, measured.SEARCH),
            "rows, greedy: not told / told": beside(shown("rows", 0), GREEDY_UNTOLD, measured.YARDSTICK),
        },
    ),
    "costs_targets": Table(
        "costs",
        "What was aimed at where half of the features are ten times as dear",
        targets=(
            Target(
                "cost as a share of the unweighted answer's",
                number_of(measured.SEARCH, measured.OF_UNTOLD),
                0.45,
                apart={HARD: 0.85},
            ),
            Target("validity, less that of the unweighted answer", _less_valid, 0.0, at_least=True),
        ),
    ),
    "closest": Table(
        "closest",
        "The least distance as the objective, without prices, beside the fewest changes",
        of_tasks={
            f"{what}: sparse / closest": beside(cell, measured.SEARCH, measured.CLOSEST_SEARCH)
            for what, cell in (
                *(("validity", shown("validity", 3)), ("L0", shown("L0", 2)), ("L1", shown("L1", 2))),
                ("rows, ms", joined(", ", shown("rows", 1), shown("ms each", 1))),
            )
        }
        | {"L1, greedy: sparse / closest": beside(shown("L1", 2), measured.YARDSTICK, measured.CLOSEST_GREEDY)},
    ),
}
