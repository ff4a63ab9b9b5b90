"""`random-order`: the search of ReLAX with actions in random order, each to its bound.

A control that keeps comparisons honest: what the search reaches by itself, guided by something that has not learned.
"""

import numpy as np

from relax_plugin.features import Values
from relax_plugin.problem import Floats
from relax_plugin.search.beam import Ranker
from relax_plugin.search.searcher import GuidedExplainer
from relax_plugin.search.state import Episodes, Observer


class RandomOrder(GuidedExplainer):
    """Actions in random order, each to its bound: a control, not a method to use."""

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._prepare(values)

    def _ranker(self, wide: bool) -> Ranker:
        return RandomRanker(self.observer_, np.random.default_rng(int(self.seed)))


class RandomRanker:
    """A random value for every allowed action."""

    exact = False

    def __init__(self, observer: Observer, rng: np.random.Generator) -> None:
        self.observer, self.rng = observer, rng

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        allowed = self.observer.allowed(episodes)
        return np.where(allowed, self.rng.random(allowed.shape), -np.inf), np.ones(allowed.shape)
