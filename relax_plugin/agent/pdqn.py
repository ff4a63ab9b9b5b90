"""P-DQN (§4.2) with hierarchical curiosity (§4.3): how the agent acts, and its update equations."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.curiosity import RandomNetworkDistillation, action_inputs
from relax_plugin.agent.networks import ParameterNetwork, QNetwork
from relax_plugin.agent.replay import Transitions
from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.world_model.layers import Adam

PARAMETER_NOISE = 0.2  # standard deviation of the noise on magnitudes, times ε


class Agent:
    """Q-network and parameter network with their targets; `members` independent agents in one.

    Parameters
    ----------
    inputs, actions : int
        Numbers in a state, discrete actions.
    config : ReLAXConfig
    seed, members : int
    """

    def __init__(self, inputs: int, actions: int, config: ReLAXConfig, seed: int, members: int = 1) -> None:
        self.inputs, self.actions, self.members, self.config = inputs, actions, members, config
        generator = torch.Generator().manual_seed(int(seed))
        signed = config.actions == "signed"
        self.q = QNetwork(members, inputs, actions, config.hidden, generator)
        self.parameters = ParameterNetwork(members, inputs, actions, config.hidden, signed, generator)
        self.target_q, self.target_parameters = copy.deepcopy(self.q), copy.deepcopy(self.parameters)
        for network in (self.target_q, self.target_parameters):
            network.requires_grad_(False)
        self.leaders: list[Tensor] = [*self.q.parameters(), *self.parameters.parameters()]
        self.followers: list[Tensor] = [*self.target_q.parameters(), *self.target_parameters.parameters()]
        self.state_weight, self.action_weight = config.state_curiosity, config.action_curiosity
        self.state_novelty = RandomNetworkDistillation(members, inputs, config.hidden, generator)
        self.action_novelty = RandomNetworkDistillation(members, inputs + 2 * actions, config.hidden, generator)
        trained = [self.q, self.parameters]
        trained += [self.state_novelty.predictor] if self.state_weight else []
        trained += [self.action_novelty.predictor] if self.action_weight else []
        self.weights = [weight for network in trained for weight in network.parameters()]
        self.optimizer = Adam(self.weights, config.learning_rate)

    @torch.no_grad()
    def evaluate(self, states: Any, allowed: Booleans) -> tuple[Floats, Floats]:
        """Q-values (-inf where not allowed) and parameters of all actions, for flat batches (members * rows, ...)."""
        tensor = torch.as_tensor(states).view(self.members, -1, self.inputs)
        parameters = self.parameters(tensor)
        q = self.q(tensor, parameters).view(-1, self.actions).numpy()
        return np.where(allowed, q, -np.inf), parameters.view(-1, self.actions).numpy().astype(np.float64)

    def act(
        self, states: Any, allowed: Booleans, exploration: float, rng: np.random.Generator
    ) -> tuple[Integers, Floats]:
        """ε-greedy over discrete actions, Gaussian noise on their parameters (Algorithm 1, lines 13 and 14)."""
        q, parameters = self.evaluate(states, allowed)
        rows = np.arange(len(q))
        taken = q.argmax(axis=1)
        at_random = rng.random(len(q)) < exploration
        lottery = np.where(allowed, rng.random(q.shape), -1.0).argmax(axis=1)
        taken = np.where(at_random, lottery, taken)
        magnitude = parameters[rows, taken] + PARAMETER_NOISE * exploration * rng.standard_normal(len(q))
        low = -1.0 if self.config.actions == "signed" else 0.0
        uniform = rng.uniform(low, 1.0, len(q))
        magnitude = np.where(at_random & (rng.random(len(q)) < 0.5), uniform, magnitude)
        return taken, np.clip(magnitude, low, 1.0)

    @torch.no_grad()
    def state_bonus(self, states: Any) -> Floats:
        """State curiosity r^{i,s}, weighted, to be added to the reward."""
        if not self.state_weight:
            return np.zeros(len(states))
        tensor = torch.as_tensor(states).view(self.members, -1, self.inputs)
        return (self.state_weight * self.state_novelty.error(tensor)).view(-1).numpy().astype(np.float64)

    def learn(self, batch: Transitions) -> Floats:
        """One step on L'_Q and L'_π; returns the TD errors, the new priorities."""
        with torch.no_grad():  # ReLAX §4.2: n-step target, y = R_n + γ^n max_k Q'(s', k, v'(s'))
            next_q = self.target_q(batch.next_states, self.target_parameters(batch.next_states))
            best: Tensor = next_q.masked_fill(~batch.next_allowed, -torch.inf).amax(-1)  # -inf where no action is left
            target = batch.returns + batch.discounts * best.nan_to_num(neginf=0.0)
        codes = self.q.codes(batch.states)
        td_error = target - self.q.taken(codes, batch.actions, batch.parameters)
        # Huber: a few misjudged steps must not throw the network. Members are independent: sum over them.
        errors = torch.nn.functional.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")
        q_loss = (batch.weights * errors).mean(1).sum()
        raw = self.parameters.raw(batch.states)
        parameters = self.parameters.squash(raw)
        potential = self.q.head(codes, parameters, frozen=True)
        policy_loss = -(potential * batch.allowed).sum(-1).mean(1).sum()  # ReLAX §4.2: -Σ_k Q(s, k, v_k(s))
        # A squashed parameter at its end has no gradient to come back: keep it from going there for nothing.
        policy_loss = policy_loss + self.config.parameter_decay * (raw.square() * batch.allowed).sum(-1).mean(1).sum()
        loss = q_loss + policy_loss + self._curiosity_loss(batch, parameters)
        self.optimizer.descend(loss)
        self._follow()
        return td_error.detach().numpy().astype(np.float64)

    def _curiosity_loss(self, batch: Transitions, parameters: Tensor) -> Tensor:
        """ReLAX §4.3: the predictors imitate, and the policy is drawn to parameters that are new."""
        loss = torch.zeros(())
        if self.state_weight:
            loss = loss + self.state_novelty.loss(batch.states)
        if self.action_weight:
            taken = action_inputs(batch.states, batch.actions, batch.parameters, self.actions)
            loss = loss + self.action_novelty.loss(taken)
            chosen = parameters.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
            proposed = action_inputs(batch.states, batch.actions, chosen, self.actions)
            novelty = self.action_novelty.error(proposed, frozen=True)  # r^{i,a}
            loss = loss - self.action_weight * novelty.mean(1).sum()
        return loss

    def _follow(self) -> None:
        """Target networks follow slowly."""
        with torch.no_grad():
            torch._foreach_lerp_(self.followers, self.leaders, self.config.target_rate)

    # Weights as plain tensors: for the best so far, for Local, for files.

    def weights_by_name(self) -> dict[str, Tensor]:
        networks = {"q": self.q, "parameters": self.parameters}
        return {f"{n}.{k}": t.detach().clone() for n, net in networks.items() for k, t in net.state_dict().items()}

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Take over weights, those of one agent being handed to every member."""
        for prefix, networks in (
            ("q", (self.q, self.target_q)),
            ("parameters", (self.parameters, self.target_parameters)),
        ):
            own = {k[len(prefix) + 1 :]: t for k, t in weights.items() if k.startswith(f"{prefix}.")}
            own = {k: t.expand(self.members, *t.shape[1:]) if len(t) == 1 else t for k, t in own.items()}
            for network in networks:
                network.load_state_dict(own)
