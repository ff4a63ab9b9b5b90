"""Aim: a goal as sums over the leaves a row reaches, whose signs tell whether the model's answer meets it.

Exact methods need to know which sums of leaf scores count. Every goal of this package becomes a few linear *sums*
(such as score of the wanted class minus score of another), put together by a function that rises with each of them:
what bounds the sums bounds it. Sums are exact up to `tolerance`; closer to 0 the model itself has to be asked, since
there its order of additions decides.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Integers
from relax_plugin.goal import BoundGoal
from relax_plugin.trees.ensemble import Trees

ROUNDING = 4.0  # how many times the textbook bound of the rounding error of a sum is taken for safety


@dataclass(frozen=True)
class Aim:
    """When a row meets its goal: the best of some groups of sums is positive, a group being as good as its worst sum.

    sum[query, m] = offset[query, m] + sum over trees of weights[query, m] · (scores of the leaf reached)
    """

    trees: Trees
    weights: Floats  # (queries, sums, outputs)
    offset: Floats  # (queries, sums)
    groups: int  # the sums are in so many groups of equal size
    tolerance: Floats  # (queries,)
    shortfall: float | None = None  # with a softmax: log(1 / least probability - 1)
    cut_points: Floats | None = None  # (queries, sums) of a median: votes of the trees that answer up to here count
    exact: bool = False  # no sum is ever within the tolerance of 0

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, index: Any) -> "Aim":
        """The aims of some of the queries."""
        points = None if self.cut_points is None else self.cut_points[index]
        weights, offset, tolerance = self.weights[index], self.offset[index], self.tolerance[index]
        return replace(self, weights=weights, offset=offset, tolerance=tolerance, cut_points=points)

    def parts(self, query: Integers, leaf: Integers) -> Floats:
        """What each leaf adds to each sum of a query (pairs, sums)."""
        if self.cut_points is not None:
            votes = self.trees.leaf_scores[leaf, :1] <= self.cut_points[query]
            return np.asarray(votes * self.trees.weights[self.trees.leaf_tree[leaf], None] * self.weights[query, :, 0])
        scores = self.trees.leaf_scores[leaf].astype(np.float64)
        if scores.shape[1] == 1:
            return np.asarray(self.weights[query, :, 0] * scores)
        return np.asarray(np.einsum("nmo,no->nm", self.weights[query], scores))

    def gap(self, sums: Floats) -> Floats:
        """How far above 0 the goal is met (..., sums) -> (...); rises with every sum."""
        if sums.shape[-1] == 1 and self.shortfall is None:
            return sums[..., 0]
        grouped = sums.reshape(*sums.shape[:-1], self.groups, -1)
        worst = grouped.min(axis=-1)
        if self.shortfall is not None:  # P(wanted) = 1 / (1 + sum of exp(-(score - other score)))
            rate = self.trees.decision.slope / self.trees.divisor
            others = np.logaddexp.reduce(-rate * grouped, axis=-1)
            worst = np.minimum(worst, (self.shortfall - others) / rate)
        return np.asarray(worst.max(axis=-1))


def aim_at(trees: Trees, goal: BoundGoal) -> Aim:
    """The aim of each query of a goal."""
    if goal.wanted is None:
        return _aim_at_numbers(trees, goal)
    if trees.decision.decide == "above":
        return _aim_above(trees, goal)
    return _aim_at_classes(trees, goal)


def _rounding(trees: Trees, scale: float = 1.0) -> float:
    """A bound of the difference between the exact sum of leaf scores and the one the library computes."""
    largest = np.zeros(len(trees))
    np.maximum.at(largest, trees.leaf_tree, np.abs(trees.leaf_scores.astype(np.float64)).max(axis=1))
    size = float(largest.sum() + np.abs(trees.base).max()) + scale
    return ROUNDING * (len(trees) + 4) * float(np.finfo(trees.leaf_scores.dtype).eps) * size


def _slack(trees: Trees, probability: Any) -> Any:
    """What the rounding of a probability that is computed of a score is worth in sums of leaf scores."""
    eps = float(np.finfo(trees.leaf_scores.dtype).eps)
    return 16 * eps / (probability * (1 - probability)) / trees.decision.slope * trees.divisor


def _aim_above(trees: Trees, goal: BoundGoal) -> Aim:
    """Two classes, one score: class 1 above the cut."""
    assert goal.wanted is not None
    decision, base = trees.decision, float(trees.base[0])
    count = len(goal.wanted)
    upper, lower, slack = np.full(count, decision.cut), np.full(count, decision.cut), np.zeros(count)
    if goal.needs_scores:
        told: Any = goal.min_probability if goal.least is None else goal.least
        probability = np.clip(told, 1e-300, 1 - 1e-16)
        logit = (np.log(probability) - np.log1p(-probability)) / decision.slope
        if goal.least is None:
            upper, lower = np.maximum(upper, logit), np.minimum(lower, -logit)
        else:
            upper, lower = logit, -logit
        slack = slack + _slack(trees, probability)
    rises = goal.wanted[:, 1]
    weights = np.where(rises, 1.0, -1.0)[:, None, None]
    offset = np.where(rises, base - upper * trees.divisor, lower * trees.divisor - base)[:, None]
    return Aim(trees, weights, offset, 1, _rounding(trees) + slack)


def _aim_at_classes(trees: Trees, goal: BoundGoal) -> Aim:
    """One score a class: the wanted one must be the largest, and large enough."""
    assert goal.wanted is not None
    count = len(trees.base)
    if not goal.wanted.any():  # a model of one class
        nothing = np.zeros(len(goal.wanted))
        return Aim(trees, np.zeros((len(goal.wanted), 1, count)), np.full((len(goal.wanted), 1), -1.0), 1, nothing)
    if goal.least is not None:
        return _aim_at_probability(trees, goal.wanted.argmax(axis=1), goal.least)
    identity, base = np.eye(count), trees.base.astype(np.float64)
    whole = bool((trees.leaf_scores % 1 == 0).all() and (base % 1 == 0).all())
    probability, identical = goal.min_probability, trees.decision.link == "identity"
    exact = whole and probability is None and trees.decision.decide == "largest score"
    one = goal.wanted.sum(axis=1) == 1
    # One class is wanted: above all others. All but one are: any of them above that one. Else (a least probability
    # and several classes wanted): any of them above all others.
    simple = probability is None and not one.all()
    patterns, pattern = np.unique(goal.wanted, axis=0, return_inverse=True)
    winners, losers = [], []
    for wanted in patterns:
        likes, dislikes = np.flatnonzero(wanted), np.flatnonzero(~wanted)
        rivals = [dislikes if simple else np.delete(np.arange(count), w) for w in likes]
        winners.append(np.repeat(likes, [len(rival) for rival in rivals]))
        losers.append(np.concatenate(rivals))
    winner, loser = np.array(winners)[pattern], np.array(losers)[pattern]
    groups = int(goal.wanted[0].sum())
    weights = identity[winner] - identity[loser]
    offset = base[winner] - base[loser]
    if exact:  # half a vote decides: of equal scores the first class has it
        offset = offset + np.where(winner < loser, 0.5, -0.5)
    shortfall, tolerance = None, 0.25 if exact else 2 * _rounding(trees)
    if probability is not None and identical:
        own = winner.reshape(len(one), groups, -1)[:, :, :1]
        extra = base[own] - probability * trees.divisor
        weights = np.concatenate([weights.reshape(len(one), groups, -1, count), identity[own]], axis=2)
        offset = np.concatenate([offset.reshape(len(one), groups, -1), extra], axis=2).reshape(len(one), -1)
        weights = weights.reshape(len(one), -1, count)
    elif probability is not None:
        clipped = np.clip(probability, 1e-300, 1 - 1e-16)
        shortfall = float(np.log1p(-clipped) - np.log(clipped))
        tolerance += count * _slack(trees, clipped)
    return Aim(trees, weights, offset, groups, np.full(len(one), tolerance), shortfall, exact=exact)


def _aim_at_probability(trees: Trees, label: Integers, least: Floats) -> Aim:
    """One score a class: that of a label must be large enough beside the others, whichever is the largest."""
    count, base = len(trees.base), trees.base.astype(np.float64)
    identity, rounding = np.eye(count), np.full(len(label), 2 * _rounding(trees))
    if trees.decision.link == "identity":
        offset = (base[label] - least * trees.divisor)[:, None]
        return Aim(trees, identity[label][:, None], offset, 1, rounding)
    rivals = np.array([np.delete(np.arange(count), own) for own in range(count)])[label]
    clipped = np.clip(least, 1e-300, 1 - 1e-16)
    # P >= p exactly if the sum of exp(-(score - other score)) is at most 1 / p - 1: the logarithm joins the offset.
    shortfall = (np.log1p(-clipped) - np.log(clipped)) * trees.divisor / trees.decision.slope
    offset = base[label][:, None] - base[rivals] + shortfall[:, None]
    weights = identity[label][:, None] - identity[rivals]
    return Aim(trees, weights, offset, 1, rounding + count * _slack(trees, clipped), shortfall=0.0)


def _aim_at_numbers(trees: Trees, goal: BoundGoal) -> Aim:
    assert goal.lower is not None and goal.upper is not None
    least, most = (goal.lower, goal.upper) if goal.inside else (goal.upper, goal.lower)
    signs = np.tile([1.0, -1.0], (len(least), 1))
    groups = 1 if goal.inside else 2
    if not trees.additive:
        # The median is at least c if less than half of the weight answers below c, and at most c if half answers up
        # to c.
        half = 0.5 * trees.weights.sum()
        points = np.column_stack([np.nextafter(least, -np.inf), most])
        weights, offset = -signs[:, :, None], signs * half
        return Aim(trees, weights, offset, groups, np.full(len(least), 1e-9 * half), cut_points=points)
    finite = np.abs(np.concatenate([least, most]))
    scale = float(finite[np.isfinite(finite)].max(initial=1.0)) * trees.divisor
    offset = signs * (trees.base.astype(np.float64) - np.column_stack([least, most]) * trees.divisor)
    return Aim(trees, signs[:, :, None], offset, groups, np.full(len(least), _rounding(trees, scale)))
