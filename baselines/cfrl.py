"""`cfrl`: an actor that answers every row in one step, trained by a critic (Samoilescu et al., 2021).

Written from the paper: deep deterministic policy gradients for episodes of one step. The actor sees a row, the class
that the model answers and the class wanted, and gives another row; the reward is 1 if the model answers the wanted
class to that, else 0; the critic learns the reward from a replay buffer, and the actor climbs what the critic expects,
less a loss of sparsity (L1 of the numbers, cross entropy of the categories against the query's) and of consistency.

Where this departs from the paper: tables of this size need no autoencoder, so that the actor moves the standardised
numbers and chooses the categories themselves; the consistency is then between the changes of numbers that it gives and
what the space's bounds and directions leave of them. Changes below a twentieth of a standard deviation count as none.
The paper trains for 100,000 steps; here it is 200 of 128 rows. Where the actor's own answer does not meet the goal, or
changes too much, it is tried with noise, as it was in training. The paper's random constraints as an input of the actor
are left out: those of a call hold by projection alone.
"""

import numpy as np
import torch
from torch import Tensor, nn

from relax_plugin.agent.layers import Adam, MemberLinear, PickledAsArrays, one_thread, trunk
from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports, most_changes
from relax_plugin.baselines.common import undone
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots

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
CHUNK_CELLS = 4_000_000  # numbers in the tries that are worked on at once: bounds the memory
MOST_STEPS, MOST_TRIES = 1_000_000, 100_000


@with_parameters
class CFRL(CounterfactualExplainer):
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

    max_changes: int | None = most_changes(None)
    steps: int = param(200, "Of training.", whole(1, MOST_STEPS))
    tries: int = param(
        50,
        "With noise, for each query and class wanted, where the actor's own answer is not enough.",
        whole(1, MOST_TRIES),
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.rows_ = values
        self._learn_answers()

    def _learn_answers(self) -> None:
        classes = 0 if self.blackbox_.classes is None else len(self.blackbox_.classes)
        with one_thread():
            self.agent_ = Agent(self.space_, classes, int(self.seed))
            if classes > 1:
                self._train(np.random.default_rng(int(self.seed)))

    def _train(self, rng: np.random.Generator) -> None:
        """CFRL, algorithm 1: act, ask the model for the reward, remember, and learn from what is remembered."""
        agent, space, classes = self.agent_, self.space_, self.agent_.classes
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
        seed = int(rng.integers(2**32))
        made = fill_slots(problem, n, lambda part: self._solve(part, seed))
        made.note[:] = f"none was found by the actor, nor in {self.tries} tries with noise"
        return made

    def _solve(self, problem: Problem, seed: int) -> Proposals:
        made = Proposals.empty(problem, 1)
        size = max(1, CHUNK_CELLS // ((int(self.tries) + 1) * problem.start.shape[1] * max(self.agent_.classes, 1)))
        for index, part in problem.parts(size):
            for tries, stage in ((0, "actor"), (int(self.tries), "actor, with noise")):
                left = np.flatnonzero(~made.offered[index, 0])
                if len(left):
                    rows, owner = self._valid(part.part(left), tries, np.random.default_rng(seed))
                    place = index[left[owner]]
                    made.values[place, 0], made.offered[place, 0], made.stage[place, 0] = rows, True, stage
        return made

    def _valid(self, problem: Problem, tries: int, rng: np.random.Generator) -> tuple[Floats, Integers]:
        assert problem.goal.wanted is not None
        owner, wanted = np.nonzero(problem.goal.wanted)
        label = np.maximum(problem.before.output.astype(int), 0)
        with one_thread():
            action = self.agent_.act(self.agent_.state(problem.start[owner], label[owner], wanted))
        if tries:  # the same noise for every query, which so does not depend on others
            action = np.concatenate([self.agent_.noisy(action, rng, alike=True) for _ in range(tries)])
            owner = np.tile(owner, tries)
        rows = problem.within_limits(self.agent_.decoded(problem.start[owner], action), owner)
        other = (rows != problem.start[owner]).any(axis=1)
        rows, owner = rows[other], owner[other]
        if len(rows) == 0:
            return rows, owner
        met, _ = problem.judge(rows, owner)
        rows, owner = rows[met], owner[met]
        order = np.lexsort((problem.distance(rows, owner), owner))
        rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
        rows, owner = rows[order[rank < KEPT]], owner[order[rank < KEPT]]
        rows, owner = undone(problem, rows, owner, problem.max_changes)
        order = np.lexsort((problem.distance(rows, owner), owner))
        best = order[np.unique(owner[order], return_index=True)[1]]
        return rows[best], owner[best]


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
