"""Tables of `coordinated` and `targeted`, and what was aimed at: what the agent is worth beside controls without one.

Searches are compared without the rescue, unless a table says otherwise: what that finds is nobody's merit.
"""

import numpy as np

from benchmarks.figures import measurements as measured
from benchmarks.figures.figure_table import Methods, Table, Target, Value, at, beside, joined, number_of, shown
from relax_plugin.evaluation.tasks import LABELS

VALIDITY = shown("validity", 3)
WHOLE = joined(", ", VALIDITY, joined(" / ", shown("L0", 2), shown("L1", 2)), shown("rows", 0))
FOLLOWED = joined(", ", VALIDITY, shown("L0 ratio", 2), shown("rows", 1))
WITHOUT_TRAINING = (measured.NO_AGENT, measured.UNTRAINED, measured.RANDOM)


def _is_ordinary(task: str) -> bool:
    """Whether a task of `coordinated` is neither wide nor of labels alone."""
    return not task.endswith(LABELS) and task not in (*measured.WIDE_RULES, measured.WIDEST_RULE)


def _is_wide(task: str) -> bool:
    return task in (*measured.WIDE_RULES, measured.WIDEST_RULE)


def _beyond_controls(of: Methods) -> float:
    """Validity of the search with an agent less that of the best control."""
    return of(measured.AGENT)["validity"] - float(np.max([of(method)["validity"] for method in WITHOUT_TRAINING]))


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
    "coordinated_targets": Table(
        "coordinated",
        "What was aimed at where several changes help only together",
        targets=(
            Target(
                "validity of the search with an agent, 40 rows",
                number_of(measured.AGENT, "validity"),
                0.99,
                at_least=True,
                among=("lock3/rule", "and4/rule").__contains__,
            ),
            Target("its model rows a query", number_of(measured.AGENT, "rows"), 40, among=_is_ordinary, decimals=1),
            Target(
                "its validity beyond that of the best control", _beyond_controls, 0.0, at_least=True, among=_is_ordinary
            ),
        ),
    ),
    "coordinated": Table(
        "coordinated",
        "Several changes help only together: validity, L0 / L1, model rows a query",
        of_tasks={
            "greedy": at(measured.YARDSTICK, WHOLE),
            "nearest-ct, reverted: 5 changes; any": lambda of: (
                f"{WHOLE(of(measured.NEAREST_WITHIN))}; {WHOLE(of(measured.NEAREST))}"
            ),
            "ReLAX without agent": at(measured.NO_AGENT, WHOLE),
            "ReLAX with agent": at(measured.AGENT, WHOLE),
            "policy alone": at(measured.POLICY, WHOLE),
        },
        among=_is_ordinary,
    ),
    "coordinated_controls": Table(
        "coordinated",
        "The same search, 40 rows, by what has learned nothing of several steps: validity, L0 / L1, model rows a query",
        of_tasks={
            "random order": at(measured.RANDOM, WHOLE),
            "untrained network": at(measured.UNTRAINED, WHOLE),
            "table of moves": at(measured.TABLE, WHOLE),
            "without agent": at(measured.NO_AGENT, WHOLE),
            "with agent": at(measured.AGENT, WHOLE),
        },
        among=_is_ordinary,
    ),
    "coordinated_rows": Table(
        "coordinated",
        "The same with fewer rows, and with the rescue (by default): validity, L0 / L1, model rows a query",
        of_tasks={
            "5 rows: without agent": at(measured.NO_AGENT_5, WHOLE),
            "with agent": at(measured.AGENT_5, WHOLE),
            "12 rows: without an agent": at(measured.NO_AGENT_12, WHOLE),
            "with an agent": at(measured.AGENT_12, WHOLE),
            "the default: with the rescue": at(measured.SEARCH, WHOLE),
        },
        among=_is_ordinary,
    ),
    "coordinated_labels": Table(
        "coordinated",
        "The same models asked for labels alone: validity, L0 / L1, model rows a query",
        of_tasks={
            "nearest-ct, reverted, 5 changes": at(measured.NEAREST_WITHIN, WHOLE),
            "random order / untrained network: validity": beside(VALIDITY, measured.RANDOM, measured.UNTRAINED),
            "ReLAX with agent; rows of its fit": at(measured.AGENT, joined("; ", WHOLE, shown("training rows", 0))),
            "policy alone": at(measured.POLICY, WHOLE),
            "the default: with the rescue": at(measured.SEARCH, WHOLE),
        },
        among=lambda task: task.endswith(LABELS),
    ),
    "coordinated_wide": Table(
        "coordinated",
        "Among 500 and 2,000 features: validity, L0 / L1, model rows a query",
        of_tasks={
            "greedy": at(measured.YARDSTICK, WHOLE),
            "nearest-ct, reverted, 5 changes": at(measured.NEAREST_WITHIN, WHOLE),
            "fit by 1,000 rows: without / with agent, validity": beside(VALIDITY, measured.NO_AGENT, measured.AGENT),
            "by 4,000 rows: without agent": at(measured.NO_AGENT_LEARNED, WHOLE),
            "with agent": at(measured.AGENT_LEARNED, WHOLE),
        },
        among=_is_wide,
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
