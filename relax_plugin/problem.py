"""Problem: the queries of one call with their goals and limits; it asks the model and keeps the books per query."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.features import FeatureSpace, Values
from relax_plugin.goal import BoundGoal
from relax_plugin.limits import Limits

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Problem:
    """A batch of queries to be explained.

    Candidates are asked about with their `owner`, the position of the query they belong to, so that any number of
    candidates a query fits in one call of the model.
    """

    space: FeatureSpace
    blackbox: BlackBox
    start: Values
    before: Answer
    goal: BoundGoal
    limits: Limits
    max_changes: int
    rows: Integers = field(repr=False)  # model rows spent on each query so far
    itself_misses: bool = False  # whether a query counts as a miss even if it meets its goal

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def gap(self) -> Floats:
        """How far each query itself is from its goal."""
        return self.goal.gap(self.before)

    @cached_property
    def span(self) -> tuple[Floats, Floats]:
        """Lowest and highest value each feature of each query may take."""
        return self.limits.span(self.start)

    def ask(self, values: Values, owner: Integers) -> Answer:
        """The model's answers to candidates, one call, charged to their owners."""
        np.add.at(self.rows, owner, self.blackbox.rows_per_question)
        answer = self.blackbox.ask(values)
        if not self.itself_misses:
            return answer
        itself = np.asarray((values == self.start[owner]).all(axis=1))
        return answer.replaced(itself, self.before.rows(owner))

    def judge(self, values: Values, owner: Integers) -> tuple[Booleans, Floats]:
        """Whether each candidate meets its owner's goal, and its gap."""
        answer = self.ask(values, owner)
        goal = self.goal.rows(owner)
        return goal.met(answer), goal.gap(answer)

    def distance(self, values: Values, owner: Integers) -> Floats:
        return self.space.distance(values, self.start[owner])

    def changed(self, values: Values, owner: Integers) -> Booleans:
        return np.asarray(values != self.start[owner])

    def part(self, index: Integers) -> "Problem":
        """The problem of some of the queries, with books of its own."""
        return replace(
            self,
            start=self.start[index],
            before=self.before.rows(index),
            goal=self.goal.rows(index),
            limits=self.limits.rows(index),
            rows=np.zeros(len(index), dtype=np.int64),
        )

    def besides_query(self) -> "Problem":
        """The problem as those see it who shall find other rows than the query: where it meets the goal, it misses.

        This is for the search alone; whoever decides what is valid keeps to the model's own answers.
        """
        return replace(self, before=self.goal.missed(self.before), itself_misses=True)


@dataclass
class Proposals:
    """What a method offers for a problem: up to k rows a query; the core decides which of them are valid.

    `offered` marks filled slots, `stage` says which part of the method found each, `note` why a query has none.
    An empty slot may hold the closest attempt.
    """

    values: Floats  # (n, k, features)
    offered: Booleans  # (n, k)
    stage: np.ndarray[Any, Any]  # (n, k) of str
    note: np.ndarray[Any, Any]  # (n,) of str

    @classmethod
    def empty(cls, problem: Problem, k: int) -> "Proposals":
        n, d = problem.start.shape
        values = np.repeat(problem.start[:, None, :], k, axis=1)
        assert values.shape == (n, k, d)
        return cls(values, np.zeros((n, k), dtype=bool), np.full((n, k), "", dtype=object), np.full(n, "", object))
