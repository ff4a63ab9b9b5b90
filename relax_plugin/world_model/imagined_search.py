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

CAUTION = 1.0  # share of the world model's typical error that is left where a query's own answers correct it
ENOUGH = 0.0003  # expected improvement, in changes, below which no further question is worth its row
CELLS = 1_000_000  # queries times features worked on side by side
MOST_QUERIES = 2048  # worked on side by side
WATCHED = 32  # proposals of a query that are watched while the model is asked
AROUND = 3
SAFE = 8
FOUND = 0.0
URGENCY = 1.0
BEFORE = 0
SHARES = (0.0, 0.25, 0.5, 0.7, 0.85, 0.93, 1.2)  # of a change that its shorter forms keep
TOGETHER = (0.5, 0.7, 0.85, 0.93)  # shares of all changes that are kept together
TURNS = (0.12, 0.23, 0.34, 0.45, 0.56, 0.67, 0.78, 0.89, 1.0)  # shares of the questions after which shorter forms of the best answer are looked at


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
        for _ in range(BEFORE):
            self._look_around()
        for share in TURNS:
            if self.questions:
                self._look_around()
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
        worth = self._improvement(proposals, told)
        position = largest(worth, WATCHED)
        np.put_along_axis(worth, position, -np.inf, 1)
        safest = largest(np.where(np.isneginf(worth), -np.inf, -told.gap), SAFE)  # should the others fail
        position = np.concatenate([position, safest], axis=1)
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
            told.gap, self.belief.errors(told), counts, lengths, self.count, self.distance, self.problem.max_changes, FOUND + URGENCY * self.questions
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

    def _look_around(self) -> None:
        """Watch neighbours of the most promising proposals and of the best answers too.

        One change nearer, farther or taken back, or all nearer together.
        """
        worth = self._improvement(self.proposals, self.told, self.counts, self.lengths)
        some = self.proposals.at(largest(worth, AROUND))
        depth = some.feature.shape[2]
        solved = np.flatnonzero(np.isfinite(self.count))
        if len(solved):
            best = Changes.none(len(self.problem), 1, depth)
            changed = self.best[solved] != self.problem.start[solved]
            feature = np.argsort(~changed, axis=1, kind="stable")[:, :depth]
            there = np.take_along_axis(changed, feature, 1)
            best.feature[solved, 0, :feature.shape[1]] = np.where(there, feature, -1)
            best.value[solved, 0, :feature.shape[1]] = np.where(there, np.take_along_axis(self.best[solved], feature, 1), 0.0)
            best.gap[solved] = 0.0
            some = some.beside(best)
        query, which = np.nonzero(np.isfinite(some.gap) & (some.feature >= 0).any(axis=2))
        feature, value = some.feature[query, which], some.value[query, which]
        used = feature >= 0
        most = int(used.sum(axis=1).max(initial=1))
        feature, value, used = feature[:, :most], value[:, :most], used[:, :most]
        every = np.arange(len(query))[:, None]
        origin = self.problem.start[query[:, None], feature]
        numeric = ~self.space.is_categorical[feature]
        kept = np.ones((len(SHARES) * most + len(TOGETHER), most))
        for k in range(most):
            kept[k * len(SHARES) : (k + 1) * len(SHARES), k] = SHARES
        kept[len(SHARES) * most :] = np.array(TOGETHER)[:, None]
        n, variants = len(query), len(kept)
        share = np.broadcast_to(kept, (n, variants, most))
        share = np.where(numeric[:, None], share, np.where(share == 0.0, 0.0, 1.0))
        moved = origin[:, None] + share * (value - origin)[:, None]
        spread = np.repeat(feature[:, None], variants, axis=1)
        moved = self._inside(moved, query, spread)
        moved = np.where(share == 0.0, origin[:, None], np.where(share == 1.0, value[:, None], moved))
        there = used[:, None] & (moved != origin[:, None])
        new = there.any(axis=2) & (used[:, None] & (moved != value[:, None])).any(axis=2)
        length = np.where(self.space.is_categorical[spread], np.sqrt(2.0), (moved - origin[:, None]) / self.space.scale[spread])
        variant = Changes(np.where(there, spread, -1), np.where(there, moved, 0.0), np.where(there, length, 0.0), np.full((n, variants), np.inf))
        row, column = np.nonzero(new)
        rows = self.problem.start[query[row]]
        for k in range(most):
            on = there[row, column, k]
            rows[np.flatnonzero(on), feature[row[on], k]] = moved[row[on], column[on], k]
        variant.gap[row, column] = self.world.gap(self.problem.goal.take(query[row]), rows)
        # As proposals of their queries: as many places as the query with most of them needs.
        place = np.arange(n) - np.searchsorted(query, query)
        several = int(place.max(initial=0)) + 1
        whole = Changes.none(len(self.problem), several * variants, depth)
        at = (place * variants)[:, None] + np.arange(variants)
        whole.feature[query[:, None], at, :most], whole.value[query[:, None], at, :most] = variant.feature, variant.value
        whole.length[query[:, None], at, :most], whole.gap[query[:, None], at] = variant.length, variant.gap
        self._watch(whole, (self.proposals, self.told))

    def _inside(self, value: Floats, query: Integers, feature: Integers) -> Floats:
        """Values on the grid of their features and within the bounds of their queries."""
        rounded = self.problem.limits.round_cells(value, feature)
        low, high = self.problem.span
        rows = query[:, None, None]
        return np.clip(rounded, low[rows, feature], high[rows, feature])
