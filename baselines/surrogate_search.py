"""`surrogate-search`: the search of ReLAX guided by a world model alone, without an agent.

The same world model that guides the search of ReLAX beside its agent: what this reaches is what the agent itself has
to beat.
"""

from functools import partial
from typing import Any

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, Supports, real_number, whole_number
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.greedy import Moves
from relax_plugin.search.searcher import FALLBACK_VALUES, Searcher, check_search_options
from relax_plugin.search.state import Observer
from relax_plugin.world_model import LEAST_QUERY_BUDGET
from relax_plugin.world_model.lookahead import LookaheadRanker
from relax_plugin.world_model.sampling import Mixing, imagine

MOST_QUERY_BUDGET = 10_000_000  # the copy is fitted to all of them at once


class SurrogateSearch(CounterfactualExplainer):
    """Actions in the order of what a fitted copy of the model expects of them; needs scores.

    Parameters
    ----------
    model, space, goal, max_changes, seed
        As for every explainer.
    rows_per_instance : int
        Model rows the search may spend on one query.
    fallback : bool
        Whether queries still unsolved get more rows: for a wider search, then, where the model gives scores, for greedy
        search.
    query_budget : int
        Model rows that `fit` may spend at most.

    Attributes
    ----------
    world_model_ : WorldModel
        Its `agreement` says how well it knows the model.
    """

    supports = Supports(labels_only=False)

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = 5,
        rows_per_instance: int = 40,
        fallback: bool = True,
        query_budget: int = 4000,
        seed: int = 0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.rows_per_instance = rows_per_instance
        self.fallback = fallback
        self.query_budget = query_budget

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.observer_ = Observer(self.space_, ActionTable(self.space_), self._most_changes(), gap_scale=1.0)
        self.moves_ = Moves.quantiles(values, self.space_, FALLBACK_VALUES)
        left = int(self.query_budget) - self.fit_rows_
        self.world_model_ = imagine(self.blackbox_, values, self.known_, left, Mixing(), rng, for_search=True)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        ranker = partial(LookaheadRanker, self.world_model_, self.observer_)
        searcher = Searcher(ranker, self.observer_, self.moves_, int(self.rows_per_instance), self.fallback)
        return fill_slots(problem, n, searcher.search, searcher.ordinary_search)

    def _most_fit_rows(self) -> int:
        return int(self.query_budget)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_search_options(self.rows_per_instance, self.fallback)
        budget = whole_number("query_budget", self.query_budget, LEAST_QUERY_BUDGET)
        real_number("query_budget", budget, LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET)
