"""Belief: what the surrogate model is wrong by near each query, corrected by every answer of the model itself.

A Gaussian process for each query, all side by side: an answer to one candidate tells about those near it. Which
candidate to ask about next is said by its expected improvement.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.features import FeatureSpace

REACH = 1.4  # standard deviations over which errors of a surrogate model are alike
CATEGORY = np.sqrt(2.0)  # of them that a category counts for: as far as its one-hot columns move
FARTHEST = 1e6  # standard deviations
NOISE = 1e-3  # share of the variance that no answer removes
PRIOR_ANSWERS = 2.0  # answers that the typical error of the surrogate model is worth when a query's own is estimated
SHORTER = 3.0  # changes that the whole way to a known answer counts for, where a candidate may shorten it
TIMES_LIKELY = 2.5  # the distance of the shortest likely candidate, by which others are judged where distance counts
LIKELY = 0.3  # chance of being valid from which on a candidate says how few changes may do


@dataclass
class Best:
    """The best answer to each query so far: infinite changes and distance where there is none."""

    changes: Floats
    distance: Floats
    asked: Integers  # candidates that the model was asked about

    @classmethod
    def none(cls, queries: int) -> "Best":
        return cls(np.full(queries, np.inf), np.full(queries, np.inf), np.zeros(queries, dtype=np.int64))


class Belief:
    """What is believed of candidates of each query: their predicted gaps, and by how much they may be wrong.

    It begins with the model's answers to the queries themselves: `residual` is what the surrogate is wrong by there.
    """

    def __init__(self, space: FeatureSpace, start: Values, error: float, residual: Floats) -> None:
        self.space, self.error = space, error
        self.rows, self.residual = start[:, None], residual[:, None]  # what was asked (queries, answers, features)
        self.live = np.ones((len(start), 1), dtype=bool)  # queries that do not ask in a turn have a row all the same
        self.inverse = np.full((len(start), 1, 1), 1.0 / (1.0 + NOISE))  # of the answers' covariance
        self._know()

    def of(self, queries: Any) -> "Belief":
        """The belief about some of the queries."""
        part = Belief.__new__(Belief)
        part.space, part.error = self.space, self.error
        for name in ("rows", "residual", "live", "inverse", "weights", "own"):
            setattr(part, name, getattr(self, name)[queries])
        return part

    def alike(self, values: Values, owner: Integers, first: int = 0) -> Floats:
        """How alike the errors at candidates and at what their owners asked are (candidates, answers)."""
        made = np.empty((len(values), self.rows.shape[1] - first))
        for place in range(first, self.rows.shape[1]):
            squares = _squares(self.space, values, self.rows[owner, place])
            made[:, place - first] = np.where(self.live[owner, place], np.exp(-0.5 / REACH**2 * squares), 0.0)
        return made

    def correction(self, alike: Floats, owner: Integers) -> Floats:
        """What is to be added to the gaps that the surrogate model predicts."""
        return np.asarray(np.einsum("ni,ni->n", alike, self.weights[owner]))

    def errors(self, alike: Floats, owner: Integers) -> Floats:
        """Standard deviations of what is believed; each query's own typical error is seen from its surprises."""
        explained = np.einsum("ni,nij,nj->n", alike, self.inverse[owner], alike, optimize=True)
        return np.asarray(self.own[owner] * np.sqrt(np.maximum(1.0 - explained, NOISE)))

    def learn(self, who: Integers, values: Values, residual: Floats) -> None:
        """Take in what the surrogate model was wrong by at one candidate of some queries."""
        queries = len(self.rows)
        rows, told, live = self.rows[:, 0].copy(), np.zeros(queries), np.zeros(queries, dtype=bool)
        rows[who], told[who], live[who] = values, residual, True
        alike = np.where(live[:, None], self.alike(rows, np.arange(queries)), 0.0)
        # The inverse of a matrix with one more row and column, by its Schur complement.
        moved = np.einsum("nij,nj->ni", self.inverse, alike)
        left = np.maximum(1.0 + NOISE - np.einsum("ni,ni->n", alike, moved), NOISE)
        size = self.inverse.shape[1]
        inverse = np.zeros((queries, size + 1, size + 1))
        inverse[:, :size, :size] = self.inverse + moved[:, :, None] * moved[:, None] / left[:, None, None]
        inverse[:, :size, size] = inverse[:, size, :size] = -moved / left[:, None]
        inverse[:, size, size] = 1.0 / left
        self.inverse, self.rows = inverse, np.concatenate([self.rows, rows[:, None]], axis=1)
        self.residual = np.column_stack([self.residual, told])
        self.live = np.column_stack([self.live, live])
        self._know()

    def _know(self) -> None:
        self.weights = np.einsum("nij,nj->ni", self.inverse, self.residual)
        squares = np.einsum("ni,ni->n", self.residual, self.weights)
        self.own = np.sqrt((PRIOR_ANSWERS * self.error**2 + squares) / (PRIOR_ANSWERS + self.live.sum(axis=1)))


def _squares(space: FeatureSpace, values: Values, others: Values) -> Floats:
    """Squared distances between rows in standard deviations, whatever changes cost."""
    apart = np.clip((values - others) / space.scale, -FARTHEST, FARTHEST)
    jumps = space.jumps(np.arange(len(space)), others, values)
    if jumps.any():
        apart = np.where(jumps, CATEGORY * (values != others), apart)
    return np.asarray(np.einsum("nd,nd->n", apart, apart))


def expected_improvement(
    sure: Floats, changes: Integers, distance: Floats, owner: Integers, best: Best, by_distance: bool = False
) -> Floats:
    """The chance that a candidate is valid, times what it would gain, in changes: fewer first, else a shorter way.

    While nothing valid is known of its owner it is compared with one change more than a likely one has, and with the
    longest; the chance then counts for more the more was asked. `by_distance` a shorter way is all that counts; while
    nothing valid is known, it is compared with some times that of the shortest likely one.
    """
    queries, chance = len(best.changes), ndtr(sure)
    likely, known = chance >= LIKELY, np.isfinite(best.changes)
    urgency, longest = np.where(known, 0, best.asked)[owner], np.full(queries, 1e-12)
    np.maximum.at(longest, owner, distance)
    if by_distance:
        near = np.full(queries, np.inf)
        np.minimum.at(near, owner[likely], distance[likely])
        longest = np.where(np.isfinite(near), TIMES_LIKELY * near, longest)
    far = np.where(known, best.distance, longest)
    shorter = np.maximum(1.0 - distance / np.maximum(far, 1e-12)[owner], 0.0)
    if by_distance:
        return np.asarray(chance * (shorter + urgency))
    few, most = np.full(queries, np.inf), np.zeros(queries)
    np.minimum.at(few, owner[likely], changes[likely])
    np.maximum.at(most, owner, changes)
    few = np.where(np.isfinite(few), few, most)
    fewer = np.where(known, best.changes, few + 1.0)[owner] - changes
    gain = np.where(known[owner], np.where(fewer == 0, SHORTER * shorter, fewer), urgency + fewer + shorter)
    return np.asarray(chance * np.maximum(gain, 0.0))
