"""Proposals: complete answers found in imagination, a few changes each, before the model is asked about any of them.

All single moves of a query are looked at for free: quantiles of every number, the bounds, every category. The best
ones are widened change by change.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.problem import Problem
from relax_plugin.search.greedy import Moves
from relax_plugin.world_model.belief import expected_improvement
from relax_plugin.world_model.changes import CATEGORY, Changes, largest, lengths, nearness, picked
from relax_plugin.world_model.model import WorldModel

VALUES = 6  # quantiles of each number that are looked at
CATEGORIES = 4  # of each feature that are looked at
DEPTH = 12  # changes of a proposal at most, whatever `max_changes` says
BEAM = 4  # states from which proposals are widened
WIDENED_BY = 32  # best single moves that widen them
KEPT = 24  # proposals of each number of changes
SURE = 2.0  # errors of the world model beyond the goal at which a proposal needs no further changes
OF_BOTH_KINDS = 4  # times the states that are widened, where distance counts
LEAST_DONE = 0.05  # share of the way to the goal from which on what a change costs tells what the whole way would
TIMES_NEEDED = 16.0  # what the whole way would cost at the best such rate: what is dearer is not looked for
MOST_BOUNDS = 8  # bounds of a feature that are looked at, where every row has its own


@dataclass
class Single:
    """All single moves of a batch: what they set, who may make them, how long they are."""

    feature: Integers  # (moves,), ascending
    value: Floats  # (moves,)
    table: Any  # of the world model
    allowed: Booleans  # (queries, moves)
    length: Array  # (queries, moves), as in Changes
    cost: Floats  # (queries, moves): L1, at the features' prices

    @classmethod
    def of(cls, problem: Problem, moves: Moves, world: WorldModel) -> "Single":
        space, start = problem.space, problem.start
        movable = np.asarray(~np.broadcast_to(problem.limits.frozen, start.shape).all(axis=0))
        looked_at = world.foremost(movable | ~movable.any())[moves.feature]
        few = Moves(moves.feature[looked_at], moves.value[looked_at])
        feature, value = _values_within(few, problem.limits, space)
        low, high = problem.span
        here = start[:, feature]
        gone = value == space.missing_codes[feature]
        inside = (value >= low[:, feature]) & (value <= high[:, feature])
        allowed = (value != here) & (inside | (gone & ~problem.limits.frozen[:, feature]))
        categorical = space.is_categorical[feature]
        length = lengths(value - here, space.scale[feature])
        cost = np.abs(length)
        at_once = gone | (here == space.missing_codes[feature])
        if at_once.any():
            length[at_once], cost[at_once] = CATEGORY, 1.0
        if categorical.any():
            at = np.flatnonzero(categorical)
            position = problem.limits.category_offsets[feature[at]] + value[at].astype(np.int64)
            allowed[:, at] &= problem.limits.choices[:, position]
            length[:, at], cost[:, at] = CATEGORY, 1.0
        if space.has_prices:
            cost *= space.prices.astype(np.float32)[feature]
        return cls(feature, value, world.table(feature, value), allowed, length, cost)

    def changes(self, move: Integers, gap: Floats) -> Changes:
        """Lists of moves (places, queries, proposals) as changes."""
        there, query = move >= 0, np.arange(move.shape[1])[:, None]
        return Changes(
            np.where(there, self.feature[move], -1).astype(np.int32),
            np.where(there, self.value[move], 0.0),
            np.where(there, self.length[query, move], np.float32(0.0)),
            gap,
        )


def _values_within(moves: Moves, limits: Limits, space: FeatureSpace) -> tuple[Integers, Floats]:
    """The moves' values between the bounds of a batch, and those bounds."""
    low, high = limits.ends
    inner = np.clip(moves.value, low.min(axis=0)[moves.feature], high.max(axis=0)[moves.feature])
    inner = np.where(moves.value == space.missing_codes[moves.feature], moves.value, inner)
    pairs = [np.stack([moves.feature, inner], axis=1)]
    for ends in (low, high):
        for j in np.flatnonzero(~space.is_categorical) if len(ends) > 1 else ():
            own = np.unique(ends[:, j])
            some = own[np.linspace(0, len(own) - 1, min(len(own), MOST_BOUNDS)).astype(int)]
            pairs.append(np.stack([np.full(len(some), j), some], axis=1))
    distinct = np.unique(np.concatenate(pairs), axis=0)
    return distinct[:, 0].astype(np.int64), distinct[:, 1]


@dataclass
class Front:
    """The states from which each query's proposals are widened; moves by places (places, queries, states)."""

    move: Integers
    gap: Floats
    cost: Floats
    squared: Floats  # length

    def of(self, queries: Any) -> "Front":
        return Front(self.move[:, queries], self.gap[queries], self.cost[queries], self.squared[queries])


class Imagination:
    """One search for proposals: the world model, the queries, their single moves."""

    def __init__(self, world: WorldModel, problem: Problem, moves: Moves, beam: int = BEAM, sure: float = SURE) -> None:
        self.world, self.problem, self.beam = world, problem, beam
        self.enough = -sure * world.error  # the gap at which a query's proposals are not widened further
        self.single = Single.of(problem, moves, world)
        # What the model answered to the query itself corrects the world model there, less the farther one goes.
        told = world.targets.in_units(problem.gap)
        self.whole = np.maximum(told, 1e-6)  # of the way to the goal
        self.correction = (told - world.gap(problem.goal, problem.start)).astype(np.float32)

    def propose(self) -> Changes:
        """Complete answers of each query: those of one change, of two, ..., until one is sure to be valid."""
        problem, single = self.problem, self.single
        most = min(problem.max_changes, DEPTH)
        everyone = np.arange(len(problem))
        gap = self._gap(problem.start, everyone, None, single.allowed, single.length**2)
        self._forget_all_but_the_best_categories(gap)
        best = largest(self._promise(gap, single.cost, 1), KEPT)
        found = [(everyone, best[None], picked(gap, best))]
        if problem.by_distance:
            return self._together([*found, *self._by_distance(gap, most)])
        live = np.flatnonzero(gap.min(axis=1) > self.enough)
        front = self._best_of_each_feature(gap).of(live)
        widening = largest(-gap, WIDENED_BY)
        for depth in range(1, most):
            if len(live) == 0:
                break
            front, best, best_gap, _ = self._widen(front, live, widening[live], depth)
            found.append((live, best, best_gap))
            unsure = best_gap.min(axis=1) > self.enough
            live, front = live[unsure], front.of(unsure)
        return self._together(found)

    def _by_distance(self, gap: Floats, most: int) -> list[tuple[Integers, Integers, Floats]]:
        """Proposals of two changes, of three, ..., while they may cost less than the cheapest that is sure to be valid.

        Half of the states that are widened are those nearest to the goal, the others those that are nearest for what
        they cost; and so it is with the moves that widen them.
        """
        single, found, everyone = self.single, [], np.arange(len(gap))
        bar = self._bar(gap, single.cost, np.full(len(gap), np.inf))
        worth = self._worth(gap, single.cost, bar, everyone)
        widening = _some_of_both(-gap, worth, WIDENED_BY)
        live, front = everyone, self._best_of_each_feature(gap, worth)
        for depth in range(1, most):
            hopeful = (np.isfinite(front.gap) & (front.cost < bar[live, None])).any(axis=1)
            live, front = live[hopeful], front.of(hopeful)
            if len(live) == 0:
                break
            front.gap[front.cost >= bar[live, None]] = np.inf
            front, best, best_gap, bar[live] = self._widen(front, live, widening[live], depth, bar[live])
            found.append((live, best, best_gap))
        return found

    def _bar(self, gap: Floats, cost: Floats, bar: Floats) -> Floats:
        """The least cost of what is sure to be valid, now that these states are known too."""
        return np.asarray(np.minimum(bar, np.where(gap <= self.enough, cost, np.inf).min(axis=1)))

    def _worth(self, gap: Floats, cost: Floats, bar: Floats, live: Integers) -> Floats:
        """How much more of the way to the goal is done than of what the whole way costs at most."""
        whole = self.whole[live, None]
        done = np.minimum(whole - gap, whole) / whole
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(np.isfinite(gap) & (done > LEAST_DONE), cost / done, np.inf).min(axis=1)
        most = np.minimum(bar, TIMES_NEEDED * needed)
        return np.where(np.isfinite(gap), done - cost / np.maximum(most, 1e-12)[:, None], -np.inf)

    def _forget_all_but_the_best_categories(self, gap: Floats) -> None:
        """Of a hundred categories, which are all as far, a few compete: else they would leave no room for the rest."""
        for j in np.flatnonzero(self.problem.space.is_categorical):
            moves = np.flatnonzero(self.single.feature == j)
            if len(moves) > CATEGORIES:
                own = gap[:, moves]
                kept = picked(own, largest(-own, CATEGORIES)).max(axis=1, keepdims=True)
                gap[:, moves] = np.where(own <= kept, own, np.inf)

    def _together(self, found: list[tuple[Integers, Integers, Floats]]) -> Changes:
        """The proposals of all numbers of changes side by side; their gaps as the world model alone says."""
        move = np.full((len(found), len(self.problem), KEPT * len(found)), -1)
        gap = np.full(move.shape[1:], np.inf, dtype=np.float32)
        for depth, (live, best, best_gap) in enumerate(found):
            at = slice(depth * KEPT, depth * KEPT + best_gap.shape[1])
            move[: depth + 1, live, at], gap[live, at] = best, best_gap
        changes = self.single.changes(move, gap)
        changes.gap -= self.correction[:, None] * nearness((changes.length**2).sum(axis=0))
        return changes

    def _gap(
        self, states: Values, owner: Integers, chosen: Integers | None, allowed: Booleans, squared: Floats
    ) -> Floats:
        """Imagined gaps of states with one move more (states, moves)."""
        imagined = self.world.predict_moves(states, self.single.feature, self.single.table, chosen)
        gap = self.world.targets.gap(self.problem.goal.take(owner), imagined)
        return np.where(allowed, gap + self.correction[owner][:, None] * nearness(squared), np.inf)

    def _promise(self, gap: Floats, cost: Floats, count: int) -> Floats:
        none = np.full(len(gap), np.inf)
        return expected_improvement(gap, self.world.error, count, cost, none, none, 0.0, self.problem.by_distance)

    def _best_of_each_feature(self, gap: Floats, worth: Floats | None = None) -> Front:
        """For each query one move of each of its most promising features; with `worth` half of them are those."""
        first = np.flatnonzero(np.append(True, np.diff(self.single.feature) > 0))
        ends = np.append(first[1:], len(self.single.feature))
        parts = list(zip(first, ends, strict=True))
        best = np.stack([a + gap[:, a:b].argmin(axis=1) for a, b in parts], axis=1)
        if worth is None:
            best = picked(best, largest(-picked(gap, best), self.beam))
        else:
            other = np.stack([a + worth[:, a:b].argmax(axis=1) for a, b in parts], axis=1)
            best = _some_of_both(_only(-gap, best), _only(worth, other), OF_BOTH_KINDS * self.beam)
        length, cost = (picked(array, best) for array in (self.single.length, self.single.cost))
        return Front(best[None], picked(gap, best), cost, length**2)

    def _widen(
        self, front: Front, live: Integers, widening: Integers, depth: int, bar: Floats | None = None
    ) -> tuple[Front, Integers, Floats, Floats]:
        """Widen the states of some queries by one change: the next states, the best proposals and their gaps.

        With `bar`, what is sure costs at least, the next states are those of `_by_distance`; it is told anew.
        """
        single = self.single
        queries, states = front.gap.shape
        owner = np.repeat(live, states)
        rows, every = self.problem.start[owner], np.arange(len(owner))
        chosen = np.repeat(widening, states, axis=0)
        allowed = single.allowed[owner[:, None], chosen] & np.isfinite(front.gap).reshape(-1, 1)
        for move in front.move.reshape(depth, -1):
            rows[every, single.feature[move]] = single.value[move]
            allowed &= single.feature[chosen] != single.feature[move][:, None]
        _forbid_same_sets(front.move, widening, allowed.reshape(queries, states, -1))
        squared = front.squared.reshape(-1, 1) + single.length[owner[:, None], chosen] ** 2
        cost = front.cost.reshape(-1, 1) + single.cost[owner[:, None], chosen]
        gap = self._gap(rows, owner, chosen, allowed, squared)
        gap, cost, squared = (array.reshape(queries, -1) for array in (gap, cost, squared))

        def moves(position: Integers) -> Integers:
            parent, added = position // widening.shape[1], position % widening.shape[1]
            query = np.arange(queries)[:, None]
            return np.concatenate([front.move[:, query, parent], widening[query, added][None]])

        best = largest(self._promise(gap, cost, depth + 1), KEPT)
        if bar is None:
            near = largest(-gap, self.beam)
        else:
            bar = self._bar(gap, cost, bar)
            near = _some_of_both(-gap, self._worth(gap, cost, bar, live), OF_BOTH_KINDS * self.beam)
        reached = (picked(array, near) for array in (gap, cost, squared))
        told = np.full(len(live), np.inf) if bar is None else bar
        return Front(moves(near), *reached), moves(best), picked(gap, best), told


def _only(array: Floats, position: Integers) -> Floats:
    """The array with nothing but what stands at some positions of each row."""
    kept = np.full(array.shape, -np.inf)
    np.put_along_axis(kept, position, picked(array, position), 1)
    return kept


def _some_of_both(one: Floats, other: Floats, count: int) -> Integers:
    """Positions of the largest of each row by the one measure and by the other, half and half."""
    first = largest(one, count // 2)
    if first.shape[1] == one.shape[1]:
        return first
    rest = other.copy()
    np.put_along_axis(rest, first, -np.inf, 1)
    return np.concatenate([first, largest(rest, count - first.shape[1])], axis=1)


def _forbid_same_sets(move: Integers, widening: Integers, allowed: Booleans) -> None:
    """Two states widened by what the other has more are one set of changes: the later one is not allowed."""
    for later in range(1, move.shape[2]):
        earlier = move[:, :, :later]
        lacking = (earlier[:, None] != move[None, :, :, later, None]).all(axis=1)
        only = np.where(lacking.sum(axis=0) == 1, np.where(lacking, earlier, 0).sum(axis=0), -1)
        allowed[:, later] &= (widening[:, None] != only[:, :, None]).all(axis=1)
