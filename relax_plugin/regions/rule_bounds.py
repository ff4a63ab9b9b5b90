"""Rule bounds: which rules an answer's changes are about, and whether all rows of a box keep them."""

from collections.abc import Hashable, Sequence

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.features import FeatureSpace
from relax_plugin.rules.expression import Rows
from relax_plugin.rules.rule import BoundFunction, BoundRule


class RuleBounds:
    """The rules of a space, as far as boxes are bounded by them."""

    def __init__(self, space: FeatureSpace, rules: Sequence[BoundRule | BoundFunction]) -> None:
        self.space, self.rules = space, rules

    def about(self, changed: Booleans) -> Booleans:
        """Which rules are about a changed cell of each answer (answers, rules); the others hold as delivered."""
        places = self.space.places_of_columns
        about = np.zeros((len(changed), len(self.rules)), dtype=bool)
        for number, rule in enumerate(self.rules):
            for name in rule.names:
                derived = self.space.inputs_of_derived
                inputs = derived[name] if name in derived else [places[name][0]]
                about[:, number] |= changed[:, inputs].any(axis=1)
        return about

    def bounded(self) -> Booleans:
        """Which rules can be bounded: texts about features, not functions, nor about derived or one-hot columns."""
        known = set(self.space.names) - {feature.name for feature in self.space.features if feature.columns}
        named: list[Hashable]
        able = []
        for rule in self.rules:
            named = [column.name for column in rule.columns] if isinstance(rule, BoundRule) else []
            able.append(isinstance(rule, BoundRule) and set(named) <= known)
        return np.array(able, dtype=bool)

    def prove(self, low: Floats, high: Floats, start: Floats, about: Booleans) -> Booleans:
        """Whether all rows of each box keep the rules that are `about` it (boxes, rules).

        The answer is in its box: a rule whose columns all stay as they were delivered is kept.
        """
        proved = np.ones(len(low), dtype=bool)
        for number in np.flatnonzero(about.any(axis=0)):
            some = np.flatnonzero(about[:, number] & proved)
            rule = self.rules[int(number)]
            assert isinstance(rule, BoundRule)
            least, most = (Rows(self.space.cells(end[some]), self.space.cells(start[some])) for end in (low, high))
            with np.errstate(all="ignore"):
                kept = rule.condition.certain(least, most)
            delivered = np.ones(len(some), dtype=bool)
            for column in rule.columns:
                ends = column.cells(least), column.cells(most)
                kept = kept | (np.isnan(ends[0]) & np.isnan(ends[1]))  # one that mentions a missing cell counts as kept
                delivered &= column.was | (ends[0] == ends[1])
            proved[some] = kept | delivered
        return proved


def narrowed(
    rules: RuleBounds, values: Floats, start: Floats, feature: Integers, end: Floats, about: Booleans
) -> Floats:
    """How far one cell of each row may go towards an end with a proof that the rules are kept all the way.

    The last point that bisection finds; it need be none that a cell can hold.
    """

    def proved(to: Floats) -> Booleans:
        low, high = values.copy(), values.copy()
        low[row, feature], high[row, feature] = (
            np.minimum(values[row, feature], to),
            np.maximum(values[row, feature], to),
        )
        return rules.prove(low, high, start, about)

    row = np.arange(len(values))
    good, bad = values[row, feature], end.copy()
    whole = proved(end)
    for _ in range(60):
        middle = 0.5 * (good + bad)
        held = proved(middle)
        good, bad = np.where(held, middle, good), np.where(held, bad, middle)
    return np.where(whole, end, good)
