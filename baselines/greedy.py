"""`greedy`: batched greedy search over quantiles, refined. No training; the honest yardstick of every figure."""

from typing import Any, Literal

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, Supports, flag, real_number, whole_number
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.greedy import Moves, greedy_by_distance, greedy_search
from relax_plugin.search.refine import refine
from relax_plugin.wishes.objective import OBJECTIVES, check_objective
from relax_plugin.wishes.plausibility import Plausible

MOST_QUANTILES = 10_000  # each asks a model row a feature, a query and a step


class Greedy(CounterfactualExplainer):
    """At each step every allowed feature is tried at `quantiles` values, and the best move is kept.

    Valid on nearly every row and close to the optimum in sparsity, at hundreds of model rows a query; needs scores.

    Parameters
    ----------
    model, space, goal, max_changes, plausible, seed
        As for every explainer.
    quantiles : int
        Values tried of each number; the outer two are its bounds.
    refined : bool
        Whether changes are taken back as far as the goal allows.
    objective : "sparse", "closest" or None
        What is best: the fewest changes and of as many the least distance, or the least distance with however many
        changes up to `max_changes`. None: "closest" where changes have prices (`costs` of the space or of a call).
    """

    supports = Supports(labels_only=False, objectives=OBJECTIVES)

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = 5,
        plausible: Plausible = None,
        seed: int = 0,
        quantiles: int = 20,
        refined: bool = True,
        objective: Literal["sparse", "closest"] | None = None,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, plausible=plausible, seed=seed)
        self.quantiles = quantiles
        self.refined = refined
        self.objective = objective

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.moves_ = Moves.quantiles(values, self.space_, int(self.quantiles))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        real_number("quantiles", whole_number("quantiles", self.quantiles, 2), 2, MOST_QUANTILES)
        flag("refined", self.refined)
        check_objective(self.objective)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve)

    def _solve(self, problem: Problem) -> Proposals:
        proposals = Proposals.empty(problem, 1)
        values, met = greedy_search(problem, self.moves_, problem.max_changes)
        solved = np.flatnonzero(met)
        if self.refined:
            values[solved] = refine(problem, values[solved], solved)
        if problem.by_distance:
            values[solved] = greedy_by_distance(problem, self.moves_, values[solved], solved, bool(self.refined))
        proposals.values[:, 0], proposals.offered[:, 0] = values, met
        proposals.stage[solved, 0] = "greedy"
        return proposals
