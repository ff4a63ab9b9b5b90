"""Problem: the queries of one call with their goals and limits; it asks the model and keeps the books per query."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal
from relax_plugin.limits import Limits


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
    spent: Integers = field(repr=False)  # model rows spent on each query so far
    itself_misses: bool = False  # whether a query counts as a miss even if it meets its goal
    whole: "Problem | None" = field(default=None, repr=False)  # the problem this one is a part of,
    index: Integers | None = field(default=None, repr=False)  # and where its queries are in it

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
        self.charge(owner, self.blackbox.rows_per_question)
        answer = self.blackbox.ask(values)
        if not self.itself_misses:
            return answer
        itself = np.asarray((values == self.start[owner]).all(axis=1))
        return answer.replaced(itself, self.before.take(owner))

    def charge(self, owner: Integers, rows: int | Integers) -> None:
        """Enter model rows as spent on their owners, here and in the books of the whole."""
        np.add.at(self.spent, owner, rows)
        if self.whole is not None and self.index is not None:
            self.whole.charge(self.index[owner], rows)

    def judge(self, values: Values, owner: Integers) -> tuple[Booleans, Floats]:
        """Whether each candidate meets its owner's goal, and its gap."""
        answer = self.ask(values, owner)
        goal = self.goal.take(owner)
        return goal.met(answer), goal.gap(answer)

    def distance(self, values: Values, owner: Integers) -> Floats:
        return self.space.distance(values, self.start[owner])

    def changed(self, values: Values, owner: Integers) -> Booleans:
        return np.asarray(values != self.start[owner])

    def part(self, index: Integers) -> "Problem":
        """The problem of some of the queries, with books of its own; what it spends is charged to the whole too."""
        return replace(
            self,
            start=self.start[index],
            before=self.before.take(index),
            goal=self.goal.take(index),
            limits=self.limits.take(index),
            spent=np.zeros(len(index), dtype=np.int64),
            whole=self,
            index=index,
        )

    def parts(self, size: int) -> Iterator[tuple[Integers, "Problem"]]:
        """The problem in pieces of at most so many queries, each with where its queries are."""
        for first in range(0, len(self), size):
            index = np.arange(first, min(first + size, len(self)))
            yield index, self.part(index)

    def besides_query(self) -> "Problem":
        """The problem as those see it who shall find other rows than the query: where it meets the goal, it misses.

        This is for the search alone; whoever decides what is valid keeps to the model's own answers.
        """
        return replace(self, before=self.goal.missed(self.before), itself_misses=True)


@dataclass
class Proposals:
    """What a method offers for a problem: up to k rows a query; the core decides which of them are valid.

    `offered` marks filled slots, `stage` says which part of the method found each, `note` why a query has none.
    An empty slot may hold the closest attempt. A method that has the model's own scores of what it offers hands them
    on, and the model need not be asked for them again; they are NaN where unknown.
    """

    values: Floats  # (n, k, features)
    offered: Booleans  # (n, k)
    stage: Array  # (n, k) of str
    note: Array  # (n,) of str
    scores: Floats | None = None  # (n, k, classes), where the model gives some

    @classmethod
    def empty(cls, problem: Problem, k: int) -> "Proposals":
        n, before = len(problem), problem.before.scores
        return cls(
            values=np.repeat(problem.start[:, None, :], k, axis=1),
            offered=np.zeros((n, k), dtype=bool),
            stage=np.full((n, k), "", dtype=object),
            note=np.full(n, "", dtype=object),
            scores=None if before is None else np.full((n, k, before.shape[1]), np.nan),
        )
