"""Lookahead: actions ranked by what a world model expects of them, for free, alone or in turn with an agent's."""

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.search.beam import Ranker
from relax_plugin.search.state import Episodes, Observer
from relax_plugin.world_model.model import WorldModel

ROWS_AT_ONCE = 16_384  # bounds the memory
SOLVED = 1e6  # value of an action expected to meet the goal, above that of any other
LEAST = -1e12  # value of an action that is allowed but changes nothing
SHARES_OF_THE_WAY = (1.0, 0.75, 0.5, 0.25)  # tried where the whole way may lead beyond the goal


class LookaheadRanker:
    """Every action is tried in the world model, taken as far as it goes; if `thorough`, also a part of the way.

    The model's own answer in the state corrects what the world model believes of it: only the *change* by the action
    is imagined. Actions expected to meet the goal come first, the closest before; then those that leave less to do.
    """

    def __init__(self, world: WorldModel, observer: Observer, thorough: bool = False) -> None:
        self.world, self.observer, self.exact = world, observer, thorough

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        value, magnitude = np.full(allowed.shape, -np.inf), np.ones(allowed.shape)
        at_once = max(ROWS_AT_ONCE // len(self.observer.actions), 1)  # every action of a state is a row: bound memory
        for first in range(0, len(allowed), at_once):
            part = slice(first, first + at_once)
            self._look_ahead(episodes.take(part), allowed[part], value[part], magnitude[part])
        return value, magnitude

    def _look_ahead(self, episodes: Episodes, allowed: Booleans, value: Floats, magnitude: Floats) -> None:
        """Fill in the values and magnitudes of all allowed actions in these states."""
        row, action = np.nonzero(allowed)
        value[row, action] = LEAST
        here = self.world.predict(episodes.values)
        known = self.world.targets.of(episodes.answer) if self.world.blackbox.has_scores else here
        gap = episodes.goal.gap(self.world.targets.answer(known))
        feature, goal = self.observer.actions.feature[action], episodes.goal.take(row)
        so_far = self.observer.space.distance(episodes.values, episodes.start)[row]
        for extent in self._extents(episodes):
            landed = self.observer.actions.landing(
                episodes.start, episodes.span, episodes.limits, row, action, np.full(len(row), extent)
            )
            imagined = self.world.predict_changed(episodes.values, row, feature, landed)
            left = goal.gap(self.world.targets.answer(imagined + (known - here)[row]))
            worth = self._worth(so_far, self._cost(landed, episodes.start[row, feature], feature), left, gap[row])
            fits = abs(extent) == 1.0 or self.exact or episodes.goal.two_sided[row]  # else all the way is never too far
            better = fits & (landed != episodes.values[row, feature]) & (worth > value[row, action])
            value[row[better], action[better]], magnitude[row[better], action[better]] = worth[better], extent

    def _extents(self, episodes: Episodes) -> tuple[float, ...]:
        """How far actions are tried: all the way, which shows what they can do, or less where that may be too far."""
        extents = SHARES_OF_THE_WAY if episodes.goal.two_sided.any() or self.exact else (1.0,)
        signed = self.observer.actions.style == "signed"
        return (*extents, *(-extent for extent in extents)) if signed else extents

    def _cost(self, landed: Floats, start: Floats, feature: Integers) -> Floats:
        """What a change adds to the distance; a feature that an action may change has not been changed before."""
        space, change = self.observer.space, landed - start
        at_once = space.jumps(feature, start, landed)
        moved = np.where(at_once, change != 0, np.abs(change) / space.scale[feature])
        return np.asarray(moved * space.prices[feature])

    def _worth(self, so_far: Floats, cost: Floats, gap: Floats, before: Floats) -> Floats:
        """What the states after the actions are worth, given the imagined gaps after and the gaps before."""
        # The share of the way that will be enough. A category cannot be shortened, but it may as well be ranked by it:
        # what goes far beyond the goal in imagination is the likelier to reach it.
        share = np.clip(before / np.maximum(before - gap, 1e-12), 0.0, 1.0)
        return np.where(gap < 0, SOLVED - so_far - share * cost, -gap)


class TakingTurns:
    """Two rankings merged: the agent's best action, the lookahead's best, the agent's next, and so on.

    How far to go is the lookahead's to say, that is mostly all the way: on held-out rows this made the search sparser
    and closer than the agent's own magnitudes did.
    """

    def __init__(self, agent: Ranker, lookahead: LookaheadRanker) -> None:
        self.agent, self.lookahead, self.exact = agent, lookahead, lookahead.exact

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        first, _ = self.agent.rank(episodes)
        second, magnitude = self.lookahead.rank(episodes)
        merged = np.minimum(2 * _places(first), 2 * _places(second) + 1)
        return np.where(np.isfinite(first), -merged.astype(np.float64), -np.inf), magnitude


def _places(value: Floats) -> Integers:
    """0 for the best action of each row, 1 for the next, ..."""
    return np.argsort(np.argsort(-value, axis=1, kind="stable"), axis=1)
