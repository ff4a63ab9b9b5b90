"""Goal: what counts as a counterfactual (paper §3), as people state it."""

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeGuard

import numpy as np
import pandas as pd

from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.bound_goal import BoundGoal as BoundGoal
from relax_plugin.errors import GoalError, did_you_mean

TAKES = {
    "flip": ("min_probability",),
    "to": ("label", "min_probability", "raise_by"),
    "shift": ("delta", "direction"),
    "between": ("low", "high"),
}
DIRECTIONS = ("up", "down", "either")


@dataclass(frozen=True)
class Goal:
    """What the model's answer to a counterfactual must be. Made by `flip`, `to`, `shift` or `between`."""

    kind: Literal["flip", "to", "shift", "between"]
    label: Any = None
    low: float | tuple[float, ...] | None = None
    high: float | tuple[float, ...] | None = None
    delta: float | None = None
    min_probability: float | None = None
    raise_by: float | None = None
    direction: Literal["up", "down", "either"] | None = None  # None of a shift: either

    def __post_init__(self) -> None:
        """Refuse what `flip`, `to`, `shift` and `between` would not have made, also when it comes from a file."""
        if not isinstance(self.kind, str) or self.kind not in TAKES:
            raise GoalError(f"there is no goal {self.kind!r}; {did_you_mean(self.kind, TAKES)}")
        for name in ("label", "low", "high", "delta", "min_probability", "raise_by", "direction"):
            if getattr(self, name) is not None and name not in TAKES[self.kind]:
                raise GoalError(f"Goal.{self.kind} takes no {name}; it takes {TAKES[self.kind]}.")
        probability = self.min_probability
        if probability is not None and not (_is_number(probability) and 0.0 <= probability <= 1.0):
            raise GoalError(f"min_probability is {probability!r}, but must lie between 0 and 1.")
        if self.kind == "to":
            self._check_labels()
        if self.kind == "shift":
            self._check_shift()
        if self.kind == "between":
            self._check_range()

    def __repr__(self) -> str:
        ends = [None if end in (-np.inf, np.inf) else end for end in (self.low, self.high)]
        first = {"to": [self.label], "shift": [self.delta], "between": ends}.get(self.kind, [])
        others = {name: getattr(self, name) for name in ("min_probability", "raise_by", "direction")}
        said = [f"{name}={own!r}" for name, own in others.items() if own not in (None, "either")]
        return f"Goal.{self.kind}({', '.join([*map(repr, first), *said])})"

    @property
    def by_labels(self) -> bool:
        """Whether labels alone tell that it is met."""
        return self.kind in ("flip", "to") and self.min_probability is None and self.raise_by is None

    def _check_labels(self) -> None:
        for label in self.label if isinstance(self.label, tuple) else (self.label,):
            if not isinstance(label, Hashable) or label is None:
                raise GoalError(f"Goal.to names the label {label!r}; give a class, or one class a row.")
        rise = self.raise_by
        if rise is not None and not (_is_number(rise) and 0.0 < rise <= 1.0):
            raise GoalError(f"raise_by is {rise!r}, but must be more than 0 and at most 1: .07 is seven hundredths.")
        if rise is not None and self.min_probability is not None:
            raise GoalError(
                f"Goal.to has min_probability={self.min_probability!r} and raise_by={rise!r}; give one of them: the "
                "class must win with at least that probability, or be so much likelier than for the query."
            )

    def _check_shift(self) -> None:
        if self.direction is None:
            object.__setattr__(self, "direction", "either")
        if self.direction not in DIRECTIONS:
            raise GoalError(f"direction is {self.direction!r}; {did_you_mean(self.direction, DIRECTIONS)}")
        if _is_number(self.delta) and -np.inf < self.delta < 0.0:
            raise GoalError(
                f"delta is {self.delta!r}, but must be more than 0; for a lower answer say "
                f'Goal.shift({-self.delta!r}, direction="down").'
            )
        if not (_is_number(self.delta) and 0.0 < self.delta < np.inf):
            raise GoalError(
                f"delta is {self.delta!r}, but must be a finite number other than 0 in the unit of the target."
            )

    def _check_range(self) -> None:
        lengths = [len(end) for end in (self.low, self.high) if isinstance(end, tuple)]
        if len(set(lengths)) > 1:
            raise GoalError(f"Goal.between has {lengths[0]} lows and {lengths[1]} highs; give one of each a row.")
        for end in (self.low, self.high):
            if not all(map(_is_number, end if isinstance(end, tuple) else (end,))):
                raise GoalError(f"the range [{self.low}, {self.high}] is no range; give numbers low <= high.")
        low, high = np.broadcast_arrays(*(np.asarray(end, dtype=np.float64) for end in (self.low, self.high)))
        for wrong, told in (
            (~(low <= high) | (low == np.inf) | (high == -np.inf), "is empty or no range; give numbers low <= high"),
            (np.isinf(low) & np.isinf(high), "has no end, so that every answer lies in it; give low, high or both"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                where = f" of row {row}" if lengths else ""
                raise GoalError(f"the range [{low.flat[row]}, {high.flat[row]}]{where} {told}.")

    @classmethod
    def flip(cls, *, min_probability: float | None = None) -> "Goal":
        """Any other class than the query's: the untargeted counterfactual, and the default for classifiers."""
        return cls("flip", min_probability=min_probability)

    @classmethod
    def to(cls, label: Any, *, min_probability: float | None = None, raise_by: float | None = None) -> "Goal":
        """This class: the targeted counterfactual. A list, array or Series gives one label a row.

        Parameters
        ----------
        label : class, or one class a row
            True and 1, or a numpy scalar and what it holds, are the same label.
        min_probability : float, optional
            The class must win, and with at least this probability.
        raise_by : float, optional
            In place of winning: the probability of the class is to be at least so much higher than it is for the query,
            whichever class wins. Not together with `min_probability`. Where it would exceed 1, the status says so.
        """
        if pd.api.types.is_list_like(label):
            label = tuple(_plain(one) for one in np.asarray(label, dtype=object).tolist())
        return cls("to", label=_plain(label), min_probability=min_probability, raise_by=raise_by)

    @classmethod
    def shift(cls, delta: float, *, direction: Literal["up", "down", "either"] = "either") -> "Goal":
        """A regressor's answer at least `delta` above that to the query, below it, or either."""
        if direction is None:
            raise GoalError(f"direction is None; {did_you_mean(direction, DIRECTIONS)}")
        return cls("shift", delta=float(delta) if _is_number(delta) else delta, direction=direction)

    @classmethod
    def between(cls, low: Any, high: Any) -> "Goal":
        """A regressor's answer from `low` to `high`, both included.

        Either may be a number, or one a row (a list, array or Series, by position), and None or infinite where there is
        no limit, though not both.
        """
        return cls("between", low=_ends("low", low, -np.inf), high=_ends("high", high, np.inf))

    @property
    def rows(self) -> int | None:
        """For how many queries there is a label or a range each; None if all have the same."""
        return next((len(each) for each in (self.label, self.low, self.high) if isinstance(each, tuple)), None)

    def check_length(self, queries: int) -> None:
        """Refuse a goal that has labels or ranges for another number of queries."""
        if self.rows is not None and self.rows != queries:
            what = "labels" if self.kind == "to" else "ranges"
            raise GoalError(f"Goal.{self.kind} has {self.rows} {what} for {queries} queries; give one, or one a query.")

    def check(self, blackbox: BlackBox) -> None:
        """Refuse a goal that this model cannot answer to."""
        regression = blackbox.task == "regression"
        if regression and self.kind in ("flip", "to"):
            raise GoalError(f"Goal.{self.kind} is for classifiers; give a regressor Goal.shift or Goal.between.")
        if not regression and self.kind in ("shift", "between"):
            raise GoalError(f"Goal.{self.kind} is for regressors; give a classifier Goal.flip or Goal.to.")
        name = "raise_by" if self.raise_by is not None else "min_probability"
        if getattr(self, name) is not None and not blackbox.has_probabilities:
            raise GoalError(f"{name} needs a model that gives probabilities, and this one gives none.")
        if self.kind == "to" and blackbox.classes is not None:
            labels = self.label if isinstance(self.label, tuple) else (self.label,)
            for label, position in zip(labels, blackbox.positions(labels), strict=True):
                if position < 0:  # of a model that answers labels only, the rows asked in `fit` told the classes
                    shown = "has" if blackbox.has_scores else "has shown"
                    hint = did_you_mean(label, blackbox.classes.tolist())
                    raise GoalError(f"the model {shown} no class {label!r}; {hint}")

    def bind(self, blackbox: BlackBox, before: Answer) -> "BoundGoal":
        """The goal of each query, given the model's answers to them."""
        self.check(blackbox)
        n = len(before)
        self.check_length(n)
        if self.kind == "shift":
            assert self.delta is not None
            lower, upper, endless = before.output - self.delta, before.output + self.delta, np.full(n, np.inf)
            if self.direction == "up":
                return BoundGoal(blackbox, lower=upper, upper=endless, inside=True)
            if self.direction == "down":
                return BoundGoal(blackbox, lower=-endless, upper=lower, inside=True)
            return BoundGoal(blackbox, lower=lower, upper=upper)
        if self.kind == "between":
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), n).copy() for end in (self.low, self.high))
            return BoundGoal(blackbox, lower=low, upper=high, inside=True)
        assert blackbox.classes is not None
        positions = np.arange(len(blackbox.classes))
        if self.kind == "flip":
            wanted = before.output[:, None] != positions
            return BoundGoal(blackbox, wanted=wanted, avoided=before.output, min_probability=self.min_probability)
        labels = list(self.label) if isinstance(self.label, tuple) else [self.label] * n
        wanted = blackbox.positions(labels)[:, None] == positions
        if self.raise_by is None:
            return BoundGoal(blackbox, wanted=wanted, min_probability=self.min_probability)
        assert before.scores is not None
        return BoundGoal(blackbox, wanted=wanted).risen(before, self.raise_by)

    def spelled(self, blackbox: BlackBox) -> "Goal":
        """The goal with labels as the model writes them: True, where one of True and False was asked for 1."""
        if self.kind != "to" or blackbox.classes is None:
            return self
        several = isinstance(self.label, tuple)
        classes = np.asarray(blackbox.classes).tolist()
        labels = tuple(classes[place] for place in blackbox.positions(self.label if several else (self.label,)))
        return replace(self, label=labels if several else labels[0])

    def chunk(self, rows: Any) -> "Goal":
        """The goal of some of the queries, a slice or their positions."""
        own = {name: getattr(self, name) for name in ("label", "low", "high")}
        own = {name: each for name, each in own.items() if isinstance(each, tuple)}
        kinds = {"label": object, "low": np.float64, "high": np.float64}
        part: dict[str, Any] = {k: tuple(np.array(each, dtype=kinds[k])[rows].tolist()) for k, each in own.items()}
        return replace(self, **part)

    def to_dict(self) -> dict[str, Any]:
        """As a mapping that JSON can hold: no limit is None there, since JSON has no infinity."""
        return {**asdict(self), "low": _listed(self.low), "high": _listed(self.high)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Goal":
        told, label = dict(data), data["label"]
        told["label"] = tuple(label) if isinstance(label, list) else label
        if told["kind"] == "between":
            told["low"], told["high"] = _ends("low", told["low"], -np.inf), _ends("high", told["high"], np.inf)
        return cls(**told)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) or getattr(label, "shape", None) == () else label


def _ends(name: str, end: Any, no_limit: float) -> Any:
    """The lower or upper end of a range, or one a row, as floats; None is no limit."""
    if not pd.api.types.is_list_like(end):
        end = no_limit if end is None else _plain(end)
        return float(end) if _is_number(end) else end
    ends = np.asarray(end)
    if ends.ndim != 1:
        raise GoalError(f"{name} has the shape {ends.shape}; give one number, or one a row.")
    if ends.dtype.kind in "iuf" and not np.isnan(ends).any():
        return tuple(ends.astype(np.float64).tolist())
    numbers = [no_limit if one is None else _plain(one) for one in ends.tolist()]
    for row, number in enumerate(numbers):
        if not _is_number(number) or np.isnan(number):
            raise GoalError(f"{name} is {number!r} in row {row}; give a number, or None or {no_limit} for no limit.")
    return tuple(map(float, numbers))


def _listed(end: Any) -> Any:
    if isinstance(end, tuple):
        return [_listed(one) for one in end]
    return None if end is None or np.isinf(end) else end
