"""The two networks of P-DQN (§4.2), for one agent or for many side by side; `policy.py` computes the same in numpy.

Members: one for ReLAX-Global, one a target for ReLAX-Local.
"""

import math

import torch
from torch import Tensor, nn

from relax_plugin.agent.layers import MemberLinear, trunk
from relax_plugin.agent.policy import CODE, LEAST_ROOM
from relax_plugin.search.state import Observer


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
        weights: tuple[Tensor, Tensor] = (self.effect, self.readout)
        if frozen:
            codes, weights = codes.detach(), (self.effect.detach(), self.readout.detach())
        effect, readout = weights
        units = torch.relu(codes[..., 1:] + parameters.unsqueeze(-1) * effect)
        return codes[..., 0] + (units * readout).sum(-1)

    def forward(self, states: Tensor, parameters: Tensor) -> Tensor:
        return self.head(self.codes(states), parameters)


class ParameterNetwork(nn.Module):
    """v_k(s) for every action: for signed actions a share of the feature's range, squashed by tanh.

    Of a directional action the network says where its number goes, in standard deviations, which is the same for many
    states; v_k is the share of the way to the bound that leads there.
    """

    def __init__(self, members: int, inputs: int, observer: Observer, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        actions = observer.actions
        self.signed = actions.style == "signed"
        self.trunk = trunk(members, inputs, hidden, generator)
        self.output = MemberLinear(members, hidden, len(actions), generator, gain=1.0 if self.signed else 0.1)
        self.sign = torch.from_numpy(actions.sign.astype("float32"))
        self.here, self.room = (torch.from_numpy(place) for place in observer.landmarks())
        if not self.signed:
            nn.init.zeros_(self.output.bias)
            self.output.bias.data += self.sign  # at first one standard deviation from the mean

    def forward(self, states: Tensor) -> Tensor:
        return self.share(self.way(states), states)

    def way(self, states: Tensor) -> Tensor:
        """How far each action goes: in standard deviations in its direction, or the signed share itself."""
        raw = torch.as_tensor(self.output(self.trunk(states)))
        return torch.tanh(raw) if self.signed else self.sign * (raw - states[..., self.here])

    def share(self, way: Tensor, states: Tensor) -> Tensor:
        """The parameters v_k that go so far."""
        return way if self.signed else (way / self.whole(states)).clamp(0.0, 1.0)

    def shortfall(self, way: Tensor, states: Tensor, parameters: Tensor) -> Tensor:
        """By how much less far each action goes than with these parameters; 0 of those without one."""
        return (parameters * self.whole(states) - way) * parameters.sign()

    def whole(self, states: Tensor) -> Tensor:
        """The way that a parameter of 1 goes."""
        return torch.ones(()) if self.signed else states[..., self.room].clamp(min=LEAST_ROOM)
