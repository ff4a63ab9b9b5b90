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
from relax_plugin.arrays import Booleans
from relax_plugin.blackbox import BlackBox
from relax_plugin.search.state import Episodes, Observer

logger = logging.getLogger(__name__)

SPARSITY_WEIGHT = 0.02  # of the validation score: validity first, then fewer changes, then shorter ones
PROXIMITY_WEIGHT = 0.005


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


def roll_out(agent: Agent, observer: Observer, blackbox: BlackBox, episodes: Episodes) -> tuple[Episodes, Booleans]:
    """The greedy policy from the given episodes to their ends: at most `max_changes` calls of the model."""
    met = np.zeros(len(episodes.start), dtype=bool)
    final = episodes.take(np.arange(len(met)))  # a copy: the caller keeps its episodes
    running = np.arange(len(met))
    while len(running):
        part = final.take(running)
        allowed = observer.allowed(part)
        able = allowed.any(axis=1) & (part.left > 0)
        running, part, allowed = running[able], part.take(able), allowed[able]
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
