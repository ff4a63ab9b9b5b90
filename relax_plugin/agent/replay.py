"""Prioritised replay with n-step returns (§4.2), for many episodes and members side by side."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.arrays import Booleans, Floats, Integers

LEAST_PRIORITY = 1e-3  # every transition keeps a chance to be drawn


class Transitions(NamedTuple):
    """A batch for one update; every tensor leads with (members, batch)."""

    states: Tensor
    actions: Tensor
    parameters: Tensor
    returns: Tensor  # R = Σ γ^i r, over n steps or to the end of the episode
    discounts: Tensor  # γ^n, or 0 where the episode ended
    next_states: Tensor
    next_allowed: Tensor
    allowed: Tensor
    weights: Tensor  # importance correction of prioritised replay
    positions: Tensor  # where they lie in the replay, to set their new priorities


class PrioritizedReplay:
    """A ring of the last steps of every episode; the newest step waits until its successor is known.

    Entries lie (episode, time), so that the entries of one member are contiguous; priorities are sampled by one
    cumulative sum over all of them.
    """

    def __init__(self, members: int, width: int, length: int, inputs: int, actions: int) -> None:
        self.members, self.width, self.length = members, width, max(length, 4)
        shape = (width, self.length)
        self.states = np.zeros((*shape, inputs), dtype=np.float32)
        self.allowed = np.zeros((*shape, actions), dtype=bool)
        self.actions = np.zeros(shape, dtype=np.int64)
        self.parameters = np.zeros(shape, dtype=np.float32)
        self.rewards = np.zeros(shape, dtype=np.float32)
        self.done = np.ones(shape, dtype=bool)
        self.priority = np.zeros(shape, dtype=np.float64)
        self.highest = 1.0
        self.time = 0

    def add(
        self, states: Floats, allowed: Booleans, actions: Integers, parameters: Floats, rewards: Floats, done: Booleans
    ) -> None:
        """Store one step of every episode."""
        now, before = self.time % self.length, (self.time - 1) % self.length
        self.states[:, now], self.allowed[:, now] = states, allowed
        self.actions[:, now], self.parameters[:, now] = actions, parameters
        self.rewards[:, now], self.done[:, now] = rewards, done
        self.priority[:, now] = 0.0
        if self.time > 0:
            self.priority[:, before] = self.highest
        self.time += 1

    def __len__(self) -> int:
        return int((self.priority > 0).sum())

    def sample(self, config: ReLAXConfig, rng: np.random.Generator) -> list[Transitions]:
        """The batches of one step's updates, drawn by priority in one go; n steps are walked ahead for the return."""
        batch = config.batch * config.updates_per_step
        cumulated = np.cumsum(self.priority.ravel())
        per_member = cumulated.reshape(self.members, -1)[:, -1]
        first = np.concatenate([[0.0], per_member[:-1]])
        mass = per_member - first
        points = first[:, None] + rng.random((self.members, batch)) * mass[:, None]
        flat = np.minimum(np.searchsorted(cumulated, points, side="right"), self.priority.size - 1)
        episode, at = np.divmod(flat, self.length)
        # The newest step has no stored successor yet: walk up to it, not past it.
        steps_known = ((self.time - 1) % self.length - at) % self.length
        returns, factor, ended = np.zeros(flat.shape), np.ones(flat.shape), np.zeros(flat.shape, dtype=bool)
        last = at.copy()
        for i in range(config.steps_of_return):
            going = ~ended & (i < steps_known)
            returns += np.where(going, factor * self.rewards[episode, last], 0.0)
            factor = np.where(going, factor * config.discount, factor)
            ended |= going & self.done[episode, last]
            last = np.where(going & ~ended, (last + 1) % self.length, last)
        # Rarely drawn transitions count more: (1 / (N p))^importance, relative to the largest.
        chance = self.priority.ravel()[flat] / mass[:, None]
        weights = chance**-config.importance_exponent
        weights /= weights.max(axis=1, keepdims=True)
        whole = Transitions(
            states=torch.from_numpy(self.states[episode, at]),
            actions=torch.from_numpy(self.actions[episode, at]),
            parameters=torch.from_numpy(self.parameters[episode, at]),
            returns=torch.from_numpy(returns.astype(np.float32)),
            discounts=torch.from_numpy(np.where(ended, 0.0, factor).astype(np.float32)),
            next_states=torch.from_numpy(self.states[episode, last]),
            next_allowed=torch.from_numpy(self.allowed[episode, last]),
            allowed=torch.from_numpy(self.allowed[episode, at]),
            weights=torch.from_numpy(weights.astype(np.float32)),
            positions=torch.from_numpy(flat),
        )
        parts = zip(*(torch.split(tensor, config.batch, dim=1) for tensor in whole), strict=True)
        return [Transitions(*part) for part in parts]

    def update(self, positions: Tensor, td_errors: Floats, exponent: float) -> None:
        """Set new priorities p ∝ |TD error|^β of transitions that were learned from."""
        priority = (np.abs(td_errors).ravel() + LEAST_PRIORITY) ** exponent
        self.priority.ravel()[positions.numpy().ravel()] = priority
        self.highest = max(self.highest, float(priority.max()))

    def share_of_the_highest(self, part: float) -> float:
        """The share of the draws that goes to this part of the stored transitions, those of the highest priority."""
        stored = np.sort(self.priority[self.priority > 0])[::-1]
        highest = stored[: max(1, round(part * len(stored)))]
        return float(highest.sum() / stored.sum()) if len(stored) else np.nan
