"""Prioritised replay with n-step returns (§4.2), for many episodes and members side by side."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.arrays import Array, Booleans, Floats, Integers

LEAST_PRIORITY = 1e-3  # every transition keeps a chance to be drawn
IMPORTANCE = 0.4  # exponent: how far the bias of priorities is corrected
BONUS = 0.2  # added to the priority of a demonstrated step


class Step(NamedTuple):
    """One step of episodes side by side; every array leads with (episodes)."""

    states: Array
    allowed: Booleans
    actions: Integers
    parameters: Floats
    rewards: Floats
    done: Booleans  # whether the episode ended with it
    next_states: Array
    next_allowed: Booleans


class Transitions(NamedTuple):
    """A batch for one update; every tensor leads with (members, batch)."""

    states: Tensor
    allowed: Tensor
    actions: Tensor
    parameters: Tensor
    returns: Tensor  # R = Σ γ^i r, over n steps or to the end of the episode
    discounts: Tensor  # γ^n, or 0 where the episode ended
    next_states: Tensor
    next_allowed: Tensor
    demonstrated: Tensor  # 1 where the action is one of a demonstration
    weights: Tensor  # importance correction of prioritised replay
    positions: Tensor  # where they lie in the replay, to set their new priorities


class PrioritizedReplay:
    """A ring of transitions for each member, sampled by one cumulative sum over all of their priorities."""

    def __init__(self, members: int, length: int, inputs: int, actions: int, config: ReLAXConfig) -> None:
        self.members, self.length, self.config = members, length, config
        shape = (members, length)
        self.stored: dict[str, Array] = {
            "states": np.zeros((*shape, inputs), dtype=np.float32),
            "allowed": np.zeros((*shape, actions), dtype=bool),
            "actions": np.zeros(shape, dtype=np.int64),
            "parameters": np.zeros(shape, dtype=np.float32),
            "returns": np.zeros(shape, dtype=np.float32),
            "discounts": np.zeros(shape, dtype=np.float32),
            "next_states": np.zeros((*shape, inputs), dtype=np.float32),
            "next_allowed": np.zeros((*shape, actions), dtype=bool),
            "demonstrated": np.zeros(shape, dtype=np.float32),
        }
        self.priority = np.zeros(shape, dtype=np.float64)
        self.highest, self.added = 1.0, 0

    def __len__(self) -> int:
        return int((self.priority > 0).sum())

    def add(self, steps: Sequence[Step], demonstrated: bool = False, chosen: Any = slice(None)) -> None:
        """Store the first of these successive steps, with the return over all of them, of the episodes chosen."""
        first = steps[0]
        returns, factor, ended = np.zeros(len(first.done)), np.ones(len(first.done)), np.zeros(len(first.done), bool)
        next_states, next_allowed = first.next_states.copy(), first.next_allowed.copy()
        for step in steps:
            going = ~ended
            returns[going] += factor[going] * step.rewards[going]
            factor[going] *= self.config.discount
            next_states[going], next_allowed[going] = step.next_states[going], step.next_allowed[going]
            ended |= step.done
        whole: dict[str, Array] = {**first._asdict(), "returns": returns, "discounts": np.where(ended, 0.0, factor)}
        whole |= {"next_states": next_states, "next_allowed": next_allowed}
        whole["demonstrated"] = np.full(len(returns), float(demonstrated))
        places: Integers = np.zeros(0, dtype=np.int64)
        for name, ring in self.stored.items():
            new = whole[name][chosen]
            new = new.reshape(self.members, -1, *new.shape[1:])[:, -self.length :]
            places = (self.added + np.arange(new.shape[1])) % self.length
            ring[:, places] = new
        self.priority[:, places] = self.highest + BONUS * demonstrated
        self.added += len(places)

    def sample(self, batches: int, rng: np.random.Generator) -> list[Transitions]:
        """The batches of several updates, drawn by priority in one go."""
        batch = self.config.batch
        cumulated = np.cumsum(self.priority.ravel())
        per_member = cumulated.reshape(self.members, -1)[:, -1]
        first = np.concatenate([[0.0], per_member[:-1]])
        mass = per_member - first
        points = first[:, None] + rng.random((self.members, batch * batches)) * mass[:, None]
        flat = np.minimum(np.searchsorted(cumulated, points, side="right"), self.priority.size - 1)
        # Rarely drawn transitions count more: (1 / (N p))^importance, relative to the largest.
        chance = self.priority.ravel()[flat] / mass[:, None]
        weights = chance**-IMPORTANCE
        weights /= weights.max(axis=1, keepdims=True)
        member, at = np.divmod(flat, self.length)
        whole = Transitions(
            **{name: torch.from_numpy(ring[member, at]) for name, ring in self.stored.items()},
            weights=torch.from_numpy(weights.astype(np.float32)),
            positions=torch.from_numpy(flat),
        )
        parts = zip(*(torch.split(tensor, batch, dim=1) for tensor in whole), strict=True)
        return [Transitions(*part) for part in parts]

    def update(self, batch: Transitions, td_errors: Floats) -> None:
        """Set new priorities p ∝ |TD error|^β of what was learned from; demonstrations keep their bonus."""
        priority = (np.abs(td_errors) + LEAST_PRIORITY) ** self.config.priority_exponent
        priority += BONUS * batch.demonstrated.numpy()
        self.priority.ravel()[batch.positions.numpy()] = priority
        self.highest = max(self.highest, float(priority.max()))

    def share_of_the_highest(self, part: float) -> float:
        """The share of the draws that goes to this part of the stored transitions, those of the highest priority."""
        stored = np.sort(self.priority[self.priority > 0])[::-1]
        highest = stored[: max(1, round(part * len(stored)))]
        return float(highest.sum() / stored.sum()) if len(stored) else np.nan
