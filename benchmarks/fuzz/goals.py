"""Random goals and constraints of a call, and the oracle's own reading of when a goal is met."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin import Goal


@dataclass(frozen=True)
class Wanted:
    """A goal: `choice` picks labels, `share` places numbers within those that the training rows have."""

    kind: str = "flip"
    choice: int = 0
    share: float = 0.5
    width: float = 0.2
    min_probability: float | None = None
    direction: Any = "either"

    def goal(self, labels: Any, numbers: Any, queries: int) -> Any:
        """The package's goal; `numbers` are a regressor's answers to the training rows."""
        if self.kind == "flip":
            return Goal.flip(min_probability=self.min_probability)
        if self.kind == "to":
            return Goal.to(self.labels(labels, queries)[0], min_probability=self.min_probability)
        if self.kind == "to each":
            return Goal.to(self.labels(labels, queries), min_probability=self.min_probability)
        if self.kind == "shift":
            return Goal.shift(self.delta(numbers), direction=self.direction)
        if self.kind == "between each":
            return Goal.between(*self.each(numbers, queries))
        return Goal.between(*self.ends(numbers))

    def labels(self, labels: Any, queries: int) -> list[Any]:
        """The label each query is to get."""
        if self.kind == "to":
            return [labels[self.choice % len(labels)]] * max(queries, 1)
        return [labels[(self.choice + query) % len(labels)] for query in range(queries)]

    def delta(self, numbers: Any) -> float:
        return max(float(np.ptp(numbers)), 1e-3) * self.width

    def ends(self, numbers: Any) -> tuple[float, float]:
        low, width = float(np.min(numbers)), max(float(np.ptp(numbers)), 1e-3)
        middle = low + self.share * width
        return middle - self.width * width / 2, middle + self.width * width / 2

    def each(self, numbers: Any, queries: int) -> tuple[Any, list[Any]]:
        """A range for each query, every third one without an upper end."""
        low, high = self.ends(numbers)
        away = 0.1 * (high - low) * np.arange(queries)
        return low - away, [None if query % 3 == 2 else high - end for query, end in enumerate(away)]

    def met(self, model: Any, before: Any, rows: Any, owner: Any, queries: int) -> Any:
        """Whether the model's own answers to the rows, which belong to the queries `owner`, are what was wanted."""
        answers = model.predict(rows)
        if self.kind == "shift":
            # Ends as a user computes them: before + delta and before - delta, both included.
            delta = self.delta(model.numbers)
            above, below = answers >= before[owner] + delta, answers <= before[owner] - delta
            return {"up": above, "down": below, "either": above | below}[self.direction]
        if self.kind == "between each":
            lows, highs = self.each(model.numbers, queries)
            tops = np.array([np.inf if high is None else high for high in highs], dtype=float)
            return (answers >= lows[owner]) & (answers <= tops[owner])
        if self.kind == "between":
            low, high = self.ends(model.numbers)
            return (answers >= low) & (answers <= high)
        if self.kind == "flip":
            met = answers != before[owner]
        else:
            wanted = np.array(self.labels(model.labels, queries), dtype=object)
            met = np.array([a == w for a, w in zip(answers.tolist(), wanted[owner].tolist(), strict=True)], dtype=bool)
        if self.min_probability is not None and len(answers):
            chances = model.probabilities(rows)
            place = {label: k for k, label in enumerate(np.asarray(model.labels).tolist())}
            positions = [place[answer] for answer in answers.tolist()]
            met = met & (chances[np.arange(len(answers)), positions] >= self.min_probability)
        return np.asarray(met, dtype=bool)


@dataclass(frozen=True)
class Call:
    """How `explain` is called: `vary` are positions of features, `bounds` a position and shares of the data's range."""

    queries: int = 20
    n: int = 1
    vary: tuple[int, ...] | None = None
    bounds: tuple[int, float, float] | None = None
