"""The measurements of ReLAX itself, which the figures show: each a Plan under the judge, kept as a few numbers a unit.

A folder of figures holds a table for each measurement (`core.csv`, …: tidy, a line for each task, method and seed,
small enough to be kept) and `units/`, every single answer, by which an interrupted run goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.figures.outlier_table import outliers_by_seed
from benchmarks.figures.whole_table import broken_by_seed, brute_by_seed
from relax_plugin.evaluation import tables
from relax_plugin.evaluation.floor_table import COLUMNS as FLOOR_COLUMNS
from relax_plugin.evaluation.floor_table import floor_by_seed
from relax_plugin.evaluation.metrics import ratio_on_common
from relax_plugin.evaluation.plan import Method, Plan
from relax_plugin.evaluation.runner import Progress, run
from relax_plugin.evaluation.tasks import (
    CORE_TASKS,
    GENERATED_TASKS,
    LABELS,
    MISSING,
    RULED_TASKS,
    SLOW,
    UNTOLD,
)

TASKS = (*CORE_TASKS, "boston/mlp-0.2", "boston/mlp-0.6", "german/rf")
TREE_TASKS = ("breast_cancer/rf", "diabetes/ada", "wave2/xgb")
NETWORK_TASKS = tuple(name for name in CORE_TASKS if name not in TREE_TASKS)
MASKS = 2  # random halves of the features frozen, for each seed
FLOOR_CHANGES = 3  # up to which the optimum is computed
WIDEST = "wide500/xgb"  # where a query of nearest-ct, reverted, asks a million rows: few of them have to do
TARGET_TASKS = tuple(name for name in GENERATED_TASKS if name.startswith("classes"))  # of several classes, one each
JOINT_TASKS = ("lock3/rule", "and4/rule", "sequence/rule", "breast_cancer/leaves8")  # of 30 features at most
OPEN_TASKS = ("wave2/xgb", "sonar/mlp", "classes26/mlp", "rare/xgb", "wide60/mlp", "mixed100/rf")  # without a limit

PLAUSIBLE_TASKS = ("breast_cancer/rf", "diabetes/ada", "german/rf", "sonar/mlp", "wave2/xgb")
HARD_TO_BE_PLAUSIBLE = "wave2/xgb"  # on which eight changes are allowed too
COST_TASKS = ("breast_cancer/rf", "wave2/xgb", "sonar/mlp", "german/rf", "boston/mlp-0.4", "diabetes/ada")
MISSING_TASKS = ("wave2/xgb", "diabetes/xgb", "sonar/imputed", "german/rf")

YARDSTICK = "greedy"
NOT_TOLD = ", prices not told"  # ends the label of a method that does not know the prices it is judged by
POLICY, REFINED = (f"relax-global:effort={effort}" for effort in ("policy", "refined"))
ENGINE = "search"  # without an agent
SEARCH, RICHER = "relax-global", "relax-global:max_queries=40"
SPARSE_SEARCH, CLOSEST_SEARCH = (f"{SEARCH}:objective={objective}" for objective in ("sparse", "closest"))
CLOSEST_GREEDY = f"{YARDSTICK}:objective=closest"
TABLE, RANDOM_ORDER = "move-table", "random-order"  # through the same machinery as the effort "refined"
NEVER_TRAINED = f"{REFINED},config.learning_rate=0.0"  # an untrained network, likewise
CONTROLS = (ENGINE, TABLE, RANDOM_ORDER, NEVER_TRAINED)
SURROGATE, DICE = "surrogate-search", "dice-random"
NEAREST, NEAREST_WITHIN = "nearest-ct:reverted=True", "nearest-ct:reverted=True,max_changes=5"  # the others' limit
PREFER, REQUIRE = (f"{SEARCH}:plausible={wanted}" for wanted in ("prefer", "require"))
REQUIRE_8 = f"{REQUIRE},max_changes=8"
WHOLE_METHODS = (SEARCH, RICHER, SURROGATE, YARDSTICK, "nearest-ct")  # whose answers must be whole
LOCAL, FROM_SCRATCH = "relax-local:effort=policy", "relax-local:effort=policy,config.pretrained=False"


def with_labels(training: str, effort: str) -> str:
    """The method that is asked of models which answer labels alone."""
    return f"relax-global:effort={effort},config.training={training}"


LABEL_METHODS = [with_labels(where, effort) for where in ("model", "surrogate") for effort in ("policy", "refined")]

Tasks = Sequence[str]
Seeds = Sequence[int]


def judged(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """The seven tasks of the paper by the default settings, as `relax-plugin bench` runs them."""
    return [Plan(tasks or CORE_TASKS, [SEARCH, "nearest-ct", YARDSTICK], seeds)]


def core(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """ReLAX-Global at its three efforts beside greedy search, and what learns less in its place, on the first rows."""
    return [Plan(tasks or TASKS, [YARDSTICK, POLICY, REFINED, SEARCH, *CONTROLS], seeds, rows=100)]


def masked(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """A random half of the features frozen at the call, without a new fit, beside greedy under the same masks."""
    return [Plan(tasks or TASKS, [YARDSTICK, POLICY, REFINED, TABLE, SEARCH], seeds, rows=100, masks=MASKS)]


def targeted(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """Several classes, of which each row is to become one: the efforts beside greedy search, on the first rows."""
    return [Plan(tasks or TARGET_TASKS, [YARDSTICK, POLICY, REFINED, TABLE, SEARCH], seeds, rows=100)]


def coordinated(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """Where several changes help only together: the efforts beside all that has no agent, or one that learned nothing.

    `nearest-ct` needs no score: it finds an answer wherever a training row has one.
    """
    methods = [YARDSTICK, NEAREST_WITHIN, POLICY, REFINED, SEARCH, *CONTROLS]
    return [Plan(tasks or JOINT_TASKS, methods, seeds, rows=50)]


def labels(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """The same model asked for labels alone: trained on the model and on a surrogate."""
    tasks = tasks or ("breast_cancer/rf", "wave2/xgb", "sonar/mlp")
    return [
        Plan(tasks, [YARDSTICK], seeds, rows=100),
        Plan([f"{task}{LABELS}" for task in tasks], LABEL_METHODS, seeds, rows=100),
    ]


def local(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """ReLAX-Local with and without pretrained Global, at the effort of the paper."""
    return [Plan(tasks or ("sonar/mlp",), [POLICY, LOCAL, FROM_SCRATCH], seeds, rows=50)]


def inside(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """The methods that look inside the model, beside those that do not, on the first rows."""
    everywhere = [SEARCH, YARDSTICK]
    on_trees = [*everywhere, NEAREST, "feat-tweak", "focus", "focus:reverted=True", "mace"]
    on_networks = [*everywhere, "deepfool", "deepfool:reverted=True", "grace"]
    trees = [name for name in TREE_TASKS if name in (tasks or TREE_TASKS)]
    networks = [name for name in tasks or NETWORK_TASKS if name not in trees]
    return [
        *([Plan(trees, on_trees, seeds, rows=60, method_rows={"mace": 10})] if trees else []),
        *([Plan(networks, on_networks, seeds, rows=60)] if networks else []),
    ]


def rivals(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """Whether ReLAX is behind a rival anywhere: all tasks, the first rows, and few of them of what takes long."""
    methods = [SEARCH, RICHER, SURROGATE, YARDSTICK, NEAREST_WITHIN, NEAREST, DICE]
    tasks = tasks or (*TASKS, *GENERATED_TASKS)
    others = [name for name in tasks if name != WIDEST]
    few = dict.fromkeys((NEAREST_WITHIN, NEAREST, DICE), 3)
    return [
        *([Plan(others, methods, seeds, rows=100, method_rows={DICE: 10})] if others else []),
        *([Plan([WIDEST], methods, seeds, rows=20, method_rows=few)] if WIDEST in tasks else []),
    ]


def unlimited(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """The same without a limit of changes, on the first rows of some tasks."""
    methods = [
        replace(method, options={**method.options, "max_changes": None})
        for method in map(Method.parse, (SEARCH, SURROGATE, YARDSTICK, NEAREST))
    ]
    return [Plan(tasks or OPEN_TASKS, methods, seeds, rows=50)]


def costs(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """Half of the features ten times as dear: answers of who is told so at the call beside answers of who is not."""
    tasks = tasks or COST_TASKS
    hidden = [Method(f"{method}{NOT_TOLD}", method) for method in (SEARCH, YARDSTICK)]
    told = [SEARCH, SPARSE_SEARCH, YARDSTICK]
    return [
        Plan(tasks, methods, seeds, rows=100, prices=prices) for methods, prices in ((hidden, "hidden"), (told, "told"))
    ]


def closest(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """The least distance as the objective, without any prices, beside the fewest changes."""
    return [Plan(tasks or COST_TASKS, [SEARCH, CLOSEST_SEARCH, YARDSTICK, CLOSEST_GREEDY], seeds, rows=100)]


def slow(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """The same models at a millisecond a row, for wall seconds: the first rows, and few of what asks many."""
    tasks = tasks or [name for name in (*TASKS, *GENERATED_TASKS) if name != WIDEST]
    names = [f"{SLOW}{task.removeprefix(SLOW)}" for task in tasks]
    return [Plan(names, [SEARCH, SURROGATE, YARDSTICK, DICE], seeds, rows=20, method_rows={DICE: 3})]


def plausible(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """Answers that must be plausible, or are if there is one, beside the default's, on the first rows."""
    tasks = tasks or PLAUSIBLE_TASKS
    hard = [name for name in tasks if name == HARD_TO_BE_PLAUSIBLE]
    others = [name for name in tasks if name not in hard]
    methods = [SEARCH, PREFER, REQUIRE]
    plans = [(others, methods), (hard, [*methods, REQUIRE_8])]
    return [Plan(names, several, seeds, rows=100) for names, several in plans if names]


def rules(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """Columns that depend on each other, with what is said about them and without it, on the first rows."""
    tasks = tasks or (*RULED_TASKS, *(f"{name}{UNTOLD}" for name in RULED_TASKS))
    return [Plan(tasks, WHOLE_METHODS, seeds, rows=100)]


def missing(tasks: Tasks, seeds: Seeds) -> list[Plan]:
    """A share of all cells missing, in training and test rows, on the first rows."""
    tasks = tasks or [f"{share}{name}" for name in MISSING_TASKS for share in MISSING]
    return [Plan(tasks, [name for name in WHOLE_METHODS if name != RICHER], seeds, rows=100)]


MEASUREMENTS: dict[str, Callable[[Tasks, Seeds], list[Plan]]] = {
    "judged": judged,
    "core": core,
    "masked": masked,
    "targeted": targeted,
    "coordinated": coordinated,
    "labels": labels,
    "local": local,
    "inside": inside,
    "rivals": rivals,
    "unlimited": unlimited,
    "slow": slow,
    "plausible": plausible,
    "costs": costs,
    "closest": closest,
    "rules": rules,
    "missing": missing,
}
APART = (  # whose methods have the names of others, but other rows
    *("core", "labels", "local", "masked", "targeted", "coordinated", "inside", "rivals", "unlimited"),
    *("plausible", "costs", "closest", "rules", "missing"),
)

KEPT = [
    *("instances", "validity", "worst class", "L0", "L1", "rows", "training rows"),
    *("fit s", "fit CPU s", "explain CPU s", "ms each"),
]
"""Of the numbers of `tables.summary`, those that are kept of every measurement."""
ALSO_KEPT = {"judged": ["L0 common", "L1 common", "redundant"]}
RATIOS = ["L0 ratio", "L1 ratio"]  # against the yardstick, on the instances that both solved
YARDSTICKS = {"plausible": SEARCH}  # of measurements that have one of their own
OF_UNTOLD = "cost ratio"  # against the same explainer that does not know the prices, likewise
LEAD = "lead"  # validity less that of the better rival, on the instances that both were asked about
RIVALS = (YARDSTICK, NEAREST_WITHIN)  # which no method is to be behind


def measure(
    what: str,
    folder: Path,
    *,
    tasks: Tasks = (),
    seeds: Seeds = range(5),
    jobs: int = 1,
    command: str = "",
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Run what the folder does not hold yet of a measurement, and give a line for each task, method and seed.

    Parameters
    ----------
    what : a name of `MEASUREMENTS`
    folder : path
        Of the units; those that are there are not run again.
    tasks : names; the usual ones of the measurement if there are none
    seeds, jobs, command, progress
        As for `runner.run`.
    """
    place = folder / (what if what in APART else "all")
    plans = MEASUREMENTS[what](tasks, seeds)
    parts = [run(plan, place, jobs=jobs, command=command, progress=progress) for plan in plans]
    rows = pd.DataFrame(pd.concat(parts, ignore_index=True))
    lines = tables.by_seed(rows)[["task", "method", "seed", "state", *KEPT, *ALSO_KEPT.get(what, [])]].copy()
    lines[RATIOS] = _ratios(rows, lines, YARDSTICKS.get(what, YARDSTICK))
    if what == "costs":
        lines[OF_UNTOLD] = _of_untold(rows, lines)
    if what == "rivals":
        lines[LEAD] = _leads(rows, lines)
    if what == "inside":
        floors, _ = floor_by_seed(rows, place, FLOOR_CHANGES)
        lines = lines.merge(floors[["task", "method", "seed", *FLOOR_COLUMNS]], "left", ["task", "method", "seed"])
    if what == "plausible":
        lines = lines.merge(outliers_by_seed(rows), "left", ["task", "method", "seed"])
    if what in ("rules", "missing"):
        lines = lines.merge(broken_by_seed(rows), "left", ["task", "method", "seed"])
    if what == "rules":
        lines = lines.merge(brute_by_seed(rows, place), "left", ["task", "method", "seed"])
    return pd.DataFrame(lines)


def _ratios(rows: pd.DataFrame, lines: pd.DataFrame, yardstick: str) -> list[tuple[float, float]]:
    """How each unit compares with the yardstick on the rows that both solved; NaN where one of them did not run."""
    made = []
    for (both,) in _beside(rows, lines, (yardstick,)):
        solved = both["valid"].to_numpy(dtype=bool), both["valid_theirs"].to_numpy(dtype=bool)
        sparsity, proximity = (
            ratio_on_common(both[name].to_numpy(), both[f"{name}_theirs"].to_numpy(), *solved)
            for name in ("sparsity", "proximity")
        )
        made.append((sparsity, proximity))
    return made


def _of_untold(rows: pd.DataFrame, lines: pd.DataFrame) -> list[float]:
    """What the answers of each unit cost, as a share of what those cost of the same explainer that was not told."""
    made: list[float] = []
    for position, (_, method, *_rest) in enumerate(lines[["task", "method"]].itertuples(index=False, name=None)):
        rival = method if method.endswith(NOT_TOLD) else f"{method.partition(':')[0]}{NOT_TOLD}"
        ((both,),) = _beside(rows, lines.iloc[[position]], (rival,))
        solved = both["valid"].to_numpy(dtype=bool), both["valid_theirs"].to_numpy(dtype=bool)
        made.append(ratio_on_common(both["proximity"].to_numpy(), both["proximity_theirs"].to_numpy(), *solved))
    return made


def _leads(rows: pd.DataFrame, lines: pd.DataFrame) -> list[float]:
    """How much more often each unit is valid than the better rival; NaN where a rival did not run."""
    made = []
    for pairs in _beside(rows, lines, RIVALS):
        shares = np.array([both[["valid", "valid_theirs"]].mean() for both in pairs], dtype=np.float64)
        made.append(float((shares[:, 0] - shares[:, 1]).min()))
    return made


def _beside(rows: pd.DataFrame, lines: pd.DataFrame, rivals: Sequence[str]) -> Iterator[list[pd.DataFrame]]:
    """For each unit its rows beside those of each rival, on the instances that both were asked about.

    A unit that did not run is valid nowhere; beside a rival that did not there are no rows.
    """
    units: dict[Any, pd.DataFrame] = dict(iter(rows[rows["state"] == "ok"].groupby(["task", "method", "seed"])))
    for task, method, seed in lines[["task", "method", "seed"]].itertuples(index=False):
        ours = units.get((task, method, seed), rows[:0])
        pairs = []
        for rival in rivals:
            theirs = units.get((task.removesuffix(LABELS), rival, seed), rows[:0])
            both = ours.merge(theirs, "inner" if len(ours) else "right", on="instance", suffixes=("", "_theirs"))
            pairs.append(both.assign(valid=both["valid"].eq(True)))
        yield pairs
