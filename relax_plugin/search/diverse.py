"""Several counterfactuals a query: a solver is asked again for another answer; or empty slots are filled."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.polish import undo

Solver = Callable[[Problem], Proposals]  # one a query

VISIBLE = 0.5  # standard deviations between two values of a number that a person would call different
QUESTIONS_PER_SLOT = 2  # to the solver, for each query: some of them find nothing
MOST_FROZEN_SETS = 64  # kept in mind for each query: with every answer there may be several times as many
ROUNDS = 24  # of model calls; each query that is still short takes part
ASKED = 4  # candidates evaluated in a round for each empty slot,
LEAST_ASKED = 32  # and for each query at least
VALUES = 64  # of a number, taken evenly from its sorted training values
DRAWN = 1024  # candidates drawn for a query in a round


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


def fill(problem: Problem, made: Proposals, rows: Values, rng: np.random.Generator) -> Proposals:
    """The proposals, with further valid rows in the empty slots of every query that has a counterfactual.

    A further row is one of those found with another value in one feature: in a feature that is changed anyway, or, only
    where no such row is left, in one that would not have to change. The values are those of the training rows. Last
    come the training rows themselves, moved within the constraints.
    """
    spent = [set[bytes]() for _ in range(len(problem))]  # rows that need not be evaluated again
    for query, slot in zip(*np.nonzero(made.offered), strict=True):
        spent[query].add(made.values[query, slot].tobytes())
    cells = _cells_of(problem, rows)
    for _ in range(ROUNDS):
        short = np.flatnonzero(made.offered.any(axis=1) & ~made.offered.all(axis=1))
        drawn = [_candidates(problem, made, query, cells, rows, spent[query], rng) for query in short.tolist()]
        values, owner = np.concatenate([problem.start[:0], *drawn]), np.repeat(short, [len(one) for one in drawn])
        if len(values) == 0:
            break
        met, _ = problem.judge(values, owner)
        for row, query in zip(values[met], owner[met], strict=True):
            empty = np.flatnonzero(~made.offered[query])[:1]
            made.values[query, empty], made.stage[query, empty], made.offered[query, empty] = row, "further", True
            if made.scores is not None:
                made.scores[query, empty] = np.nan
    return made


def _cells_of(problem: Problem, rows: Values) -> tuple[Integers, Floats]:
    space, columns = problem.space, []
    for j, (first, end) in enumerate(zip(space.category_offsets[:-1], space.category_offsets[1:], strict=True)):
        known = np.arange(end - first, dtype=np.float64) if end > first else np.unique(rows[:, j])
        columns.append(known[np.unique(np.linspace(0, len(known) - 1, min(len(known), VALUES)).astype(int))])
    return np.repeat(np.arange(len(columns)), [len(one) for one in columns]), np.concatenate(columns)


def _candidates(
    problem: Problem,
    made: Proposals,
    query: int,
    cells: tuple[Integers, Floats],
    rows: Values,
    spent: set[bytes],
    rng: np.random.Generator,
) -> Values:
    """Rows of one query that have not been evaluated, in random order; they count as spent from now on."""
    known, (feature, value) = made.values[query, made.offered[query]], cells
    changed = (known != problem.start[query])[:, feature]
    most = max(ASKED * int((~made.offered[query]).sum()), LEAST_ASKED)
    chosen: list[Values] = []
    for among in (changed, ~changed, None):
        if among is None:
            values = rows[rng.permutation(len(rows))[:DRAWN]]
        else:
            parent, cell = np.nonzero(among)
            at = rng.permutation(len(parent))[:DRAWN]
            values = known[parent[at]]
            values[np.arange(len(at)), feature[cell[at]]] = value[cell[at]]
        values = problem.within_limits(values, np.full(len(values), query))
        changes = (values != problem.start[query]).sum(axis=1)
        for row in values[(changes > 0) & (changes <= problem.max_changes)]:
            if len(chosen) < most and row.tobytes() not in spent:
                spent.add(row.tobytes())
                chosen.append(row)
        if chosen:
            break
    return np.array(chosen).reshape(-1, problem.start.shape[1])
