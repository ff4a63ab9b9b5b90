"""Masks: a tree ensemble as bits, one for each leaf, by which the scores of all single changes of a row are exact.

The thresholds of a number cut it into cells; of a category each position is one, and to be missing may be one more.
A row of the table says, of a cell, which leaves agree with it, as bits of 64-bit words. ANDed over the features they
leave the leaves that a row reaches; ANDed over all features but one they leave the leaves that a change of this one
reaches, each in a run of cells. So two passes over the words know the score of every cell of every feature.

The table of many deep trees would be large: then groups of trees have tables of their own, in which only the
thresholds of these trees are cells.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.trees.cells import distinct_rows
from relax_plugin.trees.ensemble import Trees

WORD = 64
ALL = ~np.uint64(0)
TABLE_BYTES = 8 << 20  # above, trees are grouped: a table that fits the caches of a core is read much faster
MOST_BYTES = 512 << 20  # of what is kept or made on the way, above which there are no masks
MOST_PACKED = 0xFFFF  # cells up to which the ends of a run share 32 bits
CHUNK_SCORES = 2_000_000  # scores of cells that numpy works on at once


class NoMasksError(Exception):
    """Why a tree ensemble has no masks; the end of a sentence."""


class Table(NamedTuple):
    """The arrays of the masks, as the kernel takes them. A slot is the place of a leaf's bit: 64 * word + bit."""

    bits: Array  # (all words of all rows,) uint64
    at: Array  # (groups, rows) int32: where in `bits` the row of a cell begins
    words: Integers  # (groups + 1,) the first word of each group
    first: Integers  # (features + 1,) the first cell of each feature
    packed: Booleans  # (features,) whether each leaf takes in one run of cells, and `span` has its ends
    span: Array  # (features, slots) uint32: the first cell, and 2^16 times the one after the last; or the set of cells
    run_begin: Integers  # (sets + 1,) the first run of each set
    run_low: Integers  # (runs + 1,) first cell of the feature
    run_high: Integers  # (runs + 1,) the one after the last
    tree: Integers  # (slots,)
    scores: Floats  # (slots, outputs)
    only: Integers  # (slots,) the one output that the leaf scores; -1 if it scores several


@dataclass(frozen=True)
class Masks:
    """The masks of a tree ensemble over a space; its features are the `tested` ones of the space only."""

    trees: Trees
    tested: Integers  # (features,) positions in the space
    table: Table
    missing: Integers  # (features,) the row of a missing number: that of a cell, where a number may become missing
    positions: Integers  # (features,) of categories; 0 for numbers

    @classmethod
    def of(cls, trees: Trees, vanishable: Booleans) -> "Masks":
        """The masks of trees that were read over a space; `vanishable` says which of its numbers may become missing."""
        tested = np.unique(trees.feature[trees.feature >= 0])
        if len(tested) == 0:
            raise NoMasksError("its trees test no feature")
        if 16 * len(trees.leaf_tree) * max(len(tested), 1) > MOST_BYTES:
            raise NoMasksError(f"its {len(trees.leaf_tree):,} leaves over {len(tested):,} features are too many")
        seen = _narrowed(trees, tested)
        positions = np.array([seen.sets[j].shape[1] if j in seen.sets else 0 for j in range(len(tested))])
        vanish = vanishable[tested] & (positions == 0) & (seen.missing_left is not None)
        count = np.where(positions > 0, positions, [len(cuts) + 1 for cuts in seen.cuts])
        first = np.concatenate([[0], np.cumsum(count + vanish)])
        missing = np.where(vanish, first[1:] - 1, first[-1] + np.arange(len(tested)))
        leaves = _Leaves.of(seen, count, vanish)
        table = _table(seen, leaves, _groups(seen, int(positions.sum())), first, missing, positions)
        return cls(seen, tested, table, missing, positions)

    @property
    def cells(self) -> int:
        return int(self.table.first[-1])

    @property
    def outputs(self) -> int:
        return int(self.table.scores.shape[1])

    @cached_property
    def of_difference(self) -> "Masks":
        """Of two scores the second less the first."""
        scores = self.table.scores[:, 1:] - self.table.scores[:, :1]
        return replace(self, table=self.table._replace(scores=scores, only=np.zeros_like(self.table.only)))

    @cached_property
    def owner(self) -> Integers:
        """The feature of each cell."""
        return np.repeat(np.arange(len(self.tested)), np.diff(self.table.first))

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The thresholds below and above each cell of a number; of other cells NaN."""
        low, high = np.full(self.cells, np.nan), np.full(self.cells, np.nan)
        for j, cuts in enumerate(self.trees.cuts):
            if self.positions[j] == 0:
                some = slice(self.table.first[j], self.table.first[j] + len(cuts) + 1)
                low[some], high[some] = np.r_[-np.inf, cuts], np.r_[cuts, np.inf]
        return low, high

    def knows(self, values: Values) -> Booleans:
        """Which rows of the space have a row of the table for each of their cells."""
        values = values[:, self.tested]
        known = ~self.trees.unknown(values)
        gone = self.trees.missing(values)
        refused: Any = True if self.trees.missing_left is None else self.trees.refuses
        return known if refused is None else np.asarray(known & ~(gone & refused).any(axis=1))

    def rows(self, values: Values) -> Integers:
        """The rows of the table for the cells of rows of the space (rows, features)."""
        values = values[:, self.tested]
        gone, rows = self.trees.missing(values), np.empty(values.shape, dtype=np.int64)
        for j, cuts in enumerate(self.trees.cuts):
            own = np.where(gone[:, j], 0.0, values[:, j])
            cell = own.astype(np.int64) if self.positions[j] else np.searchsorted(cuts, own)
            rows[:, j] = np.where(gone[:, j], self.missing[j], self.table.first[j] + cell)
        return rows

    def profile(self, values: Values) -> tuple[Floats, Floats]:
        """The scores of rows (rows, outputs), and of each of them with any one feature in another cell.

        The latter (rows, cells, outputs) are in the order of features and of their cells. What the library adds before
        its first tree, and what it divides by, is left out.
        """
        size = max(1, CHUNK_SCORES // max(self.cells * self.outputs, 1))
        rows = self.rows(values)
        parts = [self.profile_of_rows(rows[i : i + size]) for i in range(0, max(len(rows), 1), size)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def sums(self, rows: Integers) -> Floats:
        """The scores of rows of the table alone (rows, outputs)."""
        table, total = self.table, np.zeros((len(rows), self.outputs))
        for group, (begin, end) in enumerate(zip(table.words[:-1], table.words[1:], strict=True)):
            here = np.full((len(rows), end - begin), ALL)
            for j in range(rows.shape[1]):
                here &= table.bits[table.at[group][rows[:, j], None] + np.arange(end - begin)]
            own, slot = _set_bits(here, begin)
            for output in range(self.outputs):
                total[:, output] += np.bincount(own, table.scores[slot, output], len(rows))
        return total

    def profile_of_rows(self, rows: Integers) -> tuple[Floats, Floats]:
        """The same for rows of the table."""
        table, (n, d), outputs = self.table, rows.shape, self.outputs
        width = self.cells + d  # one place more for each feature, where its last runs end
        total, change = np.zeros((n, outputs)), np.zeros((n * width, outputs))
        for group, (begin, end) in enumerate(zip(table.words[:-1], table.words[1:], strict=True)):
            masks = table.bits[table.at[group][rows.T][:, :, None] + np.arange(end - begin)]  # (features, rows, words)
            others = np.empty_like(masks)
            others[0] = ALL
            for j in range(1, d):
                np.bitwise_and(others[j - 1], masks[j - 1], out=others[j])
            here = others[d - 1] & masks[d - 1]
            after = np.full(here.shape, ALL)
            for j in range(d - 1, -1, -1):
                others[j] &= after
                others[j] ^= here
                after &= masks[j]
            own, reached = _set_bits(here, begin)
            now = np.zeros((n, len(self.trees)), dtype=np.int64)
            now[own, table.tree[reached]] = reached
            place, slot = _set_bits(others.reshape(d * n, end - begin), begin)
            feature, row = place // n, place % n
            before = now[row, table.tree[slot]]
            at = row * width + table.first[feature] + feature
            again, low, high = self._runs(feature, slot)
            for output in range(outputs):
                total[:, output] += np.bincount(own, table.scores[reached, output], n)
                gain = (table.scores[slot, output] - table.scores[before, output])[again]
                places = np.concatenate([at[again] + low, at[again] + high])
                change[:, output] += np.bincount(places, np.concatenate([gain, -gain]), n * width)
        kept = np.delete(np.arange(width), table.first[1:] + np.arange(d))
        scores = np.empty((n, self.cells, outputs))
        change = change.reshape(n, width, outputs)
        for output in range(outputs):
            scores[:, :, output] = np.cumsum(change[:, :, output], axis=1)[:, kept]
        return total, total[:, None] + scores

    def _runs(self, feature: Integers, slot: Integers) -> tuple[Integers, Integers, Integers]:
        """The runs of cells of features with which leaves are met: whose each is, its first cell, and where it ends."""
        table = self.table
        span = table.span[feature, slot].astype(np.int64)
        packed = np.flatnonzero(table.packed[feature])
        others = np.flatnonzero(~table.packed[feature])
        again, low, high = packed, span[packed] & MOST_PACKED, span[packed] >> 16
        if len(others):
            begin = table.run_begin[span[others]]
            count = table.run_begin[span[others] + 1] - begin
            run = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
            again = np.concatenate([again, np.repeat(others, count)])
            low, high = np.concatenate([low, table.run_low[run]]), np.concatenate([high, table.run_high[run]])
        return again, low, high


@dataclass(frozen=True)
class _Leaves:
    """What each leaf takes in: of a number a run of its cells, and whether a missing one; of a category a set."""

    low: Integers  # (leaves, features) the first cell
    high: Integers  # (leaves, features) the one after the last
    gone: Booleans  # (leaves, features) whether it is met by a missing number
    packed: Booleans  # (features,)
    which: Integers  # (leaves, features) its set of cells, where runs are not packed
    runs: tuple[Integers, Integers, Integers]  # see `Table`

    @classmethod
    def of(cls, trees: Trees, count: Integers, vanish: Booleans) -> "_Leaves":
        shape = trees.boxes[0].shape
        low, high = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        gone, which = _met_by_missing(trees), np.zeros(shape, dtype=np.int64)
        packed = (count < MOST_PACKED) & ~vanish
        begins = [np.zeros(1, dtype=np.int64)]
        lows: list[Integers] = []
        highs: list[Integers] = []
        sets = runs = 0
        for j, cuts in enumerate(trees.cuts):
            if j in trees.sets:
                packed[j] = False
                inside, which[:, j] = distinct_rows(trees.sets[j])
                edge = np.diff(np.pad(inside, ((0, 0), (1, 1))).astype(np.int8), axis=1)
                owner, first = np.nonzero(edge == 1)
                last = np.nonzero(edge == -1)[1]
            else:
                low[:, j] = np.searchsorted(cuts, trees.boxes[0][:, j], side="right")
                high[:, j] = np.searchsorted(cuts, trees.boxes[1][:, j]) + 1
                low[:, j] = np.minimum(low[:, j], high[:, j])  # of a leaf that no row can reach
                if packed[j]:
                    continue
                kinds, kind = np.unique(
                    np.column_stack([low[:, j], high[:, j], gone[:, j]]), axis=0, return_inverse=True
                )
                which[:, j], owner = kind.ravel(), np.repeat(np.arange(len(kinds)), 2)
                first = np.column_stack([kinds[:, 0], np.full(len(kinds), len(cuts) + 1)]).ravel()
                last = np.column_stack([kinds[:, 1], len(cuts) + 1 + (kinds[:, 2] if vanish[j] else 0)]).ravel()
                some = last > first
                owner, first, last = owner[some], first[some], last[some]
                inside = kinds
            which[:, j] += sets
            begins.append(np.searchsorted(owner, np.arange(1, len(inside) + 1)) + runs)
            sets, runs = sets + len(inside), runs + len(owner)
            lows.append(first)
            highs.append(last)
        one = np.zeros(1, dtype=np.int64)  # more than there are: joblib tells empty arrays from their unpickled copies
        ends = np.concatenate([*lows, one]), np.concatenate([*highs, one])
        return cls(low, high, gone, packed, which, (np.concatenate(begins), *ends))


def _narrowed(trees: Trees, tested: Integers) -> Trees:
    """The trees over the features that they test alone."""
    place = np.full(trees.features + 1, -1)  # the last is that of leaves
    place[tested] = np.arange(len(tested))
    own = {name: getattr(trees, name) for name in ("codes", "known", "refuses")}
    less: dict[str, Any] = {name: None if array is None else array[tested] for name, array in own.items()}
    return replace(trees, feature=place[trees.feature], features=len(tested), **less)


def _met_by_missing(trees: Trees) -> Booleans:
    """Whether each leaf is met by a row without a feature (leaves, features), as far as this feature is concerned."""
    met = np.ones((len(trees.leaf_tree), trees.features), dtype=bool)
    if trees.missing_left is None:
        return met
    node, inside = trees.roots, np.ones((len(trees), trees.features), dtype=bool)
    while len(node):
        ends = trees.feature[node] < 0
        met[trees.leaf[node[ends]]] = inside[ends]
        node, inside = node[~ends], inside[~ends]
        row, feature, left = np.arange(len(node)), trees.feature[node], inside.copy()
        left[row, feature] &= trees.missing_left[node]
        inside[row, feature] &= ~trees.missing_left[node]
        node, inside = np.concatenate([trees.left[node], trees.right[node]]), np.concatenate([left, inside])
    return met


def _groups(trees: Trees, positions: int) -> Integers:
    """The first tree of each group, and the number of trees at the end: as few groups as make the table small."""
    sizes = np.bincount(trees.leaf_tree, minlength=len(trees))
    tests = np.flatnonzero(trees.feature >= 0)
    tree = np.searchsorted(trees.roots, tests, side="right") - 1
    order = np.lexsort((tree, trees.threshold[tests], trees.feature[tests]))  # the tests of a threshold side by side
    feature, threshold = trees.feature[tests][order], trees.threshold[tests][order]
    again = np.r_[False, (feature[1:] == feature[:-1]) & (threshold[1:] == threshold[:-1])]
    count = 1
    while True:
        first = np.linspace(0, len(trees), count + 1).astype(np.int64)
        group = np.searchsorted(first, tree, side="right")[order] - 1
        own = ~(again & np.r_[False, group[1:] == group[:-1]])  # those that are the first of their group
        words = -(-np.add.reduceat(sizes, first[:-1]) // WORD)
        size = 8 * int(words @ (np.bincount(group[own], minlength=count) + 2 * trees.features + positions))
        if size <= TABLE_BYTES or count == len(trees):
            break
        count = min(2 * count, len(trees))
    if size + 4 * trees.features * WORD * int(words.sum()) > MOST_BYTES:
        raise NoMasksError(f"its {len(trees.leaf_tree):,} leaves over {trees.features:,} features are too many")
    return first


def _table(
    trees: Trees, leaves: _Leaves, groups: Integers, first: Integers, missing: Integers, positions: Integers
) -> Table:
    edges = np.searchsorted(trees.leaf_tree, groups)  # the first leaf of each group
    words = np.concatenate([[0], np.cumsum(-(-np.diff(edges) // WORD))])
    slots = WORD * int(words[-1])
    group = np.repeat(np.arange(len(groups) - 1), np.diff(edges))
    slot = np.arange(len(trees.leaf_tree)) - edges[group] + WORD * words[group]
    at = np.zeros((len(groups) - 1, int(max(first[-1], missing.max(initial=0) + 1))), dtype=np.int32)
    bits, size = [], 0
    for number in range(len(groups) - 1):
        own = slice(edges[number], edges[number + 1])
        width = int(words[number + 1] - words[number])
        for j, cuts in enumerate(trees.cuts):
            cell = slice(first[j], first[j + 1])
            if positions[j]:
                met, place = trees.sets[j][own].T, np.arange(positions[j])
            else:
                low, high = leaves.low[own, j], leaves.high[own, j]
                inner = np.unique(np.concatenate([[0], low, high]))
                inner = inner[inner <= len(cuts)]  # where runs of cells begin that this group does not tell apart
                place = np.searchsorted(inner, np.arange(len(cuts) + 1), side="right") - 1
                met = (low <= inner[:, None]) & (inner[:, None] < high)
                if trees.missing_left is not None:
                    met = np.concatenate([met, leaves.gone[own, j][None]])
                    at[number, missing[j]] = size + width * (len(met) - 1)
            at[number, cell.start : cell.start + len(place)] = size + width * place
            full = np.zeros((len(met), WORD * width), dtype=bool)
            full[:, : met.shape[1]] = met
            bits.append(np.packbits(full, axis=1, bitorder="little").view(np.uint64).ravel())
            size += len(bits[-1])
    outputs = trees.leaf_scores.shape[1]
    span, tree = np.zeros((trees.features, slots), dtype=np.uint32), np.zeros(slots, dtype=np.int64)
    packed = (leaves.low | (leaves.high << 16)).T
    span[:, slot] = np.where(leaves.packed[:, None], packed, leaves.which.T).astype(np.uint32)
    scores, only = np.zeros((slots, outputs)), np.zeros(slots, dtype=np.int64)
    tree[slot], scores[slot] = trees.leaf_tree, trees.leaf_scores
    some = trees.leaf_scores != 0
    only[slot] = np.where(some.sum(axis=1) <= 1, some.argmax(axis=1), -1)
    return Table(np.concatenate(bits), at, words, first, leaves.packed, span, *leaves.runs, tree, scores, only)


def _set_bits(words: Array, first_word: int) -> tuple[Integers, Integers]:
    """The row of each bit that is set in rows of words, and its slot."""
    row, byte = np.nonzero(words.view(np.uint8))
    bits = np.unpackbits(words.view(np.uint8)[row, byte][:, None], axis=1, bitorder="little")
    which, bit = np.nonzero(bits)
    return row[which], WORD * int(first_word) + 8 * byte[which] + bit
