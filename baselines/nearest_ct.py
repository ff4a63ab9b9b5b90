"""`nearest-ct`: the nearest training row whose answer meets the goal (the paper's Nearest-CT, §5.2)."""

from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports, flag
from relax_plugin.blackbox import Answer
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.refine import undo

CHUNK = 256  # queries whose neighbours are asked about together
DISTANCES = 4_000_000  # between queries and training rows that are held at once: bounds the memory
TRAINING_CHUNK = 16_384  # training rows whose columns are held at once
ASKED = 65_536  # training rows asked about at once: bounds what the model needs for its answer
ROUNDS = (1, 9, 90)  # neighbours tried in turn by the queries that are still unsolved
REVERTED_OVER = 10  # neighbours among which the reverted form chooses


class NearestCT(CounterfactualExplainer):
    """Training rows of the goal, nearest first, moved within the constraints and asked of the model.

    Without constraints the first one is valid, being a row the model has answered. Where features are frozen or
    bounded, the projected neighbours are tried in order of distance, up to a hundred.

    Parameters
    ----------
    model, space, goal, max_changes, seed
        As for every explainer. Changes beyond `max_changes` are undone as far as the goal allows.
    reverted : bool
        Undo, for each of the ten nearest, every change that is not needed, and take the sparsest: a fair rival in
        sparsity, at a few hundred model rows a query.
    """

    supports = Supports(
        paper="a baseline of Le, Wang, Lee: GRACE: Generating Concise and Informative Contrastive Sample to Explain "
        "Neural Network Model's Prediction, KDD 2020, https://arxiv.org/abs/1911.02042",
    )

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = None,
        reverted: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.reverted = reverted

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.neighbours_ = np.unique(values, axis=0)
        self._learn_answers()

    def _learn_answers(self) -> None:
        rows = self.neighbours_
        parts = [self.blackbox_.ask(rows[first : first + ASKED]) for first in range(0, len(rows), ASKED)]
        scores = [part.scores for part in parts if part.scores is not None]
        self.answers_ = Answer(
            np.concatenate([part.output for part in parts]), np.concatenate(scores) if scores else None
        )

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        for queries, part in problem.parts(CHUNK):
            made.values[queries], made.offered[queries] = self._nearest(part, n)
        made.stage[made.offered] = "neighbour"
        made.note[:] = f"none was found among the {sum(ROUNDS)} nearest training rows that meet the goal"
        return made

    def _nearest(self, problem: Problem, n: int) -> tuple[Floats, Booleans]:
        """The n best of the projected neighbours that meet the goal, for each query of a chunk."""
        order, available = self._order(problem)
        values, offered = Proposals.empty(problem, n).values, np.zeros((len(problem), n), dtype=bool)
        pool, owners = np.empty((0, problem.start.shape[1])), np.empty(0, dtype=np.int64)
        tried = 0
        for round_ in (max(n, REVERTED_OVER if self.reverted else 1), *ROUNDS[1:]):
            open_ = np.flatnonzero(~offered.all(axis=1) & (available > tried))
            if len(open_) == 0:
                break
            position = np.arange(tried, min(tried + round_, order.shape[1]))
            row, column = np.nonzero(position < available[open_, None])
            owner = open_[row]
            fresh, fresh_owner = self._valid(problem, self.neighbours_[order[owner, position[column]]], owner)
            pool, owners = np.concatenate([pool, fresh]), np.concatenate([owners, fresh_owner])
            _choose(problem, pool, owners, values, offered, sparsest=self.reverted)
            tried += round_
        return values, offered

    def _order(self, problem: Problem) -> tuple[Integers, Integers]:
        """Training rows whose answers meet each query's goal, by distance; and how many there are."""
        most = min(len(self.neighbours_), sum(ROUNDS) + len(self.space_))
        order, available = np.empty((len(problem), most), dtype=np.int64), np.empty(len(problem), dtype=np.int64)
        movable = np.asarray(~np.broadcast_to(problem.limits.frozen, problem.start.shape).all(axis=0))
        size = max(1, DISTANCES // len(self.neighbours_))
        for first in range(0, len(problem), size):
            index = np.arange(first, min(first + size, len(problem)))
            order[index], available[index] = _first_of_each(self._distances(problem, index, movable), most)
        return order, available

    def _distances(self, problem: Problem, index: Integers, movable: Booleans) -> Floats:
        """From some queries to every training row (queries, training rows); infinite where its answer misses the goal.

        Filled in piece by piece: what is needed on the way, above all the columns of categories, would be far larger.
        """
        queries = _l1_columns(problem.space, problem.start[index], movable)
        distance = np.empty((len(index), len(self.neighbours_)))
        for first in range(0, len(self.neighbours_), TRAINING_CHUNK):
            rows = np.arange(first, min(first + TRAINING_CHUNK, len(self.neighbours_)))
            columns = _l1_columns(problem.space, self.neighbours_[rows], movable)
            goal = problem.goal.take(np.repeat(index, len(rows)))
            met = goal.met(self.answers_.take(np.tile(rows, len(index)))).reshape(len(index), len(rows))
            distance[:, rows] = np.where(met, pairwise_distances(queries, columns, metric="manhattan"), np.inf)
        return distance

    def _check_parameters(self) -> None:
        super()._check_parameters()
        flag("reverted", self.reverted)

    def _valid(self, problem: Problem, candidates: Values, owner: Integers) -> tuple[Floats, Integers]:
        """The candidates moved within the limits that meet the goal, made sparser as far as asked."""
        candidates = problem.limits.take(owner).project(candidates, problem.start[owner])
        met, _ = problem.judge(candidates, owner)
        candidates, owner = candidates[met], owner[met]
        candidates, _ = undo(problem, candidates, owner, down_to=1 if self.reverted else problem.max_changes)
        few = (candidates != problem.start[owner]).sum(axis=1) <= problem.max_changes
        return candidates[few], owner[few]


def _first_of_each(distance: Floats, most: int) -> tuple[Integers, Integers]:
    """Positions of the smallest distances of each row in ascending order, and how many of them are finite."""
    nearest = np.argpartition(distance, most - 1, axis=1)[:, :most]
    inner = np.argsort(np.take_along_axis(distance, nearest, axis=1), axis=1, kind="stable")
    return np.take_along_axis(nearest, inner, axis=1), np.minimum(np.isfinite(distance).sum(axis=1), most)


def _choose(
    problem: Problem, pool: Floats, owner: Integers, values: Floats, offered: Booleans, *, sparsest: bool
) -> None:
    """Fill each query's slots with its best distinct candidates: the closest ones, or first the sparsest."""
    changes = (pool != problem.start[owner]).sum(axis=1) if sparsest else np.zeros(len(owner))
    order = np.lexsort((problem.distance(pool, owner), changes, owner))
    _, first = np.unique(np.column_stack([owner, pool])[order], axis=0, return_index=True)
    order = order[np.sort(first)]
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    best = rank < values.shape[1]
    values[owner[order[best]], rank[best]] = pool[order[best]]
    offered[owner[order[best]], rank[best]] = True


def _l1_columns(space: FeatureSpace, values: Values, movable: Booleans) -> Floats:
    """Columns whose Manhattan distance is that of the space over movable features: numbers, and halved indicators."""
    columns = [values[:, ~space.is_categorical] / space.scale[~space.is_categorical] * movable[~space.is_categorical]]
    for j in np.flatnonzero(space.is_categorical):
        columns.append(0.5 * movable[j] * (values[:, [j]] == np.arange(len(space.features[j].categories))))
    return np.concatenate(columns, axis=1)
