"""The Markov decision process of the paper (§4.1), many instances side by side, as a gymnasium VectorEnv."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.blackbox import BlackBox
from relax_plugin.search.state import Episodes, Observer


class CounterfactualEnv(VectorEnv[Any, Any, Any]):
    """The paper's environment over a pool of starts; finished episodes begin anew in the same step.

    An action is a pair (discrete, magnitude): a position in the ActionTable and a number in [0, 1] (directional) or
    [-1, 1] (signed). `info["allowed"]` masks the discrete actions; one that is not allowed changes nothing and costs
    a step. The reward is exactly that of §4.1.4; what shaping would add is in `info["shaping"]`. `info["final_obs"]`
    holds the last states of finished episodes. `groups` keeps parts of the pool to parts of the instances
    (ReLAX-Local).
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 (gymnasium's own form)
    at: Integers  # positions of the starts in the pool
    episodes: Episodes
    allowed: Booleans

    def __init__(
        self, starts: Episodes, observer: Observer, blackbox: BlackBox, config: ReLAXConfig, width: int, groups: int = 1
    ) -> None:
        self.pool = starts
        self.groups = groups
        self.observer = observer
        self.blackbox = blackbox
        self.config = config
        self.num_envs = width
        observation = observer.observe(starts.take(slice(0, 1)))
        low = 0.0 if config.actions == "directional" else -1.0
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, observation.shape[1:], np.float32)
        self.single_action_space = gymnasium.spaces.Tuple(
            (gymnasium.spaces.Discrete(len(observer.actions)), gymnasium.spaces.Box(low, 1.0, (), np.float64))
        )
        self.observation_space = batch_space(self.single_observation_space, width)
        self.action_space = batch_space(self.single_action_space, width)
        self._begin(np.zeros(width, dtype=np.int64))

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin new episodes at random starts, or at those of `options["starts"]` (positions in the pool)."""
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        chosen = (options or {}).get("starts")
        self._begin(self._draw(np.arange(self.num_envs)) if chosen is None else np.asarray(chosen))
        return self.observer.observe(self.episodes), {"allowed": self.allowed.copy()}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One change in every episode, one call of the model for all of them."""
        taken, magnitude = np.asarray(actions[0]), np.asarray(actions[1], dtype=np.float64)
        before = self.episodes
        after = self.observer.change(before, taken, magnitude)
        barred = ~self.allowed[np.arange(len(taken)), taken]
        after.values[barred], after.used[barred] = before.values[barred], before.used[barred]
        answer = self.blackbox.ask(after.values, mark_refused=True)
        after = replace(after, answer=answer.where_refused(before.answer))
        met = after.goal.met(after.answer)
        reward = reward_of(self.observer, self.config, before, after)
        closed = before.goal.gap(before.answer) - after.goal.gap(after.answer)
        allowed = self.observer.allowed(after)
        over = ~met & ((after.left <= 0) | ~allowed.any(axis=1))
        observation = self.observer.observe(after)
        info: dict[str, Any] = {
            "shaping": np.clip(closed / self.observer.gap_scale, -1.0, 1.0),
            "met": met,
            "values": after.values,
            "start": after.start,
        }
        done = met | over
        if done.any():
            info["final_obs"], info["_final_obs"] = observation.copy(), done
            self.at[done] = self._draw(np.flatnonzero(done))
            after = self._with_fresh(after, done)
            observation, allowed = self.observer.observe(after), self.observer.allowed(after)
        self.episodes, self.allowed, info["allowed"] = after, allowed, allowed.copy()
        return observation, reward, met, over, info

    def _begin(self, at: Integers) -> None:
        """Episodes at these positions of the pool."""
        self.at = at.copy()
        self.episodes = self.pool.take(self.at)
        self.allowed = self.observer.allowed(self.episodes)

    def _with_fresh(self, episodes: Episodes, done: Booleans) -> Episodes:
        """The episodes, those that are done begun anew at their new positions."""
        begun = self.pool.take(self.at)
        values = np.where(done[:, None], begun.values, episodes.values)
        used = np.where(done[:, None], begun.used, episodes.used)
        left = np.where(done, begun.left, episodes.left)
        return replace(begun, values=values, used=used, left=left, answer=episodes.answer.replaced(done, begun.answer))

    def _draw(self, instances: Integers) -> Integers:
        """A start for each instance: instances and pool are cut into as many groups, and each keeps to its own."""
        share = len(self.pool.start) // self.groups
        group = instances * self.groups // self.num_envs
        return group * share + self.rng.integers(0, share, size=len(instances))


def reward_of(observer: Observer, config: ReLAXConfig, before: Episodes, after: Episodes) -> Floats:
    """ReLAX §4.1.4: -λ(d_t - d_{t-1}), and 1 more once the goal is met."""
    distance = observer.space.distance
    farther = distance(after.values, after.start) - distance(before.values, before.start)
    return np.asarray(after.goal.met(after.answer) - config.distance_weight * farther)
