"""The menu: which sets of features would do for one row, what the best answer with each is, and which cannot.

Sets are proposed to the contract like any method's answers, and its verdict decides. Trees that can be read give the
nearest answer of each set, or the proof that there is none. Other models are asked about a grid of values of each set,
and sets without an answer are put to the bounds of a ReLU network, if the model is one.
"""

import copy
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, UnsupportedError
from relax_plugin.features import Bounds, Rows
from relax_plugin.formatting import feature_label, format_labelled, printable
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.networks.question import Question
from relax_plugin.networks.subsets import SubsetSearch
from relax_plugin.parameters import whole_number
from relax_plugin.problem import Problem, Proposals
from relax_plugin.results import Counterfactuals, taken
from relax_plugin.table.tables import pandas_or_array
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.floor import subset_grids
from relax_plugin.trees.missing import vanishing, with_gaps_kept
from relax_plugin.trees.proving import fast_trees, proving_trees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMPOSSIBLE = "impossible (proved)"
MOST_TOLD = 5  # answers that sentences name
MOST_SETS = 5000  # of features, in one menu
MOST_CHANGES = 4  # beyond, the grids of sets of trees do not end in time
CHECKED = 32  # rows, by which it is seen whether trees answer as the model does
SECONDS = 5.0  # for the bounds of a network, for all sets together; what is not decided by then stays open
POINTS = {1: 48, 2: 12, 3: 6, 4: 4}  # values of each feature that the model is asked, by the size of the set; beyond, 3
ROUNDS = 3  # in which this grid is drawn closer around the best answer
SHARES = (0.25, 0.5, 0.75, 1.0, 0.95)  # of the way from the query to the answer, in such a round


@dataclass(frozen=True)
class Menu:
    """Every set of features of one row, and the best answer that changes some or all of them and nothing else.

    Attributes
    ----------
    result : Counterfactuals
        The answers, a query for each set.
    sets : sequence of tuples of positions of features
    found : bool array (sets,)
    possible : bool array (sets,)
        False where it is proved that no answer changes only features of this set.
    closest : bool array (sets,)
        Whether the answer is proved to be the nearest of its set.
    already : bool
        Whether the row meets the goal as it is.
    rows_queried : int
        Rows the model was asked, for all sets together.
    """

    result: Counterfactuals
    sets: Sequence[tuple[int, ...]]
    found: Booleans
    possible: Booleans
    closest: Booleans
    already: bool
    rows_queried: int

    def __len__(self) -> int:
        return len(self.sets)

    def __repr__(self) -> str:
        return f"Menu({int(self.found.sum())} of {len(self)} sets of features have an answer)"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    @property
    def status(self) -> list[str]:
        """Of each set: "found", "impossible (proved)", or that none was found, and in how many model rows."""
        told = []
        for row in range(len(self)):
            asked = int(self.result.rows_queried[row])
            missing = f"not found in {asked} model rows" if self.possible[row] else IMPOSSIBLE
            told.append("found" if self.found[row] else missing)
        return told

    @cached_property
    def enough(self) -> Booleans:
        """Whether a smaller set within each set has an answer already (sets,)."""
        solved = [set(part) for part, found in zip(self.sets, self.found, strict=True) if found]
        return np.array([any(other < set(part) for other in solved) for part in self.sets], dtype=bool)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A line for each set: its features, the status, the changes and their price.

        Sets of which a part is enough are left out. Those with an answer come first, the cheapest before the others.
        """
        names, result, every = self.result.space.names, self.result, range(len(self))
        lines = pd.DataFrame(
            {
                "features": [tuple(names[j] for j in part) for part in self.sets],
                "changes": [len(part) for part in self.sets],
                "status": self.status,
                "how": [self._told(row) if self.found[row] else "" for row in every],
                "distance": np.where(self.found, self._distance, np.nan),
                "proved closest": self.closest & self.found,
                "answer": pd.Series([result.after[row, 0] if self.found[row] else None for row in every], dtype=object),
            }
        )
        own = lines.assign(missing=~self.found)[~self.enough]
        order = own.sort_values(["missing", "changes", "distance"], kind="stable").index
        return lines.loc[order].reset_index(drop=True)

    def sentences(self) -> list[str]:
        """What would do, what would not, and what nobody knows."""
        if self.already:
            return ["The row meets the goal already."]
        if len(self) == 0:
            return ["No feature of the row may change."]
        told = []
        order = np.lexsort((self._distance, self._sizes))
        best = [row for row in order if self.found[row] and not self.enough[row]]  # these need every feature of theirs
        for row in best[:MOST_TOLD]:
            alone = " alone" if len(self.sets[row]) == 1 else ""
            told.append(f"A change of {self._names(self.sets[row])}{alone} would do: {self._told(row)}.")
        if len(best) > MOST_TOLD:
            more = len(best) - MOST_TOLD
            told.append("One further set of features would do." if more == 1 else f"{more} further sets would do.")
        for size in np.unique(self._sizes):
            told += self._of_size(int(size))
        return list(map(printable, told))

    def _of_size(self, size: int) -> list[str]:
        own = np.flatnonzero(self._sizes == size)
        none, unknown = own[~self.possible[own]], own[self.possible[own] & ~self.found[own]]
        told = []
        if size == 1:
            told += [f"No change of {self._names(self.sets[row])} alone would do." for row in none]
        elif len(none) == len(own):
            told.append(f"No change of just {size} features would do.")
        elif len(none):
            told.append(f"{len(none)} of {len(own)} sets of {size} features are proved to be of no use.")
        if len(unknown):
            sets = self._names(self.sets[unknown[0]]) if len(unknown) == 1 else f"{len(unknown)} sets of {size}"
            rows = int(self.result.rows_queried[unknown].sum())
            told.append(f"With {sets} none was found in {rows} model rows, which proves nothing.")
        return told

    def plot(self) -> "Figure":
        """Features and sets as a picture: a column a set, a dot where it changes a feature, the colour its status."""
        from relax_plugin.pages.diagrams import menu_picture

        space = self.result.space
        # By size, so that the picture shows what does and what does not.
        order = [row for row in np.lexsort((self._distance, ~self.found, self._sizes)) if not self.enough[row]]
        used = sorted({j for row in order for j in self.sets[row]})
        return menu_picture(
            [feature_label(space.labels, space.names[j]) for j in used],
            [[used.index(j) for j in self.sets[row]] for row in order],
            ["found" if self.found[row] else "open" if self.possible[row] else "impossible" for row in order],
            [float(self._distance[row]) for row in order],
        )

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(text)}</li>" for text in self.sentences())
        table = self.table.assign(features=[", ".join(map(str, names)) for names in self.table["features"]])
        shown = table.to_html(index=False, na_rep="", float_format=lambda number: f"{number:.3g}", max_rows=30)
        return f"<p>{escape(repr(self))}</p><ul>{lines}</ul><div style='overflow-x:auto'>{shown}</div>"

    @property
    def _sizes(self) -> Integers:
        return np.array([len(part) for part in self.sets], dtype=np.int64)

    @property
    def _distance(self) -> Floats:
        return np.asarray(self.result.proximity[: len(self), 0])

    def _names(self, part: Sequence[int]) -> str:
        space = self.result.space
        names = [feature_label(space.labels, space.names[j]) for j in part]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

    def _told(self, row: int) -> str:
        labels, cells = self.result.space.labels, self._cells.get(row, [])
        return ", ".join(
            f"{feature_label(labels, name)} from {format_labelled(labels, name, old)} "
            f"to {format_labelled(labels, name, new)}"
            for name, old, new in cells
        )

    @cached_property
    def _cells(self) -> dict[int, list[tuple[Any, Any, Any]]]:
        cells: dict[int, list[tuple[Any, Any, Any]]] = {}
        for row, _, name, old, new in self.result.changes().itertuples(index=False):
            cells.setdefault(int(row), []).append((name, old, new))
        return cells


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
        box = explainer.blackbox_
        if box.trees is None and box.space is not None and hasattr(explainer, "known_"):
            # The trees that prove a menu may as well answer in the model's place, if they agree with it on some rows
            # that it was asked; its own `predict` confirms what a menu has.
            values, told = explainer.known_
            told = told.take(slice(CHECKED))
            asked = values[:CHECKED], told.output, told.scores
            other.blackbox_ = box.for_call()
            other.blackbox_.trees = fast_trees(box.model, box.space, box.classes, *asked)
        return other

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        """Nothing is learned: `like` takes what another has."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        at = _positions(problem)
        sets = self.sets_[at]
        # Whether each set (row) holds each other one (column).
        inside = np.asarray((~sets).astype(np.float32) @ sets.T.astype(np.float32) == 0)
        search = _Search(problem, sets)
        trees = search.trees()
        if trees is not None:
            search.prove_by_trees(trees)
        search.ask(np.flatnonzero(search.possible & ~search.found))
        if trees is None:  # what no answer was found for may be out of a network's reach
            search.prove_by_bounds(np.flatnonzero(~(inside & search.found).any(axis=1)))
        if len(at) == len(self.sets_):  # else smaller sets are not among them
            self.possible_[at] = (inside & search.possible).any(axis=1)
            self.closest_[at] = (~inside | search.closest).all(axis=1)
        made = Proposals.empty(problem, n)
        best = np.where(inside & search.found, problem.distance(search.values, np.arange(len(problem))), np.inf)
        nearest, some = best.argmin(axis=1), np.isfinite(best.min(axis=1))
        made.values[some, 0], made.offered[some, 0] = search.values[nearest[some]], True
        made.stage[some, 0] = np.where(self.closest_[at[some]], "trees", "grid")
        return made


class _Search:
    """The best row of each set that changes all of its features; the problem has the query once for each set."""

    def __init__(self, problem: Problem, sets: Booleans) -> None:
        self.problem, self.sets = problem, sets
        self.values, self.found = problem.start.copy(), np.zeros(len(sets), dtype=bool)
        self.possible, self.closest = np.ones(len(sets), dtype=bool), np.zeros(len(sets), dtype=bool)

    def trees(self) -> Trees | None:
        """The trees by which the sets can be proved; None if the model or the question is another."""
        problem, start = self.problem, self.problem.start[:1]
        most = self.sets.sum(axis=1).max(initial=1)
        if most > MOST_CHANGES or problem.also or vanishing(problem.space, problem.limits):
            return None
        try:
            trees = proving_trees(problem.blackbox, problem.space, start)
        except UnsupportedError:
            return None
        known = not trees.unknown(start).any()
        return trees if known and np.allclose(trees.labels(start), problem.before.output[:1], rtol=1e-6) else None

    def prove_by_trees(self, trees: Trees) -> None:
        """The nearest row of each set, or the proof that there is none."""
        problem, sizes = self.problem, self.sets.sum(axis=1)
        # What is not in a set may not change, so that the grid of its query is that of the set alone.
        limits = with_gaps_kept(problem.space, problem.limits.keeping(~self.sets), problem.start)
        answering = replace(problem, conditions=(), also=())

        def met(rows: Values, owner: Integers) -> Booleans:
            return answering.goal.take(owner).met(answering.blackbox.confirm(answering.space.model_input(rows)))

        every = np.arange(len(problem))
        grids = subset_grids(trees, problem.space, limits, problem.start, every, problem.goal, met, int(sizes.max()))
        for index, grid in grids:
            if grid is None:
                continue
            self.closest[index], self.possible[index] = True, False
            for k in np.unique(sizes[index]):
                best = grid.solve(int(k), np.flatnonzero(sizes[index] == k))
                solved = np.flatnonzero(np.isfinite(best.distance))
                self.values[index[solved]] = grid.values(best)[solved]
                self.found[index[solved]] = self.possible[index[solved]] = True
        found = np.flatnonzero(self.found)
        self.found[found] = problem.admits(self.values[found], found)  # what a rule bars proves nothing
        self.closest &= self.found | ~self.possible

    def prove_by_bounds(self, open_: Integers) -> None:
        """Which of some sets are out of the reach of a ReLU network, within a time limit; and rows of the others."""
        problem, deadline = self.problem, time.perf_counter() + SECONDS
        if len(open_) == 0 or problem.also or problem.itself_misses:
            return
        try:
            question = Question.about(problem.part(open_), problem.limits.keeping(~self.sets).take(open_))
            for asked in question.open():
                row = int(open_[asked.row])

                def met(rows: Values, asked: Any = asked, row: int = row) -> Booleans:
                    problem.charge(np.full(len(rows), row), 1)
                    return question.met(asked, rows)

                search = SubsetSearch(question.network, asked.moves, asked.target, met, closest=False)
                told = search.solve(int(self.sets[row].sum()), deadline)
                if told is not None and told.values is not None:
                    self.values[row] = told.values
                    self.found[row] = problem.admits(told.values[None], np.array([row]))[0]
                elif told is not None:
                    self.possible[row], self.closest[row] = not told.closed, told.closed
                if time.perf_counter() > deadline:
                    break
        except UnsupportedError:  # another model, or a goal that bounds do not know
            pass

    def ask(self, open_: Integers) -> None:
        """Ask the model about values of each set on a grid, one call a round, and then about nearer ones."""
        problem = self.problem
        lines = {int(row): self._spread(row) for row in open_}
        for _ in range(1 + ROUNDS):
            rows, owner = self._grids(lines)
            if len(rows) == 0:
                return
            rows = problem.within_limits(rows, owner)
            kept = ((rows != problem.start[owner]) == self.sets[owner]).all(axis=1)  # mended rows may leave their set
            rows, owner = rows[kept], owner[kept]
            met, _ = problem.judge(rows, owner)
            self._take_nearest(rows[met], owner[met])
            lines = {row: self._nearer(row) for row in lines if self.found[row]}

    def _take_nearest(self, rows: Values, owner: Integers) -> None:
        distance = self.problem.distance(rows, owner)
        known = np.where(self.found, self.problem.distance(self.values, np.arange(len(self.values))), np.inf)
        order = np.lexsort((distance, owner))
        first = order[np.unique(owner[order], return_index=True)[1]]
        better = first[distance[first] < known[owner[first]]]
        self.values[owner[better]], self.found[owner[better]] = rows[better], True

    def _spread(self, row: int) -> list[Floats]:
        """Values of each feature of a set, over all that it may be."""
        space, chosen = self.problem.space, np.flatnonzero(self.sets[row])
        low, high = (end[row] for end in self.problem.span)
        count = POINTS.get(len(chosen), 3)
        return [
            np.arange(len(space.features[j].categories), dtype=np.float64)
            if space.is_categorical[j]
            else np.linspace(low[j], high[j], count)
            for j in chosen
        ]

    def _nearer(self, row: int) -> list[Floats]:
        """Values of each feature from the query's to the answer's."""
        lines = []
        for j in np.flatnonzero(self.sets[row]):
            start, answer = self.problem.start[row, j], self.values[row, [j]]
            jumps = self.problem.space.jumps(j, np.array([start]), answer)[0]
            lines.append(answer if jumps else start + np.array(SHARES) * (answer - start))
        return lines

    def _grids(self, lines: dict[int, list[Floats]]) -> tuple[Values, Integers]:
        """Every combination of the values of each set, as rows, and whose they are."""
        parts, owner = [self.problem.start[:0]], [np.zeros(0, dtype=np.int64)]
        for row, line in lines.items():
            cells = np.stack(np.meshgrid(*line, indexing="ij"), axis=-1).reshape(-1, len(line))
            rows = np.repeat(self.problem.start[[row]], len(cells), axis=0)
            rows[:, self.sets[row]] = cells
            parts.append(rows)
            owner.append(np.full(len(cells), row))
        return np.concatenate(parts), np.concatenate(owner)


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
    space, values = fitted(explainer).space_.taking_in(query)
    free = _free(space.limits(vary, bounds, values), values)
    count = sum(comb(len(free), k) for k in range(1, min(most, len(free)) + 1))
    if count > MOST_SETS:
        raise InputError(
            f"{len(free)} features have {count} sets of up to {most}, and a menu has at most {MOST_SETS}; lower "
            "max_changes, or name the features that may change: vary=[...]."
        )
    chosen = [part for k in range(1, most + 1) for part in combinations(free, k)]
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


def _free(limits: Limits, start: Floats) -> list[int]:
    """The features of one row that may change, each looked at alone."""
    others = ~np.eye(start.shape[1], dtype=bool)
    return [j for j, held in enumerate(others) if limits.keeping(held[None]).movable(start)[0]]


def _positions(problem: Problem) -> Integers:
    """Where the queries of a part of a problem are in the whole one."""
    at = np.arange(len(problem))
    whole: Problem | None = problem
    while whole is not None and whole.index is not None:
        at, whole = whole.index[at], whole.whole
    return at
