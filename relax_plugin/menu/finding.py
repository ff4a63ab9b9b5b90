"""Finding a menu: sets of features are proposed to the contract like any method's answers, and its verdict decides."""

import copy
from collections.abc import Hashable, Iterable
from itertools import combinations
from math import comb

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import InputError
from relax_plugin.features import Bounds, Rows
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.menu.bounded import bounded_sets
from relax_plugin.menu.menu import Menu
from relax_plugin.menu.probed import probed_sets
from relax_plugin.menu.proved import proved_sets, trees_of
from relax_plugin.parameters import whole_number
from relax_plugin.problem import Problem, Proposals
from relax_plugin.results import taken
from relax_plugin.table.tables import pandas_or_array
from relax_plugin.trees.fast import fast_trees

MOST_SETS = 5000  # of features, in one menu
CHECKED = 32  # rows, by which it is seen whether trees answer as the model does


class SetSearch(CounterfactualExplainer):
    """Proposes for each of several copies of one query the best row that changes no feature outside of a set.

    It has what another explainer has learned, and is never fitted itself.
    """

    sets_: Booleans  # (sets, features)
    possible_: Booleans  # (sets,) False where it is proved that no answer changes only these features
    closest_: Booleans  # (sets,) whether the row proposed is proved to be the nearest

    @classmethod
    def like(cls, explainer: CounterfactualExplainer, sets: Booleans) -> "SetSearch":
        """With the model, space, goal and plausibility of a fitted explainer."""
        other = cls(explainer.model, explainer.space, goal=explainer.goal, plausible=explainer.plausible)
        learned = {name: value for name, value in vars(explainer).items() if name.endswith("_")}
        other.__dict__.update(copy.copy(learned))
        other.also, other.sets_ = explainer.also, sets
        other.possible_, other.closest_ = np.ones(len(sets), dtype=bool), np.zeros(len(sets), dtype=bool)
        if explainer.blackbox_.trees is None and hasattr(explainer, "known_"):
            other.blackbox_ = _with_trees(explainer.blackbox_, *explainer.known_)
        return other

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        """Nothing is learned: `like` takes what another has."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        at = _positions(problem)
        sets, open_ = self.sets_[at], np.arange(len(problem))
        values, found = problem.start.copy(), np.zeros(len(problem), dtype=bool)
        possible, closest = np.ones(len(problem), dtype=bool), np.zeros(len(problem), dtype=bool)
        trees = trees_of(problem, int(sets.sum(axis=1).max(initial=1)))
        if trees is not None:
            values, distance, closest = proved_sets(problem, trees, sets)
            possible = np.isfinite(distance) | ~closest
            found = np.isfinite(distance)
            found[found] = problem.admits(values[found], np.flatnonzero(found))  # what a rule bars proves nothing
            closest &= found | ~possible
            open_ = np.flatnonzero(possible & ~found)
        inside = _inside(sets)
        if len(open_):
            probed, there = probed_sets(problem, sets, open_)
            values[there], found[there] = probed[there], True
            if trees is None:  # what no answer was found for may be out of a network's reach
                left = np.flatnonzero(~(inside & found).any(axis=1))
                bounded, there, possible = bounded_sets(problem, sets, left)
                values[there], found[there] = bounded[there], True
                closest = ~possible
        if len(at) == len(self.sets_):  # else smaller sets are not among them
            self.possible_[at] = (inside & possible).any(axis=1)
            self.closest_[at] = (~inside | closest).all(axis=1)
        made = Proposals.empty(problem, n)
        best = np.where(inside & found, problem.distance(values, np.arange(len(problem))), np.inf)
        nearest, some = best.argmin(axis=1), np.isfinite(best.min(axis=1))
        made.values[some, 0], made.offered[some, 0] = values[nearest[some]], True
        made.stage[some, 0] = np.where(self.closest_[at[some]], "trees", "grid")
        return made


def find_menu(
    explainer: CounterfactualExplainer,
    x: Rows,
    max_changes: int,
    goal: Goal | None,
    vary: Iterable[Hashable] | None,
    bounds: Bounds | None,
) -> Menu:
    """What `CounterfactualExplainer.menu` gives."""
    most = whole_number("max_changes", max_changes, 1)
    query = pandas_or_array(x)
    if len(query) != 1:
        raise InputError(f"a menu is of one row, and there are {len(query)}; give explainer.menu(X.iloc[[3]]).")
    space = fitted(explainer).space_
    free = _free(explainer, query, vary, bounds)
    count = sum(comb(len(free), k) for k in range(1, min(most, len(free)) + 1))
    if count > MOST_SETS:
        raise InputError(
            f"{len(free)} features have {count} sets of up to {most}, and a menu has at most {MOST_SETS}; lower "
            "max_changes, or name the features that may change: vary=[...]."
        )
    chosen = [part for k in range(1, most + 1) for part in combinations(free.tolist(), k)]
    sets = np.zeros((max(len(chosen), 1), len(space)), dtype=bool)
    for row, part in enumerate(chosen):
        sets[row, list(part)] = True
    search = SetSearch.like(explainer, sets)
    result = search.explain(
        taken(query, np.zeros(len(sets), dtype=np.int64)), goal=goal, vary=vary, bounds=bounds, max_changes=most
    )
    if result.refused[0]:
        raise result.refusal(0)
    within = ((result.values[:, 0] == result.start) | sets).all(axis=1)  # a mended row may leave its set
    already = result.stages[:, 0] == "query"
    return Menu(
        result=result,
        sets=chosen,
        found=(result.found[:, 0] & within & ~already)[: len(chosen)],
        possible=search.possible_[: len(chosen)],
        closest=(search.closest_ & within)[: len(chosen)],
        already=bool(already.any()),
        rows_queried=int(result.rows_queried.sum()),
    )


def _with_trees(blackbox: BlackBox, values: Values, answer: Answer) -> BlackBox:
    """The black box with the arrays of its trees, which prove a menu: they may as well answer in the model's place.

    They do if they agree with it on some rows that it was asked; its own `predict` confirms what a menu has.
    """
    other, told = blackbox.for_call(), answer.take(slice(CHECKED))
    asked = values[:CHECKED], told.output, told.scores
    other.trees = fast_trees(blackbox.model, blackbox.space, blackbox.classes, *asked) if blackbox.space else None
    return other


def _free(
    explainer: CounterfactualExplainer, query: Rows, vary: Iterable[Hashable] | None, bounds: Bounds | None
) -> Integers:
    space, values = explainer.space_.taking_in(query)
    limits = space.limits(vary, bounds, values)
    return np.flatnonzero(_able(limits, values)[0])


def _able(limits: Limits, start: Floats) -> Booleans:
    """Which features of each row may change, each looked at alone (rows, features)."""
    able = np.zeros(start.shape, dtype=bool)
    for j in range(start.shape[1]):
        others = np.ones(start.shape, dtype=bool)
        others[:, j] = False
        able[:, j] = limits.keeping(others).movable(start)
    return able


def _inside(sets: Booleans) -> Booleans:
    """Whether each set (row) holds each other one (column)."""
    return np.asarray((~sets).astype(np.float32) @ sets.T.astype(np.float32) == 0)


def _positions(problem: Problem) -> Integers:
    at = np.arange(len(problem))
    whole: Problem | None = problem
    while whole is not None and whole.index is not None:
        at, whole = whole.index[at], whole.whole
    return at
