"""Question: the answers whose regions are wanted, with their goals, what their cells may be, and the model to ask."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.blackbox import Answer, BlackBox, model_to_ask
from relax_plugin.cached import cached_property
from relax_plugin.errors import GoalError, InputError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.limits import Limits
from relax_plugin.other_models import FurtherModel, further_models
from relax_plugin.plausibility import PlausibleRows, read_plausibility
from relax_plugin.problem import Condition
from relax_plugin.results import Counterfactuals, taken
from relax_plugin.rules.repair import RowRules

MOST_ROWS = 100_000  # that the model is asked at once


@dataclass(frozen=True, eq=False)
class Question:
    """Found counterfactuals that change something, one after the other; arrays have a line for each."""

    space: FeatureSpace
    blackbox: BlackBox
    queries: Rows
    query: Integers  # the position of each answer's query,
    slot: Integers  # and which of its counterfactuals it is
    start: Values
    values: Values
    before: Answer
    goal: BoundGoal
    limits: Limits
    conditions: tuple[Condition, ...]  # on whole rows: rules, and plausibility if it was required
    also: tuple[FurtherModel, ...]

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def changed(self) -> Booleans:
        """Which cells differ from the query's (answers, features)."""
        return np.asarray(self.values != self.start)

    @cached_property
    def vanished(self) -> Booleans:
        """Which numbers have become missing: they have no interval."""
        return np.asarray(self.changed & (self.values == self.space.missing_codes))

    @cached_property
    def open(self) -> Booleans:
        """Which cells are numbers with an interval to be found."""
        return np.asarray(self.changed & ~self.vanished & ~self.space.is_categorical)

    @cached_property
    def span(self) -> tuple[Floats, Floats]:
        """Lowest and highest number that each open cell may become; all others as they were delivered."""
        low, high = self.limits.span(self.start)
        low = np.where(self.open, np.minimum(low, self.values), self.values)
        return low, np.where(self.open, np.maximum(high, self.values), self.values)

    @cached_property
    def choices(self) -> Booleans:
        """Which of all categories each changed cell may become (answers, all categories)."""
        allowed = np.zeros((len(self), int(self.space.category_offsets[-1])), dtype=bool)
        for j in np.flatnonzero(self.space.is_categorical):
            own = np.flatnonzero(self.changed[:, j])
            for code in range(len(self.space.features[j].categories) if len(own) else 0):
                rows = self.values[own].copy()
                rows[:, j] = code
                kept = self.limits.take(own).kept(rows, self.start[own])
                allowed[own, self.space.category_offsets[j] + code] = kept
        return allowed

    def without_needless(self) -> "Question":
        """The question with those changes taken back, one by one, that neither the goal nor a condition needs."""
        values, left = self.values.copy(), self.changed.copy()
        for j in range(values.shape[1]):
            answer = np.flatnonzero(left[:, j] & (left.sum(axis=1) > 1))
            if len(answer):
                rows = values[answer].copy()
                rows[:, j] = self.start[answer, j]
                held = answer[self.holds(rows, answer)]
                values[held, j], left[held, j] = self.start[held, j], False
        return self if (left == self.changed).all() else replace(self, values=values).without_needless()

    def part(self, index: Integers) -> "Question":
        """The question about some of the answers; what it asks is counted here too."""
        return replace(
            self,
            query=self.query[index],
            slot=self.slot[index],
            start=self.start[index],
            values=self.values[index],
            before=self.before.take(index),
            goal=self.goal.take(index),
            limits=self.limits.take(index),
        )

    def admits(self, values: Values, owner: Integers) -> Booleans:
        """Whether each row keeps every condition on whole rows."""
        held = np.ones(len(values), dtype=bool)
        for condition in self.conditions:
            left = np.flatnonzero(held)
            if len(left):
                held[left] = condition.holds(values[left], self.query[owner[left]])
        return held

    def holds(self, values: Values, owner: Integers) -> Booleans:
        """Whether each row, in place of the answer that owns it, meets its goal and every condition.

        The model is asked with the row as it would be delivered, in one call of its `predict`.
        """
        held = self.admits(values, owner)
        for first in range(0, len(values), MOST_ROWS):
            some = np.arange(first, min(first + MOST_ROWS, len(values)))[held[first : first + MOST_ROWS]]
            if len(some):
                held[some] = self._met(values[some], owner[some])
        return held

    def _met(self, values: Values, owner: Integers) -> Booleans:
        goal = self.goal.take(owner)
        rows = self.space.restore(values, taken(self.queries, self.query[owner]), self.start[owner])
        # Scores that count as known are not asked for: labels alone decide, unless the goal is about a probability.
        known = None if goal.needs_scores else np.zeros((len(values), 1))
        met = goal.met(self.blackbox.confirm(rows, known, mark_refused=True))
        for model in self.also:
            met &= model.met(goal, model.confirm(rows))
        return met

    def gap(self, values: Values, owner: Integers) -> Floats:
        """How far each row is from its goal by the model's scores: a hint at where to look, never a verdict."""
        return self.goal.take(owner).gap(self.blackbox.ask(values, mark_refused=True))

    @property
    def rows_asked(self) -> int:
        return self.blackbox.rows_asked + sum(model.blackbox.rows_asked for model in self.also)


def question_of(
    result: Counterfactuals, explainer: CounterfactualExplainer | None, rows: Iterable[int] | None
) -> Question:
    """The found counterfactuals of some queries as a question."""
    blackbox = model_to_ask(result, explainer, "regions(explainer)", "regions").over(result.space)
    wanted = _positions(rows, len(result))
    query, slot = np.nonzero(result.found & ~(result.values == result.start[:, None]).all(axis=2) & wanted[:, None])
    start = result.start
    asked = result.asked
    constraints = {} if asked is None else vars(asked.constraints)
    limits = result.space.limits(values=start, **constraints).take(query)
    scores = None if result.scores_before is None else result.scores_before[query]
    output = result.before[query]
    codes = blackbox.task == "classification"
    before = Answer(blackbox.codes(output) if codes else np.asarray(output, dtype=np.float64), scores)
    return Question(
        space=result.space,
        blackbox=blackbox,
        queries=result.queries,
        query=query,
        slot=slot,
        start=start[query],
        values=result.values[query, slot],
        before=before,
        goal=_goal(result, explainer, blackbox).chunk(query).bind(blackbox, before),
        limits=limits,
        conditions=_conditions(result, explainer),
        also=_further(result, explainer, blackbox),
    )


def _positions(rows: Iterable[int] | None, count: int) -> Booleans:
    wanted = np.full(count, rows is None)
    if rows is not None and (isinstance(rows, str) or not isinstance(rows, Iterable)):
        raise InputError(f"rows is {rows!r}; give a list of positions of queries, from 0 to {count - 1}.")
    for row in () if rows is None else rows:
        if not isinstance(row, int | np.integer) or isinstance(row, bool) or not 0 <= row < count:
            raise InputError(f"rows names query {row!r}; there are {count}, from 0 on.")
        wanted[row] = True
    return wanted


def _goal(result: Counterfactuals, explainer: CounterfactualExplainer | None, blackbox: BlackBox) -> Goal:
    if result.asked is not None:
        return result.asked.goal
    if explainer is not None:
        return fitted(explainer).wanted_goal()
    if blackbox.task == "regression":
        raise GoalError("this result does not tell its goal; give regions(explainer) the one that made it.")
    return Goal.flip()


def _conditions(result: Counterfactuals, explainer: CounterfactualExplainer | None) -> tuple[Condition, ...]:
    conditions: list[Condition] = []
    if result.space.rules:
        conditions.append(RowRules(result.space, result.space.bound_rules, result.start))
    if result.asked is not None and result.asked.plausible == "require":
        training = wanted = None
        if result.detectors is not None:
            training, wanted = result.detectors.training, result.detectors.wanted
        elif explainer is not None:
            training, wanted = fitted(explainer).training_rows_, read_plausibility(explainer.plausible)
        if training is None or wanted is None or not wanted.strict:
            raise InputError(
                "the answers had to be plausible, and this result does not keep what tells it: ask the result of "
                "`explain` itself for its regions, or give an explainer with the same `plausible`."
            )
        conditions.append(PlausibleRows.of(training.detector(wanted), result.start))
    return tuple(conditions)


def _further(result: Counterfactuals, explainer: Any, blackbox: BlackBox) -> tuple[FurtherModel, ...]:
    """The models of `also` for which the answers hold; the result knows only how many there are."""
    count = 0 if result.asked is None else result.asked.further_models
    if count == 0:
        return ()
    models = [] if explainer is None else list(explainer.also)
    if len(models) != count:
        raise InputError(
            f"the answers hold for {count} further models too, and their regions need these: give regions(explainer) "
            f"an explainer with also=[...], {count} models."
        )
    return further_models(models, blackbox, result.space, result.start)
