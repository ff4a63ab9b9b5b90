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
    if known.all():  # what nothing valid would be compared with need not be known
        shorter = np.maximum(1.0 - distance / np.maximum(best_distance, 1e-12)[:, None], 0.0)
        fewer = best_count[:, None] - count
        return np.where(there, chance * np.maximum(np.where(fewer == 0, shorter, fewer), 0.0), 0.0)
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
    columns: Array  # what each answer said of them (answers, queries, proposals)

    def of(self, queries: Any) -> "Told":
        return Told(self.gap[queries], self.variance[queries], self.columns[:, queries])

    def at(self, position: Integers) -> "Told":
        query = np.arange(len(position))[:, None]
        return Told(self.gap[query, position], self.variance[query, position], self.columns[:, query, position])

    def beside(self, other: "Told") -> "Told":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Told(*(np.concatenate(pair, axis=-1) for pair in pairs))


@dataclass
class Replies:
    """Answers of the model to each query, one after the other: to which proposals, how much of a surprise each was.

    `factor` is the Cholesky factor of their covariance. Queries that did not ask are not `live`.
    """

    asked: Changes  # (places, queries, answers)
    factor: Array  # (answers, answers, queries)
    surprise: Array  # (answers, queries)
    live: Booleans  # (answers, queries)

    def __len__(self) -> int:
        return len(self.live)

    def of(self, queries: Any) -> "Replies":
        every = self.factor[:, :, queries], self.surprise[:, queries], self.live[:, queries]
        return Replies(self.asked.of(queries), *every)

    def and_one(self, asked: Changes, weights: Array, surprise: Array, live: Booleans) -> "Replies":
        """These and one more, whose row of the factor is `weights`, the diagonal last."""
        number = len(self)
        factor = np.zeros((number + 1, number + 1, len(surprise)), dtype=np.float32)
        factor[:number, :number], factor[number] = self.factor, weights
        both = np.concatenate([self.surprise, surprise[None]]), np.concatenate([self.live, live[None]])
        return Replies(self.asked.beside(asked), factor, *both)


class Belief:
    """The answers of the model to proposals of each query, and what they say of others."""

    def __init__(self, space: FeatureSpace, error: float, replies: Replies) -> None:
        self.space, self.error = space, error
        self._know(replies)

    def _know(self, replies: Replies) -> None:
        """Take these for all answers so far, and see from them each query's own typical error."""
        self.replies = replies
        squares = sum(surprise**2 for surprise in replies.surprise)
        number = sum(live.astype(np.float32) for live in replies.live)
        self.own = np.sqrt((PRIOR_ANSWERS * self.error**2 + squares) / (PRIOR_ANSWERS + number))

    @classmethod
    def begin(cls, space: FeatureSpace, error: float, at_start: Array) -> "Belief":
        """Begin with the model's answers to the queries themselves: what the world model is wrong by there."""
        own = np.full((1, 1, len(at_start)), np.sqrt(1.0 + NOISE), dtype=np.float32)
        live = np.ones((1, len(at_start)), dtype=bool)
        return cls(space, error, Replies(Changes.none(1, len(at_start), 1), own, (at_start / own[0]), live))

    def of(self, queries: Any) -> "Belief":
        """The belief about some of the queries."""
        return Belief(self.space, self.error, self.replies.of(queries))

    def tell(self, proposals: Changes) -> Told:
        """What is believed of proposals."""
        replies, columns = self.replies, proposals.alike(self.replies.asked)
        told = Told(proposals.gap.copy(), np.ones(proposals.gap.shape, dtype=np.float32), columns)
        for number, column in enumerate(columns):  # each is done when its turn comes, and taken out of the later ones
            diagonal = replies.factor[number, number]
            column *= np.where(replies.live[number], 1.0 / diagonal, np.float32(0.0))[:, None]
            later = slice(number + 1, None)
            columns[later] -= column * replies.factor[later, number, :, None]
            told.gap += column * replies.surprise[number][:, None]
            told.variance -= column**2
        np.maximum(told.variance, 0.0, out=told.variance)
        return told

    def errors(self, told: Told) -> Array:
        """Standard deviations of what is believed; each query's own typical error is seen from its surprises."""
        return np.asarray(self.own[:, None] * np.sqrt(np.maximum(told.variance, NOISE)))

    def learn(self, who: Integers, position: Integers, gap: Array, proposals: Changes, told: Told) -> None:
        """Take in the model's answers to one proposal of some queries, and correct what is believed of the others."""
        queries = len(told.gap)
        asked = Changes.none(len(proposals.feature), queries, 1)
        asked.feature[:, who, 0] = proposals.feature[:, who, position]
        asked.value[:, who, 0], asked.length[:, who, 0] = (
            proposals.value[:, who, position],
            proposals.length[:, who, position],
        )
        everyone = len(who) == queries
        covariance = (proposals if everyone else proposals.of(who)).alike(asked if everyone else asked.of(who))[0]
        weights = np.zeros((len(told.columns) + 1, queries), dtype=np.float32)
        weights[-1] = 1.0
        weights[:-1, who] = told.columns[:, who, position]
        for explained in (told.columns if everyone else told.columns[:, who]) * weights[:-1, who, None]:
            covariance -= explained
        own = np.sqrt(told.variance[who, position] + NOISE)
        column, surprise = np.zeros(told.gap.shape, dtype=np.float32), np.zeros(queries, dtype=np.float32)
        live = np.zeros(queries, dtype=bool)
        column[who] = covariance / own[:, None]
        surprise[who], live[who] = (gap - told.gap[who, position]) / own, True
        weights[-1, who] = own
        told.gap += column * surprise[:, None]
        told.variance = np.maximum(told.variance - column**2, 0.0)
        told.columns = np.concatenate([told.columns, column[None]])
        self._know(self.replies.and_one(asked, weights, surprise, live))
