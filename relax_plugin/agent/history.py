"""What training leaves behind, its History, and who writes it: the Logbook, with returns and the best weights."""

import logging
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from tqdm import TqdmWarning

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.errors import InputError

with warnings.catch_warnings():  # in a notebook without ipywidgets, where no bar is shown
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from relax_plugin.agent.config import ReLAXConfig
    from relax_plugin.agent.environment import CounterfactualEnv
    from relax_plugin.agent.pdqn import Agent
    from relax_plugin.agent.policy import Weights
    from relax_plugin.agent.replay import PrioritizedReplay

logger = logging.getLogger(__name__)

ROW_OF_HISTORY = frozenset(
    {
        *("step", "seconds", "rows", "exploration", "reward", "return", "td_error", "top_tenth"),
        *("validity", "sparsity", "proximity", "objective"),
    }
)
PATIENCE = 2.0  # seconds that pass before the progress bar of a training is shown


@dataclass
class History:
    """What training looked like: one row a validation.

    "rows" are those asked, of the model or its surrogate, to train and to validate; "return" is the mean over the
    episodes of training that ended since the row before; "td_error" is of the last batch; "top_tenth" is the share of
    the draws that goes to the tenth of the stored transitions with the highest priorities. Validity, sparsity and
    proximity are the policy's own on the validation rows, and "objective" is the number that chooses the weights.
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
    """The books of one training, for a `with`: a bar, returns, validations, and the best weights.

    Ctrl-C inside ends the training, not the program; at the end the agent gets its best weights back.
    """

    def __init__(
        self,
        env: "CounterfactualEnv",
        agent: "Agent",
        config: "ReLAXConfig",
        validate: Callable[[], dict[str, float]] | None,
        progress: bool,
    ) -> None:
        self.env, self.agent, self.config, self.validate = env, agent, config, validate
        self.history, self.returns = History(), Returns(env.num_envs)
        self.objective, self.best = -np.inf, dict[str, Any]()
        hidden = None if progress and sys.stderr is not None else True  # None: a log gets none, a terminal does
        self.bar: Any = tqdm(
            total=config.steps, desc="training", unit="step", leave=False, delay=PATIENCE, disable=hidden,
            dynamic_ncols=True,
        )  # fmt: skip
        self.step, self.started = 0, time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> bool:
        self.bar.close()
        interrupted = kind is KeyboardInterrupt
        if interrupted:
            self.history.stopped = "interrupted"
            logger.warning("training interrupted after %d steps; the best agent so far is kept", self.step)
        if self.best and (kind is None or interrupted):
            best: Weights = self.best
            self.agent.load_weights(best)
        return interrupted

    def note(
        self, step: int, exploration: float, reward: Floats, td_errors: Floats, replay: "PrioritizedReplay"
    ) -> None:
        """Take note of a step, and validate if it is time to."""
        self.step = step
        self.bar.update()
        due = step % self.config.validate_every == 0 or step == self.config.steps
        if self.validate is not None and due:
            seconds, row = time.perf_counter() - self.started, self.validate()
            told = {
                "step": self.step,
                "seconds": seconds,
                "rows": self.env.blackbox.rows_asked,
                "exploration": exploration,
                "reward": float(np.mean(reward)),
                "return": self.returns.mean(),
                "td_error": float(np.abs(td_errors).mean()),
                "top_tenth": replay.share_of_the_highest(0.1),
            }
            self.history.rows.append(told | row)
            self.bar.set_postfix(validity=f"{row['validity']:.3f}", refresh=False)  # else it is shown too soon
            if row["objective"] > self.objective:
                self.objective, self.best = row["objective"], self.agent.copied_weights()


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
