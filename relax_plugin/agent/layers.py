"""Layers of small networks, many of them side by side, the optimiser they share, and torch on one thread.

Every weight has a leading dimension of *members*, all computed in one batched product. Inputs have shape (members,
batch, numbers).
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from relax_plugin.arrays import Array
from relax_plugin.locks import fork_safe_lock


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


class PickledAsArrays:
    """What holds networks, pickled as the arguments that made it and the weights as arrays; without its optimiser.

    torch would move the weights to shared memory, and write them differently each time.
    """

    made_of: tuple[Any, ...]  # the arguments of `__init__`, which a subclass keeps

    def networks(self) -> dict[str, nn.Module]:
        return {name: one for name, one in vars(self).items() if isinstance(one, nn.Module)}

    def __reduce__(self) -> Any:
        weights = {
            name: {key: tensor.detach().numpy().copy() for key, tensor in network.state_dict().items()}
            for name, network in self.networks().items()
        }
        return made_again, (type(self), self.made_of, weights)


def made_again(kind: type[PickledAsArrays], made_of: tuple[Any, ...], weights: dict[str, dict[str, Array]]) -> Any:
    """The holder of networks that a pickle describes."""
    made = kind(*made_of)
    for name, network in made.networks().items():
        network.load_state_dict({key: torch.tensor(array) for key, array in weights[name].items()})
    return made


class Adam:
    """torch's own fused Adam without `torch.optim.Adam` around it.

    The first of those that a process makes imports the compiler, which takes more than a second.
    `tests/agent/test_pdqn.py` holds the two to the same last bit.
    """

    def __init__(self, weights: Sequence[Tensor], rate: float) -> None:
        self.weights, self.rate = list(weights), rate
        self.means = [torch.zeros_like(weight) for weight in self.weights]
        self.squares = [torch.zeros_like(weight) for weight in self.weights]
        self.steps = [torch.zeros((), dtype=torch.float32) for _ in self.weights]

    def descend(self, loss: Tensor) -> None:
        """One step down the gradient of the loss."""
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            adam(
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
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks are quickest on one thread, and only then the same everywhere; the setting is given back.

    The setting is one for the whole process: of several Python threads that want it, the last one gives it back.
    """
    with CHANGING:
        if not ONE_THREAD.users:
            ONE_THREAD.before = torch.get_num_threads()
        ONE_THREAD.users.append(threading.get_ident())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with CHANGING:
            ONE_THREAD.leave(threading.get_ident())


@dataclass
class Turns:
    """The Python threads that want torch to use one thread just now."""

    users: list[int]
    before: int = 1

    def leave(self, *threads: int) -> None:
        for thread in threads:
            self.users.remove(thread)
        if threads and not self.users:
            torch.set_num_threads(self.before)


ONE_THREAD = Turns([])
# A forked child has the thread that forked, and none of the others.
CHANGING = fork_safe_lock(lambda: ONE_THREAD.leave(*(u for u in ONE_THREAD.users if u != threading.get_ident())))
