"""ReLAX-Local (§4.4): an agent of its own for every target, all of them side by side."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.layers import one_thread
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.policy import Weights
from relax_plugin.agent.starts import around
from relax_plugin.agent.training import train
from relax_plugin.arrays import Booleans, Values
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import Solver
from relax_plugin.search.polish import refine
from relax_plugin.search.state import Episodes, Observer

TARGETS_SIDE_BY_SIDE = 64  # agents trained in one ensemble; bounds the memory


@dataclass(frozen=True)
class LocalSolver:
    """Global's answer to each query, or that of an agent of the query's own where it is better: worse on no row.

    Without `weights` of a pretrained Global agent there is no answer of Global's, and agents begin from scratch.
    """

    globally: Solver
    weights: Weights | None
    observer: Observer
    config: ReLAXConfig
    seed: int
    refined: bool

    def solve(self, problem: Problem) -> Proposals:
        """One counterfactual a query."""
        made = Proposals.empty(problem, 1) if self.weights is None else self.globally(problem)
        values, met = explain_locally(problem, self.observer, self.config, self.weights, self.seed)
        solved = np.flatnonzero(met)
        if self.refined:
            values[solved] = refine(problem, values[solved], solved)
        closer = problem.is_better(values[solved], made.values[solved, 0], solved)
        better = solved[~made.offered[solved, 0] | closer]
        made.values[better, 0], made.offered[better, 0] = values[better], True
        made.stage[better, 0], made.note[better] = "local", ""
        if made.scores is not None:  # those of the answers that gave way
            made.scores[better, 0] = np.nan
        return made


def explain_locally(
    problem: Problem, observer: Observer, config: ReLAXConfig, weights: Weights | None, seed: int
) -> tuple[Values, Booleans]:
    """The best valid counterfactual seen while fine-tuning one agent on each query, and whether there is one.

    `weights` are those of the pretrained Global agent; without them every agent begins from scratch.
    """
    best, met = problem.start.copy(), np.zeros(len(problem), dtype=bool)
    for index, part in problem.parts(TARGETS_SIDE_BY_SIDE):
        best[index], met[index] = _train_ensemble(part, observer, config, weights, seed + int(index[0]))
    return best, met


def _train_ensemble(
    problem: Problem, observer: Observer, config: ReLAXConfig, weights: Weights | None, seed: int
) -> tuple[Values, Booleans]:
    rng = np.random.default_rng(seed)
    starts = _starts_around(problem, config, rng)
    able = observer.allowed(starts).any(axis=1).reshape(len(problem), -1).all(axis=1)
    if not able.any():
        return problem.start, np.zeros(len(problem), dtype=bool)
    width = len(problem) * config.local_episodes
    local = replace(
        config,
        steps=config.local_steps,
        replay=width * config.local_steps,
        batch=config.local_batch,
        updates_per_step=config.local_updates,
        learning_rate=config.learning_rate if weights is None else config.local_learning_rate,
    )
    env = CounterfactualEnv(starts, observer, problem.blackbox, local, width, groups=len(problem))
    agent = Agent(observer.width(problem.blackbox), observer, local, seed, members=len(problem))
    if weights is not None:
        agent.load_weights(weights)
    best = BestSeen(problem, config.local_episodes)
    asked = problem.blackbox.rows_asked
    with one_thread():
        history = train(env, agent, local, rng, watch=best.watch)
    if history.stopped == "interrupted":  # the caller wants out of `explain`, not out of one ensemble
        raise KeyboardInterrupt
    every = np.arange(len(problem))
    problem.charge(every, (problem.blackbox.rows_asked - asked) // len(problem))  # a step asks as many for each
    return best.values, best.met


def _starts_around(problem: Problem, config: ReLAXConfig, rng: np.random.Generator) -> Episodes:
    """For each query itself and points around it (§4.4), half and half, under the query's own goal."""
    count = config.local_episodes
    owner = np.repeat(np.arange(len(problem)), count)
    limits = problem.limits.take(owner)
    points = around(problem.start, problem.space, limits, config.local_radius, count, rng)
    itself = np.tile(np.arange(count) < count // 2, len(problem))
    points[itself] = problem.start[owner[itself]]
    goal, own = problem.goal.take(owner), problem.before.take(owner)
    asked = problem.ask(points[~itself], owner[~itself])
    answer = own.replaced(~itself, asked.take(np.maximum(np.cumsum(~itself) - 1, 0)))
    over = goal.met(answer)  # a neighbour that meets the goal already teaches nothing: the query takes its place
    points[over] = problem.start[owner[over]]
    return Episodes.begin(points, answer.replaced(over, own), goal, limits, problem.max_changes)


class BestSeen:
    """Keeps, for each query, the best valid counterfactual met during training, by the objective."""

    def __init__(self, problem: Problem, episodes: int) -> None:
        self.problem = problem
        self.owner = np.repeat(np.arange(len(problem)), episodes)
        self.values, self.met = problem.start.copy(), np.zeros(len(problem), dtype=bool)

    def watch(self, info: dict[str, Any]) -> None:
        start = self.problem.start[self.owner]
        own = np.flatnonzero(info["met"] & (info["start"] == start).all(axis=1))
        own = own[self.problem.admits(info["values"][own], self.owner[own])]
        values, owner = info["values"][own], self.owner[own]
        order = np.lexsort((*self.problem.ranks(values, owner), owner))
        first = order[np.unique(owner[order], return_index=True)[1]]
        values, owner = values[first], owner[first]
        better = ~self.met[owner] | self.problem.is_better(values, self.values[owner], owner)
        self.values[owner[better]], self.met[owner[better]] = values[better], True
