"""The search in a tree ensemble: few and short changes by the exact scores of all single changes, nothing asked.

All queries are worked on side by side. A beam adds the change that brings a row nearest to its goal until one change
more meets it. A second beam asks of each change what it brings for its distance, which often ends nearer. Then changes
of the best row are taken back, one or two at a time, and what all single changes of the rest can do in their place is
looked at. A row that was looked at once is not looked at again.
"""

from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.trees.look import Changes, Look

BEAM = 3
NONE = 10**6  # changes of a query without an answer
SHORTER = 1e-12  # by what a distance must fall to count
ROUNDS = 20  # of polish, at most
AT_ONCE = 50_000  # rows looked at side by side, and
FAR_AT_ONCE = 2_000_000  # distances compared: bound the memory


@dataclass
class Answers:
    """The best row so far of each query."""

    rows: Array  # (queries, features) rows of the masks' table
    changes: Integers
    far: Floats
    gap: Floats  # by how much they meet their goals
    missed: Array  # (queries, features) the row nearest to the goal that misses it,
    worth: Floats  # and by how much
    enough: Integers  # the fewest changes of rows that meet the goal with more than are allowed

    @classmethod
    def none(cls, home: Array) -> "Answers":
        far, gap, changes = (np.full(len(home), value) for value in (np.inf, -np.inf, NONE))
        return cls(home.copy(), changes, far, gap, home.copy(), gap.copy(), changes.copy())


class TreeSearch:
    """Searches for some queries by a look at single changes.

    Parameters
    ----------
    look : Look
    most : int
        Changes that an answer may have.
    by_distance : bool
        Whether the least distance is wanted, and not the fewest changes first.
    thorough : bool
        Whether one and two changes are found for sure, and the nearest of them, and more is tried beyond.
    width : int
        Rows that each step of the beam goes on from.
    """

    def __init__(
        self, look: Look, most: int, by_distance: bool = False, thorough: bool = False, width: int = BEAM
    ) -> None:
        self.look, self.most, self.by_distance, self.thorough, self.width = look, most, by_distance, thorough, width
        self.home, self.far, self.first = look.home, look.far, look.masks.table.first
        self.answers = Answers.none(self.home)
        # Each row of the table has a code, and a row of cells the exclusive or of them.
        self.codes = np.random.default_rng(0).integers(1, 2**63, sum(self.far.shape[1:] + self.home.shape[1:]))
        self.seen = np.zeros(0, dtype=np.int64)
        self.price = np.zeros(len(self.home))  # of distance, in what a change adds to the margin

    def search(self, near: tuple[Array, Integers] | None = None) -> Answers:
        """The answers of all queries; with training rows, as rows of the table and whose they are, for what is left."""
        everyone = np.arange(len(self.home))
        start = self._beam(everyone, self.width)
        if near is not None:
            self._return_from(*near)
        better = self._perhaps_better()
        self.price[better] = np.maximum(-start[better], 0.0) / self.answers.far[better]
        self._beam(better, self.width if self.thorough else 1)
        self.price[:] = 0.0
        self._polish(self._perhaps_better())
        if self.thorough and self.most > 1:
            self._pairs_after(self.home[everyone], everyone)
            for _ in range(2):
                rows, owner, gone = self._shortened(self._perhaps_better())
                rows, owner = rows[gone == 2], owner[gone == 2]
                self._pairs_after(rows, owner, self.answers.rows[owner] != rows)
            self._polish(self._perhaps_better())
        return self.answers

    def _perhaps_better(self) -> Integers:
        """The queries with answers that one of two changes or more might better."""
        return np.flatnonzero((self.answers.changes < NONE) & ((self.answers.changes > 1) | self.by_distance))

    # Steps.

    def _beam(self, queries: Integers, width: int) -> Floats:
        """Add the best misses of each step, as far as an answer may be better; returns the margins of the queries."""
        rows, owner, start = self.home[queries], queries, np.zeros(len(self.home))
        for count in range(1, self.most + 1):
            if len(owner) == 0:
                break
            seen = self._look(rows, owner)
            if count == 1:
                start[owner] = seen.itself
            self._mark(rows, owner)
            if not self.price.any():
                self._note_misses(rows, owner, seen)
            if count == self.most:
                break
            known = self.answers.changes[owner]
            open_ = known > count if not self.by_distance else (known == NONE) | (self.price[owner] > 0)
            base, place = np.nonzero((seen.top >= 0) & open_[:, None])
            made, whose, worth = self._with(rows[base], seen.top[base, place]), owner[base], seen.worth[base, place]
            order = np.lexsort((-worth, whose))
            order = order[np.sort(np.unique(self._keys(made, whose)[order], return_index=True)[1])]
            rank = np.arange(len(order)) - np.searchsorted(whose[order], whose[order])
            order = order[rank < width]
            rows, owner = made[order], whose[order]
        return start

    def _polish(self, queries: Integers) -> None:
        """Take one change back, of three and more also two, and look what single changes can do in their place."""
        for _ in range(ROUNDS):
            if len(queries) == 0:
                return
            before = self.answers.rows[queries]
            rows, owner, _ = self._shortened(queries)
            new = ~np.isin(self._keys(rows, owner), self.seen)
            self._look(rows[new], owner[new])
            self._mark(rows[new], owner[new])
            queries = queries[(self.answers.rows[queries] != before).any(axis=1)]

    def _shortened(self, queries: Integers) -> tuple[Array, Integers, Integers]:
        """The answers without one change, or of three and more also two; whose they are, and how many went."""
        answer, home = self.answers.rows[queries], self.home[queries]
        changed = answer != home
        count = changed.sum(axis=1)
        places = np.argsort(~changed, axis=1, kind="stable")[:, : count.max(initial=1)]  # the changed ones first
        one, two = np.triu_indices(places.shape[1])
        query, pair = np.nonzero((two < count[:, None]) & ((one == two) | (count[:, None] > 2)))
        rows, at = answer[query], np.arange(len(query))
        for part in (one[pair], two[pair]):
            feature = places[query, part]
            rows[at, feature] = home[query, feature]
        return rows, queries[query], np.where(one == two, 1, 2)[pair]

    def _return_from(self, near: Array, owner: Integers) -> None:
        """Put back the cells of training rows of the goal, each time the one that keeps the row nearest to the goal."""
        left = self.answers.changes[owner] == NONE
        rows, owner = near[left].copy(), owner[left]
        active = np.arange(len(rows))
        while len(active):
            row, feature = np.nonzero(rows[active] != self.home[owner[active]])
            row = active[row]
            made = rows[row]
            made[np.arange(len(row)), feature] = self.home[owner[row], feature]
            gap = self.look.margins(made, owner[row])
            best = _first(row, -gap)
            best = best[gap[best] > 0]
            active = row[best]
            rows[active] = made[best]
        changes, spent, gap = (
            (rows != self.home[owner]).sum(axis=1),
            self._spent(rows, owner),
            self.look.margins(rows, owner),
        )
        np.minimum.at(self.answers.enough, owner, np.where(changes > self.most, changes, NONE))
        # Where the row met no goal to begin with, by its nearest cells, putting back has not made it one that does.
        some = (changes > 0) & (changes <= self.most) & np.isfinite(spent) & (gap > 0)
        self._offer(rows[some], owner[some], changes[some], spent[some], gap[some])

    def _pairs_after(self, rows: Array, owner: Integers, first_of: Booleans | None = None) -> None:
        """The nearest two changes more: the cheaper one of them costs at most half of what an answer may cost yet.

        The cheaper one is of the features `first_of` (rows, features), by default of all that are unchanged.
        """
        room = self._room(rows, owner, 2)[2]
        first_of = rows == self.home[owner] if first_of is None else first_of
        for base in np.array_split(np.arange(len(rows)), max(1, len(rows) * self.far.shape[1] // FAR_AT_ONCE)):
            row, cell = np.nonzero(self.far[owner[base]] < 0.5 * room[base, None])
            row = base[row]
            some = first_of[row, np.searchsorted(self.first, cell, side="right") - 1]
            row, cell = row[some], cell[some]
            for begin in range(0, len(row), AT_ONCE):
                part, place = row[begin : begin + AT_ONCE], cell[begin : begin + AT_ONCE]
                self._look(self._with(rows[part], place), owner[part])

    # What a look tells.

    def _look(self, rows: Array, owner: Integers) -> Changes:
        """Offer what single changes of the rows reach, and the rows themselves."""
        count, spent, room = self._room(rows, owner, 1)
        seen = self.look.best_changes(rows, owner, room, self.width, self.price)
        enough = np.flatnonzero((seen.itself > 0) & (count > 0))
        self._offer(rows[enough], owner[enough], count[enough], spent[enough], seen.itself[enough])
        met = np.flatnonzero(seen.cell >= 0)
        made, far = self._with(rows[met], seen.cell[met]), spent[met] + seen.far[met]
        self._offer(made, owner[met], count[met] + 1, far, seen.gap[met])
        return seen

    def _room(self, rows: Array, owner: Integers, more: int) -> tuple[Integers, Floats, Floats]:
        """Changes of the rows, their distances, and how far so many changes more may be for better answers."""
        count, spent, known = (rows != self.home[owner]).sum(axis=1), self._spent(rows, owner), self.answers
        room = np.maximum(known.far[owner] - spent, 0.0)
        if not self.by_distance:
            then, best = count + more, known.changes[owner]
            room = np.where(then < best, np.inf, np.where(then > best, 0.0, room))
        return count, spent, room

    def _note_misses(self, rows: Array, owner: Integers, seen: Changes) -> None:
        row, place = np.arange(len(rows)), seen.worth.argmax(axis=1)
        worth = seen.worth[row, place]
        best = _first(owner, -worth)
        best = best[worth[best] > self.answers.worth[owner[best]]]
        self.answers.missed[owner[best]] = self._with(rows[best], seen.top[best, place[best]])
        self.answers.worth[owner[best]] = worth[best]

    def _offer(self, rows: Array, owner: Integers, changes: Integers, far: Floats, gap: Floats) -> None:
        """Take over what is better than the best row of its query."""
        if len(rows) == 0:
            return
        best = _first(owner, *((far, changes) if self.by_distance else (changes, far)))
        whose = owner[best]
        known, shorter = self.answers.changes[whose], far[best] < self.answers.far[whose] - SHORTER
        if not self.by_distance:
            shorter = (changes[best] < known) | ((changes[best] == known) & shorter)
        best, whose = best[shorter], whose[shorter]
        self.answers.rows[whose], self.answers.changes[whose] = rows[best], changes[best]
        self.answers.far[whose], self.answers.gap[whose] = far[best], gap[best]

    # Rows.

    def _with(self, rows: Array, cell: Integers) -> Array:
        """The rows with a cell of one feature each."""
        rows = rows.copy()
        rows[np.arange(len(rows)), np.searchsorted(self.first, cell, side="right") - 1] = cell
        return rows

    def _spent(self, rows: Array, owner: Integers) -> Floats:
        """The distance of the rows from their queries."""
        home = self.home[owner]
        changed = (rows != home) & (rows < self.far.shape[1])
        far = self.far[owner[:, None], np.where(changed, rows, 0)]
        return np.asarray(np.where(changed, far, np.where(rows != home, np.inf, 0.0)).sum(axis=1))

    def _keys(self, rows: Array, owner: Integers) -> Integers:
        return np.asarray(np.bitwise_xor.reduce(self.codes[rows], axis=1) ^ (owner * 0x1E3779B97F4A7C15))

    def _mark(self, rows: Array, owner: Integers) -> None:
        self.seen = np.concatenate([self.seen, self._keys(rows, owner)])


def _first(owner: Integers, *values: Floats | Integers) -> Integers:
    """Of each owner the place of the least value, the first of several values counting most."""
    order = np.lexsort((*values[::-1], owner))
    return np.asarray(order[np.unique(owner[order], return_index=True)[1]])
