"""The judge: one method on one task and seed, timed, counted, and checked without taking its word for anything.

Whatever an explainer calls found is asked of the raw model again and held against every constraint here.
"""

import json
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import make_explainer
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import MissingExtraError, UnsupportedError
from relax_plugin.evaluation import metrics
from relax_plugin.evaluation.plan import Method, Unit
from relax_plugin.evaluation.robustness import told_models
from relax_plugin.evaluation.schema import COLUMNS, Row
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.whole_rows import WholeRows
from relax_plugin.evaluation.yardsticks import (
    NEIGHBOURS,
    AgainWithNoise,
    Yardsticks,
    lasting,
    realism_columns,
    yardsticks_of,
)
from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import six_digits
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.reading.sentences import alternatives
from relax_plugin.results import Counterfactuals

UNTOLD = ("local_outlier", "isolated", "lasting", "noise_distance")  # where nobody can tell, or all is not asked for
REAL = tuple(name for name in COLUMNS if name.startswith("real_"))
DEAR = 10.0  # price of the dear features, where half of them are

__all__ = ["COLUMNS", "NEIGHBOURS", "Examination", "Method", "Row", "Unit", "judge"]


def judge(unit: Unit, task: Task, tell: Callable[[str], None] | None = None) -> list[Row]:
    """Run a unit on its loaded task: one row for each instance, or a single one if the method does not apply here.

    Parameters
    ----------
    unit : Unit
    task : Task
    tell : callable, optional
        Called with "prepared" and "explained", between which the method runs.
    """
    started = time.perf_counter()
    tell = tell or _nobody
    training, queries = task.X_train.copy(), task.X_test.iloc[: unit.rows]
    # Whatever a method does to its rows, the judge and the next method have their own.
    asked = [(vary, queries.copy()) for vary in _varied(unit, task.told or task.space)]
    space = task.told or task.space
    kind = BlackBox(task.model, space).task
    size: Row = {"instances": len(queries) * len(asked), "features": len(task.space), "kind": kind}
    method, options = unit.method, dict(unit.method.options)
    if unit.max_changes is not None:
        options.setdefault("max_changes", unit.max_changes)
    # Models cannot be written as an option, a number of them can: so many are fitted again for the method.
    further = options.pop("also") if isinstance(options.get("also"), int) else None
    blackbox = BlackBox(task.model, space)
    yardsticks = yardsticks_of(task)
    _asked(task, len(queries))
    if unit.metrics == "all":
        size["real_lasting"] = yardsticks.real_lasting
    size |= yardsticks.real
    try:
        # Importing what a method needs comes before its clock: it is paid once in a process, by whoever is first.
        goal = task.goal_of(unit.rows)
        explainer = make_explainer(method.explainer, blackbox, space, goal=goal, seed=unit.seed, **options)
        max_changes = options.get("max_changes", explainer.max_changes)
        size["start_seconds"] = time.perf_counter() - started
        tell("prepared")
        clock = _Clock(blackbox)
        if further is not None:  # on the method's own clock
            explainer.set_params(also=told_models(task, further))
        explainer.fit(training)
    except (UnsupportedError, MissingExtraError) as error:
        because = str(error) if isinstance(error, UnsupportedError) else f"skipped because {error}"
        return [unit.failure("skipped", because, {**size, "harness_seconds": time.perf_counter() - started})]
    costs = clock.lap("fit")
    answers = []
    prices = _prices(unit, task.space)
    asks = explainer.for_space(task.space.with_costs(prices)) if unit.prices == "told" else explainer
    for vary, handed_out in asked:
        before = blackbox.rows_asked
        result = asks.explain(handed_out, n=unit.n, vary=vary)
        answers.append((vary, result, blackbox.rows_asked - before))
    costs |= clock.lap("explain")
    costs["model_seconds"] = blackbox.seconds
    tell("explained")
    size["max_changes"] = np.nan if max_changes is None else max_changes
    rows = []
    for vary, result, spent in answers:
        part = Examination(task, queries, result, max_changes, spent, vary, prices)
        told = part.rows(every_metric=unit.metrics == "all")
        if unit.metrics == "all":
            _tell_of_noise(told, AgainWithNoise(task, queries, unit.seed), asks, part, vary)
        rows += told
    methods = costs["fit_seconds"] + costs["explain_seconds"] + size["start_seconds"]
    costs["harness_seconds"] = time.perf_counter() - started - methods
    shared = {"task": unit.task_name, "method": method.label, "seed": unit.seed, "state": "ok", "task_seconds": np.nan}
    nothing = {name: np.nan for name in REAL if name not in size}
    for instance, row in enumerate(rows):
        row |= {"instance": instance} | shared | nothing | size | costs
    return rows


def _tell_of_noise(rows: list[Row], again: AgainWithNoise, explainer: Any, part: "Examination", vary: Any) -> None:
    result = again.explained(explainer, vary)
    for instance, distance in zip(*again.distance(part.blackbox, part.result, result), strict=True):
        rows[instance]["noise_distance"] = float(distance)


def _nobody(_: str) -> None:
    """Nobody wants to know how far the judge is."""


def _varied(unit: Unit, space: FeatureSpace) -> list[list[Hashable] | None]:
    """The features that may change at each call; None: all that are mutable. The same for every method of a seed."""
    rng = np.random.default_rng(unit.seed)
    free = [feature.name for feature in space.features if not feature.immutable]
    masks = [rng.permutation(len(free))[: (len(free) + 1) // 2] for _ in range(unit.masks)]
    return [[free[position] for position in mask] for mask in masks] or [None]


def _prices(unit: Unit, space: FeatureSpace) -> dict[Hashable, float]:
    """A random half of the features that may change, ten times as dear as the others; the same for every method."""
    rng = np.random.default_rng(unit.seed)
    free = [feature.name for feature in space.features if not feature.immutable]
    return {free[j]: DEAR for j in rng.permutation(len(free))[: len(free) // 2]} if unit.prices else {}


class Examination:
    """What the judge finds out about the counterfactuals of one unit (first slot; count and diversity over all).

    The model is asked directly, and its rows are counted here: the explainer's own word is not taken.
    """

    def __init__(
        self,
        task: Task,
        queries: pd.DataFrame,
        result: Counterfactuals,
        max_changes: int | None,
        rows_asked: float,
        vary: Iterable[Hashable] | None = None,
        prices: Mapping[Hashable, float] | None = None,
    ) -> None:
        self.task, self.queries, self.result = task, queries, result
        self.max_changes, self.rows_asked, self.prices = max_changes, rows_asked, prices or {}
        self.yardsticks: Yardsticks = yardsticks_of(task)
        blackbox, self.training, self.known = (
            self.yardsticks.blackbox,
            self.yardsticks.training,
            self.yardsticks.known,
        )
        self.asked = vary
        assert blackbox.space is not None
        space, self.start = blackbox.space.taking_in(queries)
        self.delivered = result.frame[space.columns]
        self.space, self.values = space.taking_in(self.delivered)  # a torn group is a cell like another
        self.blackbox = blackbox.over(self.space)
        self.before, self.texts = _asked(task, len(queries))
        self.goal: BoundGoal = (task.goal_of(len(queries)) or Goal.flip()).bind(self.blackbox, self.before)

    def rows(self, *, every_metric: bool = False) -> list[Row]:
        """One row for each instance; with every metric, also whether models fitted again agree."""
        frame, n = self.result.frame, len(self.queries)
        query, slot = frame["query_id"].to_numpy(), frame["cf_id"].to_numpy()
        rows, start, values = self.delivered, self.start[query], self.values
        answer = self.blackbox.confirm(rows, mark_refused=True) if len(rows) else self.blackbox.ask(values)
        limits = self.space.limits(None if self.task.told else self.asked)
        kinds = WholeRows(self.space, self.space.frame(self.queries).iloc[query], rows).counts()
        violated = metrics.violations(self.space, limits, start, values, self.max_changes) + sum(kinds.values())
        slots = np.repeat(self.start[:, None], self.result.found.shape[1], axis=1)
        slots[query, slot] = values
        good = self.goal.take(query).met(answer) & (violated == 0)
        good &= self.before.answered[query]
        confirmed = np.zeros(self.result.found.shape, dtype=bool)
        confirmed[query, slot] = good
        first = np.flatnonzero(slot == 0)
        ids, start, values, answer, violated = (
            query[first],
            start[first],
            values[first],
            answer.take(first),
            violated[first],
        )
        good, kinds = good[first], {name: counted[first] for name, counted in kinds.items()}
        best = np.flatnonzero(good)
        real = rows.iloc[first[best]]
        seen = realism_columns(
            self.yardsticks, self.space, real, (start[best], values[best]), answer.take(best), self.prices
        )
        seen |= (
            {"lasting": lasting(self.yardsticks, self.space, real, self.goal.take(ids[best]))} if every_metric else {}
        )

        def everywhere(numbers: Any, nothing: Any, where: Booleans | None = None) -> Any:
            column = np.full(n, nothing, dtype=object if isinstance(nothing, str) else None)
            keep = slice(None) if where is None else where
            column[ids[keep]] = np.asarray(numbers)[keep]
            return column

        probability = self._probabilities(answer, ids)
        valid = confirmed[:, 0]
        columns: dict[str, Any] = {
            "claimed": self.result.found[:, 0],
            "valid": valid,
            "violations": everywhere(violated, 0),
            **{name: everywhere(counted, 0) for name, counted in kinds.items()},
            "sparsity": everywhere(metrics.sparsity(start, values), np.nan, good),
            "proximity": everywhere(self._distance(start, values), np.nan, good),
            "redundant": everywhere(self._redundant(start, values, ids), np.nan, good),
            "inside_box": everywhere(metrics.inside_box(self.space, values, self.training), np.nan, good),
            "neighbour_distance": everywhere(self._plausibility(values, answer), np.nan, good),
            **dict.fromkeys(UNTOLD, np.full(n, np.nan)),
            **{name: _at(ids[best], numbers, n) for name, numbers in seen.items()},
            "found_count": confirmed.sum(axis=1),
            "diversity": metrics.diversity(self.space, slots, confirmed),
            "before": self._text(self.before),
            "after": everywhere(self._text(answer), ""),
            "probability_before": everywhere(probability[0], np.nan),
            "probability_after": everywhere(probability[1], np.nan),
            "stage": self.result.stages[:, 0],
            "reason": np.where(valid, "", self._reasons(everywhere(violated, 0))),
            "sentence": np.array([told[0] for told in alternatives(self.result)], dtype=object),
            "rows": self._rows_spent(),
            "query": self.texts,
            "changes": self._changes(valid),
        }
        # Plain Python numbers: they are sent between processes several times faster than numpy's.
        plain = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*plain, strict=True)]

    def _distance(self, start: Values, values: Values) -> Floats:
        """L1, at the prices of the unit where it has some."""
        if self.prices:
            return metrics.cost(self.space, self.prices, start, values)
        return metrics.proximity(self.space, start, values)

    def _rows_spent(self) -> Any:
        """Model rows of each instance, if the method's books agree with the judge's count; else the count, evenly."""
        told = np.asarray(self.result.rows_queried, dtype=np.float64)
        return told if told.sum() == self.rows_asked else np.full(len(told), self.rows_asked / max(len(told), 1))

    def _redundant(self, start: Values, values: Values, ids: Integers) -> Integers:
        def meets(candidates: Values, owner: Integers) -> Booleans:
            met = self.goal.take(ids[owner]).met(self.blackbox.ask(candidates, mark_refused=True))
            if self.space.rules:  # what keeps a rule is not too much
                queries = self.space.frame(self.queries).iloc[ids[owner]]
                reverted = self.space.frame(self.space.restore(candidates, queries, start[owner]))
                met &= WholeRows(self.space, queries, reverted).broken_rules() == 0
            return met

        return metrics.redundancy(start, values, meets)

    def _plausibility(self, values: Values, answer: Answer) -> Floats:
        """Distance to the nearest training rows of the class reached; of a regressor, to the nearest of all."""
        distance = np.full(len(values), np.nan)
        if self.blackbox.task == "regression":
            return metrics.neighbour_distance(self.space, values, self.training, NEIGHBOURS)
        for label in np.unique(answer.output):
            here = answer.output == label
            among = self.training[self.known == label]
            distance[here] = metrics.neighbour_distance(self.space, values[here], among, NEIGHBOURS)
        return distance

    def _probabilities(self, answer: Answer, ids: Integers) -> tuple[Floats, Floats]:
        """Of the class reached, at the query and at the counterfactual; NaN where the model gives none."""
        if not self.blackbox.has_probabilities or answer.scores is None or self.before.scores is None:
            return np.full(len(ids), np.nan), np.full(len(ids), np.nan)
        position = answer.output.astype(int)
        rows = np.arange(len(ids))
        return self.before.scores[ids, position], answer.scores[rows, position]

    def _text(self, answer: Answer) -> Any:
        texts = np.array([six_digits(label) for label in self.blackbox.labels(answer.output)], dtype=object)
        return np.where(answer.answered, texts, "")

    def _reasons(self, violated: Integers) -> Any:
        reasons = self.result.statuses[:, 0].astype(object)
        untrue = self.result.found[:, 0]
        reasons[untrue] = "said to be found, but the model's answer does not meet the goal"
        broken = untrue & (violated > 0)
        reasons[broken] = [f"said to be found, but it violates {count} constraints" for count in violated[broken]]
        return reasons

    def _changes(self, valid: Booleans) -> list[str]:
        lists: list[list[Any]] = [[] for _ in valid]
        table = self.result.changes().query("cf_id == 0")
        cells = zip(*(table[name].tolist() for name in ("query_id", "feature", "from", "to")), strict=True)
        for query, *change in cells:
            if valid[query]:
                lists[query].append(change)
        return [_json(changes) for changes in lists]


@lru_cache(maxsize=4)
def _asked(task: Task, rows: int) -> tuple[Answer, list[str]]:
    """The model's answers to the first test rows, and these rows as JSON: the same for every method."""
    queries = task.X_test.iloc[:rows]
    answer = yardsticks_of(task).blackbox.confirm(queries, mark_refused=True)
    return answer, [_json(row) for row in queries.to_dict("records")]


def _at(ids: Integers, numbers: Floats, n: int) -> Floats:
    column = np.full(n, np.nan)
    column[ids] = numbers
    return column


class _Clock:
    """Wall and CPU seconds, model rows and calls since the last lap."""

    def __init__(self, blackbox: BlackBox) -> None:
        self.blackbox = blackbox
        self.last = self._now()

    def lap(self, part: str) -> Row:
        now = self._now()
        spent = {f"{part}_{name}": now[name] - self.last[name] for name in now}
        self.last = now
        return spent

    def _now(self) -> Row:
        asked = {"rows": self.blackbox.rows_asked, "calls": self.blackbox.calls}
        return {"seconds": time.perf_counter(), "cpu": time.process_time(), **asked}


def _json(data: Any) -> str:
    return json.dumps(data, default=lambda value: value.item() if hasattr(value, "item") else str(value))
