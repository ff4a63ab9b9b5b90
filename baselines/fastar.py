"""`fastar`: a policy that changes one feature by one step at a time, trained by PPO (Verma, Hines and Dickerson, 2022).

Written from the paper and its authors' description of their environments. A state is a row; an action moves a feature
one step up or down. The reward is 100 for the class wanted, which ends the walk, else that class's probability less λ
times the distance to the nearest training row. Proximal policy optimisation (Schulman et al., 2017) learns one policy.

Differences from the paper: moves that are not allowed are no choice, where the paper punishes them with -10. The class
wanted is part of the state. A category moves to the next or the previous one. Training takes 40,000 steps of a tenth of
a range (at least a grid step), not millions of a fortieth. A feature beyond `max_changes` is not moved. Where the most
probable moves do not arrive, the policy is followed by chance, as in training. Gradients are not clipped.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from relax_plugin.agent.layers import Adam, MemberLinear, PickledAsArrays, one_thread, trunk
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import Supports
from relax_plugin.baselines.common import ActorExplainer, Attempt, nearest_of_each
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals

WALKERS, TURN = 64, 32  # rows walked side by side, and the steps of each between two rounds of learning
EPOCHS, PARTS = 4, 4  # of each round; FastAR's authors have the same
DISCOUNT, TRACE, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5  # γ, λ of GAE, ε, and weights of the losses
RATE, HIDDEN = 1e-3, 64
ARRIVED = 100.0  # the reward of the wanted class; all rewards are divided by it for the networks
MANIFOLD = 0.1  # λ, weight of the distance to the nearest training row (the paper tries 0, 0.1, 1, 10 and 100)
NEIGHBOURS = 500  # training rows that are looked at for it
LONGEST = 40  # steps of a walk
STRIDE = 0.1  # share of a number's range that a step moves it
MOST_STEPS, MOST_TRIES = 5_000_000, 100_000


@with_parameters
class FastAR(ActorExplainer):
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

    def _untrained(self, classes: int) -> "Policy":
        return Policy(self.space_, classes, int(self.seed))

    def _train(self, rng: np.random.Generator) -> None:
        walkers = Walkers(self, rng)
        rounds = -(-int(self.steps) // (WALKERS * TURN))
        for number in range(rounds):
            self.actor_.adam.rate = RATE * (1.0 - number / rounds)
            self.actor_.learn(walkers.turn(), rng)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = self._in_turn(problem, n, rng, 4)
        made.note[:] = f"none was found by the policy's walk, nor by {self.tries} walks by chance"
        return made

    def _attempts(self, rng: np.random.Generator) -> Iterator[tuple[str, Attempt]]:
        yield "policy", partial(self._walk, None)
        for _ in range(int(self.tries)):
            yield "policy, by chance", partial(self._walk, rng.gumbel(size=(LONGEST, self.actor_.actions)))

    def _walk(self, noise: Floats | None, problem: Problem) -> tuple[Floats, Integers]:
        """The rows at which walks arrive, the nearest of each query, and whose they are."""
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
                chances = self.actor_.chances(rows[walking], wanted[walking], open_)
            action = (chances if noise is None else chances + noise[step]).argmax(axis=1)
            rows[walking] = ways.moved(rows[walking], action, walking)
            asked = problem.within_limits(rows[walking], owner[walking])
            met, _ = problem.judge(asked, owner[walking])
            few = (asked != start[walking]).sum(axis=1) <= problem.max_changes
            here = walking[met & few]
            found[here], arrived[here] = asked[met & few], True
            walking = walking[~(met & few)]
        return nearest_of_each(problem, found[arrived], owner[arrived])


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


class Walkers:
    """Rows on their way, side by side: one that has arrived, or has walked too long, begins anew at another row."""

    def __init__(self, explainer: FastAR, rng: np.random.Generator) -> None:
        self.blackbox, self.policy, self.rows, self.rng = explainer.blackbox_, explainer.actor_, explainer.rows_, rng
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

    def turn(self) -> tuple[Any, ...]:
        """Walk some steps, and say what they were worth (GAE, Schulman et al. 2016).

        Arrays (TURN, WALKERS, ...): the state, which actions were open, the one that was taken, the logarithm of its
        probability, its advantage, and the return that was seen.
        """
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
        return state, open_, action, chance, advantage, advantage + value

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

    def learn(self, batch: tuple[Any, ...], rng: np.random.Generator) -> None:
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
