"""`surrogate-search`: the imagined search of ReLAX by a world model alone, without an agent.

The same world model and the same search: what this reaches is what the agent itself has to beat.
"""

from typing import Any, Literal

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, Supports, real_number, whole_number
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import MOST_TRAINING_ROWS, Neighbours
from relax_plugin.search.rescue import QUANTILES, RESCUE_ROWS, Rescue
from relax_plugin.search.searcher import check_search_options
from relax_plugin.wishes.objective import OBJECTIVES, check_objective
from relax_plugin.wishes.plausibility import Plausible
from relax_plugin.world_model import LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET, SEARCH_BUDGET, rows_of_search
from relax_plugin.world_model.imagined_search import ImaginedSearch
from relax_plugin.world_model.learning import imagine
from relax_plugin.world_model.model import ImaginedBlackBox
from relax_plugin.world_model.sampling import Mixing


class SurrogateSearch(CounterfactualExplainer):
    """Complete answers found in a fitted copy of the model, and asked about in the order of their promise.

    Needs scores.

    Parameters
    ----------
    model, space, goal, max_changes, plausible, seed
        As for every explainer.
    rows_per_instance : int, optional
        Model rows the search may spend on one query: 12 by default, and 24 where the least distance is the objective,
        or rules hold.
    fallback : bool
        Whether queries still unsolved get more rows: for a longer search, then for a rescue by greedy search and from
        near training rows.
    rescue_rows : int
        Model rows that the rescue may spend on one query at most; 0: there is none.
    objective : "sparse", "closest" or None
        What is best: the fewest changes and of as many the least distance, or the least distance with however many
        changes up to `max_changes`. None: "closest" where changes have prices (`costs` of the space or of a call).
    query_budget : int
        Model rows that `fit` spends.

    Attributes
    ----------
    world_model_ : WorldModel
        Its `agreement` says how well it knows the model.
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
        rows_per_instance: int | None = None,
        fallback: bool = True,
        rescue_rows: int = RESCUE_ROWS,
        objective: Literal["sparse", "closest"] | None = None,
        query_budget: int = SEARCH_BUDGET,
        seed: int = 0,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, plausible=plausible, seed=seed)
        self.rows_per_instance = rows_per_instance
        self.fallback = fallback
        self.rescue_rows = rescue_rows
        self.objective = objective
        self.query_budget = query_budget

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.moves_ = Moves.quantiles(values, self.space_, QUANTILES)
        self.neighbours_ = Neighbours.of(values, MOST_TRAINING_ROWS)
        left = int(self.query_budget) - self.fit_rows_
        goal, most = self.goal_, self._most_changes()
        self.world_model_ = imagine(self.blackbox_, values, self.known_, left, goal, most, Mixing(), rng)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        expected = ImaginedBlackBox(self.world_model_).ask
        rescue = Rescue(self.neighbours_, self.moves_, int(self.rescue_rows), expected) if self.fallback else None
        rows, near = (
            rows_of_search(self.rows_per_instance, problem.by_distance or problem.rules is not None),
            self.neighbours_,
        )
        searcher = ImaginedSearch(self.world_model_, self.moves_, rows, rescue, neighbours=near)
        return fill_slots(problem, n, searcher.search, searcher.ordinary_search)

    def _most_fit_rows(self) -> int:
        return int(self.query_budget)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_search_options(rows_of_search(self.rows_per_instance, False), self.fallback, self.rescue_rows)
        check_objective(self.objective)
        budget = whole_number("query_budget", self.query_budget, LEAST_QUERY_BUDGET)
        real_number("query_budget", budget, LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET)
