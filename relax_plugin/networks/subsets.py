"""Subsets: whether changing just k features of a query can meet its goal, decided by branch and bound.

Each set of k moves is a box. The network is bounded over it (`relu.py`); where the bound says that the goal is out of
reach, all rows of the box are done with. Else the best corner of the bound is looked at, and the box is cut in two.
With few changed features boxes have few sides, so that this ends soon where a solver, which has to decide every
rectifier, does not. A box of one row is decided by the model itself.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.networks.question import Moves, Target
from relax_plugin.networks.relu import ReluNetwork, upper_bounds

CHUNK_CELLS = 4_000_000  # boxes times rectifiers times moves that are held at once
MOST_SUBSETS = 500_000  # sets of moves that are looked at; beyond, a solver is asked
NARROW = 1e-9  # of a standard deviation: sides of boxes are cut no shorter
CLOSE = 1e-4  # relative: how near to the least distance is near enough

Met = Callable[[Values], Booleans]  # rows -> whether the model's own answer meets the goal, and the rows the rules


@dataclass
class Boxes:
    """Sets of moves, with the amounts (lowest and highest) that are not decided yet."""

    active: Integers  # (boxes, k)
    low: Floats
    high: Floats
    most: Floats  # (boxes,) the bound of what they are a part of: the most promising first

    def take(self, index: Integers | Booleans) -> "Boxes":
        return Boxes(self.active[index], self.low[index], self.high[index], self.most[index])

    @classmethod
    def joined(cls, parts: list["Boxes"]) -> "Boxes":
        names = ("active", "low", "high", "most")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def __len__(self) -> int:
        return len(self.active)


@dataclass
class Decision:
    """What is known of one query and number of changes."""

    values: Values | None = None  # the nearest row found that meets the goal
    distance: float = np.inf  # infinite if there is none
    closed: bool = False  # every box was done with: if nothing was found, there is nothing; else nothing is nearer
    unsure: bool = False  # the model's rounding left a box undecided
    boxes: int = field(default=0)  # how many were looked at


@dataclass(frozen=True)
class SubsetSearch:
    """The search for one query."""

    network: ReluNetwork
    moves: Moves
    target: Target
    met: Met  # whether the model's own answers to rows meet the goal
    closest: bool = True  # the search goes on for the nearest row once there is one

    def solve(self, k: int, deadline: float, known: Decision | None = None) -> Decision | None:
        """Rows that change just k features; None if there are too many sets of features.

        `deadline` is a time of `time.perf_counter`. With a `known` row only nearer ones count.
        """
        pool = self._subsets(k)
        if pool is None:
            return None
        found = Decision() if known is None else Decision(known.values, known.distance)
        margin = self.target.margin(self.moves.error, self.network.precision)
        widest = max(self.network.hidden, default=1)
        size = max(16, CHUNK_CELLS // (widest * 2 * k * max(1, len(self.network.hidden))) // 8)
        while len(pool):
            if time.perf_counter() > deadline:
                return found
            if len(pool) > size:
                order = np.argpartition(-pool.most, size)
                some, pool = pool.take(order[:size]), pool.take(order[size:])
            else:
                some, pool = pool, pool.take(np.zeros(0, dtype=np.int64))
            pool = Boxes.joined([pool, *self._cut(self._alive(some, found), margin, found)])
            if found.values is not None:
                if not self.closest:
                    return found
                pool = self._alive(pool, found)
        found.closed = not found.unsure
        return found

    def _subsets(self, k: int) -> Boxes | None:
        """Every set of moves of k features; None if there are too many."""
        by_feature = [np.flatnonzero(self.moves.feature == j) for j in np.unique(self.moves.feature)]
        sets: list[tuple[int, ...]] = []
        for chosen in combinations(by_feature, k):
            sets += product(*(part.tolist() for part in chosen))
            if len(sets) > MOST_SUBSETS:
                return None
        active = np.array(sets, dtype=np.int64).reshape(len(sets), k)
        return Boxes(active, self.moves.low[active], self.moves.high[active], np.full(len(sets), np.inf))

    def _alive(self, boxes: Boxes, found: Decision) -> Boxes:
        """The boxes that may hold a nearer row than the one found."""
        if found.values is None:
            return boxes
        nearest = np.where((boxes.low <= 0) & (boxes.high >= 0), 0.0, np.minimum(abs(boxes.low), abs(boxes.high)))
        return boxes.take((nearest * self.moves.price[boxes.active]).sum(axis=1) < found.distance * (1 - CLOSE))

    def _cut(self, boxes: Boxes, margin: float, found: Decision) -> list[Boxes]:
        """Halves of the boxes in which the goal may be met; what is found in them on the way is noted."""
        if len(boxes) == 0:
            return []
        found.boxes += len(boxes)
        groups, sums, _ = self.target.matrix.shape
        functions, offset = self.target.matrix.reshape(groups * sums, -1), self.target.offset.ravel()
        slope = self.moves.slope[boxes.active]
        bound = upper_bounds(self.network, self.moves.first, slope, boxes.low, boxes.high, functions, offset)
        most = bound.most.reshape(-1, groups, sums).min(axis=2)
        group = most.argmax(axis=1)
        boxes.most = most[np.arange(len(boxes)), group]
        alive = np.flatnonzero(boxes.most >= -margin)
        if len(alive) == 0:
            return []
        boxes, slope, group, weight = boxes.take(alive), slope[alive], group[alive], bound.weight[alive]
        worst = bound.most[alive].reshape(-1, groups, sums)[np.arange(len(alive)), group].argmin(axis=1)
        corner = np.where(bound.slopes[alive, group * sums + worst] >= 0, boxes.high, boxes.low)
        nearest = np.clip(0.0, boxes.low, boxes.high)
        reached = self._try(boxes, slope, nearest, margin, found)  # all others of the box are farther
        left = np.flatnonzero(~reached)
        boxes, slope, corner, weight = boxes.take(left), slope[left], corner[left], weight[left]
        self._try(boxes, slope, corner, margin, found)
        return self._halves(boxes, weight, found)

    def _try(self, boxes: Boxes, slope: Floats, amount: Floats, margin: float, found: Decision) -> Booleans:
        """Whether rows meet the goal; the nearest one that does is kept."""
        sums = self.moves.first + np.einsum("bk,bkh->bh", amount, slope)
        gap = self.target.gap(self.network.from_first(sums))
        hopeful = np.flatnonzero((gap >= -margin) & (amount != 0).all(axis=1))
        reached = np.zeros(len(boxes), dtype=bool)
        if len(hopeful) == 0:
            return reached
        values = self.moves.values(boxes.active[hopeful], amount[hopeful])
        start = np.broadcast_to(self.moves.start, values.shape)
        sound = (values != start).sum(axis=1) == boxes.active.shape[1]
        sound &= self.moves.limits.kept(values, start)
        sound[sound] = self.met(values[sound])
        reached[hopeful] = sound
        distance = np.where(sound, self.moves.space.distance(values, start), np.inf)
        best = int(distance.argmin())
        if distance[best] < found.distance:
            found.values, found.distance = values[best], float(distance[best])
        return reached

    def _halves(self, boxes: Boxes, weight: Floats, found: Decision) -> list[Boxes]:
        """The boxes cut across the side that matters most; those of one row are gone, since it was tried."""
        moves, active = self.moves, boxes.active
        step = moves.step[active]
        length = boxes.high - boxes.low
        wide = length > np.where(step > 0, 0.5 * step, NARROW / np.maximum(moves.price[active], 1e-300))
        tiny = ~wide.any(axis=1)
        # A box that cannot be cut and is not a single row of the grid: rounding leaves it open.
        found.unsure |= bool((tiny & (length > 0).any(axis=1) & (step == 0).any(axis=1)).any())
        keep = np.flatnonzero(~tiny)
        boxes, wide, weight = boxes.take(keep), wide[keep], weight[keep]
        if len(keep) == 0:
            return []
        side = np.where(wide, weight + 1e-300, -1.0).argmax(axis=1)
        row = np.arange(len(boxes))
        move, low, high = boxes.active[row, side], boxes.low[row, side], boxes.high[row, side]
        across = (low < 0) & (high > 0)
        at = np.where(across, 0.0, 0.5 * (low + high))
        step = moves.step[move]
        left = np.where(step > 0, moves.down(move, np.where(across, at - 2e-6 * step, at)), at)
        left = np.where(step > 0, np.clip(left, low, np.maximum(high - step, low)), left)
        right = np.where(step > 0, left + step, at)
        home = across & (step > 0) & (np.abs(right) <= 1e-6 * step)  # where the query itself is: nothing changes
        right = np.where(home, right + step, right)
        lower, upper = boxes.take(row), boxes.take(row)
        lower.high[row, side], upper.low[row, side] = left, np.minimum(right, high)
        return [lower.take(left >= low), upper.take(right <= high * (1 + 1e-12) + 1e-6 * step)]
