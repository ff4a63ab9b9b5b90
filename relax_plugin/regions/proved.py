"""Proved regions: of tree ensembles that can be read, every row of the region, by the leaves that it reaches."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer
from relax_plugin.errors import UnsupportedError
from relax_plugin.regions.leaves import Axis, Cuts, Ground, reached_leaves
from relax_plugin.regions.question import Question
from relax_plugin.regions.rule_bounds import RuleBounds, narrowed
from relax_plugin.regions.spans import Spans
from relax_plugin.rules.repair import RowRules
from relax_plugin.trees.aims import Aim, aim_at
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.proving import proving_trees

CHUNK_PAIRS = 400_000  # boxes times trees that are walked side by side
FIRST_STEP = 4  # a side of a box tries this part of its way first, so that no side takes all the room
PARTS = 16  # into which rules, which know no thresholds, part a number's interval for a box


@dataclass(frozen=True)
class Prover:
    """The trees of a model, the goals of answers as sums over leaves, and bounds of the rules."""

    question: Question
    trees: Trees
    aim: Aim
    rules: RuleBounds
    about: Booleans  # (answers, rules)
    missing: Booleans  # (answers, features)
    known_cuts: dict[int, Cuts] = field(default_factory=dict)

    def cells(self) -> Spans:
        """How far each changed cell may go, all others as delivered."""
        question = self.question
        spans = Spans.of_points(question.space, question.values)
        answer, feature = np.nonzero(question.open | (question.changed & question.space.is_categorical))
        low, high, choices = self._allowed(answer, feature)
        boxes = question.values[answer], question.values[answer].copy()
        boxes[0][np.arange(len(answer)), feature], boxes[1][np.arange(len(answer)), feature] = low, high
        for item, leaf, below, above in self._leaves(answer, *boxes, feature[:, None]):
            i, j, value = int(answer[item]), int(feature[item]), float(question.values[answer[item], feature[item]])
            if question.space.is_categorical[j]:
                codes = np.flatnonzero(choices[item, : len(question.space.features[j].categories)])
                axis = Axis.of_categories(j, codes)
            else:
                cuts = self._cuts(j).some(np.concatenate([below[:, 0], above[:, 0]]))
                axis = Axis.of_number(j, float(low[item]), float(high[item]), cuts, value)
            ground = self._ground(i, [axis], leaf, below, above)
            first, last, held = ground.run()
            if axis.apart:
                offset = question.space.category_offsets[j]
                spans.choices[i, offset + axis.first[held].astype(int)] = True
            else:
                spans.low[i, j], spans.high[i, j] = axis.first[first], axis.last[last]
        return spans

    def boxes(self, alone: Spans) -> Spans:
        """All changed cells together, within what each may be alone."""
        question, space = self.question, self.question.space
        spans = Spans.of_points(space, question.values)
        wide = alone.low < alone.high
        for j in np.flatnonzero(space.is_categorical):
            wide[:, j] = question.changed[:, j] & (alone.of_feature(j).sum(axis=1) > 1)
        single = np.flatnonzero(wide.sum(axis=1) <= 1)
        spans.put(single, alone.take(single))
        answer = np.flatnonzero(wide.sum(axis=1) > 1)
        axes = np.full((len(answer), int(wide.sum(axis=1).max(initial=0))), -1)
        for item, own in enumerate(map(np.flatnonzero, wide[answer])):
            axes[item, : len(own)] = own
        low, high = alone.low[answer].copy(), alone.high[answer].copy()
        for j in np.flatnonzero(space.is_categorical):
            on = np.flatnonzero(wide[answer, j])
            if len(on) == 0:  # also of a column that is carried, which has no categories at all
                continue
            chosen = alone.of_feature(j)[answer[on]]
            low[on, j], high[on, j] = chosen.argmax(axis=1), chosen.shape[1] - 1 - chosen[:, ::-1].argmax(axis=1)
        for item, leaf, below, above in self._leaves(answer, low, high, axes):
            i = int(answer[item])
            features = axes[item][axes[item] >= 0]
            lines = [self._axis(i, int(j), alone, below[:, at], above[:, at]) for at, j in enumerate(features)]
            ground = self._ground(i, lines, leaf, below, above)
            self._write(spans, i, lines, Growing(ground, self._keeps(i, lines)).grown())
        return spans

    def _axis(self, i: int, j: int, alone: Spans, below: Floats, above: Floats) -> Axis:
        if self.question.space.is_categorical[j]:
            return Axis.of_categories(j, np.flatnonzero(alone.of_feature(j)[i]))
        low, high, value = float(alone.low[i, j]), float(alone.high[i, j]), float(self.question.values[i, j])
        met = np.concatenate([below, above])
        if self.about[i].any():  # rules know no thresholds: the answer is a cell by itself, and more lie around it
            more = [np.nextafter(value, -np.inf), value], np.linspace(low, high, PARTS + 1)
            cuts = Cuts.of(self.question.space.grid, j, np.concatenate([met, *more]))
        else:
            cuts = self._cuts(j).some(met)
        return Axis.of_number(j, low, high, cuts, value)

    def _cuts(self, j: int) -> Cuts:
        if j not in self.known_cuts:
            self.known_cuts[j] = Cuts.of(self.question.space.grid, j, self.trees.cuts[j])
        return self.known_cuts[j]

    def _write(self, spans: Spans, i: int, axes: list[Axis], box: list[Integers]) -> None:
        for axis, cells in zip(axes, box, strict=True):
            if axis.apart:
                offset = self.question.space.category_offsets[axis.feature]
                spans.choices[i, offset + axis.first[cells].astype(int)] = True
            else:
                spans.low[i, axis.feature] = axis.first[cells[0]]
                spans.high[i, axis.feature] = axis.last[cells[-1]]

    def _allowed(self, answer: Integers, feature: Integers) -> tuple[Floats, Floats, Booleans]:
        question, space = self.question, self.question.space
        row = np.arange(len(answer))
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
        assert (low[row] <= high[row]).all()
        return low, high, choices

    def _leaves(
        self, answer: Integers, low: Floats, high: Floats, axes: Integers
    ) -> Iterator[tuple[int, Integers, Floats, Floats]]:
        """For each box around an answer the leaves that its rows reach, and what they leave of its axes."""
        size = max(1, CHUNK_PAIRS // max(1, len(self.trees) * max(1, axes.shape[1])))
        for first in range(0, len(answer), size):
            some = slice(first, first + size)
            reached = reached_leaves(self.trees, low[some], high[some], self.missing[answer[some]], axes[some])
            ends = np.searchsorted(reached.box, np.arange(len(low[some]) + 1))
            for item in range(len(low[some])):
                own = slice(ends[item], ends[item + 1])
                yield first + item, reached.leaf[own], reached.low[own], reached.high[own]

    def _ground(self, i: int, axes: list[Axis], leaf: Integers, below: Floats, above: Floats) -> Ground:
        return Ground(self.aim, i, self.question.values[i], axes, leaf, below, above, self._exactly)

    def _exactly(self, rows: Values, owner: Integers) -> Booleans:
        """Whether the trees' own answers meet the goal; of computed probabilities their last digits are not sure."""
        goal = self.question.goal.take(owner)
        if goal.needs_scores and self.trees.decision.link != "identity":
            return np.zeros(len(rows), dtype=bool)
        scores = self.trees.scores(rows)
        chances = None if goal.wanted is None else self.trees.linked(scores).astype(np.float64)
        return goal.met(Answer(self.trees.decided(scores), chances))

    def _keeps(self, i: int, axes: list[Axis]) -> "BoxRules | None":
        return BoxRules(self, i, axes) if self.about[i].any() else None


@dataclass(frozen=True)
class BoxRules:
    """Whether a box of cells around an answer keeps the rules."""

    prover: Prover
    answer: int
    axes: list[Axis]

    def prove(self, box: list[Integers]) -> bool:
        row = self.prover.question.values[[self.answer]]
        low, high = row.copy(), row.copy()
        for axis, cells in zip(self.axes, box, strict=True):
            low[0, axis.feature], high[0, axis.feature] = axis.first[cells.min()], axis.last[cells.max()]
        start = self.prover.question.start[[self.answer]]
        return bool(self.prover.rules.prove(low, high, start, self.prover.about[[self.answer]])[0])


class Growing:
    """A box of cells that grows from its answer side by side, in turns, as long as each step is proved."""

    def __init__(self, ground: Ground, rules: BoxRules | None) -> None:
        self.ground, self.rules = ground, rules
        self.home = ground.home()
        self.box = [np.array([place]) for place in self.home]

    def grown(self) -> list[Integers]:
        """The cells of each axis in the end."""
        sides = [
            (axis, direction, self._ways(axis, direction))
            for axis in range(len(self.box))
            for direction in ((0,) if self.ground.axes[axis].apart else (-1, 1))
        ]
        step = {side[:2]: max(1, len(side[2]) // FIRST_STEP) for side in sides}
        left = {side[:2]: side[2] for side in sides}
        while any(len(way) for way in left.values()):
            for side, way in left.items():
                if len(way):
                    left[side], step[side] = self._try(side[0], way, min(step[side], len(way)))
        return self.box

    def _ways(self, axis: int, direction: int) -> Integers:
        count, home = self.ground.shape[axis], self.home[axis]
        if direction == 0:
            return np.array([place for place in range(count) if place != home], dtype=np.int64)
        return np.arange(home + 1, count) if direction > 0 else np.arange(home)[::-1]

    def _try(self, axis: int, way: Integers, step: int) -> tuple[Integers, int]:
        """Take in so many cells, if that is proved: the rest of the way, and how many to try next."""
        apart = self.ground.axes[axis].apart
        more = way[:1] if apart else way[:step]
        slab = [*self.box[:axis], np.sort(more), *self.box[axis + 1 :]]
        wider = [*self.box[:axis], np.sort(np.concatenate([self.box[axis], more])), *self.box[axis + 1 :]]
        if (self.rules is None or self.rules.prove(wider)) and self.ground.proves(slab):
            self.box = wider
            return way[len(more) :], step
        if apart:  # another category may do
            return way[1:], 1
        return (way[:0], 1) if step == 1 else (way, step // 2)


def prover_of(question: Question) -> tuple[Prover, Integers] | None:
    """A prover, and the answers that it is for; None if the model's trees cannot be read, or prove nothing."""
    space, blackbox = question.space, question.blackbox
    rules = RuleBounds(space, space.bound_rules)
    beyond = [condition for condition in question.conditions if not isinstance(condition, RowRules)]
    if len(question) == 0 or question.also or beyond:
        return None
    try:
        trees = proving_trees(blackbox, space, question.start)
    except UnsupportedError:
        return None
    about = rules.about(question.changed)
    able = ~(about & ~rules.bounded()).any(axis=1) & ~trees.unknown(question.values) & ~trees.unknown(question.start)
    gone = trees.missing(question.values) | trees.missing(question.start)
    if trees.missing_left is None:
        able &= ~gone.any(axis=1)
    elif trees.refuses is not None:
        able &= ~(gone & trees.refuses).any(axis=1)
    some = np.flatnonzero(able)
    if len(some):
        same = np.isclose(trees.labels(question.start[some]), question.before.output[some], rtol=1e-6)
        some = some[same]
    if len(some) == 0:
        return None
    part = question.part(some)
    aim = aim_at(trees, part.goal)
    return Prover(part, trees, aim, rules, about[some], trees.missing(part.values)), some
