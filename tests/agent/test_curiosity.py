"""Random network distillation: novelty of states and of actions (§4.3)."""

import numpy as np
import pytest
import torch

from relax_plugin import FeatureSpace, ReLAXConfig
from relax_plugin.agent.curiosity import RandomNetworkDistillation, action_inputs
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import Transitions
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Observer


def distillation(members=1, inputs=4, seed=0):
    return RandomNetworkDistillation(members, inputs, 32, torch.Generator().manual_seed(seed))


def states(n, shift=0.0, seed=0, members=1):
    return torch.randn(members, n, 4, generator=torch.Generator().manual_seed(seed)) * 0.5 + shift


def imitate(novelty, visited, steps=150):
    optimizer = torch.optim.Adam(novelty.predictor.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        novelty.loss(visited).backward()
        optimizer.step()


@pytest.mark.slow
def test_novelty_falls_with_visits_and_stays_high_where_nobody_was():
    novelty = distillation()
    visited, unseen = states(64), states(64, shift=3.0, seed=1)
    first = novelty.error(visited).mean()
    errors = []
    for _ in range(3):
        imitate(novelty, visited, 60)
        errors.append(novelty.error(visited).mean().item())
    assert first > errors[0] > errors[1] > errors[2]
    assert novelty.error(unseen).mean().item() > 10 * errors[-1]
    assert (novelty.error(unseen).median() > novelty.error(visited).max()).item()


@pytest.mark.slow
def test_the_target_network_is_never_trained():
    novelty = distillation()
    before = [weight.clone() for weight in novelty.target.parameters()]
    imitate(novelty, states(32), 20)
    assert all(torch.equal(a, b) for a, b in zip(before, novelty.target.parameters(), strict=True))
    assert all(weight.grad is None for weight in novelty.target.parameters())


@pytest.mark.slow
def test_members_are_curious_independently():
    """What one member sees does not change what is new to the other."""
    both = distillation(members=2)
    alone = distillation(members=1)
    with torch.no_grad():
        for mine, theirs in zip(alone.parameters(), both.parameters(), strict=True):
            mine.copy_(theirs[:1])
    own, far = states(32), states(32, shift=40.0)
    imitate(both, torch.cat([own, far]), 30)
    imitate(alone, own, 30)
    torch.testing.assert_close(both.error(torch.cat([own, own]))[:1], alone.error(own), rtol=1e-3, atol=1e-4)


def test_action_inputs_carry_the_chosen_action_and_its_parameter():
    state = torch.tensor([[[0.5, -1.0]]])
    seen = action_inputs(state, torch.tensor([[2]]), torch.tensor([[0.25]]), 3)
    assert seen.tolist() == [[[0.5, -1.0, 0, 0, 1, 0, 0, 0.25]]]


@pytest.mark.slow
def test_action_curiosity_reaches_only_the_parameters():
    """The policy may seek new parameters; it must not make the predictor worse to look new."""
    novelty = distillation(inputs=4 + 2 * 3)
    parameters = torch.full((1, 8), 0.5, requires_grad=True)
    inputs = action_inputs(states(8), torch.zeros(1, 8, dtype=torch.int64), parameters, 3)
    value = novelty.error(inputs, frozen=True)
    torch.testing.assert_close(value, novelty.error(inputs))
    value.sum().backward()
    assert parameters.grad is not None and parameters.grad.abs().sum() > 0
    assert all(weight.grad is None for weight in novelty.parameters())


def curious_agent(**settings):
    space = FeatureSpace.infer(np.random.default_rng(0).standard_normal((9, 3)))
    observer = Observer(space, ActionTable(space, "signed"), 3, 1.0)
    return Agent(4, observer, ReLAXConfig(hidden=16, actions="signed", **settings), seed=0)


def test_curiosity_is_off_unless_asked_for():
    agent = curious_agent()
    assert len(agent.weights) == len([*agent.q.parameters(), *agent.parameters.parameters()])
    assert (agent.state_bonus(np.ones((5, 4), dtype=np.float32)) == 0).all()


def test_the_bonus_is_the_weighted_error_as_it_is():
    """As §4.3 prints it, divided by nothing: what is well known pays almost nothing, however often it comes."""
    seen = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    agent = curious_agent(state_curiosity=0.5)
    novelty, tensor = agent.state_novelty, torch.as_tensor(seen)[None]
    with torch.no_grad():
        differences = (novelty.predictor(tensor) - novelty.target(tensor)).numpy()[0]
    first = agent.state_bonus(seen)
    np.testing.assert_allclose(first, 0.5 * (differences**2).sum(axis=1), rtol=1e-5)
    imitate(novelty, tensor)
    assert agent.state_bonus(seen).mean() < 0.05 * first.mean()


def test_the_states_that_episodes_end_in_become_familiar_too():
    """They are no state that an action is taken in, so that the printed loss alone would never see them."""
    agent = curious_agent(state_curiosity=1.0)
    first, last = states(32), states(32, shift=2.0, seed=1)
    batch = Transitions(
        states=first,
        allowed=torch.ones(1, 32, 3, dtype=torch.bool),
        actions=torch.zeros(1, 32, dtype=torch.int64),
        parameters=torch.zeros(1, 32),
        returns=torch.zeros(1, 32),
        discounts=torch.zeros(1, 32),
        next_states=last,
        next_allowed=torch.zeros(1, 32, 3, dtype=torch.bool),
        demonstrated=torch.zeros(1, 32),
        weights=torch.ones(1, 32),
        positions=torch.zeros(1, 32, dtype=torch.int64),
    )
    before = agent.state_bonus(last[0].numpy()).mean()
    for _ in range(60):
        agent.learn(batch)
    assert agent.state_bonus(last[0].numpy()).mean() < 0.5 * before
