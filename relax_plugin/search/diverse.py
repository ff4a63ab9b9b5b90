"""Several counterfactuals a query: one solver, asked again under what makes the next answer another one."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.polish import undo

Solver = Callable[[Problem], Proposals]  # one a query

VISIBLE = 0.5  # standard deviations between two values of a number that a person would call different
QUESTIONS_PER_SLOT = 2  # to the solver, for each query: some of them find nothing
MOST_FROZEN_SETS = 64  # kept in mind for each query: with every answer there may be several times as many


def fill_slots(problem: Problem, n: int, solve: Solver, further: Solver | None = None) -> Proposals:
    """Up to n counterfactuals a query, each *another* answer than the others; the best first, as the objective says.

    - None contains another: changes all the features that another one changes, and more.
    - None is a near copy of another: if two change the same features, one of them chooses another category, moves a
      number the other way, or moves it less, by half a standard deviation or more.
    - None has a change too many: whichever one is undone, the goal is missed.

    Where no further one is found, slots stay empty. A single one is left as the solver gives it. `further` takes the
    place of a solver that spares no expense for the first: it is asked in vain more often.
    """
    if n == 1:
        return solve(problem)
    made = Proposals.empty(problem, n)
    searches = [Search(problem.start.shape[1]) for _ in range(len(problem))]
    for turn in range(QUESTIONS_PER_SLOT * n):
        asked = {query: search.question() for query, search in enumerate(searches) if len(search.answers) < n}
        questions = {query: question for query, question in asked.items() if question is not None}
        if not questions:
            break
        part = _narrowed(problem.part(np.array(list(questions))), questions.values())
        one = solve(part) if turn == 0 or further is None else further(part)
        if turn == 0:
            made.values[:, 0], made.note = one.values[:, 0], one.note
        solved = np.flatnonzero(one.offered[:, 0])
        spare = solved[~one.minimal[solved, 0]]
        one.values[spare, 0] = undo(part, one.values[spare, 0], spare)
        moved = problem.space.distances(one.values[:, 0], part.start)
        for row, (query, question) in enumerate(questions.items()):
            if one.offered[row, 0]:
                searches[query].add(Answer.of(one.values[row, 0], moved[row], one.stage[row, 0]))
            else:
                searches[query].give_up(question)
    for query, search in enumerate(searches):
        best_first = sorted(search.answers, key=lambda answer: answer.rank(problem.by_distance))
        for slot, answer in enumerate(best_first):
            made.values[query, slot], made.stage[query, slot] = answer.values, answer.stage
            made.offered[query, slot] = True
    return made


class Answer(NamedTuple):
    """A counterfactual of one query."""

    values: Values
    features: tuple[int, ...]  # that it changes, the largest change first
    distance: float
    stage: str

    def rank(self, by_distance: bool) -> tuple[float, float]:
        """What sorts answers: few changes first, then the closest; or the other way round."""
        changes = len(self.features)
        return (self.distance, changes) if by_distance else (changes, self.distance)

    @classmethod
    def of(cls, values: Values, moved: Values, stage: str) -> "Answer":
        """The answer that moves each feature by so much, at its price."""
        features = np.argsort(-moved, kind="stable")[: np.count_nonzero(moved)]
        return cls(values, tuple(features.tolist()), float(moved.sum()), stage)


class Question(NamedTuple):
    """What a solver is to do without: changes of some features, and values like those given of one more."""

    frozen: frozenset[int]
    feature: int | None = None
    unlike: tuple[float, ...] = ()


@dataclass
class Search:
    """The answers to one query, and what to ask for the next.

    An answer contains none of those found if a feature of each of them is frozen. The smallest such sets are asked
    about first; where the solver finds nothing, it will not find more with further features frozen. When all are used
    up, the features of an answer are allowed alone, and one of them must take a value unlike those it has had.
    """

    width: int  # features
    answers: list[Answer] = field(default_factory=list)
    frozen_sets: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    in_vain: set[tuple[frozenset[int], int | None]] = field(default_factory=set)

    def question(self) -> Question | None:
        """What to ask next; None if nothing is left."""
        if self.frozen_sets:
            return Question(self.frozen_sets[0])
        for answer in self.answers:
            others = frozenset(range(self.width)).difference(answer.features)
            alike = [row for row in self.answers if others.isdisjoint(row.features)]  # they change the same features
            for feature in answer.features:
                if (others, feature) not in self.in_vain:
                    return Question(others, feature, tuple(row.values[feature] for row in alike))
        return None

    def add(self, answer: Answer) -> None:
        """Take in what the solver found; those that contain it go."""
        changed = frozenset(answer.features)
        self.answers = [row for row in self.answers if not changed < set(row.features)] + [answer]
        ruling_it_out = [some for some in self.frozen_sets if some & changed]
        longer = [some | {feature} for some in self.frozen_sets if not some & changed for feature in answer.features]
        smallest = [some for some in longer if not any(known <= some for known in ruling_it_out)]
        self._keep(ruling_it_out + smallest)

    def give_up(self, question: Question) -> None:
        """Remember that the solver found nothing."""
        self.in_vain.add((question.frozen, question.feature))
        self._keep(self.frozen_sets)

    def _keep(self, frozen_sets: list[frozenset[int]]) -> None:
        hopeless = [frozen for frozen, feature in self.in_vain if feature is None]
        kept = [some for some in frozen_sets if not any(vain <= some for vain in hopeless)]
        self.frozen_sets = sorted(kept, key=len)[:MOST_FROZEN_SETS]


def _narrowed(part: Problem, questions: Collection[Question]) -> Problem:
    limits, space = part.limits, part.space
    frozen = np.broadcast_to(limits.frozen, part.start.shape).copy()
    for row, question in enumerate(questions):
        frozen[row, list(question.frozen)] = True
    limits = replace(limits, frozen=frozen)
    if not any(question.unlike for question in questions):  # the bounds stay those of all: that is quicker
        return replace(part, limits=limits)
    low, high = np.broadcast_to(limits.low, frozen.shape).copy(), np.broadcast_to(limits.high, frozen.shape).copy()
    choices = np.broadcast_to(limits.choices, (len(part), limits.choices.shape[1])).copy()
    for row, (_, feature, unlike) in enumerate(questions):
        for value in unlike:
            start, apart = part.start[row, feature], VISIBLE * space.scale[feature]
            if space.is_categorical[feature]:
                choices[row, space.category_offsets[feature] + int(value)] = False
            elif value > start:
                high[row, feature] = min(high[row, feature], max(value - apart, start))
            else:
                low[row, feature] = max(low[row, feature], min(value + apart, start))
    return replace(part, limits=replace(limits, low=low, high=high, choices=choices))
