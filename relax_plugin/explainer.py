"""ReLAX: the explainer of the paper in its two variants, Global and Local (§4.4)."""

from typing import Any, Literal

import numpy as np

from relax_plugin.actions import ActionTable
from relax_plugin.agent import Agent
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.config import ReLAXConfig
from relax_plugin.environment import CounterfactualEnv, Episodes, Observer
from relax_plugin.features import FeatureSpace, Values
from relax_plugin.goal import Goal
from relax_plugin.problem import Floats, Problem, Proposals
from relax_plugin.refine import refine
from relax_plugin.search import Budget, guided_search
from relax_plugin.slots import fill_slots
from relax_plugin.starts import draw_starts, random_goals
from relax_plugin.stepwise import Moves, greedy_search
from relax_plugin.training import History, one_thread, roll_out, score, train


class ReLAX(CounterfactualExplainer):
    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        *,
        variant: Literal["global", "local"] = "global",
        effort: Literal["search", "refined", "policy"] = "search",
        goal: Goal | None = None,
        max_changes: int | None = 5,
        rows_per_instance: int = 40,
        seed: int = 0,
        config: ReLAXConfig | None = None,
        progress: bool = True,
    ) -> None:
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.variant = variant
        self.effort = effort
        self.rows_per_instance = rows_per_instance
        self.config = config
        self.progress = progress

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        config = self.config or ReLAXConfig()
        changes = min(self.max_changes or len(self.space_), len(self.space_))
        order = rng.permutation(len(values))
        held_out = min(config.validation_rows, len(values) // 5)
        validation, training = values[order[:held_out]], values[order[held_out:]]
        starts = draw_starts(training, self.blackbox_, self.goal_, changes, config, rng)
        gap = starts.goal.gap(starts.answer)
        scale = float(max(np.quantile(np.abs(gap), 0.75), 1e-6))
        self.moves_ = Moves.quantiles(training, self.space_, 3)
        self.actions_ = ActionTable(self.space_, config.actions)
        self.observer_ = Observer(self.space_, self.actions_, changes, scale)
        starts = starts.rows(self.observer_.allowed(starts).any(axis=1))
        env = CounterfactualEnv(starts, self.observer_, self.blackbox_, config, config.episodes)
        inputs = int(np.prod(env.single_observation_space.shape))
        self.agent_ = Agent(inputs, len(self.actions_), config, self.blackbox_.has_scores, self.seed)
        checks = self._validation_episodes(validation, changes, rng)

        def validate() -> dict[str, float]:
            return score(self.space_, *roll_out(self.agent_, self.observer_, self.blackbox_, checks))

        with one_thread():
            self.history_: History = train(env, self.agent_, config, rng, validate, progress=self.progress)

    def _validation_episodes(self, values: Values, changes: int, rng: np.random.Generator) -> Episodes:
        answer = self.blackbox_.ask(values)
        goals = random_goals(self.goal_, self.blackbox_, answer, rng)
        open_ = np.flatnonzero(~goals.met(answer))
        return Episodes.begin(values[open_], answer.rows(open_), goals.rows(open_), self.space_.limits(), changes)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        with one_thread():
            return fill_slots(problem, n, self._solve, rng)

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Proposals:
        proposals = Proposals.empty(problem, 1)
        if self.effort == "search":
            ranker = getattr(self, "ranker", None) or AgentRanker(self.agent_, self.observer_)
            budget = getattr(self, "budget", None) or Budget.of(self.rows_per_instance - 4)
            values, met = guided_search(problem, ranker, self.observer_, budget)
            proposals.stage[met, 0] = "search"
            open_ = np.flatnonzero(~met)
            if len(open_):
                part = problem.part(open_)
                values[open_], met[open_] = guided_search(part, ranker, self.observer_, Budget.of(4 * budget.rows))
                problem.rows[open_] += part.rows
                proposals.stage[open_[met[open_]], 0] = "wide search"
            proposals.values[:, 0], proposals.offered[:, 0] = values, met
            self._fall_back(problem, proposals)
            return proposals
        episodes = Episodes.begin(problem.start, problem.before, problem.goal, problem.limits, problem.max_changes)
        final, met = roll_out(self.agent_, self.observer_, self.blackbox_, episodes)
        problem.rows[:] += (final.used & ~episodes.used).sum(axis=1)
        values = final.values
        solved = np.flatnonzero(met)
        if self.effort != "policy":
            values[solved] = refine(problem, values[solved], solved)
        proposals.values[:, 0], proposals.offered[:, 0] = values, met
        proposals.stage[solved, 0] = "policy"
        return proposals

    def _fall_back(self, problem: Problem, proposals: Proposals) -> None:
        open_ = np.flatnonzero(~proposals.offered[:, 0])
        if len(open_) == 0 or not self.blackbox_.has_scores:
            return
        part = problem.part(open_)
        values, met, _ = greedy_search(part, self.moves_, problem.max_changes)
        solved = np.flatnonzero(met)
        values[solved] = refine(part, values[solved], solved)
        problem.rows[open_] += part.rows
        proposals.values[open_[solved], 0] = values[solved]
        proposals.offered[open_[solved], 0] = True
        proposals.stage[open_[solved], 0] = "fallback"


class AgentRanker:
    """The trained agent as a ranking of actions: Q-values, and the parameters it would take."""

    def __init__(self, agent: Agent, observer: Observer) -> None:
        self.agent, self.observer = agent, observer

    def rank(self, episodes: Episodes) -> tuple[Floats, Floats]:
        return self.agent.evaluate(self.observer.observe(episodes), self.observer.allowed(episodes))
