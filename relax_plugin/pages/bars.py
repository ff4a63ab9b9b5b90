"""Bars of a card: where the model's answers lie, from 0 to 100% or on a line of numbers, and where the goal begins."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.formatting import format_cell, percent
from relax_plugin.results import Counterfactuals

ROOM = 0.08  # of the range of numbers, left free at both ends of a line
MOST_CLASSES = 4  # whose probabilities are shown of a query, the likeliest first


@dataclass(frozen=True)
class Bar:
    """One bar; whoever cannot see it reads `text`. Places are percentages of its length."""

    label: str
    text: str
    fill: float | None = None  # up to where it is filled: a probability
    mark: float | None = None  # where the query is
    dot: float | None = None  # where the answer is, on a line of numbers
    line: float | None = None  # where the answer turns, or the goal begins; `line_text` says which it is
    line_text: str = ""
    zones: tuple[tuple[float, float], ...] = ()  # from, width: what would meet the goal, on a line of numbers


class Bars:
    """The bars of a result: none where the model gives neither probabilities nor numbers.

    The `evidence` is more answers of the same model, which may show that it decides by another line than 50%.
    """

    def __init__(self, result: Counterfactuals, evidence: Counterfactuals | None = None) -> None:
        self.result, self.asked = result, result.asked
        scores = result.scores_before
        classes = None if self.asked is None else self.asked.classes
        known = self.asked is not None and self.asked.probabilities and classes is not None and scores is not None
        self.classes: tuple[Any, ...] | None = classes if known else None
        self.numbers = self.asked is not None and self.asked.goal.kind in ("shift", "between")
        self.turns_at_half = (
            self.classes is not None and len(self.classes) == 2 and self._likeliest_wins(evidence or result)
        )

    def _likeliest_wins(self, result: Counterfactuals) -> bool:
        """Whether every answer is the likelier class: a model may decide by another line than 50%."""
        assert result.scores_before is not None and self.classes is not None
        names = np.array([str(label) for label in self.classes], dtype=object)
        pairs = [(result.scores_before[~result.refused], result.before[~result.refused])]
        if result.scores_after is not None:
            pairs.append((result.scores_after[result.found], result.after[result.found]))
        return all((names[scores.argmax(axis=1)] == np.array([*map(str, labels)])).all() for scores, labels in pairs)

    def of_query(self, query: int) -> list[Bar]:
        """What the model says of the query itself: of two classes its answer's, of several the likeliest."""
        if self.result.refused[query]:
            return []
        if self.numbers:
            return [self._number("the model's number", float(self.result.before[query]), None, query)]
        if self.classes is None:
            return []
        assert self.result.scores_before is not None
        scores = self.result.scores_before[query]
        order = np.argsort(-scores, kind="stable")[:MOST_CLASSES]
        if len(self.classes) == 2:
            own = self._position(self.result.before[query])
            wanted = self._wanted(query)
            order = np.array([own if self._line_of_goal(query) is None or wanted is None else wanted])
        told = []
        for position in order:
            label, share = self.classes[position], float(scores[position])
            line, line_text = self._line(query, int(position))
            bar = Bar(f"probability of {format_cell(label)}", percent(share), 100 * share, None, None, line, line_text)
            told.append(bar)
        return told

    def of_answer(self, query: int, answer: Any, scores: Any) -> Bar | None:
        """From the query to an answer of the model, by the probability of the class that it is, or that was wanted."""
        if self.numbers:
            return self._number("the model's number", float(self.result.before[query]), float(answer), query)
        if self.classes is None or scores is None:
            return None
        assert self.result.scores_before is not None and self.asked is not None
        wanted = self._wanted(query)
        position = self._position(answer) if wanted is None else wanted
        before, after = float(self.result.scores_before[query, position]), float(scores[position])
        line, line_text = self._line(query, position)
        text = f"{percent(before)} → {percent(after)}"
        label = f"probability of {format_cell(self.classes[position])}"
        return Bar(label, text, 100 * after, 100 * before, None, line, line_text)

    def _wanted(self, query: int) -> int | None:
        """The class that the question names, or the other one of two; None if several would do."""
        assert self.asked is not None and self.classes is not None
        goal = self.asked.goal
        if goal.kind == "to":
            return self._position(goal.label[query] if isinstance(goal.label, tuple) else goal.label)
        return 1 - self._position(self.result.before[query]) if len(self.classes) == 2 else None

    def _position(self, label: Any) -> int:
        assert self.classes is not None
        names = [str(one) for one in self.classes]
        return names.index(str(label)) if str(label) in names else 0

    def _line_of_goal(self, query: int) -> float | None:
        """The probability that the question asks for, of the class that it wants."""
        assert self.asked is not None
        goal = self.asked.goal
        if goal.raise_by is not None:
            wanted = self._wanted(query)
            assert wanted is not None and self.result.scores_before is not None
            return min(1.0, float(self.result.scores_before[query, wanted]) + goal.raise_by)
        if goal.min_probability is None:
            return None
        return max(goal.min_probability, 0.5) if self.turns_at_half else goal.min_probability

    def _line(self, query: int, position: int) -> tuple[float | None, str]:
        goal, wanted = self._line_of_goal(query), self._wanted(query)
        own = self._position(self.result.before[query])
        if goal is not None and (position == wanted or (wanted is None and position != own)):
            return 100 * goal, f"asked for: {percent(goal)}"
        return (50.0, "the answer turns at 50%") if self.turns_at_half else (None, "")

    def _number(self, label: str, before: float, after: float | None, query: int) -> Bar:
        assert self.asked is not None
        low, high, inside = self._ends(query, before)
        known = [one for one in (before, after, low, high) if one is not None and np.isfinite(one)]
        least, most = min(known), max(known)
        room = ROOM * (most - least) or 1.0
        least, most = least - room, most + room

        def place(number: float) -> float:
            return float(100 * np.clip((number - least) / (most - least), 0.0, 1.0))

        between = [(low, high)] if inside else [(-np.inf, low), (high, np.inf)]
        zones = tuple((place(a), place(b) - place(a)) for a, b in between)
        text = format_cell(before) if after is None else f"{format_cell(before)} → {format_cell(after)}"
        return Bar(
            label,
            text,
            None,
            place(before),
            None if after is None else place(after),
            None,
            "green: what was asked for",
            zones,
        )

    def _ends(self, query: int, before: float) -> tuple[float, float, bool]:
        """The ends of the range of numbers, and whether the goal is inside of it."""
        assert self.asked is not None
        goal = self.asked.goal
        if goal.kind == "between":
            low, high = (end[query] if isinstance(end, tuple) else end for end in (goal.low, goal.high))
            assert low is not None and high is not None
            return float(low), float(high), True
        assert goal.delta is not None
        low, high = before - goal.delta, before + goal.delta
        if goal.direction == "up":
            return high, np.inf, True
        return (-np.inf, low, True) if goal.direction == "down" else (low, high, False)
