"""The state of a search or of training (§4.1.1): episodes side by side, what is seen of them, what they may do."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import BoundGoal
from relax_plugin.limits import Limits
from relax_plugin.problem import Problem
from relax_plugin.search.actions import ActionTable

FARTHEST = 10.0  # standard deviations of room that are told apart


@dataclass
class Episodes:
    """The state of a batch of episodes: s_t = (x_t, f_t), and what makes it Markov."""

    start: Values  # x
    values: Values  # x_t
    used: Booleans  # f_t: features changed so far; frozen ones count as used
    left: Integers  # changes that may still be made
    answer: Answer  # h(x_t)
    goal: BoundGoal
    limits: Limits
    span: tuple[Floats, Floats]  # where each feature may go under the limits

    def take(self, index: Any) -> "Episodes":
        return Episodes(
            self.start[index],
            self.values[index],
            self.used[index],
            self.left[index],
            self.answer.take(index),
            self.goal.take(index),
            self.limits.take(index),
            (self.span[0][index], self.span[1][index]),
        )

    def as_problem(self, blackbox: BlackBox) -> Problem:
        """What a search is given to solve them all."""
        space, spent, most = blackbox.space, np.zeros(len(self.start), dtype=np.int64), int(self.left.max(initial=1))
        assert space is not None
        return Problem(space, blackbox, self.start, self.answer, self.goal, self.limits, most, spent)

    @classmethod
    def begin(cls, start: Values, answer: Answer, goal: BoundGoal, limits: Limits, max_changes: int) -> "Episodes":
        """Episodes at t = 0: x_0 = x, f_0 = 0 (§4.1.1)."""
        used = np.broadcast_to(limits.frozen, start.shape).copy()
        left = np.full(len(start), max_changes)
        return cls(start, start.copy(), used, left, answer, goal, limits, limits.span(start))


class Observer:
    """Turns episodes into what the networks see, the features that they move, and knows what they may do with them."""

    def __init__(self, space: FeatureSpace, actions: ActionTable, max_changes: int, gap_scale: float) -> None:
        self.space = space
        self.actions = actions
        self.max_changes = max_changes
        self.gap_scale = gap_scale

    def over(self, space: FeatureSpace) -> "Observer":
        """The same with the prices of another space with the same features."""
        return Observer(space, self.actions, self.max_changes, self.gap_scale)

    def observe(self, episodes: Episodes) -> np.ndarray[Any, np.dtype[np.float32]]:
        """States as rows of numbers: x_t standardised, f_t, the room for each change, changes left, goal and answer."""
        seen = self.actions.moved
        numbers = seen[~self.space.is_categorical[seen]]
        scale, start = self.space.scale[numbers], episodes.start[:, numbers]
        room_up = (episodes.span[1][:, numbers] - start) / scale
        room_down = (start - episodes.span[0][:, numbers]) / scale
        parts = [
            np.clip(self.space.one_hot(episodes.values, seen), -5.0, 5.0),
            episodes.used[:, seen],
            np.clip(room_up, -FARTHEST, FARTHEST),
            np.clip(room_down, -FARTHEST, FARTHEST),
            episodes.left[:, None] / self.max_changes,
            episodes.goal.observe(episodes.answer, self.gap_scale),
        ]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def landmarks(self) -> tuple[Integers, Integers]:
        """For each action where `observe` tells its number, and the room of the number in the action's direction.

        0 and 0 where there are none.
        """
        seen, feature = self.actions.moved, self.actions.feature
        categorical = self.space.is_categorical
        numbers, sign = seen[~categorical[seen]], self.actions.sign
        here = np.searchsorted(numbers, feature)
        categories = sum(len(self.space.features[j].categories) for j in seen if categorical[j])
        up = len(numbers) + categories + len(seen)
        room = here + up + np.where(sign < 0, len(numbers), 0)
        return np.where(categorical[feature], 0, here), np.where(sign == 0, 0, room)

    def width(self, blackbox: BlackBox) -> int:
        """How many numbers `observe` gives of one row, known before there is one: a file must agree."""
        seen = self.actions.moved
        numbers = int((~self.space.is_categorical[seen]).sum())
        categories = sum(len(self.space.features[j].categories) for j in seen if self.space.is_categorical[j])
        classes = 0 if blackbox.classes is None else len(blackbox.classes)
        told = 3 if blackbox.task == "regression" else 2 * classes + 1 if blackbox.has_scores else classes
        return 3 * numbers + categories + len(seen) + 1 + told

    def allowed(self, episodes: Episodes) -> Booleans:
        return self.actions.allowed(episodes.start, episodes.used, episodes.span, episodes.limits)

    def change(self, episodes: Episodes, taken: Integers, magnitude: Floats) -> Episodes:
        """The transition of §4.1.3: change one feature and mark it as used; the model is not asked yet."""
        values = self.actions.apply(episodes.values, episodes.start, episodes.span, episodes.limits, taken, magnitude)
        used = episodes.used.copy()
        used[np.arange(len(used)), self.actions.feature[taken]] = True
        return replace(episodes, values=values, used=used, left=episodes.left - 1)

    def advance(self, episodes: Episodes, taken: Integers, magnitude: Floats, blackbox: BlackBox) -> Episodes:
        """A transition with the model's answer to it, all in one batch."""
        after = self.change(episodes, taken, magnitude)
        answer = blackbox.ask(after.values, mark_refused=True)
        return replace(after, answer=answer.where_refused(episodes.answer))


class Ranker(Protocol):
    """Says how promising each action is in each state, and how far to go with it."""

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        """Values (rows, actions), -inf where an action is not allowed, and magnitudes (rows, actions)."""
