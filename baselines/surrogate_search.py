"""`surrogate-search`: the search engine on a surrogate model, whatever the model costs.

What it reaches with few model rows is what an agent has to beat.
"""

from functools import partial
from typing import Literal

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.base import LEARN_SHARE, CounterfactualExplainer, Supports, most_changes, objective_parameter
from relax_plugin.blackbox import Answer, answered
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import OBJECTIVES, Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.moves import Moves, natural_steps
from relax_plugin.surrogate import (
    LEAST_QUERIES,
    LEAST_QUERY_BUDGET,
    MOST_QUERIES,
    MOST_QUERY_BUDGET,
    QUERIES,
    SEARCH_BUDGET,
    acquisition,
)
from relax_plugin.surrogate.learning import QUANTILES, fit_surrogate


@with_parameters
class SurrogateSearch(CounterfactualExplainer):
    """The search runs on a surrogate model, and the model is asked about the most promising candidates.

    `fit` spends `query_budget` model rows to learn the surrogate. It needs scores.

    Attributes
    ----------
    surrogate_ : SurrogateModel
        Its `agreement` says how well it knows the model.
    """

    supports = Supports(labels_only=False, objectives=OBJECTIVES)

    max_changes: int | None = most_changes(5, "")
    max_queries: int = param(
        QUERIES,
        "Model rows that one query may cost, with those for the query itself and for the confirmation of its "
        "counterfactual. A query without a counterfactual may cost three times as many, and what the others of the "
        "same call have not used.",
        whole(LEAST_QUERIES, MOST_QUERIES),
    )
    objective: Literal["sparse", "closest"] | None = objective_parameter()
    query_budget: int = param(
        SEARCH_BUDGET, "Model rows that `fit` spends.", whole(LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET)
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.moves_ = Moves.quantiles(values, self.space_, QUANTILES)
        self.natural_ = natural_steps(values, self.space_)
        self._learn_surrogate(values, self.known_, int(self.query_budget) - self.fit_rows_, rng)

    def _learn_answers(self) -> None:
        """For another model: its surrogate is learned from training rows that are kept."""
        values, rng = self.answered_.neighbours.rows, np.random.default_rng(int(self.seed))
        known = answered(self.blackbox_, rng.permutation(values)[: int(self.query_budget) // LEARN_SHARE])
        self._learn_surrogate(values, known, int(self.query_budget) - len(known[0]), rng)

    def _learn_surrogate(
        self, values: Values, known: tuple[Values, Answer], left: int, rng: np.random.Generator
    ) -> None:
        goal, most = self.goal_, self._most_changes()
        self.surrogate_ = fit_surrogate(self.blackbox_, values, known, left, goal, most, rng)
        self.answered_ = acquisition.predicted_answers(self.surrogate_, values)

    def _polishes(self) -> bool:
        return True

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        search = acquisition.SurrogateSearch(
            self.surrogate_, self.moves_, self.answered_, int(self.max_queries), self.natural_
        )
        return fill_slots(problem, n, search.search, partial(search.search, persistent=False))

    def _most_fit_rows(self) -> int:
        return int(self.query_budget)
