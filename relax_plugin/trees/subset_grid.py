"""The subset grid: of all rows that change only some features, the nearest one that meets the goal, exactly.

For a query and a subset S of the features, only leaves whose tests outside of S the query passes can be reached. Each
is a box in the grid of S. Their scores are added at the corners of the boxes, with alternating signs, and cumulated
along every axis: then every cell of the grid holds its exact score, and the cheapest cell that meets the goal is the
optimum within S. Queries are worked on side by side, subset by subset.

Two bounds save most of the work without giving up exactness. A subset is left out if the best leaf of every tree
together would not meet the goal; and once a query has a solution, only cells and leaves nearer than it count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.trees.aims import Aim
from relax_plugin.trees.cells import Cells

CHUNK_CELLS = 4_000_000  # cells of grids, or queries times leaves times features, that are held at once
SLACK = 1e-9  # of distances, in standard deviations
FIRST_ROUNDS = (1, 4, 16)  # most promising subsets of each query, solved before all others: they bound the distance

Met = Callable[[Floats, Integers], Booleans]  # rows and their queries -> whether the model's answer meets the goal


@dataclass(frozen=True)
class Boxes:
    """Boxes in the grids of several queries, whose lines are merged where no box begins or ends."""

    query: Integers  # (boxes,)
    low: Integers  # (boxes, axes) first line of the box
    high: Integers  # (boxes, axes) the line after its last
    parts: Floats  # (boxes, sums) the scores
    line: Integers  # (queries, axes, intervals) the line of each interval; -1 outside of the query's window
    counts: Integers  # (queries, axes) lines

    @classmethod
    def merged(
        cls, query: Integers, low: Integers, high: Integers, parts: Floats, left: Integers, right: Integers
    ) -> "Boxes":
        """Boxes given by intervals, within windows [left, right) of the intervals of each query and axis."""
        queries, axes = left.shape
        most = int(right.max()) + 1
        begins: Booleans = np.zeros((queries, axes, most), dtype=bool)
        axis = np.arange(axes)
        begins[query[:, None], axis, low] = True
        begins[query[:, None], axis, high] = True
        begins[np.arange(queries)[:, None], axis, left] = True
        line = np.cumsum(begins, axis=2) - 1
        low, high = line[query[:, None], axis, low], line[query[:, None], axis, high]
        place = np.arange(most)
        counts = np.take_along_axis(line, right[:, :, None] - 1, axis=2)[:, :, 0] + 1
        outside = (place < left[:, :, None]) | (place >= right[:, :, None])
        return cls(query, low, high, parts, np.where(outside, -1, line), counts)

    @property
    def volume(self) -> Integers:
        """Cells of each query's grid, the border included."""
        return np.asarray((self.counts + 1).prod(axis=1))

    def sums(self, some: Integers) -> Floats:
        """The sums of the parts of all boxes around each cell (queries, lines of each axis, ..., sums)."""
        place = np.full(len(self.counts), -1)
        place[some] = np.arange(len(some))
        here = np.flatnonzero(place[self.query] >= 0)
        shape = (len(some), *self.counts[some].max(axis=0))
        return box_sums(shape, place[self.query[here]], self.low[here], self.high[here], self.parts[here])

    def cheapest(self, cost: Floats, some: Integers, axis: int, lines: int) -> tuple[Floats, Integers]:
        """The least cost of each line of one axis, given that of each interval, and the interval that has it."""
        line = self.line[some, axis, : cost.shape[1]]
        cost = cost[:, : line.shape[1]]
        row, interval = np.nonzero((line >= 0) & np.isfinite(cost))
        order = np.argsort(-cost[row, interval], kind="stable")  # the cheapest is written last
        row, interval = row[order], interval[order]
        least, where = np.full((len(some), lines), np.inf), np.zeros((len(some), lines), dtype=np.int64)
        least[row, line[row, interval]] = cost[row, interval]
        where[row, line[row, interval]] = interval
        return least, where


def box_sums(shape: tuple[int, ...], grid: Integers, low: Integers, high: Integers, parts: Floats) -> Floats:
    """The sums (grids, lines of each axis, ..., sums) of the parts of all boxes around each cell of some grids.

    The parts of a box are added at its corners, with alternating signs, and cumulated along every axis.
    """
    axes = len(shape) - 1
    wider = (shape[0], *(count + 1 for count in shape[1:]))  # one more: where boxes end
    strides = np.cumprod([1, *wider[:0:-1]])[::-1].astype(np.int64)
    corners = [np.array(corner, dtype=bool) for corner in product((False, True), repeat=axes)]
    key = np.concatenate([grid * strides[0] + np.where(corner, high, low) @ strides[1:] for corner in corners])
    signs = [1.0 - 2.0 * (corner.sum() % 2) for corner in corners]
    sums = np.empty((*wider, parts.shape[1]))
    for m, part in enumerate(parts.T):
        total = np.bincount(key, np.concatenate([sign * part for sign in signs]), int(np.prod(wider))).reshape(wider)
        for axis in range(1, axes + 1):
            np.cumsum(total, axis=axis, out=total)
        sums[..., m] = total
    return sums[(slice(None), *[slice(0, -1)] * axes)]


@dataclass
class Solutions:
    """The best row so far of each query; its distance is infinite if there is none."""

    distance: Floats  # (queries,)
    intervals: Integers  # (queries, features)


@dataclass(frozen=True)
class Entries:
    """Pairs of a query and a leaf that it reaches by changing few features; ordered by those features, then query."""

    query: Integers
    leaf: Integers
    subset: Integers  # position of the set of features in which the query is outside of the leaf
    cost: Floats  # least distance at which it is inside
    parts: Floats  # (pairs, sums) what the leaf adds to the sums
    gain: Floats  # (pairs, sums) what it adds beyond the leaf that the query reaches now

    def some(self, index: Any) -> "Entries":
        names = ("query", "leaf", "subset", "cost", "parts", "gain")
        return Entries(*(getattr(self, name)[index] for name in names))


class SubsetGrid:
    """All subsets of up to `most` features around some queries, which do not meet their goals yet."""

    def __init__(self, cells: Cells, aim: Aim, met: Met, most: int) -> None:
        self.cells, self.aim, self.met = cells, aim, met
        self.leaf_tree = aim.trees.leaf_tree
        self.least = np.where(cells.costs > 0, cells.costs, np.inf).min(axis=2)  # (queries, features)
        self.movable = np.flatnonzero(np.isfinite(self.least).any(axis=0))
        self.subsets, self.entries = self._entries(min(most, len(self.movable)))
        group = self.entries.subset * len(aim) + self.entries.query
        self.first = np.searchsorted(group, np.arange(len(self.subsets) * len(aim) + 1))
        self.position = {subset: position for position, subset in enumerate(self.subsets)}
        reached = self.entries.some(slice(0, self.first[len(aim)]))
        self.now = self.aim.offset + _summed(reached.query, reached.parts, len(aim))

    def solve(self, k: int, pending: Integers) -> Solutions:
        """The nearest rows with k changes, for queries that no smaller number of changes solves."""
        cells = self.cells
        best = Solutions(np.full(len(self.aim), np.inf), cells.home.copy())
        candidates = list(combinations(self.movable.tolist(), k))
        if not candidates or len(pending) == 0:
            return best
        members = self._members(candidates)
        done = np.ones((len(self.aim), len(candidates)), dtype=bool)
        done[pending] = False
        done |= np.isinf(self.least[:, np.array(candidates)]).any(axis=2)
        for round_ in (*FIRST_ROUNDS, len(candidates)):
            hope = self._hope(best.distance, members)
            done |= hope <= -self.aim.tolerance[:, None]
            hope[done] = -np.inf
            if round_ < len(candidates):
                chosen = np.zeros_like(done)
                top = np.argpartition(-hope, round_ - 1, axis=1)[:, :round_]
                np.put_along_axis(chosen, top, True, axis=1)
                chosen &= ~done
            else:
                chosen = ~done
            for position in np.flatnonzero(chosen.any(axis=0)):
                self._solve_subset(candidates[position], members[position], np.flatnonzero(chosen[:, position]), best)
            done |= chosen
            if done.all():
                break
        return best

    # Which leaves can be reached.

    def _entries(self, most: int) -> tuple[list[tuple[int, ...]], Entries]:
        cells, features = self.cells, self.cells.home.shape[1]
        size = max(1, CHUNK_CELLS // max(cells.low.size, 1))
        reachable = np.flatnonzero((cells.low <= cells.high).all(axis=1))
        found = []
        for first in range(0, len(self.aim), size):
            outside = cells.outside(slice(first, first + size), reachable)
            query, leaf = np.nonzero(outside.sum(axis=2) <= most)
            pair, feature = np.nonzero(outside[query, leaf])
            query, leaf = query + first, reachable[leaf]
            cost = np.zeros(len(query))
            np.add.at(cost, pair, cells.reach(query[pair], leaf[pair], feature))
            rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
            code = np.zeros(len(query), dtype=np.int64)
            np.add.at(code, pair, (feature + 1) * (features + 1) ** rank)
            near = np.isfinite(cost)
            found.append((query[near], leaf[near], code[near], cost[near]))
        query, leaf, code, cost = (np.concatenate(column) for column in zip(*found, strict=True))
        codes, subset = np.unique(code, return_inverse=True)
        subsets = [_decoded(int(code), features + 1) for code in codes]
        order = np.lexsort((leaf, query, subset))
        query, leaf, subset, cost = query[order], leaf[order], subset[order], cost[order]
        parts = self.aim.parts(query, leaf)
        current = np.zeros((len(self.aim), len(self.aim.trees), parts.shape[1]))
        here = subset == 0  # the empty set comes first
        current[query[here], self.leaf_tree[leaf[here]]] = parts[here]
        gain = parts - current[query, self.leaf_tree[leaf]]
        return subsets, Entries(query, leaf, subset, cost, parts, gain)

    # Bounds.

    def _members(self, candidates: list[tuple[int, ...]]) -> Integers:
        """The positions of all sets of leaves' features within each candidate, the empty one first; -1: no leaf."""
        k = len(candidates[0])
        return np.array(
            [
                [self.position.get(part, -1) for size in range(k + 1) for part in combinations(candidate, size)]
                for candidate in candidates
            ]
        )

    def _hope(self, distance: Floats, members: Integers) -> Floats:
        """A bound of how well each query could meet its goal within each candidate, nearer than a distance."""
        entries = self.entries
        near = np.flatnonzero((entries.cost < distance[entries.query]) & (entries.gain > 0).any(axis=1))
        some = entries.some(near)
        best = np.zeros((len(self.aim), len(self.subsets) + 1, entries.gain.shape[1]))
        if len(near):
            # The best leaf of each tree: pairs of one subset, query and tree lie side by side.
            tree = self.leaf_tree[some.leaf]
            new = np.r_[True, np.diff(some.subset) != 0] | np.r_[True, np.diff(some.query) != 0]
            new |= np.r_[True, np.diff(tree) != 0]
            first = np.flatnonzero(new)
            top = np.maximum.reduceat(np.maximum(some.gain, 0.0), first, axis=0)
            key = some.query[first] * best.shape[1] + some.subset[first]
            for m in range(best.shape[2]):
                best[:, :, m] = np.bincount(key, top[:, m], best[:, :, m].size).reshape(best.shape[:2])
        hope = np.empty((len(self.aim), len(members)))
        size = max(1, CHUNK_CELLS // max(1, members.shape[1] * len(self.aim) * best.shape[2]))
        for i in range(0, len(members), size):
            sums = self.now[:, None] + best[:, members[i : i + size, 1:]].sum(axis=2)  # -1 is the last, which is 0
            hope[:, i : i + size] = self.aim.gap(sums)
        return hope

    # Grids.

    def _solve_subset(self, features: tuple[int, ...], members: Integers, queries: Integers, best: Solutions) -> None:
        columns, cells = list(features), self.cells
        least = self.least[queries][:, columns]
        budget = best.distance[queries] - least.sum(axis=1)  # what is left beyond changing all these features at all
        pairs = self._near(members[members >= 0], queries, budget)
        hopeful = (self._tighter_hope(pairs, queries) > -self.aim.tolerance[queries]) & (budget > 0)
        queries, budget, least = queries[hopeful], budget[hopeful], least[hopeful]
        if len(queries) == 0:
            return
        within = cells.costs[queries][:, columns] < (budget[:, None] + least)[:, :, None]
        left = within.argmax(axis=2)
        right = within.shape[2] - within[:, :, ::-1].argmax(axis=2)  # windows around home: no cell beyond is nearer
        place = np.full(len(self.aim), -1)
        place[queries] = np.arange(len(queries))
        at = place[self.entries.query[pairs]]
        pairs, at = pairs[at >= 0], at[at >= 0]
        box, low, high = cells.boxes_within(self.entries.leaf[pairs], columns)
        pairs, at = pairs[box], at[box]
        low, high = np.clip(low, left[at], right[at]), np.clip(high, left[at], right[at])
        inside = (low < high).all(axis=1)
        boxes = Boxes.merged(at[inside], low[inside], high[inside], self.entries.parts[pairs[inside]], left, right)
        order = np.argsort(boxes.volume, kind="stable")
        done = 0
        while done < len(order):  # so many grids of similar size as fit in the memory
            size = boxes.volume[order[done:]] * np.arange(1, len(order) - done + 1)
            some = order[done : done + max(1, int((size <= CHUNK_CELLS).sum()))]
            self._solve_window(columns, queries, boxes, some, best)
            done += len(some)

    def _near(self, members: Integers, queries: Integers, budget: Floats) -> Integers:
        """Entries of some queries that change some features of a subset and leave enough to change the others too."""
        owned = np.zeros((len(members), len(queries)))  # least cost of the features that the leaves change
        for own, member in zip(owned, members, strict=True):
            own[:] = self.least[queries][:, list(self.subsets[member])].sum(axis=1)
        group = (members[:, None] * len(self.aim) + queries).ravel()
        length = self.first[group + 1] - self.first[group]
        pairs = np.repeat(self.first[group] - np.cumsum(length) + length, length) + np.arange(length.sum())
        # Rounding must not take a leaf away from cells that count: their score would be wrong.
        left = np.repeat((budget + owned).ravel(), length) + SLACK
        return np.asarray(pairs[self.entries.cost[pairs] < left])

    def _tighter_hope(self, pairs: Integers, queries: Integers) -> Floats:
        """The bound again, with one best leaf for each tree over all sets of features."""
        place = np.full(len(self.aim), -1)
        place[queries] = np.arange(len(queries))
        query, gain = place[self.entries.query[pairs]], np.maximum(self.entries.gain[pairs], 0.0)
        key = query * len(self.aim.trees) + self.leaf_tree[self.entries.leaf[pairs]]
        order = np.argsort(key, kind="stable")
        if len(order) == 0:
            return self.aim.gap(self.now[queries])
        first = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0])
        top = np.maximum.reduceat(gain[order], first, axis=0)
        return self.aim.gap(self.now[queries] + _summed(query[order][first], top, len(queries)))

    def _solve_window(
        self, columns: list[int], queries: Integers, boxes: "Boxes", some: Integers, best: Solutions
    ) -> None:
        sums = boxes.sums(some) + _spread(self.aim.offset[queries[some]], len(columns))
        gap = self.aim.gap(sums)
        line = self.cells.costs[queries[some]][:, columns]
        line = np.where(line > 0, line, np.inf)  # not home: fewer changes do not suffice
        shape = gap.shape[1:]
        total = np.zeros(gap.shape)
        nearest = []
        for axis in range(len(columns)):
            cost, interval = boxes.cheapest(line[:, axis], some, axis, shape[axis])
            total += cost.reshape(len(some), *[1] * axis, -1, *[1] * (len(columns) - axis - 1))
            nearest.append(interval)
        total[total >= best.distance[queries[some]].reshape(-1, *[1] * len(columns))] = np.inf
        self._choose(columns, queries[some], nearest, gap, total, best)

    def _choose(
        self,
        columns: list[int],
        queries: Integers,
        nearest: list[Integers],
        gap: Floats,
        cost: Floats,
        best: Solutions,
    ) -> None:
        """The cheapest cell that meets the goal: by its score, or by the model's answer where that is too near 0."""

        def intervals(row: Integers, cell: Integers) -> Integers:
            chosen = self.cells.home[queries[row]].copy()
            for column, place, line in zip(columns, np.unravel_index(cell, shape), nearest, strict=True):
                chosen[:, column] = line[row, place]
            return chosen

        shape, row = gap.shape[1:], np.arange(len(queries))
        gap, cost = gap.reshape(len(row), -1), cost.reshape(len(row), -1)
        tolerance = self.aim.tolerance[queries][:, None]
        sure = np.where(gap > tolerance, cost, np.inf)
        cell = sure.argmin(axis=1)
        least = sure[row, cell]
        if not self.aim.exact:
            owner, asked = np.nonzero((np.abs(gap) <= tolerance) & (cost < least[:, None]))
            if len(owner):
                met = self.met(self._values(queries[owner], intervals(owner, asked)), queries[owner])
                owner, asked = owner[met], asked[met]
            order = np.argsort(-cost[owner, asked], kind="stable")  # the cheapest is written last
            cell[owner[order]], least[owner[order]] = asked[order], cost[owner[order], asked[order]]
        better = np.flatnonzero(least < best.distance[queries])
        best.distance[queries[better]] = least[better]
        best.intervals[queries[better]] = intervals(better, cell[better])

    def _values(self, queries: Integers, intervals: Integers) -> Floats:
        return np.asarray(np.take_along_axis(self.cells.values[queries], intervals[:, :, None], axis=2)[:, :, 0])

    def values(self, best: Solutions) -> Floats:
        """The rows of the solutions (queries, features)."""
        return self._values(np.arange(len(best.distance)), best.intervals)


def _summed(query: Integers, parts: Floats, count: int) -> Floats:
    return np.column_stack([np.bincount(query, column, count) for column in parts.T])


def _decoded(code: int, base: int) -> tuple[int, ...]:
    features = []
    while code:
        code, digit = divmod(code, base)
        features.append(digit - 1)
    return tuple(features)


def _spread(offset: Floats, axes: int) -> Floats:
    """(queries, sums) -> (queries, 1, ..., 1, sums), to be added to grids."""
    return offset.reshape(len(offset), *[1] * axes, -1)
