"""`fastar`: a policy that changes one feature by one step at a time, trained by PPO (Verma, Hines and Dickerson, 2022).

Written from the paper and from what its authors' published environments say. A state is a row; an action moves one
feature a step up or down; the reward is 100 where the model answers the wanted class, which ends the episode, else the
probability of that class, less λ times the distance to the nearest training row. Proximal policy optimisation (Schulman
et al., 2017) learns the policy once, from training rows; then every query is walked to its answer without a search.

Where this departs from the paper: moves that are not allowed are left out of the choice, where the paper punishes them
with -10; what is wanted is part of the state, so that one policy serves all classes; a category moves to the next or
the one before it, where the paper moves its code by a fraction. The paper trains for some five to ten million steps, of
a fortieth of a feature's range each; here it is 40,000 of a tenth, a step of the grid at least. A feature beyond
`max_changes` is not moved. Where the policy's most probable moves do not arrive, it is followed by chance, as it was in
training, some times. Gradients are not clipped.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from relax_plugin.agent.layers import Adam, MemberLinear, PickledAsArrays, one_thread, trunk
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots

WALKERS, TURN = 64, 32  # rows walked side by side, and the steps of each between two rounds of learning
EPOCHS, PARTS = 4, 4  # of each round; FastAR's authors have the same
DISCOUNT, TRACE, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5  # γ, λ of GAE, ε, and weights of the losses
RATE, HIDDEN = 1e-3, 64
ARRIVED = 100.0  # the reward of the wanted class; all rewards are divided by it for the networks
MANIFOLD = 0.1  # λ, weight of the distance to the nearest training row (the paper tries 0, 0.1, 1, 10 and 100)
NEIGHBOURS = 500  # training rows that are looked at for it
LONGEST = 40  # steps of a walk
STRIDE = 0.1  # share of a number's range that a step moves it
CHUNK_CELLS = 4_000_000  # numbers in the rows that are walked at once: bounds the memory
MOST_STEPS, MOST_TRIES = 5_000_000, 100_000


@with_parameters
class FastAR(CounterfactualExplainer):
    """One policy walks every row to the wanted class, feature by feature and step by step.

    Trained when it is fitted, at a model row a step. A query costs a model row for each step of its walks.
    """

    supports = Supports(
        tasks=("classification",),
        paper="Verma, Hines, Dickerson: Amortized Generation of Sequential Algorithmic Recourses for Black-box Models, "
        "AAAI 2022, https://arxiv.org/abs/2106.03962",
        tier="reproduced in part",
        evidence="on the paper's three tables, with a hundredth of its training, it is as valid as published to "
        "three points of a hundred, and as sparse on Adult alone: docs/results/others.csv; training makes more walks "
        "arrive in fewer steps: tests/baselines/test_fastar.py",
    )

    steps: int = param(40_000, "Of training, all walkers together.", whole(1, MOST_STEPS))
    tries: int = param(
        10,
        "Walks by chance, where the one of the most probable moves does not arrive.",
        whole(1, MOST_TRIES),
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.rows_ = values
        self._learn_answers()

    def _learn_answers(self) -> None:
        classes = 0 if self.blackbox_.classes is None else len(self.blackbox_.classes)
        with one_thread():
            self.policy_ = Policy(self.space_, classes, int(self.seed))
            if classes > 1:
                self._train(np.random.default_rng(int(self.seed)))

    def _train(self, rng: np.random.Generator) -> None:
        walkers = Walkers(self, rng)
        rounds = -(-int(self.steps) // (WALKERS * TURN))
        for number in range(rounds):
            self.policy_.adam.rate = RATE * (1.0 - number / rounds)
            self.policy_.learn(walkers.turn(), rng)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        seed = int(rng.integers(2**32))
        made = fill_slots(problem, n, lambda part: self._solve(part, seed))
        made.note[:] = f"none was found by the policy's walk, nor by {self.tries} walks by chance"
        return made

    def _solve(self, problem: Problem, seed: int) -> Proposals:
        made = Proposals.empty(problem, 1)
        size = max(1, CHUNK_CELLS // (4 * problem.start.shape[1] * max(self.policy_.classes, 1)))
        for index, part in problem.parts(size):
            rng = np.random.default_rng(seed)
            for number in range(int(self.tries) + 1):
                left = np.flatnonzero(~made.offered[index, 0])
                if len(left):
                    noise = rng.gumbel(size=(LONGEST, self.policy_.actions)) if number else None
                    rows, owner = self._walk(part.part(left), noise)
                    place = index[left[owner]]
                    made.values[place, 0], made.offered[place, 0] = rows, True
                    made.stage[place, 0] = "policy" if number == 0 else "policy, by chance"
        return made

    def _walk(self, problem: Problem, noise: Floats | None) -> tuple[Floats, Integers]:
        """The rows at which walks arrive, the nearest of each query, and whose they are.

        The noise is the same for every query, which so does not depend on others.
        """
        assert problem.goal.wanted is not None
        owner, wanted = np.nonzero(problem.goal.wanted)
        start = problem.start[owner]
        ways = Ways(problem.space, problem.limits.take(owner), start, problem.max_changes)
        rows, found, arrived = start.copy(), start.copy(), np.zeros(len(owner), dtype=bool)
        walking = np.arange(len(owner))
        for step in range(LONGEST):
            open_ = ways.open_to(rows[walking], walking)
            able = open_.any(axis=1)
            walking, open_ = walking[able], open_[able]
            if len(walking) == 0:
                break
            with one_thread():
                chances = self.policy_.chances(rows[walking], wanted[walking], open_)
            action = (chances if noise is None else chances + noise[step]).argmax(axis=1)
            rows[walking] = ways.moved(rows[walking], action, walking)
            asked = problem.within_limits(rows[walking], owner[walking])
            met, _ = problem.judge(asked, owner[walking])
            few = (asked != start[walking]).sum(axis=1) <= problem.max_changes
            here = walking[met & few]
            found[here], arrived[here] = asked[met & few], True
            walking = walking[~(met & few)]
        found, owner = found[arrived], owner[arrived]
        order = np.lexsort((problem.distance(found, owner), owner))
        best = order[np.unique(owner[order], return_index=True)[1]]
        return found[best], owner[best]


class Ways:
    """Where rows may go: action 2j moves feature j a step up, 2j + 1 a step down."""

    def __init__(self, space: FeatureSpace, limits: Limits, start: Values, max_changes: int) -> None:
        self.space, self.limits, self.start, self.max_changes = space, limits, start, max_changes
        self.low, self.high = limits.span(start)
        bounds = space.limits()
        reach = np.nan_to_num(bounds.high[0] - bounds.low[0], nan=0.0, posinf=0.0)
        stride = np.maximum(np.where(reach > 0, STRIDE * reach, space.scale), space.grid.step)
        self.stride = np.where(space.is_categorical, 1.0, stride)

    def open_to(self, rows: Values, walkers: Integers) -> Booleans:
        """Which actions walkers may take that are at these rows by now (n, actions)."""
        here, changed = self._known(rows), rows != self.start[walkers]
        free = changed | (changed.sum(axis=1, keepdims=True) < self.max_changes)
        ways = np.stack([here < self.high[walkers], here > self.low[walkers]], axis=2) & free[:, :, None]
        return np.asarray(ways.reshape(len(rows), 2 * rows.shape[1]))

    def moved(self, rows: Values, action: Integers, walkers: Integers) -> Values:
        """The rows after an action each, within the limits."""
        each, feature = np.arange(len(rows)), action // 2
        step = np.where(action % 2 == 0, 1.0, -1.0) * self.stride[feature]
        moved = rows.copy()
        moved[each, feature] = self._known(rows)[each, feature] + step
        return self.limits.take(walkers).project(moved, self.start[walkers])

    def _known(self, rows: Values) -> Values:
        return np.where(rows == self.space.missing_codes, self.space.mean, rows)


class Batch(NamedTuple):
    """Steps to learn from: arrays (TURN, WALKERS, ...)."""

    state: Floats
    open: Booleans
    action: Integers
    chance: Floats  # the logarithm of the action's probability when it was taken
    advantage: Floats
    worth: Floats  # the return that was seen


class Walkers:
    """Rows on their way, side by side: one that has arrived, or has walked too long, begins anew at another row."""

    def __init__(self, explainer: FastAR, rng: np.random.Generator) -> None:
        self.blackbox, self.policy, self.rows, self.rng = explainer.blackbox_, explainer.policy_, explainer.rows_, rng
        space = explainer.space_
        most = len(space) if explainer.max_changes is None else int(explainer.max_changes)
        self.ways = Ways(space, space.limits(values=self.rows), self.rows, most)
        self.labels = self.blackbox.ask(self.rows, mark_refused=True).output.astype(int)
        some = rng.permutation(len(self.rows))[:NEIGHBOURS]
        self.space, self.near = space, space.encoded(self.rows[some])
        self.at = np.zeros(WALKERS, dtype=np.int64)  # the training row that each walker began at
        self.wanted = np.zeros(WALKERS, dtype=np.int64)
        self.age = np.zeros(WALKERS, dtype=np.int64)
        self.now = np.zeros((WALKERS, self.rows.shape[1]))
        self._begin(np.arange(WALKERS))

    def turn(self) -> Batch:
        """Walk some steps, and say what they were worth (GAE, Schulman et al. 2016)."""
        seen: list[tuple[Any, ...]] = []
        for _ in range(TURN):
            state, value = self.policy.state(self.now, self.wanted), self.policy.values(self.now, self.wanted)
            open_ = self.ways.open_to(self.now, self.at)
            stuck = np.asarray(~open_.any(axis=1))
            open_[stuck] = True
            chances = self.policy.chances(self.now, self.wanted, open_)
            action = (chances + self.rng.gumbel(size=chances.shape)).argmax(axis=1)
            rows = self.ways.moved(self.now, action, self.at)
            self.now, self.age = np.where(stuck[:, None], self.now, rows), self.age + 1
            reward, arrived = self._rewards()
            over = arrived | (self.age >= LONGEST) | stuck
            seen.append((state, open_, action, chances[np.arange(WALKERS), action], value, reward, over))
            self._begin(np.flatnonzero(over))
        state, open_, action, chance, value, reward, over = (np.array(part) for part in zip(*seen, strict=True))
        following = np.concatenate([value[1:], self.policy.values(self.now, self.wanted)[None]])
        advantage, last = np.zeros_like(reward), np.zeros(WALKERS)
        for step in reversed(range(TURN)):
            surprise = reward[step] + DISCOUNT * following[step] * ~over[step] - value[step]
            last = surprise + DISCOUNT * TRACE * last * ~over[step]
            advantage[step] = last
        return Batch(state, open_, action, chance, advantage, advantage + value)

    def _rewards(self) -> tuple[Floats, Booleans]:
        answer = self.blackbox.ask(self.now, mark_refused=True)
        arrived = (answer.output.astype(int) == self.wanted) & answer.answered
        likely = np.zeros(WALKERS)
        if self.blackbox.has_probabilities and answer.scores is not None:
            likely = answer.scores[np.arange(WALKERS), self.wanted]
        away = cdist(self.space.encoded(self.now), self.near, "cityblock").min(axis=1)
        return (np.where(arrived, ARRIVED, likely) - MANIFOLD * away) / ARRIVED, arrived

    def _begin(self, which: Integers) -> None:
        self.at[which] = self.rng.integers(len(self.rows), size=len(which))
        classes = self.policy.classes
        self.wanted[which] = (self.labels[self.at[which]] + self.rng.integers(1, classes, size=len(which))) % classes
        self.now[which], self.age[which] = self.rows[self.at[which]], 0


class Policy(PickledAsArrays):
    """The networks: one that says how probable each action is, one that says what a state is worth."""

    def __init__(self, space: FeatureSpace, classes: int, seed: int) -> None:
        self.made_of = (space, classes, seed)
        self.space, self.classes, self.actions = space, classes, 2 * len(space)
        generator = torch.Generator().manual_seed(seed)
        width = space.encoded_width + classes
        heads = ((self.actions, 0.01), (1, 1.0))  # before it has learned anything, all actions are alike
        self.actor, self.critic = (
            nn.Sequential(trunk(1, width, HIDDEN, generator), MemberLinear(1, HIDDEN, outputs, generator, gain=gain))
            for outputs, gain in heads
        )
        self.adam = Adam([*self.actor.parameters(), *self.critic.parameters()], RATE)

    def state(self, rows: Values, wanted: Integers) -> Floats:
        """What the networks see: the row, and the class it is to have."""
        told = [self.space.encoded(rows), wanted[:, None] == np.arange(self.classes)]
        return np.concatenate(told, axis=1).astype(np.float32)

    def chances(self, rows: Values, wanted: Integers, open_: Booleans) -> Floats:
        """The logarithm of each action's probability."""
        with torch.no_grad():
            found = self._chances(torch.from_numpy(self.state(rows, wanted)), torch.from_numpy(open_)).numpy()
        return np.asarray(np.round(found.astype(np.float64), 4))  # the last bits hang on the size of the batch

    def values(self, rows: Values, wanted: Integers) -> Floats:
        """What is expected from here on."""
        with torch.no_grad():
            return np.asarray(self.critic(torch.from_numpy(self.state(rows, wanted))[None])[0, :, 0].numpy(), float)

    def learn(self, batch: Batch, rng: np.random.Generator) -> None:
        """Some rounds of the clipped objective over what was seen (Schulman et al. 2017, equation 9)."""
        flat = [torch.from_numpy(np.reshape(part, (-1, *part.shape[2:]))) for part in batch]
        state, open_, action, chance, advantage, worth = flat
        for _ in range(EPOCHS):
            for some in np.array_split(rng.permutation(len(state)), PARTS):
                rows = torch.from_numpy(some)
                chances = self._chances(state[rows], open_[rows])
                taken = chances.gather(1, action[rows][:, None])[:, 0]
                ratio = (taken - chance[rows].float()).exp()
                gain = advantage[rows].float()
                gain = (gain - gain.mean()) / (gain.std() + 1e-5)
                kept = torch.minimum(ratio * gain, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * gain).mean()
                missed = (self.critic(state[rows][None])[0, :, 0] - worth[rows].float()).square().mean()
                spread = -(chances.exp() * chances.clamp(min=-50.0)).sum(dim=1).mean()
                self.adam.descend(-kept + VALUE * missed - ENTROPY * spread)

    def _chances(self, state: Tensor, open_: Tensor) -> Tensor:
        raw: Tensor = self.actor(state[None])[0]
        return torch.log_softmax(raw.masked_fill(~open_, -1e9), dim=1)
