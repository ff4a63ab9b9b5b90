"""Hunt: one batch of queries, what was asked of each, what is believed of its proposals, the best answer so far.

The model is asked about the most promising proposal of each query, and its answer corrects what is believed of the
others. Before each question, variants of what looks best join.
"""

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.problem import Problem
from relax_plugin.search.greedy import Moves
from relax_plugin.world_model.belief import Belief, Told, expected_improvement
from relax_plugin.world_model.changes import Changes, largest, listed, picked, rank_within, with_changes
from relax_plugin.world_model.model import WorldModel
from relax_plugin.world_model.proposals import Imagination, Single
from relax_plugin.world_model.variants import variants_of

ENOUGH = 3e-4  # expected improvement, in changes, below which no further question is worth its row
WATCHED = 32  # proposals of a query that are watched while the model is asked
SAFE = 8  # further ones, the likeliest to be valid, should the others fail
KEPT_PART = 0.67  # of a change, between what does and what may not, that is kept when it is shortened
LEAST_ROOM = 0.02  # share of the whole way below which a change is not shortened
AROUND = 2  # most promising proposals whose variants join, beside those of the best answer
URGENCY = 1.0  # how much more, in changes, any valid answer is worth with each question that found none
MENDED = 32  # proposals of a query that break a rule and are mended, and as many mended ones that join


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
        self.keys = self.proposals.keys()
        self.asked = np.zeros((len(problem), 0), dtype=np.int64)  # keys of what each query asked; 0: nothing
        self.varied = np.zeros((len(problem), 0), dtype=bool)  # whether its variants have been looked at

    @classmethod
    def begin(cls, world: WorldModel, problem: Problem, moves: Moves) -> "Hunt":
        imagination = Imagination(world, problem, moves)
        hunt = cls(world, problem, Belief.begin(problem.space, world.error, imagination.correction))
        hunt._watch_imagined(imagination)
        return hunt

    def imagine(self, moves: Moves) -> None:
        """Look again at what can be imagined."""
        self._watch_imagined(Imagination(self.world, self.problem, moves))

    def _watch_imagined(self, imagination: Imagination) -> None:
        self.watch(imagination.propose())
        if self.problem.rules is not None:
            self.watch(self._joint_moves(imagination.single))

    def of(self, queries: Integers) -> "Hunt":
        """The hunt for some of the queries."""
        part = Hunt(self.world, self.problem.part(queries), self.belief.of(queries))
        for name in ("rows", "closest", "count", "distance", "gap", "improved", "questions", "varied", "keys", "asked"):
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
        proposals = self._admitted(proposals)
        fresh, keys = self.belief.tell(proposals), proposals.keys()
        fresh.gap[(keys[:, :, None] == self.asked[:, None]).any(axis=2)] = np.inf
        told = self.told.beside(fresh)
        varied = np.concatenate([self.varied, np.zeros(proposals.gap.shape, dtype=bool)], axis=1)
        both = self.proposals.beside(proposals)
        worth, others = self._improvement(both, told), -told.gap
        least = told.gap.min(axis=1, initial=0.0)[:, None]
        position = largest(np.where(worth > 0, worth, least - told.gap), WATCHED)  # what is worth nothing: by its gap
        others[np.arange(len(others))[:, None], position] = -np.inf
        position = np.concatenate([position, largest(others, SAFE)], axis=1)
        self.proposals, self.told = both.at(position), told.at(position)
        self.varied = picked(varied, position)
        self.keys = picked(np.concatenate([self.keys, keys], axis=1), position)

    def _admitted(self, proposals: Changes) -> Changes:
        """The proposals without those that may not be delivered: no row is spent on them.

        Of those that break a rule, such as mend it by a change of another column join.
        """
        if not self.problem.conditions:
            return proposals
        query, position = np.nonzero(np.isfinite(proposals.gap))
        rows = proposals.of(query).rows(self.problem.start[query], position)
        barred = np.flatnonzero(~self.problem.admits(rows, query))
        gap = proposals.gap[query[barred], position[barred]]
        proposals.gap[query[barred], position[barred]] = np.inf
        if self.problem.rules is None or len(barred) == 0:
            return proposals
        promise = self._promise(gap, (rows[barred] != self.problem.start[query[barred]]).sum(axis=1))
        order = barred[np.lexsort((gap, promise, query[barred]))]
        order = order[rank_within(query[order]) < MENDED]
        return proposals.beside(self._mended(rows[order], query[order]))

    def _joint_moves(self, single: Single) -> Changes:
        """Proposals made of every single move that breaks a rule: the other columns of the rule go along."""
        assert self.problem.rules is not None
        query, move = np.nonzero(single.allowed)
        rows = self.problem.start[query]
        rows[np.arange(len(rows)), single.feature[move]] = single.value[move]
        broken = ~self.problem.rules.holds(rows, query)
        return self._mended(rows[broken], query[broken])

    def _mended(self, rows: Values, query: Integers) -> Changes:
        """Proposals that keep the rules, made of rows that break one: the most promising of each query."""
        assert self.problem.rules is not None
        rows, parent = self.problem.rules.mended(rows, query, self.problem.limits)
        query = query[parent]
        count = (rows != self.problem.start[query]).sum(axis=1)
        sound = np.flatnonzero((count <= self.problem.max_changes) & (count > 0))
        sound = sound[self.problem.admits(rows[sound], query[sound])]
        rows, query, count = rows[sound], query[sound], count[sound]
        gap = self.world.gap(self.problem.goal.take(query), rows) if len(rows) else np.zeros(0)
        order = np.lexsort((self.problem.distance(rows, query), self._promise(gap, count), query))
        place = rank_within(query[order])
        order, place = order[place < MENDED], place[place < MENDED]
        width = int(place.max(initial=-1)) + 1
        found = np.repeat(self.problem.start[:, None], width, axis=1)
        gaps = np.full(found.shape[:2], np.inf)
        found[query[order], place], gaps[query[order], place] = rows[order], gap[order]
        return Changes.to_rows(self.problem.space, self.problem.start, found, gaps, self.problem.max_changes)

    def _promise(self, gap: Floats, count: Integers) -> Floats:
        """The less, the more promising: of rows that seem valid the fewest changes first, the others behind."""
        return np.where(gap < 0, count, count + 1.0 + gap / self.world.error)

    def ask(self, questions: int, most: int | None = None) -> None:
        """Ask up to so many questions a query, while one is worth it, and until it has asked `most` in all."""
        every = np.arange(len(self.problem))
        for turn in range(questions):
            if turn:
                self._look_around()
            worth = self._improvement(self.proposals, self.told)
            position = worth.argmax(axis=1)
            worthwhile = worth[every, position] > ENOUGH
            hopeless = ~worthwhile & (self.questions == 0)  # such a query asks once: what comes closest is shown
            position = np.where(hopeless, self.told.gap.argmin(axis=1), position)
            worthwhile |= hopeless & np.isfinite(self.told.gap[every, position])
            who = np.flatnonzero(worthwhile if most is None else worthwhile & (self.questions < most))
            if len(who) == 0:
                break
            self._ask_about(who, position[who])

    def insist(self, questions: int) -> None:
        """Ask what is left of so many questions about fewer changes, the nearest to the goal, whatever is believed."""
        every = np.arange(len(self.problem))
        for _ in range(questions):
            gap = np.where(self.proposals.count < self.count[:, None], self.told.gap, np.inf)
            position = gap.argmin(axis=1)
            able = np.isfinite(self.count) & (self.questions < questions)
            who = np.flatnonzero(np.isfinite(gap[every, position]) & able)
            if len(who) == 0:
                break
            self._ask_about(who, position[who])

    def shorten(self, questions: int) -> None:
        """Spend what is left of so many questions on taking back parts of the best answers' changes, the longest first.

        What is tried lies between the value that does and the nearest one that failed, at first the query's own.
        """
        space, every = self.problem.space, np.arange(len(self.problem))
        feature, value = listed(self.rows, self.problem.start, self.problem.start.shape[1])
        places = max(int((feature >= 0).sum(axis=0).max(initial=0)), 1)
        feature, value = feature[:places], value[:places]
        failed = self.problem.start[every, feature]
        fixed = (feature < 0) | space.jumps(feature, failed, value) | np.isinf(self.count)
        while True:
            room = np.where(fixed, 0.0, np.abs(value - failed) / space.scale[feature] * space.prices[feature])
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
        rows = self.problem.mended(rows, who)
        expected = self.gap[who] + self.world.gap(goal, rows) - before
        met = np.zeros(len(who), dtype=bool)
        hopeful = expected < self.world.error  # of the others imagination is sure that they miss it
        if self.problem.rules is not None:  # what goes along may lead farther away
            hopeful &= self.problem.distance(rows, who) < self.distance[who]
            hopeful &= (rows != self.problem.start[who]).sum(axis=1) <= self.count[who]
        hopeful[hopeful] = self.problem.admits(rows[hopeful], who[hopeful])
        asked = np.flatnonzero(hopeful)
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
        one = self.proposals.of(who).at(position[:, None])
        rows = with_changes(self.problem.start[who], one.feature[:, :, 0], one.value[:, :, 0])
        answer, goal = self.problem.ask(rows, who), self.problem.goal.take(who)
        met, gap = goal.met(answer), goal.gap(answer)
        self.belief.learn(who, position, self.world.targets.in_units(gap), self.proposals, self.told)
        keys = np.zeros(len(self.problem), dtype=np.int64)
        keys[who] = self.keys[who, position]
        self.asked = np.concatenate([self.asked, keys[:, None]], axis=1)
        self.told.gap[(self.keys == keys[:, None]) & (keys[:, None] != 0)] = np.inf  # once is enough
        self.improved[who] |= self._note(
            who, rows, answer, met, gap, one.count[:, 0], one.distance(self.problem.space)[:, 0]
        )

    def _note(
        self, who: Integers, rows: Values, answer: Answer, met: Booleans, gap: Floats, count: Integers, distance: Floats
    ) -> Booleans:
        """Keep what is better than the best answer so far, which is told, or an attempt that came closer than any."""
        closer = distance < self.distance[who]
        if not self.problem.by_distance:
            closer = (count < self.count[who]) | ((count == self.count[who]) & closer)
        better = met & closer
        winner = who[better]
        nearer = ~met & np.isinf(self.count[who]) & (gap < self.closest[who])
        kept = better | nearer
        self.rows[who[kept]], self.closest[who[nearer]] = rows[kept], gap[nearer]
        if self.scores is not None and answer.scores is not None:
            self.scores[who[kept]] = answer.scores[kept]
        self.count[winner], self.distance[winner] = count[better], distance[better]
        self.gap[winner] = self.world.targets.in_units(gap[better])
        return np.asarray(better)

    def _improvement(self, proposals: Changes, told: Told) -> Floats:
        distance, error = proposals.distance(self.problem.space), self.belief.errors(told)
        urgency = URGENCY * self.questions[:, None]
        best, by_distance = (self.count, self.distance), self.problem.by_distance
        return expected_improvement(told.gap, error, proposals.count, distance, *best, urgency, by_distance)

    def _look_around(self) -> None:
        """Watch variants of the best answers and of the most promising proposals too, of each once."""
        worth = self._improvement(self.proposals, self.told)
        top = largest(worth, AROUND)
        fresh = ~picked(self.varied, top) & (picked(worth, top) > ENOUGH)
        row, which = np.nonzero(fresh)
        self.varied[row, top[row, which]] = True
        feature, value = (array[:, row, top[row, which]] for array in (self.proposals.feature, self.proposals.value))
        best = np.flatnonzero(self.improved)
        self.improved[:] = False
        query = np.concatenate([row, best])
        if len(query) == 0:
            return
        if len(best):
            best_feature, best_value = listed(self.rows[best], self.problem.start[best], len(feature))
            feature = np.concatenate([feature, best_feature], axis=1)
            value = np.concatenate([value, best_value], axis=1)
        order = np.argsort(query, kind="stable")
        query, feature, value = query[order], feature[:, order], value[:, order]
        self.watch(self._as_proposals(query, variants_of(self.world, self.problem, query, feature, value)))

    def changes_to(self, rows: Values) -> Changes:
        """Complete answers, one a query, as proposals; none where a row has too many changes, or is the query."""
        start, most = self.problem.start, self.problem.max_changes
        gap, changes = self.world.gap(self.problem.goal, rows), (rows != start).sum(axis=1)
        gap = np.where((changes > 0) & (changes <= most), gap, np.inf)
        return Changes.to_rows(self.problem.space, start, rows[:, None], gap[:, None], most)

    def _as_proposals(self, query: Integers, variants: Changes) -> Changes:
        """Variants of several proposals of a query side by side."""
        number = variants.gap.shape[1]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        made = Changes.none(len(variants.feature), len(self.problem), number * (int(place.max()) + 1))
        at = (place * number)[:, None] + np.arange(number)
        made.feature[:, query[:, None], at], made.value[:, query[:, None], at] = variants.feature, variants.value
        made.length[:, query[:, None], at], made.gap[query[:, None], at] = variants.length, variants.gap
        return made
