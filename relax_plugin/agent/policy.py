"""A policy at work: its path to the goal, what that path is worth, and the trained agent's ranking of actions."""

import numpy as np

from relax_plugin.agent.pdqn import Agent
from relax_plugin.arrays import Booleans, Floats, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.beam import Ranker
from relax_plugin.search.refine import refine
from relax_plugin.search.state import Episodes, Observer

SPARSITY_WEIGHT = 0.02  # of the validation score: validity first, then fewer changes, then shorter ones
PROXIMITY_WEIGHT = 0.005


def roll_out(ranker: Ranker, observer: Observer, blackbox: BlackBox, episodes: Episodes) -> tuple[Episodes, Booleans]:
    """The action ranked first, again and again, to the end of each episode: at most `max_changes` calls of the model.

    By the agent's ranking it is the policy of the paper, by a lookahead's it is a plan that is made anew at each step.
    """
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
        value, magnitude = ranker.rank(part)
        taken = value.argmax(axis=1)
        part = observer.advance(part, taken, magnitude[np.arange(len(taken)), taken], blackbox)
        reached = part.goal.met(part.answer)
        final.values[running], final.used[running], final.left[running] = part.values, part.used, part.left
        final.answer.output[running] = part.answer.output
        if final.answer.scores is not None and part.answer.scores is not None:
            final.answer.scores[running] = part.answer.scores
        met[running] = reached
        running = running[~reached]
    return final, met


def ends_of_paths(
    ranker: Ranker, observer: Observer, blackbox: BlackBox, episodes: Episodes, first: int
) -> list[Values]:
    """Where paths lead that begin with each of the `first` actions ranked highest: (episodes, features) for each."""
    value, magnitude = ranker.rank(episodes)
    order = np.argsort(-value, axis=1, kind="stable")[:, :first]
    rows, ends = np.arange(len(order)), []
    for taken in order.T:
        begun = observer.advance(episodes, taken, magnitude[rows, taken], blackbox)
        open_ = np.flatnonzero(~begun.goal.met(begun.answer))
        end = begun.values.copy()
        end[open_] = roll_out(ranker, observer, blackbox, begun.take(open_))[0].values
        barred = ~np.isfinite(value[rows, taken])
        end[barred] = episodes.start[barred]
        ends.append(end)
    return ends


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


def follow(problem: Problem, ranker: Ranker, observer: Observer, stage: str) -> Proposals:
    """One counterfactual a query: the end of the path, where the stage is "refined" without what can be taken back."""
    made = Proposals.empty(problem, 1)
    episodes = Episodes.begin(problem.start, problem.before, problem.goal, problem.limits, problem.max_changes)
    final, met = roll_out(ranker, observer, problem.blackbox, episodes)
    problem.charge(np.arange(len(problem)), (episodes.left - final.left) * problem.blackbox.rows_per_question)
    solved = np.flatnonzero(met)
    if stage == "refined":
        final.values[solved] = refine(problem, final.values[solved], solved)
    made.values[:, 0], made.offered[:, 0] = final.values, met
    made.stage[solved, 0] = stage
    return made


class AgentRanker:
    """The trained agent as a ranking of actions: Q-values, and the parameters it would take."""

    exact = False

    def __init__(self, agent: Agent, observer: Observer) -> None:
        self.agent, self.observer = agent, observer

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        return self.agent.evaluate(self.observer.observe(episodes), self.observer.allowed(episodes))
