"""`wachter`: a network's loss plus a distance, with a growing weight on the loss (Wachter et al., 2017).

Written from the paper: minimise λ (f(x') − y')² + Σ |x'_k − x_k| / MAD_k over x', where MAD is the median absolute
deviation of a feature, and raise λ until f(x') is within a tolerance of y'.

Differences from the paper: steps of ISTA (gradient of the square, proximal step of the distance) replace Adam, so that
cells which need not change stay as they are. f is the logit of the wanted class against its strongest rival, or a
regressor's number; of several wanted classes the nearest counts. y' lies beyond the goal by the tolerance, a share of
the way, which doubles with each λ since a grid may round short. Prices multiply distances. A feature whose MAD is 0
has its standard deviation instead. Each row is judged on the grid and within the constraints; the nearest is kept.
"""

from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.baselines.common import NetworkExplainer, in_chunks, known_numbers, one_each
from relax_plugin.baselines.deepfool import ways_to
from relax_plugin.parameters import param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots

MOST_STEPS = 1_000_000
FACTOR = 4.0  # by which λ is multiplied where the goal was missed; the tolerance is doubled then
WEIGHTS = 8  # that are tried at most
LEAST_STEP = 1e-5  # MAD; a shorter step ends the descent for a λ
LEAST_TOLERANCE = 1e-6


@with_parameters
class Wachter(NetworkExplainer):
    """Descends a network's loss plus the distance, with ever more weight on the loss: few changes, just enough.

    Looks inside the model: it takes gradients of the torch module, or of a copy of scikit-learn's network, and asks
    the black box only to confirm (and to undo). `rows_queried` counts these questions, `network_.spent` the rows that
    went through the network.
    """

    supports = replace(
        NetworkExplainer.supports,
        paper="Wachter, Mittelstadt, Russell: Counterfactual Explanations without Opening the Black Box: Automated "
        "Decisions and the GDPR, Harvard Journal of Law & Technology 2018, https://arxiv.org/abs/1711.00399",
        tier="reproduced in part",
        evidence="on linear models it ends at the row that a linear program says is nearest by the paper's distance: "
        "tests/baselines/test_wachter.py; the paper's two tables (LSAT, Pima) were not compared",
    )

    steps: int = param(50, "Of the descent, for each weight λ.", whole(1, MOST_STEPS))
    tolerance: float = param(
        0.02, "How far beyond the goal is aimed, as a share of the way to it (the paper's ε).", real(LEAST_TOLERANCE, 1)
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        super()._fit(values, rng)
        known = known_numbers(self.space_, values)
        deviation = np.nanmedian(np.abs(known - np.nanmedian(known, axis=0)), axis=0)
        self.deviation_ = np.where(deviation > 0, deviation, self.space_.scale)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve)

    def _solve(self, problem: Problem) -> Proposals:
        made = Proposals.empty(problem, 1)
        for index, part in in_chunks(problem):
            made.put(index, one_each(part, *self._descend(part), "gradient"))
        made.note[:] = f"none was found in {self.steps} steps of descent for each of {WEIGHTS} weights"
        return made

    def _descend(self, problem: Problem) -> tuple[Floats, Booleans]:
        values, nearest = problem.start.copy(), np.full(len(problem), np.inf)
        place, way = problem.start.copy(), _Way(problem, self.deviation_, float(self.tolerance))
        left, arrived = np.arange(len(problem)), np.zeros(len(problem), dtype=bool)
        for _ in range(WEIGHTS):
            active = left
            for _ in range(int(self.steps)):
                there = way.step(place, active, *self.network_.jacobian(place[active]))
                moving = (np.abs(there - place[active]) > LEAST_STEP * self.deviation_).any(axis=1)
                place[active] = there
                active, there = active[moving], there[moving]
                if len(active) == 0:
                    break
                rows = problem.limits.take(active).project(there, problem.start[active])
                met = problem.goal.take(active).met(self.network_.answer(rows))
                distance = np.where(met, way.away(rows, active), np.inf)
                nearer, arrived[active] = distance < nearest[active], met
                values[active[nearer]], nearest[active[nearer]] = rows[nearer], distance[nearer]
            left = left[~arrived[left]]  # what was met only on the way is farther than it need be
            if len(left) == 0:
                break
            way.weight[left] *= FACTOR
            way.tolerance[left] *= 2.0
        return values, np.isfinite(nearest)


class _Way:
    """The loss of many queries, side by side, and the steps down it."""

    def __init__(self, problem: Problem, deviation: Floats, tolerance: float) -> None:
        self.problem, self.deviation = problem, deviation
        self.tolerance = np.full(len(problem), tolerance)
        self.low, self.high = problem.span
        self.weight = np.full(len(problem), np.nan)  # λ of each query
        self.first = np.full(len(problem), np.nan)  # what was missing at the query itself

    def step(self, place: Floats, active: Integers, outputs: Floats, gradients: Floats) -> Floats:
        """One step of ISTA: down the gradient of λ times the square, then back towards the query as the price says."""
        here, start = place[active], self.problem.start[active]
        low, high, prices = self.low[active], self.high[active], self.problem.space.prices
        short, gradient = self._aim(active, outputs, gradients)
        gradient = np.where((low == start) & (high == start), 0.0, gradient)
        self._begin(active, short, gradient)
        pull = 2.0 * self.weight[active] * short  # what the square pulls with, for each unit of gradient
        uphill = np.sign(short)[:, None] * gradient
        at_end = ((uphill > 0) & (here >= high)) | ((uphill < 0) & (here <= low))
        free = np.where(at_end, 0.0, gradient)
        slope = np.square(free).sum(axis=1)
        # One over the curvature of the square, over the features that have room.
        length = 1.0 / (2.0 * self.weight[active] * np.where(slope > 0, slope, 1.0))
        change = (here - start) / self.deviation
        change += (length * pull)[:, None] * free
        held = at_end & (np.abs(pull[:, None] * gradient) > prices)  # the pull outweighs the price: it stays at its end
        shrunk = np.sign(change) * np.maximum(np.abs(change) - length[:, None] * prices, 0.0)
        change = np.where(held, change, shrunk)
        moved = np.clip(start + change * self.deviation, np.minimum(low, start), np.maximum(high, start))
        return np.where(change == 0, start, moved)

    def _aim(self, active: Integers, outputs: Floats, gradients: Floats) -> tuple[Floats, Floats]:
        missing, gradient = ways_to(self.problem.goal.take(active), outputs, gradients)
        gradient = np.nan_to_num(gradient) * self.deviation  # nothing leads away from a missing number
        norm = np.sqrt(np.square(gradient).sum(axis=2))
        rows = np.arange(len(active))
        way = np.argmin(np.where(norm > 0, missing / np.where(norm > 0, norm, 1.0), np.inf), axis=1)
        missing = missing[rows, way]
        self.first[active] = np.where(np.isnan(self.first[active]), np.abs(missing), self.first[active])
        beyond = self.tolerance[active] * np.where(np.isfinite(self.first[active]), self.first[active], 0.0)
        return np.where(np.isfinite(missing), missing + beyond, 0.0), gradient[rows, way]

    def _begin(self, active: Integers, short: Floats, gradient: Floats) -> None:
        """The first λ of a query is twice the one below which nothing would move at all."""
        pull = 2.0 * np.abs(short) * (np.abs(gradient) / self.problem.space.prices).max(axis=1)
        least = 2.0 / np.where(pull > 0, pull, 1.0)
        self.weight[active] = np.where(np.isnan(self.weight[active]), least, self.weight[active])

    def away(self, rows: Values, owner: Integers) -> Floats:
        """The paper's distance, each feature at its price; to or from a missing number it is 1."""
        start, space = self.problem.start[owner], self.problem.space
        at_once = (rows == space.missing_codes) | (start == space.missing_codes)
        moved = np.where(at_once, rows != start, np.abs(rows - start) / self.deviation)
        return np.asarray((moved * space.prices).sum(axis=1))
