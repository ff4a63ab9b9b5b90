"""Profiles: the oracle of a search in a tree ensemble, which knows the scores of all single changes of a row."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem
from relax_plugin.trees.aims import aim_at
from relax_plugin.trees.costs import Cells, Costs
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.look import CompiledLook, Look, Target
from relax_plugin.trees.masks import Masks
from relax_plugin.trees.search import BEAM, NONE, TreeSearch

DISTANCES = 8_000_000  # between queries and cells that are held at once: bounds the memory
LEAST_PART = 128  # queries that are worth a thread of their own
SCHEDULED = hasattr(os, "sched_getaffinity")

WIDE_BEAM, NEAR_ROWS = 16, 16  # rows of the beam, and training rows, for queries that are left without an answer

Near = tuple[Array, Integers]  # rows of the masks' table, and the query that each is for
RowsNear = Callable[[Problem, int], tuple[Values, Integers]]


@cache
def load_kernel() -> ModuleType | None:
    """The kernel that numba compiles, kept on disk for the next process; None without numba or a place to keep it."""
    try:
        from relax_plugin.trees import kernel
    except (ImportError, RuntimeError):  # numba raises the latter where it can write to no cache
        return None
    return kernel


@dataclass(frozen=True)
class TreeProfiles:
    """A tree ensemble, read, and how single changes in it are looked at."""

    trees: Trees
    masks: Masks
    space: FeatureSpace
    compiled: bool = True  # whether the kernel is used, where there is one

    @classmethod
    def of(cls, trees: Trees, space: FeatureSpace) -> "TreeProfiles":
        vanishable = np.array([feature.vanishable for feature in space.features], dtype=bool)
        return cls(trees, Masks.of(trees, vanishable), space)

    def __str__(self) -> str:
        table, count = self.masks.table, len(self.masks.table.words) - 1
        size = table.bits.nbytes + table.span.nbytes + table.at.nbytes
        groups = "one table" if count == 1 else f"tables of {count} groups of trees"
        by = "numba" if self.kernel is not None else "numpy"
        return (
            f"{len(self.trees):,} trees, {len(self.trees.leaf_tree):,} leaves, {groups}, {size / 1e6:.1f} MB, by {by}"
        )

    @property
    def kernel(self) -> ModuleType | None:
        return load_kernel() if self.compiled else None

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.masks, self.space)

    def over(self, space: FeatureSpace) -> "TreeProfiles":
        """The same for rows of another space with the same features: prices, bounds and steps may be others."""
        return self if space.features is self.space.features else replace(self, space=space)

    def find(
        self,
        problem: Problem,
        natural: Floats | None = None,
        near: RowsNear | None = None,
        thorough: bool = False,
    ) -> "Found":
        """The best rows found for the queries of a problem.

        What counts beside cells and goals, such as rules, is not looked at. The model is asked only about rows whose
        scores are as near to a tie as rounding reaches.

        Parameters
        ----------
        problem : Problem
        natural : array, optional
            The steps that people count each number in: numbers are moved to them within their cells.
        near : callable, optional
            Given some queries, and a number: so many rows that meet the goal of each, and whose they are. Where no
            answer was found, their changes are put back.
        thorough : bool
            Whether one and two changes are found for sure, and the nearest of them, and more is tried beyond.
        """
        natural = None if problem.by_distance or thorough else natural
        return _Call(self.over(problem.space), problem, natural, thorough).answered(near)


@dataclass
class Found:
    """What was found for some queries."""

    values: Values  # the best row of each; the nearest to the goal, where there is none
    solved: Booleans  # whether the row meets the goal
    unsure: Booleans  # whether rounding may decide that
    enough: Integers  # the fewest changes of rows that meet the goal and change too much

    def put(self, queries: Integers, part: "Found") -> None:
        """Take over what was found for some of the queries."""
        self.values[queries], self.solved[queries] = part.values, part.solved
        self.unsure[queries], self.enough[queries] = part.unsure, part.enough


@dataclass(frozen=True)
class _Call:
    """What is asked of the profiles at once."""

    profiles: TreeProfiles
    problem: Problem
    natural: Floats | None
    thorough: bool

    def answered(self, near: RowsNear | None) -> Found:
        problem, masks = self.problem, self.profiles.masks
        nothing = np.zeros(len(problem), dtype=bool)
        found = Found(problem.start.copy(), nothing, nothing.copy(), np.full(len(problem), NONE))
        known = np.flatnonzero(masks.knows(problem.start))
        self._search(known, found, width=WIDE_BEAM if self.thorough else BEAM)
        left = known[~found.solved[known]]
        if len(left):
            rows, owner = (problem.start[:0], left[:0]) if near is None else near(problem.part(left), NEAR_ROWS)
            some = masks.knows(rows)
            self._search(left, found, (masks.rows(rows[some]), left[owner[some]]), WIDE_BEAM)
        return found

    def _search(self, queries: Integers, found: Found, near: Near | None = None, width: int = BEAM) -> None:
        """Search; where the model disagrees on what rounding may decide, search for what it cannot decide.

        The queries are worked on in parts that fit in memory, in threads if there are many.
        """
        for sure in (False, True):
            found.solved[queries] = False
            threads = _threads(len(queries))
            count = max(-(-len(queries) * self.profiles.masks.cells // DISTANCES), threads)
            parts = [part for part in np.array_split(queries, count) if len(part)]
            with ThreadPoolExecutor(threads) as pool:
                each = map if threads == 1 else pool.map
                made = each(partial(self._part, near=near, width=width, sure=sure), parts)
                for part, one in zip(parts, made, strict=True):
                    found.put(part, one)
            unsure = queries[found.unsure[queries]]
            if sure or len(unsure) == 0:
                return
            met, _ = self.problem.judge(found.values[unsure], unsure)
            queries = unsure[~met]

    def _part(self, queries: Integers, near: Near | None, width: int, sure: bool) -> Found:
        problem, profiles = self.problem, self.profiles
        aim = aim_at(profiles.trees, problem.goal.take(queries))
        tolerance = np.broadcast_to(aim.tolerance, len(queries))
        rounding = tolerance * (np.finfo(np.float64).eps / np.finfo(profiles.trees.leaf_scores.dtype).eps)
        margin = np.zeros(len(queries)) if aim.exact else tolerance if sure else -rounding
        one = aim.weights.shape[2] == 2 and bool((aim.weights[:, :, 0] == -aim.weights[:, :, 1]).all())
        masks = profiles.masks.of_difference if one else profiles.masks
        start, limits = problem.start[queries], problem.limits.take(queries)
        costs = Costs(masks, profiles.cells, problem.space, limits, start)
        kernel, target = profiles.kernel, Target.of(aim, margin, one)
        look = Look(masks, target, costs) if kernel is None else CompiledLook(kernel, masks, target, costs)
        search = TreeSearch(look, problem.max_changes, problem.by_distance, self.thorough, width)
        answers = search.search(None if near is None else _of(near, queries))
        solved = answers.changes < NONE
        best = np.where(solved[:, None], answers.rows, answers.missed)
        values = costs.values(best, np.arange(len(queries)), self.natural)
        unsure = solved & (answers.gap + margin <= tolerance) & (not aim.exact and not sure)
        return Found(values, solved, unsure, answers.enough)


def _threads(queries: int) -> int:
    """How many threads are worth their trouble, of those that this process may have."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    most = int(allowed) if allowed.isdigit() else len(os.sched_getaffinity(0)) if SCHEDULED else os.cpu_count() or 1
    return max(1, min(most, queries // LEAST_PART))


def _of(near: Near, queries: Integers) -> Near:
    """The near rows of some of the queries, which are ascending."""
    rows, owner = near
    some = np.isin(owner, queries)
    return rows[some], np.searchsorted(queries, owner[some])
