"""Demonstrations: the steps that lead to what a search found, and actions that reach given values."""

from dataclasses import replace

import numpy as np
import pytest
from reference.tiny import QUICK, mixed_probabilities, mixed_rows, mixed_space

from relax_plugin import BlackBox, Goal
from relax_plugin.agent.demonstrations import Demonstrations, solved_starts
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import PrioritizedReplay
from relax_plugin.agent.starts import draw_starts
from relax_plugin.search.actions import LEAST_MAGNITUDE, ActionTable
from relax_plugin.search.engine import Engine
from relax_plugin.search.moves import Moves
from relax_plugin.search.proposers import GreedyChanges
from relax_plugin.search.state import Observer

CONFIG = replace(QUICK, steps_of_return=1, discount=0.9)


class Case:
    """Starts of mixed features that greedy changes solve, and what they are shown to."""

    def __init__(self, actions):
        rows = mixed_rows()
        self.space = mixed_space(rows)
        self.blackbox, values = BlackBox(mixed_probabilities, self.space), self.space.values(rows)
        self.blackbox.learn(values)
        self.config = replace(CONFIG, actions=actions)
        self.starts = draw_starts(values, self.blackbox, Goal.flip(), 3, self.config, np.random.default_rng(0))
        search = Engine([GreedyChanges(Moves.quantiles(values, self.space))]).search
        self.solved, self.ends = solved_starts(self.starts.take(np.arange(60)), self.blackbox, search)
        self.observer = Observer(self.space, ActionTable(self.space, actions), 3, 1.0)
        parts = (self.starts, self.solved, self.ends, self.observer, self.blackbox, self.config)
        self.demonstrations = Demonstrations(*parts)
        self.inputs = self.observer.width(self.blackbox)
        self.replay = PrioritizedReplay(1, 4000, self.inputs, len(self.observer.actions), self.config)


@pytest.fixture(scope="module", params=["directional", "signed"])
def case(request):
    return Case(request.param)


def test_what_is_solved_meets_its_goal_and_keeps_its_constraints(case):
    assert 20 < len(case.ends) <= 60
    assert case.solved.goal.met(case.blackbox.ask(case.ends)).all()
    assert case.solved.limits.kept(case.ends, case.solved.start).all()


def test_the_actions_that_reach_a_value_lead_there(case):
    row, feature = np.nonzero(case.ends != case.solved.start)
    part, value = case.solved.take(row), case.ends[row, feature]
    action, magnitude = case.observer.actions.reaching(part.start, part.span, part.limits, feature, value)
    known = action >= 0
    assert known.mean() > 0.9
    numbers = case.space.is_categorical[feature] == 0  # shorter or longer changes than these no action makes
    least = LEAST_MAGNITUDE if case.observer.actions.style == "directional" else 0.0
    reached = known & (~numbers | ((np.abs(magnitude) >= least) & (np.abs(magnitude) <= 1.0)))
    assert reached.mean() > 0.8
    landed = case.observer.actions.landing(part.start, part.span, part.limits, np.arange(len(row)), action, magnitude)
    np.testing.assert_allclose(landed[reached], value[reached], atol=1e-9)
    assert case.observer.allowed(part)[np.arange(len(row)), action][known].all()


def test_a_demonstration_ends_at_the_goal_after_its_largest_changes(case):
    case.demonstrations.show(case.replay)
    stored = len(case.replay)
    changes = (case.ends != case.solved.start).sum(axis=1)
    assert 0.8 * changes.sum() < stored <= changes.sum()
    done = case.replay.stored["discounts"][0, :stored] == 0
    returns = case.replay.stored["returns"][0, :stored]
    assert (returns[done] > 0).all() and (returns[~done] <= 0).all()  # the goal pays 1, the way costs a little
    assert (case.replay.stored["demonstrated"][0, :stored] == 1).all()


@pytest.mark.slow
def test_what_the_agent_finds_itself_becomes_a_demonstration(case):
    before, rng = len(case.replay), np.random.default_rng(0)
    agent = Agent(case.inputs, case.observer, case.config, seed=0)
    case.demonstrations.improve(agent, case.replay, rng)
    assert len(case.replay) > before
    assert case.replay.stored["demonstrated"].sum() == len(case.replay)
