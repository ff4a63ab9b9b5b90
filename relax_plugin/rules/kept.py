"""Kept rules: the rules of a call as a condition on whole rows, and rows mended that break them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from relax_plugin.arrays import Array, Booleans, Integers, Values
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.rules.binding import BoundRule
from relax_plugin.rules.mending import Mending
from relax_plugin.rules.rule import BoundFunction


@dataclass(frozen=True)
class KeptRules:
    """Whether rows keep every rule of a space, given their queries. A row that changes nothing breaks nothing."""

    space: FeatureSpace
    rules: Sequence[BoundRule | BoundFunction]
    start: Values
    by_distance: bool = False  # whether the closest of mended rows are kept, and not those with the fewest changes

    @property
    def told(self) -> str:
        return "keeps the rules"

    def holds(self, values: Values, owner: Integers) -> Booleans:
        """Whether each candidate keeps every rule."""
        return np.asarray(self.first_broken(values, owner) < 0)

    def take(self, index: Integers) -> "KeptRules":
        return replace(self, start=self.start[index])

    def first_broken(self, values: Values, owner: Integers) -> Integers:
        """The first rule that each row breaks; -1: none."""
        broken = np.full(len(values), -1)
        left = np.flatnonzero((values != self.start[owner]).any(axis=1))
        for number, rule in enumerate(self.rules):
            if len(left) == 0:
                break
            kept = self._keeps(rule, values[left], self.start[owner[left]])
            broken[left[~kept]] = number
            left = left[kept]
        return broken

    def told_of_queries(self) -> Array:
        """What is to be said of each query if it has no answer: which rule it breaks itself, if it does."""
        told = np.full(len(self.start), "", dtype=object)
        for rule in reversed(self.rules):
            told[~self._keeps(rule, self.start, self.start)] = f"; its own row breaks the rule {rule.text!r}"
        return told

    def mended(
        self, values: Values, owner: Integers, limits: Limits, base: Values | None = None
    ) -> tuple[Values, Integers]:
        """Rows that keep every rule, made of those that break one; and of which candidate each is made.

        The other columns of a broken rule go along: to where it just holds, or by the same amount. What is mended by
        taking the whole change back, to the `base` of a candidate or to its query, is none.
        """
        base = self.start[owner] if base is None else base
        mending = Mending(self.space, limits.take(owner), self.start[owner], self.by_distance)
        rows, parent = values, np.arange(len(values))
        done, parents = [rows[:0]], [parent[:0]]
        for _ in range(mending.rounds):
            broken = self.first_broken(rows, owner[parent])
            made, origin = [rows[:0]], [parent[:0]]
            for number, rule in enumerate(self.rules):
                at = np.flatnonzero(broken == number)
                if len(at):
                    candidates, of = mending.candidates(rule, rows[at], parent[at])
                    made.append(candidates)
                    origin.append(of)
            rows, parent = np.concatenate(made), np.concatenate(origin)
            fresh = (rows != base[parent]).any(axis=1) & (rows != self.start[owner[parent]]).any(axis=1)
            rows, parent = mending.few(rows[fresh], parent[fresh])
            sound = self.holds(rows, owner[parent])
            done.append(rows[sound])
            parents.append(parent[sound])
            rows, parent = rows[~sound], parent[~sound]
            if len(rows) == 0:
                break
        return mending.few(np.concatenate(done), np.concatenate(parents))

    def _keeps(self, rule: BoundRule | BoundFunction, values: Values, start: Values) -> Booleans:
        if isinstance(rule, BoundRule):
            return rule.holds(self.space.cells(values), self.space.cells(start))
        after, before = (self.space.columns_of(rows, rule.names) for rows in (values, start))
        return rule.holds(after, before)
