"""Imagined search: complete answers are found in imagination, and the model is asked about the most promising one.

Its answer corrects what is believed of the others, and so on. Before each question, variants of what looks best join.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.greedy import Moves
from relax_plugin.search.rescue import Rescue
from relax_plugin.world_model.belief import Belief, Told, expected_improvement
from relax_plugin.world_model.changes import CATEGORY, Changes, largest, lengths
from relax_plugin.world_model.model import WorldModel
from relax_plugin.world_model.proposals import VALUES, Imagination
from relax_plugin.world_model.variants import variants_of

ENOUGH = 3e-4  # expected improvement, in changes, below which no further question is worth its row
WATCHED = 32  # proposals of a query that are watched while the model is asked
SAFE = 8  # further ones, the likeliest to be valid, should the others fail
KEPT_PART = 0.67  # of a change, between what does and what may not, that is kept when it is shortened
LEAST_ROOM = 0.02  # share of the whole way below which a change is not shortened
AROUND = 2  # most promising proposals whose variants join, beside those of the best answer
URGENCY = 1.0  # how much more, in changes, any valid answer is worth with each question that found none
CELLS = 1_000_000  # queries times features worked on side by side
MOST_QUERIES = 512  # worked on side by side
LONGER = 3  # times the questions are asked for queries that found nothing by then,
WIDER_BEAM = 12  # of proposals from so many states


@dataclass(frozen=True)
class ImaginedSearch:
    """Finds one counterfactual a query with a few questions to the model.

    Attributes
    ----------
    world : WorldModel
    moves : Moves
        Values of each feature; a few of them are looked at.
    rows_per_instance : int
        Model rows the search may spend on one query, the query itself and the confirmation of its answer included.
    rescue : Rescue, optional
        What queries still unsolved get after a longer search; without it, one search is all.
    also : callable, optional
        Further complete answers to a batch of queries, such as an agent's: each (queries, features).
    """

    world: WorldModel
    moves: Moves
    rows_per_instance: int
    rescue: Rescue | None
    also: Callable[[Problem], list[Values]] | None = None

    def search(self, problem: Problem) -> Proposals:
        """One counterfactual a query: search, a longer search for what is left, and the rescue for what is still."""
        made = self.ordinary_search(problem)
        if self.rescue is not None:
            self.rescue.save(problem, made)
        return made

    def ordinary_search(self, problem: Problem) -> Proposals:
        """One counterfactual a query without the rescue, which is too dear for what may be done without."""
        made, few = Proposals.empty(problem, 1), self.moves.thinned(VALUES, problem.space)
        # The query itself is asked for scores and `predict`; when its answer is confirmed, the scores are known.
        apart = problem.blackbox.reader.labels_apart and problem.blackbox.task == "classification"
        overhead = 3 if apart else 2
        questions = max((self.rows_per_instance - overhead) // problem.blackbox.rows_per_question, 1)
        size = max(min(MOST_QUERIES, CELLS // problem.start.shape[1]), 1)
        for index, part in problem.parts(size):
            hunt = Hunt.begin(self.world, part, few)
            for rows in self.also(part) if self.also else ():
                hunt.watch(hunt.changes_to(rows))
            hunt.ask(questions)
            hunt.shorten(questions)
            stage = np.where(np.isfinite(hunt.count), "search", "").astype(object)
            open_ = np.flatnonzero(np.isinf(hunt.count))
            if len(open_) and self.rescue is not None:
                more = hunt.of(open_)
                more.watch(Imagination(self.world, more.problem, few, WIDER_BEAM).propose())
                more.ask(LONGER * questions)
                more.shorten(LONGER * questions)
                hunt.put(open_, more)
                stage[open_] = np.where(np.isfinite(more.count), "long search", "")
            made.values[index, 0], made.offered[index, 0], made.stage[index, 0] = hunt.rows, stage != "", stage
            if made.scores is not None:
                made.scores[index, 0] = hunt.scores
        return made


class Hunt:
    """One batch of queries: what was asked of each, what is believed of its proposals, the best answer so far.

    Attributes
    ----------
    rows : array (queries, features)
        The best answer of each query; the closest attempt where there is none.
    count, distance : arrays (queries,)
        Its changes and L1; infinite where there is none.
    """

    def __init__(self, world: WorldModel, problem: Problem, belief: Belief) -> None:
        self.world, self.problem, self.belief = world, problem, belief
        self.rows, self.closest = problem.start.copy(), problem.gap.copy()
        self.count, self.distance = np.full(len(problem), np.inf), np.full(len(problem), np.inf)
        known = problem.before.scores
        self.scores = None if known is None else np.full(known.shape, np.nan)  # of `rows`, where they were asked about
        self.gap = np.zeros(len(problem))  # of the best answer, in the world model's units
        self.improved = np.zeros(len(problem), dtype=bool)  # since variants of the best answer were looked at
        self.questions = np.zeros(len(problem), dtype=np.int64)
        self.proposals = Changes.none(1, len(problem), 0)
        self.told = belief.tell(self.proposals)
        self.asked = np.zeros((len(problem), 0), dtype=np.int64)  # keys of what each query asked; 0: nothing
        self.varied = np.zeros((len(problem), 0), dtype=bool)  # whether its variants have been looked at

    @classmethod
    def begin(cls, world: WorldModel, problem: Problem, moves: Moves) -> "Hunt":
        imagination = Imagination(world, problem, moves)
        hunt = cls(world, problem, Belief.begin(problem.space, world.error, imagination.correction))
        hunt.watch(imagination.propose())
        return hunt

    def of(self, queries: Integers) -> "Hunt":
        """The hunt for some of the queries."""
        part = Hunt(self.world, self.problem.part(queries), self.belief.of(queries))
        for name in ("rows", "closest", "count", "distance", "gap", "improved", "questions", "varied", "asked"):
            setattr(part, name, getattr(self, name)[queries])
        part.scores = None if self.scores is None else self.scores[queries]
        part.proposals, part.told = self.proposals.of(queries), self.told.of(queries)
        return part

    def put(self, queries: Integers, part: "Hunt") -> None:
        """Take over what a hunt for some of the queries has found."""
        self.rows[queries], self.count[queries], self.distance[queries] = part.rows, part.count, part.distance
        self.gap[queries] = part.gap
        if self.scores is not None:
            self.scores[queries] = part.scores

    def watch(self, proposals: Changes) -> None:
        """Keep an eye on the most promising of these proposals and of those watched before."""
        fresh = self.belief.tell(proposals)
        fresh.gap[(self._keys(proposals)[:, :, None] == self.asked[:, None]).any(axis=2)] = np.inf
        told = self.told.beside(fresh)
        varied = np.concatenate([self.varied, np.zeros(proposals.gap.shape, dtype=bool)], axis=1)
        both = self.proposals.beside(proposals)
        worth, others = self._improvement(both, told), -told.gap
        least = told.gap.min(axis=1, initial=0.0)[:, None]
        position = largest(np.where(worth > 0, worth, least - told.gap), WATCHED)  # what is worth nothing: by its gap
        np.put_along_axis(others, position, -np.inf, 1)
        position = np.concatenate([position, largest(others, SAFE)], axis=1)
        self.proposals, self.told = both.at(position), told.at(position)
        self.varied = np.take_along_axis(varied, position, 1)

    def ask(self, questions: int) -> None:
        """Ask up to so many questions a query, while one is worth it."""
        for turn in range(questions):
            if turn:
                self._look_around()
            worth = self._improvement(self.proposals, self.told)
            position = worth.argmax(axis=1)
            worthwhile = np.take_along_axis(worth, position[:, None], 1)[:, 0] > ENOUGH
            hopeless = ~worthwhile & (self.questions == 0)  # such a query asks once: what comes closest is shown
            position = np.where(hopeless, self.told.gap.argmin(axis=1), position)
            worthwhile |= hopeless & np.isfinite(np.take_along_axis(self.told.gap, position[:, None], 1)[:, 0])
            who = np.flatnonzero(worthwhile)
            if len(who) == 0:
                break
            self._ask_about(who, position[who])

    def shorten(self, questions: int) -> None:
        """Spend what is left of so many questions on taking back parts of the best answers' changes, the longest first.

        What is tried lies between the value that does and the nearest one that failed, at first the query's own.
        """
        space, every = self.problem.space, np.arange(len(self.problem))
        feature, value = _listed(self.rows, self.problem.start, self.problem.start.shape[1])
        places = max(int((feature >= 0).sum(axis=0).max(initial=0)), 1)
        feature, value = feature[:places], value[:places]
        failed = self.problem.start[every, feature]
        fixed = (feature < 0) | space.is_categorical[feature] | np.isinf(self.count)
        while True:
            room = np.where(fixed, 0.0, np.abs(value - failed) / space.scale[feature])
            place = room.argmax(axis=0)
            worthwhile = room[place, every] > LEAST_ROOM * np.where(np.isinf(self.count), 1.0, self.distance)
            who = np.flatnonzero(worthwhile & (self.questions < questions))
            if len(who) == 0:
                break
            at, column = place[who], feature[place[who], who]
            middle = failed[at, who] + KEPT_PART * (value[at, who] - failed[at, who])
            low, high = self.problem.span[0][who, column], self.problem.span[1][who, column]
            middle = np.clip(self.problem.limits.round_cells(middle, column), low, high)
            between = (middle != value[at, who]) & (middle != failed[at, who])
            fixed[at[~between], who[~between]] = True
            who, at, column, middle = who[between], at[between], column[between], middle[between]
            met = self._try_shorter(who, column, middle)
            value[at[met], who[met]], failed[at[~met], who[~met]] = middle[met], middle[~met]

    def _try_shorter(self, who: Integers, feature: Integers, value: Floats) -> Booleans:
        """Keep the best answers with one change at another value, if they meet the goal, and tell whether they do."""
        rows, goal = self.rows[who], self.problem.goal.take(who)
        before = self.world.gap(goal, rows)
        rows[np.arange(len(who)), feature] = value
        expected = self.gap[who] + self.world.gap(goal, rows) - before
        met = np.zeros(len(who), dtype=bool)
        asked = np.flatnonzero(expected < self.world.error)  # of the others imagination is sure that they miss it
        if len(asked) == 0:
            return met
        who, rows = who[asked], rows[asked]
        answer, goal = self.problem.ask(rows, who), goal.take(asked)
        does = goal.met(answer)
        met[asked] = does
        self.questions[who] += 1
        winner = who[does]
        self.rows[winner], self.distance[winner] = rows[does], self.problem.distance(rows[does], winner)
        self.gap[winner] = self.world.targets.in_units(goal.gap(answer))[does]
        if self.scores is not None and answer.scores is not None:
            self.scores[winner] = answer.scores[does]
        return met

    def _ask_about(self, who: Integers, position: Integers) -> None:
        self.questions[who] += 1
        proposals = self.proposals.of(who)
        rows = proposals.rows(self.problem.start[who], position)
        answer, goal = self.problem.ask(rows, who), self.problem.goal.take(who)
        met, gap = goal.met(answer), goal.gap(answer)
        self.belief.learn(who, position, self.world.targets.in_units(gap), self.proposals, self.told)
        every, keys = np.arange(len(who)), np.zeros(len(self.problem), dtype=np.int64)
        keys[who] = self._keys(proposals)[every, position]
        self.asked = np.column_stack([self.asked, keys])
        self.told.gap[(self._keys(self.proposals) == keys[:, None]) & (keys[:, None] != 0)] = np.inf  # once is enough
        one = proposals.at(position[:, None])
        self.improved[who] |= self._note(
            who, rows, answer, met, gap, one.count[:, 0], one.distance(self.problem.space)[:, 0]
        )

    def _note(
        self, who: Integers, rows: Values, answer: Answer, met: Booleans, gap: Floats, count: Integers, distance: Floats
    ) -> Booleans:
        """Keep what is better than the best answer so far, which is told, or an attempt that came closer than any."""
        better = met & ((count < self.count[who]) | ((count == self.count[who]) & (distance < self.distance[who])))
        winner = who[better]
        nearer = ~met & np.isinf(self.count[who]) & (gap < self.closest[who])
        kept = better | nearer
        self.rows[who[kept]], self.closest[who[nearer]] = rows[kept], gap[nearer]
        if self.scores is not None and answer.scores is not None:
            self.scores[who[kept]] = answer.scores[kept]
        self.count[winner], self.distance[winner] = count[better], distance[better]
        self.gap[winner] = self.world.targets.in_units(gap[better])
        return np.asarray(better)

    def _keys(self, proposals: Changes) -> Integers:
        return proposals.keys(self.problem.space.is_categorical)

    def _improvement(self, proposals: Changes, told: Told) -> Floats:
        distance, error = proposals.distance(self.problem.space), self.belief.errors(told)
        urgency = URGENCY * self.questions[:, None]
        return expected_improvement(told.gap, error, proposals.count, distance, self.count, self.distance, urgency)

    def _look_around(self) -> None:
        """Watch variants of the best answers and of the most promising proposals too, of each once."""
        worth = self._improvement(self.proposals, self.told)
        top = largest(worth, AROUND)
        fresh = ~np.take_along_axis(self.varied, top, 1) & (np.take_along_axis(worth, top, 1) > ENOUGH)
        row, which = np.nonzero(fresh)
        self.varied[row, top[row, which]] = True
        feature, value = (array[:, row, top[row, which]] for array in (self.proposals.feature, self.proposals.value))
        best = np.flatnonzero(self.improved)
        self.improved[:] = False
        best_feature, best_value = _listed(self.rows[best], self.problem.start[best], len(feature))
        query = np.concatenate([row, best])
        if len(query) == 0:
            return
        feature, value = np.concatenate([feature, best_feature], axis=1), np.concatenate([value, best_value], axis=1)
        order = np.argsort(query, kind="stable")
        query, feature, value = query[order], feature[:, order], value[:, order]
        self.watch(self._as_proposals(query, variants_of(self.world, self.problem, query, feature, value)))

    def changes_to(self, rows: Values) -> Changes:
        """Complete answers, one a query, as proposals; none where a row has too many changes, or is the query."""
        start, space = self.problem.start, self.problem.space
        feature, value = _listed(rows, start, self.problem.max_changes)
        there, every = feature >= 0, np.arange(len(rows))
        length = lengths(value - start[every, feature], space.scale[feature])
        length = np.where(there, np.where(space.is_categorical[feature], CATEGORY, length), np.float32(0.0))
        gap = self.world.gap(self.problem.goal, rows)
        changes = (rows != start).sum(axis=1)
        gap = np.where((changes > 0) & (changes <= self.problem.max_changes), gap, np.inf)
        return Changes(
            feature[:, :, None].astype(np.int32), value[:, :, None], length[:, :, None], gap[:, None].astype(np.float32)
        )

    def _as_proposals(self, query: Integers, variants: Changes) -> Changes:
        """Variants of several proposals of a query side by side."""
        number = variants.gap.shape[1]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        made = Changes.none(len(variants.feature), len(self.problem), number * (int(place.max()) + 1))
        at = (place * number)[:, None] + np.arange(number)
        made.feature[:, query[:, None], at], made.value[:, query[:, None], at] = variants.feature, variants.value
        made.length[:, query[:, None], at], made.gap[query[:, None], at] = variants.length, variants.gap
        return made


def _listed(rows: Values, start: Values, places: int) -> tuple[Integers, Floats]:
    """The changes of rows, one a query, as features and values (places, queries); -1 where there are fewer."""
    changed = rows != start
    feature = np.argsort(~changed, axis=1, kind="stable")[:, :places].T
    there = np.take_along_axis(changed.T, feature, 0)
    value = np.where(there, np.take_along_axis(rows.T, feature, 0), 0.0)
    missing = places - len(feature)
    feature = np.pad(np.where(there, feature, -1), ((0, missing), (0, 0)), constant_values=-1)
    return feature, np.pad(value, ((0, missing), (0, 0)))
