"""The two networks of P-DQN (§4.2), for one agent or for many side by side.

Members: one for ReLAX-Global, one a target for ReLAX-Local.
"""

import math

import torch
from torch import Tensor, nn

from relax_plugin.world_model.layers import MemberLinear, trunk

CODE = 4  # numbers by which the state describes one action to its value head


class QNetwork(nn.Module):
    """Q(s, k, v_k): the state gives each action a short code, and the parameter v_k enters that action's own head.

    Since v_k reaches only Q(s, k, ·), no action gets false gradients from the parameters of others, the known flaw of
    feeding all parameters into one network.
    """

    def __init__(self, members: int, inputs: int, actions: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.actions = actions
        self.trunk = trunk(members, inputs, hidden, generator)
        self.coder = MemberLinear(members, hidden, actions * (1 + CODE), generator)
        self.effect = nn.Parameter(torch.randn(members, 1, actions, CODE, generator=generator))
        self.readout = nn.Parameter(torch.randn(members, 1, actions, CODE, generator=generator) / math.sqrt(CODE))

    def codes(self, states: Tensor) -> Tensor:
        """What the state says about each action (members, batch, actions, 1 + CODE).

        The first number is a value by itself: an action whose rectified units all fell silent could not recover.
        """
        members, batch, _ = states.shape
        return torch.as_tensor(self.coder(self.trunk(states))).view(members, batch, self.actions, 1 + CODE)

    def head(self, codes: Tensor, parameters: Tensor, frozen: bool = False) -> Tensor:
        """Q of every action (members, batch, actions); `frozen` lets gradients reach the parameters only."""
        if frozen:
            return _value(codes.detach(), parameters, self.effect.detach(), self.readout.detach())
        return _value(codes, parameters, self.effect, self.readout)

    def forward(self, states: Tensor, parameters: Tensor) -> Tensor:
        return self.head(self.codes(states), parameters)

    def taken(self, codes: Tensor, actions: Tensor, parameters: Tensor) -> Tensor:
        """Q of the actions taken (members, batch), at the parameters they were taken with."""
        members, batch = actions.shape
        index = actions.unsqueeze(-1).expand(members, batch, 1 + CODE)
        chosen = codes.gather(2, index.unsqueeze(2)).squeeze(2)
        effect, readout = (w.squeeze(1).gather(1, index[..., 1:]) for w in (self.effect, self.readout))
        return _value(chosen, parameters, effect, readout)


def _value(codes: Tensor, parameters: Tensor, effect: Tensor, readout: Tensor) -> Tensor:
    units = torch.relu(codes[..., 1:] + parameters.unsqueeze(-1) * effect)
    return codes[..., 0] + (units * readout).sum(-1)


class ParameterNetwork(nn.Module):
    """v_k(s) for every action: a share of the way to the bound, or of the feature's range for signed actions."""

    def __init__(
        self, members: int, inputs: int, actions: int, hidden: int, signed: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.signed = signed
        self.trunk = trunk(members, inputs, hidden, generator)
        self.output = MemberLinear(members, hidden, actions, generator)

    def forward(self, states: Tensor) -> Tensor:
        return self.squash(self.raw(states))

    def raw(self, states: Tensor) -> Tensor:
        """The parameters before they are squashed into their range."""
        return torch.as_tensor(self.output(self.trunk(states)))

    def squash(self, raw: Tensor) -> Tensor:
        return torch.tanh(raw) if self.signed else torch.sigmoid(raw + 1.0)
