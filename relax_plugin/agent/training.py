"""Algorithm 1 of the paper on one screen, told by its line numbers; `history.py` keeps the books of it.

Every printed line counts, also those that hold a comment alone (16, 18, 20, 23, 27). A deviation is one of the list in
`config.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from relax_plugin.agent.config import AGENT_STEPS, ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.history import History, Logbook
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import PrioritizedReplay
from relax_plugin.search.beam import Ranker

GUIDED = 0.3  # share of the actions that the guide of a training takes, where there is one


def train(
    env: CounterfactualEnv,
    agent: Agent,  # lines 1 to 4: its networks Q and v_k and its RND modules are initialised when it is made
    config: ReLAXConfig,
    rng: np.random.Generator,
    validate: Callable[[], dict[str, float]] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = False,
    guide: Ranker | None = None,
) -> History:
    """Train the agent; the best weights on the validation rows are the ones it is left with.

    `watch` is shown the environment's info after every step. Some steps are those of the `guide`. Ctrl-C ends the
    training and keeps the best so far.
    """
    steps = config.steps or AGENT_STEPS  # max_epochs, in steps of all episodes side by side (deviation 6)
    # line 5: the replay buffer M
    replay = PrioritizedReplay(agent.members, env.num_envs, config.replay // env.num_envs, agent.inputs, agent.actions)
    # lines 8 to 11: x ~ D, s_0 = (x, 0), t = 0, for every episode; D is a pool of starts (deviation 7)
    states, info = env.reset(seed=int(rng.integers(2**31)))
    td_errors = np.array([np.nan])
    with Logbook(env, agent, config, steps, validate, progress) as logbook:
        for step in range(1, steps + 1):  # lines 6, 7 and 30, 31: i = 1, ..., max_epochs
            elapsed = step / steps
            # lines 13 and 14: v_k by its network, with noise, and k by ε-greedy; together a_t = (k_t, v_k)
            exploration = config.exploration_start + elapsed * (config.exploration_end - config.exploration_start)
            taken, magnitude = agent.act(states, info["allowed"], exploration, rng)
            if guide is not None:  # a part of the steps are a lookahead's (deviation 11)
                led = np.flatnonzero(rng.random(len(taken)) < GUIDED)
                value, extent = guide.rank(env.episodes.take(led))
                taken[led] = value.argmax(axis=1)
                magnitude[led] = extent[np.arange(len(led)), taken[led]]
            # line 15: the curiosity r^{i,a} of the action is computed where it is used, in L'_π (line 26)
            # line 17: r_t, s_{t+1} <- T(s_t, a_t)
            # lines 12 and 29: an episode that met its goal or made its last change t = T, which is `max_changes`
            # (deviation 5), begins anew in the same step, by lines 8 to 11
            next_states, reward, met, over, next_info = env.step((taken, magnitude))
            logbook.returns.add(reward, met | over)
            # line 19: r'_t = r_t + r^{i,s}_t, of the state that was reached, as §4.3 says, where the line prints s_t;
            # curiosity is weighted (deviation 3), and shaping is added (deviation 2)
            reward = reward + config.shaping * next_info["shaping"]
            reward = reward + agent.state_bonus(next_info.get("final_obs", next_states))
            # lines 21 and 22: into M, with the highest p_t so far until its TD error is known
            replay.add(states, info["allowed"], taken, magnitude, reward, met | over)
            if watch is not None:
                watch(next_info)
            states, info = next_states, next_info  # line 28: t <- t + 1
            if step > 1:  # a transition is whole once its successor is stored
                for batch in replay.sample(config, rng):  # line 24: B ~ M, for several updates (deviation 6)
                    td_errors = agent.learn(batch)  # lines 25 and 26: θ and η, one step of Adam on L'_Q + L'_π
                    replay.update(batch.positions, td_errors, config.priority_exponent)  # line 21: p_t of what it saw
            agent.optimizer.rate = config.learning_rate * (1.0 - 0.9 * elapsed)  # γ_1 to γ_4, falling (deviation 10)
            if logbook.closes(step, exploration, reward, td_errors, replay):
                break
    return logbook.history  # line 32: θ_1 and θ_2 are the agent's own
