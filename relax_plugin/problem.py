"""Problem: the queries of one call with their goals and limits; it asks the model and keeps the books per query."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, UnsupportedError, did_you_mean
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import BoundGoal
from relax_plugin.limits import Limits
from relax_plugin.other_models import FurtherModel
from relax_plugin.rules.repair import RowRules

SPARSE = "sparse"  # the fewest changes, and of as many the least distance
CLOSEST = "closest"  # the least distance, with however many changes up to the limit
FROM_TREES = "trees"  # the stage of what was found in the trees of the model
OBJECTIVES = (SPARSE, CLOSEST)


class Condition(Protocol):
    """What whole rows must fulfil beside the limits of single cells: rules between columns, plausibility.

    A row that does not is never delivered. It may be asked about on the way: `Problem.ask` then says that it misses.
    """

    @property
    def told(self) -> str: ...  # said of rows that fulfil it, such as "is plausible"

    def holds(self, values: Values, owner: Integers) -> Booleans:
        """Whether each candidate, changed from the query at position `owner`, fulfils it."""

    def take(self, index: Integers) -> "Condition":
        """The condition for some of the queries, whose positions are 0, 1, ... from then on."""


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
    conditions: tuple[Condition, ...] = ()  # on whole rows
    also: tuple[FurtherModel, ...] = ()  # models for which an answer must hold too,
    spent_also: Integers | None = field(default=None, repr=False)  # and what was spent on them for each query
    barred: Booleans = field(default_factory=lambda: np.zeros(0, dtype=bool), repr=False)  # see `bar`
    objective: str = SPARSE  # or "closest": the least distance, with however many changes
    preferred: bool = False  # whether answers are known, and better ones are looked for: not at any price
    whole: "Problem | None" = field(default=None, repr=False)  # the problem this one is a part of,
    index: Integers | None = field(default=None, repr=False)  # and where its queries are in it

    def __post_init__(self) -> None:
        if len(self.barred) != len(self.start):
            object.__setattr__(self, "barred", np.zeros(len(self.start), dtype=bool))

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
        answer = self.blackbox.ask(values, mark_refused=True)
        if answer.refused is not None:  # as good as no change: they miss the goal
            answer = answer.where_refused(self.goal.missed(self.before).take(owner))
        answer = self._with_misses(answer, values, owner)
        if not self.itself_misses:
            return answer
        itself = np.asarray((values == self.start[owner]).all(axis=1))
        return answer.replaced(itself, self.before.take(owner))

    def _with_misses(self, answer: Answer, values: Values, owner: Integers) -> Answer:
        """The answers, with such as miss the goal in the place of those to rows that may not be delivered."""
        if not self.conditions and not self.also:
            return answer
        goal = self.goal.take(owner)
        met = np.flatnonzero(goal.met(answer))
        barred = np.zeros(len(values), dtype=bool)
        barred[met] = ~self.admits(values[met], owner[met])
        few = (values[barred] != self.start[owner[barred]]).sum(axis=1) <= self.max_changes
        self.bar(owner[barred][few])
        answer = answer.replaced(barred, goal.missed(answer))
        return self._of_the_worst_model(answer, values, owner, met[~barred[met]]) if self.also else answer

    def _of_the_worst_model(self, answer: Answer, values: Values, owner: Integers, met: Integers) -> Answer:
        """The answers, with those of a further model to rows that meet the goal by all models before it, not by it."""
        for model in self.also:
            if len(met) == 0:
                break
            self.charge_also(owner[met])
            told, goal = model.ask(values[met]), self.goal.take(owner[met])
            missed = ~model.met(goal, told)
            where = np.zeros(len(values), dtype=bool)
            where[met[missed]] = True
            few = (values[where] != self.start[owner[where]]).sum(axis=1) <= self.max_changes
            self.bar(owner[where][few])
            other = self.goal.take(owner).missed(answer)
            if model.comparable:
                index = np.zeros(len(values), dtype=np.int64)
                index[met] = np.arange(len(met))
                other = told.take(index).where_refused(other)
            answer = answer.replaced(where, other)
            met = met[~missed]
        return answer

    def holds_for_all(self, rows: Rows, owner: Integers) -> Booleans:
        """Whether the further models' own answers to delivered rows meet the goals."""
        held = np.ones(len(owner), dtype=bool)
        for model in self.also:
            self.charge_also(owner)
            held &= model.met(self.goal.take(owner), model.confirm(rows))
        return held

    def charge_also(self, owner: Integers) -> None:
        """Enter a row of a further model as spent on each of the owners, here and in the books of the whole."""
        assert self.spent_also is not None
        np.add.at(self.spent_also, owner, 1)
        if self.whole is not None and self.index is not None:
            self.whole.charge_also(self.index[owner])

    def admits(self, values: Values, owner: Integers) -> Booleans:
        """Whether each candidate fulfils every condition on whole rows."""
        admitted = np.ones(len(values), dtype=bool)
        for condition in self.conditions:
            left = np.flatnonzero(admitted)  # the cheap conditions come first
            admitted[left] = condition.holds(values[left], owner[left])
        return admitted

    @cached_property
    def rules(self) -> RowRules | None:
        """The rules between columns that hold, if there are any."""
        return next((condition for condition in self.conditions if isinstance(condition, RowRules)), None)

    def mended(self, values: Values, owner: Integers, base: Values | None = None) -> Values:
        """The candidates; those that break a rule with another column of it changed too, if they keep it then.

        Of several ways to mend one the fewest changes are taken, then the closest row; not the one that leads back to
        the `base` it was made of, by default the query.
        """
        if self.rules is None or len(values) == 0:
            return values
        broken = np.flatnonzero(~self.rules.holds(values, owner))
        base = None if base is None else base[broken]
        rows, parent = self.rules.repaired(values[broken], owner[broken], self.limits, base)
        few = (rows != self.start[owner[broken[parent]]]).sum(axis=1) <= self.max_changes
        rows, parent = rows[few], parent[few]
        best, first = np.unique(parent, return_index=True)  # they come in the order of their worth
        values = values.copy()
        values[broken[best]] = rows[first]
        return values

    def within_limits(self, values: Values, owner: Integers) -> Values:
        """The candidates moved within the limits, and mended."""
        return self.mended(self.limits.take(owner).project(values, self.start[owner]), owner)

    def bar(self, owner: Integers) -> None:
        """Note that these queries would have an answer within their changes, were it not for the conditions."""
        self.barred[owner] = True
        if self.whole is not None and self.index is not None:
            self.whole.bar(self.index[owner])

    @property
    def none(self) -> str:
        """What is not there if nothing is found: "none", or "none that is plausible"."""
        told = [condition.told for condition in self.conditions] + ["holds for every model"] * bool(self.also)
        return f"none that {' and '.join(told)}" if told else "none"

    def charge(self, owner: Integers, rows: int | Integers) -> None:
        """Enter model rows as spent on their owners, here and in the books of the whole."""
        np.add.at(self.spent, owner, rows)
        if self.whole is not None and self.index is not None:
            self.whole.charge(self.index[owner], rows)

    def judge(self, values: Values, owner: Integers) -> tuple[Booleans, Floats]:
        """Whether each candidate meets its owner's goal, and its gap."""
        met, gap, _ = self.judge_fully(values, owner)
        return met, gap

    def judge_fully(self, values: Values, owner: Integers) -> tuple[Booleans, Floats, Answer]:
        """Whether each candidate meets its owner's goal, its gap, and the model's answer."""
        answer, goal = self.ask(values, owner), self.goal.take(owner)
        return goal.met(answer), goal.gap(answer), answer

    def judge_admitted(self, values: Values, owner: Integers) -> tuple[Booleans, Floats]:
        """As `judge`; the model is not asked about rows that may not be delivered, whose gap is infinite."""
        met, gap, admitted = np.zeros(len(values), dtype=bool), np.full(len(values), np.inf), self.admits(values, owner)
        if admitted.any():
            met[admitted], gap[admitted] = self.judge(values[admitted], owner[admitted])
        return met, gap

    def distance(self, values: Values, owner: Integers) -> Floats:
        return self.space.distance(values, self.start[owner])

    @property
    def by_distance(self) -> bool:
        """Whether the least distance is wanted, and not the fewest changes first."""
        return self.objective == "closest"

    def ranks(self, values: Values, owner: Integers) -> tuple[Floats, Floats]:
        """Keys that sort candidates by the objective, for `np.lexsort`: the last one is looked at first."""
        distance, changes = self.distance(values, owner), self.changed(values, owner).sum(axis=1).astype(np.float64)
        return (changes, distance) if self.by_distance else (distance, changes)

    def is_better(self, values: Values, than: Values, owner: Integers) -> Booleans:
        """Whether candidates are better by the objective than others of the same owners."""
        (second, first), (others_second, others_first) = self.ranks(values, owner), self.ranks(than, owner)
        return np.asarray((first < others_first) | ((first == others_first) & (second < others_second)))

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
            conditions=tuple(condition.take(index) for condition in self.conditions),
            barred=self.barred[index],
            spent=np.zeros(len(index), dtype=np.int64),
            spent_also=None if self.spent_also is None else np.zeros(len(index), dtype=np.int64),
            whole=self,
            index=index,
        )

    def parts(self, size: int) -> Iterator[tuple[Integers, "Problem"]]:
        """The problem in pieces of at most so many queries, each with where its queries are."""
        for first in range(0, len(self), size):
            index = np.arange(first, min(first + size, len(self)))
            yield index, self.part(index)

    def under(self, condition: Condition) -> "Problem":
        """The same queries and books under one condition more."""
        return replace(self, conditions=(*self.conditions, condition))

    def still_missed(self, solved: Booleans) -> "Problem":
        """The problem as the search sees it where a query meets its goal, but not by every further model."""
        open_ = self.goal.met(self.before) & ~solved
        return replace(self, before=self.before.replaced(open_, self.goal.missed(self.before)))

    def besides_query(self) -> "Problem":
        """The problem as those see it who shall find other rows than the query: where it meets the goal, it misses.

        This is for the search alone; whoever decides what is valid keeps to the model's own answers.
        """
        return replace(self, before=self.goal.missed(self.before), itself_misses=True)


@dataclass
class Proposals:
    """What a method offers for a problem: up to k rows a query; the core decides which of them are valid.

    `offered` marks filled slots, `stage` says which part of the method found each, `note` why a query has none.
    An empty slot may hold the closest attempt. `minimal` marks rows none of whose changes can be taken back. A method
    that has the model's own scores of what it offers hands them on, and the model need not be asked for them again;
    they are NaN where unknown.
    """

    values: Floats  # (n, k, features)
    offered: Booleans  # (n, k)
    stage: Array  # (n, k) of str
    note: Array  # (n,) of str
    scores: Floats | None = None  # (n, k, classes), where the model gives some
    minimal: Booleans = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))  # (n, k)

    def __post_init__(self) -> None:
        if self.minimal.shape != self.offered.shape:
            self.minimal = np.zeros(self.offered.shape, dtype=bool)

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

    def beside(self, other: "Proposals") -> "Proposals":
        """The slots of both, one after the other."""
        values, offered, stage = (
            np.concatenate([getattr(self, name), getattr(other, name)], axis=1)
            for name in ("values", "offered", "stage")
        )
        minimal = np.concatenate([self.minimal, other.minimal], axis=1)
        known = None
        if self.scores is not None:
            theirs = np.full(self.scores.shape, np.nan) if other.scores is None else other.scores
            known = np.concatenate([self.scores, theirs], axis=1)
        return Proposals(values, offered, stage, self.note, known, minimal)

    def of(self, queries: Integers) -> "Proposals":
        """What is offered for some of the queries."""
        known = None if self.scores is None else self.scores[queries]
        stage, note, minimal = self.stage[queries], self.note[queries], self.minimal[queries]
        return Proposals(self.values[queries], self.offered[queries], stage, note, known, minimal)

    def put(self, queries: Integers, part: "Proposals") -> None:
        """Take over what is offered for some of the queries."""
        self.values[queries], self.offered[queries] = part.values, part.offered
        self.stage[queries], self.note[queries] = part.stage, part.note
        self.minimal[queries] = part.minimal
        if self.scores is not None:
            self.scores[queries] = np.nan if part.scores is None else part.scores


def check_objective(objective: Any) -> None:
    """Refuse what is no objective, nor None, by a sentence."""
    if objective is not None and (not isinstance(objective, str) or objective not in OBJECTIVES):
        raise InputError(
            f"objective is {objective!r}, but must be None or one of them; {did_you_mean(objective, OBJECTIVES)}"
        )


def chosen_objective(asked: str | None, known: tuple[str, ...], method: str) -> str:
    """The objective of a call: that of the call or else of the explainer, and "sparse" if neither names one.

    `known` is what the method can aim at; `method` is its name in the error.
    """
    check_objective(asked)
    if asked is None or asked in known:
        return asked or SPARSE
    raise UnsupportedError(f"{method} does not know objective={asked!r}; it knows {', '.join(map(repr, known))}.")
