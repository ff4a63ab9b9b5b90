"""Algorithm 1 of the paper on one screen, told by its line numbers; `history.py` keeps the books of it.

Every printed line counts, also those that hold a comment alone (16, 18, 20, 23, 27). A deviation is one of the list in
`config.py`; lines that say "addition" are not in the paper, and do nothing with `demonstrations=0`.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.demonstrations import Demonstrations
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.history import History, Logbook
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import PrioritizedReplay, Step


def train(
    env: CounterfactualEnv,
    agent: Agent,  # lines 1 to 4: its networks Q and v_k and its RND modules are initialised when it is made
    config: ReLAXConfig,
    rng: np.random.Generator,
    validate: Callable[[], dict[str, float]] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = False,
    demonstrate: Callable[[], Demonstrations] | None = None,
) -> History:
    """Train the agent; the best weights on the validation rows are the ones it is left with.

    `watch` is shown the environment's info after every step. Ctrl-C ends the training and keeps the best so far.
    """
    td_errors, demonstrations = np.array([np.nan]), None
    # line 5: the replay buffer M
    replay = PrioritizedReplay(agent.members, config.replay // agent.members, agent.inputs, agent.actions, config)
    with Logbook(env, agent, config, validate, progress) as logbook:
        if demonstrate is not None:  # addition: the search's solutions, and updates on these alone
            demonstrations = demonstrate()
            demonstrations.show(replay)
            for batch in replay.sample(config.first_updates, rng) if len(replay) else ():
                replay.update(batch, agent.learn(batch))
        # lines 8 to 11: x ~ D, s_0 = (x, 0), t = 0, for every episode; D is a pool of starts (deviation 7)
        states, info = env.reset(seed=int(rng.integers(2**31)))
        window: deque[Step] = deque(maxlen=config.steps_of_return)
        for step in range(1, config.steps + 1):  # lines 6, 7 and 30, 31: i = 1, ..., max_epochs
            elapsed = step / config.steps  # in steps of all episodes side by side (deviation 6)
            # lines 13 and 14: v_k by its network, with noise, and k by ε-greedy; together a_t = (k_t, v_k)
            exploration = config.exploration_start + elapsed * (config.exploration_end - config.exploration_start)
            taken, magnitude = agent.act(states, info["allowed"], exploration, rng)
            # line 15: the curiosity r^{i,a} of the action is computed where it is used, in L'_π (line 26)
            # line 17: r_t, s_{t+1} <- T(s_t, a_t)
            # lines 12 and 29: an episode that met its goal or made its last change t = T, which is `max_changes`
            # (deviation 5), begins anew in the same step, by lines 8 to 11
            next_states, reward, met, over, next_info = env.step((taken, magnitude))
            logbook.returns.add(reward, met | over)
            # line 19: r'_t = r_t + r^{i,s}_t, of the state that was reached, as §4.3 says, where the line prints s_t;
            # curiosity is weighted (deviation 3), and shaping may be added
            reached = next_info.get("final_obs", next_states)
            reward = reward + config.shaping * next_info["shaping"] + agent.state_bonus(reached)
            # lines 21 and 22: into M, with the highest p_t so far until its TD error is known
            allowed = (info["allowed"], next_info["allowed"])
            window.append(Step(states, allowed[0], taken, magnitude, reward, met | over, reached, allowed[1]))
            if len(window) == window.maxlen:  # n steps are known: the target of the first one is whole
                replay.add(window)
            if watch is not None:
                watch(next_info)
            states, info = next_states, next_info  # line 28: t <- t + 1
            if demonstrations is not None and step % config.imitate_every == 0:  # addition: self-imitation
                demonstrations.improve(agent, replay, rng)
            for batch in replay.sample(config.updates_per_step, rng) if len(replay) else ():  # line 24: B ~ M
                td_errors = agent.learn(batch)  # lines 25 and 26: θ and η, one step of Adam on L'_Q + L'_π
                replay.update(batch, td_errors)  # line 21: p_t of what it saw
            agent.optimizer.rate = config.learning_rate * (1.0 - 0.9 * elapsed)  # γ_1 to γ_4, falling (deviation 9)
            logbook.note(step, exploration, reward, td_errors, replay)
    return logbook.history  # line 32: θ_1 and θ_2 are the agent's own
