"""Belief: what is believed of each query's proposals, corrected by every answer of the model to one of them.

A Gaussian process on what the world model is wrong by, one for each query, side by side: an answer to one proposal
tells about those near it. Which proposal to ask about next is said by its expected improvement.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.features import FeatureSpace
from relax_plugin.world_model.changes import Changes

NOISE = 1e-3  # share of the variance that no answer removes
CLOSENESS = 3.0  # what closeness counts among proposals, in changes, while no counterfactual is known
LIKELY = 0.3
FEWER = 1.0
SHORTER = 1.0  # what a counterfactual of no length at all would gain on the best known one, in changes
PRIOR_ANSWERS = 4.0  # answers that the typical error of the world model is worth when a query's own is estimated


def expected_improvement(
    gap: Floats,
    error: Floats | float,
    count: Integers | int,
    distance: Floats,
    best_count: Floats,
    best_distance: Floats,
    most: int,
    urgency: float = 0.0,
) -> Floats:
    """The chance that a proposal is valid, times what it would gain: changes first, then distance, all in changes."""
    known = np.isfinite(best_count)[:, None]
    longest = np.where(np.isfinite(gap), distance, 0.0).max(axis=1)
    share = distance / np.maximum(np.where(known, best_distance[:, None], longest[:, None]), 1e-12)
    shorter = SHORTER * np.maximum(1.0 - share, 0.0)
    chance = np.where(np.isfinite(gap), ndtr(-gap / error), 0.0)
    likely = np.where(chance >= LIKELY, count, most).min(axis=1)[:, None] + 1.0
    fewer = np.where(known, best_count[:, None], likely) - count
    gain = np.where(fewer == 0, shorter, np.maximum(FEWER * fewer, 0.0))
    gain = np.where(known, gain, np.maximum(urgency + FEWER * fewer + shorter, 0.0))
    return np.where(np.isfinite(gap), chance * gain, 0.0)


@dataclass
class Told:
    """What some proposals of each query are believed to be, given the answers so far: (queries, proposals)."""

    gap: Floats
    variance: Floats  # as a share of the world model's own
    columns: list[Floats]  # what each answer said of them, up to the error


class Belief:
    """The answers of the model to proposals of each query, and what they say of others.

    The Cholesky factor of the answers' covariance grows by a row with each; queries that ask no more get empty ones.
    """

    def __init__(self, space: FeatureSpace, error: float, start_errors: Floats) -> None:
        """Begin with the model's answers to the queries themselves: what the world model is wrong by there."""
        queries = len(start_errors)
        self.space, self.error = space, error
        self.asked = [Changes.none(queries, 1, 1)]
        self.factor = [[np.full(queries, np.sqrt(1.0 + NOISE))]]
        self.surprise = [start_errors / np.sqrt(1.0 + NOISE)]
        self.live = [np.ones(queries, dtype=bool)]

    def tell(self, proposals: Changes) -> Told:
        """What is believed of proposals."""
        gap, variance = proposals.gap.copy(), np.ones(proposals.gap.shape)
        columns: list[Floats] = []
        for asked, row, surprise, live in zip(self.asked, self.factor, self.surprise, self.live, strict=True):
            column = proposals.alike(asked, self.space)
            for before, weight in zip(columns, row, strict=False):
                column -= before * weight[:, None]
            column = np.where(live[:, None], column / row[-1][:, None], 0.0)
            gap += column * surprise[:, None]
            variance -= column**2
            columns.append(column)
        return Told(gap, np.maximum(variance, 0.0), columns)

    def errors(self, told: Told) -> Floats:
        """Standard deviations of what is believed: the query's own error, estimated from its surprises."""
        squares = sum(surprise**2 for surprise in self.surprise)
        number = sum(live.astype(float) for live in self.live)
        own = np.sqrt((PRIOR_ANSWERS * self.error**2 + squares) / (PRIOR_ANSWERS + number))
        return own[:, None] * np.sqrt(np.maximum(told.variance, NOISE))

    def learn(self, who: Integers, asked: Changes, told: Told, position: Integers, gap: Floats, proposals: Changes) -> None:
        """Take in the model's answers to one proposal of some queries, and correct what is believed of the others."""
        queries, every = len(told.gap), np.arange(len(who))
        row = [np.zeros(queries) for _ in told.columns]
        for weight, column in zip(row, told.columns, strict=True):
            weight[who] = column[who, position]
        own = np.sqrt(told.variance[who, position] + NOISE)
        covariance = proposals.of(who).alike(asked, self.space)
        for column in told.columns:
            covariance -= column[who] * column[who, position][:, None]
        column, surprise, live = np.zeros(told.gap.shape), np.zeros(queries), np.zeros(queries, dtype=bool)
        column[who] = covariance / own[:, None]
        surprise[who] = (gap - told.gap[who, position]) / own
        live[who] = True
        told.gap += column * surprise[:, None]
        told.variance = np.maximum(told.variance - column**2, 0.0)
        told.columns.append(column)
        diagonal = np.ones(queries)
        diagonal[who] = own
        whole = Changes.none(queries, 1, asked.feature.shape[2])
        whole.feature[who], whole.value[who], whole.length[who] = asked.feature, asked.value, asked.length
        self.asked.append(whole)
        self.factor.append([*row, diagonal])
        self.surprise.append(surprise)
        self.live.append(live)
