"""Lookahead: actions ranked by what a world model expects of them, for free, alone or in turn with an agent's."""

import numpy as np

from relax_plugin.blackbox import Answer
from relax_plugin.environment import Episodes, Observer
from relax_plugin.problem import Floats, Integers
from relax_plugin.search import Ranker
from relax_plugin.world_model import WorldModel

SOLVED = 1e6  # value of an action expected to meet the goal, above that of any other


class LookaheadRanker:
    """Every action, taken as far as it goes, is tried in the world model.

    The model's own answer in the state corrects what the world model believes of it: only the *change* by the action
    is imagined. Actions expected to meet the goal come first, the closest before; then those that leave less to do.
    """

    def __init__(self, world: WorldModel, observer: Observer) -> None:
        self.world, self.observer = world, observer

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        row, action = np.nonzero(allowed)
        here = self.world.predict(episodes.values)
        known = self.world.targets(episodes.answer) if self.world.blackbox.has_scores else here
        value, magnitude = np.full(allowed.shape, -np.inf), np.ones(allowed.shape)
        for extent in (1.0,) if self.observer.actions.style == "directional" else (1.0, -1.0):
            after = self.observer.change(episodes.rows(row), action, np.full(len(row), extent))
            feature = self.observer.actions.feature[action]
            value_after = after.values[np.arange(len(row)), feature]
            imagined = self.world.predict_moves(episodes.values, row, feature, value_after)
            answer = self.world.answer(imagined + (known - here)[row])
            found = self._worth(episodes, row, after, answer, episodes.goal.gap(self.world.answer(known))[row])
            better = found > value[row, action]
            value[row[better], action[better]], magnitude[row[better], action[better]] = found[better], extent
        return value, magnitude

    def _worth(self, episodes: Episodes, row: Integers, after: Episodes, answer: Answer, before: Floats) -> Floats:
        """What the states after the actions are worth, given the imagined answers to them and the gaps before."""
        distance = self.observer.space.distance
        gap, so_far = after.goal.gap(answer), distance(episodes.values, episodes.start)[row]
        share = np.clip(before / np.maximum(before - gap, 1e-12), 0.0, 1.0)  # of the way that will be enough
        promised = so_far + share * (distance(after.values, after.start) - so_far)
        return np.where(gap < 0, SOLVED - promised, -gap)


class TakingTurns:
    """Two rankings merged: the agent's best action, the lookahead's best, the agent's next, and so on.

    How far to go is the lookahead's to say: all the way. The agent's own magnitudes make the search neither sparser
    nor closer where every promising action is looked ahead of.
    """

    def __init__(self, agent: Ranker, lookahead: LookaheadRanker) -> None:
        self.agent, self.lookahead = agent, lookahead

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        first, _ = self.agent.rank(episodes)
        second, magnitude = self.lookahead.rank(episodes)
        place = np.minimum(2 * _places(first), 2 * _places(second) + 1)
        return np.where(np.isfinite(first), -place.astype(np.float64), -np.inf), magnitude


def _places(value: Floats) -> Integers:
    """0 for the best action of each row, 1 for the next, ..."""
    return np.argsort(np.argsort(-value, axis=1, kind="stable"), axis=1)
