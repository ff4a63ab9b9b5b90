"""`mace`: the nearest counterfactual of a tree ensemble, found and proved by a solver (Karimi et al., AISTATS 2020).

Written from the paper. The ensemble becomes a formula: ordered literals for the thresholds of each number, one literal
a category and a leaf, and a weighted vote of the leaves. A solver says whether a row within a distance δ meets the
goal; δ is halved until the nearest is known.

Differences from the paper: the solver decides about cells of the thresholds' grid, each standing for its allowed value
nearest to the query. The search starts from refined training rows and from a lower bound by the nearest good leaf of
every tree; farther leaves are ruled out. Distance is L1 in standard deviations, in millionths; the paper uses ranges.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import Supports, most_changes
from relax_plugin.baselines.common import TreeExplainer, nearest_of_each, undone
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import import_extra
from relax_plugin.parameters import param, real, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.polish import refine
from relax_plugin.trees.aims import Aim, aim_at
from relax_plugin.trees.cells import Cells
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import vanishing

UNITS = 1_000_000  # of distance, in one standard deviation
MOST_UNITS = 2**31 - 1  # the solver's largest number; from a query that is further away, units are larger
LEAST_SECONDS, MOST_SECONDS = 1e-9, 1e6  # the solver counts milliseconds in 32 bits
VOTES = 2**17  # the largest score of a leaf, as a whole number, where scores are no votes
NEAREST = 5  # training rows from which a query's first row is refined
CLOSE_IN = 0.02  # when the bounds of δ are so near (relatively), the next question is for anything better at all


@with_parameters
class Mace(TreeExplainer):
    """The counterfactual of least L1 distance under all constraints, with a proof that there is no nearer one.

    A query that takes longer than its limit gets the best row known by then, whose stage is "not proved optimal"; of
    such a query the answer may depend on the machine. The model is not asked: answers are read off its trees. Of
    several counterfactuals (n > 1) each is the nearest one without the largest change of the one before.
    """

    supports = Supports(
        extra="exact",
        paper="Karimi, Barthe, Balle, Valera: Model-Agnostic Counterfactual Explanations for Consequential Decisions, "
        "AISTATS 2020, https://arxiv.org/abs/1905.11190",
        tier="reproduced in part",
        evidence="what it calls optimal is the nearest of all rows, by enumeration: tests/baselines/test_mace.py; "
        "the paper's models, distances and times were not compared",
    )

    max_changes: int | None = most_changes(None, "With it, it is the nearest row with at most so many changes.")
    seconds_per_row: float = param(10.0, "Limit of the solver for each query.", real(LEAST_SECONDS, MOST_SECONDS))

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        _solver_library()
        super()._fit(values, rng)
        self.training_ = np.unique(values[~self.trees_.unknown(values)], axis=0)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve)

    def _solve(self, problem: Problem) -> Proposals:
        made = Proposals.empty(problem, 1)
        for index, part, trees in self._by_gap(problem, made):
            made.put(index, self._solve_alike(part, trees))
        return made

    def _solve_alike(self, problem: Problem, trees: Trees) -> Proposals:
        made, copy = Proposals.empty(problem, 1), replace(problem, blackbox=TreesInPlace(self))
        first, known = self._first_rows(copy)
        cells = Cells.of(trees, problem.space, problem.limits, problem.start)
        formula = Formula(trees, cells, aim_at(trees, problem.goal), problem.max_changes)
        # The formula has no word for a number that becomes missing, and for conditions only one row a cell.
        whole = not vanishing(problem.space, problem.limits) and not problem.conditions
        for row in range(len(problem)):  # a question of its own to the solver

            def met(values: Values, row: int = row) -> bool:
                return bool(copy.judge(values[None], np.array([row]))[0][0])

            start = cells.of_row(first[row]) if known[row] else None
            intervals, proved = formula.nearest(row, start, met, float(self.seconds_per_row))
            if intervals is not None:
                made.values[row, 0], made.offered[row, 0] = cells.at(row, intervals), True
                made.stage[row, 0] = "optimal" if proved and whole else "not proved optimal"
            elif proved and not whole:
                made.note[row] = "none was found, which is no proof where rules hold or numbers may become missing"
            elif proved:
                made.note[row] = "none was found, and it is proved that none exists within the constraints"
            else:
                made.note[row] = f"none was found within {self.seconds_per_row:g} s"
        return made

    def _first_rows(self, problem: Problem) -> tuple[Floats, Booleans]:
        answer = self.answer(self.training_)
        everyone = np.arange(len(problem))
        order = np.empty((len(problem), min(NEAREST, len(answer))), dtype=np.int64)
        for row in everyone:
            apart = problem.space.distance(self.training_, problem.start[row])
            apart[~problem.goal.take(np.full(len(answer), row)).met(answer)] = np.inf
            order[row] = np.argsort(apart, kind="stable")[: order.shape[1]]
        owner = np.repeat(everyone, order.shape[1])
        rows = problem.limits.take(owner).project(self.training_[order.ravel()], problem.start[owner])
        good, _ = problem.judge(rows, owner)
        rows, owner = undone(problem, rows[good], owner[good], problem.max_changes)
        rows = refine(problem, rows, owner)
        best, known = problem.start.copy(), np.zeros(len(problem), dtype=bool)
        rows, owner = nearest_of_each(problem, rows, owner)
        best[owner], known[owner] = rows, True
        return best, known


class TreesInPlace(BlackBox):
    """The trees in the model's place: the same answers, and nothing is charged."""

    rows_per_question = 0

    def __init__(self, explainer: Mace) -> None:
        self.explainer = explainer

    def ask(self, values: Values, mark_refused: bool = False) -> Answer:
        return self.explainer.answer(values)


class Formula:
    """The trees as a formula over the cells around some queries, and the search for the nearest one that holds.

    Each has a context of its own, the solver's word for all that must not be shared by threads.
    """

    def __init__(self, trees: Trees, cells: Cells, aim: Aim, max_changes: int) -> None:
        self.z3 = z3 = _solver_library()
        self.context = z3.Context()
        self.trees, self.cells, self.aim, self.max_changes = trees, cells, aim, max_changes
        steps = [1 if j in cells.sets else count for j, count in enumerate(cells.counts)]
        self.above = [
            [z3.Bool(f"feature {j} from {i}", self.context) for i in range(1, count)] for j, count in enumerate(steps)
        ]
        self.chosen = {
            j: [z3.Bool(f"feature {j} is {i}", self.context) for i in range(cells.counts[j])] for j in cells.sets
        }
        self.leaf = [z3.Bool(f"leaf {i}", self.context) for i in range(len(trees.leaf_tree))]
        self.no_leaf = [z3.Not(leaf) for leaf in self.leaf]
        self.solver = z3.Solver(ctx=self.context)
        for literals in self.above:
            self.solver.add([z3.Implies(after, before) for before, after in pairwise(literals)])
        for literals in self.chosen.values():
            self.solver.add(z3.Or(literals), z3.AtMost(*literals, 1))
        self.reachable = (cells.low <= cells.high).all(axis=1)
        for tree in range(len(trees)):
            leaves = np.flatnonzero((trees.leaf_tree == tree) & self.reachable)
            self.solver.add(z3.Or([self.leaf[i] for i in leaves]), z3.AtMost(*(self.leaf[i] for i in leaves), 1))
        for i in np.flatnonzero(self.reachable):
            for j in np.flatnonzero(cells.low[i] > 0):
                self.solver.add(z3.Implies(self.leaf[i], self.above[j][cells.low[i, j] - 1]))
            for j in np.flatnonzero(cells.high[i] < cells.counts - 1):
                self.solver.add(z3.Implies(self.leaf[i], z3.Not(self.above[j][cells.high[i, j]])))
            for feature, sets in cells.sets.items():
                inside = sets.inside[sets.which[i]]
                if not inside.all():
                    met = z3.Or([self.chosen[feature][cell] for cell in np.flatnonzero(inside)])
                    self.solver.add(z3.Implies(self.leaf[i], met))

    def nearest(
        self, query: int, start: Integers | None, met: Callable[[Floats], bool], seconds: float
    ) -> tuple[Integers | None, bool]:
        """The nearest cell in which a query's goal is met, and whether that is proved; None: no cell is known, or none.

        `start` is a cell known to meet the goal, as intervals. `met` says whether the row of a cell meets it, and is
        only asked of the solver's answers: the formula rounds scores in favour of the goal, and what it finds may miss
        it by that much.
        """
        deadline = time.perf_counter() + seconds
        costs, leaf_costs = self.cells.costs[query], self.cells.leaf_costs(query)
        furthest = np.where(np.isfinite(costs), costs, 0.0).max(axis=1).sum()
        units = min(UNITS, (MOST_UNITS - len(costs)) / max(furthest, 1.0))
        costs = np.round(costs * units)
        leaf_costs = np.round(leaf_costs * units) - len(costs)  # rounded once, not once a feature
        least = self._least(query, leaf_costs)
        if least is None:
            return None, True
        feature, best = np.arange(len(costs)), start
        most = 0 if best is None else int(costs[feature, best].sum())
        with self._for_now():
            self.solver.add(*self._limits(query, costs), self._vote(query))
            distance = self._distance(query, costs)
            while best is None or least < most:
                within = None if best is None else most - 1 if most - least <= CLOSE_IN * most else (least + most) // 2
                answer, cell = self._ask(distance, within, leaf_costs, deadline)
                if answer == self.z3.unknown:
                    return best, False
                if answer == self.z3.unsat:
                    if within is None:
                        return None, True
                    least = within + 1
                elif met(self.cells.at(query, cell)):
                    best, most = cell, int(costs[feature, cell].sum())
                else:
                    here = [self._lies_in(j, int(i)) for j, i in enumerate(cell)]
                    self.solver.add(self.z3.Not(self.z3.And(here, self.context)))
        return best, True

    @contextmanager
    def _for_now(self) -> Iterator[None]:
        """What is added to the solver in this block is forgotten after it."""
        self.solver.push()
        try:
            yield
        finally:
            self.solver.pop()

    def _ask(
        self, distance: list[tuple[Any, int]], within: int | None, leaf_costs: Floats, deadline: float
    ) -> tuple[Any, Integers]:
        left = deadline - time.perf_counter()
        nothing = np.empty(0, dtype=np.int64)
        if left <= 0:
            return self.z3.unknown, nothing
        with self._for_now():
            if within is not None:
                self.solver.add(
                    self.z3.PbLe(distance, int(within)) if distance else self.z3.BoolVal(within >= 0, self.context)
                )
                self.solver.add([self.no_leaf[i] for i in np.flatnonzero((leaf_costs > within) & self.reachable)])
            self.solver.set("timeout", max(1, int(1000 * left)))
            answer = self.solver.check()
            if answer != self.z3.sat:
                return answer, nothing
            model = self.solver.model()
            cell = []
            for j, line in enumerate(self.above):
                true = [self.z3.is_true(model.eval(one, model_completion=True)) for one in self.chosen.get(j, line)]
                cell.append(true.index(True) if j in self.chosen else sum(true))
            return answer, np.array(cell)

    def _lies_in(self, feature: int, interval: int) -> Any:
        if feature in self.chosen:
            return self.chosen[feature][interval]
        line = self.above[feature]
        parts = [line[interval - 1]] if interval > 0 else []
        return self.z3.And(parts + ([self.z3.Not(line[interval])] if interval < len(line) else []), self.context)

    def _limits(self, query: int, costs: Floats) -> list[Any]:
        rules, changes = [], []
        for j, line in enumerate(self.above):
            rules += [self.z3.Not(self._lies_in(j, i)) for i in range(self.cells.counts[j]) if np.isinf(costs[j, i])]
            home = self.cells.home[query, j]
            if j in self.chosen:
                changes.append(self.z3.Not(self.chosen[j][home]))
                continue
            changes += [self.z3.Not(line[home - 1])] if home > 0 else []
            changes += [line[home]] if home < len(line) else []
        if self.max_changes < len(self.above) and changes:
            rules.append(self.z3.AtMost(*changes, self.max_changes))
        return rules

    def _distance(self, query: int, costs: Floats) -> list[tuple[Any, int]]:
        """Literals and what each adds to the distance: going on from home, every further interval adds its part."""
        terms = []
        for j, literals in self.chosen.items():
            terms += [(one, int(costs[j, i])) for i, one in enumerate(literals) if 0 < costs[j, i] < np.inf]
        for j, line in enumerate(self.above):
            if j in self.chosen:
                continue
            home = int(self.cells.home[query, j])
            for step, places in ((1, range(home + 1, len(line) + 1)), (-1, range(home - 1, -1, -1))):
                so_far = 0.0
                for i in places:
                    if np.isfinite(costs[j, i]) and costs[j, i] > so_far:
                        literal = line[i - 1] if step > 0 else self.z3.Not(line[i])
                        terms.append((literal, int(costs[j, i] - so_far)))
                        so_far = costs[j, i]
        return terms

    def _vote(self, query: int) -> Any:
        """The goal as weighted votes of leaves, in whole numbers rounded in its favour."""
        leaves = np.flatnonzero(self.reachable)
        tree, aim = self.trees.leaf_tree[leaves], self.aim
        parts, offset = aim.parts(np.full(len(leaves), query), leaves), aim.offset[query]
        if aim.shortfall is not None:  # each rival alone must be so far behind
            offset = offset - max(0.0, -aim.shortfall * self.trees.divisor / self.trees.decision.slope)
        votes = []
        for part, constant in zip(parts.T, offset, strict=True):
            if aim.exact:  # whole votes, half a vote apart from a tie
                whole, wanted = np.round(2 * part), 1 - round(2 * constant)
            elif np.isinf(constant):
                continue
            else:
                scale = VOTES / max(float(np.abs(part).max()), 1e-300)
                whole = np.round(part * scale)
                wanted = int(np.floor(-(constant + aim.tolerance[query]) * scale - 0.5 * len(self.trees))) - 1
            lowest = np.full(len(self.trees), np.inf)
            np.minimum.at(lowest, tree, whole)
            weight = (whole - lowest[tree]).astype(np.int64)
            terms = [(self.leaf[i], int(w)) for i, w in zip(leaves, weight, strict=True) if w > 0]
            wanted -= int(lowest.sum())
            votes.append(self.z3.PbGe(terms, wanted) if terms else self.z3.BoolVal(wanted <= 0, self.context))
        size = max(1, len(votes) // aim.groups)
        groups = [self.z3.And(votes[i : i + size], self.context) for i in range(0, len(votes), size)]
        return self.z3.Or(groups) if groups else self.z3.BoolVal(True, self.context)

    def _least(self, query: int, leaf_costs: Floats) -> int | None:
        """A distance below which the best leaf of every tree together would not do; None: at no distance they do."""
        known = np.unique(leaf_costs[np.isfinite(leaf_costs)])
        parts = self.aim.parts(np.full(len(leaf_costs), query), np.arange(len(leaf_costs)))

        def enough(within: float) -> bool:
            near = leaf_costs <= within
            top = np.full((len(self.trees), parts.shape[1]), -np.inf)
            np.maximum.at(top, self.trees.leaf_tree[near], parts[near])
            return bool(self.aim.gap(self.aim.offset[query] + top.sum(axis=0)) > -self.aim.tolerance[query])

        if not enough(known[-1]):
            return None
        low, high = 0, len(known) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(known[middle]) else (middle + 1, high)
        return max(0, int(known[low]))


def _solver_library() -> Any:
    return import_extra("z3", "mace needs z3-solver", "exact")
