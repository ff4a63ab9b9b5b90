"""Repair: rows that break a rule get one change more, of another column of the rule, to where the rule just holds."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.rules.expression import Comparison, Rows
from relax_plugin.rules.rule import BoundFunction, BoundRule

ROUNDS = 3  # of repair: each changes one column more
MOST_CANDIDATES = 16  # that are kept of each row, the fewest changes first
VALUES = 9  # of a column that are looked at where the rule is not linear in it, or is a function
LINE = np.array([0.0, 1.0])  # where a rule is looked at that is linear in a column; 0 and 1 are the ends of its range
CURVE = np.concatenate([[-VALUES], np.linspace(0.0, 1.0, VALUES), [VALUES]])  # and where it is not
SECANT_STEPS = 20  # towards a root of a curve
A_LITTLE = 1e-6  # standard deviations beyond a root that does not belong to what is allowed


@dataclass(frozen=True)
class RowRules:
    """Whether rows satisfy every rule of a space, given their queries. A row that changes nothing breaks nothing."""

    space: FeatureSpace
    rules: Sequence[BoundRule | BoundFunction]
    start: Values
    by_distance: bool = False  # whether the closest of repaired rows are kept, and not those with the fewest changes

    @property
    def told(self) -> str:
        return "keeps the rules"

    def holds(self, values: Values, owner: Integers) -> Booleans:
        """Whether each candidate satisfies every rule."""
        return np.asarray(self.first_broken(values, owner) < 0)

    def take(self, index: Integers) -> "RowRules":
        return replace(self, start=self.start[index])

    def first_broken(self, values: Values, owner: Integers) -> Integers:
        """The first rule that each row breaks; -1: none."""
        broken = np.full(len(values), -1)
        left = np.flatnonzero((values != self.start[owner]).any(axis=1))
        for number, rule in enumerate(self.rules):
            if len(left) == 0:
                break
            kept = self._satisfies(rule, values[left], self.start[owner[left]])
            broken[left[~kept]] = number
            left = left[kept]
        return broken

    def told_of_queries(self) -> Array:
        """What is to be said of each query if it has no answer: which rule it breaks itself, if it does."""
        told = np.full(len(self.start), "", dtype=object)
        for rule in reversed(self.rules):
            told[~self._satisfies(rule, self.start, self.start)] = f"; its own row breaks the rule {rule.text!r}"
        return told

    def repaired(
        self, values: Values, owner: Integers, limits: Limits, base: Values | None = None
    ) -> tuple[Values, Integers]:
        """Rows that satisfy every rule, made of those that break one; and of which candidate each is made.

        The other columns of a broken rule go along: to where it just holds, or by the same amount. What is repaired by
        taking the whole change back, to the `base` of a candidate or to its query, is none.
        """
        base = self.start[owner] if base is None else base
        repair = _Repair(self.space, limits.take(owner), self.start[owner], self.by_distance)
        rows, parent = values, np.arange(len(values))
        done, parents = [rows[:0]], [parent[:0]]
        for _ in range(ROUNDS):
            broken = self.first_broken(rows, owner[parent])
            made, origin = [rows[:0]], [parent[:0]]
            for number, rule in enumerate(self.rules):
                at = np.flatnonzero(broken == number)
                if len(at):
                    candidates, of = repair.candidates(rule, rows[at], parent[at])
                    made.append(candidates)
                    origin.append(of)
            rows, parent = np.concatenate(made), np.concatenate(origin)
            fresh = (rows != base[parent]).any(axis=1) & (rows != self.start[owner[parent]]).any(axis=1)
            rows, parent = rows[fresh], parent[fresh]
            sound = self.holds(rows, owner[parent])
            done.append(rows[sound])
            parents.append(parent[sound])
            rows, parent = repair.few(rows[~sound], parent[~sound])
            if len(rows) == 0:
                break
        return repair.few(np.concatenate(done), np.concatenate(parents))

    def _satisfies(self, rule: BoundRule | BoundFunction, values: Values, start: Values) -> Booleans:
        if isinstance(rule, BoundRule):
            return rule.holds(self.space.cells(values), self.space.cells(start))
        after, before = (self.space.columns_of(rows, rule.names) for rows in (values, start))
        return rule.holds(after, before)


@dataclass(frozen=True)
class _Repair:
    """The rows to be repaired have parents, the candidates that were to be repaired; limits and queries are theirs."""

    space: FeatureSpace
    limits: Limits
    start: Values
    by_distance: bool

    def candidates(self, rule: BoundRule | BoundFunction, rows: Values, parent: Integers) -> tuple[Values, Integers]:
        """Rows with one column of a rule that they break at another value, within their limits."""
        made, origin = [rows[:0]], [parent[:0]]
        for j in self._movable(rule):
            if isinstance(rule, BoundFunction):
                values = self._tried(rows, parent, j)
            elif self.space.is_categorical[j]:
                values = self._categories(rule, rows, parent, j)
            else:
                values = self._numbers(rule, rows, parent, j)
            row, column = np.nonzero(~np.isnan(values))
            changed = rows[row]
            changed[:, j] = values[row, column]
            changed = self.limits.take(parent[row]).project(changed, self.start[parent[row]])
            other = changed[:, j] != rows[row, j]
            made.append(changed[other])
            origin.append(parent[row[other]])
        return np.concatenate(made), np.concatenate(origin)

    def few(self, rows: Values, parent: Integers) -> tuple[Values, Integers]:
        """Of the rows of each parent those with the fewest changes, then the closest, each once; or the closest."""
        if len(rows) == 0:
            return rows, parent
        _, first = np.unique(np.column_stack([parent, rows]), axis=0, return_index=True)
        rows, parent = rows[first], parent[first]
        start = self.start[parent]
        changes = (rows != start).sum(axis=1) * (not self.by_distance)
        order = np.lexsort((self.space.distance(rows, start), changes, parent))
        rank = np.arange(len(order)) - np.searchsorted(parent[order], parent[order])
        kept = order[rank < MOST_CANDIDATES]
        return rows[kept], parent[kept]

    def _movable(self, rule: BoundRule | BoundFunction) -> list[int]:
        """The features of a rule that some row may change."""
        inputs, places = self.space.inputs_of_derived, self.space.places_of_columns
        features = [j for name in rule.names for j in (inputs[name] if name in inputs else [places[name][0]])]
        free = np.asarray(~self.limits.frozen.all(axis=0))
        return [j for j in dict.fromkeys(features) if free[j]]

    def _categories(self, rule: BoundRule, rows: Values, parent: Integers, j: int) -> Floats:
        """The categories of a feature, or of a one-hot group, with which a broken comparison holds (rows, categories).

        That a cell is missing repairs nothing.
        """
        feature = self.space.features[j]
        codes = np.arange(len(feature.categories) - feature.vanishable, dtype=np.float64)
        tried, start = np.repeat(rows, len(codes), axis=0), np.repeat(self.start[parent], len(codes), axis=0)
        tried[:, j] = np.tile(codes, len(rows))
        before = Rows(self.space.cells(np.repeat(rows, len(codes), axis=0)), self.space.cells(start))
        after = Rows(self.space.cells(tried), before.before)
        better = np.zeros(len(tried), dtype=bool)
        for comparison in rule.condition.comparisons():
            better |= comparison.holds(after) & ~comparison.holds(before)
        return np.where(better, tried[:, j], np.nan).reshape(len(rows), len(codes))

    def _numbers(self, rule: BoundRule, rows: Values, parent: Integers, j: int) -> Floats:
        """Where a number has to go for the broken comparisons to hold: just, or as far as it may (rows, values)."""
        cells = Rows(self.space.cells(rows), self.space.cells(self.start[parent]))
        low, high = (end[:, j] for end in self.limits.take(parent).span(self.start[parent]))
        found = [np.empty((0, len(rows)))]
        with np.errstate(all="ignore"):
            for comparison in rule.condition.comparisons():
                if isinstance(comparison, Comparison) and comparison.mentions(self.space.names[j]):
                    line = _Line(comparison, cells, self.space.names[j], low, high)
                    found.append(np.where(comparison.holds(cells), np.nan, self._near(line, j)))
        values: Floats = np.sort(np.concatenate(found), axis=0)
        values[1:][values[1:] == values[:-1]] = np.nan
        return values.T

    def _near(self, line: "_Line", j: int) -> Floats:
        """The values next to each root, and the ends of what is allowed, if the comparison holds there (values, rows).

        Where it holds on no side of a root, as `a == b / 3` does of whole numbers, another column may do the rest.
        """
        roots, grid = line.roots(), self.limits.grid
        feature = np.full(roots.shape, j)
        point = grid.nearest(np.nan_to_num(roots), feature)
        step = grid.step[j] or A_LITTLE * self.space.scale[j] + 4.0 * line.rounding * np.abs(point)
        values = [point, grid.nearest(point + step, feature), grid.nearest(point - step, feature), line.ends]
        held = line.comparison.holds(line.at(np.concatenate(values)))
        at, above, below, ends = np.split(held, np.cumsum([len(roots)] * 3))
        wanted = np.concatenate([at | ~(above | below), above & ~at, below & ~at]) & ~np.isnan(np.tile(roots, (3, 1)))
        return np.where(np.concatenate([wanted, ends]), np.concatenate(values), np.nan)

    def _tried(self, rows: Values, parent: Integers, j: int) -> Floats:
        """Values of a column of a rule that is a function: all over its range, and moved as the others were."""
        start = self.start[parent]
        if self.space.is_categorical[j]:
            return np.tile(np.arange(len(self.space.features[j].categories), dtype=np.float64), (len(rows), 1))
        low, high = (end[:, j] for end in self.limits.take(parent).span(start))
        every = np.linspace(low, high, VALUES, axis=1)
        moved = np.where(self.space.is_categorical, 0.0, rows - start)
        moved[:, j] = 0.0
        amount = moved.sum(axis=1)[:, None] * np.array([1.0, -1.0])
        return np.column_stack([start[:, j], every, start[:, [j]] + amount])


@dataclass(frozen=True)
class _Line:
    """A comparison of numbers as one column of its rows varies between two ends, all else staying as it is."""

    comparison: Comparison
    cells: Rows
    name: Hashable
    low: Floats
    high: Floats

    @property
    def ends(self) -> Floats:
        return np.array([self.low, self.high, self.cells.before[self.name]])

    @property
    def rounding(self) -> float:
        return max(column.rounding for column in self.comparison.columns if column.name == self.name)

    def at(self, values: Floats) -> Rows:
        """The rows with other values in the column, of shape (..., rows)."""
        after = {column.name: self.cells.after[column.name] for column in self.comparison.columns if not column.was}
        return Rows({**after, self.name: values}, self.cells.before)

    def roots(self) -> Floats:
        """Where both sides are equal, or differ as in the query, if other cells have changed since (roots, rows)."""
        others = {column.name for column in self.comparison.columns if not column.was} - {self.name}
        moved = [self.cells.after[name] != self.cells.before[name] for name in others]
        targets = [np.zeros(len(self.low))]
        if np.any(moved):
            query = Rows(self.cells.before, self.cells.before)
            held = np.any(moved, axis=0) & self.comparison.holds(query)
            targets.append(np.where(held, self.comparison.residual((query,))[0][0], np.nan))
        linear = self.comparison.degree(self.name) <= 1.0
        width = np.where(self.high > self.low, self.high - self.low, 1.0)
        points = self.low + width * (LINE if linear else CURVE)[:, None]
        found = self._secant(points, np.array(targets)[:, None])
        return found.reshape(-1, len(self.low))

    def _residual(self, values: Floats, target: Floats) -> tuple[Floats, Floats]:
        """How far the sides are from the target, times what is divided by: a ratio is a line then."""
        rows = self.at(values)
        (residual,), unsure = self.comparison.residual((rows,))
        by = prod(divisor.value((rows,)).ends[0] for divisor in self.comparison.divisors(self.name))
        return by * (residual - target), np.abs(by) * unsure

    def _secant(self, points: Floats, target: Floats) -> Floats:
        """A root between or beyond each pair of neighbours, NaN where none is found; a line has it at once.

        Between points of different signs the root stays between them: the Illinois method, and each third step halves.
        """
        y, _ = self._residual(points, target)
        one, x, y_one, y = points[:-1], points[1:], y[:, :-1], y[:, 1:]
        between = y_one * y <= 0
        root, left = np.full(y.shape, np.nan), np.full(y.shape, np.inf)
        for step in range(SECANT_STEPS):
            known = left < np.inf
            next_ = x - y * (x - one) / (y - y_one)
            if step % 3 == 2:
                next_ = np.where(between, (one + x) / 2, next_)
            y_next, unsure = self._residual(next_, target)
            closer = (np.abs(y_next) <= unsure) & (np.abs(y_next) < left)
            root, left = np.where(closer, next_, root), np.where(closer, np.abs(y_next), left)
            if (known | np.isnan(y_next)).all():  # one step more than needed, for the last digits
                break
            stays = between & (y * y_next > 0)
            one, y_one = np.where(stays, one, x), np.where(stays, y_one / 2, y)
            x, y = next_, y_next
        return root
