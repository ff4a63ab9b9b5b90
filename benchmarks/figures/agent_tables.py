"""Tables of `core`, `coordinated`, `masked` and `targeted`: what the agent is worth beside controls, and the aims."""

from collections.abc import Sequence

import numpy as np

from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import (
    RATIOS,
    Finding,
    Methods,
    Table,
    Target,
    Value,
    at,
    joined,
    number_of,
    shown,
)

VALIDITY = shown("validity", 3)
WHOLE = joined(", ", VALIDITY, joined(" / ", shown("L0", 2), shown("L1", 2)), shown("rows", 0))
FOLLOWED = joined(", ", VALIDITY, shown("L0 ratio", 2), shown("rows", 1))
IN_ITS_PLACE = {
    "table of moves": measured.TABLE,
    "untrained network": measured.NEVER_TRAINED,
    "random order": measured.RANDOM_ORDER,
    "engine alone": measured.ENGINE,
}
NEAR = {"validity": 0.005, "L0 ratio": 0.01, "L1 ratio": 0.02}  # what counts as equal


def as_good_as(method: str) -> Finding:
    """Which controls are as good as a method, or better, by the medians over the tasks."""

    def told(all_tasks: Sequence[Methods]) -> str:
        def median(of: str, name: str) -> float:
            return float(np.median([methods(of)[name] for methods in all_tasks]))

        good = [
            name
            for name, of in IN_ITS_PLACE.items()
            if all(
                (median(of, number) - median(method, number)) * (-1 if number == "validity" else 1) <= near
                for number, near in NEAR.items()
            )
        ]
        return f"As good as the trained agent, or better: {', '.join(good) or 'none of them'}."

    return told


def _aims(name: str, method: str, *, validity: float, changes: float, distance: float) -> tuple[Target, ...]:
    return (
        Target(f"validity of {name}", number_of(method, "validity"), validity, at_least=True),
        Target(f"L0 ratio of {name}", number_of(method, "L0 ratio"), changes),
        Target(f"L1 ratio of {name}", number_of(method, "L1 ratio"), distance),
    )


def _behind_table(of: Methods) -> float:
    return float(of(measured.REFINED)["L0 ratio"] - of(measured.TABLE)["L0 ratio"])


def _behind_greedy(method: str) -> Value:
    return lambda of: of(measured.YARDSTICK)["validity"] - of(method)["validity"]


TABLES: dict[str, Table] = {
    "coordinated": Table(
        "coordinated",
        "Several changes help only together: validity, L0 / L1, model rows a query",
        of_tasks={
            "greedy": at(measured.YARDSTICK, WHOLE),
            "nearest-ct, reverted, 5 changes": at(measured.NEAREST_WITHIN, WHOLE),
            "policy": at(measured.POLICY, WHOLE),
            "refined": at(measured.REFINED, WHOLE),
            "search": at(measured.SEARCH, WHOLE),
        },
    ),
    "coordinated_controls": Table(
        "coordinated",
        "Effort refined, and what learns less in the agent's place: validity, L0 / L1, model rows a query",
        of_tasks={
            "trained agent": at(measured.REFINED, WHOLE),
            **{name: at(method, WHOLE) for name, method in IN_ITS_PLACE.items()},
        },
        finding=as_good_as(measured.REFINED),
    ),
    "coordinated_targets": Table(
        "coordinated",
        "What was aimed at where several changes help only together",
        targets=(
            Target(
                "validity of search",
                number_of(measured.SEARCH, "validity"),
                0.99,
                at_least=True,
                among=lambda task: task.endswith("/rule"),
            ),
        ),
    ),
    "controls": Table(
        "core",
        "Effort refined, and what learns less in the agent's place: validity, L0 / L1 ratio, rows",
        of_tasks={
            name: at(method, joined(", ", RATIOS, shown("rows", 1)))
            for name, method in {"trained agent": measured.REFINED, **IN_ITS_PLACE}.items()
        },
        finding=as_good_as(measured.REFINED),
    ),
    "efforts_targets": Table(
        "core",
        "What was aimed at where the agent is followed alone, and where the model judges its best actions",
        targets=(
            *_aims("policy", measured.POLICY, validity=0.98, changes=1.15, distance=1.5),
            *_aims("refined", measured.REFINED, validity=0.995, changes=1.05, distance=1.1),
            Target("model rows a query of refined", number_of(measured.REFINED, "rows"), 20, decimals=1),
            Target("CPU seconds of the fit", number_of(measured.REFINED, "fit CPU s"), 6, decimals=1),
            Target("L0 ratio of refined, less that of the table of moves", _behind_table, 0.0),
        ),
    ),
    "masked_targets": Table(
        "masked",
        "What was aimed at with half of the features frozen",
        targets=tuple(
            Target(f"validity of greedy search, less that of {name}", _behind_greedy(method), 0.05)
            for name, method in (("refined", measured.REFINED), ("search", measured.SEARCH))
        ),
    ),
    "targeted": Table(
        "targeted",
        "Each row is to become one of several classes: validity, L0 ratio, model rows a query",
        of_tasks={
            "greedy: validity": at(measured.YARDSTICK, VALIDITY),
            "policy": at(measured.POLICY, FOLLOWED),
            "refined": at(measured.REFINED, FOLLOWED),
            "table of moves": at(measured.TABLE, FOLLOWED),
            "search": at(measured.SEARCH, FOLLOWED),
        },
    ),
    "targeted_targets": Table(
        "targeted",
        "What was aimed at",
        targets=(
            Target("validity of greedy search, less that of refined", _behind_greedy(measured.REFINED), 0.05),
            Target("validity of greedy search, less that of search", _behind_greedy(measured.SEARCH), 0.0),
        ),
    ),
}
