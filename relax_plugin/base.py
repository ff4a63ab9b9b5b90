"""The contract of every counterfactual explainer: `fit`, `explain`, and who decides what is valid."""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from relax_plugin.arrays import Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import ConstraintError, GoalError, InputError, NotFittedError, UnsupportedError
from relax_plugin.features import Bounds, FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.problem import Problem, Proposals
from relax_plugin.registry import list_explainers, make_explainer
from relax_plugin.results import Counterfactuals, concatenate
from relax_plugin.tables import pandas_or_array
from relax_plugin.verdict import Verdict

BATCH = 8192  # counterfactuals worked on side by side: bounds the memory of a call of any size
LEAST_BATCH = 64  # queries worked on side by side, however many counterfactuals each is to have
MOST_COUNTERFACTUALS = 1_000_000  # that may be asked for one query
MOST_SEEDS = 2**63  # torch knows no further ones
LEARN_ROWS = 256  # training rows asked once to learn classes and the grain of scores; half of them by `predict` too
LEARN_SHARE, LEARN_LABELS = 8, 32  # with a budget, at most an eighth of it is asked so, and so many by `predict` too


@dataclass(frozen=True)
class Supports:
    """What an explainer can be used for."""

    tasks: tuple[str, ...] = ("classification", "regression")
    categorical: bool = True
    labels_only: bool = True
    extra: str | None = None  # of this package, which installs what the method needs
    paper: str = ""  # authors: title, venue, address; "" if the method is its package's own


class CounterfactualExplainer(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all methods. A method fills in `_fit` and `_generate`; the core decides validity.

    Parameters
    ----------
    model : estimator, Pipeline, torch module, booster, callable or BlackBox
    space : FeatureSpace, optional
        Inferred from the training rows when absent.
    goal : Goal, optional
        `Goal.flip()` for classifiers when absent; a regressor needs one.
    max_changes : int, optional
        Largest number of features a counterfactual may change.
    seed : int
    """

    supports: ClassVar[Supports] = Supports()

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        goal: Goal | None = None,
        max_changes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.space = space
        self.goal = goal
        self.max_changes = max_changes
        self.seed = seed

    # What a method fills in.

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

    # The contract.

    def fit(self, X: Rows, y: None = None) -> Self:
        """Prepare for explaining: learn the space and the model's classes, and whatever the method learns.

        All that is learned takes its place at once, at the end: an interrupted or refused fit leaves everything as it
        was. (Ctrl-C while ReLAX trains its agent ends the training, not the fit: the best agent so far is kept, and
        `history_.stopped` says so.) There is no use for labels: the model itself is asked.
        """
        if y is not None:
            raise InputError("fit needs no labels, since it asks the model itself; call fit(X) with the training rows.")
        fresh = copy.copy(self)
        fresh.__dict__ = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        fresh._learn(X)
        self.__dict__ = fresh.__dict__
        return self

    def _learn(self, X: Rows) -> None:
        started = time.perf_counter()
        X = pandas_or_array(X)
        if len(X) == 0:
            raise InputError("there are no training rows; fit needs at least one.")
        self._check_parameters()
        self.space_ = FeatureSpace.infer(X) if self.space is None else self.space
        values = self.space_.values(X)
        limits, firsts = self.space_.limits(), range(0, len(values), BATCH)  # in pieces: a million rows need not much
        if not any(limits.movable(values[first : first + BATCH]).any() for first in firsts):
            raise ConstraintError("no feature may change: every one is immutable or has no room within its bounds.")
        self._bind_model()
        rng = np.random.default_rng(int(self.seed))
        asked = self.blackbox_.rows_asked
        most = self._most_fit_rows()
        order = rng.permutation(len(values))
        count = LEARN_ROWS if most is None else min(LEARN_ROWS, most // LEARN_SHARE)
        first = values[order[:count]]
        answer = self.blackbox_.learn(first, None if most is None else LEARN_LABELS)
        reason = self.skip_reason(self.blackbox_, self.space_)
        if reason is not None:
            raise UnsupportedError(f"skipped because {reason}.")
        if not self.blackbox_.has_scores and len(values) > len(first):
            labels = self.blackbox_.labels(answer.output)
            more = values[order[count : None if most is None else most // 2]]  # further ones serve a world model too
            further = self.blackbox_.learn_more_classes(more)
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
        besides_query: bool = False,
    ) -> Counterfactuals:
        """Counterfactuals for the rows.

        Parameters
        ----------
        X : DataFrame or array
            Rows of other libraries' tables (polars, pyarrow, ...) come back as pandas.
        goal : Goal, optional
            In place of the explainer's own.
        n : int
            How many counterfactuals are wanted for each row. There are fewer where no further one differs enough.
        vary : feature names that may change, optional
            All others stay as they are, for this call.
        bounds : mapping of name to (low, high) or to a list of categories, optional
            Where changed cells must lie, for this call, within the space's own bounds.
        besides_query : bool
            Whether a row that meets the goal already is to have `n` counterfactuals too, which differ from it. Else it
            is its own and only one.
        """
        call = copy.copy(fitted(self))  # so that books and strictness are of this call alone, and threads share nothing
        call.blackbox_ = call.blackbox_.for_call()
        return call._explain(X, goal, n, vary, bounds, flag("besides_query", besides_query))

    def _explain(
        self,
        X: Rows,
        goal: Goal | None,
        n: int,
        vary: Iterable[Hashable] | None,
        bounds: Bounds | None,
        besides_query: bool,
    ) -> Counterfactuals:
        self._check_parameters()
        X = pandas_or_array(X).copy()  # the results keep it, and the user may write into it later
        n = int(real_number("n", whole_number("n", n, 1), 1, MOST_COUNTERFACTUALS))
        if goal is not None and not isinstance(goal, Goal):
            raise GoalError(f"goal is {goal!r}; give a Goal, such as Goal.to({goal!r}).")
        goal = goal or self.goal or self.goal_
        if isinstance(goal.label, tuple) and len(goal.label) != len(X):
            raise GoalError(f"Goal.to has {len(goal.label)} labels for {len(X)} queries; give one, or one a query.")
        goal.check(self.blackbox_)
        limits = self.space_.limits(vary, bounds)
        values = self.space_.values(X)
        size = max(BATCH // n, LEAST_BATCH)
        slices = [slice(first, first + size) for first in range(0, len(values), size)] or [slice(0, 0)]
        rows: Any = self.space_.frame(X)
        if self.space_.container == "array":  # what the model was fitted with, whatever the queries come in
            rows = X if isinstance(X, np.ndarray) else rows.to_numpy()
        pieces = rows.iloc if isinstance(rows, pd.DataFrame) else rows
        parts = [self._explain_batch(values[s], pieces[s], goal.chunk(s), limits, n, besides_query) for s in slices]
        return concatenate(parts, X)

    def for_model(self, model: Any) -> Self:
        """This fitted explainer, with all it has learned, for another model with the same classes.

        What it keeps of the model's answers is asked anew; an agent is not trained again.
        """
        if not hasattr(self, "known_"):
            raise NotFittedError("this explainer is not fitted, or was read from a file; load it with the new model.")
        other = copy.copy(self)
        other.model = model
        other._bind_model()
        other.known_ = self.known_[0], other.blackbox_.learn(self.known_[0])
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
        other = copy.copy(self)
        other.space, other.space_, other.blackbox_ = space, space, self.blackbox_.over(space)
        return other

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        """Why this explainer does not apply to this model and space; None if it does."""
        if blackbox.task not in self.supports.tasks:
            return f"it explains {' and '.join(self.supports.tasks)} only, and the model is for {blackbox.task}"
        if space.is_categorical.any() and not self.supports.categorical:
            name = space.names[int(np.argmax(space.is_categorical))]
            return f"it needs numeric features, and {name!r} is categorical"
        if not blackbox.has_scores and not self.supports.labels_only:
            return "it needs scores, and the model answers labels only"
        return None

    def _explain_batch(
        self, values: Values, rows: Rows, goal: Goal, limits: Limits, n: int, besides_query: bool
    ) -> Counterfactuals:
        started, blackbox = time.perf_counter(), self.blackbox_
        asked = blackbox.rows_asked
        before = blackbox.confirm(rows) if len(values) else blackbox.ask(values)
        spent = np.full(len(values), (blackbox.rows_asked - asked) // max(len(values), 1), dtype=np.int64)
        bound, most = goal.bind(blackbox, before), self._most_changes()
        problem = Problem(self.space_, blackbox, values, before, bound, limits, most, spent)
        verdict = Verdict(problem, rows, n, besides_query)
        problem = problem.besides_query() if besides_query else problem
        open_ = np.flatnonzero(~verdict.already)
        missed = verdict.decide(*self._propose(problem, open_, n))
        if blackbox.labels_apart and not blackbox.strict:
            # Where `predict` and the largest score disagree (ties!), those queries are searched again by `predict`.
            missed = np.union1d(missed, verdict.attempts_that_meet_the_goal(open_))
            with blackbox.asking_strictly():
                missed = verdict.decide(*self._propose(problem, missed, n))
        verdict.say_why_missed(missed)
        return verdict.counterfactuals(time.perf_counter() - started)

    def _propose(self, problem: Problem, pending: Integers, n: int) -> tuple[Integers, Proposals]:
        part = problem.part(pending)
        if len(pending) == 0:
            return pending, Proposals.empty(part, n)
        return pending, self._generate(part, n, np.random.default_rng(int(self.seed)))

    def _most_changes(self) -> int:
        return len(self.space_) if self.max_changes is None else min(int(self.max_changes), len(self.space_))

    def _bind_model(self) -> None:
        if isinstance(self.model, BlackBox):
            self.blackbox_ = self.model.bound_to(self.space_)
        else:
            self.blackbox_ = BlackBox(self.model, self.space_)

    def _bind_goal(self) -> None:
        if self.goal is None and self.blackbox_.task == "regression":
            raise GoalError("a regressor needs a goal: Goal.shift(delta) or Goal.between(low, high).")
        self.goal_ = Goal.flip() if self.goal is None else self.goal
        self.goal_.check(self.blackbox_)

    def _check_parameters(self) -> None:
        """Refuse wrong parameters, in `fit` and again in `explain` (after `set_params`); a method adds its own."""
        if self.max_changes is not None:
            whole_number("max_changes", self.max_changes, 1)
        if whole_number("seed", self.seed, 0) >= MOST_SEEDS:
            raise InputError(f"seed is {self.seed}, but must be less than 2^63.")
        for name, kind in (("space", FeatureSpace), ("goal", Goal)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"{name} is a {type(value).__name__}; a {kind.__name__} is needed.")

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy with the same parameters; the model is shared, since cloning would un-fit it."""
        return type(self)(**self.get_params(deep=False))


def fitted(explainer: CounterfactualExplainer) -> CounterfactualExplainer:
    """The explainer itself, refused if it is not fitted."""
    if not hasattr(explainer, "blackbox_"):
        told = f"this {type(explainer).__name__} is not fitted"
        raise NotFittedError(f"{told}; call fit(X) with the training rows first.")
    return explainer


def whole_number(name: str, value: Any, least: int) -> int:
    """The value as an int, or a sentence that says what would be accepted."""
    if not _is_number(value) or value != int(value) or value < least:
        raise InputError(f"{name} is {value!r}, but must be a whole number of at least {least}.")
    return int(value)


def real_number(name: str, value: Any, low: float, high: float) -> float:
    """The value as a float, or a sentence that says what would be accepted."""
    if not _is_number(value) or not low <= value <= high:
        upper = f" to {high:g}" if np.isfinite(high) else " on"
        raise InputError(f"{name} is {value!r}, but must be a number from {low:g}{upper}.")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """The value as a bool, or a sentence that says what would be accepted."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {value!r}, but must be True or False.")
    return bool(value)


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and bool(np.isfinite(value)))


__all__ = [
    "CounterfactualExplainer",
    "Supports",
    "fitted",
    "flag",
    "list_explainers",
    "make_explainer",
    "real_number",
    "whole_number",
]
