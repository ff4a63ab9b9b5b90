"""`nearest-ct`: the nearest training row whose answer meets the goal (the paper's Nearest-CT, §5.2)."""

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import Supports
from relax_plugin.baselines.common import NeighbourExplainer, valid_rows
from relax_plugin.parameters import flag, param, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.neighbours import Neighbours

CHUNK = 256  # queries whose neighbours are asked about together
ROUNDS = (1, 9, 90)  # neighbours tried in turn by the queries that are still unsolved
REVERTED_OVER = 10  # neighbours among which the reverted form chooses


@with_parameters
class NearestCT(NeighbourExplainer):
    """Training rows of the goal, nearest first, moved within the constraints and asked of the model.

    Without constraints the first one is valid, being a row the model has answered. Where features are frozen or
    bounded, the projected neighbours are tried in order of distance, up to a hundred.
    """

    supports = Supports(
        paper="a baseline of Le, Wang, Lee: GRACE: Generating Concise and Informative Contrastive Sample to Explain "
        "Neural Network Model's Prediction, KDD 2020, https://arxiv.org/abs/1911.02042",
        tier="reproduced",
        evidence="a definition; its order is that of plain distances to all rows: tests/baselines/test_nearest_ct.py",
    )

    reverted: bool = param(
        False,
        "Undo, for each of the ten nearest, every change that is not needed, and take the sparsest: a fair rival in "
        "sparsity, at a few hundred model rows a query.",
        flag,
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.neighbours_ = Neighbours.of(values)
        self._learn_answers()

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        for queries, part in problem.parts(CHUNK):
            made.values[queries], made.offered[queries] = self._nearest(part, n)
        made.stage[made.offered] = "neighbour"
        made.note[:] = f"none was found among the {sum(ROUNDS)} nearest training rows that meet the goal"
        return made

    def _nearest(self, problem: Problem, n: int) -> tuple[Floats, Booleans]:
        order, available = self.answered_.nearest(problem, sum(ROUNDS) + len(self.space_))
        values, offered = Proposals.empty(problem, n).values, np.zeros((len(problem), n), dtype=bool)
        pool, owners = np.empty((0, problem.start.shape[1])), np.empty(0, dtype=np.int64)
        rounds = (max(n, REVERTED_OVER if self.reverted else 1), *ROUNDS[1:])
        for rows, owner in self._in_rounds(order, available, rounds, offered):
            fresh, fresh_owner = valid_rows(problem, rows, owner, 1 if self.reverted else problem.max_changes)
            pool, owners = np.concatenate([pool, fresh]), np.concatenate([owners, fresh_owner])
            _choose(problem, pool, owners, values, offered, sparsest=self.reverted)
        return values, offered


def _choose(
    problem: Problem, pool: Floats, owner: Integers, values: Floats, offered: Booleans, *, sparsest: bool
) -> None:
    changes = (pool != problem.start[owner]).sum(axis=1) if sparsest else np.zeros(len(owner))
    order = np.lexsort((problem.distance(pool, owner), changes, owner))
    _, first = np.unique(np.column_stack([owner, pool])[order], axis=0, return_index=True)
    order = order[np.sort(first)]
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    best = rank < values.shape[1]
    values[owner[order[best]], rank[best]] = pool[order[best]]
    offered[owner[order[best]], rank[best]] = True
