"""Algorithm 1 of the paper on one screen, and the History it leaves."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from relax_plugin.agent import Agent
from relax_plugin.blackbox import BlackBox
from relax_plugin.config import AGENT_STEPS, ReLAXConfig
from relax_plugin.environment import CounterfactualEnv, Episodes, Observer
from relax_plugin.errors import InputError
from relax_plugin.problem import Booleans, Floats
from relax_plugin.replay import PrioritizedReplay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

SPARSITY_WEIGHT = 0.02  # of the validation score: validity first, then fewer changes, then shorter ones
PROXIMITY_WEIGHT = 0.005

ROW_OF_HISTORY = frozenset(
    {"step", "seconds", "rows", "exploration", "reward", "return", "td_error", "top_tenth"}
    | {"validity", "sparsity", "proximity", "objective"}
)


def train(
    env: CounterfactualEnv,
    agent: Agent,
    config: ReLAXConfig,
    rng: np.random.Generator,
    validate: Callable[[], dict[str, float]] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = False,
) -> "History":
    """Train the agent; the best weights on the validation rows are the ones it is left with.

    `watch` is shown the environment's info after every step. Ctrl-C ends the training and keeps the best so far.
    """
    history, best, returns, started = History(), Best(agent), Returns(env.num_envs), time.perf_counter()
    replay = PrioritizedReplay(agent.members, env.num_envs, config.replay // env.num_envs, agent.inputs, agent.actions)
    steps = config.steps or AGENT_STEPS
    states, info = env.reset(seed=int(rng.integers(2**31)))
    bar = tqdm(total=steps, unit="step", desc="training", disable=None if progress else True)
    try:
        for step in range(1, steps + 1):
            elapsed = step / steps
            exploration = config.exploration_start + elapsed * (config.exploration_end - config.exploration_start)
            taken, magnitude = agent.act(states, info["allowed"], exploration, rng)  # a_t = (k_t, v_k)
            next_states, reward, met, over, next_info = env.step((taken, magnitude))  # r_t, s_{t+1} ← T(s_t, a_t)
            returns.add(reward, met | over)
            reward = reward + config.shaping * next_info["shaping"]
            reward = reward + agent.state_bonus(next_info.get("final_obs", next_states))  # r'_t = r^{i,s}_t + r_t
            replay.add(states, info["allowed"], taken, magnitude, reward, met | over)
            if watch is not None:
                watch(next_info)
            states, info = next_states, next_info
            if step > 1:
                for batch in replay.sample(config, rng):  # B ~ M, one batch an update
                    td_errors = agent.learn(batch)  # θ and η by one Adam step on L'_Q + L'_π
                    replay.update(batch.positions, td_errors, config.priority_exponent)
            agent.set_learning_rate(config.learning_rate * (1.0 - 0.9 * elapsed))
            bar.update()
            spent = time.perf_counter() - started
            out_of_time = config.seconds is not None and spent > config.seconds
            if validate is not None and (step % config.validate_every == 0 or step == steps or out_of_time):
                row = validate()
                progress_row = {
                    "step": step,
                    "seconds": spent,
                    "rows": env.blackbox.rows_asked,
                    "exploration": exploration,
                    "reward": float(np.mean(reward)),
                    "return": returns.mean(),
                    "td_error": float(np.abs(td_errors).mean()) if step > 1 else np.nan,
                    "top_tenth": replay.share_of_the_highest(0.1),
                }
                history.rows.append(progress_row | row)
                bar.set_postfix(validity=f"{row['validity']:.3f}")
                if best.offer(row) > config.patience:
                    history.stopped = "no improvement on the validation rows"
                    break
            if out_of_time:
                history.stopped = "out of time"
                break
    except KeyboardInterrupt:
        history.stopped = "interrupted"
        logger.warning("training interrupted at step %d; the best agent so far is kept", step)
    finally:
        bar.close()
    best.restore()
    return history


def roll_out(agent: Agent, observer: Observer, blackbox: BlackBox, episodes: Episodes) -> tuple[Episodes, Booleans]:
    """The greedy policy from the given episodes to their ends: at most `max_changes` calls of the model."""
    met = np.zeros(len(episodes.start), dtype=bool)
    final = episodes.rows(np.arange(len(met)))  # a copy: the caller keeps its episodes
    running = np.arange(len(met))
    while len(running):
        part = final.rows(running)
        allowed = observer.allowed(part)
        able = allowed.any(axis=1) & (part.left > 0)
        running, part, allowed = running[able], part.rows(able), allowed[able]
        if len(running) == 0:
            break
        q, parameters = agent.evaluate(observer.observe(part), allowed)
        taken = q.argmax(axis=1)
        part = observer.advance(part, taken, parameters[np.arange(len(taken)), taken], blackbox)
        reached = part.goal.met(part.answer)
        final.values[running], final.used[running], final.left[running] = part.values, part.used, part.left
        final.answer.output[running] = part.answer.output
        if final.answer.scores is not None and part.answer.scores is not None:
            final.answer.scores[running] = part.answer.scores
        met[running] = reached
        running = running[~reached]
    return final, met


def score(space: Any, final: Episodes, met: Booleans) -> dict[str, float]:
    """Validity, sparsity and proximity of a roll-out, and the one number that chooses the best weights."""
    sparsity = (final.values != final.start).sum(axis=1)
    proximity = space.distance(final.values, final.start)
    row = {
        "validity": float(met.mean()),
        "sparsity": float(sparsity[met].mean()) if met.any() else np.nan,
        "proximity": float(proximity[met].mean()) if met.any() else np.nan,
    }
    cost = SPARSITY_WEIGHT * sparsity + PROXIMITY_WEIGHT * proximity
    return {**row, "objective": float(np.where(met, 1.0 - cost, 0.0).mean())}


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
        from relax_plugin.drawing import training_page

        if not self.rows:
            raise InputError("there is nothing to plot: no validation took place in training.")
        return training_page(self.frame(), self.stopped)
