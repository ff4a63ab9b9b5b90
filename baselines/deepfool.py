"""`deepfool`: steps to the linearised nearest boundary of a network (Moosavi-Dezfooli et al., CVPR 2016).

Written from the paper (algorithm 2, the Euclidean norm). Where this departs from it: lengths are in standard deviations
of the training rows, since features of a table do not share a unit as pixels do; a feature at the end of what is
allowed takes no part in a step towards that end; whether the goal is reached is asked of the row as it would be
delivered, with its overshoot, within the limits and on its grid; where only rounding takes the goal back, the overshoot
is doubled, up to twice the change. Other goals than a flip are levels that the linearised model has to reach: of a
class against its strongest rival, of a probability, or of a regressor's answer.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.baselines.common import Network, NetworkExplainer, in_chunks, one_each
from relax_plugin.goal import BoundGoal
from relax_plugin.parameters import flag, param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots

STEPS = 50  # at most; the paper needs three or fewer, the authors' program allows 50
MOST_STEPS = 1_000_000
OVERSHOOT = 0.02  # η of the paper: share by which the whole change is lengthened
LEAST_STEP = 1e-4  # standard deviations; a query on the boundary itself has to leave it
OVERSHOOT_IS = "Share by which the way to the boundary is lengthened to get across it."
LEAST_OVERSHOOT = 1e-9  # doubled thirty times, it is a change of twice the length


@with_parameters
class DeepFool(NetworkExplainer):
    """The shortest way out of the class, for a network: all features move, each by little.

    Looks inside the model: it takes gradients of the torch module, or of a copy of scikit-learn's network, and asks
    the black box only to confirm (and to revert). `rows_queried` counts these questions, `network_.spent` the rows that
    went through the network.
    """

    supports = replace(
        NetworkExplainer.supports,
        paper="Moosavi-Dezfooli, Fawzi, Frossard: DeepFool: a simple and accurate method to fool deep neural networks, "
        "CVPR 2016, https://arxiv.org/abs/1511.04599",
        tier="reproduced in part",
        evidence="its steps equal a loop of the paper's algorithm 2, and one step lands on a linear boundary: "
        "tests/baselines/test_deepfool.py; the paper's data are images, and none of its numbers was "
        "compared",
    )

    reverted: bool = param(
        False,
        "Undo, one at a time, every change that is not needed: a fair rival in sparsity. Just across the boundary "
        "little can be undone: after an overshoot of 1, twice the way, a quarter to two thirds as many changes are "
        "left, at about the same distance.",
        flag,
    )
    steps: int = param(STEPS, "At most so many steps a query.", whole(1, MOST_STEPS))
    overshoot: float = param(OVERSHOOT, OVERSHOOT_IS, real(LEAST_OVERSHOOT, 1))

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve)

    def _solve(self, problem: Problem) -> Proposals:
        everything = np.ones(problem.start.shape, dtype=bool)
        values, met = to_boundary(self.network_, problem, everything, float(self.overshoot), int(self.steps))
        made = one_each(problem, values, met, "boundary", down_to=1 if self.reverted else None)
        made.note[~met] = f"none was found in {self.steps} steps to the nearest boundary"
        return made


def to_boundary(
    network: Network, problem: Problem, features: Booleans, overshoot: float, steps: int
) -> tuple[Floats, Booleans]:
    """Walk every query along its features (queries, features) until the network says that the goal is met.

    Returns the rows within the limits, or the last attempts, and whether each meets the goal.
    """
    values, met = problem.start.copy(), np.zeros(len(problem), dtype=bool)
    for index, part in in_chunks(problem):
        values[index], met[index] = _Walk(network, part, features[index], overshoot).run(steps)
    return values, met


class _Walk:
    """Queries on their way to the boundary, side by side."""

    def __init__(self, network: Network, problem: Problem, features: Booleans, overshoot: float) -> None:
        self.network, self.problem, self.features = network, problem, features
        self.low, self.high = problem.span
        self.change = np.zeros_like(problem.start)  # so far, without overshoot
        self.sides = np.full((2, *problem.start.shape), np.nan)  # the last changes short of a range, and beyond it
        two_ends = problem.goal.inside  # of a range one must not overshoot; its ends are moved inwards instead
        doublings = 1 + max(0, int(np.ceil(-np.log2(overshoot))))
        self.overshoots = np.zeros(1) if two_ends else overshoot * 2.0 ** np.arange(doublings)
        self.goal = _narrowed(problem, overshoot) if two_ends else problem.goal

    def run(self, steps: int) -> tuple[Floats, Booleans]:
        values, met = self.problem.start.copy(), np.zeros(len(self.problem), dtype=bool)
        active = np.arange(len(self.problem))
        for _ in range(steps):
            if len(active) == 0:
                break
            active = active[self._step(active)]
            values[active], met[active] = self._delivered(active)
            active = active[~met[active]]
        return values, met

    def _step(self, active: Integers) -> Booleans:
        space = self.problem.space
        here, scale = self._moved(active, 0.0), space.scale / space.prices  # a way of length 1 costs as much as any
        missing, gradient = ways_to(self.goal.take(active), *self.network.jacobian(here))
        gradient = gradient * scale
        up, down = here < self.high[active], here > self.low[active]  # where there is room
        onwards = ((gradient > 0) & up[:, None]) | ((gradient < 0) & down[:, None])
        gradient = np.where(onwards & self.features[active][:, None], gradient, 0.0)
        norm = np.sqrt(np.square(gradient).sum(axis=2))
        able = np.isfinite(missing) & np.isfinite(norm) & (norm > 0)
        length = np.where(able, np.abs(missing) / np.where(able, norm, 1.0), np.inf)
        way = np.argmin(length, axis=1)  # DeepFool, algorithm 2: the class whose boundary is nearest
        rows = np.arange(len(active))
        moving = np.isfinite(length[rows, way])
        direction = gradient[rows, way] / np.where(moving, norm[rows, way], 1.0)[:, None]
        step = np.maximum(np.where(moving, length[rows, way], 0.0), LEAST_STEP)[:, None] * direction * scale
        there = np.clip(here + step, self.low[active], self.high[active])
        halved = self._halve(active, missing)
        onward = moving & ~halved
        self.change[active[onward]] += np.where(step != 0, there - here, 0.0)[onward]
        return np.asarray(moving | halved)

    def _halve(self, active: Integers, missing: Floats) -> Booleans:
        """Of a range that was passed, go half the way back to its other side; says for which queries that was done.

        A network has no jumps, so that the range lies between; steps along its gradient may miss it for ever.
        """
        if not self.goal.inside:
            return np.zeros(len(active), dtype=bool)
        side = np.argmin(missing, axis=1)
        self.sides[side, active] = self.change[active]
        outside = np.isfinite(missing).any(axis=1)
        passed = outside & ~np.isnan(self.sides[:, active]).any(axis=(0, 2))
        self.change[active[passed]] = self.sides[:, active[passed]].mean(axis=0)
        return np.asarray(passed)

    def _delivered(self, active: Integers) -> tuple[Floats, Booleans]:
        """The rows that would be delivered now, with the least overshoot that rounding does not undo."""
        values = self._projected(active, self.overshoots[0])
        met = self._meets(values, active)
        missed = np.flatnonzero(~met)
        # Worth a longer way only where it is the grid that is in the way.
        missed = missed[self._meets(self._moved(active[missed], self.overshoots[0]), active[missed])]
        if len(missed) == 0 or len(self.overshoots) == 1:
            return values, met
        further = np.stack([self._projected(active[missed], share) for share in self.overshoots[1:]], axis=1)
        owner = np.repeat(active[missed], len(self.overshoots) - 1)
        reached = self._meets(further.reshape(len(owner), -1), owner).reshape(further.shape[:2])
        least, some = np.argmax(reached, axis=1), reached.any(axis=1)
        values[missed[some]], met[missed[some]] = further[some, least[some]], True
        return values, met

    def _moved(self, active: Integers, share: float) -> Floats:
        start, change = self.problem.start[active], self.change[active]
        moved = np.clip(start + (1 + share) * change, self.low[active], self.high[active])
        return np.where(change == 0, start, moved)  # a query's own cell may lie outside the bounds

    def _projected(self, active: Integers, share: float) -> Floats:
        return self.problem.limits.take(active).project(self._moved(active, share), self.problem.start[active])

    def _meets(self, values: Values, owner: Integers) -> Booleans:
        if len(owner) == 0:  # a module of the user's own need not bear an empty batch
            return np.zeros(0, dtype=bool)
        return self.problem.goal.take(owner).met(self.network.answer(values))


def ways_to(goal: BoundGoal, outputs: Floats, gradients: Floats) -> tuple[Floats, Floats]:
    """What is missing of the goal on each way to it (n, ways), inf where there is none, and the gradient upwards.

    A way is a wanted class that has to overtake its strongest rival (of a flip: the query's class), or a side of the
    numbers that has to be reached.
    """
    if goal.wanted is None:
        assert goal.lower is not None and goal.upper is not None
        up, down = (goal.lower, goal.upper) if goal.inside else (goal.upper, goal.lower)
        missing = np.column_stack([up - outputs[:, 0], outputs[:, 0] - down])
        if goal.inside:  # only from outside, and only towards it
            missing = np.where(missing > 0, missing, np.inf)
        return missing, np.concatenate([gradients, -gradients], axis=1)
    rows = np.arange(len(outputs))
    rival = np.where(goal.wanted, -np.inf, outputs).argmax(axis=1)
    missing = outputs[rows, rival][:, None] - outputs
    upwards = gradients - gradients[rows, rival][:, None]
    if goal.needs_scores:
        # p(k) >= p exactly if f_k - log sum_{j != k} exp f_j >= log(p / (1 - p)).
        least: Any = goal.min_probability if goal.least is None else goal.least[:, None]
        probability = np.clip(least, 1e-9, 1 - 1e-9)
        others = np.where(np.eye(outputs.shape[1], dtype=bool), -np.inf, outputs[:, None, :])
        largest = others.max(axis=2, keepdims=True)
        powers = np.exp(others - largest)
        total = powers.sum(axis=2, keepdims=True)
        needed = np.log(probability / (1 - probability)) + (largest + np.log(total))[..., 0] - outputs
        harder = (needed > missing) | (goal.least is not None)  # of a probability alone, whichever class wins
        missing = np.where(harder, needed, missing)
        upwards = np.where(harder[..., None], gradients - powers / total @ gradients, upwards)
    return np.where(goal.wanted, missing, np.inf), upwards


def _narrowed(problem: Problem, overshoot: float) -> BoundGoal:
    lower, upper = problem.goal.lower, problem.goal.upper
    assert lower is not None and upper is not None
    margin = np.minimum(overshoot * np.maximum(problem.gap, 0.0), (upper - lower) / 2)
    return BoundGoal(problem.goal.blackbox, lower=lower + margin, upper=upper - margin, inside=True)
