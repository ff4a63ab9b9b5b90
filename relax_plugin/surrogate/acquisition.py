"""Acquisition: the search of a costly model. The engine runs on a surrogate model, and the model is asked little.

All candidates that the engine finds on the surrogate and that may be valid are collected. Of each query the model is
asked about the one of greatest expected improvement. Its answer corrects what is believed of the others, and so on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer
from relax_plugin.bound_goal import BoundGoal
from relax_plugin.cached import cached_property
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.candidates import LATE, Budget, Candidates
from relax_plugin.search.moves import Moves
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.polish import POLISHED, drop, shorten, snapped, swap
from relax_plugin.search.proposers import GreedyChanges, NearRows, Proposer
from relax_plugin.surrogate.belief import Belief, Best, expected_improvement
from relax_plugin.surrogate.model import SurrogateBlackBox, SurrogateModel

VALUES = 12  # of each number that are tried on the surrogate
LEARN_VALUES = 6  # the same, when the surrogate learns
NEAR = 3  # near rows of a query whose cells are taken over on the surrogate,
NEAR_KEPT = 2_000  # of so many training rows
UNDONE = 50  # near rows whose changes are undone one by one, where rows are left
PAIRS = 24
SAFETY = 0.3  # errors of the surrogate by which a candidate must be beyond the goal to count as valid on it
MIGHT = 2.0  # errors before the goal from which on a candidate may be valid
POOL, SUREST = 64, 8  # candidates of a query that are kept: the most promising, and the likeliest to be valid
ZOOMS = 2  # when candidates are shortened: nearer than that to the goal, the surrogate does not know what is valid
AFTER = (2, 5, 8, 12, 18, 24)  # answers of the model to a query, after which its candidates are polished again
ENOUGH = 3e-4  # expected improvement, in changes, below which no question is worth its row
LONGER = 3  # times the rows that a query without a counterfactual may cost, before what others have left is spent
BEYOND = 4  # rows that tell whether it is the conditions that leave a query without a counterfactual
CELLS = 8_000_000  # of candidate rows held at once: queries are worked on in parts of so many
FIRST = 1e9  # by which a candidate that is not worth its row comes behind all that are
FARTHEST = 20.0  # times the error, that one answer may surprise by


@dataclass(frozen=True)
class SurrogateProblem(Problem):
    """A problem whose candidates a surrogate model judges, corrected by a belief; the model is not asked.

    Every candidate that may be valid is noted in `watched`, with the gap that the surrogate alone predicts.
    """

    surrogate: SurrogateModel = field(kw_only=True)
    belief: Belief = field(kw_only=True, repr=False)
    watched: list[tuple[Values, Integers, Floats]] = field(kw_only=True, default_factory=list, repr=False)

    @classmethod
    def of(cls, problem: Problem, surrogate: SurrogateModel, belief: Belief) -> Self:
        kept: dict[str, Any] = {one.name: getattr(problem, one.name) for one in fields(Problem)}
        blackbox, nothing = SurrogateBlackBox(surrogate, scores=True), np.zeros(len(problem), dtype=np.int64)
        kept |= {"blackbox": blackbox, "spent": nothing, "whole": None, "index": None, "also": (), "spent_also": None}
        kept |= {"goal": replace(problem.goal, blackbox=blackbox), "barred": nothing.astype(bool)}
        if problem.rules is None:  # any column may mend a row
            others = ~surrogate.foremost(~problem.limits.frozen)
            kept["limits"] = problem.limits.keeping(others)
        return cls(**kept, surrogate=surrogate, belief=belief)

    @cached_property
    def gap(self) -> Floats:
        gap, owner = self.surrogate.gap(self.goal, self.start), np.arange(len(self))
        gap = gap + self.belief.correction(self.belief.alike(self.start, owner), owner) + SAFETY * self.belief.own
        return np.asarray(gap)

    @cached_property
    def hidden(self) -> Floats:
        return self.surrogate.hidden(self.start)

    def part(self, index: Integers) -> "SurrogateProblem":
        part = super().part(index)
        assert isinstance(part, SurrogateProblem)
        return replace(part, belief=self.belief.of(index), watched=[], whole=None, index=None)

    def judge_fully(self, values: Values, owner: Integers) -> tuple[Booleans, Floats, Answer]:
        targets = self.surrogate.targets
        answer = targets.answer(self.surrogate.predict_near(self.start, self.hidden, owner, values))
        told = targets.gap_of(self.goal.take(owner), answer)
        believed = told + self.belief.correction(self.belief.alike(values, owner), owner)
        gap = believed + SAFETY * self.belief.own[owner]
        changes = (values != self.start[owner]).sum(axis=1)
        might = (believed < MIGHT * self.belief.own[owner]) & (changes > 0) & (changes <= self.max_changes)
        if self.conditions:
            some = np.flatnonzero(might)
            might[some] = self.admits(values[some], owner[some])
            gap = np.where(might, gap, np.maximum(gap, np.finfo(float).tiny))
        self.watched.append((values[might], owner[might], told[might]))
        return gap < 0, gap, answer


class Pool(NamedTuple):
    """Candidates that the model may be asked about, in no order."""

    values: Values
    owner: Integers
    gap: Floats  # as the surrogate alone predicts it
    changes: Integers
    distance: Floats
    alike: Floats  # to what their owners have asked (candidates, answers)

    def take(self, index: Integers | Booleans) -> "Pool":
        parts: list[Any] = [part[index] for part in self]
        return Pool(*parts)

    def beside(self, other: "Pool") -> "Pool":
        return Pool(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True)
class SurrogateSearch:
    """Finds one counterfactual for each query of a model that is costly to ask."""

    surrogate: SurrogateModel
    moves: Moves  # some of their values are tried on the surrogate
    near: AnsweredRows  # training rows, with the answers of the surrogate
    rows: int  # of the model that a query may cost, with those for itself and for the confirmation of its answer
    natural: Floats | None = None  # the steps that people count each number in
    further: Sequence[Proposer] = ()  # whose candidates join
    until: float = np.inf  # when a search is over, as `time.perf_counter` tells; what is found by then is delivered

    def search(self, problem: Problem, persistent: bool = True) -> Proposals:
        """One counterfactual for each query, or its closest attempt.

        If not `persistent`, there are no more rows for queries that are without a counterfactual.
        """
        persistent = persistent and not problem.preferred
        made, few = Proposals.empty(problem, 1), self.moves.thinned(VALUES, problem.space)
        for queries, part in problem.parts(max(1, CELLS // (len(few.feature) * len(problem.space)))):
            made.put(queries, self._search(part, few, persistent))
        return made

    def proposals(self, problem: Problem, each: int, chosen: Callable[[Floats], Floats]) -> tuple[Values, Integers]:
        """What the model would be asked about first, so many candidates of each query, and whose they are."""
        hunt = Acquisition(self, problem, self.moves.thinned(LEARN_VALUES, problem.space))
        hunt.watch(np.arange(len(problem)), hunt.proposers(PAIRS, NEAR))
        picked = _first(hunt.pool.owner, chosen(hunt.worth(hunt.pool)[0]), each)
        return hunt.pool.values[picked], hunt.pool.owner[picked]

    def _search(self, problem: Problem, few: Moves, persistent: bool) -> Proposals:
        everyone, hunt = np.arange(len(problem)), Acquisition(self, problem, few)
        rows = hunt.overhead + (self.rows - hunt.overhead) // 4 if problem.preferred else self.rows
        hunt.watch(everyone, [*self.further, *hunt.proposers(PAIRS, NEAR)])
        hunt.ask(everyone, rows)
        made = Proposals.empty(problem, 1)
        made.stage[hunt.solved, 0] = "surrogate"
        left = np.flatnonzero(~hunt.solved)
        if len(left) and persistent:
            hunt.watch(left, hunt.proposers(4 * PAIRS, 8 * NEAR, strong=16, width=3))
            hunt.ask(left, LONGER * rows)
            made.stage[left, 0] = np.where(hunt.solved[left], "longer search", "")
        made.values[:, 0], made.offered[:, 0] = hunt.values, hunt.solved
        if made.scores is not None:
            made.scores[:, 0] = hunt.scores
        left = np.flatnonzero(~hunt.solved)
        if len(left) and persistent:
            self._spend_the_rest(problem, made, left, int(rows * len(problem) - hunt.spent.sum()))
        if hunt.budget.is_over:
            made.note[~made.offered[:, 0]] = LATE
        return made

    def _spend_the_rest(self, problem: Problem, made: Proposals, left: Integers, rows: int) -> None:
        """Ask about near rows of queries without a counterfactual, at the price of what the others have not used."""
        each, part = rows // len(left), problem.part(left)
        candidates = Candidates(part, Budget(each, self.until))
        if each > problem.max_changes:
            NearRows(self.near, self.moves, undone=UNDONE).propose(candidates)
        best = candidates.top(1)
        if best is not None:
            made.values[left[best.owner], 0], made.offered[left[best.owner], 0] = best.values, True
            made.stage[left[best.owner], 0] = best.source
            if made.scores is not None and best.scores is not None:
                made.scores[left[best.owner], 0] = best.scores
            left = np.delete(left, best.owner)
        if problem.conditions and len(left):
            part = replace(problem.part(left), conditions=())
            beyond = Acquisition(self, part, self.moves.thinned(VALUES, problem.space))
            beyond.watch(np.arange(len(left)), beyond.proposers(PAIRS, 0)[:1])
            beyond.ask(np.arange(len(left)), beyond.overhead + BEYOND + problem.max_changes)
            part.bar(np.flatnonzero(beyond.solved))


def predicted_answers(surrogate: SurrogateModel, values: Values) -> AnsweredRows:
    """Training rows with the answers that the surrogate model gives."""
    answered = AnsweredRows(Neighbours.of(values, NEAR_KEPT))
    answered.ask(SurrogateBlackBox(surrogate), np.arange(len(answered.neighbours)))
    return answered


class Acquisition:
    """One batch of queries: candidates found on the surrogate, what is believed of them, and the best answers so far.

    `values` are the closest attempts where there is no answer.
    """

    def __init__(self, search: SurrogateSearch, problem: Problem, moves: Moves) -> None:
        self.search, self.surrogate, self.problem, self.moves = search, search.surrogate, problem, moves
        self.budget, n = Budget(until=search.until), len(problem)
        goal, before = problem.goal, problem.before
        residual = self._surprise(goal, before, self.surrogate.gap(goal, problem.start), goal.met(before))
        self.belief = Belief(problem.space, problem.start, self.surrogate.error, residual)
        self.values, self.closest, self.best = problem.start.copy(), problem.gap.copy(), Best.none(n)
        known = before.scores
        self.scores = None if known is None else np.full(known.shape, np.nan)  # of `values`
        apart = problem.blackbox.reader.labels_apart and problem.blackbox.task == "classification"
        self.overhead = 2 + apart  # rows for the query itself, and for the confirmation of its answer
        self.before = problem.spent.copy()
        self.numbers = np.random.default_rng(0).random(problem.start.shape[1])  # their sums tell rows apart
        none, owner = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.done = np.zeros((0, 2), dtype=np.int64)  # keys of what was asked
        self.pool = Pool(problem.start[:0], owner, none, owner, none, none[:, None])

    @property
    def spent(self) -> Integers:
        """Model rows that each query has cost, with those for the query itself and for the confirmation."""
        return self.overhead + self.problem.spent - self.before

    @property
    def solved(self) -> Booleans:
        return np.asarray(np.isfinite(self.best.changes))

    def proposers(self, pairs: int, near: int, strong: int = 10, width: int = 1) -> list[Proposer]:
        greedy = GreedyChanges(self.moves, pairs, strong, width)
        return [greedy, NearRows(self.search.near, self.moves, near)]

    def watch(self, who: Integers, proposers: Sequence[Proposer]) -> None:
        """Let the engine run on the surrogate, as it is corrected by now; what it finds joins the pool.

        Without proposers it polishes what is believed to be valid by now.
        """
        if len(who) == 0:
            return
        problem = SurrogateProblem.of(self.problem, self.surrogate, self.belief).part(who)
        candidates = Candidates(problem, self.budget)
        if proposers:
            for proposer in proposers:
                proposer.propose(candidates)
        else:
            candidates.accept(*self._believed_valid(who))
        drop(candidates, POLISHED)
        if proposers:
            swap(candidates, self.moves)
        shorten(candidates, POLISHED, ZOOMS)
        problem.judge_fully(candidates.nearest_miss.values, np.arange(len(who)))
        values, owner, gap = (np.concatenate(part) for part in zip(*problem.watched, strict=True))
        self._add(values, who[owner], gap)
        steps, limits = self.search.natural, self.problem.conditions or self.problem.by_distance
        if steps is not None and not limits and len(self.pool.owner):
            values, owner = snapped(self.problem, self.pool.values, self.pool.owner, steps), self.pool.owner
            odd = (values != self.pool.values).any(axis=1)
            self.pool = self.pool.take(~odd)
            values, owner = values[odd], owner[odd]
            self._add(values, owner, self.surrogate.gap(self.problem.goal.take(owner), values))

    def _believed_valid(self, who: Integers) -> tuple[Values, Integers]:
        """The answers of some queries, and what is believed to be valid with no more changes; whose of them each is."""
        pool, place = self.pool, np.full(len(self.problem), -1)
        place[who] = np.arange(len(who))
        gap = pool.gap + self.belief.correction(pool.alike, pool.owner) + SAFETY * self.belief.own[pool.owner]
        good = (place[pool.owner] >= 0) & (gap < 0) & (pool.changes <= self.best.changes[pool.owner])
        solved = np.flatnonzero(self.solved[who])
        values = np.concatenate([pool.values[good], self.values[who[solved]]])
        return values, np.concatenate([place[pool.owner[good]], solved])

    def _add(self, values: Values, owner: Integers, gap: Floats) -> None:
        """Let new candidates join the pool, of which the most promising are kept."""
        known = np.concatenate([self.done, self._keys(self.pool.values, self.pool.owner)])
        every = np.concatenate([known, self._keys(values, owner)])
        fresh = np.unique(every, axis=0, return_index=True)[1] - len(known)
        fresh = fresh[fresh >= 0]
        values, owner, gap = values[fresh], owner[fresh], gap[fresh]
        changes = self.problem.changed(values, owner).sum(axis=1)
        distance, alike = self.problem.distance(values, owner), self.belief.alike(values, owner)
        pool = self.pool.beside(Pool(values, owner, gap, changes, distance, alike))
        worth, sure = self.worth(pool)
        self.pool = pool.take(np.union1d(_first(pool.owner, worth, POOL), _first(pool.owner, sure, SUREST)))

    def _keys(self, values: Values, owner: Integers) -> Integers:
        """Two numbers for each candidate, which tell it from others."""
        return np.column_stack([owner, (values * self.numbers).sum(axis=1).view(np.int64)])

    def ask(self, who: Integers, rows: int) -> None:
        """Ask the model about the most promising candidates of some queries, while it pays and within these rows."""
        mine = np.isin(np.arange(len(self.problem)), who)
        self.pool = self.pool.take(mine[self.pool.owner])
        polished = np.zeros(len(self.problem), dtype=bool)  # since its last answer
        while len(self.pool.owner) and not self.budget.is_over:
            due = np.flatnonzero(mine & np.isin(self.best.asked, AFTER) & ~polished)
            again = ~self.solved[due] | self.problem.by_distance  # where a row of other changes may be closer
            self.watch(due[self.solved[due]], ())
            self.watch(due[again], [*self.search.further, *self.proposers(PAIRS, NEAR)])
            polished[due] = True
            pick, poor = self._promising(mine, rows)
            stale = np.flatnonzero(poor & ~polished)
            if len(stale):
                self.watch(stale, ())
                polished[stale] = True
                pick, _ = self._promising(mine, rows)
            if len(pick) == 0:
                return
            polished[self.pool.owner[pick]] = False
            self._ask(pick)

    def _promising(self, mine: Booleans, rows: int) -> tuple[Integers, Booleans]:
        """The candidate that each query would ask about next, and which of them could ask, but have no good one."""
        pool, price = self.pool, self.problem.blackbox.rows_per_question
        worth, sure = self.worth(pool)
        # Each of several changes will be tried without.
        without = np.where(self.solved & (self.best.changes > 1), self.best.changes, 0)
        able = mine & (self.spent + price * (1 + without) <= rows)
        needed = np.maximum(np.where(pool.changes > 1, pool.changes, 0), without[pool.owner])
        pays = able[pool.owner] & (self.spent[pool.owner] + price * (1 + needed) <= rows) & (worth > ENOUGH)
        # A query asks at least once: what comes closest is shown.
        value = np.where(pays, worth, np.where((mine & (self.best.asked == 0))[pool.owner], sure - FIRST, -np.inf))
        pick = _first(pool.owner, value, 1)
        pick = pick[np.isfinite(value[pick])]
        able[pool.owner[pick]] = False
        return pick, able & (self.best.asked > 0)

    def _ask(self, pick: Integers) -> None:
        one, problem = self.pool.take(pick), self.problem
        owner, goal = one.owner, problem.goal.take(one.owner)
        answer = problem.ask(one.values, owner)
        met, gap = goal.met(answer), goal.gap(answer)
        self.best.asked[owner] += 1
        self.done = np.concatenate([self.done, self._keys(one.values, owner)])
        self.belief.learn(owner, one.values, self._surprise(goal, answer, one.gap, met))
        better = met & self._improves(one)
        nearer = ~met & ~self.solved[owner] & (gap < self.closest[owner])
        kept = better | nearer
        self.values[owner[kept]] = one.values[kept]
        self.closest[owner[nearer]] = gap[nearer]
        if self.scores is not None and answer.scores is not None:
            self.scores[owner[kept]] = answer.scores[kept]
        self.best.changes[owner[better]], self.best.distance[owner[better]] = one.changes[better], one.distance[better]
        left = np.ones(len(self.pool.owner), dtype=bool)
        left[pick] = False
        pool = self.pool.take(left & self._improves(self.pool))
        column = self.belief.alike(pool.values, pool.owner, self.belief.rows.shape[1] - 1)
        self.pool = pool._replace(alike=np.column_stack([pool.alike, column]))

    def _improves(self, pool: Pool) -> Booleans:
        """Whether candidates would be better than the best answers of their owners."""
        changes, distance = self.best.changes[pool.owner], self.best.distance[pool.owner]
        shorter = pool.distance < distance
        if self.problem.by_distance:
            return shorter
        return np.asarray((pool.changes < changes) | ((pool.changes == changes) & shorter))

    def worth(self, pool: Pool) -> tuple[Floats, Floats]:
        """The expected improvement of each candidate, and how sure it is to be valid."""
        gap = pool.gap + self.belief.correction(pool.alike, pool.owner)
        sure = -gap / self.belief.errors(pool.alike, pool.owner)
        by_distance = self.problem.by_distance
        return expected_improvement(sure, pool.changes, pool.distance, pool.owner, self.best, by_distance), sure

    def _surprise(self, goal: BoundGoal, answer: Answer, predicted: Floats, met: Booleans) -> Floats:
        """What the surrogate model is wrong by; where scores do not tell what `predict` says, its word counts."""
        targets, error = self.surrogate.targets, self.surrogate.error
        gap = targets.gap(goal, targets.of(answer))
        gap = np.where(met, np.minimum(gap, 0.0), np.where(gap <= 0, error, gap))
        return np.clip(gap - predicted, -FARTHEST * error, FARTHEST * error)


def _first(owner: Integers, value: Floats, most: int) -> Integers:
    """Positions of the candidates of greatest value, so many of each owner."""
    order = np.lexsort((-value, owner))
    return order[np.arange(len(order)) - np.searchsorted(owner[order], owner[order]) < most]
