"""BoundGoal: the goals of a batch of queries, given the model's answers to them, and how far answers are from them."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.blackbox import Answer, BlackBox

ROUNDING = 1e-9  # what a probability may exceed 1 by only because it is a sum


@dataclass(frozen=True)
class BoundGoal:
    """The goals of a batch of queries as arrays.

    Classification: `wanted` (n, classes) says which classes are accepted, and `avoided` the class that must be left
    (it also covers labels that no training row had). With `least` (n,) the wanted class need not win: so large a
    probability of it is enough. Regression: outside of, or `inside`, [lower, upper].
    """

    blackbox: BlackBox
    wanted: Booleans | None = None
    avoided: Floats | None = None
    min_probability: float | None = None
    lower: Floats | None = None
    upper: Floats | None = None
    inside: bool = False
    least: Floats | None = None

    @property
    def two_sided(self) -> Booleans:
        """Whether one may go too far, for each query: its goal is a range with two ends."""
        if not self.inside:
            known = self.lower if self.wanted is None else self.wanted
            assert known is not None
            return np.zeros(len(known), dtype=bool)
        assert self.lower is not None and self.upper is not None
        return np.asarray(np.isfinite(self.lower) & np.isfinite(self.upper))

    @property
    def needs_scores(self) -> bool:
        """Whether labels alone do not tell that an answer meets the goal."""
        return self.min_probability is not None or self.least is not None

    def risen(self, before: Answer, by: float) -> "BoundGoal":
        """The goals that the wanted class, one a query, is so much likelier than before, whichever class wins."""
        least = self.chance(before) + by
        return replace(self, least=np.where(least <= 1.0 + ROUNDING, np.minimum(least, 1.0), least))

    def chance(self, answer: Answer) -> Floats:
        """The probability of the wanted class, of which there is one a query."""
        assert self.wanted is not None and answer.scores is not None
        return np.asarray(np.where(self.wanted, answer.scores, 0.0).sum(axis=1))

    def impossible(self, before: Answer) -> Array:
        """Why no answer whatever can meet the goal of each query; "" where one may."""
        reasons = np.full(len(before), "", dtype=object)
        if self.least is None:
            return reasons
        assert self.wanted is not None
        chance, label = self.chance(before), self.blackbox.labels(self.wanted.argmax(axis=1).astype(np.float64))
        for row in np.flatnonzero(self.least > 1.0):
            name = label[row].item() if isinstance(label[row], np.generic) else label[row]
            reasons[row] = (
                f"no answer can meet the goal: the probability of {name!r} is {chance[row]:.4g} already, and "
                f"{self.least[row] - chance[row]:.4g} more would be above 1"
            )
        return reasons

    def take(self, index: Any) -> "BoundGoal":
        """The goals of some of the queries, in the order and as often as the index says."""
        names = ("wanted", "avoided", "lower", "upper", "least")
        return replace(self, **{name: _picked(getattr(self, name), index) for name in names})

    def met(self, answer: Answer) -> Booleans:
        """Whether each answer meets its goal: the model's own output decides, not its scores.

        A row that the model refuses meets none.
        """
        met = self._met(answer)
        return met if answer.refused is None else met & answer.answered

    def _met(self, answer: Answer) -> Booleans:
        if self.wanted is None:
            assert self.lower is not None and self.upper is not None
            within = (answer.output >= self.lower) & (answer.output <= self.upper)
            return within if self.inside else (answer.output <= self.lower) | (answer.output >= self.upper)
        if self.least is not None:
            return np.asarray(self.chance(answer) >= self.least)
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
            if not self.inside:
                outside = 0.5 * (self.lower + self.upper)
            return answer.replaced(self.met(answer) & np.isfinite(outside), Answer(outside))
        if self.least is not None:
            return answer.replaced(self.met(answer), self._too_unlikely(answer, self.least / 2))
        scores = None if answer.scores is None else np.roll(answer.scores, 1, axis=1)
        return answer.replaced(self.met(answer), Answer((answer.output + 1) % self.wanted.shape[1], scores))

    def _too_unlikely(self, answer: Answer, chance: Floats) -> Answer:
        """Answers with this probability of the wanted class; the others share the rest as they did."""
        assert self.wanted is not None and answer.scores is not None
        others = np.where(self.wanted, 0.0, np.maximum(answer.scores, np.finfo(float).tiny))
        others /= np.maximum(others.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        scores = np.where(self.wanted, chance[:, None], (1.0 - chance[:, None]) * others)
        return Answer(scores.argmax(axis=1).astype(np.float64), scores)

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
        if self.least is not None:
            return self.log_odds(self.least) - self.log_odds(self.chance(answer))
        logits = self.blackbox.logits(answer.scores)
        best_wanted, best_other = _largest(logits, self.wanted), _largest(logits, ~self.wanted)
        gap = np.where(np.isfinite(best_other), best_other - best_wanted, -1.0)
        if self.min_probability is not None:
            gap = np.maximum(gap, np.log(max(self.min_probability, 1e-12)) - best_wanted)
        return np.where(np.isfinite(best_wanted), gap, 1.0)

    def log_odds(self, probability: Floats) -> Floats:
        """log(p / (1 - p)), which falls on the way also where p is nearly 1; clipped as the black box's logits are."""
        little = self.blackbox.least_probability
        rest = np.clip(1.0 - probability, little, None)
        return np.asarray(np.log(np.clip(probability, little, None)) - np.log(rest))

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


def _largest(scores: Floats, among: Booleans) -> Floats:
    """The largest score of each row among some classes: class by class, since numpy is slow at rows this short."""
    return np.asarray(reduce(np.maximum, np.where(among, scores, -np.inf).T))


def _picked(part: Any, index: Any) -> Any:
    """Some entries of an array, if there is one; `take` is many times as fast as an index, and knows positions only."""
    positions = isinstance(index, np.ndarray) and index.dtype.kind == "i"
    return None if part is None else part.take(index, axis=0) if positions else part[index]
