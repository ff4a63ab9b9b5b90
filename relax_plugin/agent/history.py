"""What training leaves behind, its History, and who writes it: the Logbook, with returns and the best weights."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import torch

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.progress_bar import progress_bar
from relax_plugin.agent.replay import PrioritizedReplay
from relax_plugin.arrays import Booleans, Floats
from relax_plugin.errors import InputError
from relax_plugin.world_model.model import ImaginedBlackBox

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

OF_POLICY = ("validity", "sparsity", "proximity", "objective")  # what a validation tells
ROW_OF_HISTORY = frozenset(
    {"step", "seconds", "rows", "exploration", "reward", "return", "td_error", "top_tenth", *OF_POLICY}
)
POINTS = 10  # of the History at the least, if training has so many steps and ends by itself


@dataclass
class History:
    """What training looked like: one row a validation, and some in between, so that a short training is a curve too.

    "rows" are those asked of the model, or imagined, to train and to validate; "return" is the mean over the episodes
    of training that ended since the row before; "td_error" is of the last batch; "top_tenth" is the share of the draws
    that goes to the tenth of the stored transitions with the highest priorities. Validity, sparsity and proximity are
    the policy's own on the validation rows, and "objective" is the number that chooses the weights.

    Rows in between choose nothing: their "objective" is NaN, and training is the same without them. In imagination,
    where looking costs no model rows, they tell the policy's validity, sparsity and proximity too; where the model
    itself would have to be asked, or seconds are short (`ReLAXConfig.seconds`), these are NaN.
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


class Logbook:
    """The books of one training, for a `with`: a bar, returns, validations, when to stop, and the best weights.

    Ctrl-C inside ends the training, not the program; at the end the agent gets its best weights back.
    """

    def __init__(
        self,
        env: CounterfactualEnv,
        agent: Agent,
        config: ReLAXConfig,
        steps: int,
        validate: Callable[[], dict[str, float]] | None,
        progress: bool,
    ) -> None:
        self.env, self.config, self.steps, self.validate = env, config, steps, validate
        self.history, self.best, self.returns = History(), Best(agent), Returns(env.num_envs)
        self.bar = progress_bar(steps, "training", "step", shown=progress)
        self.step, self.started = 0, time.perf_counter()
        soonest = min(steps, config.validate_every * (config.patience + 2))  # the end, if nothing improves
        parts = math.ceil(POINTS * config.validate_every / soonest)  # of the way from a validation to the next
        self.spacing = max(1, config.validate_every // parts)
        self.free = isinstance(env.blackbox, ImaginedBlackBox) and config.seconds is None
        self.looked = 0  # rows imagined for the History alone
        self.early: list[dict[str, float]] = []  # rows before the first validation, without which nothing was learned

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> bool:
        self.bar.close()
        interrupted = kind is KeyboardInterrupt
        if interrupted:
            self.history.stopped = "interrupted"
            logger.warning("training interrupted after %d steps; the best agent so far is kept", self.step)
        if kind is None or interrupted:
            self.best.restore()
        return interrupted

    def closes(
        self, step: int, exploration: float, reward: Floats, td_errors: Floats, replay: PrioritizedReplay
    ) -> bool:
        """Take note of a step, validate if it is time to, and say whether training ends before its last step."""
        self.step = step
        self.bar.update()
        spent = time.perf_counter() - self.started
        out_of_time = self.config.seconds is not None and spent > self.config.seconds
        if self.validate is None:
            pass
        elif step % self.config.validate_every == 0 or step == self.steps or out_of_time:
            row = self.validate()
            self.history.rows += [*self.early, self._recorded(spent, exploration, reward, td_errors, replay) | row]
            self.early = []
            self.bar.set_postfix(validity=f"{row['validity']:.3f}", refresh=False)  # else it is shown too soon
            if self.best.offer(row) > self.config.patience:
                self.history.stopped = "no improvement on the validation rows"
                return True
        elif step % self.config.validate_every % self.spacing == 0:
            row = self._look() | {"objective": np.nan}
            rows = self.history.rows or self.early
            rows.append(self._recorded(spent, exploration, reward, td_errors, replay) | row)
        if out_of_time:
            self.history.stopped = "out of time"
        return out_of_time

    def _recorded(
        self, spent: float, exploration: float, reward: Floats, td_errors: Floats, replay: PrioritizedReplay
    ) -> dict[str, float]:
        """What the training itself tells of a step."""
        return {
            "step": self.step,
            "seconds": spent,
            "rows": self.env.blackbox.rows_asked - self.looked,
            "exploration": exploration,
            "reward": float(np.mean(reward)),
            "return": self.returns.mean(),
            "td_error": float(np.abs(td_errors).mean()),
            "top_tenth": replay.share_of_the_highest(0.1),
        }

    def _look(self) -> dict[str, float]:
        """What the policy is worth between two validations, where it costs nothing to know."""
        if self.validate is None or not self.free:
            return dict.fromkeys(OF_POLICY, np.nan)
        before = self.env.blackbox.rows_asked
        row = self.validate()
        self.looked += self.env.blackbox.rows_asked - before
        return row


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
