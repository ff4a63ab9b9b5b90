"""Proposers: where the candidates of a search come from: greedy changes, and near training rows of the goal."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.search.candidates import AT_ONCE, Candidates, Misses, with_cells
from relax_plugin.search.moves import Moves
from relax_plugin.search.neighbours import AnsweredRows
from relax_plugin.search.polish import undo
from relax_plugin.search.state import Episodes, Observer, Ranker

LEVELS = (1.0, 0.6, 0.3)  # shares of a feature's best gain: for each the nearest value that has so much of it is paired
LEAST_LATER = 32  # features tried for further changes, at least,
SHARE_LATER = 0.5  # and of all features
CELLS = 4_000_000  # of candidate rows that one call of the model is asked about
MISSES = 2  # rows of each state that a further step may go on from
UNDO_ROWS = 2_000  # model rows of a query, for undoing the changes of so many near rows one by one
FIRST_UNDONE = 10  # near rows of a query whose changes are undone one by one, before all others


class Proposer(Protocol):
    """Offers candidates for the queries of a batch, by asking the model through `Candidates.ask`."""

    @property
    def name(self) -> str: ...

    def propose(self, candidates: Candidates) -> None: ...


@dataclass(frozen=True)
class SingleChanges:
    """Every single change of each query."""

    moves: Moves
    name: str = "greedy"

    def propose(self, candidates: Candidates) -> None:
        problem = candidates.problem
        landed, new = self.moves.landed(problem)
        base = Misses(problem.start, np.arange(len(problem)), problem.gap)
        candidates.gain = self.ask(candidates, base, landed, new)

    def ask(self, candidates: Candidates, base: Misses, landed: Floats, allowed: Booleans) -> Floats:
        """Ask about every allowed change of each base, in pieces that fit in memory: what it gains (bases, moves)."""
        gap, worth = np.full(landed.shape, np.inf), np.full(landed.shape, -np.inf)
        rows, moves = np.nonzero(allowed)
        size = max(1, min(AT_ONCE, CELLS // base.values.shape[1]))
        for first in range(0, len(rows), size):
            row, move = rows[first : first + size], moves[first : first + size]
            values, owner = self._changed(base, row, move, landed), base.owner[row]
            before = None if candidates.problem.rules is None else base.values[row]  # a repair must not lead back to it
            values, met, gap[row, move], _ = candidates.ask(values, owner, before)
            worth[row, move] = np.where(met, -np.inf, -candidates.cost(values, owner, gap[row, move]))
        self._note_misses(candidates, base, landed, worth, gap)
        return np.asarray(base.gap[:, None] - gap)

    def _changed(self, base: Misses, row: Integers, move: Integers, landed: Floats) -> Values:
        return with_cells(base.values, row, self.moves.feature[move], landed[row, move])

    def _note_misses(self, candidates: Candidates, base: Misses, landed: Floats, worth: Floats, gap: Floats) -> None:
        """Of each base the best misses that change different features further."""
        best, at = self.moves.best_of_features(worth)
        features = np.argsort(-best, axis=1, kind="stable")[:, :MISSES]
        row, place = np.nonzero(np.isfinite(np.take_along_axis(best, features, axis=1)))
        move = at[row, features[row, place]]
        values, owner = self._changed(base, row, move, landed), base.owner[row]
        values = candidates.problem.mended(values, owner, base.values[row])
        candidates.note_misses(values, owner, gap[row, move])


@dataclass(frozen=True)
class GreedyChanges:
    """Every single change of each query, then further ones on top of the rows that came nearest to the goal.

    Single changes that the proposers before have asked about already, of the same moves, are not asked about again.

    Parameters
    ----------
    moves : Moves
        The values tried of each feature.
    pairs : int
        Pairs of changes asked about at each second step, ranked by the sum of what each gains by itself.
    strong : int
        Features that pairs are made of.
    width : int
        Rows of each query that a step goes on from.
    every_feature : bool
        Whether further changes are tried of all features of wide tables, and not only of those that gain most.
    """

    moves: Moves
    pairs: int = 0
    strong: int = 10
    width: int = 1
    every_feature: bool = False
    name: str = "greedy"

    def propose(self, candidates: Candidates) -> None:
        problem, singly = candidates.problem, SingleChanges(self.moves)
        if candidates.gain is None:
            singly.propose(candidates)
        assert candidates.gain is not None
        if not problem.goal.blackbox.has_scores or not candidates.open(2).any():
            return  # labels alone do not tell which miss is nearer
        base, gain = Misses(problem.start, np.arange(len(problem)), problem.gap), candidates.gain
        landed, new = self.moves.landed(problem)
        new &= self._later(gain)
        for changes in range(1, problem.max_changes):
            if self.pairs and changes % 2:
                self._pairs(candidates, base, gain, landed, changes + 1)
            base = candidates.bases(changes, self.width)
            if len(base.owner) == 0:
                continue
            unchanged = (base.values == problem.start[base.owner])[:, self.moves.feature]
            gain = singly.ask(candidates, base, landed[base.owner], new[base.owner] & unchanged)

    def _later(self, gain: Floats) -> Booleans:
        """Which moves are tried for further changes (queries, moves): of the features that gain most by themselves."""
        best, _ = self.moves.best_of_features(gain)
        count = max(LEAST_LATER, int(SHARE_LATER * best.shape[1]))
        if self.every_feature or count >= best.shape[1]:
            return np.ones(gain.shape, dtype=bool)
        least = -np.partition(-best, count - 1, axis=1)[:, [count - 1]]
        return np.asarray(self.moves.of_features(best >= least))

    def _pairs(self, candidates: Candidates, base: Misses, gain: Floats, landed: Floats, changes: int) -> None:
        """Ask about pairs of changes of the strongest features: those that gain most, and the shortest of enough."""
        problem, moves = candidates.problem, self.moves
        some = np.flatnonzero(candidates.open(changes)[base.owner])
        best, _ = moves.best_of_features(gain[some])
        count = min(self.strong, best.shape[1])
        if count < 2 or len(some) == 0:
            return
        base, gain, landed = base.take(some), gain[some], landed[base.owner[some]]
        length = moves.lengths(problem.space, problem.start[base.owner], landed)
        features = np.argpartition(-best, count - 1, axis=1)[:, :count]
        enough = moves.of_features(best)
        picks = []
        for level in LEVELS:  # of each feature the nearest value that gains so much
            near = np.where((gain >= level * enough) & np.isfinite(gain), -length, -np.inf)
            picks.append(np.take_along_axis(moves.best_of_features(near)[1], features, axis=1))
        move = np.stack(picks, axis=2).reshape(len(some), -1)
        rows = np.arange(len(some))[:, None]
        gains, lengths = gain[rows, move], length[rows, move]
        one, two = _pairs_of(count, len(LEVELS))
        total = gains[:, one] + gains[:, two]
        far = lengths[:, one] + lengths[:, two]
        total[np.minimum(gains[:, one], gains[:, two]) <= 0] = -np.inf
        half = min(self.pairs // 2, total.shape[1])
        chosen = np.zeros(total.shape, dtype=bool)
        np.put_along_axis(chosen, np.argpartition(-total, half - 1, axis=1)[:, :half], True, 1)
        short = np.where((total > base.gap[:, None]) & ~chosen, far, np.inf)
        np.put_along_axis(chosen, np.argpartition(short, half - 1, axis=1)[:, :half], True, 1)
        row, pair = np.nonzero(chosen & np.isfinite(total))
        values = base.values[row]
        for which in (one, two):
            picked = move[row, which[pair]]
            values[np.arange(len(row)), moves.feature[picked]] = landed[row, picked]
        values, met, gap, _ = candidates.ask(values, base.owner[row], base.values[row])
        candidates.note_misses(values[~met], base.owner[row[~met]], gap[~met])


@dataclass(frozen=True)
class RankedChanges:
    """The actions that a ranking puts first, at each step: what meets the goal is kept, or the best miss goes on.

    With a width of 1 it is the path of a policy. Where labels are all there is, the best miss is that of the action
    ranked first.

    Parameters
    ----------
    ranker : Ranker
        Says how promising each action is, and how far to go with it.
    observer : Observer
        Knows the actions.
    width : int
        Actions tried at each step.
    """

    ranker: Ranker
    observer: Observer
    width: int
    name: str = "ranked"

    def propose(self, candidates: Candidates) -> None:
        problem = candidates.problem
        owner = np.arange(len(problem))
        states = Episodes.begin(problem.start, problem.before, problem.goal, problem.limits, problem.max_changes)
        for changes in range(1, problem.max_changes + 1):
            some = np.flatnonzero(candidates.open(changes)[owner])
            if len(some) == 0:
                return
            states, owner = states.take(some), owner[some]
            value, extent = self.ranker.rank(states)
            first = np.argsort(-value, axis=1, kind="stable")[:, : self.width]
            state, rank = np.nonzero(np.isfinite(np.take_along_axis(value, first, axis=1)))
            action = first[state, rank]
            changed = self.observer.change(states.take(state), action, extent[state, action])
            values, met, gap, answer = candidates.ask(changed.values, owner[state], states.values[state])
            missed = np.flatnonzero(~met & np.isfinite(gap))
            candidates.note_misses(values[missed], owner[state[missed]], gap[missed])
            cost = candidates.cost(values, owner[state], gap) if problem.goal.blackbox.has_scores else rank
            missed = missed[np.lexsort((cost[missed], state[missed]))]
            best = missed[np.unique(state[missed], return_index=True)[1]]
            states, owner = changed.take(best), owner[state[best]]
            changes_made = values[best] != states.start
            states = replace(
                states,
                values=values[best],
                used=states.used | changes_made,
                left=problem.max_changes - changes_made.sum(axis=1),
                answer=answer.take(best),
            )


@dataclass(frozen=True)
class NearRows:
    """Near training rows of the goal: their most important cells are taken over, one to as many as may change.

    What matters is told by what a cell gains by itself, and, where it is `put_back` alone, by what is then lost. With
    `undone` the changes of further near rows are undone one by one, for queries that are still unsolved.
    """

    answered: AnsweredRows
    moves: Moves
    count: int = 8
    undone: int = 0
    put_back: bool = True
    name: str = "near row"

    def propose(self, candidates: Candidates) -> None:
        problem = candidates.problem
        queries = np.flatnonzero(candidates.open(min(2, problem.max_changes)))
        if len(queries) == 0 or len(self.answered.neighbours) == 0:
            return
        part, count = problem.part(queries), max(self.count, self.undone)
        order, available = self.answered.nearest(part, count, self._rows_for_asking(candidates, queries))
        query, place = np.nonzero(np.arange(min(self.count, order.shape[1])) < available[:, None])
        owner = queries[query]
        near = problem.within_limits(self.answered.neighbours.rows[order[query, place]], owner)
        self._take_over(candidates, near, owner)
        last = min(self.undone, order.shape[1])
        for tried in (np.arange(min(FIRST_UNDONE, last)), np.arange(FIRST_UNDONE, last)):
            left = np.flatnonzero(candidates.fewest[queries] > problem.max_changes)
            query, place = np.nonzero(tried < available[left][:, None])
            rows = self.answered.neighbours.rows[order[left[query], tried[place]]]
            self._undo(candidates, problem.within_limits(rows, queries[left[query]]), queries[left[query]])

    def _rows_for_asking(self, candidates: Candidates, queries: Integers) -> Integers | None:
        """What may be spent on asking which training rows are of the goal; None where all answers are known."""
        if self.answered.known.all():
            return None
        rows: int | Integers = UNDO_ROWS
        if candidates.budget.rows is not None:
            rows = (candidates.budget.rows - candidates.problem.spent) // 2
        return np.broadcast_to(rows, len(candidates.problem))[queries]

    def _take_over(self, candidates: Candidates, near: Values, owner: Integers) -> None:
        start = candidates.problem.start[owner]
        changed, worths = near != start, []
        if self.put_back or candidates.gain is None:
            worths.append(self._lost_without(candidates, near, owner))
        if candidates.gain is not None:
            alone, (features, move) = np.zeros(near.shape), self.moves.nearest(near)
            alone[:, features] = np.take_along_axis(candidates.gain[owner], move, axis=1)
            worths.append(np.where(np.isfinite(alone), alone, 0.0))
        most = np.minimum(changed.sum(axis=1), np.minimum(candidates.fewest[owner], candidates.problem.max_changes))
        row, count = np.nonzero(np.arange(1, candidates.problem.max_changes + 1) <= most[:, None])
        tried = []
        for worth in worths:
            turn = np.argsort(np.argsort(np.where(changed, -worth, np.inf), axis=1, kind="stable"), axis=1)
            kept = changed[row] & (turn[row] <= count[:, None])
            tried.append(np.where(kept, near[row], start[row]))
        owners, starts = (np.concatenate([part[row]] * len(worths)) for part in (owner, start))
        candidates.ask(np.concatenate(tried), owners, starts)

    def _lost_without(self, candidates: Candidates, near: Values, owner: Integers) -> Floats:
        """How far from the goal the rows are where one cell alone is put back (rows, features)."""
        lost, start = np.full(near.shape, -np.inf), candidates.problem.start[owner]
        rows, features = np.nonzero(near != start)
        size = max(1, CELLS // near.shape[1])
        for first in range(0, len(rows), size):
            row, feature = rows[first : first + size], features[first : first + size]
            without = with_cells(near, row, feature, start[row, feature])
            lost[row, feature] = candidates.ask(without, owner[row]).gap
        return lost

    def _undo(self, candidates: Candidates, near: Values, owner: Integers) -> None:
        """Undo the changes of rows one by one, each time the one that is needed least."""
        near, met, _, _ = candidates.ask(near, owner)
        near, owner = near[met], owner[met]
        most = candidates.problem.spent + UNDO_ROWS
        if candidates.budget.rows is not None:
            most = np.minimum(most, candidates.budget.rows)
        candidates.accept(undo(candidates.problem, near, owner, candidates.problem.max_changes, most), owner)


@lru_cache
def _pairs_of(features: int, levels: int) -> tuple[Integers, Integers]:
    """All pairs of values of two different features, which have so many values each."""
    one, two = np.triu_indices(features, 1)
    first, second = np.meshgrid(np.arange(levels), np.arange(levels), indexing="ij")
    return (one[:, None] * levels + first.ravel()).ravel(), (two[:, None] * levels + second.ravel()).ravel()
