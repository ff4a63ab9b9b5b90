"""P-DQN (§4.2) with hierarchical curiosity (§4.3): how the agent acts, and its update equations."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.curiosity import RandomNetworkDistillation, action_inputs
from relax_plugin.agent.layers import Adam
from relax_plugin.agent.networks import ParameterNetwork, QNetwork
from relax_plugin.agent.policy import Policy, Weights
from relax_plugin.agent.replay import Transitions
from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.search.state import Observer

TARGET_RATE = 0.02  # share of the online network that its target takes over at each update
PARAMETER_NOISE = 0.2  # standard deviation of the noise on magnitudes, times ε
HEAT = 0.1  # difference of Q-values that makes an action e times as likely, where a demonstration is imitated
QUANTILE = 0.98  # of the demonstrated magnitudes that is aimed at: falling short costs a whole further change
ROUND = 0.1  # standard deviations from its target within which the quantile loss is quadratic


class Agent:
    """Q-network and parameter network with their targets; `members` independent agents in one.

    Attributes
    ----------
    policy : Policy
        What the networks say just now, in numpy.
    """

    def __init__(self, inputs: int, observer: Observer, config: ReLAXConfig, seed: int, members: int = 1) -> None:
        self.inputs, self.actions, self.members, self.config = inputs, len(observer.actions), members, config
        generator = torch.Generator().manual_seed(int(seed))
        self.q = QNetwork(members, inputs, self.actions, config.hidden, generator)
        self.parameters = ParameterNetwork(members, inputs, observer, config.hidden, generator)
        self.target_q = copy.deepcopy(self.q).requires_grad_(False)
        self.target_parameters = copy.deepcopy(self.parameters).requires_grad_(False)
        self.leaders: list[Tensor] = [*self.q.parameters(), *self.parameters.parameters()]
        self.followers: list[Tensor] = [*self.target_q.parameters(), *self.target_parameters.parameters()]
        self.state_weight, self.action_weight = config.state_curiosity, config.action_curiosity
        self.state_novelty = RandomNetworkDistillation(members, inputs, config.hidden, generator)
        self.action_novelty = RandomNetworkDistillation(members, inputs + 2 * self.actions, config.hidden, generator)
        trained = [self.q, self.parameters]
        trained += [self.state_novelty.predictor] if self.state_weight else []
        trained += [self.action_novelty.predictor] if self.action_weight else []
        self.weights = [weight for network in trained for weight in network.parameters()]
        self.optimizer = Adam(self.weights, config.learning_rate)
        self.policy = Policy(self._shared(), observer)

    def act(
        self, states: Any, allowed: Booleans, exploration: float, rng: np.random.Generator
    ) -> tuple[Integers, Floats]:
        """ε-greedy over discrete actions, Gaussian noise on their parameters (Algorithm 1, lines 13 and 14)."""
        q, parameters = self.policy.evaluate(states, allowed)
        rows = np.arange(len(q))
        taken = q.argmax(axis=1)
        at_random = rng.random(len(q)) < exploration
        lottery = np.where(allowed, rng.random(q.shape), -1.0).argmax(axis=1)
        taken = np.where(at_random, lottery, taken)
        magnitude = parameters[rows, taken] + PARAMETER_NOISE * exploration * rng.standard_normal(len(q))
        low = -1.0 if self.policy.signed else 0.0
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
        codes, k = self.q.codes(batch.states), batch.actions.unsqueeze(-1)
        way = self.parameters.way(batch.states)
        parameters = self.parameters.share(way, batch.states)
        done = parameters.detach().scatter(-1, k, batch.parameters.unsqueeze(-1))  # v_k as it was taken
        values = self.q.head(codes, done)
        td_error = target - values.gather(-1, k).squeeze(-1)
        # Huber: a few misjudged steps must not throw the network. Members are independent: sum over them.
        errors = torch.nn.functional.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")
        q_loss = (batch.weights * errors).mean(1).sum()
        if batch.demonstrated.any():  # an addition to the paper: demonstrations tell the parameters, in place of L_π
            shortfall = self.parameters.shortfall(way, batch.states, done).gather(-1, k).squeeze(-1)
            policy_loss = self._imitation_loss(batch, values, shortfall)
        else:
            potential = self.q.head(codes, parameters, frozen=True)
            policy_loss = -(potential * batch.allowed).sum(-1).mean(1).sum()  # ReLAX §4.2: -Σ_k Q(s, k, v_k(s))
        loss = q_loss + policy_loss + self._curiosity_loss(batch, parameters)
        self.optimizer.descend(loss)
        with torch.no_grad():
            torch._foreach_lerp_(self.followers, self.leaders, TARGET_RATE)
        return td_error.detach().numpy().astype(np.float64)

    def _imitation_loss(self, batch: Transitions, values: Tensor, shortfall: Tensor) -> Tensor:
        """Demonstrated actions shall have the highest Q, and go as far: cross-entropy and a quantile loss."""
        likely = torch.log_softmax((values / HEAT).masked_fill(~batch.allowed, -1e9), -1)
        missed = -likely.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1) * HEAT
        distance = shortfall.abs()
        bent = torch.where(distance < ROUND, distance.square() / (2 * ROUND), distance - ROUND / 2)
        pinball = torch.where(shortfall > 0, QUANTILE, 1 - QUANTILE) * bent
        return (batch.demonstrated * (missed + pinball)).mean(1).sum()

    def _curiosity_loss(self, batch: Transitions, parameters: Tensor) -> Tensor:
        """ReLAX §4.3: the predictors imitate, and the policy is drawn to parameters that are new."""
        loss = torch.zeros(())
        if self.state_weight:  # of the states reached too: the last ones of episodes are nothing else
            loss = loss + self.state_novelty.loss(torch.cat([batch.states, batch.next_states], 1))
        if self.action_weight:
            taken = action_inputs(batch.states, batch.actions, batch.parameters, self.actions)
            loss = loss + self.action_novelty.loss(taken)
            chosen = parameters.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
            proposed = action_inputs(batch.states, batch.actions, chosen, self.actions)
            novelty = self.action_novelty.error(proposed, frozen=True)  # r^{i,a}
            loss = loss - self.action_weight * novelty.mean(1).sum()
        return loss

    def _shared(self) -> dict[str, Array]:
        """The weights as arrays, which change as the networks learn."""
        networks = {"q": self.q, "parameters": self.parameters}
        return {f"{n}.{k}": t.detach().numpy() for n, net in networks.items() for k, t in net.state_dict().items()}

    def copied_weights(self) -> dict[str, Array]:
        """The weights as they are now."""
        return {name: weight.copy() for name, weight in self.policy.weights.items()}

    def load_weights(self, weights: Weights) -> None:
        """Take over weights, those of one agent being handed to every member."""
        for name, weight in weights.items():
            self.policy.weights[name][...] = weight
        self.target_q.load_state_dict(self.q.state_dict())
        self.target_parameters.load_state_dict(self.parameters.state_dict())
