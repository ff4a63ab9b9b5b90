"""The two networks of P-DQN (§4.2), for one agent or for many side by side.

Every weight has a leading dimension of *members*: one for ReLAX-Global, one a target for ReLAX-Local, all computed in
one batched product. Inputs have shape (members, batch, numbers).
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw


class MemberLinear(nn.Module):
    """A linear layer for each member."""

    def __init__(self, members: int, inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> None:
        super().__init__()
        bound = gain / math.sqrt(inputs)
        self.weight = nn.Parameter((torch.rand(members, inputs, outputs, generator=generator) * 2 - 1) * bound)
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


def trunk(members: int, inputs: int, hidden: int, generator: torch.Generator) -> nn.Sequential:
    """Two hidden layers, shared by all actions."""
    return nn.Sequential(
        MemberLinear(members, inputs, hidden, generator, gain=1.7),
        nn.ReLU(),
        MemberLinear(members, hidden, hidden, generator, gain=1.7),
        nn.ReLU(),
    )


class QNetwork(nn.Module):
    """Q(s, k, v_k): the state gives each action a short code, and the parameter v_k enters that action's own head.

    Since v_k reaches only Q(s, k, ·), no action gets false gradients from the parameters of others, the known flaw of
    feeding all parameters into one network.
    """

    def __init__(
        self, members: int, inputs: int, actions: int, hidden: int, code: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.actions, self.code = actions, code + 1
        self.trunk = trunk(members, inputs, hidden, generator)
        self.coder = MemberLinear(members, hidden, actions * (code + 1), generator)
        self.effect = nn.Parameter(torch.randn(members, 1, actions, code, generator=generator))
        self.readout = nn.Parameter(torch.randn(members, 1, actions, code, generator=generator) / math.sqrt(code))

    def codes(self, states: Tensor) -> Tensor:
        """What the state says about each action (members, batch, actions, 1 + code).

        The first number is a value by itself: an action whose rectified units all fell silent could not recover.
        """
        members, batch, _ = states.shape
        return torch.as_tensor(self.coder(self.trunk(states))).view(members, batch, self.actions, self.code)

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
        index = actions.unsqueeze(-1).expand(members, batch, self.code)
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


class Adam:
    """torch's own fused Adam (AdamW, if weights decay) without `torch.optim.Adam` around it.

    The first of those that a process makes imports the compiler, which takes as long as training for a search does.
    `tests/test_agent.py` holds the two to the same last bit.
    """

    def __init__(self, weights: Sequence[Tensor], rate: float, decay: float = 0.0) -> None:
        self.weights, self.rate, self.decay = list(weights), rate, decay
        self.means = [torch.zeros_like(weight) for weight in self.weights]
        self.squares = [torch.zeros_like(weight) for weight in self.weights]
        self.steps = [torch.zeros((), dtype=torch.float32) for _ in self.weights]

    def descend(self, loss: Tensor) -> None:
        """One step down the gradient of the loss."""
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            (adamw if self.decay else adam)(
                self.weights,
                gradients,
                self.means,
                self.squares,
                [],
                self.steps,
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=self.rate,
                weight_decay=self.decay,
                eps=1e-8,
                maximize=False,
            )


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks are quickest on one thread, and only then the same everywhere; the setting is given back.

    The setting is one for the whole process: of several Python threads that want it, the last one gives it back.
    """
    with ONE_THREAD.changing:
        if ONE_THREAD.users == 0:
            ONE_THREAD.before = torch.get_num_threads()
        ONE_THREAD.users += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with ONE_THREAD.changing:
            ONE_THREAD.users -= 1
            if ONE_THREAD.users == 0:
                torch.set_num_threads(ONE_THREAD.before)


@dataclass
class Turns:
    """Who wants torch to use one thread just now."""

    changing: threading.Lock
    users: int = 0
    before: int = 1


ONE_THREAD = Turns(threading.Lock())
