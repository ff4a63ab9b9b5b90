"""Probed boxes: all changed cells of an answer together, of any model, by asking it at corners and random rows.

A box lies within what its cells may be alone. First the whole of that is tried, and smaller and smaller shares of it;
then each side is moved out as far as it goes; then random rows test the box, which ends before those that are wrong.
"""

from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.regions.probed import Tested
from relax_plugin.regions.question import Question
from relax_plugin.regions.spans import Spans

PROBES = 24  # rows that are asked about a share of the box, half of them corners
SHARES = 6  # bisections of the share that is tried first
PUSHES = 2  # attempts to move a side further out: all the way, then half of it
ROUNDS = 8  # of random rows, as long as some are wrong
KEPT = 0.95  # of the way to a wrong row: where one is wrong, others next to it are
OTHER_CATEGORY = 0.75  # how far away another category counts, of the way to the end of the box


def probe_boxes(question: Question, alone: Spans, points: int, rng: np.random.Generator) -> Tested:
    """The joint regions of answers, within what each of their cells may be `alone`."""
    return Growth(question, alone, rng).tested(points)


class Growth:
    """Boxes around answers that grow side by side, all answers at once."""

    def __init__(self, question: Question, alone: Spans, rng: np.random.Generator) -> None:
        self.question, self.alone, self.rng = question, alone, rng
        self.centre = question.values
        self.share = np.zeros((2, *self.centre.shape))  # of the way from the answer to the low and the high end
        self.choices = Spans.of_points(question.space, self.centre).choices
        several = (alone.low < alone.high).sum(axis=1) + self._more_categories().sum(axis=1)
        self.some = np.flatnonzero(several)
        self.near = self._nearer_ends()

    def tested(self, points: int) -> Tested:
        self._find_share()
        for side in (0, 1):
            for rank in range(int((self.alone.low < self.alone.high).sum(axis=1).max(initial=0))):
                self._push(side, rank)
        self._add_categories()
        asked, wrong = self._test(points)
        return Tested(self.spans(), asked, wrong, np.zeros(len(self.question), dtype=bool))

    def spans(self, share: Floats | None = None) -> Spans:
        """The boxes as they are, or with other shares of the way to the ends; ends are values that cells can hold."""
        share = self.share if share is None else share
        grid = self.question.space.grid
        ends = []
        for side, end, inwards in ((0, self.alone.low, 1), (1, self.alone.high, -1)):
            bound = self.centre + share[side] * (end - self.centre)
            held = grid.first_inside(bound, inwards)
            held = np.where(share[side] == 1, end, np.where(share[side] == 0, self.centre, held))
            ends.append(np.where(self.question.open, held, self.centre))
        low, high = np.minimum(ends[0], self.centre), np.maximum(ends[1], self.centre)
        return Spans(self.question.space, low, high, self.choices)

    def _nearer_ends(self) -> Booleans:
        """Whether the high end of each number is nearer to missing the goal than the low one (answers, features).

        By the model's scores at the two ends; where it gives none, an end that stops short of what is allowed is.
        """
        short = self.alone.high < self.question.span[1]
        if not self.question.blackbox.has_scores:
            return short
        answer, feature = np.nonzero(self.alone.low < self.alone.high)
        rows = np.concatenate([self.centre[answer]] * 2)
        ends = [end[answer, feature] for end in (self.alone.low, self.alone.high)]
        rows[np.arange(len(rows)), np.tile(feature, 2)] = np.concatenate(ends)
        below, above = np.split(self.question.gap(rows, np.tile(answer, 2)), 2)
        short[answer, feature] = np.where(below == above, short[answer, feature], above > below)
        return short

    def _more_categories(self) -> Booleans:
        return self.alone.choices & ~self.choices

    def _find_share(self) -> None:
        good, bad = np.zeros(len(self.question)), np.full(len(self.question), np.nan)
        tried = np.ones(len(self.question))
        left = self.some
        for _ in range(SHARES):
            if len(left) == 0:
                break
            held = self._probe(self.spans(np.broadcast_to(tried[:, None], self.share.shape)), left)
            good[left], bad[left] = np.where(held, tried[left], good[left]), np.where(held, bad[left], tried[left])
            left = left[good[left] < 1]
            tried[left] = 0.5 * (good[left] + bad[left])
        self.share[:] = good[:, None]

    def _push(self, side: int, rank: int) -> None:
        wide = self.alone.low < self.alone.high
        place = (np.cumsum(wide, axis=1) == rank + 1) & wide
        end = self.alone.high if side else self.alone.low
        able = (place & (self.share[side] < 1) & (end != self.centre)).any(axis=1)
        left, feature = np.flatnonzero(able), place.argmax(axis=1)
        aim = np.ones(len(self.question))
        for _ in range(PUSHES):
            if len(left) == 0:
                return
            share = self.share.copy()
            share[side, left, feature[left]] = aim[left]
            now, more = self.spans(), self.spans(share)
            # Only what is new has to hold: from the present side on.
            slab = replace(more, low=more.low.copy(), high=more.high.copy())
            edge = (now.high if side else now.low)[left, feature[left]]
            (slab.low if side else slab.high)[left, feature[left]] = edge
            held = self._probe(slab, left)
            self.share[side, left[held], feature[left[held]]] = aim[left[held]]
            left = left[~held]
            aim[left] = 0.5 * (self.share[side, left, feature[left]] + aim[left])

    def _add_categories(self) -> None:
        space = self.question.space
        for j in np.flatnonzero(space.is_categorical):
            first, last = space.category_offsets[j : j + 2]
            answer, code = np.nonzero(self._more_categories()[:, first:last])
            if len(answer) == 0:
                continue
            box = self.spans().take(answer)
            box.choices[:, first:last] = code[:, None] == np.arange(last - first)
            owner = np.repeat(np.arange(len(answer)), PROBES)
            rows = self._rows(box, owner, answer[owner])
            rows[:, j] = code[owner]
            held = self.question.holds(rows, answer[owner]).reshape(-1, PROBES).all(axis=1)
            self.choices[answer[held], first + code[held]] = True

    def _test(self, points: int) -> tuple[Integers, Integers]:
        """Random rows; a wrong one is left out by the side that it is nearest to."""
        count = len(self.question)
        asked, wrong = np.zeros(count, np.int64), np.zeros(count, np.int64)
        left = self.some
        for _ in range(ROUNDS):
            if len(left) == 0 or points == 0:
                break
            box = self.spans()
            owner = np.repeat(left, points)
            rows = box.drawn(owner, self.rng)
            held = self.question.holds(rows, owner)
            asked[left] += points
            np.add.at(wrong, owner[~held], 1)
            self._leave_out(rows[~held], owner[~held], box)
            left = np.unique(owner[~held])
        return asked, wrong

    def _leave_out(self, rows: Floats, owner: Integers, box: Spans) -> None:
        space = self.question.space
        off = rows - self.centre[owner]
        side = (off > 0).astype(int)
        extent = np.where(side, box.high[owner] - self.centre[owner], self.centre[owner] - box.low[owner])
        way = np.abs(off) / np.where(extent > 0, extent, 1.0)
        way = np.where(space.is_categorical, OTHER_CATEGORY * (off != 0), way)
        for row, feature in enumerate(way.argmax(axis=1)):
            answer = owner[row]
            if space.is_categorical[feature]:
                self.choices[answer, space.category_offsets[feature] + int(rows[row, feature])] = False
                continue
            end = (self.alone.high if side[row, feature] else self.alone.low)[answer, feature]
            reach = (rows[row, feature] - self.centre[answer, feature]) / (end - self.centre[answer, feature])
            own = self.share[side[row, feature], answer]
            own[feature] = min(own[feature], KEPT * reach)

    def _probe(self, spans: Spans, left: Integers) -> Booleans:
        owner = np.repeat(left, PROBES)
        return np.asarray(self.question.holds(self._rows(spans, owner, owner), owner).reshape(-1, PROBES).all(axis=1))

    def _rows(self, spans: Spans, owner: Integers, answer: Integers) -> Floats:
        """Rows to ask, PROBES of each span in turn: corners first, then random ones; `answer` is whose span it is."""
        turn = np.arange(len(owner)) % PROBES
        corners = 2 * turn < PROBES
        rows = spans.drawn(owner, self.rng)
        wide = (spans.low < spans.high)[owner[corners]]
        upper = self._sides(wide, self.near[answer[corners]], turn[corners])
        rows[corners] = spans.at_corners(owner[corners], upper, self.rng)
        return rows

    def _sides(self, wide: Booleans, near: Booleans, turn: Integers) -> Booleans:
        """Which corners to ask: all where they are few; else the likely worst, and others more or less like it."""
        rank = np.clip(np.cumsum(wide, axis=1) - 1, 0, 30)
        few = 2 ** wide.sum(axis=1) <= PROBES // 2
        mixed = near ^ (self.rng.random(wide.shape) < turn[:, None] / PROBES)
        return np.where(few[:, None], (turn[:, None] >> rank) & 1 == 1, mixed)
