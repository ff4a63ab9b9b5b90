"""The Markov decision process of the paper (§4.1) for one instance, in plain Python loops: slow, and easy to check."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from relax_plugin import FeatureSpace


@dataclass
class Instance:
    """One instance to be changed: its values, its own limits, and its goal.

    `wanted` (one bool a class) for a classifier; `lower`, `upper` and `inside` for a regressor.
    """

    start: list[float]
    low: list[float]
    high: list[float]
    frozen: list[bool]
    choices: list[list[bool]]  # one list a feature, empty for numbers
    wanted: list[bool] | None = None
    lower: float = 0.0
    upper: float = 0.0
    inside: bool = False


@dataclass
class Model:
    """`ask` gives (output, scores or None) of one row; probabilities are clipped to `least` before logarithms."""

    ask: Callable[[list[float]], tuple[float, list[float] | None]]
    least: float
    probabilities: bool


@dataclass
class Episode:
    """s_t = (x_t, f_t) of one instance, and its transitions."""

    space: FeatureSpace
    model: Model
    instance: Instance
    max_changes: int
    distance_weight: float
    gap_scale: float
    signed: bool
    values: list[float] = field(init=False)
    used: list[bool] = field(init=False)
    left: int = field(init=False)
    answer: tuple[float, list[float] | None] = field(init=False)

    def __post_init__(self) -> None:
        self.values = list(self.instance.start)
        self.used = list(self.instance.frozen)
        self.left = self.max_changes
        self.answer = self.model.ask(self.values)

    # Actions

    def table(self) -> list[tuple[int, str, int]]:
        """(feature, "up" | "down" | "signed" | "category", position of the category)."""
        actions = []
        for j, feature in enumerate(self.space.features):
            if feature.kind == "categorical":
                for position in range(len(feature.categories)):
                    actions.append((j, "category", position))
            elif self.signed:
                actions.append((j, "signed", -1))
            else:
                actions.append((j, "up", -1))
                actions.append((j, "down", -1))
        return actions

    def ends(self, j: int) -> tuple[float, float]:
        """Lowest and highest value feature j may be changed to."""
        feature, start = self.space.features[j], self.instance.start[j]
        low, high = self.instance.low[j], self.instance.high[j]
        if feature.direction == "increase":
            low = max(low, start)
        if feature.direction == "decrease":
            high = min(high, start)
        low, high = self.inside(j, low, 1.0), self.inside(j, high, -1.0)
        if low > high or self.instance.frozen[j]:
            return start, start
        return low, high

    def inside(self, j: int, bound: float, inwards: float) -> float:
        """The value nearest to the bound that a cell can hold without lying outside of it."""
        feature = self.space.features[j]
        value = self.on_grid(j, bound, math.ceil if inwards > 0 else math.floor, -1e-9 * inwards)
        while inwards * value < inwards * bound:
            if feature.step is not None:
                value = self.on_grid(j, value + inwards * feature.step, round)
            else:
                value = float(np.nextafter(np.float32(value), np.float32(inwards * np.inf)))
        return value

    def on_grid(self, j: int, value: float, whole: Callable[[float], int], slack: float = 0.0) -> float:
        feature = self.space.features[j]
        if feature.step is not None:
            value = feature.anchor + whole((value - feature.anchor) / feature.step + slack) * feature.step
            value = round(value, max(_decimals(feature.step), _decimals(feature.anchor)))
        return float(np.float32(value)) if str(feature.dtype) == "float32" else value

    def allowed(self) -> list[bool]:
        answers = []
        for j, kind, position in self.table():
            low, high = self.ends(j)
            start = self.instance.start[j]
            if self.used[j]:
                answers.append(False)
            elif kind == "up":
                answers.append(high > start)
            elif kind == "down":
                answers.append(low < start)
            elif kind == "signed":
                answers.append(high > start or low < start)
            else:
                answers.append(self.instance.choices[j][position] and low <= position <= high and position != start)
        return answers

    def changed_value(self, action: int, magnitude: float) -> float:
        j, kind, position = self.table()[action]
        if kind == "category":
            return float(position)
        feature, start = self.space.features[j], self.instance.start[j]
        low, high = self.ends(j)
        if kind == "signed":
            upwards = magnitude >= 0
            value = start + min(max(magnitude, -1.0), 1.0) * (feature.high - feature.low)
        else:
            upwards = kind == "up"
            value = start + min(max(magnitude, 0.01), 1.0) * ((high if upwards else low) - start)
        value = self.on_grid(j, value, round)
        if feature.step is not None and (value <= start if upwards else value >= start):
            value = self.on_grid(j, start + (feature.step if upwards else -feature.step), round)
        return min(max(value, low), high)

    # Transition and reward

    def step(self, action: int, magnitude: float) -> dict[str, Any]:
        """Take an action: the reward of §4.1.4, what shaping would add, and whether the episode is over."""
        j = self.table()[action][0]
        distance_before, gap_before = self.distance(), self.gap()
        if self.allowed()[action]:  # one that is not allowed changes nothing, and costs a step
            self.values[j] = self.changed_value(action, magnitude)
            self.used[j] = True
        self.left -= 1
        self.answer = self.model.ask(self.values)
        met = self.met()
        reward = (1.0 if met else 0.0) - self.distance_weight * (self.distance() - distance_before)
        shaping = min(max((gap_before - self.gap()) / self.gap_scale, -1.0), 1.0)
        over = not met and (self.left <= 0 or not any(self.allowed()))
        return {"reward": reward, "shaping": shaping, "met": met, "over": over}

    def distance(self) -> float:
        total = 0.0
        for feature, value, start in zip(self.space.features, self.values, self.instance.start, strict=True):
            if feature.kind == "categorical":
                total += 1.0 if value != start else 0.0
            else:
                total += abs(value - start) / feature.scale
        return total

    def met(self) -> bool:
        output, instance = self.answer[0], self.instance
        if instance.wanted is not None:
            return instance.wanted[int(output)]
        if instance.inside:
            return instance.lower <= output <= instance.upper
        return output <= instance.lower or output >= instance.upper

    def logits(self) -> list[float] | None:
        scores = self.answer[1]
        if scores is None or not self.model.probabilities:
            return scores
        return [math.log(max(score, self.model.least)) for score in scores]

    def gap(self) -> float:
        output, instance = self.answer[0], self.instance
        if instance.wanted is None:
            if instance.inside:
                return max(instance.lower - output, output - instance.upper)
            return min(output - instance.lower, instance.upper - output)
        logits = self.logits()
        if logits is None:
            return 0.0
        best = {True: -math.inf, False: -math.inf}
        for wanted, logit in zip(instance.wanted, logits, strict=True):
            best[wanted] = max(best[wanted], logit)
        return best[False] - best[True]

    # What the agent sees

    def observation(self) -> list[float]:
        numbers, categories, up, down = [], [], [], []
        for j, feature in enumerate(self.space.features):
            if feature.kind == "categorical":
                categories += [
                    1.0 if self.values[j] == position else 0.0 for position in range(len(feature.categories))
                ]
                continue
            low, high = self.ends(j)
            numbers.append(_within((self.values[j] - feature.mean) / feature.scale, 5.0))
            up.append(_within((high - self.instance.start[j]) / feature.scale, 10.0))
            down.append(_within((self.instance.start[j] - low) / feature.scale, 10.0))
        seen = numbers + categories + [float(used) for used in self.used] + up + down
        return [*seen, self.left / self.max_changes, *self._goal_and_answer()]

    def _goal_and_answer(self) -> list[float]:
        output, instance = self.answer[0], self.instance
        gap = _within(self.gap() / self.gap_scale, 3.0)
        if instance.wanted is None:
            ends = [_within((output - end) / self.gap_scale, 3.0) for end in (instance.lower, instance.upper)]
            return [*ends, gap]
        wanted = [float(wanted) for wanted in instance.wanted]
        logits = self.logits()
        if logits is None:
            return wanted
        mean = sum(logits) / len(logits)
        return [*wanted, *[_within((logit - mean) / self.gap_scale, 3.0) for logit in logits], gap]


def _within(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _decimals(number: float) -> int:
    return max(0, -int(Decimal(repr(number)).normalize().as_tuple().exponent))
