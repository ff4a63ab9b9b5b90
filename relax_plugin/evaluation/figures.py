"""The figures of the core: what `relax-plugin figures` measures and prints. Five seeds, test rows never seen before."""

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.base import CounterfactualExplainer, make_explainer
from relax_plugin.evaluation.controls import RandomOrder
from relax_plugin.evaluation.metrics import break_even, mean_over, ratio_on_common, total_rows, validity
from relax_plugin.evaluation.tasks import CORE_TASKS, Task, load_task
from relax_plugin.results import Counterfactuals

TASKS = (*CORE_TASKS, "boston/mlp-0.2", "boston/mlp-0.6", "german/rf")
LABELS_ONLY_TASKS = ("breast_cancer/rf", "wave2/xgb", "sonar/mlp")
LOCAL_TASKS = ("sonar/mlp",)
INSTANCES = (1, 10, 100, 1_000, 10_000)
AMORTISED = ["greedy", "move-table", "relax-global, model", "surrogate-search", "relax-global, imagined"]
MASKS = 2  # random halves of the features frozen, for each seed
EFFORTS: tuple[dict[str, dict[str, Any]], ...] = (
    {"policy": {"effort": "policy"}, "refined": {"effort": "refined"}},
    {
        "search, 40 rows": {"effort": "search"},
        "search, 120 rows": {"rows_per_instance": 120},
        "agent, no fallback": {"rows_per_instance": 40, "fallback": False},
    },
)
"""What is run of one fit: an agent that is followed alone is trained for longer than one beside a world model."""


@dataclass(frozen=True)
class Run:
    """One method on one task and seed: its counterfactuals and what they cost."""

    result: Counterfactuals
    fit_seconds: float  # CPU
    explain_seconds: float  # CPU
    fit_rows: int

    @property
    def found(self) -> Any:
        return self.result.found[:, 0]

    def row(self, method: str, yardstick: "Run | None" = None) -> dict[str, Any]:
        """The run as one row of a table, ratios being taken on the rows that the yardstick solved too."""
        sparsity, proximity = self.result.sparsity[:, 0], self.result.proximity[:, 0]
        row: dict[str, Any] = {
            "method": method,
            "validity": validity(self.found),
            "worst class": min(validity(self.found[index]) for index in self._by_answer()),
            "L0": mean_over(self.found, sparsity),
            "L1": mean_over(self.found, proximity),
            "rows": float(self.result.rows_queried.mean()),
            "training rows": self.fit_rows,
            "fit s": self.fit_seconds,
            "explain s": self.explain_seconds,
        }
        if yardstick is not None:
            theirs = yardstick.result
            both = (self.found, yardstick.found)
            row["L0 ratio"] = ratio_on_common(sparsity, theirs.sparsity[:, 0], *both)
            row["L1 ratio"] = ratio_on_common(proximity, theirs.proximity[:, 0], *both)
        return row

    def _by_answer(self) -> Iterable[Any]:
        before = self.result.before
        if before.dtype != object:  # a regressor's answers are no groups
            return [np.arange(len(before))]
        return [np.flatnonzero(before == label) for label in set(before)]


def run(explainer: CounterfactualExplainer, task: Task, vary: list[Hashable] | None = None) -> Run:
    """Fit (unless fitted) and explain the test rows, timed in CPU seconds."""
    started = time.process_time()
    if not hasattr(explainer, "blackbox_"):
        explainer.fit(task.X_train)
    fitted = time.process_time()
    result = explainer.explain(task.X_test, vary=vary)
    return Run(result, fitted - started, time.process_time() - fitted, explainer.fit_rows_)


def core(task: Task, seed: int) -> list[dict[str, Any]]:
    """ReLAX-Global at its three efforts beside greedy search, and the controls at the same number of rows."""
    options: dict[str, Any] = {"goal": task.goal, "seed": seed}
    greedy = run(make_explainer("greedy", task.model, task.space, **options), task)
    rows = [greedy.row("greedy", greedy)]
    for methods in EFFORTS:
        agent = make_explainer("relax-global", task.model, task.space, progress=False, **options)
        fit_seconds = 0.0
        for method, settings in methods.items():
            once = run(agent.set_params(**settings), task)
            fit_seconds = max(fit_seconds, once.fit_seconds)  # only the first of them fits
            rows.append(replace(once, fit_seconds=fit_seconds).row(method, greedy))
    table = make_explainer("move-table", task.model, task.space, fallback=False, **options)
    untrained = make_explainer(
        "relax-global",
        task.model,
        task.space,
        config=ReLAXConfig(steps=1, training="model"),
        fallback=False,
        progress=False,
        **options,
    )
    shuffled = RandomOrder(task.model, task.space, fallback=False, **options)
    for method, explainer in (("table of moves", table), ("untrained", untrained), ("random order", shuffled)):
        rows.append(run(explainer, task).row(f"{method}, no fallback", greedy))
    return rows


def masked(task: Task, seed: int) -> list[dict[str, Any]]:
    """A random half of the features frozen at the call, without a new fit, beside greedy under the same masks."""
    options: dict[str, Any] = {"goal": task.goal, "seed": seed}
    greedy = make_explainer("greedy", task.model, task.space, **options).fit(task.X_train)
    agents = {
        effort: make_explainer("relax-global", task.model, task.space, effort=effort, progress=False, **options).fit(
            task.X_train
        )
        for effort in ("policy", "search")
    }
    free = [f.name for f in task.space.features if not f.immutable]
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(MASKS):
        vary = [free[j] for j in rng.permutation(len(free))[: (len(free) + 1) // 2]]
        yardstick = run(greedy, task, vary=vary)
        rows.append(yardstick.row("greedy", yardstick))
        rows += [run(agent, task, vary=vary).row(effort, yardstick) for effort, agent in agents.items()]
    return rows


def labels_only(task: Task, seed: int) -> list[dict[str, Any]]:
    """The same model asked for labels alone: trained on the model and in imagination, with and without curiosity."""
    scored = run(make_explainer("greedy", task.model, task.space, seed=seed), task)
    rows = [scored.row("greedy (with scores)", scored)]
    for training in ("model", "imagined"):
        for name, curiosity in (("", 0.0), (", curiosity", 0.05)):
            agent = make_explainer(
                "relax-global",
                task.model.predict,
                task.space,
                effort="policy",
                seed=seed,
                config=ReLAXConfig(training=training, state_curiosity=curiosity),
                progress=False,
            )
            first = run(agent, task)
            again = run(agent.set_params(effort="search"), task)
            rows.append(first.row(f"{training}{name}: policy", scored))
            rows.append(replace(again, fit_seconds=first.fit_seconds).row(f"{training}{name}: search", scored))
    return rows


def imagination(task: Task, seed: int) -> list[dict[str, Any]]:
    """ReLAX-Global trained on the model and in imagination, beside all that needs no agent, at 40 rows a query."""
    options: dict[str, Any] = {"goal": task.goal, "seed": seed}
    greedy = run(make_explainer("greedy", task.model, task.space, **options), task)
    rows = [greedy.row("greedy", greedy)]
    for method in ("move-table", "surrogate-search"):
        rows.append(run(make_explainer(method, task.model, task.space, **options), task).row(method, greedy))
    on_the_model, in_imagination = ReLAXConfig(training="model"), ReLAXConfig(training="imagined")
    for effort, config, names in (
        ("policy", on_the_model, ("model, policy", "model")),
        ("policy", in_imagination, ("imagined, policy", "imagined for longer")),  # the search with this agent
        ("search", in_imagination, ("imagined",)),
    ):
        agent = make_explainer(
            "relax-global", task.model, task.space, effort=effort, config=config, progress=False, **options
        )
        first = run(agent, task)
        rows.append(first.row(f"relax-global, {names[0]}", greedy))
        for name in names[1:]:
            again = run(agent.set_params(effort="search"), task)
            rows.append(replace(again, fit_seconds=first.fit_seconds).row(f"relax-global, {name}", greedy))
    return rows


def amortised(frame: pd.DataFrame) -> pd.DataFrame:
    """Total model rows against the number of instances explained, and the break-even with greedy search.

    Validity, L0 and L1 of a method do not depend on how many instances it is given: they are those of the test rows,
    as is the mean number of rows an instance.
    """
    table = summary(frame)
    result = table[["validity", "L0", "L1", "L0 ratio", "L1 ratio", "fit s"]].copy()
    for instances in INSTANCES:
        result[f"rows for {instances:,}"] = total_rows(table["training rows"], table["rows"], instances)
    costs = table[["training rows", "rows"]].to_numpy()
    greedy = table.index.get_indexer(pd.Index([(task, "greedy") for task, _ in table.index]))
    result["break-even"] = [break_even(*own, *rival) for own, rival in zip(costs, costs[greedy], strict=True)]
    return pd.DataFrame(result)


def local(task: Task, seed: int) -> list[dict[str, Any]]:
    """ReLAX-Local with and without pretrained Global, at the effort of the paper."""
    rows = []
    for method, name, config in (
        ("global", "relax-global", ReLAXConfig()),
        ("local", "relax-local", ReLAXConfig()),
        ("local, not pretrained", "relax-local", ReLAXConfig(pretrained=False)),
    ):
        options: dict[str, Any] = {"goal": task.goal, "seed": seed, "config": config, "progress": False}
        rows.append(run(make_explainer(name, task.model, task.space, effort="policy", **options), task).row(method))
    return rows


Measurement = Callable[[Task, int], list[dict[str, Any]]]
MEASUREMENTS: dict[str, tuple[Measurement, tuple[str, ...]]] = {
    "core": (core, TASKS),
    "masked": (masked, TASKS),
    "labels": (labels_only, LABELS_ONLY_TASKS),
    "local": (local, LOCAL_TASKS),
    "imagination": (imagination, TASKS),
}


def measure(what: str, tasks: Iterable[str] | None, seeds: Iterable[int], jobs: int) -> pd.DataFrame:
    """One row for each task, seed and method of a measurement."""
    function, usual = MEASUREMENTS[what]
    cases = [(name, seed) for name in (tasks or usual) for seed in seeds]
    parts: list[pd.DataFrame] = joblib.Parallel(n_jobs=jobs, verbose=5, inner_max_num_threads=1, backend="loky")(
        joblib.delayed(_one)(function, name, seed) for name, seed in cases
    )
    return pd.DataFrame(pd.concat(parts, ignore_index=True))


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, with the standard deviation of validity and its lowest value."""
    numbers = frame.drop(columns=["seed"]).groupby(["task", "method"], sort=False)
    table: pd.DataFrame = numbers.mean()
    table.insert(1, "± validity", numbers["validity"].std(ddof=0))
    table["lowest validity"] = numbers["validity"].min()
    return pd.DataFrame(table)


def _one(function: Measurement, name: str, seed: int) -> pd.DataFrame:
    rows = function(load_task(name, seed=seed), seed)
    return pd.DataFrame(rows).assign(task=name, seed=seed)
