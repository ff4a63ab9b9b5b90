"""P-DQN: how the agent acts and learns (§4.2)."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from relax_plugin import FeatureSpace, ReLAXConfig
from relax_plugin.agent.layers import Adam
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.replay import Transitions
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Observer

SPACE = FeatureSpace.infer(np.random.default_rng(0).standard_normal((9, 3)))
INPUTS, ACTIONS = 14, 6  # two actions for each of three numbers
CONFIG = ReLAXConfig(hidden=16, batch=32, learning_rate=3e-3)


def make_agent(config=CONFIG, members=1, seed=0):
    observer = Observer(SPACE, ActionTable(SPACE, config.actions), 3, 1.0)
    return Agent(INPUTS, observer, config, seed=seed, members=members)


def make_batch(members=1, batch=32, seed=0, discount=0.5, demonstrated=0.0):
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(members, batch, *shape, generator=generator)

    allowed = noise(ACTIONS) > -0.5
    allowed[..., 0] = True
    next_allowed = noise(ACTIONS) > 0.0
    return Transitions(
        states=noise(INPUTS),
        actions=torch.randint(0, ACTIONS, (members, batch), generator=generator),
        parameters=torch.rand(members, batch, generator=generator),
        returns=noise(),
        discounts=torch.where(noise() > 0.0, discount, 0.0),
        next_states=noise(INPUTS),
        next_allowed=next_allowed,
        allowed=allowed,
        demonstrated=torch.full((members, batch), demonstrated),
        weights=torch.rand(members, batch, generator=generator),
        positions=torch.zeros(members, batch, dtype=torch.int64),
    )


def member_of(batch, member):
    return Transitions(*(tensor[member : member + 1] for tensor in batch))


def flat(weights):
    return torch.cat([torch.as_tensor(weight).flatten() for weight in weights.values()])


@pytest.mark.parametrize("exploration", [0.0, 0.5, 1.0])
def test_no_disallowed_action_is_ever_taken(exploration):
    agent, rng = make_agent(), np.random.default_rng(0)
    states = rng.standard_normal((500, INPUTS)).astype(np.float32)
    allowed = rng.random((500, ACTIONS)) < 0.3
    allowed[np.arange(500), rng.integers(0, ACTIONS, 500)] = True
    taken, magnitude = agent.act(states, allowed, exploration, rng)
    assert allowed[np.arange(500), taken].all()
    assert magnitude.min() >= 0.0 and magnitude.max() <= 1.0
    q, _ = agent.policy.evaluate(states, allowed)
    np.testing.assert_array_equal(np.isfinite(q), allowed)
    best = taken == q.argmax(axis=1)
    assert best.all() if exploration == 0.0 else 0.1 < best.mean() < 0.95


def test_signed_parameters_lie_between_minus_one_and_one():
    agent, rng = make_agent(replace(CONFIG, actions="signed")), np.random.default_rng(0)
    states = rng.standard_normal((500, INPUTS)).astype(np.float32)
    _, magnitude = agent.act(states, np.ones((500, 3), bool), 1.0, rng)
    assert -1.0 <= magnitude.min() < -0.5 and 0.5 < magnitude.max() <= 1.0


def test_the_target_takes_the_masked_maximum(monkeypatch):
    """y = R + γ max over allowed k of Q'(s', k, v'(s')), read off the TD error of an untrained agent."""
    monkeypatch.setattr("relax_plugin.agent.pdqn.TARGET_RATE", 0.0)
    agent, batch = make_agent(), make_batch()
    with torch.no_grad():
        now = agent.q(batch.states, batch.parameters.unsqueeze(-1).expand(-1, -1, ACTIONS))
        later = agent.target_q(batch.next_states, agent.target_parameters(batch.next_states))
    td_error = agent.learn(batch)
    masked = 0
    for i in range(32):
        possible = [float(later[0, i, k]) for k in range(ACTIONS) if batch.next_allowed[0, i, k]]
        masked += bool(possible) and max(possible) < float(later[0, i].max())
        bootstrap = float(batch.discounts[0, i]) * max(possible) if possible else 0.0
        expected = float(batch.returns[0, i]) + bootstrap - float(now[0, i, batch.actions[0, i]])
        assert td_error[0, i] == pytest.approx(expected, abs=1e-5)
    assert masked > 5  # otherwise the mask was not put to the test


def test_q_of_an_action_depends_only_on_its_own_parameter():
    agent = make_agent()
    states = torch.randn(1, 8, INPUTS, generator=torch.Generator().manual_seed(0))
    parameters = torch.full((1, 8, ACTIONS), 0.5, requires_grad=True)
    for k in range(ACTIONS):
        (gradient,) = torch.autograd.grad(agent.q(states, parameters)[..., k].sum(), parameters)
        others = [j for j in range(ACTIONS) if j != k]
        assert gradient[..., k].abs().sum() > 0
        assert not gradient[..., others].any()


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
def test_target_networks_follow_at_their_rate(rate, monkeypatch):
    monkeypatch.setattr("relax_plugin.agent.pdqn.TARGET_RATE", rate)
    agent = make_agent()
    before = [weight.clone() for weight in (*agent.target_q.parameters(), *agent.target_parameters.parameters())]
    agent.learn(make_batch())
    online = [*agent.q.parameters(), *agent.parameters.parameters()]
    after = [*agent.target_q.parameters(), *agent.target_parameters.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(online, before, strict=True))
    for old, new, now in zip(before, after, online, strict=True):
        torch.testing.assert_close(new, old + rate * (now.detach() - old))


@pytest.mark.slow
def test_learning_reduces_the_td_error():
    agent, batch = make_agent(), make_batch(discount=0.0)
    errors = [np.abs(agent.learn(batch)).mean() for _ in range(60)]
    assert errors[1] < errors[0]
    assert errors[-1] < 0.5 * errors[0]


def test_learning_raises_the_value_of_the_parameters():
    """L_π = -Σ Q(s, k, v_k(s)): with Q held fixed, the parameter network climbs it."""
    agent, batch = make_agent(), make_batch()
    fixed = make_agent()

    def potential():
        with torch.no_grad():
            return float((fixed.q(batch.states, agent.parameters(batch.states)) * batch.allowed).sum())

    before = potential()
    for _ in range(3):
        agent.learn(batch)
    assert potential() > before


def test_the_policy_loss_does_not_touch_the_q_network():
    """With all importance weights 0 the critic has no loss, and must stay as it is."""
    agent, batch = make_agent(), make_batch()
    q, parameters = ([w.clone() for w in net.parameters()] for net in (agent.q, agent.parameters))
    agent.learn(batch._replace(weights=torch.zeros_like(batch.weights)))
    assert all(torch.equal(a, b) for a, b in zip(q, agent.q.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(parameters, agent.parameters.parameters(), strict=True))


def test_action_curiosity_moves_the_policy_and_not_the_predictor():
    """However curious the policy is, the predictor learns the same; the printed sign (-1) moves it the other way."""
    learned = {}
    for weight in (0.01, 1e4, -1e4):  # so large that Q does not matter beside it
        agent = make_agent(replace(CONFIG, action_curiosity=weight))
        before = flat(dict(agent.parameters.named_parameters())).detach()
        agent.learn(make_batch())
        moved = flat(dict(agent.parameters.named_parameters())).detach() - before
        learned[weight] = flat(dict(agent.action_novelty.predictor.named_parameters())).detach(), moved
    torch.testing.assert_close(learned[0.01][0], learned[1e4][0])
    assert not torch.allclose(learned[0.01][1], learned[1e4][1])
    assert torch.nn.functional.cosine_similarity(learned[1e4][1], learned[-1e4][1], dim=0) < -0.5


@pytest.mark.slow
@pytest.mark.parametrize("curiosity", [0.0, 0.5])
def test_members_are_independent(curiosity):
    """An ensemble of two equals two single agents with the same weights and batches."""
    config = replace(CONFIG, state_curiosity=curiosity, action_curiosity=curiosity)
    ensemble, singles = make_agent(config, members=2), [make_agent(config), make_agent(config)]
    for member, single in enumerate(singles):
        for name in ("q", "parameters", "target_q", "target_parameters", "state_novelty", "action_novelty"):
            with torch.no_grad():
                pairs = zip(getattr(single, name).parameters(), getattr(ensemble, name).parameters(), strict=True)
                for mine, theirs in pairs:
                    mine.copy_(theirs[member : member + 1])
    assert not torch.allclose(flat(singles[0].copied_weights()), flat(singles[1].copied_weights()))
    for seed in range(10):
        batch = make_batch(members=2, seed=seed)
        together = ensemble.learn(batch)
        for member, single in enumerate(singles):
            np.testing.assert_allclose(together[member], single.learn(member_of(batch, member))[0], atol=1e-5)
    for member, single in enumerate(singles):
        for name, weights in single.copied_weights().items():
            np.testing.assert_allclose(ensemble.copied_weights()[name][member : member + 1], weights, rtol=0, atol=1e-5)
        states = make_batch(members=2, seed=99).states
        bonus = ensemble.state_bonus(states.reshape(-1, INPUTS)).reshape(2, -1)[member]
        np.testing.assert_allclose(bonus, single.state_bonus(states[member]), atol=1e-4)


def test_members_act_by_their_own_weights():
    ensemble, rng = make_agent(members=3), np.random.default_rng(0)
    states = np.tile(rng.standard_normal((1, INPUTS)).astype(np.float32), (6, 1))  # two rows for each member
    q, _ = ensemble.policy.evaluate(states, np.ones((6, ACTIONS), bool))
    np.testing.assert_allclose(q[0::2], q[1::2], rtol=1e-6)
    assert len(np.unique(q[:, 0].round(6))) == 3


def test_weights_of_one_agent_are_handed_to_every_member():
    single, ensemble = make_agent(seed=1), make_agent(members=3, seed=2)
    ensemble.load_weights(single.copied_weights())
    for name, weights in ensemble.copied_weights().items():
        np.testing.assert_array_equal(weights, np.repeat(single.copied_weights()[name], 3, axis=0))
    batch = make_batch(members=3)
    ensemble.learn(batch)  # and from then on they are apart
    weights = ensemble.copied_weights()["q.coder.weight"]
    assert not np.array_equal(weights[0], weights[1])


def test_loaded_weights_reach_the_target_networks_too():
    one, other = make_agent(seed=1), make_agent(seed=2)
    other.load_weights(one.copied_weights())
    batch = make_batch()
    torch.testing.assert_close(
        other.target_q(batch.states, other.target_parameters(batch.states)),
        one.q(batch.states, one.parameters(batch.states)),
    )


def test_weights_taken_out_do_not_change_with_the_agent():
    agent = make_agent()
    kept = agent.copied_weights()
    before = flat(kept).clone()
    agent.learn(make_batch())
    assert torch.equal(flat(kept), before)
    assert not torch.equal(flat(agent.copied_weights()), before)


def test_the_same_seed_gives_the_same_agent():
    assert torch.equal(flat(make_agent(seed=3).copied_weights()), flat(make_agent(seed=3).copied_weights()))
    assert not torch.equal(flat(make_agent(seed=3).copied_weights()), flat(make_agent(seed=4).copied_weights()))


@pytest.mark.parametrize("actions", ["directional", "signed"])
@pytest.mark.parametrize("members", [1, 3])
def test_the_policy_in_numpy_says_what_the_networks_say(actions, members):
    agent = make_agent(replace(CONFIG, actions=actions), members)
    batch = make_batch(members)
    states, count = batch.states.abs(), len(agent.policy.sign)
    with torch.no_grad():
        parameters = agent.parameters(states)
        expected = agent.q(states, parameters).reshape(-1, count)
    allowed = np.ones(expected.shape, dtype=bool)
    q, told = agent.policy.evaluate(states.reshape(-1, INPUTS).numpy(), allowed)
    np.testing.assert_allclose(q, expected, atol=1e-5)
    np.testing.assert_allclose(told, parameters.reshape(-1, count), atol=1e-5)
    assert np.ptp(told) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["directional", "signed"])
def test_demonstrated_actions_are_imitated(actions):
    """After a while the demonstrated action has the highest Q-value, and goes about as far."""
    agent, batch = make_agent(replace(CONFIG, actions=actions)), make_batch(demonstrated=1.0)
    count = len(agent.policy.sign)
    batch = batch._replace(
        states=batch.states.abs() + 0.1,
        actions=batch.actions % count,
        allowed=torch.ones(1, 32, count, dtype=torch.bool),
        next_allowed=batch.next_allowed[..., :count],
    )
    allowed, flat_states = np.ones((32, count), dtype=bool), batch.states[0].numpy()

    def imitated():
        q, parameters = agent.policy.evaluate(flat_states, allowed)
        actions = batch.actions[0].numpy()
        off = np.abs(parameters[np.arange(32), actions] - batch.parameters[0].numpy())
        return (q.argmax(axis=1) == actions).mean(), off.mean()

    before = imitated()
    for _ in range(300):
        agent.learn(batch)
    after = imitated()
    assert after[0] > 0.9 > before[0]
    assert after[1] < 0.7 * before[1]


def test_our_adam_is_that_of_torch_to_the_last_bit():
    generator = torch.Generator().manual_seed(0)
    begin = [torch.randn(shape, generator=generator) for shape in ((3, 4), (1, 4))]
    ours, theirs = ([weight.clone().requires_grad_() for weight in begin] for _ in range(2))
    optimizer = Adam(ours, 0.1)
    torchs = torch.optim.Adam(theirs, lr=0.1, fused=True)

    def loss(weights, rows):
        return (torch.relu(rows @ weights[0] + weights[1])).square().sum()

    for step in range(20):
        rows = torch.randn(5, 3, generator=generator)
        optimizer.rate = torchs.param_groups[0]["lr"] = 0.1 / (1 + step)
        optimizer.descend(loss(ours, rows))
        torchs.zero_grad()
        loss(theirs, rows).backward()
        torchs.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert not torch.equal(ours[0], begin[0])
