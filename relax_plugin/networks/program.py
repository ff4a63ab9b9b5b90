"""Program: the least distance, or the fewest changes, at which a network meets a goal, as a mixed-integer program.

Every rectifier that is not decided becomes a switch, between bounds of what can go into it (Tjeng, Xiao, Tedrake:
Evaluating Robustness of Neural Networks with Mixed Integer Programming, ICLR 2019). A row that is known makes the
program small: only rows nearer than it count, and within so short a way most rectifiers are decided. HiGHS, through
scipy, solves it. What it says is a bound for rows of any numbers; on coarse grids its amounts are whole steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array

from relax_plugin.arrays import Floats, Integers
from relax_plugin.networks.question import Moves, Target
from relax_plugin.networks.relu import ReluNetwork, layer_bounds

MOST_STEPS = 64  # grids of more steps are taken for numbers without a grid
RELATIVE_GAP = 1e-4  # at which the solver may end
FEASIBILITY = 1e-6  # the solver's own tolerance, by which its bounds of distances are lowered


@dataclass(frozen=True)
class Solved:
    """What the solver says: no row is nearer than `at_least`; `amount` (moves,) is the best it has, if it has one."""

    at_least: float
    amount: Floats | None


class Inequalities:
    """Linear constraints, collected as entries of a sparse matrix."""

    def __init__(self) -> None:
        self.entries: list[tuple[Integers, Integers, Floats]] = []
        self.low: list[Floats] = []
        self.high: list[Floats] = []
        self.count = 0

    def add(self, columns: Any, coefficients: Any, low: Any, high: Any) -> None:
        """Rows of (n, m) coefficients of m columns each: low <= coefficients · x <= high."""
        columns, coefficients = np.broadcast_arrays(np.atleast_2d(columns), np.atleast_2d(coefficients))
        n, m = columns.shape
        where = np.repeat(np.arange(self.count, self.count + n), m)
        self.entries.append((where, columns.ravel(), np.asarray(coefficients, dtype=np.float64).ravel()))
        self.low.append(np.broadcast_to(np.asarray(low, dtype=np.float64), n))
        self.high.append(np.broadcast_to(np.asarray(high, dtype=np.float64), n))
        self.count += n

    def matrix(self, columns: int) -> csr_array:
        where, column, entry = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        kept = entry != 0
        return coo_array((entry[kept], (where[kept], column[kept])), shape=(self.count, columns)).tocsr()

    @property
    def ends(self) -> tuple[Floats, Floats]:
        return np.concatenate(self.low), np.concatenate(self.high)


class Program:
    """The program of one query; rows as far as `radius`, which may be infinite, do not count."""

    def __init__(self, network: ReluNetwork, moves: Moves, radius: float, most_changes: int | None = None) -> None:
        self.network, self.moves, self.radius = network, moves, radius
        self.unit = np.where(moves.price > 0, moves.price, 1.0)  # amounts are counted in what they cost
        self.slope = moves.slope / self.unit[:, None]
        count = len(moves)
        self.up = np.minimum(np.maximum(moves.high, 0.0) * self.unit, radius)
        self.down = np.minimum(np.maximum(-moves.low, 0.0) * self.unit, radius)
        self.most = len(np.unique(moves.feature)) if most_changes is None else most_changes
        self.rows = Inequalities()
        self.lower, self.upper = [np.zeros(2 * count), np.zeros(count)], [np.r_[self.up, self.down], np.ones(count)]
        self.whole = [np.zeros(2 * count), np.ones(count)]  # amounts up and down, and whether a move is made
        self.width = 3 * count
        self._moves()
        self.last = self._hidden()  # columns of the last rectifiers

    def _moves(self) -> None:
        moves, count = self.moves, len(self.moves)
        up, down, made = (np.arange(count) + part * count for part in range(3))
        # No amount without the move; of a value outside of its bounds, and of a category, a least amount with it.
        self.rows.add(np.column_stack([up, made]), np.column_stack([np.ones(count), -self.up]), -np.inf, 0.0)
        self.rows.add(np.column_stack([down, made]), np.column_stack([np.ones(count), -self.down]), -np.inf, 0.0)
        for side, least in ((up, moves.low * self.unit), (down, -moves.high * self.unit)):
            far = np.flatnonzero(least > 0)
            if len(far):
                pairs = np.column_stack([side[far], made[far]])
                self.rows.add(pairs, np.column_stack([np.ones(len(far)), -least[far]]), 0.0, np.inf)
        for j in np.unique(moves.feature):
            own = np.flatnonzero(moves.feature == j)
            if len(own) > 1:
                self.rows.add(made[own], 1.0, -np.inf, 1.0)
        if self.most < len(np.unique(moves.feature)):
            self.rows.add(made, 1.0, -np.inf, float(self.most))
        if np.isfinite(self.radius):
            self.rows.add(np.r_[up, down], np.r_[self._costs, self._costs], -np.inf, self.radius)
        steps, home = moves.step * self.unit, moves.down(np.arange(count), np.zeros(count)) * self.unit
        few = (steps > 0) & (self.up + self.down <= MOST_STEPS * steps)
        for move in np.flatnonzero(few):  # amounts in whole steps, from the point of the grid that is next to the query
            away = 0.0 if abs(home[move]) <= 1e-6 * steps[move] else home[move]
            last = np.floor((self.up[move] - away) / steps[move] + 1e-6)
            first = np.floor((self.down[move] + away) / steps[move] + 1e-6)
            own = self._columns(np.array([min(-first, 0.0)]), np.array([max(last, 0.0)]), whole=True)[0]
            columns = [[up[move], down[move], own, made[move]]]
            self.rows.add(columns, [[1.0, -1.0, -steps[move], -away]], 0.0, 0.0)
            self.rows.add([[own, made[move]]], [[1.0, -last]], -np.inf, 0.0)
            self.rows.add([[own, made[move]]], [[1.0, first]], 0.0, np.inf)

    @property
    def _costs(self) -> Floats:
        return np.where(self.moves.price > 0, 1.0, 0.0)

    def _columns(self, low: Floats, high: Floats, whole: bool = False) -> Integers:
        first, self.width = self.width, self.width + len(low)
        self.lower.append(low)
        self.upper.append(high)
        self.whole.append(np.full(len(low), float(whole)))
        return np.arange(first, self.width)

    def support(self, planes: Floats) -> Floats:
        """The largest of planes (n, moves) · amounts, over all amounts within reach (n,).

        With few changes the best of single moves count; within the radius a little of each, the most worthwhile first.
        """
        gain = np.maximum(np.maximum(planes * self.up, -planes * self.down), 0.0)
        features = np.unique(self.moves.feature)
        best = np.stack([gain[:, self.moves.feature == j].max(axis=1) for j in features], axis=1)
        most = np.sort(best, axis=1)[:, ::-1][:, : self.most].sum(axis=1)
        if not np.isfinite(self.radius) or (self._costs == 0).any():
            return np.asarray(most)
        rate = np.maximum(np.where(self.up > 0, planes, 0.0), np.where(self.down > 0, -planes, 0.0))
        return np.asarray(np.minimum(most, self.radius * np.maximum(rate.max(axis=1), 0.0)))

    def _hidden(self) -> Integers:
        count = len(self.moves)
        inputs = np.r_[np.arange(count), np.arange(count) + count]
        weights, first = np.r_[self.slope, -self.slope], self.moves.first
        layers = layer_bounds(
            self.network, self.slope[None], first[None], lambda planes: self.support(planes[0].T)[None]
        )
        for number, layer in enumerate(layers):
            bias = self.network.biases[number] if number else first
            weights = self.network.weights[number] if number else weights
            inputs = self._rectifiers(inputs, weights, bias, layer.low[0], layer.high[0])
        return np.asarray(inputs)

    def _rectifiers(self, inputs: Integers, weights: Floats, bias: Floats, low: Floats, high: Floats) -> Integers:
        """y = max(0, inputs · weights + bias), where that lies between `low` and `high`."""
        made = self._columns(np.zeros(len(bias)), np.maximum(high, 0.0))
        on, open_ = np.flatnonzero(low >= 0), np.flatnonzero((low < 0) & (high > 0))
        for chosen, least in ((on, bias[on]), (open_, bias[open_])):
            if len(chosen):  # y - inputs · weights >= bias; of those that are always on, both ways
                columns = np.column_stack([made[chosen], np.tile(inputs, (len(chosen), 1))])
                entries = np.column_stack([np.ones(len(chosen)), -weights[:, chosen].T])
                self.rows.add(columns, entries, least, least if chosen is on else np.inf)
        if len(open_):
            switch = self._columns(np.zeros(len(open_)), np.ones(len(open_)), whole=True)
            self.rows.add(
                np.column_stack([made[open_], switch]),
                np.column_stack([np.ones(len(open_)), -high[open_]]),
                -np.inf,
                0.0,
            )
            columns = np.column_stack([made[open_], switch, np.tile(inputs, (len(open_), 1))])
            entries = np.column_stack([np.ones(len(open_)), -low[open_], -weights[:, open_].T])
            self.rows.add(columns, entries, -np.inf, bias[open_] - low[open_])
        return made

    @property
    def switches(self) -> int:
        """Rectifiers that are not decided."""
        return int(sum(part.sum() for part in self.whole[2:]))

    def solve(self, target: Target, margin: float, seconds: float, fewest: bool = False) -> Solved:
        """The nearest row, or with the fewest moves, that meets the goal up to the margin, over all groups of sums."""
        count = len(self.moves)
        cost = np.zeros(self.width)
        cost[: 2 * count] = 0.0 if fewest else np.r_[self._costs, self._costs]
        cost[2 * count : 3 * count] = 1.0 if fewest else 0.0
        best = Solved(np.inf, None)
        for matrix, offset in zip(target.matrix, target.offset, strict=True):
            rest = matrix @ self.network.biases[-1] + offset if self.network.hidden else offset
            told = self._solve(cost, matrix, -margin - rest, seconds / len(target.offset))
            if told.at_least < best.at_least:
                best = told
        return best

    def _solve(self, cost: Floats, matrix: Floats, least: Floats, seconds: float) -> Solved:
        count = len(self.moves)
        entries = self.rows.matrix(self.width)
        goal = np.zeros((len(matrix), self.width))
        if self.network.hidden:
            goal[:, self.last] = matrix @ self.network.weights[-1].T
        else:
            goal[:, : 2 * count] = matrix @ np.r_[self.slope, -self.slope].T
            least = least - matrix @ self.moves.first
        low, high = self.rows.ends
        ends = Bounds(np.concatenate(self.lower), np.concatenate(self.upper))
        constraints = [LinearConstraint(entries, low, high), LinearConstraint(goal, least, np.inf)]
        told = milp(
            cost,
            integrality=np.concatenate(self.whole),
            bounds=ends,
            constraints=constraints,
            options={"time_limit": max(seconds, 0.1), "mip_rel_gap": RELATIVE_GAP},
        )
        if told.status == 2:  # infeasible: nothing within the radius
            return Solved(np.inf, None)
        bound = 0.0 if told.mip_dual_bound is None else max(float(told.mip_dual_bound), 0.0)
        amount = None if told.x is None else (told.x[:count] - told.x[count : 2 * count]) / self.unit
        return Solved(bound * (1 - FEASIBILITY), amount)
