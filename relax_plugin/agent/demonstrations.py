"""Demonstrations, an addition to the paper: starts that the search engine solves, and the agent's own polished paths.

Each becomes the steps that lead from its start to its end, the largest change first, on which the model is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.environment import reward_of
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.policy import AgentRanker, roll_out
from relax_plugin.agent.replay import PrioritizedReplay, Step
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.candidates import Candidates
from relax_plugin.search.polish import touch_up
from relax_plugin.search.state import Episodes, Observer

FIRST_ACTIONS = 3  # with which the agent's paths from a start begin, the best of which teaches
POLISH_ROWS = 12  # of each of these paths


def solved_starts(
    starts: Episodes, blackbox: BlackBox, solve: Callable[[Problem], Proposals]
) -> tuple[Episodes, Values]:
    """The starts that a search solves, and where it leads them."""
    made = solve(starts.as_problem(blackbox))
    solved = np.flatnonzero(made.offered[:, 0])
    return starts.take(solved), made.values[solved, 0]


@dataclass
class Demonstrations:
    """Fills a replay with demonstrated steps.

    Parameters
    ----------
    starts : Episodes
        From which the agent's own paths begin.
    solved : Episodes
        Starts that the search solved,
    ends : array
        and where it led them.
    """

    starts: Episodes
    solved: Episodes
    ends: Values
    observer: Observer
    blackbox: BlackBox
    config: ReLAXConfig

    def show(self, replay: PrioritizedReplay) -> None:
        """Put what the search found into the replay."""
        self._add(replay, self.solved, self.ends)

    def improve(self, agent: Agent, replay: PrioritizedReplay, rng: np.random.Generator) -> None:
        """Follow the agent from some starts, polish what it finds, and put the best for each start into the replay."""
        begun = self.starts.take(rng.integers(0, len(self.starts.start), self.config.episodes))
        ranker, rows = AgentRanker(agent.policy, self.observer), np.arange(len(begun.start))
        value, magnitude = ranker.rank(begun)
        order = np.argsort(-value, axis=1, kind="stable")[:, :FIRST_ACTIONS]
        candidates = Candidates(begun.as_problem(self.blackbox))
        for taken in order.T:
            able = np.flatnonzero(np.isfinite(value[rows, taken]))
            first = self.observer.advance(begun.take(able), taken[able], magnitude[able, taken[able]], self.blackbox)
            met = first.goal.met(first.answer)
            candidates.accept(first.values[met], able[met])
            final, reached = roll_out(ranker, self.observer, self.blackbox, first.take(~met))
            candidates.accept(final.values[reached], able[~met][reached])
        touch_up(candidates, rows=POLISH_ROWS)
        best = candidates.top(1)
        if best is not None:
            self._add(replay, begun.take(best.owner), best.values)

    def _add(self, replay: PrioritizedReplay, starts: Episodes, ends: Values) -> None:
        steps, lanes = self._steps(starts, ends)
        for at, alive in enumerate(lanes):
            window = steps[at : at + self.config.steps_of_return]
            replay.add(window, demonstrated=True, chosen=alive)

    def _steps(self, starts: Episodes, ends: Values) -> tuple[list[Step], list[Integers]]:
        """The steps that lead there from all starts side by side, and which of the starts are on their way at each.

        Left out are starts with a change that no action makes, or whose way does not meet the goal after all.
        """
        observer, space = self.observer, self.observer.space
        moved = np.where(ends != starts.start, np.maximum(space.distances(ends, starts.start), 1e-12), 0.0)
        order, count = np.argsort(-moved, axis=1, kind="stable"), (moved > 0).sum(axis=1)
        now, rows, met = starts, np.arange(len(ends)), np.zeros(len(ends), dtype=bool)
        able, steps, alive = np.ones(len(ends), dtype=bool), [], []
        for turn in range(int(count.max(initial=0))):
            feature = order[:, turn]
            running = ~met & (turn < count)
            action, magnitude = observer.actions.reaching(
                starts.start, starts.span, starts.limits, feature, ends[rows, feature]
            )
            allowed = observer.allowed(now)
            able &= ~running | ((action >= 0) & allowed[rows, np.maximum(action, 0)])
            action = np.where(running & able, action, 0)
            after = observer.advance(now, action, magnitude, self.blackbox)
            reached = after.goal.met(after.answer)
            step = self._step(now, allowed, action, magnitude, after, reached | (turn + 1 >= count))
            steps.append(step)
            alive.append(running)
            now, met = after, met | (running & reached)
        return steps, [np.flatnonzero(running & able & met) for running in alive]

    def _step(
        self, now: Episodes, allowed: Booleans, action: Integers, magnitude: Floats, after: Episodes, done: Booleans
    ) -> Step:
        reward = reward_of(self.observer, self.config, now, after)
        seen, then = self.observer.observe(now), self.observer.observe(after)
        return Step(seen, allowed, action, magnitude, reward, done, then, self.observer.allowed(after))
