"""The contract of every counterfactual explainer: `fit`, `explain`, and who decides what is valid."""

import copy
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from relax_plugin.arrays import Array, Values
from relax_plugin.asked import asked_of
from relax_plugin.batch import Batch
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import (
    ConstraintError,
    GoalError,
    InputError,
    NotFittedError,
    RefusedRowError,
    UnsupportedError,
    naming_the_extra,
)
from relax_plugin.features import NOTHING_FIXED, FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.other_models import check_models, further_models
from relax_plugin.parameters import (
    check_parameters,
    documented,
    flag,
    instance_of,
    param,
    real_number,
    whole_number,
)
from relax_plugin.plausibility import (
    Detectors,
    Plausibility,
    Plausible,
    PlausibleRows,
    TrainingRows,
    read_plausibility,
)
from relax_plugin.problem import Problem, Proposals, check_objective, chosen_objective
from relax_plugin.readers import with_categories_of
from relax_plugin.registry import full_name, list_explainers, make_explainer
from relax_plugin.results import Counterfactuals, concatenate
from relax_plugin.rules.repair import RowRules
from relax_plugin.rules.rule import Rule
from relax_plugin.supports import Supports
from relax_plugin.table.constraints import Bounds, Constraints
from relax_plugin.table.tables import pandas_or_array, row_name, without_columns

if TYPE_CHECKING:
    from relax_plugin.menu.menu import Menu

BATCH = 8192  # counterfactuals worked on side by side: bounds the memory of a call of any size
LEAST_BATCH = 64  # queries worked on side by side, however many counterfactuals each is to have
MOST_COUNTERFACTUALS = 1_000_000  # that may be asked for one query
SHOWN_NAMES = 10  # of features, where an explainer is printed
MOST_ANSWERS = 10_000  # training rows whose predictions say how far the default goal of a regressor is
MOST_SEEDS = 2**63  # torch knows no further ones
LEARN_ROWS = 256  # training rows asked once to learn classes and the grain of scores; half of them by `predict` too
LEARN_SHARE, LEARN_LABELS = 8, 32  # with a budget, at most an eighth of it is asked so, and so many by `predict` too


def _check_seed(name: str, value: Any) -> None:
    if whole_number(name, value, 0) >= MOST_SEEDS:
        raise InputError(f"seed is {value}, but must be less than 2^63.")


def most_changes(default: int | None, more: str = "") -> Any:
    """The parameter `max_changes` of a method with a default of its own, or of which there is more to say."""
    about = f"Largest number of features a counterfactual may change. {more}".strip()
    return param(default, about, lambda name, value: value is None or whole_number(name, value, 1))


def objective_parameter(more: str = "") -> Any:
    """The parameter `objective` of a method that knows several."""
    about = (
        'What is best: "sparse", the fewest changes and of as many the least distance, or "closest", the least '
        'distance with however many changes up to `max_changes`. None: "sparse". `costs` change the distance, not the '
        "objective."
    )
    return param(None, f"{about} {more}".strip(), lambda _, value: check_objective(value))


def further_models_parameter(more: str) -> Any:
    """The parameter `also` of a method that keeps further models from call to call."""
    about = "A counterfactual must hold for each of these models too, such as for the model fitted again on other rows."
    return param((), f"{about} {more}".strip(), lambda _, value: check_models(value))


@documented
@dataclass(eq=False, repr=False)
class CounterfactualExplainer(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all methods. A method fills in `_fit` and `_generate`; the core decides validity.

    Its parameters are fields: a method adds its own by `param` in a class under `with_parameters`.
    """

    supports: ClassVar[Supports] = Supports()
    also = cast("Iterable[Any]", ())  # further models for which an answer must hold; a parameter of some methods
    fills = False  # whether a call fills all `n` slots, also with rows that resemble others or change too much

    model: Any = field(
        metadata={"about": "An estimator, Pipeline, torch module, booster, callable or BlackBox, already fitted."}
    )
    space: FeatureSpace | None = param(None, "Inferred from the training rows when absent.", instance_of(FeatureSpace))
    _: KW_ONLY
    goal: Goal | None = param(
        None,
        "`Goal.flip()` for classifiers when absent; a regressor needs one here or in `explain`.",
        instance_of(Goal),
    )
    max_changes: int | None = most_changes(
        None, "A method that makes more of them undoes those beyond it, as far as the goal allows."
    )
    plausible: Plausible = param(
        None,
        'Whether counterfactuals must look like the training rows: "require" delivers no others, "prefer" chooses such '
        "ones among those with equally few changes; a Plausibility names detector and threshold. None: it is not "
        "looked at.",
        lambda _, value: read_plausibility(value),
    )
    seed: int = param(0, "Of all that is drawn at random.", _check_seed)

    blackbox_: BlackBox = field(init=False)
    goal_: Goal | None = field(init=False)  # None: of a regressor, whose goal comes with `explain`

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Its parameters; of a fitted one also the features, and the goal."""
        text = str(super().__repr__(N_CHAR_MAX))
        return f"{text}\n{self._about()}" if hasattr(self, "blackbox_") else text

    def _html_repr(self) -> str:
        text = str(super()._html_repr())
        return f"{text}<p>{escape(self._about())}</p>" if hasattr(self, "blackbox_") else text

    def _about(self) -> str:
        names, goal = list(map(str, self.space_.names)), self.goal or self.goal_
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        told = f"{len(names)} features: {', '.join(names[:SHOWN_NAMES])}{more}. Goal: {goal or 'given to explain'}."
        return f"{told} {NOTHING_FIXED}" if self.space_.nothing_is_fixed else told

    @abstractmethod
    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        """Learn from the training rows."""

    @abstractmethod
    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        """Up to n proposals for each query of the problem."""

    def _learn_answers(self) -> None:
        """Learn what is kept of the model's answers: part of `_fit`, and again for another model (`for_model`)."""

    def _most_fit_rows(self) -> int | None:
        """Model rows that `fit` may spend at most; None: as many as the method needs."""
        return None

    def fit(self, X: Rows, y: Any = None) -> Self:
        """Prepare for explaining: learn the space and the model's classes, and whatever the method learns.

        All that is learned takes its place at once, at the end: an interrupted or refused fit leaves everything as it
        was. (Ctrl-C while ReLAX trains its agent ends the training, not the fit: the best agent so far is kept, and
        `history_.stopped` says so.) `y` is ignored, as scikit-learn has it: the model itself is asked.
        """
        fresh = copy.copy(self)
        fresh.__dict__ = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        with naming_the_extra():
            fresh._learn(X)
        self.__dict__ = fresh.__dict__
        return self

    def _learn(self, X: Rows) -> None:
        started = time.perf_counter()
        X = pandas_or_array(X)
        if len(X) == 0:
            raise InputError("there are no training rows; fit needs at least one.")
        self._check_parameters()
        if self.space is None and isinstance(X, pd.DataFrame):
            X = with_categories_of(getattr(self.model, "model", self.model), X)
        self.space_, values = (FeatureSpace.infer(X) if self.space is None else self.space).taking_in(X)
        self.training_rows_ = TrainingRows.of(self.space_, values)  # for detectors, if one is asked for
        firsts = range(0, len(values), BATCH)  # in pieces: a million rows need not much
        pieces = (values[first : first + BATCH] for first in firsts)
        if not any(self.space_.limits(values=piece).movable(piece).any() for piece in pieces):
            where = ", which were read off one sample" if len(values) == 1 and self.space is None else ""
            raise ConstraintError(
                f"no feature may change: every one is immutable or has no room within its bounds{where}."
            )
        self._bind_model()
        rng = np.random.default_rng(int(self.seed))
        asked = self.blackbox_.rows_asked
        most = self._most_fit_rows()
        order = rng.permutation(len(values))
        count = LEARN_ROWS if most is None else min(LEARN_ROWS, most // LEARN_SHARE)
        first = values[order[:count]]
        try:
            kept, answer = self.blackbox_.learn_answered(first, None if most is None else LEARN_LABELS)
        except RefusedRowError as error:
            place = int(order[error.position])
            raise RefusedRowError(place, error.words, f"training {row_name(X, place)}", error.more) from error
        if len(kept) < len(first):
            lost = np.delete(order[: len(first)], kept)
            warnings.warn(
                f"the model refuses {len(lost)} of the {len(first)} training rows it was asked, such as "
                f"{row_name(X, int(lost[0]))}. They are left out where its answers are learned.",
                stacklevel=3,
            )
            first = first[kept]
        reason = self.skip_reason(self.blackbox_, self.space_)
        if reason is not None:
            raise UnsupportedError(f"skipped because {reason}.")
        if not self.blackbox_.has_scores and len(values) > len(first):
            labels = self.blackbox_.labels(answer.output)
            more = values[
                order[count : None if most is None else most // 2]
            ]  # further ones serve a surrogate model too
            further = self.blackbox_.learn_more_classes(more)
            more, further = more[further.answered], further.take(further.answered)
            first, answer = np.concatenate([first, more]), Answer.joined(Answer(self.blackbox_.codes(labels)), further)
        self.known_ = first, answer  # whatever is learned from the model need not ask these again
        self._bind_goal()
        self.fit_rows_ = self.blackbox_.rows_asked - asked  # so far
        self._fit(values, rng)
        self.fit_rows_ = self.blackbox_.rows_asked - asked
        self.fit_seconds_ = time.perf_counter() - started

    def explain(
        self,
        X: Rows,
        *,
        goal: Goal | None = None,
        n: int = 1,
        vary: Iterable[Hashable] | None = None,
        bounds: Bounds | None = None,
        immutable: Iterable[Hashable] | None = None,
        increase_only: Iterable[Hashable] | None = None,
        decrease_only: Iterable[Hashable] | None = None,
        max_changes: int | None = None,
        rules: Iterable[str | Rule] | None = None,
        costs: Mapping[Any, float] | None = None,
        objective: Literal["sparse", "closest"] | None = None,
        also: Iterable[Any] | None = None,
        carry: Iterable[Hashable] | None = None,
        besides_query: bool = False,
        plausible: Plausible = None,
    ) -> Counterfactuals:
        """Counterfactuals for the rows, under the space's constraints and those of this call.

        Parameters
        ----------
        X : DataFrame, array, dict, Series or list of records
            Rows of other libraries' tables (polars, pyarrow, ...) come back as pandas. Columns may be in any order.
        goal : Goal, optional
            In place of the explainer's own.
        n : int
            How many counterfactuals are wanted for each row. There are fewer where no further one differs enough.
        vary : feature names that may change, optional
            All others stay as they are, for this call.
        bounds : mapping of name to (low, high) or to a list of categories, optional
            Where changed cells must lie, for this call, within the space's own bounds. An end may be None, or one
            number a row; a missing one is no limit.
        immutable, increase_only, decrease_only : feature names, optional
        max_changes : int, optional
            In place of the explainer's own.
        rules : texts or Rules, optional
            Beside the space's own.
        costs : mapping of name to price, optional
            Of one standard deviation of a number, or of another category, in place of the space's own.
        objective : "sparse" or "closest", optional
            In place of the explainer's own: the fewest changes, which is the default, or the least distance. Costs
            change the distance, not the objective.
        also : models, optional
            An answer must hold for each of them too, such as for the model fitted again on other rows.
        carry : column names, optional
            Columns of X that the model does not know: they come back in the results.
        besides_query : bool
            Whether a row that meets the goal already is to have `n` counterfactuals too, which differ from it. Else it
            is its own and only one.
        plausible : "prefer", "require", a Plausibility, or False, optional
            In place of the explainer's own; False: it is not looked at.
        """
        call = copy.copy(fitted(self))  # so that books and strictness are of this call alone, and threads share nothing
        call._check_parameters()  # of what may have been set since the fit
        call.max_changes = self.max_changes if max_changes is None else max_changes
        call.plausible = self.plausible if plausible is None else plausible
        call.space_ = self.space_ if rules is None else self.space_.with_rules(rules)
        call.space_ = call.space_ if costs is None else call.space_.with_costs(costs)
        call.objective_ = call._objective(objective)
        constraints = Constraints(vary, bounds, immutable, increase_only, decrease_only).kept()
        X, carried = without_columns(pandas_or_array(X), carry, self.space_.columns)
        call.also = self.also if also is None else list(also) if isinstance(also, Iterator) else also
        found = call._explain(X, goal, n, constraints, flag("besides_query", besides_query))
        found.carried = carried
        found.asked = asked_of(call, goal, constraints)
        return found

    def _explain(
        self, X: Rows, goal: Goal | None, n: int, constraints: Constraints, besides_query: bool
    ) -> Counterfactuals:
        self._check_parameters()
        X = X.copy()  # the results keep it, and the user may write into it later
        n = int(real_number("n", whole_number("n", n, 1), 1, MOST_COUNTERFACTUALS))
        if goal is not None and not isinstance(goal, Goal):
            raise GoalError(f"goal is {goal!r}; give a Goal, such as Goal.to({goal!r}).")
        goal = self.wanted_goal(goal)
        goal.check_length(len(X))
        goal.check(self.blackbox_)
        self.space_, values = self.space_.taking_in(X)
        self.space_.warn_of_wrong_formulas(X, values)
        self.blackbox_ = self.blackbox_.over(self.space_)  # with books of this call
        known = np.concatenate([self.training_rows_.rows[:LEARN_ROWS], values[:LEARN_ROWS]])
        self.further_ = further_models(self.also, self.blackbox_, self.space_, known)
        limits = self.space_.limits(values=values, **vars(constraints))
        size = max(BATCH // n, LEAST_BATCH)
        slices = [slice(first, first + size) for first in range(0, len(values), size)] or [slice(0, 0)]
        rows: Any = self.space_.frame(X)
        if self.space_.container == "array":  # what the model was fitted with, whatever the queries come in
            rows = X if isinstance(X, np.ndarray) else rows.to_numpy()
        pieces = rows.iloc if isinstance(rows, pd.DataFrame) else rows
        every = np.arange(len(values))
        parts = [
            self._explain_batch(values[s], pieces[s], goal.chunk(s), limits.take(every[s]), n, besides_query)
            for s in slices
        ]
        return concatenate(parts, X)

    def menu(
        self, x: Rows, max_changes: int = 2, *, goal: Goal | None = None, vary: Any = None, bounds: Bounds | None = None
    ) -> "Menu":
        """Every set of up to `max_changes` features of one row: the best answer that changes no others, if any."""
        from relax_plugin.menu.menu import find_menu

        return find_menu(self, x, max_changes, goal, vary, bounds)

    def for_model(self, model: Any) -> Self:
        """This fitted explainer, with all it has learned, for another model with the same classes.

        What it keeps of the model's answers is asked anew; an agent is not trained again.
        """
        if not hasattr(self, "known_"):
            raise NotFittedError("this explainer is not fitted, or was read from a file; load it with the new model.")
        other = copy.copy(self)
        other.model = model
        other._bind_model()
        kept, answer = other.blackbox_.learn_answered(self.known_[0])
        other.known_ = self.known_[0][kept], answer
        old, new = self.blackbox_.classes, other.blackbox_.classes
        if not np.array_equal(np.asarray(old), np.asarray(new)):
            raise InputError(f"the model has the classes {new}, but the explainer learned {old}; fit it again.")
        reason = self.skip_reason(other.blackbox_, self.space_)
        if reason is not None:
            raise UnsupportedError(f"skipped because {reason}.")
        other._learn_answers()
        return other

    def for_space(self, space: FeatureSpace) -> Self:
        """This fitted explainer, with all it has learned, for rows of another space with the same features.

        Bounds, steps, directions, what is immutable and dtypes may be others. The model is not asked anew.
        """
        fitted(self).space_.refuse_other_features(space)
        space = space.knowing({**space.foreign, **self.space_.foreign})  # what is kept of training rows refers to them
        other = copy.copy(self)
        other.space, other.space_, other.blackbox_ = space, space, self.blackbox_.over(space)
        other.training_rows_ = TrainingRows(space, self.training_rows_.rows)
        return other

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        """Why this explainer does not apply to this model and space; None if it does."""
        return self.supports.why_not(blackbox, space)

    def _explain_batch(
        self, values: Values, rows: Rows, goal: Goal, limits: Limits, n: int, besides_query: bool, by_trees: bool = True
    ) -> Counterfactuals:
        started, blackbox, asked = time.perf_counter(), self.blackbox_, self.blackbox_.rows_asked
        expected = blackbox.expected(values) if by_trees and goal.by_labels else None
        before = expected or (blackbox.confirm(rows, mark_refused=True) if len(values) else blackbox.ask(values))
        spent = np.full(len(values), (blackbox.rows_asked - asked) // max(len(values), 1), dtype=np.int64)
        further = [replace(one, blackbox=one.blackbox.over(self.space_), model=blackbox) for one in self.further_]
        problem = Problem(
            self.space_,
            blackbox,
            values,
            before,
            goal.bind(blackbox, before),
            limits,
            self._most_changes(),
            spent,
            also=tuple(further),
            spent_also=np.zeros(len(values), dtype=np.int64) if further else None,
            objective=self.objective_,
        )
        if self.space_.rules:
            problem = problem.under(RowRules(self.space_, self.space_.bound_rules, values, problem.by_distance))
        wanted, plausible = read_plausibility(self.plausible), None
        if wanted is not None:
            plausible = PlausibleRows.of(self.training_rows_.detector(wanted), values)

        def offer(part: Problem) -> Proposals:
            made = self._generate(part, n, np.random.default_rng(int(self.seed)))
            if not self.fills:
                return made
            from relax_plugin.search.diverse import fill

            return fill(part, made, self.training_rows_.rows, np.random.default_rng(int(self.seed)))

        strict = wanted is not None and wanted.strict
        batch = Batch.of(problem, offer, plausible, strict, self._polishes())
        result = replace(batch, expected=expected is not None).answered(rows, n, besides_query, started)
        if result is None:  # the trees were wrong about a query: what the model itself says to them counts
            assert expected is not None
            result = self._explain_batch(values, rows, goal, limits, n, besides_query, by_trees=False)
            result.rows_queried += problem.spent
        result.detectors = Detectors(self.training_rows_, wanted or Plausibility())
        return result

    def _polishes(self) -> bool:
        """Whether changes that are not needed are taken back, at a model row each; not by methods that copy rows."""
        return False

    def _most_changes(self) -> int:
        return len(self.space_) if self.max_changes is None else min(int(self.max_changes), len(self.space_))

    def _objectives(self) -> tuple[str, ...]:
        """What the method can aim at, with its parameters as they are."""
        return self.supports.objectives

    def _objective(self, asked: str | None) -> str:
        """What a call aims at that asks for this, or for nothing."""
        own = asked if asked is not None else getattr(self, "objective", None)
        return chosen_objective(own, self._objectives(), type(self).__name__)

    def _bind_model(self) -> None:
        if isinstance(self.model, BlackBox):
            self.blackbox_ = self.model.bound_to(self.space_)
        else:
            self.blackbox_ = BlackBox(self.model, self.space_)

    def _bind_goal(self) -> None:
        default = None if self.blackbox_.task == "regression" else Goal.flip()
        self.goal_ = default if self.goal is None else self.goal
        if self.goal_ is not None:
            self.goal_.check(self.blackbox_)

    def wanted_goal(self, goal: Goal | None = None) -> Goal:
        """The goal of a call: its own, or else that of the fitted explainer."""
        chosen = goal or self.goal or self.goal_
        if chosen is None:
            raise GoalError(
                "a regressor needs a goal: pass goal=Goal.shift(delta) or Goal.between(low, high) to explain or to the "
                "explainer."
            )
        return chosen

    def _check_parameters(self) -> None:
        """Refuse wrong parameters, in `fit` and again in `explain` (after `set_params`)."""
        check_parameters(self)
        check_models(self.also)

    @property
    def n_features_in_(self) -> int:
        return len(self.space_.columns)

    @property
    def feature_names_in_(self) -> Array:
        """The columns of the training rows, where they were a table all of whose names are strings."""
        space = self.space_
        if space.container == "array" or not all(isinstance(name, str) for name in space.columns):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'feature_names_in_'")
        return np.array(space.columns, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = self.supports.categorical
        return tags

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy with the same parameters; the model is shared, since cloning would un-fit it."""
        return type(self)(**self.get_params(deep=False))


def fitted(explainer: CounterfactualExplainer) -> CounterfactualExplainer:
    """The explainer itself, refused if it is not fitted."""
    if not hasattr(explainer, "blackbox_"):
        raise NotFittedError(
            f"this {type(explainer).__name__} is not fitted; call fit(X) with the training rows first."
        )
    return explainer


def default_goal(explainer: CounterfactualExplainer, data: Any) -> tuple[Goal, str]:
    """The default goal of a fitted regressor, half a standard deviation of its predictions, and the sentence about it.

    Of the training rows, or of ten thousand of them, drawn by the explainer's seed.
    """
    space, values = explainer.space_.taking_in(data)
    if len(values) > MOST_ANSWERS:
        values = values[np.random.default_rng(int(explainer.seed)).permutation(len(values))[:MOST_ANSWERS]]
    answer = explainer.blackbox_.over(space).confirm(space.model_input(values), mark_refused=True)
    answers = np.asarray(answer.output[answer.answered], dtype=float)
    half = float(answers.std()) / 2
    if not half > 0:
        told = f"the model answers {answers[0]:g} to every training row, so that there is no usual change of its answer"
        raise GoalError(f"{told}; give a goal: Goal.shift(delta) or Goal.between(low, high).")
    sentence = (
        f"goal: an answer higher or lower by at least {half:.4g}, half a standard deviation of the model's answers"
    )
    return Goal.shift(half), f"{sentence} (no goal was given)"


__all__ = [
    "BlackBox",
    "CounterfactualExplainer",
    "Supports",
    "default_goal",
    "fitted",
    "flag",
    "full_name",
    "list_explainers",
    "make_explainer",
    "most_changes",
    "objective_parameter",
    "real_number",
    "whole_number",
]
