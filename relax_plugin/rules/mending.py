"""Mending: rows that break a rule get one change more, of another column of the rule."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.rules.binding import BoundRule
from relax_plugin.rules.boundaries import boundary_values
from relax_plugin.rules.rule import BoundFunction

MOST_CANDIDATES = 16  # that are kept of each row, the fewest changes first
VALUES = 9  # of a column that are tried where a rule is a function: no boundary can be computed
A_LITTLE = 1e-6  # standard deviations beyond a boundary that does not belong to what is allowed


@dataclass(frozen=True)
class Mending:
    """The rows to be mended have parents, the candidates that were to be mended; limits and queries are theirs."""

    space: FeatureSpace
    limits: Limits
    start: Values
    by_distance: bool = False  # whether the closest rows are kept, and not those with the fewest changes
    rounds: int = 3

    def candidates(self, rule: BoundRule | BoundFunction, rows: Values, parent: Integers) -> tuple[Values, Integers]:
        """Rows with one column of a rule that they break at another value, within their limits."""
        made, origin = [rows[:0]], [parent[:0]]
        for name in self._movable(rule):
            j = self.space.places_of_columns[name][0]
            if isinstance(rule, BoundRule):
                values = self._boundaries(rule, rows, parent, name, j)
            else:
                values = self._tried(rows, parent, j)
            row, column = np.nonzero(~np.isnan(values))
            changed = rows[row]
            changed[:, j] = values[row, column]
            limits = self.limits.take(parent[row])
            changed = limits.project(changed, self.start[parent[row]])
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

    def _movable(self, rule: BoundRule | BoundFunction) -> list[Hashable]:
        """One name for each feature of the rule that some row may change."""
        names: dict[int, Hashable] = {}
        inputs = self.space.inputs_of_derived
        for name in rule.names:
            for j in inputs[name] if name in inputs else [self.space.places_of_columns[name][0]]:
                names.setdefault(j, self.space.names[j] if name in inputs else name)
        free = np.asarray(~self.limits.frozen.all(axis=0))
        return [name for j, name in names.items() if free[j]]

    def _boundaries(self, rule: BoundRule, rows: Values, parent: Integers, name: Hashable, j: int) -> Floats:
        """Where the column has to go for the broken comparisons to hold: just, on the grid, or as far as it may."""
        at = boundary_values(rule, self.space.cells(rows), self.space.cells(self.start[parent]), name)
        if self.space.is_categorical[j]:
            place = self.space.places_of_columns[name][1]
            if place is None:
                return at.values
            # Of a one-hot group this column is to be set, or else any other.
            others = np.delete(np.arange(len(self.space.features[j].categories), dtype=np.float64), place)
            unset = np.where((at.values == 0.0).any(axis=1)[:, None], others, np.nan)
            return np.column_stack([np.where(at.values == 1.0, float(place), np.nan), unset])
        just = self._on_the_right_side(at.values, at.direction, at.strict, j)
        low, high = (end[:, [j]] for end in self.limits.take(parent).span(self.start[parent]))
        end = np.where(at.direction > 0, high, np.where(at.direction < 0, low, np.nan))
        return np.column_stack([just, np.where(np.isnan(just), np.nan, end)])

    def _on_the_right_side(self, values: Floats, direction: Integers, strict: Booleans, j: int) -> Floats:
        grid = self.limits.grid
        feature = np.full(values.shape, j)
        beyond = np.where(strict, values + direction * A_LITTLE * self.space.scale[j], values)
        near = grid.nearest(np.nan_to_num(beyond), feature)
        short = direction * (near - beyond) < 0
        near = np.where(short, grid.nearest(near + direction * grid.step[j], feature), near)
        return np.where(np.isnan(values), np.nan, near)

    def _tried(self, rows: Values, parent: Integers, j: int) -> Floats:
        """Values of a column of a rule that is a function: all over its range, and moved as the others were."""
        start = self.start[parent]
        if self.space.is_categorical[j]:
            return np.tile(np.arange(len(self.space.features[j].categories), dtype=np.float64), (len(rows), 1))
        low, high = (end[:, j] for end in self.limits.take(parent).span(start))
        every = low[:, None] + np.linspace(0.0, 1.0, VALUES) * (high - low)[:, None]
        moved = np.where(self.space.is_categorical, 0.0, rows - start)
        moved[:, j] = 0.0
        amount = moved.sum(axis=1)[:, None] * np.array([1.0, -1.0])
        tried: Array = np.column_stack([start[:, j], every, start[:, [j]] + amount])
        return np.asarray(tried)
