"""`grace`: few features that do not repeat each other, moved to a network's boundary (Le et al., KDD 2020).

Written from the paper. Features are ranked by the gradient, those too similar to a better one are left out, and the
first k of them are moved by DeepFool, for k = 1, 2, ... until the goal is met. Where this departs from the paper: the
ranking is by the *absolute* gradient in standard deviations, which is clearly sparser than the signed one; features
without room where the gradient points are not ranked; the constraints are kept from the start; goals other than a flip
rank by the gradient of what has to be left or reached. The steps are those of `deepfool`, with its departures.
"""

from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import most_changes
from relax_plugin.baselines.common import CHUNK_CELLS, NetworkExplainer, in_chunks
from relax_plugin.baselines.deepfool import LEAST_OVERSHOOT, MOST_STEPS, OVERSHOOT_IS, STEPS, to_boundary
from relax_plugin.goal import BoundGoal
from relax_plugin.parameters import param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots

MOST_FEATURES = 5  # K of the paper
GAMMA = 0.5  # γ of the paper
OVERSHOOT = 1e-4  # of the paper
BINS = 10  # of equal frequency, for features with more distinct values


@with_parameters
class Grace(NetworkExplainer):
    """The smallest number of features, ranked by the gradient, that takes a network across its boundary.

    Looks inside the model: it takes gradients of the torch module, or of a copy of scikit-learn's network, and asks
    the black box only to confirm. `rows_queried` counts these questions, `network_.spent` the rows that went through
    the network.
    """

    supports = replace(
        NetworkExplainer.supports,
        paper="Le, Wang, Lee: GRACE: Generating Concise and Informative Contrastive Sample to Explain Neural Network "
        "Model's Prediction, KDD 2020, https://arxiv.org/abs/1911.02042",
        tier="from the description only",
        evidence="the selection of features equals a loop of the paper's: tests/baselines/test_grace.py; that it "
        "gets worse with the size of a network, as ReLAX's Table 5 has it, was not seen: "
        "docs/results/paper/verdicts.csv",
    )

    max_changes: int | None = most_changes(MOST_FEATURES, "It is the paper's K.")
    gamma: float = param(
        GAMMA,
        "Largest symmetric uncertainty (0: independent, 1: the same) of two features that are changed together.",
        real(0, 1),
    )
    steps: int = param(STEPS, "At most so many steps for each k.", whole(1, MOST_STEPS))
    overshoot: float = param(OVERSHOOT, OVERSHOOT_IS, real(LEAST_OVERSHOOT, 1))

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        super()._fit(values, rng)
        self.similarity_ = symmetric_uncertainty(binned(values))

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve)

    def _solve(self, problem: Problem) -> Proposals:
        made = Proposals.empty(problem, 1)
        order = self._ranked(problem)
        chosen = np.zeros(problem.start.shape, dtype=bool)
        for k in range(order.shape[1]):
            pending = np.flatnonzero(~made.offered[:, 0] & (order[:, k] >= 0))
            if len(pending) == 0:
                break
            chosen[pending, order[pending, k]] = True
            part = problem.part(pending)
            values, met = to_boundary(self.network_, part, chosen[pending], float(self.overshoot), int(self.steps))
            made.values[pending, 0], made.offered[pending, 0] = values, met
            made.stage[pending[met], 0] = f"{k + 1} by gradient"
        made.note[:] = f"none was found by moving the {problem.max_changes} features that the gradient ranks first"
        return made

    def _ranked(self, problem: Problem) -> Integers:
        """The features to be moved first, second, ... (queries, at most K); -1 where there are no more."""
        order = np.full((len(problem), problem.max_changes), -1, dtype=np.int64)
        for index, part in in_chunks(problem):
            scale = part.space.scale / part.space.prices  # a dear feature has to do more for its price
            gradient = goal_gradient(part.goal, *self.network_.jacobian(part.start)) * scale
            low, high = part.span
            room = ((gradient > 0) & (high > part.start)) | ((gradient < 0) & (low < part.start))
            if part.goal.wanted is None:  # a number may be moved to either side
                room = (gradient != 0) & ((high > part.start) | (low < part.start))
            order[index] = forward_selection(
                np.abs(gradient), room, self.similarity_, float(self.gamma), order.shape[1]
            )
        return order


def goal_gradient(goal: BoundGoal, outputs: Floats, gradients: Floats) -> Floats:
    """The direction (n, features) in which the classes to be left become less likely; of a regressor, the gradient.

    Of a flip it is parallel to minus the gradient of the predicted class's probability, without its vanishing where
    the network is sure.
    """
    if goal.wanted is None:
        return gradients[:, 0]
    parts = []
    for members in (goal.wanted, ~goal.wanted):
        logits = np.where(members, outputs, -np.inf)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        parts.append(np.einsum("nk,nkd->nd", powers / powers.sum(axis=1, keepdims=True), gradients))
    return np.asarray(parts[0] - parts[1])


def forward_selection(importance: Floats, available: Booleans, similarity: Floats, gamma: float, most: int) -> Integers:
    """Of each row the most important features, none of which is more similar than γ to one before it; then -1."""
    order = np.full((len(importance), most), -1, dtype=np.int64)
    left = np.where(available & np.isfinite(importance), importance, -np.inf)
    for k in range(most):
        best = np.argmax(left, axis=1)
        some = np.isfinite(left[np.arange(len(left)), best])
        order[some, k] = best[some]
        left[np.arange(len(left)), best] = -np.inf
        left[similarity[best] > gamma] = -np.inf
    return order


def binned(values: Values) -> Integers:
    """Each column as numbers of bins: its own values if they are few, else bins of equal frequency."""
    bins = np.empty(values.shape, dtype=np.int64)
    for j, column in enumerate(values.T):
        distinct, positions = np.unique(column, return_inverse=True)
        if len(distinct) > BINS:
            edges = np.unique(np.quantile(column, np.arange(1, BINS) / BINS))
            positions = np.unique(np.searchsorted(edges, column, side="right"), return_inverse=True)[1]
        bins[:, j] = positions
    return bins


def symmetric_uncertainty(bins: Integers) -> Floats:
    """SU(a, b) = 2 I(a; b) / (H(a) + H(b)) of every pair of columns, whose bins are counted from 0."""
    rows, d = bins.shape
    widths = bins.max(axis=0) + 1
    offsets = np.concatenate([[0], np.cumsum(widths)])
    indicators = np.zeros((rows, offsets[-1]))
    np.put_along_axis(indicators, bins + offsets[:-1], 1.0, axis=1)
    joint = np.empty((d, d))
    size = max(1, CHUNK_CELLS // (int(offsets[-1]) * int(widths.max())))
    for first in range(0, d, size):  # the table of counts of every pair at once may be large
        last = min(first + size, d)
        share = indicators[:, offsets[first] : offsets[last]].T @ indicators / rows
        surprise = -share * np.log(np.where(share > 0, share, 1.0))
        within = np.add.reduceat(surprise, offsets[:-1], axis=1)
        joint[first:last] = np.add.reduceat(within, offsets[first:last] - offsets[first], axis=0)
    entropy = np.diag(joint)
    total = entropy[:, None] + entropy
    information = np.maximum(total - joint, 0.0)
    similar = np.where(total > 0, 2 * information / np.where(total > 0, total, 1.0), 0.0)
    np.fill_diagonal(similar, 1.0)
    return np.asarray(similar)
