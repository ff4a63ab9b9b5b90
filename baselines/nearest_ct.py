"""`nearest-ct`: the nearest training row whose answer meets the goal (the paper's Nearest-CT, §5.2)."""

from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports, flag
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.refine import undo
from relax_plugin.wishes.plausibility import Plausible

CHUNK = 256  # queries whose neighbours are asked about together
ROUNDS = (1, 9, 90)  # neighbours tried in turn by the queries that are still unsolved
REVERTED_OVER = 10  # neighbours among which the reverted form chooses


class NearestCT(CounterfactualExplainer):
    """Training rows of the goal, nearest first, moved within the constraints and asked of the model.

    Without constraints the first one is valid, being a row the model has answered. Where features are frozen or
    bounded, the projected neighbours are tried in order of distance, up to a hundred.

    Parameters
    ----------
    model, space, goal, max_changes, plausible, seed
        As for every explainer. Changes beyond `max_changes` are undone as far as the goal allows.
    reverted : bool
        Undo, for each of the ten nearest, every change that is not needed, and take the sparsest: a fair rival in
        sparsity, at a few hundred model rows a query.
    """

    supports = Supports(
        paper="a baseline of Le, Wang, Lee: GRACE: Generating Concise and Informative Contrastive Sample to Explain "
        "Neural Network Model's Prediction, KDD 2020, https://arxiv.org/abs/1911.02042",
        tier="reproduced",
        evidence="a definition; its order is that of plain distances to all rows: tests/baselines/test_nearest_ct.py",
    )

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = None,
        plausible: Plausible = None,
        reverted: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, plausible=plausible, seed=seed)
        self.reverted = reverted

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.neighbours_ = Neighbours.of(values)
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.answered_ = AnsweredRows(self.neighbours_)
        self.answered_.ask(self.blackbox_, np.arange(len(self.neighbours_)))

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        for queries, part in problem.parts(CHUNK):
            made.values[queries], made.offered[queries] = self._nearest(part, n)
        made.stage[made.offered] = "neighbour"
        made.note[:] = f"none was found among the {sum(ROUNDS)} nearest training rows that meet the goal"
        return made

    def _nearest(self, problem: Problem, n: int) -> tuple[Floats, Booleans]:
        """The n best of the projected neighbours that meet the goal, for each query of a chunk."""
        order, available = self.answered_.nearest(problem, sum(ROUNDS) + len(self.space_))
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
            fresh, fresh_owner = self._valid(problem, self.neighbours_.rows[order[owner, position[column]]], owner)
            pool, owners = np.concatenate([pool, fresh]), np.concatenate([owners, fresh_owner])
            _choose(problem, pool, owners, values, offered, sparsest=self.reverted)
            tried += round_
        return values, offered

    def _check_parameters(self) -> None:
        super()._check_parameters()
        flag("reverted", self.reverted)

    def _valid(self, problem: Problem, candidates: Values, owner: Integers) -> tuple[Floats, Integers]:
        """The candidates moved within the limits that meet the goal, made sparser as far as asked."""
        candidates = problem.within_limits(candidates, owner)
        met, _ = problem.judge(candidates, owner)
        candidates, owner = candidates[met], owner[met]
        candidates, _ = undo(problem, candidates, owner, down_to=1 if self.reverted else problem.max_changes)
        few = (candidates != problem.start[owner]).sum(axis=1) <= problem.max_changes
        return candidates[few], owner[few]


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
