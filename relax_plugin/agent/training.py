"""Algorithm 1 of the paper on one screen; what it leaves behind is in `history.py`."""

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tqdm import tqdm

from relax_plugin.agent.config import AGENT_STEPS, ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.history import Best, History, Returns
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import PrioritizedReplay

logger = logging.getLogger(__name__)


def train(
    env: CounterfactualEnv,
    agent: Agent,
    config: ReLAXConfig,
    rng: np.random.Generator,
    validate: Callable[[], dict[str, float]] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = False,
) -> History:
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
