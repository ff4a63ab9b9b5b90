"""Plausible proposals: complete answers found in imagination that look like training rows, for a call that asks so.

A search that goes to the bounds finds none. So what is tried are quantiles of each number and the cells of near
training rows of the goal's class; the world model ranks them, and the detector is shown the best. States on the way may
be implausible: two changes can look right together where neither does alone.
"""

from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.wishes.plausibility import PlausibleRows
from relax_plugin.world_model.belief import expected_improvement
from relax_plugin.world_model.changes import CATEGORY, Changes, largest, lengths, nearness
from relax_plugin.world_model.crossings import SHORTFALL, Crossings, near_rows
from relax_plugin.world_model.model import ImaginedBlackBox, WorldModel
from relax_plugin.world_model.proposals import DEPTH, KEPT, SURE

VALUES = 8  # quantiles of each number that are looked at,
NEAR_ROWS = 8  # and training rows of the goal's class, whose cells are
SHOWN = 100  # changed rows of each state, the best by the world model, that the detector is shown

BEAM = 8  # states from which proposals are widened,
TWINS = 2  # of which at most so many change the same features
STATES_AT_ONCE = 256  # whose changes are imagined at once: bounds the memory, as does
CELLS_AT_ONCE = 4_000_000  # of rows that the detector is shown


def plausible_rows(problem: Problem) -> PlausibleRows | None:
    """The condition that rows are plausible, if there is one: the strictest, which was put on last."""
    return next((one for one in reversed(problem.conditions) if isinstance(one, PlausibleRows)), None)


@dataclass
class Front:
    """The states from which each query's proposals are widened (queries, states)."""

    rows: Floats  # (queries, states, features)
    there: Booleans
    cost: Floats  # L1
    squared: Floats  # length
    features: Integers  # a number for the set of features that are changed

    def of(self, queries: Booleans) -> "Front":
        return Front(*(array[queries] for array in vars(self).values()))


class PlausibleImagination:
    """One search for plausible proposals: the world model, the queries, what may be changed to what."""

    def __init__(self, world: WorldModel, problem: Problem, moves: Moves, answered: AnsweredRows) -> None:
        condition = plausible_rows(problem)
        assert condition is not None
        self.world, self.problem, self.condition = world, problem, condition
        self.enough = -SURE * world.error
        self.near = near_rows(problem, answered, NEAR_ROWS)
        self._set_moves(moves)
        told = world.targets.in_units(problem.gap)
        self.correction = (told - world.gap(problem.goal, problem.start)).astype(np.float32)
        self.whole_way = np.maximum(told, world.error)  # from each query to its goal
        self.number = (
            np.random.default_rng(0).integers(2**62, size=len(problem.space)) >> 8
        )  # whose sums tell sets apart

    def _set_moves(self, moves: Moves) -> None:
        """All single changes of each query: their features (changes,), and values and lengths (queries, changes)."""
        problem, space = self.problem, self.problem.space
        movable = np.asarray(~np.broadcast_to(problem.limits.frozen, problem.start.shape).all(axis=0))
        looked_at = self.world.foremost(movable | ~movable.any())
        kept = looked_at[moves.feature]
        low, high = problem.span
        shared = np.clip(moves.value[kept], low[:, moves.feature[kept]], high[:, moves.feature[kept]])
        numbers = np.flatnonzero(looked_at & ~space.is_categorical)
        near = self.near[:, :, numbers].transpose(0, 2, 1).reshape(len(problem), -1)  # of each feature all near rows'
        feature = np.concatenate([moves.feature[kept], np.repeat(numbers, self.near.shape[1])])
        value = np.concatenate([shared, near], axis=1)
        order = np.argsort(feature, kind="stable")
        self.feature, self.value = feature[order], value[:, order]
        here = problem.start[:, self.feature]
        self.allowed = (self.value >= low[:, self.feature]) & (self.value <= high[:, self.feature])
        self.allowed &= self.value != here
        self.length = lengths(self.value - here, space.scale[self.feature])
        self.cost = np.abs(self.length).astype(np.float64)
        categorical = np.flatnonzero(space.is_categorical[self.feature])
        if len(categorical):
            last = np.diff(problem.limits.category_offsets)[self.feature[categorical]] - 1
            code = np.minimum(self.value[:, categorical], last).astype(np.int64)  # a foreign one is the query's own
            position = problem.limits.category_offsets[self.feature[categorical]] + code
            rows = 0 if len(problem.limits.choices) == 1 else np.arange(len(problem))[:, None]
            self.allowed[:, categorical] &= problem.limits.choices[rows, position]
            self.length[:, categorical], self.cost[:, categorical] = CATEGORY, 1.0

    def propose(self) -> Changes:
        """Plausible answers of each query: those of one change, of two, ..., until one is sure to be valid."""
        problem = self.problem
        live, one = np.arange(len(problem)), np.zeros((len(problem), 1))
        front = Front(problem.start[:, None].copy(), np.ones(one.shape, dtype=bool), one, one, one.astype(np.int64))
        found: list[tuple[Integers, Changes]] = []
        for depth in range(1, min(problem.max_changes, DEPTH) + 1):
            front, best, surest = self._widen(front, live, depth)
            found.append((live, best))
            unsure = (surest > self.enough) & front.there.any(axis=1)
            live, front = live[unsure], front.of(unsure)
            if len(live) == 0:
                break
        together = Changes.none(1, len(problem), 0)
        for queries, best in found:
            spread = Changes.none(len(best.feature), len(problem), best.gap.shape[1])
            for whole, part in zip(vars(spread).values(), vars(best).values(), strict=True):
                whole[..., queries, :] = part
            together = together.beside(spread)
        return together

    def _widen(self, front: Front, live: Integers, depth: int) -> tuple[Front, Changes, Floats]:
        """Widen the states of some queries by one change: next states, best proposals, their least gap."""
        queries, states = front.there.shape
        flat, owner = front.rows.reshape(-1, front.rows.shape[2]), np.repeat(live, states)
        every = self._gap(flat, owner, front)
        shown = largest(-every, SHOWN)
        gap = np.take_along_axis(every, shown, 1)
        short = self._shortfall(flat, owner, shown, np.isfinite(gap))
        cost, squared = (
            (own.reshape(-1, 1) + step[owner[:, None], shown]).reshape(queries, -1)
            for own, step in ((front.cost, self.cost), (front.squared, self.length.astype(np.float64) ** 2))
        )
        gap, short = gap.reshape(queries, -1), short.reshape(queries, -1)
        moved = shown.reshape(queries, states, -1)
        plausible = np.where(short <= 0.0, gap, np.inf)
        best = largest(self._promise(plausible, cost, depth), KEPT)
        told = np.take_along_axis(plausible, best, 1)
        proposals = self._changes(self._rows(front, live, moved, best), live, told)
        share = np.maximum(gap, self.enough) / self.whole_way[live][:, None]
        sets = (front.features.reshape(-1, 1) + self.number[self.feature[shown]]).reshape(queries, -1)
        worth = self._without_twins(-(share + SHORTFALL * short), sets)
        near = largest(worth, BEAM)
        there = np.isfinite(np.take_along_axis(worth, near, 1))
        kept = (np.take_along_axis(array, near, 1) for array in (cost, squared, sets))
        following = Front(self._rows(front, live, moved, near), there, *kept)
        return following, proposals, told.min(axis=1, initial=np.inf)

    def _shortfall(self, states: Values, owner: Integers, shown: Integers, there: Booleans) -> Floats:
        """By how much states with each of the changes shown are too implausible; infinite where there is none."""
        short: Floats = np.full(shown.shape, np.inf)
        state, place = np.nonzero(there)
        size = max(CELLS_AT_ONCE // states.shape[1], 1)
        for first in range(0, len(state), size):
            at, to = state[first : first + size], place[first : first + size]
            move, rows = shown[at, to], states[at]
            rows[np.arange(len(rows)), self.feature[move]] = self.value[owner[at], move]
            short[at, to] = self.condition.shortfall(rows, owner[at])
        return short

    def _rows(self, front: Front, live: Integers, moved: Integers, position: Integers) -> Floats:
        """States with one change more (queries, positions, features)."""
        query, shown = np.arange(len(live))[:, None], moved.shape[2]
        parent, place = position // shown, position % shown
        rows: Floats = front.rows[query, parent].copy()
        move = moved[query, parent, place]
        rows[query, np.arange(position.shape[1]), self.feature[move]] = self.value[live[:, None], move]
        return rows

    def _without_twins(self, worth: Floats, sets: Integers) -> Floats:
        """Of rows with the same features changed, a few, the best, may be widened: the others teach little."""
        query = np.repeat(np.arange(len(worth)), worth.shape[1])
        order = np.lexsort((-worth.ravel(), sets.ravel(), query))
        fresh = np.append(True, (np.diff(query[order]) != 0) | (np.diff(sets.ravel()[order]) != 0))
        first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
        few = np.empty(len(order), dtype=bool)
        few[order] = np.arange(len(order)) - first < TWINS
        return np.where(few.reshape(worth.shape), worth, -np.inf)

    def _gap(self, states: Values, owner: Integers, front: Front) -> Floats:
        """Imagined gaps of states with one change more (states, changes); infinite where it may not be made."""
        start, gaps = self.problem.start[owner], np.full((len(states), len(self.feature)), np.inf)
        allowed = self.allowed[owner] & (states == start)[:, self.feature] & front.there.reshape(-1, 1)
        for first in range(0, len(states), STATES_AT_ONCE):
            at = slice(first, first + STATES_AT_ONCE)
            row, move = np.nonzero(allowed[at])
            who = owner[at][row]
            value = self.value[who, move]
            imagined = self.world.predict_changed(states[at], row, self.feature[move], value)
            squared = front.squared.reshape(-1)[at][row] + self.length[who, move] ** 2
            told = self.world.targets.gap(self.problem.goal.take(who), imagined)
            gaps[first + row, move] = told + self.correction[who] * nearness(squared)
        return gaps

    def _promise(self, gap: Floats, cost: Floats, count: int) -> Floats:
        none = np.full(len(gap), np.inf)
        return expected_improvement(gap, self.world.error, count, cost, none, none)

    def _changes(self, rows: Floats, live: Integers, gap: Floats) -> Changes:
        """Rows of queries (queries, proposals, features) as changes; the gaps as the world model alone says."""
        made = Changes.to_rows(self.problem.space, self.problem.start[live], rows, gap, self.problem.max_changes)
        made.gap -= self.correction[live][:, None] * nearness((made.length**2).sum(axis=0))
        return made


@dataclass(frozen=True)
class PlausibleSource:
    """Plausible proposals for the parts of one problem."""

    world: WorldModel
    moves: Moves
    answered: AnsweredRows

    @classmethod
    def of(
        cls, world: WorldModel, problem: Problem, moves: Moves, neighbours: Neighbours | None
    ) -> "PlausibleSource | None":
        """The source for a problem whose answers must be plausible; None for any other."""
        if neighbours is None or plausible_rows(problem) is None:
            return None
        answered = AnsweredRows(neighbours, ImaginedBlackBox(world).ask)
        return cls(world, moves.thinned(VALUES, problem.space), answered)

    def propose(self, problem: Problem) -> Changes:
        """Complete answers by changes of single cells, one after another."""
        return PlausibleImagination(self.world, problem, self.moves, self.answered).propose()

    def cross(self, problem: Problem) -> Crossings:
        """Near rows of the goal with changes taken back, for queries that find nothing else."""
        condition = plausible_rows(problem)
        assert condition is not None
        return Crossings.of(self.world, problem, condition, self.answered)
