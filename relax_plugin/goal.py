"""Goal: what counts as a counterfactual (paper §3), and how far an answer is from it."""

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeGuard

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import GoalError, did_you_mean

TAKES = {
    "flip": ("min_probability",),
    "to": ("label", "min_probability"),
    "shift": ("delta",),
    "between": ("low", "high"),
}


@dataclass(frozen=True)
class Goal:
    """What the model's answer to a counterfactual must be. Made by `flip`, `to`, `shift` or `between`."""

    kind: Literal["flip", "to", "shift", "between"]
    label: Any = None
    low: float | None = None
    high: float | None = None
    delta: float | None = None
    min_probability: float | None = None

    def __post_init__(self) -> None:
        """Refuse what `flip`, `to`, `shift` and `between` would not have made, also when it comes from a file."""
        if not isinstance(self.kind, str) or self.kind not in TAKES:
            raise GoalError(f"there is no goal {self.kind!r}; {did_you_mean(self.kind, TAKES)}")
        for name in ("label", "low", "high", "delta", "min_probability"):
            if getattr(self, name) is not None and name not in TAKES[self.kind]:
                raise GoalError(f"Goal.{self.kind} takes no {name}; it takes {TAKES[self.kind]}.")
        probability = self.min_probability
        if probability is not None and not (_is_number(probability) and 0.0 <= probability <= 1.0):
            raise GoalError(f"min_probability is {probability!r}, but must lie between 0 and 1.")
        if self.kind == "to":
            for label in self.label if isinstance(self.label, tuple) else (self.label,):
                if not isinstance(label, Hashable) or label is None:
                    raise GoalError(f"Goal.to names the label {label!r}; give a class, or one class a row.")
        if self.kind == "shift" and not (_is_number(self.delta) and 0.0 < self.delta < np.inf):
            raise GoalError(
                f"delta is {self.delta!r}, but must be a finite number other than 0 in the unit of the target."
            )
        is_range = _is_number(self.low) and _is_number(self.high) and self.low <= self.high
        if self.kind == "between" and not is_range:
            raise GoalError(f"the range [{self.low}, {self.high}] is empty or no range; give numbers low <= high.")

    @classmethod
    def flip(cls, *, min_probability: float | None = None) -> "Goal":
        """Any other class than the query's: the untargeted counterfactual, and the default for classifiers."""
        return cls("flip", min_probability=min_probability)

    @classmethod
    def to(cls, label: Any, *, min_probability: float | None = None) -> "Goal":
        """This class: the targeted counterfactual. A list, array or Series gives one label a row."""
        if pd.api.types.is_list_like(label):
            label = tuple(np.asarray(label, dtype=object).tolist())
        elif isinstance(label, np.generic):
            label = label.item()
        return cls("to", label=label, min_probability=min_probability)

    @classmethod
    def shift(cls, delta: float) -> "Goal":
        """A regressor's answer at least `delta` away from that to the query, upwards or downwards."""
        return cls("shift", delta=abs(float(delta)) if _is_number(delta) else delta)

    @classmethod
    def between(cls, low: float, high: float) -> "Goal":
        """A regressor's answer from `low` to `high`, both included; either may be infinite."""
        low, high = (float(end) if _is_number(end) else end for end in (low, high))
        return cls("between", low=low, high=high)

    def check(self, blackbox: BlackBox) -> None:
        """Refuse a goal that this model cannot answer to."""
        regression = blackbox.task == "regression"
        if regression and self.kind in ("flip", "to"):
            raise GoalError(f"Goal.{self.kind} is for classifiers; give a regressor Goal.shift or Goal.between.")
        if not regression and self.kind in ("shift", "between"):
            raise GoalError(f"Goal.{self.kind} is for regressors; give a classifier Goal.flip or Goal.to.")
        if self.min_probability is not None and not blackbox.has_probabilities:
            raise GoalError("min_probability needs a model that gives probabilities, and this one gives none.")
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
        if self.kind == "shift":
            assert self.delta is not None
            return BoundGoal(blackbox, lower=before.output - self.delta, upper=before.output + self.delta)
        if self.kind == "between":
            assert self.low is not None and self.high is not None
            return BoundGoal(blackbox, lower=np.full(n, self.low), upper=np.full(n, self.high), inside=True)
        assert blackbox.classes is not None
        positions = np.arange(len(blackbox.classes))
        if self.kind == "flip":
            wanted = before.output[:, None] != positions
            return BoundGoal(blackbox, wanted=wanted, avoided=before.output, min_probability=self.min_probability)
        labels = list(self.label) if isinstance(self.label, tuple) else [self.label] * n
        if len(labels) != n:
            raise GoalError(f"Goal.to has {len(labels)} labels for {n} queries; give one label, or one a query.")
        wanted = blackbox.positions(labels)[:, None] == positions
        return BoundGoal(blackbox, wanted=wanted, min_probability=self.min_probability)

    def chunk(self, rows: Any) -> "Goal":
        """The goal of some of the queries, a slice or their positions."""
        if not isinstance(self.label, tuple):
            return self
        return replace(self, label=tuple(np.asarray(self.label, dtype=object)[rows].tolist()))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Goal":
        label = data["label"]
        return cls(**{**data, "label": tuple(label) if isinstance(label, list) else label})


@dataclass(frozen=True)
class BoundGoal:
    """The goals of a batch of queries as arrays.

    Classification: `wanted` (n, classes) says which classes are accepted, and `avoided` the class that must be left
    (it also covers labels that no training row had). Regression: outside of, or `inside`, [lower, upper].
    """

    blackbox: BlackBox
    wanted: Booleans | None = None
    avoided: Floats | None = None
    min_probability: float | None = None
    lower: Floats | None = None
    upper: Floats | None = None
    inside: bool = False

    @property
    def two_sided(self) -> bool:
        """Whether one may go too far: the goal is a range with two ends."""
        if not self.inside:
            return False
        assert self.lower is not None and self.upper is not None
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def take(self, index: Any) -> "BoundGoal":
        """The goals of some of the queries, in the order and as often as the index says."""
        return replace(
            self,
            wanted=None if self.wanted is None else self.wanted[index],
            avoided=None if self.avoided is None else self.avoided[index],
            lower=None if self.lower is None else self.lower[index],
            upper=None if self.upper is None else self.upper[index],
        )

    def met(self, answer: Answer) -> Booleans:
        """Whether each answer meets its goal: the model's own output decides, not its scores."""
        if self.wanted is None:
            assert self.lower is not None and self.upper is not None
            within = (answer.output >= self.lower) & (answer.output <= self.upper)
            return within if self.inside else (answer.output <= self.lower) | (answer.output >= self.upper)
        codes = answer.output.astype(int)
        rows = np.arange(len(codes))
        position = np.maximum(codes, 0)  # a label that no training row had is coded below 0
        met = self.wanted[rows, position] & (codes >= 0)
        if self.avoided is not None:
            met = answer.output != self.avoided
        if self.min_probability is not None:
            assert answer.scores is not None
            met = met & (answer.scores[rows, position] >= self.min_probability)
        return np.asarray(met)

    def missed(self, answer: Answer) -> Answer:
        """The answers, with others that miss the goal where they meet it: the next class, or a number out of range."""
        if self.wanted is None:
            assert self.lower is not None and self.upper is not None
            outside = np.where(np.isfinite(self.lower), self.lower - 1.0, self.upper + 1.0)
            return answer.replaced(self.met(answer) & np.isfinite(outside), Answer(outside))
        scores = None if answer.scores is None else np.roll(answer.scores, 1, axis=1)
        return answer.replaced(self.met(answer), Answer((answer.output + 1) % self.wanted.shape[1], scores))

    def gap(self, answer: Answer) -> Floats:
        """How far each answer is from its goal: positive before, falling on the way; 0 where only labels are known.

        1, whatever the scores, where no class would do: a model of one class has no other.
        """
        if self.wanted is None:
            assert self.lower is not None and self.upper is not None
            if self.inside:
                return np.maximum(self.lower - answer.output, answer.output - self.upper)
            return np.minimum(answer.output - self.lower, self.upper - answer.output)
        if answer.scores is None:
            return np.zeros(len(answer))
        logits = self.blackbox.logits(answer.scores)
        best_wanted = np.where(self.wanted, logits, -np.inf).max(axis=1)
        best_other = np.where(self.wanted, -np.inf, logits).max(axis=1)
        gap = np.where(np.isfinite(best_other), best_other - best_wanted, -1.0)
        if self.min_probability is not None:
            gap = np.maximum(gap, np.log(max(self.min_probability, 1e-12)) - best_wanted)
        return np.where(np.isfinite(best_wanted), gap, 1.0)

    def observe(self, answer: Answer, scale: float) -> Floats:
        """What the agent sees of goal and answer: which classes are wanted, the scores, and the gap.

        For a regressor the distances to both ends of the goal: without them the state would not be Markov, since
        the goal moves with the start (paper §4.1.1 leaves this open).
        """
        gap = np.clip(self.gap(answer) / scale, -3.0, 3.0)[:, None]
        if self.wanted is None:
            assert self.lower is not None and self.upper is not None
            ends = np.column_stack([answer.output - self.lower, answer.output - self.upper]) / scale
            return np.concatenate([np.clip(ends, -3.0, 3.0), gap], axis=1)
        if answer.scores is None:
            return self.wanted.astype(np.float64)
        logits = self.blackbox.logits(answer.scores)
        centred = np.clip((logits - logits.mean(axis=1, keepdims=True)) / scale, -3.0, 3.0)
        return np.concatenate([self.wanted, centred, gap], axis=1)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
