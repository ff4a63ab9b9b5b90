"""Imagined search: complete answers are found in imagination, and the model is asked about the most promising one.

Its answer corrects what is believed of the others, and so on; half-way, shorter forms of the best answer so far join.
"""

from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves
from relax_plugin.world_model.belief import Belief, Told, expected_improvement
from relax_plugin.world_model.changes import Changes, largest
from relax_plugin.world_model.model import WorldModel
from relax_plugin.world_model.proposals import Imagination

CAUTION = 0.6  # share of the world model's typical error that is left where a query's own answers correct it
ENOUGH = 0.01  # expected improvement, in changes, below which no further question is worth its row
CELLS = 1_000_000  # queries times features worked on side by side
MOST_QUERIES = 2048  # worked on side by side
WATCHED = 32  # proposals of a query that are watched while the model is asked
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of a change that its shorter forms keep
TOGETHER = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)  # shares of all changes that are kept together
TURNS = (0.5, 0.75, 1.0)  # shares of the questions after which shorter forms of the best answer are looked at


class ImaginedSearch:
    """Finds one counterfactual a query with a few questions to the model."""

    def __init__(self, world: WorldModel, moves: Moves, rows_per_instance: int) -> None:
        self.world, self.moves, self.rows_per_instance = world, moves, rows_per_instance

    def search(self, problem: Problem) -> Proposals:
        made = Proposals.empty(problem, 1)
        size = max(min(MOST_QUERIES, CELLS // problem.start.shape[1]), 1)
        for index, part in problem.parts(size):
            hunt = Hunt(self.world, part, self.moves)
            hunt.run(self.rows_per_instance - 3)
            met = np.isfinite(hunt.count)
            made.values[index, 0] = np.where(met[:, None], hunt.best, hunt.attempt)
            made.offered[index, 0] = met
            made.stage[index[met], 0] = "search"
        return made


class Hunt:
    """One batch of queries: what was asked of each, what is believed of its proposals, the best answer so far."""

    def __init__(self, world: WorldModel, problem: Problem, moves: Moves) -> None:
        self.world, self.problem, self.space = world, problem, problem.space
        imagination = Imagination(world, problem, moves)
        self.belief = Belief(problem.space, CAUTION * world.error, imagination.correction)
        self.best, self.attempt, self.closest = problem.start.copy(), problem.start.copy(), problem.gap.copy()
        self.count, self.distance = np.full(len(problem), np.inf), np.full(len(problem), np.inf)
        self.questions = 0
        self._watch(imagination.propose())

    def run(self, questions: int) -> None:
        """Ask up to so many questions a query."""
        for share in TURNS:
            if self.questions:
                self._shorten()
            self._ask(int(round(share * questions)) - self.questions)

    def _watch(self, proposals: Changes, also: tuple[Changes, Told] | None = None) -> None:
        """Keep an eye on the most promising of these proposals, beside those watched before."""
        told = self.belief.tell(proposals)
        if also is not None:
            proposals = also[0].beside(proposals)
            told = Told(
                np.concatenate([also[1].gap, told.gap], axis=1),
                np.concatenate([also[1].variance, told.variance], axis=1),
                [np.concatenate(pair, axis=1) for pair in zip(also[1].columns, told.columns, strict=True)],
            )
        position = largest(self._improvement(proposals, told), WATCHED)
        self.proposals = proposals.at(position)
        self.told = Told(
            np.take_along_axis(told.gap, position, 1),
            np.take_along_axis(told.variance, position, 1),
            [np.take_along_axis(column, position, 1) for column in told.columns],
        )
        self.lengths = self.proposals.distance(self.space)
        self.counts = self.proposals.count

    def _improvement(self, proposals: Changes, told: Told, counts=None, lengths=None) -> Floats:
        counts = proposals.count if counts is None else counts
        lengths = proposals.distance(self.space) if lengths is None else lengths
        return expected_improvement(
            told.gap, self.belief.errors(told), counts, lengths, self.count, self.distance, self.problem.max_changes
        )

    def _ask(self, rounds: int) -> None:
        """Ask, round by round, about every query's most promising proposal, while one is worth it."""
        for _ in range(rounds):
            worth = self._improvement(self.proposals, self.told, self.counts, self.lengths)
            position = worth.argmax(axis=1)
            who = np.flatnonzero(np.take_along_axis(worth, position[:, None], 1)[:, 0] > ENOUGH)
            if len(who) == 0:
                break
            self.questions += 1
            position = position[who]
            asked = self.proposals.of(who).at(position[:, None])
            rows = asked.rows(self.problem.start[who])[:, 0]
            met, gap = self.problem.judge(rows, who)
            self.belief.learn(who, asked, self.told, position, gap, self.proposals)
            self._note(who, rows, met, gap, self.counts[who, position], self.lengths[who, position])
            self.told.gap[who, position] = np.inf  # asked once is enough

    def _note(self, who: Integers, rows: Values, met: Booleans, gap: Floats, count: Integers, distance: Floats) -> None:
        better = met & ((count < self.count[who]) | ((count == self.count[who]) & (distance < self.distance[who])))
        winner = who[better]
        self.best[winner], self.count[winner], self.distance[winner] = rows[better], count[better], distance[better]
        nearer = ~met & (gap < self.closest[who])
        self.closest[who[nearer]], self.attempt[who[nearer]] = gap[nearer], rows[nearer]

    def _shorten(self) -> None:
        """Watch shorter forms of the best answers too: one change nearer or taken back, or all nearer together."""
        solved = np.flatnonzero(np.isfinite(self.count))
        if len(solved) == 0:
            return
        start, best, numeric = self.problem.start[solved], self.best[solved], ~self.space.is_categorical
        depth = int(self.count[solved].max())
        changed = best != start
        feature = np.argsort(~changed, axis=1, kind="stable")[:, :depth]
        there = np.take_along_axis(changed, feature, 1)
        origin, reached = np.take_along_axis(start, feature, 1), np.take_along_axis(best, feature, 1)
        kept = np.ones((len(SHARES) * depth + len(TOGETHER), depth))
        for k in range(depth):
            kept[k * len(SHARES) : (k + 1) * len(SHARES), k] = SHARES
        kept[len(SHARES) * depth :] = np.array(TOGETHER)[:, None]
        kept = np.where(numeric[feature][:, None], kept, np.where(kept == 0.0, 0.0, 1.0))
        value = origin[:, None] + kept * (reached - origin)[:, None]
        value = self._inside(value, solved, feature[:, None].repeat(len(kept[0]), axis=1))
        value = np.where(kept == 0.0, origin[:, None], np.where(kept == 1.0, reached[:, None], value))
        used = there[:, None] & (value != origin[:, None])
        spread = feature[:, None].repeat(value.shape[1], axis=1)
        categorical = self.space.is_categorical[spread]
        length = np.where(categorical, np.sqrt(2.0), (value - origin[:, None]) / self.space.scale[spread])
        gap = np.full(value.shape[:2], np.inf)
        shorter = Changes(np.where(used, spread, -1), np.where(used, value, 0.0), np.where(used, length, 0.0), gap)
        some = used.any(axis=2) & ((value != reached[:, None]) & there[:, None]).any(axis=2)
        rows = shorter.rows(start)
        query, variant = np.nonzero(some)
        goal = self.problem.goal.take(solved[query])
        gap[query, variant] = self.world.gap(goal, rows[query, variant])
        whole = Changes.none(len(self.problem), value.shape[1], self.proposals.feature.shape[2])
        whole.feature[solved, :, :depth], whole.value[solved, :, :depth] = shorter.feature, shorter.value
        whole.length[solved, :, :depth], whole.gap[solved] = shorter.length, gap
        self._watch(whole, (self.proposals, self.told))

    def _inside(self, value: Floats, query: Integers, feature: Integers) -> Floats:
        """Values on the grid of their features and within the bounds of their queries."""
        rounded = self.problem.limits.round_cells(value, feature)
        low, high = self.problem.span
        rows = query[:, None, None]
        return np.clip(rounded, low[rows, feature], high[rows, feature])
