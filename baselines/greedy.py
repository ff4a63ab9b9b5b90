"""`greedy`: batched greedy search over quantiles, refined. No training; the honest yardstick of every figure."""

from typing import Literal

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, Supports, most_changes, objective_parameter
from relax_plugin.parameters import flag, param, whole, with_parameters
from relax_plugin.problem import OBJECTIVES, Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.engine import Engine
from relax_plugin.search.moves import Moves
from relax_plugin.search.polish import drop_and_shorten, unpolished
from relax_plugin.search.proposers import GreedyChanges

MOST_QUANTILES = 10_000  # each asks a model row a feature, a query and a step


@with_parameters
class Greedy(CounterfactualExplainer):
    """At each step every allowed feature is tried at `quantiles` values, and the best move is kept.

    Valid on nearly every row and close to the optimum in sparsity, at hundreds of model rows a query; needs scores.
    """

    supports = Supports(labels_only=False, objectives=OBJECTIVES)

    max_changes: int | None = most_changes(5)
    quantiles: int = param(20, "Values tried of each number; the outer two are its bounds.", whole(2, MOST_QUANTILES))
    refined: bool = param(True, "Whether changes are taken back as far as the goal allows.", flag)
    objective: Literal["sparse", "closest"] | None = objective_parameter()

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.moves_ = Moves.quantiles(values, self.space_, int(self.quantiles))

    def _polishes(self) -> bool:
        return bool(self.refined)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        polished = drop_and_shorten if self.refined else unpolished
        engine = Engine([GreedyChanges(self.moves_, every_feature=True)], moves=self.moves_, polished=polished)
        return fill_slots(problem, n, engine.search)
