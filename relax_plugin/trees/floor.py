"""The floor: for tree ensembles, the provably fewest features that have to change, and the least distance at that.

No method can do better, so that a benchmark can say how far each is from the optimum, and a counterfactual can carry
the proof that none with fewer changes exists.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, whole_number
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import GoalError, InputError, NotFittedError, UnsupportedError
from relax_plugin.features import Bounds, FeatureSpace, Rows
from relax_plugin.goal import BoundGoal, Goal
from relax_plugin.limits import Limits
from relax_plugin.results import Counterfactuals, taken
from relax_plugin.rules.repair import RowRules
from relax_plugin.trees.aims import aim_at
from relax_plugin.trees.cells import Cells
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import gaps, trees_for, vanishing, with_gaps_kept
from relax_plugin.trees.proving import answer_of, other_answers, proving_trees
from relax_plugin.trees.subset_grid import CHUNK_CELLS, Met, SubsetGrid

CLOSE = 1e-9  # relative difference of distances that is rounding


@dataclass(frozen=True)
class Floor:
    """The optimum of each query.

    Attributes
    ----------
    changes : int array (queries,)
        The fewest features that have to change; 0 if the query meets its goal already, -1 if that is more than what
        was searched, or not known.
    distance : array (queries,)
        The least distance with so few changes, standardised L1 at the space's prices; NaN where `changes` is -1.
    values : array (queries, features)
        The optimal counterfactual; the query itself where `changes` is -1.
    proved : int array (queries,)
        It is proved that no counterfactual changes fewer features than this.
    possible : bool array (queries,)
        False where it is proved that no counterfactual exists at all.
    notes : array (queries,) of str, or None
        Why a query was not looked at; "" if it was, None if all were.
    """

    changes: Integers
    distance: Floats
    values: Floats
    proved: Integers
    possible: Booleans
    notes: Array | None = None

    def __len__(self) -> int:
        return len(self.changes)

    def sentences(self) -> list[str]:
        """What is proved for each query, in words."""
        return [self._sentence(row) for row in range(len(self))]

    def _sentence(self, row: int) -> str:
        if self.changes[row] == 0:
            return "the query meets the goal already"
        if not self.possible[row]:
            return "no counterfactual exists within the limits"
        if self.notes is not None and self.notes[row]:
            return f"nothing is proved, since {self.notes[row]}"
        if self.proved[row] == 0:
            return "nothing is proved, since the model does not answer as its trees do"
        return f"no counterfactual changes fewer than {_features(int(self.proved[row]))}"


def floor(
    model: Any,
    space: FeatureSpace,
    rows: Rows,
    goal: Goal | None = None,
    *,
    limits: Limits | None = None,
    most_changes: int = 3,
) -> Floor:
    """The fewest changes that meet the goal, and the nearest counterfactual with so few, for each row.

    Parameters
    ----------
    model : a tree ensemble that can be read, or a BlackBox of one
        Of scikit-learn, XGBoost, LightGBM or CatBoost, also behind a pipeline. Others are refused by an
        UnsupportedError, *skipped because ...*.
    space : FeatureSpace
    rows : DataFrame or array
        The queries. A number that is missing stays so, unless its feature may be filled in: a change of the price 1.
    goal : Goal, optional
        Another class for a classifier if absent; a regressor needs one.
    limits : Limits, optional
        Of one call, `space.limits(vary, bounds)`; the space's own if absent.
    most_changes : int
        How many changes are tried. Each further one costs an order of magnitude more.
    """
    most = whole_number("most_changes", most_changes, 0)
    blackbox = _bound(model, space)
    values = space.values(rows)
    trees = proving_trees(blackbox, space, values)
    limits = with_gaps_kept(space, space.limits() if limits is None else limits, values)
    if names := vanishing(space, limits):
        raise UnsupportedError(
            f"skipped because it proves nothing where a number may become missing, as {names[0]!r} may."
        )
    if len(values) == 0:
        empty = np.empty(0, dtype=np.int64)
        return Floor(empty, np.empty(0), values, empty, np.empty(0, dtype=bool))
    unknown = trees.unknown(values)
    by_trees = (goal is None or goal.by_labels) and blackbox.labels_apart and not unknown.any()
    before = answer_of(trees, values) if by_trees else blackbox.confirm(rows)
    if not (by_trees or np.allclose(trees.labels(values[~unknown]), before.output[~unknown], rtol=1e-6)):
        raise other_answers(blackbox)
    if goal is None and blackbox.task == "regression":
        raise GoalError("a regressor needs a goal: Goal.shift(delta) or Goal.between(low, high).")
    bound = (goal or Goal.flip()).bind(blackbox, before)
    already, hopeless = bound.met(before), bound.impossible(before) != ""
    found = _search(trees, blackbox, space, limits, values, bound, most, already, hopeless)
    changed = np.flatnonzero(found.changes > 0)
    queries = np.arange(len(values) if by_trees else 0)  # what was expected of them is confirmed too, in the same call
    asked = np.concatenate([changed, queries])
    if len(asked) == 0:
        return found
    # Whatever the trees say, the model's own answer to the row as it would be delivered decides.
    made, picked = np.concatenate([found.values[changed], values[queries]]), taken(rows, asked)
    told = answer_of(trees, made).scores if by_trees else None
    answer = blackbox.confirm(space.restore(made, picked), told)
    if by_trees and not np.array_equal(answer.output[len(changed) :], before.output):
        raise other_answers(blackbox)
    answer = answer.take(slice(len(changed)))
    wrong = changed[~bound.take(changed).met(answer)]
    found.proved[wrong] = 0
    # A row that breaks a rule is no counterfactual; that none has fewer changes is true all the same.
    kept = RowRules(space, space.bound_rules, values).holds(found.values[changed], changed)
    wrong = np.union1d(wrong, changed[~kept])
    found.changes[wrong], found.distance[wrong] = -1, np.nan
    found.values[wrong] = values[wrong]
    return found


def certify(
    counterfactuals: Counterfactuals,
    explainer: CounterfactualExplainer | BlackBox | Any,
    *,
    most_changes: int = 2,
    goal: Goal | None = None,
    vary: Iterable[Hashable] | None = None,
    bounds: Bounds | None = None,
) -> Counterfactuals:
    """The same counterfactuals with a sentence for each query about what is proved to be the optimum.

    Parameters
    ----------
    counterfactuals : Counterfactuals
    explainer : the fitted explainer that made them, or the model
    most_changes : int
        Up to how many changes are tried.
    goal, vary, bounds
        As they were given to the call of `explain`; where the result tells its question, they need not be given.
    """
    asked = counterfactuals.asked
    if goal is None and asked is not None:
        goal = asked.goal
    if isinstance(explainer, CounterfactualExplainer):
        if not hasattr(explainer, "blackbox_"):
            raise NotFittedError(f"this {type(explainer).__name__} is not fitted, so that it cannot have made them.")
        goal, model = explainer.wanted_goal(goal), explainer.blackbox_
    else:
        model = explainer
    space, start = counterfactuals.space, counterfactuals.start
    own = None if asked is None else space.limits(values=start, **vars(asked.constraints))
    limits = own if own is not None and vary is None and bounds is None else space.limits(vary, bounds, start)
    if asked is not None and own is not None and (goal != asked.goal or not limits.contain(own)):
        raise InputError(
            "goal, vary and bounds must be those of the call that found the counterfactuals, or wider; leave them out."
        )
    best = floor(model, space, counterfactuals.queries, goal, limits=limits, most_changes=most_changes)
    fewer = np.where(counterfactuals.found, counterfactuals.sparsity, np.inf).min(axis=1) < best.proved
    if fewer.any():
        raise InputError(
            f"query {int(np.argmax(fewer))} has a counterfactual with fewer changes than is proved possible: "
            "goal, vary and bounds must be those of the call that found it."
        )
    # That none changes fewer than one feature goes without saying.
    told = (best.proved > 1) | (~best.possible & (best.changes != 0))
    sentences = [text if tell else "" for tell, text in zip(told, best.sentences(), strict=True)]
    less = "costs less" if space.has_prices else "is closer"
    for row in np.flatnonzero(counterfactuals.found[:, 0] & (best.changes > 0)):
        changes, distance = counterfactuals.sparsity[row, 0], counterfactuals.proximity[row, 0]
        fewest = int(best.changes[row])
        if changes == fewest and distance <= best.distance[row] * (1 + CLOSE):
            sentences[row] += ", and " * bool(sentences[row]) + f"none that changes {_features(fewest)} {less}"
        elif changes > fewest:
            sentences[row] += ", and " * bool(sentences[row]) + f"one that changes {_features(fewest)} exists"
    fewest_of_all = np.where(best.possible | (best.changes == 0), best.proved, len(space) + 1)
    proved = np.column_stack([fewest_of_all, np.where(best.changes > 0, best.distance, np.nan)]).astype(np.float64)
    return replace(counterfactuals, proofs=np.array(sentences, dtype=object), proved=proved)


def _search(
    trees: Trees,
    blackbox: BlackBox,
    space: FeatureSpace,
    limits: Limits,
    values: Values,
    goal: BoundGoal,
    most: int,
    already: Booleans,
    hopeless: Booleans,
) -> Floor:
    changes = np.where(already, 0, -1)
    distance, best = np.where(already, 0.0, np.nan), values.copy()
    proved, possible = np.where(already, 0, most + 1), ~hopeless
    notes = np.full(len(values), "", dtype=object)
    notes[~already & ~hopeless & trees.unknown(values)] = "it has a category that is missing or unknown"
    pending = np.flatnonzero(~already & ~hopeless & (notes == ""))

    def met(rows: Values, owner: Integers) -> Booleans:
        part = goal.take(owner)
        return part.met(_answer(trees, blackbox, space, part, rows))

    for index, grid in subset_grids(trees, space, limits, values, pending, goal, met, most):
        if grid is None:
            notes[index] = "too many of its missing numbers may be filled in"
            continue
        open_ = np.arange(len(index))
        for k in range(1, min(most, len(grid.movable)) + 1):
            solutions = grid.solve(k, open_)
            solved = np.flatnonzero(np.isfinite(solutions.distance))
            where = index[solved]
            best[where] = grid.values(solutions)[solved]
            changes[where] = proved[where] = k
            distance[where] = space.distance(best[where], values[where])
            open_ = np.setdiff1d(open_, solved)
        possible[index[open_]] = len(grid.movable) > most
    proved[notes != ""] = 0
    return Floor(changes, distance, best, proved, possible, notes)


def subset_grids(
    trees: Trees,
    space: FeatureSpace,
    limits: Limits,
    values: Values,
    pending: Integers,
    goal: BoundGoal,
    met: Met,
    most: int,
) -> Iterator[tuple[Integers, SubsetGrid | None]]:
    """The grids of all sets of up to `most` features around pending queries, for some of these at a time.

    None for queries of which too many missing numbers may be filled in.
    """
    for gap in gaps(trees, limits.take(pending), values[pending]):
        mine = pending[gap.index]
        seen = trees_for(trees, gap)
        if seen is None:
            yield mine, None
            continue
        size = max(1, 16 * CHUNK_CELLS // max(1, seen.boxes[0].size, comb(len(space), most)))
        for index in (mine[first : first + size] for first in range(0, len(mine), size)):

            def own_met(rows: Values, owner: Integers, index: Integers = index) -> Booleans:
                return met(rows, index[owner])

            cells = Cells.of(seen, space, limits.take(index), values[index])
            yield index, SubsetGrid(cells, aim_at(seen, goal.take(index)), own_met, most)


def _answer(trees: Trees, blackbox: BlackBox, space: FeatureSpace, goal: BoundGoal, values: Values) -> Answer:
    """The model's answer, read off its trees where that is exact to the last bit."""
    if goal.needs_scores and trees.decision.link != "identity":
        return blackbox.confirm(space.model_input(values))
    return answer_of(trees, values)


def _bound(model: Any, space: FeatureSpace) -> BlackBox:
    if not isinstance(model, BlackBox):
        return BlackBox(model, space)
    return model if model.space is space and model.classes is not None else model.bound_to(space)


def _features(count: int) -> str:
    return "1 feature" if count == 1 else f"{count} features"
