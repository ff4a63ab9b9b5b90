"""Boosted small trees as tables of bits: the surrogate model that follows the steps of forests and of boosting.

A tree has at most eight leaves, so that the leaves a row can still reach are one byte. Which of them one feature's
value leaves reachable is looked up; all features together leave one. Moving one feature is then one lookup more, and
what the other features leave is computed once for all moves of a row.
"""

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from relax_plugin.arrays import Array, Floats, Integers, Values
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.surrogate.network import refuse_others

TREES = 100
LEAVES = 8  # a byte
RATE = 0.15  # share of each tree's answer that is added
LEAST_IN_A_LEAF = 3  # rows
SHARE_OF_ROWS = 0.7  # that each tree sees
SHARE_OF_FEATURES = 0.5  # that each split looks at; of wide tables a quarter:
MANY_FEATURES = 16
LEAST_FEATURES = 4
MOST_PIECES = 10_000  # of a feature in a file: far more than the thresholds of all trees
FARTHEST = 1e30  # spreads that a value may lie from the median: single precision ends at 1e38
CELLS_AT_ONCE = 400_000  # bytes of one lookup: what fits a processor's cache
CELLS_OF_STATES = 8_000_000  # bytes kept of what the features of states leave reachable

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class BoostedTrees:
    """Regression trees, each fitted to what those before it left; several targets share the splits."""

    def __init__(self, space: FeatureSpace, values: Values, seed: int = 0) -> None:
        self.space = space
        self.rng = np.random.default_rng(seed)
        missing = values == space.missing_codes
        self.gaps = missing.any(axis=0)  # numbers that are missing in some rows: their code is the lowest value
        if missing.any():
            values = np.where(missing, np.nanmedian(np.where(missing, np.nan, values), axis=0), values)
        # A tree sees no step below 1e-7, and single precision only: most values of each number shall be around 1.
        self.centre = np.median(values, axis=0)
        apart = np.abs(values - self.centre)
        spread = np.where(np.median(apart, axis=0) > 0, np.median(apart, axis=0), apart.mean(axis=0))
        self.spread = np.where(spread > 0, spread, 1.0)
        self.grown: list[Any] = []
        self.base = np.zeros(0)
        self.thresholds: list[Array | None] = []  # of each number, between whose values its pieces lie
        self.masks: list[Bytes] = []  # what each piece of a feature, or category, leaves reachable (pieces, trees)

    def fit(self, values: Values, targets: Floats, share: float = 1.0) -> "BoostedTrees":
        """Grow this share of all trees, after those grown before, to what is left of the targets."""
        columns = np.ascontiguousarray(self._columns(values), dtype=np.float32)
        looked_at = min(SHARE_OF_FEATURES, max(MANY_FEATURES / columns.shape[1], 0.5 * SHARE_OF_FEATURES))
        looked_at = min(max(looked_at, LEAST_FEATURES / columns.shape[1]), 1.0)
        if not self.grown:
            self.base = targets.mean(axis=0)
        left = targets - self.base
        for grown in self.grown:
            left = left - RATE * grown.predict(columns).reshape(left.shape)
        for _ in range(min(round(share * TREES), TREES - len(self.grown))):
            rows = self.rng.permutation(len(columns))[: max(int(SHARE_OF_ROWS * len(columns)), 2)]
            tree = DecisionTreeRegressor(
                max_leaf_nodes=LEAVES,
                min_samples_leaf=LEAST_IN_A_LEAF,
                max_features=looked_at,
                random_state=int(self.rng.integers(2**31)),
            )
            grown = tree.fit(columns[rows], left[rows], check_input=False).tree_
            left = left - RATE * grown.predict(columns).reshape(left.shape)
            self.grown.append(grown)
        self._tabulate(self.grown)
        return self

    def predict(self, values: Values) -> Floats:
        """Targets of rows (rows, targets)."""
        result = np.empty((len(values), len(self.base)))
        size = max(CELLS_OF_STATES // (values.shape[1] * self.count), 1)
        for first in range(0, len(values), size):
            own = self._reachable(self._every, values[first : first + size])
            result[first : first + size] = self._sum(np.bitwise_and.reduce(own, axis=1))
        return result + self.base

    def table(self, feature: Integers, value: Floats) -> Bytes:
        """What `predict_moves` needs of each move: what it leaves reachable (moves, trees)."""
        return self._reachable(feature, value)

    def predict_moves(self, states: Values, feature: Integers, table: Bytes, chosen: Integers | None = None) -> Floats:
        """Targets of every state with one feature moved (states, moves, targets); or of the moves `chosen` for each."""
        count = len(feature) if chosen is None else chosen.shape[1]
        result = np.empty((len(states), count, len(self.base)), dtype=np.float32)
        several = max(CELLS_OF_STATES // (states.shape[1] * self.count), 1)
        few = max(CELLS_AT_ONCE // (count * self.count), 1)
        for first in range(0, len(states), several):
            others = self._left_by_the_others(states[first : first + several])
            for start in range(0, len(others), few):
                part = others[start : start + few]
                at = slice(first + start, first + start + len(part))
                if chosen is None:
                    reachable = part[:, feature] & table
                else:
                    which = feature[chosen[at]] + part.shape[1] * np.arange(len(part))[:, None]
                    reachable = part.reshape(-1, self.count).take(which, axis=0)
                    reachable &= table.take(chosen[at], axis=0)
                result[at] = self._sum(reachable)
        return np.asarray(result + self.base.astype(np.float32))

    def predict_changed(self, states: Values, row: Integers, feature: Integers, value: Floats) -> Floats:
        """Targets of the rows `states[row]` with one `feature` of each at another `value` (changes, targets)."""
        result = np.empty((len(row), len(self.base)))
        others = self._left_by_the_others(states).reshape(-1, self.count)
        size = max(CELLS_AT_ONCE // self.count, 1)
        for first in range(0, len(row), size):
            at = slice(first, first + size)
            reachable = others.take(row[at] * states.shape[1] + feature[at], axis=0)
            reachable &= self._reachable(feature[at], value[at])
            result[at] = self._sum(reachable)
        return result + self.base

    def arrays(self) -> dict[str, Any]:
        """All that a file must hold to restore the fitted trees: what each piece of a feature leaves reachable."""
        thresholds = [own for own in self.thresholds if own is not None]
        return {
            "base": self.base,
            "leaves": self.values[:, 1 << np.arange(LEAVES)],
            "masks": np.concatenate(self.masks),
            "thresholds": np.concatenate([np.zeros(0), *thresholds]),
            "pieces": np.array([len(mask) for mask in self.masks]),
            "gaps": self.gaps.astype(np.uint8),
        }

    def load(self, arrays: dict[str, Any], outputs: int) -> None:
        """Take over what `arrays` gave, if it can be that of trees for this space."""
        pieces, number, numeric = arrays.get("pieces"), len(arrays.get("leaves", ())), ~self.space.is_categorical
        refuse_others({"pieces": (np.int64, (len(self.space),))}, {} if pieces is None else {"pieces": pieces})
        pieces = arrays["pieces"]
        if not ((pieces > 0) & (pieces < MOST_PIECES)).all():
            raise InputError(f"a feature has no or more than {MOST_PIECES} pieces in the surrogate model.")
        if not (pieces[~numeric] == np.diff(self.space.category_offsets)[~numeric] + 1).all():
            raise InputError("the surrogate model has other categories than its space.")
        expected = {
            "base": (np.float64, (outputs,)),
            "leaves": (np.float32, (number, LEAVES, outputs)),
            "masks": (np.uint8, (int(pieces.sum()), number)),
            "thresholds": (np.float64, (int((pieces[numeric] - 1).sum()),)),
            "pieces": (np.int64, (len(self.space),)),
            "gaps": (np.uint8, (len(self.space),)),
        }
        refuse_others(expected, arrays)
        self.count, self.base, self.gaps = number, arrays["base"], arrays["gaps"].astype(bool)
        self.values = np.zeros((number, 256, outputs), dtype=np.float32)
        self.values[:, 1 << np.arange(LEAVES)] = arrays["leaves"]
        self.masks = np.split(arrays["masks"], np.cumsum(pieces)[:-1])
        own = np.split(arrays["thresholds"], np.cumsum(pieces[numeric] - 1)[:-1])
        if any((np.diff(thresholds) <= 0).any() for thresholds in own):
            raise InputError("the thresholds of a feature of the surrogate model do not rise.")
        each = iter(own)
        self.thresholds = [next(each) if is_number else None for is_number in numeric]
        self._ready()

    def _columns(self, values: Values) -> Array:
        spread = np.clip((values - self.centre) / self.spread, -FARTHEST, FARTHEST)
        made = []
        self.owner, self.category = [], []  # of each column: its feature, and its category or -1
        for j, feature in enumerate(self.space.features):
            codes = range(len(feature.categories)) if feature.kind == "categorical" else [-1]
            for code in codes:
                made.append(spread[:, j] if code < 0 else values[:, j] == code)
                self.owner.append(j)
                self.category.append(code)
        return np.column_stack(made)

    def _tabulate(self, trees: list[Any]) -> None:
        self.count = len(trees)
        self.values = np.zeros((self.count, 256, len(self.base)), dtype=np.float32)
        splits: list[list[tuple[float, int, int, int, int]]] = [[] for _ in self.space.features]
        for number, tree in enumerate(trees):
            below = self._leaves_below(tree, number)
            for node in np.flatnonzero(tree.children_left >= 0):
                column = tree.feature[node]
                sides = int(below[tree.children_left[node]]), int(below[tree.children_right[node]])
                j = self.owner[column]
                at = float(tree.threshold[node] * self.spread[j] + self.centre[j])
                splits[j].append((at, self.category[column], number, *sides))
        self.thresholds, self.masks = [], []
        for feature, own in zip(self.space.features, splits, strict=True):
            threshold, category, tree_of, left, right = np.array(own).reshape(-1, 5).T
            if feature.kind == "categorical":
                goes_right = np.arange(len(feature.categories) + 1)[:, None] == category  # the last: none of them
                self.thresholds.append(None)
            else:
                distinct = np.unique(threshold)
                goes_right = np.arange(len(distinct) + 1)[:, None] > np.searchsorted(distinct, threshold)
                self.thresholds.append(distinct)
            mask = np.full((len(goes_right), self.count), 255, dtype=np.uint8)
            # Whoever goes right can reach no leaf of the left side, and the reverse.
            left_over = np.where(goes_right, 255 - left, 255 - right).astype(np.uint8)
            for place, grower in enumerate(tree_of.astype(int)):
                mask[:, grower] &= left_over[:, place]
            self.masks.append(mask)
        self._ready()

    def _leaves_below(self, tree: Any, number: int) -> Integers:
        below, leaves = np.zeros(tree.node_count, dtype=np.int64), np.flatnonzero(tree.children_left < 0)
        below[leaves] = 1 << np.arange(len(leaves))
        self.values[number, below[leaves]] = RATE * tree.value[leaves].reshape(len(leaves), -1)
        for node in np.flatnonzero(tree.children_left >= 0)[::-1]:  # scikit-learn numbers children after their parent
            below[node] = below[tree.children_left[node]] | below[tree.children_right[node]]
        return below

    def _ready(self) -> None:
        numbers = [own if own is not None else np.zeros(0) for own in self.thresholds]
        self.steps = np.full((len(numbers), max(map(len, numbers)) or 1), np.inf)
        for j, own in enumerate(numbers):
            self.steps[j, : len(own)] = own
        self.lookup = np.concatenate(self.masks)
        self.begins = np.cumsum([0, *(len(mask) for mask in self.masks[:-1])])
        self.offset = (256 * np.arange(self.count)).astype(np.int32)
        self.counts = np.diff(self.space.category_offsets)
        self.mixed, self._every = bool(self.space.is_categorical.any()), np.arange(len(self.masks))

    def _reachable(self, feature: Integers, value: Floats) -> Bytes:
        """What cells leave reachable (..., trees): their features, and values of the same shape or of rows of them."""
        whose: Any = slice(None) if feature is self._every else feature  # a view of all is quicker than a copy of each
        unknown = (value == self.space.missing_codes[whose]) & ~self.gaps[whose]
        if unknown.any():  # the trees have never seen it missing: it is taken for its mean
            value = np.where(unknown, self.space.mean[whose], value)
        piece = (self.steps[whose] < value[..., None]).sum(axis=-1)
        if self.mixed:
            place = np.minimum(value, self.counts[whose])
            piece = np.where(self.space.is_categorical[whose], place, piece).astype(np.int64)
        return np.asarray(self.lookup.take(self.begins[whose] + piece, axis=0))

    def _left_by_the_others(self, states: Values) -> Bytes:
        """What all features but one leave reachable (states, features, trees): products from both sides.

        Feature by feature: of many states numpy's `accumulate` takes fifteen times as long.
        """
        own = self._reachable(self._every, states)
        made, last = np.empty_like(own), own.shape[1] - 1
        made[:, 0] = 255
        for j in range(last):
            np.bitwise_and(made[:, j], own[:, j], out=made[:, j + 1])
        after = own[:, last].copy()
        for j in reversed(range(last)):
            made[:, j] &= after
            after &= own[:, j]
        return made

    def _sum(self, reachable: Bytes) -> Floats:
        index = reachable + self.offset
        flat = self.values.reshape(-1, len(self.base))
        return np.asarray(np.take(flat[:, 0], index).sum(-1)[..., None] if len(self.base) == 1 else flat[index].sum(-2))
