"""Random network distillation (§4.3): how new a state, or an action in a state, is to the agent."""

import torch
from torch import Tensor, nn

from relax_plugin.world_model.layers import MemberLinear


class RandomNetworkDistillation(nn.Module):
    """A fixed random network and one trained to imitate it; what is rarely seen is imitated badly.

    The error is divided by its running mean, so that a coefficient means the same for every model and every moment.
    """

    def __init__(self, members: int, inputs: int, hidden: int, generator: torch.Generator, outputs: int = 16) -> None:
        super().__init__()

        def network() -> nn.Sequential:
            return nn.Sequential(
                MemberLinear(members, inputs, hidden, generator, gain=1.7),
                nn.ReLU(),
                MemberLinear(members, hidden, outputs, generator),
            )

        self.target = network().requires_grad_(False)
        self.predictor = network()
        self.scale: Tensor
        self.register_buffer("scale", torch.ones(members, 1))
        self.updates = 0

    def error(self, x: Tensor, frozen: bool = False) -> Tensor:
        """Squared error of the imitation (members, batch): the curiosity r^i of the paper.

        `frozen` lets gradients reach x only: a policy must not spoil the predictor to look new.
        """
        weights = {name: w.detach() if frozen else w for name, w in self.predictor.named_parameters()}
        predicted = torch.func.functional_call(self.predictor, weights, (x,))
        return torch.as_tensor((predicted - self.target(x)).square().mean(-1))

    def novelty(self, x: Tensor, frozen: bool = False) -> Tensor:
        """Error in units of its running mean."""
        return self.error(x, frozen) / self.scale.clamp_min(1e-8)

    def loss(self, x: Tensor) -> Tensor:
        """What trains the predictors, summed over members; also keeps each member's running mean."""
        error = self.error(x).mean(1, keepdim=True)
        self.updates += 1
        self.scale.lerp_(error.detach(), max(0.01, 1.0 / self.updates))  # at first the plain mean of what was seen
        return (error / self.scale.clamp_min(1e-8)).sum()


def action_inputs(states: Tensor, actions: Tensor, parameters: Tensor, count: int) -> Tensor:
    """States with the hybrid action appended: one-hot k, carrying v_k."""
    chosen = torch.nn.functional.one_hot(actions, count).to(states.dtype)
    return torch.cat([states, chosen, chosen * parameters.unsqueeze(-1)], dim=-1)
