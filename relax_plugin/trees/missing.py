"""Missing numbers in trees: for rows that lack the same ones, the trees in which that is a test like any other.

A missing number goes the way that each test has for it. For rows that all lack the same numbers, and keep them missing,
these tests are decided: the trees lose them. Where the number may be filled in, "is it missing" becomes a test of its
own, whether it is at most its code, which lies below all that it may become. What comes out compares numbers only, so
that whoever looks at boxes, cells and paths need not know of missing numbers at all.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from relax_plugin.arrays import Array, Booleans, Integers, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.trees.ensemble import Trees

MOST_NODES = 2_000_000  # that the trees may grow to: each number that may be filled can double a path
PRESENT, MISSING, OPEN = 0, 1, 2  # what is known of a feature on the way to a node


@dataclass(frozen=True)
class Gap:
    """Rows that lack the same numbers, and may fill the same ones of them."""

    index: Integers  # (rows,) which rows
    missing: Booleans  # (features,)
    fillable: Booleans  # (features,) of the missing ones

    def __len__(self) -> int:
        return len(self.index)


def gaps(trees: Trees, limits: Limits, start: Values) -> Iterator[Gap]:
    """The rows by what they lack, in the order of their first; all in one where nothing is missing."""
    missing = trees.missing(start)
    if not missing.any():
        yield Gap(np.arange(len(start)), np.zeros(start.shape[1], dtype=bool), np.zeros(start.shape[1], dtype=bool))
        return
    low, high = limits.span(start)
    fillable = missing & ((low != start) | (high != start))
    kinds, first, group = np.unique(
        np.concatenate([missing, fillable], axis=1), axis=0, return_index=True, return_inverse=True
    )
    for kind in np.argsort(first):
        lacks, fills = np.split(kinds[kind], 2)
        yield Gap(np.flatnonzero(group.ravel() == kind), lacks, fills)


def trees_for(trees: Trees, gap: Gap) -> Trees | None:
    """The trees as rows with this gap see them, by comparisons alone; None if they would grow too large.

    They are right for such rows whose missing numbers, if not filled in, are at their codes.
    """
    if not gap.missing.any():
        return trees
    refused = trees.refuses is not None and bool((gap.missing & trees.refuses).any())
    if trees.missing_left is None or trees.codes is None or refused:
        raise UnsupportedError("skipped because a number is missing, and the model of these trees takes none.")
    known = np.where(gap.missing, np.where(gap.fillable, OPEN, MISSING), PRESENT).astype(np.int8)
    node, state = trees.roots, np.tile(known, (len(trees), 1))  # of each new node: the old one, and what is known there
    tree = np.arange(len(trees))
    parts: list[tuple[Array, ...]] = []
    made = 0
    while len(node):
        made += len(node)
        if made > MOST_NODES:
            return None
        node = _decided(trees, node, state)
        feature, row = trees.feature[node], np.arange(len(node))
        inner = feature >= 0
        code = trees.codes[feature]
        is_open = inner & (state[row, feature] == OPEN)
        # At the code the comparison goes left. Where that is not the way of a missing number, it is asked for first.
        parts_missing = is_open & (~trees.missing_left[node] | (trees.threshold[node] < code))
        threshold = np.where(parts_missing, code, trees.threshold[node])
        children = made + np.cumsum(inner) - inner  # the left ones, then all the right ones
        count = int(inner.sum())
        left, right = np.where(inner, children, -1), np.where(inner, children + count, -1)
        parts.append((np.where(inner, feature, -1), threshold, left, right, tree, node))
        on = np.flatnonzero(inner)
        goes, apart, at = feature[on], parts_missing[on], np.arange(len(on))
        way = np.where(trees.missing_left[node[on]], trees.left[node[on]], trees.right[node[on]])
        left_state, right_state = state[on].copy(), state[on].copy()
        left_state[at[apart], goes[apart]] = MISSING
        right_state[at[is_open[on]], goes[is_open[on]]] = PRESENT  # right of any comparison there is a number
        node = np.concatenate(
            [np.where(apart, way, trees.left[node[on]]), np.where(apart, node[on], trees.right[node[on]])]
        )
        state, tree = np.concatenate([left_state, right_state]), np.concatenate([tree[on], tree[on]])
    feature, threshold, left, right, tree, node = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _put_together(trees, feature, threshold, left, right, tree, node)


def _decided(trees: Trees, node: Integers, state: Array) -> Integers:
    assert trees.missing_left is not None
    row = np.arange(len(node))
    while True:
        feature = trees.feature[node]
        known = np.flatnonzero((feature >= 0) & (state[row, feature] == MISSING))
        if len(known) == 0:
            return node
        there = node[known]
        node = node.copy()
        node[known] = np.where(trees.missing_left[there], trees.left[there], trees.right[there])


def _put_together(
    trees: Trees, feature: Integers, threshold: Array, left: Integers, right: Integers, tree: Integers, node: Integers
) -> Trees:
    """New trees of nodes that lie level by level; the first are the roots."""
    place, ends = np.arange(len(node)), feature < 0
    found = np.flatnonzero(ends)
    found = found[np.argsort(tree[found], kind="stable")]  # leaves are in the order of their trees
    leaf = np.full(len(node), -1)
    leaf[found] = np.arange(len(found))
    return replace(
        trees,
        feature=feature,
        threshold=np.where(ends, np.inf, threshold),
        left=np.where(ends, place, left),
        right=np.where(ends, place, right),
        leaf=leaf,
        roots=np.arange(len(trees)),
        leaf_tree=tree[found],
        leaf_scores=trees.leaf_scores[trees.leaf[node[found]]],
        subset=None if trees.subset is None else trees.subset[node],
        missing_left=None,
        codes=None,
        refuses=None,
    )


def vanishing(space: FeatureSpace, limits: Limits) -> list[Hashable]:
    """The names of the features that may become missing."""
    stays = np.asarray(limits.frozen.all(axis=0))
    return [feature.name for j, feature in enumerate(space.features) if feature.vanishable and not stays[j]]


def with_gaps_kept(space: FeatureSpace, limits: Limits, start: Values) -> Limits:
    """The limits under which a missing number stays so, unless its feature may be filled in."""
    blank = start == space.missing_codes
    return limits.keeping(blank & ~np.array([feature.fillable for feature in space.features], dtype=bool))
