"""The policy of an agent as arrays: its networks' answers without torch, its path to the goal, what that is worth."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.blackbox import BlackBox
from relax_plugin.features import FeatureSpace
from relax_plugin.search.state import Episodes, Observer, Ranker

LEAST_ROOM = 1e-6  # standard deviations: what has less room goes all the way
SPARSITY_WEIGHT = 0.1  # of the validation score: validity first, then fewer changes, then shorter ones
PROXIMITY_WEIGHT = 0.03

CODE = 4  # numbers by which the state describes one action to its value head

Weights = Mapping[str, Array]


def weight_shapes(inputs: int, actions: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The weights of one agent by name, and their shapes."""
    sizes = {"q.coder": (hidden, actions * (1 + CODE)), "parameters.output": (hidden, actions)}
    for network in ("q", "parameters"):
        sizes |= {f"{network}.trunk.0": (inputs, hidden), f"{network}.trunk.2": (hidden, hidden)}
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (1, *size) for name, size in sizes.items()}
    shapes |= {f"{name}.bias": (1, 1, size[1]) for name, size in sizes.items()}
    return shapes | dict.fromkeys(("q.effect", "q.readout"), (1, 1, actions, CODE))


class Policy:
    """Q(s, k, v_k) and v_k(s) of one agent, or of many side by side, as `networks.py` defines them.

    Parameters
    ----------
    weights : mapping of str to array
        By the names of the networks' own; every array leads with the agents. They are not copied.
    observer : Observer
        Says where a state tells what magnitudes are measured by.
    """

    def __init__(self, weights: Weights, observer: Observer) -> None:
        self.weights, self.actions = dict(weights), len(observer.actions)
        self.signed = observer.actions.style == "signed"
        self.sign, (self.here, self.room) = observer.actions.sign, observer.landmarks()

    def evaluate(self, states: Any, allowed: Booleans) -> tuple[Floats, Floats]:
        """Q-values (-inf where not allowed) and magnitudes of all actions, for flat batches (agents * rows, ...)."""
        w = self.weights
        agents = len(w["q.effect"])
        inputs = np.reshape(states, (agents, len(states) // agents, np.shape(states)[-1]))
        parameters = self._parameters(inputs)
        codes = self._linear("q.coder", self._trunk("q", inputs))
        codes = codes.reshape(*codes.shape[:2], self.actions, 1 + CODE)
        units = np.maximum(codes[..., 1:] + parameters[..., None] * w["q.effect"], 0.0)
        q = codes[..., 0] + np.einsum("mbak,mak->mba", units, w["q.readout"][:, 0])
        q, parameters = (part.reshape(-1, self.actions).astype(np.float64) for part in (q, parameters))
        return np.where(allowed, q, -np.inf), parameters

    def _parameters(self, states: Floats) -> Floats:
        raw = self._linear("parameters.output", self._trunk("parameters", states))
        if self.signed:
            return np.asarray(np.tanh(raw))
        way = self.sign * (raw - states[..., self.here])
        return np.asarray(np.clip(way / np.maximum(states[..., self.room], LEAST_ROOM), 0.0, 1.0))

    def _trunk(self, name: str, x: Floats) -> Floats:
        for layer in (0, 2):
            x = np.maximum(self._linear(f"{name}.trunk.{layer}", x), 0.0)
        return x

    def _linear(self, name: str, x: Floats) -> Floats:
        return np.asarray(x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])


class AgentRanker:
    """The trained agent as a ranking of actions: Q-values, and so many times the magnitudes it would take."""

    def __init__(self, policy: Policy, observer: Observer, stretch: float = 1.0) -> None:
        self.policy, self.observer, self.stretch = policy, observer, stretch

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        value, magnitude = self.policy.evaluate(self.observer.observe(episodes), self.observer.allowed(episodes))
        return value, self.stretch * magnitude


def roll_out(ranker: Ranker, observer: Observer, blackbox: BlackBox, episodes: Episodes) -> tuple[Episodes, Booleans]:
    """The action ranked first, again and again, to the end of each episode: at most `max_changes` model calls."""
    met = np.zeros(len(episodes.start), dtype=bool)
    final = episodes.take(np.arange(len(met)))  # a copy: the caller keeps its episodes
    running = np.arange(len(met))
    while len(running):
        part = final.take(running)
        able = observer.allowed(part).any(axis=1) & (part.left > 0)
        running, part = running[able], part.take(able)
        if len(running) == 0:
            break
        value, magnitude = ranker.rank(part)
        taken = value.argmax(axis=1)
        part = observer.advance(part, taken, magnitude[np.arange(len(taken)), taken], blackbox)
        reached = part.goal.met(part.answer)
        final.values[running], final.used[running], final.left[running] = part.values, part.used, part.left
        final.answer.output[running] = part.answer.output
        if final.answer.scores is not None and part.answer.scores is not None:
            final.answer.scores[running] = part.answer.scores
        met[running] = reached
        running = running[~reached]
    return final, met


def score(space: FeatureSpace, final: Episodes, met: Booleans) -> dict[str, float]:
    """Validity, sparsity and proximity of a roll-out, and the one number that chooses the best weights."""
    sparsity = (final.values != final.start).sum(axis=1)
    proximity = space.distance(final.values, final.start)
    row = {
        "validity": float(met.mean()),
        "sparsity": float(sparsity[met].mean()) if met.any() else np.nan,
        "proximity": float(proximity[met].mean()) if met.any() else np.nan,
    }
    cost = SPARSITY_WEIGHT * sparsity + PROXIMITY_WEIGHT * proximity
    return {**row, "objective": float(np.where(met, 1.0 - cost, -0.5).mean())}
