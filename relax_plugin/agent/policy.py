"""The trained policy at work: its own path to the goal, what that path is worth, and its ranking for a search."""

import numpy as np

from relax_plugin.agent.pdqn import Agent
from relax_plugin.arrays import Booleans, Floats
from relax_plugin.blackbox import BlackBox
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.refine import refine
from relax_plugin.search.state import Episodes, Observer

SPARSITY_WEIGHT = 0.02  # of the validation score: validity first, then fewer changes, then shorter ones
PROXIMITY_WEIGHT = 0.005


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


def score(space: FeatureSpace, final: Episodes, met: Booleans) -> dict[str, float]:
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


def follow_policy(problem: Problem, agent: Agent, observer: Observer, refined: bool) -> Proposals:
    """One counterfactual a query: the end of the agent's own path, `refined` by what can be taken back of it."""
    made = Proposals.empty(problem, 1)
    episodes = Episodes.begin(problem.start, problem.before, problem.goal, problem.limits, problem.max_changes)
    final, met = roll_out(agent, observer, problem.blackbox, episodes)
    problem.charge(np.arange(len(problem)), (episodes.left - final.left) * problem.blackbox.rows_per_question)
    solved = np.flatnonzero(met)
    if refined:
        final.values[solved] = refine(problem, final.values[solved], solved)
    made.values[:, 0], made.offered[:, 0] = final.values, met
    made.stage[solved, 0] = "refined" if refined else "policy"
    return made


class AgentRanker:
    """The trained agent as a ranking of actions: Q-values, and the parameters it would take."""

    exact = False

    def __init__(self, agent: Agent, observer: Observer) -> None:
        self.agent, self.observer = agent, observer

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        return self.agent.evaluate(self.observer.observe(episodes), self.observer.allowed(episodes))
