"""Proved regions: of tree ensembles that can be read, every row of the region, by the leaves that it reaches.

The thresholds of these leaves cut a box into cells. Within a cell every row reaches the same leaves, so that its answer
is one. Three ways lead to a proof, the cheapest first: the worst leaf of every tree together still meets the goal; the
scores of all cells, added up exactly; the two halves of a box that is too large for that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import UnsupportedError
from relax_plugin.regions.growing import Axis, Cells, Growing, evenly, write_box
from relax_plugin.regions.question import Question
from relax_plugin.regions.rule_bounds import RuleBounds, narrowed
from relax_plugin.regions.spans import Spans
from relax_plugin.rules.repair import RowRules
from relax_plugin.trees.aims import Aim, aim_at
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import Gap, trees_for
from relax_plugin.trees.proving import answer_of, proving_trees
from relax_plugin.trees.subset_grid import box_sums

MOST_CELLS = 60_000  # of a box whose cells are all looked at
FEW_CELLS = 1000  # of a part of a larger one
MOST_HALVES = 24  # into which a larger one is parted for a proof


def reached_leaves(trees: Trees, low: Floats, high: Floats) -> Integers:
    """The leaves that rows from `low` to `high` (features,) reach, both included."""
    inside = (trees.boxes[0] < high) & (trees.boxes[1] >= low)
    for j, met in trees.sets.items():
        inside[:, j] = met[:, int(low[j]) : int(high[j]) + 1].any(axis=1)
    return np.flatnonzero(inside.all(axis=1))


class Ground:
    """The leaves under one answer, over the cells of a box around it; proves that parts of the box meet the goal."""

    def __init__(
        self,
        aim: Aim,
        answer: int,
        row: Floats,
        axes: list[Axis],
        leaf: Integers,
        ask: Callable[[Values, Integers], Booleans],
    ) -> None:
        self.aim, self.answer, self.row, self.axes, self.ask = aim, answer, row, axes, ask
        self.shape = tuple(map(len, axes))
        leaf, self.first, self.last = _boxes_of_cells(aim.trees, axes, leaf)
        self.parts = aim.parts(np.full(len(leaf), answer), leaf)
        self.tree = aim.trees.leaf_tree[leaf]
        self.met: Booleans | None = None
        if float(np.prod(self.shape, dtype=np.float64)) <= MOST_CELLS:
            self.met = self.cells_met([np.arange(count) for count in self.shape])
            self.met[tuple(axis.home for axis in axes)] = True  # the model has confirmed what was delivered

    def run(self) -> tuple[Integers, Booleans]:
        """Of a single axis: the cells around the answer that all meet the goal, and which of all cells do."""
        home = self.axes[0].home
        met = self.met if self.met is not None else self.cells_met([np.arange(self.shape[0])])
        met[home] = True
        before, after = met[:home][::-1], met[home:]
        first = home - (len(before) if before.all() else int(before.argmin()))
        return np.arange(first, home + (len(after) if after.all() else int(after.argmin()))), met

    def proves(self, part: Cells) -> bool:
        """Whether all rows in these cells meet the goal; False may mean that no proof was found."""
        if self.met is not None:
            return bool(self.met[np.ix_(*part)].all())
        waiting, made = [(part, np.arange(len(self.parts)))], 0
        while waiting:
            part, leaves = waiting.pop()
            leaves = self._inside(part, leaves)
            if self._worst(leaves) > self._sure:
                continue
            if np.prod([len(cells) for cells in part], dtype=np.float64) <= FEW_CELLS:
                if not self.cells_met(part).all():
                    return False
                continue
            made += 1
            if made > MOST_HALVES:
                return False
            axis = int(np.argmax([len(cells) for cells in part]))
            for half in np.array_split(part[axis], 2):
                waiting.append(([*part[:axis], half, *part[axis + 1 :]], leaves))
        return True

    @cached_property
    def _sure(self) -> float:
        """What a goal has to be met by, at least, where leaves are added up."""
        return float(self.aim.tolerance[self.answer]) + self._slack(len(self.parts), 1)

    def _inside(self, part: Cells, leaves: Integers) -> Integers:
        for axis, cells in enumerate(part):
            first, last = self.first[leaves, axis], self.last[leaves, axis]
            leaves = leaves[np.searchsorted(cells, first) < np.searchsorted(cells, last, "right")]
        return leaves

    def _worst(self, leaves: Integers) -> float:
        """How far above 0 the goal is met at least, taking the worst of these leaves of every tree."""
        firsts = np.flatnonzero(np.r_[True, np.diff(self.tree[leaves]) != 0])
        worst = np.minimum.reduceat(self.parts[leaves], firsts, axis=0)
        return float(self.aim.gap(self.aim.offset[self.answer] + worst.sum(axis=0)))

    def cells_met(self, part: Cells) -> Booleans:
        """Whether each of these cells meets the goal: by its sums, or, too near 0, by the trees' own answers."""
        first = np.column_stack([np.searchsorted(cells, self.first[:, i]) for i, cells in enumerate(part)])
        last = np.column_stack([np.searchsorted(cells, self.last[:, i], "right") for i, cells in enumerate(part)])
        some = (first < last).all(axis=1)
        alone = np.zeros(int(some.sum()), dtype=np.int64)
        total = box_sums((1, *map(len, part)), alone, first[some], last[some], self.parts[some])[0]
        gap, unsure = self.aim.gap(total + self.aim.offset[self.answer]), self.aim.tolerance[self.answer]
        unsure += self._slack(len(alone), 2 ** len(part))
        met = gap > unsure
        asked = np.nonzero(np.abs(gap) <= unsure)
        if len(asked[0]):
            rows = np.repeat(self.row[None], len(asked[0]), axis=0)
            for axis, cells, place in zip(self.axes, part, asked, strict=True):
                rows[:, axis.feature] = axis.last[cells[place]]
            met[asked] = self.ask(rows, np.full(len(rows), self.answer))
        return np.asarray(met)

    def _slack(self, leaves: int, corners: int) -> float:
        """A bound of the rounding of the sums over all corners, which come on top of what the aim reckons with."""
        offset = float(np.abs(self.aim.offset[self.answer]).max())
        size = float(np.abs(self.parts).sum(axis=0).max(initial=0.0)) + offset
        return float(np.finfo(np.float64).eps * corners * (leaves + 1) * size)


def _boxes_of_cells(trees: Trees, axes: list[Axis], leaf: Integers) -> tuple[Integers, Integers, Integers]:
    """What leaves take in of some axes: the first and last cells (boxes, axes), and the leaf of each box.

    A leaf that takes in a set of categories has a box for each run of them, one that takes in no cell has none.
    """
    first, last = np.zeros((2, len(leaf), len(axes)), dtype=np.int64)
    for i, axis in enumerate(axes):
        if axis.feature in trees.sets:
            met = trees.sets[axis.feature][leaf][:, axis.first.astype(int)]
            edge = np.diff(np.pad(met, ((0, 0), (1, 1))).astype(np.int8), axis=1)
            (box, begin), end = np.nonzero(edge == 1), np.nonzero(edge == -1)[1] - 1
        else:
            low, high = (ends[leaf, axis.feature] for ends in trees.boxes)
            begin, end = np.searchsorted(axis.last, low, "right"), np.searchsorted(axis.first, high, "right") - 1
            box = np.flatnonzero(begin <= end)
            begin, end = begin[box], end[box]
        leaf, first, last = leaf[box], first[box], last[box]
        first[:, i], last[:, i] = begin, end
    return leaf, first, last


@dataclass(frozen=True)
class Prover:
    """The trees as answers that lack the same numbers see them, their goals as sums over leaves, and the rules."""

    question: Question
    trees: Trees
    aim: Aim
    rules: RuleBounds
    about: Booleans  # (answers, rules)

    def cells(self) -> Spans:
        """How far each changed cell may go, all others as delivered."""
        question, space = self.question, self.question.space
        spans = Spans.of_points(space, question.values)
        answer, feature = np.nonzero(question.open | (question.changed & space.is_categorical))
        low, high, choices = self._allowed(answer, feature)
        for item, (i, j) in enumerate(zip(answer.tolist(), feature.tolist(), strict=True)):
            ends = question.values[i].copy(), question.values[i].copy()
            ends[0][j], ends[1][j] = low[item], high[item]
            leaf = reached_leaves(self.trees, *ends)
            axis = self._axis(i, j, low[item], high[item], np.flatnonzero(choices[item]), leaf)
            run, held = self._ground(i, [axis], leaf).run()
            write_box(spans, i, [axis], [np.flatnonzero(held) if axis.apart else run])
        return spans

    def boxes(self, alone: Spans) -> Spans:
        """All changed cells together, within what each may be alone."""
        question, space = self.question, self.question.space
        spans = alone.take(np.arange(len(question)))  # a box of one cell is that cell's region
        for i in np.flatnonzero(alone.wide.sum(axis=1) > 1):
            features = np.flatnonzero(alone.wide[i])
            low, high = alone.low[i].copy(), alone.high[i].copy()
            codes = {int(j): np.flatnonzero(alone.of_feature(j)[i]) for j in features if space.is_categorical[j]}
            for j, own in codes.items():
                low[j], high[j] = own[0], own[-1]
            leaf, exact = reached_leaves(self.trees, low, high), not self.about[i].any()
            axes = [self._axis(i, j, low[j], high[j], codes.get(j), leaf, exact) for j in features.tolist()]
            ground, growing = self._ground(i, axes, leaf), Growing(axes)
            while growing.sides:
                growing.tell(self._keeps(i, axes, growing.wider) and ground.proves(growing.slab))
            write_box(spans, i, axes, growing.box)
        return spans

    def _axis(
        self, i: int, j: int, low: float, high: float, codes: Integers | None, leaf: Integers, exact: bool = True
    ) -> Axis:
        """The cells of a feature from low to high, by the thresholds of these leaves; rules know none (`exact`)."""
        value = float(self.question.values[i, j])
        if self.question.space.is_categorical[j]:
            assert codes is not None
            return Axis.of_categories(j, codes, value)
        cuts = np.concatenate([ends[leaf, j] for ends in self.trees.boxes])
        cuts = cuts if exact else np.concatenate([cuts, evenly(low, high, value)])
        return Axis.of_number(self.question.space.grid, j, low, high, cuts, value)

    def _allowed(self, answer: Integers, feature: Integers) -> tuple[Floats, Floats, Booleans]:
        """From where to where cells may go by limits and rules, and which categories they may become."""
        question, space = self.question, self.question.space
        low, high = (end[answer, feature] for end in question.span)
        counts = np.diff(space.category_offsets)
        choices = np.zeros((len(answer), int(counts.max(initial=0))), dtype=bool)
        for j in np.unique(feature[space.is_categorical[feature]]):
            first, last = space.category_offsets[j : j + 2]
            at = np.flatnonzero(feature == j)
            item, code = np.nonzero(question.choices[answer[at], first:last])
            rows = question.values[answer[at][item]].copy()
            rows[:, j] = code
            kept = question.admits(rows, answer[at][item]) | (code == question.values[answer[at][item], j])
            choices[at[item], code] = kept
            mine = choices[at, : last - first]
            low[at], high[at] = mine.argmax(axis=1), mine.shape[1] - 1 - mine[:, ::-1].argmax(axis=1)
        some = np.flatnonzero(self.about[answer].any(axis=1) & ~space.is_categorical[feature])
        if len(some):
            values, start, about = question.values[answer[some]], question.start[answer[some]], self.about[answer[some]]
            own, grid = values[np.arange(len(some)), feature[some]], space.grid.take(feature[some])
            below = narrowed(self.rules, values, start, feature[some], low[some], about)
            above = narrowed(self.rules, values, start, feature[some], high[some], about)
            low[some] = np.minimum(grid.first_inside(below, 1), own)
            high[some] = np.maximum(grid.first_inside(above, -1), own)
        return low, high, choices

    def _ground(self, i: int, axes: list[Axis], leaf: Integers) -> Ground:
        return Ground(self.aim, i, self.question.values[i], axes, leaf, self._exactly)

    def _exactly(self, rows: Values, owner: Integers) -> Booleans:
        """Whether the trees' own answers meet the goal; of computed probabilities their last digits are not sure."""
        goal = self.question.goal.take(owner)
        if goal.needs_scores and self.trees.decision.link != "identity":
            return np.zeros(len(rows), dtype=bool)
        return goal.met(answer_of(self.trees, rows))

    def _keeps(self, i: int, axes: list[Axis], box: Cells) -> bool:
        """Whether all rows of a box around an answer keep the rules."""
        low, high = self.question.values[[i]], self.question.values[[i]]
        for axis, cells in zip(axes, box, strict=True):
            low[0, axis.feature], high[0, axis.feature] = axis.first[cells[0]], axis.last[cells[-1]]
        return bool(self.rules.prove(low, high, self.question.start[[i]], self.about[[i]])[0])


def provers_of(question: Question) -> Iterator[tuple[Prover, Integers]]:
    """Provers, and the answers that each is for; none where the model's trees cannot be read, or prove nothing."""
    space, blackbox = question.space, question.blackbox
    rules = RuleBounds(space, space.bound_rules)
    beyond = [condition for condition in question.conditions if not isinstance(condition, RowRules)]
    if len(question) == 0 or question.also or beyond:
        return
    try:
        trees = proving_trees(blackbox, space, question.start)
    except UnsupportedError:
        return
    about = rules.about(question.changed)
    able = ~(about & ~rules.bounded()).any(axis=1) & ~trees.unknown(question.values) & ~trees.unknown(question.start)
    missing = trees.missing(question.values)
    gone = missing | trees.missing(question.start)
    if trees.missing_left is None:
        able &= ~gone.any(axis=1)
    elif trees.refuses is not None:
        able &= ~(gone & trees.refuses).any(axis=1)
    some = np.flatnonzero(able)
    if len(some):
        some = some[np.isclose(trees.labels(question.start[some]), question.before.output[some], rtol=1e-6)]
    kinds, kind = np.unique(missing[some], axis=0, return_inverse=True)
    for number, lacks in enumerate(kinds):
        index = some[kind.ravel() == number]
        seen = trees_for(trees, Gap(index, lacks, np.zeros_like(lacks)))
        if seen is not None:
            part = question.part(index)
            yield Prover(part, seen, aim_at(seen, part.goal), rules, about[index]), index
