"""Layers of small networks, many of them side by side, the optimiser they share, and torch on one thread.

Every weight has a leading dimension of *members*, all computed in one batched product. Inputs have shape (members,
batch, numbers).
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


class Adam:
    """torch's own fused Adam (AdamW, if weights decay) without `torch.optim.Adam` around it.

    The first of those that a process makes imports the compiler, which takes as long as training for a search does.
    `tests/agent/test_pdqn.py` holds the two to the same last bit.
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
