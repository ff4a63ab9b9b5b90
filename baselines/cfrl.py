"""`cfrl`: an actor that answers every row in one step, trained by a critic (Samoilescu et al., 2021).

Written from the paper: deep deterministic policy gradients for episodes of one step. The actor sees a row, its class
and the class wanted, and gives another row; the reward is 1 if the model gives that the class wanted. The critic learns
the reward from a replay buffer. The actor climbs the critic's estimate, less losses of sparsity and consistency.

Differences from the paper: there is no autoencoder; the actor moves standardised numbers and chooses categories.
Consistency compares its changes with what bounds and directions leave of them. Changes below a twentieth of a standard
deviation count as none. It trains for 200 steps of 128 rows, not 100,000. Where the actor's own answer misses the goal
or changes too much, it is tried with noise. Random constraints are no input: those of a call hold by projection.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from relax_plugin.agent.layers import Adam, MemberLinear, PickledAsArrays, one_thread, trunk
from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.base import Supports
from relax_plugin.baselines.common import ActorExplainer, Attempt, nearest_of_each, undone
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals

BATCH = 128  # rows asked about in each step, and rows of each update (the paper: 100 to 128)
REPLAY = 160 * BATCH  # rows that are remembered
AT_RANDOM = 0.1  # share of the steps in which actions are drawn evenly, before the actor chooses
NOISE, ANEW = 0.4, 0.1  # of numbers, standard deviations; share of the categories drawn anew
FARTHEST = 3.0  # standard deviations that a number may be moved
SPARSITY, CONSISTENCY = 0.03, 0.1  # weights of the losses beside the critic's (the paper: 0.5 each, in a latent space)
UPDATES = 2  # of both networks for each step
RATE, HIDDEN = 2e-3, 64
LEAST_CHANGE = 0.05  # standard deviations; a smaller one is none
KEPT = 5  # of the tries with noise, the nearest that meet the goal
MOST_STEPS, MOST_TRIES = 1_000_000, 100_000


@with_parameters
class CFRL(ActorExplainer):
    """One network answers all rows at once: trained by the model's labels alone, it needs no search.

    Trained when it is fitted, at 128 model rows a step. A query costs the model rows of its tries with noise, and as
    many as it takes to undo changes.
    """

    supports = Supports(
        tasks=("classification",),
        paper="Samoilescu, Van Looveren, Klaise: Model-agnostic and Scalable Counterfactual Explanations via "
        "Reinforcement Learning, 2021, https://arxiv.org/abs/2106.02597",
        tier="from the description only",
        evidence="training makes the actor's own answers valid and sparse: tests/baselines/test_cfrl.py; it has no "
        "autoencoder, and neither the paper's numbers nor its package alibi were compared",
    )

    steps: int = param(200, "Of training.", whole(1, MOST_STEPS))
    tries: int = param(
        50,
        "With noise, for each query and class wanted, where the actor's own answer is not enough.",
        whole(1, MOST_TRIES),
    )

    def _untrained(self, classes: int) -> "Agent":
        return Agent(self.space_, classes, int(self.seed))

    def _train(self, rng: np.random.Generator) -> None:
        """CFRL, algorithm 1: act, ask the model for the reward, remember, and learn from what is remembered."""
        agent, space, classes = self.actor_, self.space_, self.actor_.classes
        memory = np.zeros((REPLAY, 2 * space.encoded_width + 2 * classes + 1), dtype=np.float32)
        for step in range(int(self.steps)):
            start = self.rows_[rng.integers(len(self.rows_), size=BATCH)]
            label = self.blackbox_.ask(start, mark_refused=True).output.astype(int)
            wanted = (label + rng.integers(1, classes, size=BATCH)) % classes  # any other
            state = agent.state(start, label, wanted)
            action = agent.random(rng, BATCH) if step < AT_RANDOM * self.steps else agent.act(state)
            action = agent.noisy(action, rng)
            rows = space.limits(values=start).project(agent.decoded(start, action), start)
            answer = self.blackbox_.ask(rows, mark_refused=True)
            reward = (answer.output.astype(int) == wanted) & answer.answered
            place = step * BATCH % REPLAY
            seen = [state, agent.action(start, rows), reward[:, None]]
            memory[place : place + BATCH] = np.concatenate(seen, axis=1)
            for _ in range(UPDATES):
                some = rng.integers(min((step + 1) * BATCH, REPLAY), size=BATCH)
                agent.learn(torch.from_numpy(memory[some]))

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = self._in_turn(problem, n, rng, int(self.tries) + 1)
        made.note[:] = f"none was found by the actor, nor in {self.tries} tries with noise"
        return made

    def _attempts(self, rng: np.random.Generator) -> Iterator[tuple[str, Attempt]]:
        yield "actor", partial(self._valid, 0, rng)
        yield "actor, with noise", partial(self._valid, int(self.tries), rng)

    def _valid(self, tries: int, rng: np.random.Generator, problem: Problem) -> tuple[Floats, Integers]:
        assert problem.goal.wanted is not None
        owner, wanted = np.nonzero(problem.goal.wanted)
        label = np.maximum(problem.before.output.astype(int), 0)
        with one_thread():
            action = self.actor_.act(self.actor_.state(problem.start[owner], label[owner], wanted))
        if tries:
            action = np.concatenate([self.actor_.noisy(action, rng, alike=True) for _ in range(tries)])
            owner = np.tile(owner, tries)
        rows = problem.within_limits(self.actor_.decoded(problem.start[owner], action), owner)
        other = (rows != problem.start[owner]).any(axis=1)
        rows, owner = rows[other], owner[other]
        if len(rows) == 0:
            return rows, owner
        met, _ = problem.judge(rows, owner)
        rows, owner = rows[met], owner[met]
        order = np.lexsort((problem.distance(rows, owner), owner))
        rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
        rows, owner = rows[order[rank < KEPT]], owner[order[rank < KEPT]]
        return nearest_of_each(problem, *undone(problem, rows, owner, problem.max_changes))


class Agent(PickledAsArrays):
    """The actor and the critic. An action is a change of each number, over `FARTHEST`, and a share of each category."""

    def __init__(self, space: FeatureSpace, classes: int, seed: int) -> None:
        self.made_of = (space, classes, seed)
        self.space, self.classes = space, classes
        self.numbers = int((~space.is_categorical).sum())
        generator = torch.Generator().manual_seed(seed)
        width = space.encoded_width
        self.actor = nn.Sequential(
            trunk(1, width + 2 * classes, HIDDEN, generator), MemberLinear(1, HIDDEN, width, generator, gain=0.3)
        )
        self.critic = nn.Sequential(
            trunk(1, 2 * width + 2 * classes, HIDDEN, generator), MemberLinear(1, HIDDEN, 1, generator, gain=0.3)
        )
        self.to_actor = Adam(list(self.actor.parameters()), RATE)
        self.to_critic = Adam(list(self.critic.parameters()), RATE)
        limits, kind = space.limits(), ~space.is_categorical
        bounds = [(end[0] - space.mean)[kind] / space.scale[kind] for end in (limits.low, limits.high)]
        self.low, self.high = (torch.from_numpy(end).float() for end in bounds)
        able = ~limits.frozen[0]
        self.falls = torch.from_numpy((able & (limits.direction <= 0))[kind])
        self.rises = torch.from_numpy((able & (limits.direction >= 0))[kind])
        sizes = np.diff(space.category_offsets)[space.is_categorical]
        ends = self.numbers + np.cumsum(sizes)
        self.groups = [slice(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True) if size > 0]
        self.features = np.flatnonzero(space.is_categorical)[sizes > 0]

    def state(self, rows: Values, label: Integers, wanted: Integers) -> Floats:
        """What the networks see: the row, the class it has and the one it is to have."""
        each = np.arange(self.classes)
        return np.concatenate([self.space.encoded(rows), label[:, None] == each, wanted[:, None] == each], axis=1)

    def act(self, state: Floats) -> Floats:
        with torch.no_grad():
            action = self._acted(torch.from_numpy(state.astype(np.float32))).numpy()
        return np.asarray(np.round(action.astype(np.float64), 4))  # the last bits hang on the size of the batch

    def random(self, rng: np.random.Generator, count: int) -> Floats:
        """Actions drawn evenly."""
        action = rng.uniform(-1.0, 1.0, size=(count, self.space.encoded_width))
        action[:, self.numbers :] = rng.random((count, self.space.encoded_width - self.numbers))
        return action

    def noisy(self, action: Floats, rng: np.random.Generator, alike: bool = False) -> Floats:
        """The actions with noise on numbers, and some categories drawn anew; `alike`: the same noise on each."""
        count, action = 1 if alike else len(action), action.copy()
        action[:, : self.numbers] += NOISE / FARTHEST * rng.normal(size=(count, self.numbers))
        for group in self.groups:
            anew = rng.random((count, 1)) < ANEW
            action[:, group] = np.where(anew, rng.random((count, group.stop - group.start)), action[:, group])
        return action

    def decoded(self, start: Values, action: Floats) -> Values:
        """The rows that actions make of others, before any limit is looked at."""
        space, rows = self.space, start.copy()
        numbers = np.flatnonzero(~space.is_categorical)
        change = FARTHEST * np.clip(action[:, : self.numbers], -1.0, 1.0)
        origin = np.where(start == space.missing_codes, space.mean, start)[:, numbers]
        moved = origin + change * space.scale[numbers]
        rows[:, numbers] = np.where(np.abs(change) < LEAST_CHANGE, start[:, numbers], moved)
        for feature, group in zip(self.features, self.groups, strict=True):
            rows[:, feature] = action[:, group].argmax(axis=1)
        return rows

    def action(self, start: Values, rows: Values) -> Floats:
        """The action that makes these rows of others: what the critic is to judge."""
        action = self.space.encoded(rows)
        action[:, : self.numbers] -= self.space.encoded(start)[:, : self.numbers]
        action[:, : self.numbers] /= FARTHEST
        return action

    def learn(self, batch: Tensor) -> None:
        """One update of both networks."""
        width = self.space.encoded_width
        state, done, reward = batch[:, : -width - 1], batch[:, -width - 1 : -1], batch[:, -1]
        self.to_critic.descend((self._valued(state, done) - reward).square().mean())  # γ = 0: an episode is one step
        action = self._acted(state)
        loss = -self._valued(state, action).mean()
        loss = loss + SPARSITY * FARTHEST * action[:, : self.numbers].abs().sum(dim=1).mean()
        for group in self.groups:  # the query's own category is what the state has there
            own = (state[:, group] * action[:, group]).sum(dim=1).clamp(min=1e-6)
            loss = loss - SPARSITY * own.log().mean()
        change = FARTHEST * action[:, : self.numbers]
        least, most = self._reach(state[:, : self.numbers])
        taken_back = change - change.minimum(most).maximum(least)  # CFRL, L_cons: what would be taken back
        self.to_actor.descend(loss + CONSISTENCY * taken_back.square().sum(dim=1).mean())

    def _reach(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        least, most = (self.low - numbers).clamp(max=0.0), (self.high - numbers).clamp(min=0.0)
        return torch.where(self.falls, least, 0.0), torch.where(self.rises, most, 0.0)

    def _acted(self, state: Tensor) -> Tensor:
        raw = self.actor(state[None])[0]
        parts = [torch.tanh(raw[:, : self.numbers])]
        for group in self.groups:  # the query's category has a start: what is not to change need not be learned
            parts.append(torch.softmax(raw[:, group] + 2.0 * state[:, group], dim=1))
        return torch.cat(parts, dim=1)

    def _valued(self, state: Tensor, action: Tensor) -> Tensor:
        value: Tensor = self.critic(torch.cat([state, action], dim=1)[None])[0, :, 0]
        return value
