"""Belief: what is believed of each query's proposals, corrected by every answer of the model to one of them.

A Gaussian process on what the world model is wrong by, one for each query, side by side: an answer to one proposal
tells about those near it. Which proposal to ask about next is said by its expected improvement.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from relax_plugin.arrays import Array, Booleans, Integers
from relax_plugin.features import FeatureSpace
from relax_plugin.world_model.changes import Changes

NOISE = 1e-3  # share of the variance that no answer removes
PRIOR_ANSWERS = 2.0  # answers that the typical error of the world model is worth when a query's own is estimated
TIMES_LIKELY = 2.5  # the distance of the shortest likely proposal, by which others are judged where distance counts
LIKELY = 0.3  # chance of being valid from which on a proposal says how few changes may do


def expected_improvement(
    gap: Array,
    error: Array | float,
    count: Integers | int,
    distance: Array,
    best_count: Array,
    best_distance: Array,
    urgency: Array | float = 0.0,
    by_distance: bool = False,
) -> Array:
    """The chance that a proposal is valid, times what it would gain, in changes: fewer first, else a shorter way.

    While nothing valid is known (infinite `best_count`) it is compared with one change more than a likely one has, and
    with the longest; `urgency` then makes the chance count for more. `by_distance` a shorter way is all that counts;
    while nothing valid is known, it is compared with some times that of the shortest likely one.
    """
    there, known = np.isfinite(gap), np.isfinite(best_count)[:, None]
    chance = ndtr(-gap / error)
    if by_distance:
        likely = np.where(there & (chance >= LIKELY), distance, np.inf).min(axis=1)
        longest = np.where(there, distance, 0.0).max(axis=1)
        far = np.where(known[:, 0], best_distance, np.where(np.isfinite(likely), TIMES_LIKELY * likely, longest))
        shorter = np.maximum(1.0 - distance / np.maximum(far, 1e-12)[:, None], 0.0)
        return np.where(there, chance * np.where(known, shorter, urgency + shorter), 0.0)
    few = np.where(there & (chance >= LIKELY), count, np.inf).min(axis=1)
    few = np.where(np.isfinite(few), few, np.where(there, count, 0).max(axis=1))
    longest = np.where(there, distance, 0.0).max(axis=1)
    share = distance / np.maximum(np.where(known, best_distance[:, None], longest[:, None]), 1e-12)
    shorter = np.maximum(1.0 - share, 0.0)
    fewer = np.where(known, best_count[:, None], few[:, None] + 1.0) - count
    gain = np.where(known, np.where(fewer == 0, shorter, fewer), urgency + fewer + shorter)
    return np.where(there, chance * np.maximum(gain, 0.0), 0.0)


@dataclass
class Told:
    """What some proposals of each query are believed to be, given the answers so far: (queries, proposals)."""

    gap: Array
    variance: Array  # as a share of the world model's own
    columns: list[Array]  # what each answer said of them

    def of(self, queries: Any) -> "Told":
        return Told(self.gap[queries], self.variance[queries], [column[queries] for column in self.columns])

    def at(self, position: Integers) -> "Told":
        query = np.arange(len(position))[:, None]
        columns = [column[query, position] for column in self.columns]
        return Told(self.gap[query, position], self.variance[query, position], columns)

    def beside(self, other: "Told") -> "Told":
        columns = [np.concatenate(pair, axis=1) for pair in zip(self.columns, other.columns, strict=True)]
        gap, variance = np.concatenate([self.gap, other.gap], 1), np.concatenate([self.variance, other.variance], 1)
        return Told(gap, variance, columns)


@dataclass
class Reply:
    """One answer of the model to each query: to which proposal, how much of a surprise it was.

    `factor` is its row of the Cholesky factor of all replies' covariance, the diagonal last. Queries that did not ask
    are not `live`.
    """

    asked: Changes
    factor: list[Array]
    surprise: Array
    live: Booleans

    def of(self, queries: Any) -> "Reply":
        factor = [weight[queries] for weight in self.factor]
        return Reply(self.asked.of(queries), factor, self.surprise[queries], self.live[queries])


class Belief:
    """The answers of the model to proposals of each query, and what they say of others."""

    def __init__(self, space: FeatureSpace, error: float, replies: list[Reply]) -> None:
        self.space, self.error, self.replies = space, error, replies

    @classmethod
    def begin(cls, space: FeatureSpace, error: float, at_start: Array) -> "Belief":
        """Begin with the model's answers to the queries themselves: what the world model is wrong by there."""
        own = np.full(len(at_start), np.sqrt(1.0 + NOISE), dtype=np.float32)
        nothing = Changes.none(1, len(at_start), 1)
        return cls(space, error, [Reply(nothing, [own], at_start / own, np.ones(len(at_start), dtype=bool))])

    def of(self, queries: Any) -> "Belief":
        """The belief about some of the queries."""
        return Belief(self.space, self.error, [reply.of(queries) for reply in self.replies])

    def tell(self, proposals: Changes) -> Told:
        """What is believed of proposals."""
        told = Told(proposals.gap.copy(), np.ones(proposals.gap.shape, dtype=np.float32), [])
        for reply in self.replies:
            column = proposals.alike(reply.asked)
            for before, weight in zip(told.columns, reply.factor, strict=False):
                column -= before * weight[:, None]
            column *= np.where(reply.live, 1.0 / reply.factor[-1], np.float32(0.0))[:, None]
            told.gap += column * reply.surprise[:, None]
            told.variance -= column**2
            told.columns.append(column)
        np.maximum(told.variance, 0.0, out=told.variance)
        return told

    def errors(self, told: Told) -> Array:
        """Standard deviations of what is believed; each query's own typical error is seen from its surprises."""
        squares = sum(reply.surprise**2 for reply in self.replies)
        number = sum(reply.live.astype(np.float32) for reply in self.replies)
        own = np.sqrt((PRIOR_ANSWERS * self.error**2 + squares) / (PRIOR_ANSWERS + number))
        return np.asarray(own[:, None] * np.sqrt(np.maximum(told.variance, NOISE)))

    def learn(self, who: Integers, position: Integers, gap: Array, proposals: Changes, told: Told) -> None:
        """Take in the model's answers to one proposal of some queries, and correct what is believed of the others."""
        queries = len(told.gap)
        asked = Changes.none(len(proposals.feature), queries, 1)
        asked.feature[:, who, 0] = proposals.feature[:, who, position]
        asked.value[:, who, 0], asked.length[:, who, 0] = (
            proposals.value[:, who, position],
            proposals.length[:, who, position],
        )
        covariance = proposals.of(who).alike(asked.of(who))
        factor = []
        for column in told.columns:
            weight = np.zeros(queries, dtype=np.float32)
            weight[who] = column[who, position]
            covariance -= column[who] * weight[who, None]
            factor.append(weight)
        own = np.sqrt(told.variance[who, position] + NOISE)
        column, surprise = np.zeros(told.gap.shape, dtype=np.float32), np.zeros(queries, dtype=np.float32)
        live = np.zeros(queries, dtype=bool)
        column[who] = covariance / own[:, None]
        surprise[who], live[who] = (gap - told.gap[who, position]) / own, True
        diagonal = np.ones(queries, dtype=np.float32)
        diagonal[who] = own
        told.gap += column * surprise[:, None]
        told.variance = np.maximum(told.variance - column**2, 0.0)
        told.columns.append(column)
        self.replies.append(Reply(asked, [*factor, diagonal], surprise, live))
