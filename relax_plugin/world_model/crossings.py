"""Crossings: near training rows of the goal's class, whose changes are taken back in imagination.

The last resort of a search for plausible answers: such a row is plausible and meets the goal, but has all features
changed. Change after change is taken back, so that what is left stays both as well as it can.
"""

from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem
from relax_plugin.search.neighbours import AnsweredRows
from relax_plugin.wishes.plausibility import PlausibleRows
from relax_plugin.world_model.changes import Changes
from relax_plugin.world_model.model import WorldModel
from relax_plugin.world_model.proposals import KEPT, SURE

NEAR_ROWS = 20  # from which changes are taken back
AT_ONCE = 0.25  # share of the changes too many that is taken back in one step: of wide tables there are hundreds
SHORTFALL = 3.0  # how much plausibility counts, beside the share of the way to the goal
QUERIES_AT_ONCE = 64  # bounds the memory


def near_rows(problem: Problem, answered: AnsweredRows, count: int) -> Floats:
    """The nearest training rows of each query's goal, as the world model expects, moved within the limits.

    Their shape is (queries, rows, features).
    """
    order, start = answered.expected_nearest(problem, count), problem.start
    owner = np.repeat(np.arange(len(start)), order.shape[1])
    rows = problem.limits.take(owner).project(answered.neighbours.rows[order.ravel()], start[owner])
    return np.asarray(rows.reshape(*order.shape, start.shape[1]))


@dataclass(frozen=True)
class Crossings:
    """Plausible rows between queries and near rows of their goals, with fewer and fewer changes.

    Attributes
    ----------
    rows, owner, gap : arrays (crossings, features), (crossings,), (crossings,)
        What was passed that is plausible, whose it is, and its gap as the world model says.
    """

    problem: Problem
    rows: Values
    owner: Integers
    gap: Floats

    @classmethod
    def of(cls, world: WorldModel, problem: Problem, condition: PlausibleRows, answered: AnsweredRows) -> "Crossings":
        """Take back changes of the nearest rows of each query's goal until one is left."""
        passed: list[tuple[Values, Integers, Floats]] = []
        near = near_rows(problem, answered, NEAR_ROWS)
        for first in range(0, len(problem), QUERIES_AT_ONCE):
            some = near[first : first + QUERIES_AT_ONCE]
            owner = np.repeat(np.arange(first, first + len(some)), some.shape[1])
            passed += _taken_back(world, problem, condition, some.reshape(-1, some.shape[2]), owner)
        rows = np.concatenate([problem.start[:0], *(part[0] for part in passed)])
        owner = np.concatenate([np.zeros(0, dtype=np.int64), *(part[1] for part in passed)])
        gap = np.concatenate([np.zeros(0), *(part[2] for part in passed)])
        sound = problem.admits(rows, owner) & (rows != problem.start[owner]).any(axis=1)
        return cls(problem, rows[sound], owner[sound], gap[sound])

    @property
    def count(self) -> Integers:
        return np.asarray((self.rows != self.problem.start[self.owner]).sum(axis=1))

    def proposals(self) -> Changes:
        """Of each query those within its changes that come nearest to its goal."""
        few = np.flatnonzero(self.count <= self.problem.max_changes)
        order = few[np.lexsort((self.gap[few], self.owner[few]))]
        owner = self.owner[order]
        place = np.arange(len(order)) - np.searchsorted(owner, owner)
        order, owner, place = order[place < KEPT], owner[place < KEPT], place[place < KEPT]
        rows = np.repeat(self.problem.start[:, None], KEPT, axis=1)
        gap = np.full(rows.shape[:2], np.inf)
        rows[owner, place], gap[owner, place] = self.rows[order], self.gap[order]
        return Changes.to_rows(self.problem.space, self.problem.start, rows, gap, self.problem.max_changes)

    def notes(self, unsolved: Booleans) -> Array:
        """For unsolved queries how many changes would do, if the model agrees; it is asked about one row of each."""
        problem, count, notes = self.problem, self.count, np.full(len(unsolved), "", dtype=object)
        more = np.flatnonzero((count > problem.max_changes) & (self.gap < 0.0) & unsolved[self.owner])
        order = more[np.lexsort((self.gap[more], count[more], self.owner[more]))]
        owner, first = np.unique(self.owner[order], return_index=True)
        if len(owner):
            met, _ = problem.judge(self.rows[order[first]], owner)
            for query, changes in zip(owner[met], count[order[first[met]]], strict=True):
                notes[query] = f"{problem.none} was found within {problem.max_changes} changes; {changes} would do"
        return notes


def _taken_back(
    world: WorldModel, problem: Problem, condition: PlausibleRows, rows: Values, owner: Integers
) -> list[tuple[Values, Integers, Floats]]:
    """The rows themselves, and the plausible ones of those that are passed, step by step: one a path and step."""
    start = problem.start[owner]
    passed = [(rows, owner, world.gap(problem.goal.take(owner), rows))]
    whole_way = np.maximum(world.targets.in_units(problem.gap), world.error)[owner]
    rows, active = rows.copy(), np.flatnonzero((rows != start).sum(axis=1) > 1)
    while len(active):
        row, feature = np.nonzero(rows[active] != start[active])
        who = active[row]
        imagined = world.predict_changed(rows[active], row, feature, start[who, feature])
        gap = world.targets.gap(problem.goal.take(owner[who]), imagined)
        shorter = rows[who]
        shorter[np.arange(len(who)), feature] = start[who, feature]
        short = condition.shortfall(shorter, owner[who])
        badness = np.maximum(gap, -SURE * world.error) / whole_way[who] + SHORTFALL * short
        order = np.lexsort((badness, row))
        turn = np.empty(len(row), dtype=np.int64)
        turn[order] = np.arange(len(row)) - np.searchsorted(row, row)
        plausible = order[short[order] <= 0.0]
        best = plausible[np.unique(row[plausible], return_index=True)[1]]
        passed.append((shorter[best], owner[who[best]], gap[best]))
        count = np.bincount(row, minlength=len(active))
        back = np.maximum((AT_ONCE * (count - problem.max_changes)).astype(np.int64), 1)
        gone = turn < back[row]
        rows[who[gone], feature[gone]] = start[who[gone], feature[gone]]
        active = active[count - back > 1]
    return passed
