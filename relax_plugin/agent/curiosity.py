"""Random network distillation (§4.3): how new a state, or an action in a state, is to the agent."""

import math

import torch
from torch import Tensor, nn

from relax_plugin.agent.layers import MemberLinear


class RandomNetworkDistillation(nn.Module):
    """A fixed random network and one trained to imitate it; what is rarely seen is imitated badly.

    The error is not divided by its running mean, as is often done: that would pay about 1 a step for ever, as much as
    the goal pays once, and the agent would learn never to finish. The networks' last layers are small, so that the
    squared norm does not grow with the number of their outputs.
    """

    def __init__(self, members: int, inputs: int, hidden: int, generator: torch.Generator, outputs: int = 16) -> None:
        super().__init__()

        def network() -> nn.Sequential:
            return nn.Sequential(
                MemberLinear(members, inputs, hidden, generator, gain=1.7),
                nn.ReLU(),
                MemberLinear(members, hidden, outputs, generator, gain=1.0 / math.sqrt(outputs)),
            )

        self.target = network().requires_grad_(False)
        self.predictor = network()

    def error(self, x: Tensor, frozen: bool = False) -> Tensor:
        """Squared norm of the error of the imitation (members, batch): the curiosity r^i of the paper.

        `frozen` lets gradients reach x only: a policy must not spoil the predictor to look new.
        """
        weights = {name: w.detach() if frozen else w for name, w in self.predictor.named_parameters()}
        predicted = torch.func.functional_call(self.predictor, weights, (x,))
        return torch.as_tensor((predicted - self.target(x)).square().sum(-1))

    def loss(self, x: Tensor) -> Tensor:
        """What trains the predictors, summed over members."""
        return self.error(x).mean(1).sum()


def action_inputs(states: Tensor, actions: Tensor, parameters: Tensor, count: int) -> Tensor:
    """States with the hybrid action appended: one-hot k, carrying v_k."""
    chosen = torch.nn.functional.one_hot(actions, count).to(states.dtype)
    return torch.cat([states, chosen, chosen * parameters.unsqueeze(-1)], dim=-1)
