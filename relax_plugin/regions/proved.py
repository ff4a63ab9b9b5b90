"""Proved regions: of tree ensembles that can be read, every row of the region, by the leaves that it reaches."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.regions.growing import Axis, Cells, Growing, evenly, write_box
from relax_plugin.regions.leaves import Ground, reached_leaves
from relax_plugin.regions.question import Question
from relax_plugin.regions.rule_bounds import RuleBounds, narrowed
from relax_plugin.regions.spans import Spans
from relax_plugin.rules.repair import RowRules
from relax_plugin.trees.aims import Aim, aim_at
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import Gap, trees_for
from relax_plugin.trees.proving import answer_of, proving_trees


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
