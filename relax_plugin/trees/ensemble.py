"""Trees: a tree ensemble of any library as flat arrays whose answers are the library's, bit by bit.

Libraries compare differently (in float32 or float64, with `<` or `<=`); here every threshold is the largest float64
that goes left, so that `x <= threshold` in float64 is the library's own comparison. A missing number, which compares
with nothing, goes the way that each test has for it. A category is its position, and a test of it a set of positions
that go left. Scores are added in the library's order and precision, since the last bit may decide between two classes.
`readers.py` reads models into this form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import UnsupportedError

Decide = Literal["largest score", "largest probability", "above", "number", "weighted median"]
Link = Literal["identity", "sigmoid", "softmax"]

CHUNK_CELLS = 4_000_000  # rows times trees that are walked side by side: bounds the memory
BEYOND = 2.0**128  # the first number that float32 has no more
FEW_SCORES = 64  # up to which they are added up in one call, with all that is on the way to them
LOWEST = np.iinfo(np.int64).min
REACHES = (2, 1 << 8, 1 << 32)  # floats around a guess within which the sought one is looked for first


@dataclass(frozen=True)
class Tree:
    """One tree on its way into an ensemble: arrays over its nodes, the root first; children below 0 at a leaf."""

    feature: Integers
    threshold: Floats  # x <= threshold goes left
    left: Integers
    right: Integers
    scores: Array  # (nodes, outputs); read at leaves
    missing_left: Booleans | None = None  # whether a missing number goes left; None: the model refuses it
    sets: Mapping[int, Booleans] | None = None  # of nodes that test a category: whether each position goes left


@dataclass(frozen=True)
class Decision:
    """How the added scores become an answer.

    decide
        "largest score": the class of the largest (the first of equal ones); "largest probability": the same after the
        link, whose rounding can make scores equal; "above": class 1 if the only score is above `cut`, else class 0;
        "number": the only score is the answer; "weighted median": the median over trees (AdaBoost's regressor).
    link, slope
        Probabilities: link(slope * scores). One score: that of class 1 by the sigmoid.
    """

    decide: Decide
    classes: Array | None = None
    cut: float = 0.0
    link: Link = "identity"
    slope: float = 1.0


@dataclass(frozen=True)
class Trees:
    """A tree ensemble: answer = decide((base + sum over trees of the reached leaf's scores) / divisor)."""

    feature: Integers  # (nodes,) the feature tested; -1 at a leaf
    threshold: Floats  # (nodes,) x <= threshold goes left, compared in float64; infinite at a leaf
    left: Integers  # (nodes,) position of the child; a leaf's children are itself
    right: Integers
    leaf: Integers  # (nodes,) position among the leaves of all trees; -1 at an inner node
    roots: Integers  # (trees,)
    leaf_tree: Integers  # (leaves,) the tree of each leaf, ascending
    leaf_scores: Array  # (leaves, outputs), in the precision (float32 or float64) scores are added in
    base: Array  # (outputs,) of the same precision
    divisor: float
    weights: Floats  # (trees,) of the weighted median; ones otherwise
    decision: Decision
    features: int
    missing_left: Booleans | None = None  # (nodes,) whether a missing number goes left; None: the model refuses it
    codes: Floats | None = None  # (features,) values that stand for a missing number, beside NaN
    subset: Integers | None = None  # (nodes,) of a test of a category the row of `subsets`; -1 at all others
    subsets: Booleans | None = None  # (sets, positions) which positions go left; others go as missing numbers do
    known: Floats | None = None  # (features,) how many positions of a category it knows; infinite for numbers
    refuses: Booleans | None = None  # (features,) whose missing numbers the model refuses although others may miss

    @classmethod
    def joined(
        cls,
        trees: Sequence[Tree],
        decision: Decision,
        features: int,
        *,
        base: Any = None,
        divisor: float = 1.0,
        weights: Any = None,
    ) -> "Trees":
        """The ensemble of some trees."""
        sizes = np.array([len(tree.feature) for tree in trees])
        roots = np.cumsum(sizes) - sizes
        owner = np.repeat(np.arange(len(trees)), sizes)
        nodes = np.arange(len(owner))
        left = np.concatenate([tree.left for tree in trees]).astype(np.int64)
        right = np.concatenate([tree.right for tree in trees]).astype(np.int64)
        is_leaf = left < 0
        scores = np.concatenate([tree.scores for tree in trees])[is_leaf]
        ways = [tree.missing_left for tree in trees if tree.missing_left is not None]
        subset, subsets = _joined_sets(trees, roots, len(nodes))
        return cls(
            feature=np.where(is_leaf, -1, np.concatenate([tree.feature for tree in trees])).astype(np.int64),
            threshold=np.where(is_leaf, np.inf, np.concatenate([tree.threshold for tree in trees])),
            left=np.where(is_leaf, nodes, left + roots[owner]),
            right=np.where(is_leaf, nodes, right + roots[owner]),
            leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
            roots=roots,
            leaf_tree=owner[is_leaf],
            leaf_scores=scores,
            base=np.zeros(scores.shape[1], scores.dtype) if base is None else np.asarray(base, scores.dtype).ravel(),
            divisor=float(divisor),
            weights=np.ones(len(trees)) if weights is None else np.asarray(weights, dtype=np.float64)[: len(trees)],
            decision=decision,
            features=features,
            missing_left=np.concatenate(ways).astype(bool) if len(ways) == len(trees) else None,
            subset=subset,
            subsets=subsets,
        )

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def additive(self) -> bool:
        """Whether the answer depends on the sum of the leaves' scores only; not so for a median over trees."""
        return self.decision.decide != "weighted median"

    # Answers.

    def leaves(self, values: Values) -> Integers:
        """The leaf that each row reaches in each tree (rows, trees)."""
        row = np.arange(len(values))[:, None]
        node = np.tile(self.roots, (len(values), 1))
        missing = self.missing(values)
        if self.subsets is not None and self.known is None:  # positions that no set knows go as missing numbers do
            column = np.unique(self._tests_of_columns[2])
            missing[:, column] |= (values[:, column] < 0) | (values[:, column] >= self.subsets.shape[1])
        some = bool(missing.any())
        if some and (self.missing_left is None or (self.refuses is not None and (missing & self.refuses).any())):
            raise UnsupportedError("skipped because a number is missing, and the model of these trees takes none.")
        values, column, threshold = self._compared(values)
        for _ in range(self.depth):
            goes_left = values[row, column[node]] <= threshold[node]
            if some and self.missing_left is not None:
                goes_left = np.where(missing[row, self.feature[node]], self.missing_left[node], goes_left)
            node = np.where(goes_left, self.left[node], self.right[node])
        return np.asarray(self.leaf[node])

    def _compared(self, values: Values) -> tuple[Values, Integers, Floats]:
        """The rows with a column more for every set, 0 where the category is in it; the column and limit of tests."""
        if self.subsets is None:
            return values, self.feature, self.threshold
        column, threshold, owner = self._tests_of_columns
        code = values[:, owner]
        position = np.where((code >= 0) & (code < self.subsets.shape[1]), code, 0).astype(np.int64)
        out = ~self.subsets[np.arange(len(owner)), position]
        return np.concatenate([values, out], axis=1), column, threshold

    @cached_property
    def _tests_of_columns(self) -> tuple[Integers, Floats, Integers]:
        assert self.subset is not None and self.subsets is not None
        some = self.subset >= 0
        column = np.where(some, self.features + self.subset, self.feature)
        owner = np.zeros(len(self.subsets), dtype=np.int64)
        owner[self.subset[some]] = self.feature[some]
        return column, np.where(some, 0.5, self.threshold), owner

    def unknown(self, values: Values) -> Booleans:
        """Which rows have a category whose way no test knows."""
        if self.known is None:
            return np.zeros(len(values), dtype=bool)
        return np.asarray((values >= self.known).any(axis=1))

    def missing(self, values: Values) -> Booleans:
        """Which cells (rows, features) hold no number: NaN, or the code of their feature."""
        blank = np.isnan(values)
        return blank if self.codes is None else blank | (values == self.codes)

    def scores(self, values: Values) -> Array:
        """The scores (rows, outputs), added as the library adds them; the weighted median where that decides."""
        size = max(1, CHUNK_CELLS // max(len(self), 0 if self.subsets is None else len(self.subsets), 1))
        parts = [self._scores(self.leaves(values[i : i + size])) for i in range(0, len(values), size)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.base)), self.leaf_scores.dtype)

    def labels(self, values: Values) -> Floats:
        """What the model's `predict` answers: positions among the classes, or the numbers of a regressor."""
        return self.decided(self.scores(values))

    def probabilities(self, values: Values) -> Floats:
        """The probability of each class (rows, classes), equal to the library's up to rounding."""
        return np.asarray(self.linked(self.scores(values)), dtype=np.float64)

    def decided(self, scores: Array) -> Floats:
        """Answers to scores: positions among the classes, or numbers."""
        decide = self.decision.decide
        if decide in ("number", "weighted median"):
            return np.asarray(scores[:, 0], dtype=np.float64)
        if decide == "above":
            return np.asarray(scores[:, 0] > self.decision.cut, dtype=np.float64)
        scores = self.linked(scores) if decide == "largest probability" else scores
        return np.asarray(scores.argmax(axis=1), dtype=np.float64)

    def linked(self, scores: Array) -> Array:
        """Probabilities of scores, in their precision."""
        if self.decision.link == "identity":
            return scores
        scaled = scores if self.decision.slope == 1.0 else scores * self.decision.slope
        if self.decision.link == "sigmoid":
            positive = sigmoid(scaled[:, 0])
            return np.column_stack([1 - positive, positive])
        powers = rounded_exp(scaled - scaled.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, dtype=np.float64).astype(scores.dtype)[:, None])

    def _scores(self, leaves: Integers) -> Array:
        if not self.additive:
            return self._median(self.leaf_scores[leaves, 0])
        total = np.tile(self.base, (len(leaves), 1))
        # One tree after the other: another order of additions may round to another answer.
        if total.size <= FEW_SCORES:
            total = np.add.accumulate(np.concatenate([total[None], self.leaf_scores[leaves.T]]), axis=0)[-1]
        else:
            for reached in leaves.T:
                total += self.leaf_scores[reached]
        return total if self.divisor == 1.0 else total / total.dtype.type(self.divisor)

    def _median(self, answers: Floats) -> Floats:
        order = np.argsort(answers, axis=1)
        weight = np.cumsum(self.weights[order], axis=1)
        middle = (weight >= 0.5 * weight[:, -1:]).argmax(axis=1)
        rows = np.arange(len(answers))
        return np.asarray(answers[rows, order[rows, middle]][:, None])

    # Geometry.

    @cached_property
    def depth(self) -> int:
        """Tests on the longest path."""
        depth, frontier = 0, self.roots
        while len(frontier := frontier[self.feature[frontier] >= 0]):
            depth, frontier = depth + 1, np.concatenate([self.left[frontier], self.right[frontier]])
        return depth

    @cached_property
    def boxes(self) -> tuple[Floats, Floats]:
        """Each leaf's box, low < x <= high, as two arrays (leaves, features); infinite where nothing is tested.

        A feature tested several times on a path has the interval that is left; a leaf no row can reach has low >= high.
        """
        low = np.full((len(self.leaf_tree), self.features), -np.inf)
        high = np.full((len(self.leaf_tree), self.features), np.inf)
        node = self.roots
        node_low = np.full((len(node), self.features), -np.inf)
        node_high = np.full((len(node), self.features), np.inf)
        while len(node):
            ends = self.feature[node] < 0
            low[self.leaf[node[ends]]], high[self.leaf[node[ends]]] = node_low[ends], node_high[ends]
            node, node_low, node_high = node[~ends], node_low[~ends], node_high[~ends]
            row, feature, threshold = np.arange(len(node)), self.feature[node], self.threshold[node]
            left_high, right_low = node_high.copy(), node_low.copy()
            if self.subset is not None:  # a set bounds nothing
                row = np.flatnonzero(self.subset[node] < 0)
                feature, threshold = feature[row], threshold[row]
            left_high[row, feature] = np.minimum(left_high[row, feature], threshold)
            right_low[row, feature] = np.maximum(right_low[row, feature], threshold)
            node = np.concatenate([self.left[node], self.right[node]])
            node_low = np.concatenate([node_low, right_low])
            node_high = np.concatenate([left_high, node_high])
        return low, high

    @cached_property
    def sets(self) -> dict[int, Booleans]:
        """Of each feature that is tested as a category: the positions (leaves, positions) with which a leaf is met."""
        if self.subset is None or self.subsets is None:
            return {}
        found = {}
        for j in np.unique(self.feature[self.subset >= 0]):
            met = np.ones((len(self.leaf_tree), self.subsets.shape[1]), dtype=bool)
            node, inside = self.roots, np.ones((len(self), self.subsets.shape[1]), dtype=bool)
            while len(node):
                ends = self.feature[node] < 0
                met[self.leaf[node[ends]]] = inside[ends]
                node, inside = node[~ends], inside[~ends]
                tested = self.feature[node] == j
                way = self.subsets[np.where(tested, self.subset[node], 0)]
                inside = np.concatenate([inside & (way | ~tested[:, None]), inside & ~(way & tested[:, None])])
                node = np.concatenate([self.left[node], self.right[node]])
            found[int(j)] = met if self.known is None else met[:, : int(self.known[j])]
        return found

    @cached_property
    def cuts(self) -> list[Floats]:
        """The distinct thresholds of each feature, ascending: answers are constant on the intervals (cut, cut]."""
        numbers = self.feature if self.subset is None else np.where(self.subset < 0, self.feature, -1)
        return [np.unique(self.threshold[numbers == j]) for j in range(self.features)]


def _joined_sets(trees: Sequence[Tree], roots: Integers, nodes: int) -> tuple[Integers | None, Booleans | None]:
    """Which set each node tests, -1 for none, and all sets, each once for a feature; None where no tree has any."""
    found = {
        (int(tree.feature[node]), tuple(way.tolist())): None
        for tree in trees
        for node, way in (tree.sets or {}).items()
    }
    if not found:
        return None, None
    place = {key: position for position, key in enumerate(found)}
    subset = np.full(nodes, -1)
    for root, tree in zip(roots, trees, strict=True):
        for node, way in (tree.sets or {}).items():
            subset[root + node] = place[int(tree.feature[node]), tuple(way.tolist())]
    table = np.zeros((len(found), max(len(way) for _, way in found)), dtype=bool)
    for (_, members), row in zip(found, table, strict=True):
        row[: len(members)] = members
    return subset, table


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) in the precision of x."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (rounded_exp(-x) + x.dtype.type(1)))


def rounded_exp(x: Array) -> Array:
    """The exponential in the precision of x, rounded correctly in float32 (numpy's own is an ulp off at times)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(x.astype(np.float64)).astype(x.dtype))


def as_float64_threshold(threshold: Any, *, strict: bool = False) -> Floats:
    """The largest float64 x with float32(x) <= threshold (`strict`: < threshold)."""
    threshold = np.asarray(threshold, dtype=np.float64)
    below = threshold.astype(np.float32)
    too_high = below.astype(np.float64) >= threshold if strict else below.astype(np.float64) > threshold
    with np.errstate(over="ignore"):
        below = np.where(too_high, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
        # Rounding goes to infinity as if that were the next float32.
        low, high = (np.clip(side.astype(np.float64), -BEYOND, BEYOND) for side in (below, above))
        middle = np.where(np.isinf(below) & np.isinf(above), np.inf, 0.5 * (low + high))
        # A tie between two float32 goes to the even one, which may be either.
        rounds_down = middle.astype(np.float32) <= below
    found = np.where(rounds_down, middle, np.nextafter(middle, -np.inf))
    return np.asarray(np.where(strict & (threshold == -np.inf), -np.inf, found))


def last_where(
    holds: Callable[[Floats], Booleans], shape: tuple[int, ...], most: float = 1e38, near: Floats | None = None
) -> Floats:
    """The largest float64 up to `most` at which a falling condition holds, elementwise; infinite where all or none do.

    Bisects the ordered bits of float64, so that the answer is exact; a good guess of it, `near`, saves most of that.
    """
    low, high = _ordered(np.full(shape, -most)), _ordered(np.full(shape, most))
    never, always = ~holds(_unordered(low)), holds(_unordered(high))
    if near is not None:
        first, last, guess = low, high, _ordered(np.clip(np.nan_to_num(near), -most, most))
        for reach in REACHES:
            below, above = np.maximum(guess - reach, first), np.minimum(guess + reach, last)
            caught = (low == first) & (high == last) & holds(_unordered(below)) & ~holds(_unordered(above))
            low, high = np.where(caught, below, low), np.where(caught, above, high)
        decided = never | always
        low, high = np.where(decided, first, low), np.where(decided, first + 1, high)
    while (high - 1 > low).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        true = holds(_unordered(middle))
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return np.where(never, -np.inf, np.where(always, np.inf, _unordered(low)))


def _ordered(x: Floats) -> Integers:
    """Whole numbers in the order of floats, one for each; 0 for both zeros."""
    bits = x.view(np.int64)
    return np.where(bits >= 0, bits, LOWEST - bits)


def _unordered(number: Integers) -> Floats:
    return np.asarray(np.where(number >= 0, number, LOWEST - number).view(np.float64))
