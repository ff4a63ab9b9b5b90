"""The search in a tree ensemble: few and short changes by the exact scores of all single changes, nothing asked.

All queries are worked on side by side. A beam adds the change that brings a row nearest to its goal until one change
more meets it; then changes of the best row found are taken back, one or two at a time, and what all single changes of
the rest can do in their place is looked at. A row that was looked at once is not looked at again.
"""

from dataclasses import dataclass, field

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.trees.look import Look

BEAM = 3
NONE = 10**6  # changes of a query without an answer
SHORTER = 1e-12  # by what a distance must fall to count
ROUNDS = 20  # of polish, at most
AT_ONCE = 200_000  # rows looked at side by side: bounds the memory


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

    def better(self, changes: Integers, far: Floats, query: Integers, by_distance: bool) -> Booleans:
        """Whether others of the queries are better."""
        shorter = far < self.far[query] - SHORTER
        if by_distance:
            return np.asarray(shorter)
        return np.asarray((changes < self.changes[query]) | ((changes == self.changes[query]) & shorter))


@dataclass
class TreeSearch:
    """Searches for some queries by a look at single changes.

    Parameters
    ----------
    look : Look
    first : array (features + 1,)
        The first cell of each feature.
    home : array (queries, features)
        The rows of the masks' table that the queries are in.
    far : array (queries, cells)
        What each query pays for each cell.
    most : int
        Changes that an answer may have.
    by_distance : bool
        Whether the least distance is wanted, and not the fewest changes first.
    thorough : bool
        Whether one and two changes are found for sure, and the nearest of them, and more is tried beyond.
    width : int
        Rows that each step of the beam goes on from.
    """

    look: Look
    first: Integers
    home: Array
    far: Floats
    most: int
    by_distance: bool = False
    thorough: bool = False
    width: int = BEAM
    answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        n, cells = self.far.shape
        self.answers = Answers(
            *(self.home.copy(), np.full(n, NONE), np.full(n, np.inf), np.full(n, -np.inf)),
            *(self.home.copy(), np.full(n, -np.inf), np.full(n, NONE)),
        )
        codes = np.random.default_rng(0).integers(1, 2**63, cells + self.home.shape[1], dtype=np.uint64)
        self.codes = codes  # of each row of the table; a row of cells has the exclusive or of them
        self.seen = np.zeros(0, dtype=np.uint64)

    def search(self, near: tuple[Array, Integers] | None = None) -> Answers:
        """The answers of all queries; with training rows, as rows of the table and whose they are, for what is left."""
        everyone = np.arange(len(self.home))
        self._beam(everyone, np.zeros(len(everyone)))
        if near is not None:
            self._return_from(*near)
        if self.by_distance:
            self._beam_by_distance(everyone[self.answers.changes < NONE])
        self._polish(everyone[(self.answers.changes > 1) & (self.answers.changes < NONE)])
        if self.thorough:
            self._all_of_two(everyone[self.answers.changes > 1] if self.most > 1 else everyone[:0])
            self._along_one(everyone[(self.answers.changes > 1) & (self.answers.changes < NONE)])
            self._polish(everyone[(self.answers.changes > 1) & (self.answers.changes < NONE)])
        return self.answers

    # Steps.

    def _beam_by_distance(self, queries: Integers) -> None:
        """Once more for less than the distance that is known: of misses the share of it that they leave counts, too."""
        if len(queries) == 0:
            return
        nothing = np.zeros(len(queries))
        gap = self.look.best_changes(self.home[queries], queries, nothing, 1, np.zeros(len(self.home))).itself
        price = np.zeros(len(self.home))
        price[queries] = -gap / self.answers.far[queries]
        self.seen = self.seen[:0]
        self._beam(queries, price)

    def _beam(self, queries: Integers, price: Floats) -> None:
        """From the queries on: the best misses of each step; until an answer, or as far as one may be shorter."""
        rows, owner = self.home[queries], queries
        for changes in range(1, self.most + 1):
            if len(owner) == 0:
                return
            spent = self._spent(rows, owner)
            self._mark(rows, owner)
            top, worth = self._look(rows, owner, spent, self.answers.far[owner] - spent, price)
            self._note_misses(rows, owner, top, worth)
            if changes == self.most:
                return
            base, place = np.nonzero(top >= 0)
            if not self.by_distance or not price.any():
                open_ = self.answers.changes[owner[base]] == NONE
                base, place = base[open_], place[open_]
            cell, value = top[base, place], worth[base, place]
            made, whose = self._with(rows[base], cell), owner[base]
            key = self._keys(made, whose)
            order = np.lexsort((-value, whose))
            order = order[np.sort(np.unique(key[order], return_index=True)[1])]
            rank = np.arange(len(order)) - np.searchsorted(whose[order], whose[order])
            order = order[rank < self.width]
            rows, owner = made[order], whose[order]

    def _polish(self, queries: Integers) -> None:
        """Take one change back, of three and more also two, and look what single changes can do in their place."""
        for _ in range(ROUNDS):
            if len(queries) == 0:
                return
            rows, owner = self._shortened(queries)
            new = ~np.isin(self._keys(rows, owner), self.seen)
            rows, owner = rows[new], owner[new]
            self._mark(rows, owner)
            before = self.answers.changes[owner], self.answers.far[owner]
            known = self.answers.changes.copy(), self.answers.far.copy()
            spent = self._spent(rows, owner)
            fewer = (rows != self.home[owner]).sum(axis=1) + 1 < before[0]
            room = np.where(fewer & (not self.by_distance), np.inf, before[1] - spent)
            self._look(rows, owner, spent, room, np.zeros(len(self.home)))
            queries = queries[
                (self.answers.changes[queries] != known[0][queries]) | (self.answers.far[queries] != known[1][queries])
            ]

    def _shortened(self, queries: Integers) -> tuple[Array, Integers]:
        """The answers without each of their changes, and without each two of three and more."""
        answer, home = self.answers.rows[queries], self.home[queries]
        query, feature = np.nonzero(answer != home)
        owner, rows = [query], [answer[query]]
        rows[0][np.arange(len(query)), feature] = home[query, feature]
        changed = answer != home
        count = changed.sum(axis=1)
        many = np.flatnonzero(count > 2)
        if len(many):
            places = np.argsort(~changed[many], axis=1, kind="stable")[:, : count.max()]  # the changed ones first
            one, two = np.triu_indices(places.shape[1], 1)
            which, pair = np.nonzero(two < count[many, None])
            both, place = answer[many[which]], np.arange(len(which))
            for part in (one[pair], two[pair]):
                feature = places[which, part]
                both[place, feature] = home[many[which], feature]
            owner.append(many[which])
            rows.append(both)
        return np.concatenate(rows), queries[np.concatenate(owner)]

    def _return_from(self, near: Array, owner: Integers) -> None:
        """Put back the cells of training rows of the goal, each time the one that keeps the row nearest to the goal."""
        left = self.answers.changes[owner] == NONE
        rows, owner = near[left].copy(), owner[left]
        active = np.arange(len(rows))
        while len(active):
            feature, gap = self.look.best_returns(rows[active], owner[active])
            active = active[gap > 0]
            feature = feature[gap > 0]
            rows[active, feature] = self.home[owner[active], feature]
        changes = (rows != self.home[owner]).sum(axis=1)
        spent = self._spent(rows, owner)
        np.minimum.at(self.answers.enough, owner, np.where(changes > self.most, changes, NONE))
        some = (changes > 0) & (changes <= self.most) & np.isfinite(spent)
        rows, owner = rows[some], owner[some]
        if len(rows) == 0:
            return
        # Where the row met no goal to begin with, by its nearest cells, putting back has not made it one that does.
        gap = self.look.best_changes(rows, owner, np.zeros(len(rows)), 1, np.zeros(len(self.home))).itself
        met = gap > 0
        self._offer(rows[met], owner[met], changes[some][met], spent[some][met], gap[met])

    def _all_of_two(self, queries: Integers) -> None:
        """The nearest of two changes: the cheaper one of them costs at most half of what is known already."""
        two = (self.answers.changes[queries] == 2) | self.by_distance
        most = np.where(two, 0.5 * self.answers.far[queries], np.inf)
        query, cell = np.nonzero(self.far[queries] < most[:, None])
        for first in range(0, len(query), AT_ONCE):
            owner, place = queries[query[first : first + AT_ONCE]], cell[first : first + AT_ONCE]
            rows, spent = self._with(self.home[owner], place), self.far[owner, place]
            fewer = (self.answers.changes[owner] > 2) & (not self.by_distance)
            room = np.where(fewer, np.inf, self.answers.far[owner] - spent)
            self._look(rows, owner, spent, room, np.zeros(len(self.home)))

    def _along_one(self, queries: Integers) -> None:
        """Move one change along its feature, take another one back, and look what can be done in its place."""
        for _ in range(2):
            before = self.answers.far[queries].copy()
            answer, home = self.answers.rows[queries], self.home[queries]
            changed = answer != home
            query, kept, gone = np.nonzero(
                changed[:, :, None] & changed[:, None, :] & ~np.eye(home.shape[1], dtype=bool)
            )
            for first in range(0, len(query), 512):
                some = slice(first, first + 512)
                self._move(queries[query[some]], answer[query[some]], kept[some], gone[some])
            queries = queries[self.answers.far[queries] < before - SHORTER]

    def _move(self, owner: Integers, answer: Array, kept: Integers, gone: Integers) -> None:
        place = np.arange(len(owner))
        rest = answer.copy()
        rest[place, gone] = self.home[owner, gone]
        rest[place, kept] = self.home[owner, kept]
        spent = self._spent(rest, owner)
        room = self.answers.far[owner] - spent
        cells = np.arange(self.far.shape[1])
        own = self.home[owner, kept][:, None]
        side = (cells < own) == (answer[place, kept][:, None] < own)
        mine = self.first[kept][:, None] <= cells
        mine &= cells < self.first[kept + 1][:, None]
        row, cell = np.nonzero(
            mine & side & (self.far[owner] < room[:, None]) & (cells != answer[place, kept][:, None])
        )
        rows = self._with(rest[row], cell)
        paid = spent[row] + self.far[owner[row], cell]
        self._look(rows, owner[row], paid, self.answers.far[owner[row]] - paid, np.zeros(len(self.home)))

    # What a look tells.

    def _look(self, rows: Array, owner: Integers, spent: Floats, room: Floats, price: Floats) -> tuple[Array, Floats]:
        """Offer what single changes of the rows reach, and the rows themselves; the best misses."""
        if len(rows) == 0:
            return np.zeros((0, self.width), dtype=np.int64), np.zeros((0, self.width))
        changes = self.look.best_changes(rows, owner, room, self.width, price)
        count = (rows != self.home[owner]).sum(axis=1)
        enough = np.flatnonzero((changes.itself > 0) & (count > 0))
        self._offer(rows[enough], owner[enough], count[enough], spent[enough], changes.itself[enough])
        met = np.flatnonzero(changes.cell >= 0)
        far = spent[met] + changes.far[met]
        self._offer(self._with(rows[met], changes.cell[met]), owner[met], count[met] + 1, far, changes.gap[met])
        return changes.top, changes.worth

    def _note_misses(self, rows: Array, owner: Integers, top: Array, worth: Floats) -> None:
        place = np.arange(len(rows))
        best = worth.argmax(axis=1)
        order = np.lexsort((-worth[place, best], owner))
        first = order[np.unique(owner[order], return_index=True)[1]]
        first = first[worth[first, best[first]] > self.answers.worth[owner[first]]]
        made = self._with(rows[first], top[first, best[first]])
        self.answers.missed[owner[first]], self.answers.worth[owner[first]] = made, worth[first, best[first]]

    def _offer(self, rows: Array, owner: Integers, changes: Integers, far: Floats, gap: Floats) -> None:
        """Take over what is better than the best row of its query."""
        keys = (changes, far, owner) if self.by_distance else (far, changes, owner)
        order = np.lexsort(keys)
        first = order[np.unique(owner[order], return_index=True)[1]]
        first = first[self.answers.better(changes[first], far[first], owner[first], self.by_distance)]
        self.answers.rows[owner[first]] = rows[first]
        self.answers.changes[owner[first]], self.answers.far[owner[first]] = changes[first], far[first]
        self.answers.gap[owner[first]] = gap[first]

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

    def _keys(self, rows: Array, owner: Integers) -> Array:
        whose = owner.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return np.asarray(np.bitwise_xor.reduce(self.codes[rows], axis=1) ^ whose)

    def _mark(self, rows: Array, owner: Integers) -> None:
        self.seen = np.concatenate([self.seen, self._keys(rows, owner)])
