"""`search`: counterfactuals by asking the model, without an agent and without training."""

import time
from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline

from relax_plugin.arrays import Values
from relax_plugin.base import (
    CounterfactualExplainer,
    Supports,
    fitted,
    further_models_parameter,
    most_changes,
    objective_parameter,
)
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.parameters import flag, param, real, whole, with_parameters
from relax_plugin.problem import OBJECTIVES, Problem, Proposals
from relax_plugin.results import Counterfactuals
from relax_plugin.search.diverse import Solver, fill_slots
from relax_plugin.search.engine import Engine, rows_of_search
from relax_plugin.search.moves import Moves, natural_steps
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.oracle import FEW_QUERIES, QUERIES, describe_oracle, needs_surrogate
from relax_plugin.search.proposers import GreedyChanges, NearRows, Proposer, SingleChanges
from relax_plugin.surrogate import SEARCH_BUDGET

if TYPE_CHECKING:
    from relax_plugin.surrogate.acquisition import SurrogateSearch
    from relax_plugin.surrogate.model import SurrogateModel
    from relax_plugin.trees.profiles import TreeProfiles

NEAR = 24  # near training rows of a query whose cells are taken over,
UNDONE = 10  # and, where no counterfactual is found, whose changes are undone one by one;
UNDONE_BY_LABELS = 110  # more of them where labels alone do not tell which of several misses is nearer
NEAR_ROWS_KEPT = 2_000  # training rows that counterfactuals may be made of, each asked once in fit
LEAST_QUERIES = 4  # for a query, its counterfactual, and the confirmation of both
MOST_QUERIES = 10**9
MOST_SECONDS = 1e9


@with_parameters
class CounterfactualSearch(CounterfactualExplainer):
    """A direct search for counterfactuals, without an agent: nothing is trained.

    Every single change of a row is evaluated by the model, then the cells of near training rows that have the wanted
    prediction, and further changes on top of the best ones. Of what is valid, needless changes are dropped, and the
    others are shortened and moved to natural values.

    Attributes
    ----------
    oracle_ : str
        What answers the search, and why: the model's trees, the model itself, or a surrogate model.
    """

    supports = Supports(objectives=OBJECTIVES)
    until_ = np.inf  # of a call, as `time.perf_counter` tells

    max_changes: int | None = most_changes(5, "")
    max_queries: int | None = param(
        None,
        "Model evaluations that the search for one counterfactual may cost. None: as many as the search needs, usually "
        "a few hundred. Below 100, or where one evaluation of the model takes longer than a millisecond, the search "
        "runs on a surrogate model. `fit` then evaluates 1,000 rows, the default is 12, and a row without a "
        "counterfactual may cost three times as many, and what the other rows have not used.",
        whole(LEAST_QUERIES, MOST_QUERIES),
    )
    seconds: float | None = param(
        None,
        "Time that a call of `explain` may take for its search. Rows without a counterfactual by then say so in their "
        "status.",
        real(0, MOST_SECONDS),
    )
    also: Sequence[Any] = further_models_parameter("")
    objective: Literal["sparse", "closest"] | None = objective_parameter()
    thorough: bool = param(
        False,
        "Of the trees of a model: whether to look longer for the closest counterfactual. Where one or two changes do, "
        "it is then the closest there is; where more are needed, nearly. Takes some forty times as long, and far "
        "longer where deep trees have ten thousands of leaves. Other models are searched as without it.",
        flag,
    )
    surrogate_: "SurrogateModel | None" = field(init=False)
    profiles_: "TreeProfiles | None" = field(init=False)

    def _bind_model(self) -> None:
        if isinstance(self.model, BlackBox):
            super()._bind_model()
            return
        # A call of scikit-learn's ensembles takes some ten milliseconds whatever its size; boosters' own are quick.
        last = self.model.steps[-1][-1] if isinstance(self.model, Pipeline) else self.model
        slow = type(last).__module__.startswith("sklearn.ensemble")
        self.blackbox_ = BlackBox(self.model, self.space_, accelerate="auto" if slow else None)

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.moves_ = Moves.quantiles(values, self.space_)
        self.natural_ = natural_steps(values, self.space_)
        self.surrogate_, asked = None, self.blackbox_.rows_asked
        self._read_trees(self.known_)
        direct = self.profiles_ is not None or not needs_surrogate(self.blackbox_, self.max_queries, self.known_[0])
        spent, most = self.fit_rows_ + self.blackbox_.rows_asked - asked, self._most_fit_rows()
        kept = NEAR_ROWS_KEPT if most is None else max(min(NEAR_ROWS_KEPT, most - spent), 0)
        self.answered_ = AnsweredRows(Neighbours.of(values, kept))
        if direct:
            self.answered_.ask(self.blackbox_, np.arange(len(self.answered_.neighbours)))
        else:
            self._fit_surrogate(values, spent, rng)

    def _fit_surrogate(self, values: Values, spent: int, rng: np.random.Generator) -> None:
        from relax_plugin.surrogate import acquisition
        from relax_plugin.surrogate.learning import fit_surrogate

        left, most = self._surrogate_rows() - spent, self._most_changes()
        self.surrogate_ = fit_surrogate(self.blackbox_, values, self.known_, left, self.goal_, most, rng)
        self.answered_ = acquisition.predicted_answers(self.surrogate_, values)

    def _read_trees(self, known: tuple[Values, Answer]) -> None:
        from relax_plugin.search.trees import read_profiles  # whose readers import much of scikit-learn

        self.profiles_, self.no_profiles_ = read_profiles(self.blackbox_, known)
        self.by_predict_ = self.blackbox_.strict

    def _learn_answers(self) -> None:
        near = self.answered_.neighbours
        if self.surrogate_ is not None:  # of another model
            self._fit_surrogate(near.rows, len(self.known_[0]), np.random.default_rng(int(self.seed)))
            return
        self._read_trees(self.known_)
        self.answered_ = AnsweredRows(near)
        self.answered_.ask(self.blackbox_, np.arange(len(near)))

    def _most_fit_rows(self) -> int | None:
        few = self.max_queries is not None and int(self.max_queries) < FEW_QUERIES
        return self._surrogate_rows() if few else None

    def _surrogate_rows(self) -> int:
        """Model rows that a surrogate may cost."""
        return SEARCH_BUDGET

    @property
    def oracle_(self) -> str:
        blackbox = fitted(self).blackbox_
        if self.profiles_ is not None:
            return f"the model's trees: {self.profiles_}"
        why = f", since {self.no_profiles_}" if self.no_profiles_ else ""
        return describe_oracle(blackbox, self.surrogate_ is not None, self.max_queries) + why

    def _polishes(self) -> bool:
        return True

    def _explain(self, *args: Any, **options: Any) -> Counterfactuals:
        if self.seconds is not None:
            self.until_ = time.perf_counter() + float(self.seconds)
        return super()._explain(*args, **options)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        if self.surrogate_ is not None:
            search = self._surrogate_search()
            return fill_slots(problem, n, search.search, partial(search.search, persistent=False))
        return fill_slots(problem, n, self._solver(rows_of_search(problem, self.max_queries)))

    def _surrogate_search(self, further: Sequence[Proposer] = ()) -> "SurrogateSearch":
        from relax_plugin.surrogate.acquisition import SurrogateSearch

        assert self.surrogate_ is not None
        rows = QUERIES if self.max_queries is None else int(self.max_queries)
        arguments = (self.surrogate_, self.moves_, self.answered_, rows, self.natural_, further)
        return SurrogateSearch(*arguments, until=self.until_)

    def _solver(self, rows: int | None = None, wider: bool = True) -> Solver:
        """The search in the model's trees where they are read, or else by asking the model."""
        engine = self._engine(rows, wider)
        if self.profiles_ is None or time.perf_counter() > self.until_:
            return engine.search
        from relax_plugin.search.trees import TreeRows, TreeSolver

        engine = replace(engine, proposers=[TreeRows(self.profiles_), *engine.proposers])
        options = (self.by_predict_, self.answered_, self.natural_, self.thorough)
        return TreeSolver(self.profiles_, engine.search, *options).solve

    def _engine(self, rows: int | None = None, wider: bool = True) -> Engine:
        near = NearRows(self.answered_, self.moves_, NEAR, put_back=False)
        undone = UNDONE if self.blackbox_.has_scores else UNDONE_BY_LABELS
        wide: list[Proposer] = [
            GreedyChanges(self.moves_, pairs=48, width=2),
            NearRows(self.answered_, self.moves_, undone=undone),
        ]
        return Engine(
            [SingleChanges(self.moves_), near, GreedyChanges(self.moves_)],
            wide if wider else [],
            self.moves_,
            self.natural_,
            self.answered_.neighbours.repeated,
            rows=rows,
            until=self.until_,
        )
