"""What training leaves behind: its History, and the books it keeps of returns and of the best weights."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from relax_plugin.agent.pdqn import Agent
from relax_plugin.arrays import Booleans, Floats
from relax_plugin.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_OF_HISTORY = frozenset(
    {"step", "seconds", "rows", "exploration", "reward", "return", "td_error", "top_tenth"}
    | {"validity", "sparsity", "proximity", "objective"}
)


@dataclass
class History:
    """What training looked like: one row a validation.

    "rows" are those asked of the model, or imagined; "return" is the mean over the episodes of training that ended
    since the last validation; "td_error" is of the last batch; "top_tenth" is the share of the draws that goes to the
    tenth of the stored transitions with the highest priorities. Validity, sparsity and proximity are the policy's own
    on the validation rows, and "objective" is the number that chooses the weights.
    """

    rows: list[dict[str, float]] = field(default_factory=list)
    stopped: str = "all steps done"

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)

    def plot(self) -> "Figure":
        """The training page: return, validity, sparsity, exploration, TD error and priorities against steps."""
        from relax_plugin.pages.drawing import training_page

        if not self.rows:
            raise InputError("there is nothing to plot: no validation took place in training.")
        return training_page(self.frame(), self.stopped)


class Returns:
    """Adds up the paper's reward (§4.1.4, no shaping, no curiosity) over each episode, for the History."""

    def __init__(self, episodes: int) -> None:
        self.running = np.zeros(episodes)
        self.total, self.ended = 0.0, 0

    def add(self, reward: Floats, done: Booleans) -> None:
        self.running += reward
        self.total += float(self.running[done].sum())
        self.ended += int(done.sum())
        self.running[done] = 0.0

    def mean(self) -> float:
        """Of the episodes that ended since it was last asked; NaN if none did."""
        mean = self.total / self.ended if self.ended else np.nan
        self.total, self.ended = 0.0, 0
        return mean


class Best:
    """Remembers the weights of the best validation."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.objective = -np.inf
        self.weights: dict[str, torch.Tensor] | None = None
        self.waited = 0

    def offer(self, row: dict[str, float]) -> int:
        """Take note of a validation; returns how many have passed since the best."""
        if row["objective"] > self.objective:
            self.objective, self.weights, self.waited = row["objective"], self.agent.weights_by_name(), 0
        else:
            self.waited += 1
        return self.waited

    def restore(self) -> None:
        if self.weights is not None:
            self.agent.load_weights(self.weights)
