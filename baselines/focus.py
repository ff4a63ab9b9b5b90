"""`focus`: gradient descent through a tree ensemble whose tests are made soft (Lucic et al., AAAI 2022).

Written from the paper: each test becomes a sigmoid, and a leaf's weight the product along its path. Adam moves the row
down the probability of the class to leave while the *true* model gives it, then back towards the query. The closest row
that the true model turns is kept.

Differences from the paper: features and scores are standardised. The goal may be one class. Rows are judged on the grid
and within the constraints, and Adam stays inside the box they span. One setting serves all models; the paper tunes σ,
τ, β and the learning rate. (Of 16 settings it is the nearest that solved all held-out training rows of four tree tasks,
2 seeds.) A missing number stays missing; if that fails and it may be filled in, the descent starts from the mean. A
category is a weight for each position, the heaviest counts, and a test of a set is soft in the weight outside it.
"""

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.baselines.common import TreeExplainer, in_memory, one_each
from relax_plugin.errors import naming_the_extra
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import flag, param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.trees.cells import allowed_categories
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import Gap, gaps, trees_for

if TYPE_CHECKING:
    import torch

MOMENTS = (0.9, 0.999)  # Adam's, its defaults
WEIGHT_OF_STAYING = 1e-6  # by which a category that nothing speaks against wins
FAR = 1e6  # standard deviations, where a soft test is as good as decided
MOST_ITERATIONS = 1_000_000
LEAST_RATE, MOST_RATE = 1e-6, 1e6  # of the four numbers that steer it: beyond them single precision sees nothing


@with_parameters
class Focus(TreeExplainer):
    """Rows reached by gradient descent on a soft copy of the ensemble: near, but nearly every feature changes.

    What the true model answers on the way is read off its trees: a query costs no more model rows than its proof.
    """

    supports = replace(
        TreeExplainer.supports,
        paper="Lucic, Oosterhuis, Haned, de Rijke: FOCUS: Flexible Optimizable Counterfactual Explanations for Tree "
        "Ensembles, AAAI 2022, https://arxiv.org/abs/1911.12199",
        tier="from the description only",
        evidence="sharp sigmoids give the true trees: tests/baselines/test_focus.py; none of the paper's numbers "
        "was compared",
    )

    reverted: bool = param(False, "Undo every change that is not needed: a fair rival in sparsity.", flag)
    iterations: int = param(1000, "Steps of Adam (the paper: 1,000).", whole(1, MOST_ITERATIONS))
    sharpness: float = param(
        1.0,
        "σ, of the sigmoids, per standard deviation. Sharper tests end nearer, and solve fewer queries.",
        real(LEAST_RATE, MOST_RATE),
    )
    temperature: float = param(
        1.0,
        "By which scores are multiplied before the softmax (the paper's τ). Their unit is the standard deviation of "
        "the model's scores over the training rows: votes, margins and probabilities differ by orders of magnitude.",
        real(LEAST_RATE, MOST_RATE),
    )
    distance_weight: float = param(0.01, "β, what distance counts against probability.", real(LEAST_RATE, MOST_RATE))
    learning_rate: float = param(0.02, "Of Adam, in standard deviations.", real(LEAST_RATE, MOST_RATE))

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        with naming_the_extra():
            import_module("torch")
        super()._fit(values, rng)
        scores = self.trees_.scores(values[~self.trees_.unknown(values)]).astype(np.float64)
        if scores.shape[1] > 1:
            scores -= scores.mean(axis=1, keepdims=True)
        self.spread_ = float(scores.std()) or 1.0

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        unknown = self.trees_.unknown(problem.start)
        made.note[unknown] = "none was looked for, since it has a category that is missing or unknown"
        known = np.flatnonzero(~unknown)
        for place, part in in_memory(problem.part(known), len(self.trees_.feature)):
            made.put(known[place], fill_slots(part, n, self._solve))
        made.note[known] = f"none was found in {self.iterations} steps of gradient descent"
        return made

    def _solve(self, problem: Problem) -> Proposals:
        from relax_plugin.agent.layers import one_thread  # which imports torch

        values, distance = problem.start.copy(), np.full(len(problem), np.inf)
        with one_thread():
            for gap in gaps(self.trees_, problem.limits, problem.start):
                part = problem if len(gap) == len(problem) else problem.part(gap.index)
                values[gap.index], distance[gap.index] = self._descend_with(part, gap)
        return one_each(problem, values, np.isfinite(distance), "gradient", down_to=1 if self.reverted else None)

    def _descend_with(self, problem: Problem, gap: Gap) -> tuple[Values, Floats]:
        """The same for queries that lack the same numbers: these stay missing, or if that fails are filled in first."""
        if not gap.missing.any():
            return self._descend(problem, self.trees_, problem.start)
        nothing = np.zeros_like(gap.missing)
        kept = replace(problem, limits=replace(problem.limits, frozen=problem.limits.frozen | gap.missing))
        trees = trees_for(self.trees_, replace(gap, fillable=nothing))
        assert trees is not None, "decided tests make trees smaller"
        best, nearest = self._descend(kept, trees, problem.start)
        left = np.flatnonzero(np.isinf(nearest))
        if gap.fillable.any() and len(left):
            part = problem.part(left)
            trees = trees_for(self.trees_, replace(gap, missing=gap.missing & ~gap.fillable, fillable=nothing))
            assert trees is not None
            middle = np.where(gap.fillable, problem.space.mean, part.start)
            best[left], nearest[left] = self._descend(part, trees, part.limits.project(middle, part.start))
        return best, nearest

    def _descend(self, problem: Problem, trees: Trees, origin: Values) -> tuple[Values, Floats]:
        """The closest row met on the way that meets each query's goal, and its distance; infinite where none did.

        The way begins at `origin`, and leads through soft copies of `trees`.
        """
        import torch

        space, everyone = problem.space, np.arange(len(problem))
        ground = SoftGround(trees, space)
        start = torch.from_numpy(ground.placed(origin)).float()
        low, high = (torch.from_numpy(end).float() for end in ground.ends(problem))
        assert problem.goal.wanted is not None
        unwanted = torch.from_numpy(~problem.goal.wanted)
        soft = SoftTrees(trees, space, float(self.sharpness), float(self.temperature) / self.spread_)
        prices = torch.from_numpy(ground.prices).float()
        place = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([place], lr=float(self.learning_rate), betas=MOMENTS)
        best, nearest = problem.start.copy(), np.full(len(problem), np.inf)
        met = np.zeros(len(problem), dtype=bool)
        for _ in range(int(self.iterations)):
            away = (prices * (place - start)).square().sum(dim=1).add(1e-12).sqrt()
            leaving = (soft.probabilities(place) * unwanted).sum(dim=1)
            loss = torch.where(torch.from_numpy(met), 0.0, leaving) + float(self.distance_weight) * away
            optimiser.zero_grad()
            loss.sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            with torch.no_grad():
                place.copy_(torch.minimum(torch.maximum(place, low), high))
            rows = problem.limits.project(ground.rows(place.detach(), start, origin), problem.start)
            met = problem.goal.met(self.answer(rows))
            distance = np.where(met, problem.distance(rows, everyone), np.inf)
            nearer = distance < nearest
            best[nearer], nearest[nearer] = rows[nearer], distance[nearer]
        return best, nearest


class SoftGround:
    """Where the descent goes: standardised numbers, then a weight between 0 and 1 for each position of a category."""

    def __init__(self, trees: Trees, space: FeatureSpace) -> None:
        self.space, self.counts = space, {j: met.shape[1] for j, met in trees.sets.items()}
        shares = [
            np.full(count, space.prices[j] * np.sqrt(0.5)) for j, count in self.counts.items()
        ]  # two weights move
        self.prices = np.concatenate([space.prices, *shares])

    def placed(self, values: Values) -> Values:
        """Rows as places."""
        weights = [np.arange(count) == values[:, [j]] for j, count in self.counts.items()]
        return np.concatenate([self.space.standardise(values), *weights], axis=1)

    def ends(self, problem: Problem) -> tuple[Values, Values]:
        """The ends of what places may be under the limits; categories move by their weights alone."""
        low, high = problem.span
        own = self.placed(problem.start)
        ends = own.copy(), own.copy()
        numbers = ~np.isin(np.arange(len(self.space)), list(self.counts))
        for end, given in zip(ends, (low, high), strict=True):
            end[:, np.flatnonzero(numbers)] = self.space.standardise(given)[:, numbers]
        first = len(self.space)
        for j, count in self.counts.items():
            allowed = ~np.isnan(allowed_categories(problem.limits.of_feature(j), problem.start[:, j], count))
            moves = allowed.sum(axis=1, keepdims=True) > 1
            ends[0][:, first : first + count] = np.where(moves, 0.0, own[:, first : first + count])
            ends[1][:, first : first + count] = allowed
            first += count
        return ends

    def rows(self, place: "torch.Tensor", start: "torch.Tensor", origin: Values) -> Values:
        """Places as rows: numbers as they are, of categories the heaviest; what did not move is that of `origin`."""
        width, cells = len(self.space), np.asarray(place, dtype=np.float64)
        moved = cells[:, :width] * self.space.scale + self.space.mean
        rows = np.where(np.asarray(place == start)[:, :width], origin, moved)
        first = width
        for j, count in self.counts.items():
            weights = cells[:, first : first + count].copy()
            weights[np.arange(len(rows)), origin[:, j].astype(np.int64)] += WEIGHT_OF_STAYING
            rows[:, j] = weights.argmax(axis=1)
            first += count
        return rows


class SoftTrees:
    """A tree ensemble with soft tests, over standardised features; exact in the limit of sharpness.

    All leaves of all trees at once: the logarithms of a leaf's weight are a sparse sum over the tests on its path.
    """

    def __init__(self, trees: Trees, space: FeatureSpace, sharpness: float, temperature: float) -> None:
        import torch

        inner = np.flatnonzero(trees.feature >= 0)
        feature = trees.feature[inner]
        threshold = (trees.threshold[inner] - space.mean[feature]) / space.scale[feature]
        self.members: torch.Tensor | None = None
        if trees.subset is not None and trees.subsets is not None:  # a column more for each set
            of_set, subset = trees.subset[inner] >= 0, trees.subset[inner]
            self.members = torch.from_numpy(_members(trees)).float()
            feature, threshold = np.where(of_set, len(space) + subset, feature), np.where(of_set, 0.0, threshold)
        self.numbers = len(space)
        self.sharpness, self.temperature, self.divisor = sharpness, temperature, trees.divisor
        self.feature = torch.from_numpy(feature)
        threshold = np.nan_to_num(threshold, posinf=FAR, neginf=-FAR)  # of tests that part missing numbers from others
        self.threshold = torch.from_numpy(threshold).float()[:, None]
        leaf, test = paths(trees)
        size = (len(trees.leaf_tree), 2 * len(inner))
        position = torch.from_numpy(np.stack([leaf, test]))
        self.path = torch.sparse_coo_tensor(position, torch.ones(len(leaf)), size, check_invariants=False).coalesce()
        self.leaf_scores = torch.from_numpy(trees.leaf_scores.T.astype(np.float32))
        self.base = torch.from_numpy(trees.base.astype(np.float32))

    def scores(self, place: "torch.Tensor") -> "torch.Tensor":
        """Scores (rows, outputs): every leaf's, weighted by how much of the row reaches it."""
        import torch

        columns = place.T
        if self.members is not None:  # 1 where all the weight lies outside of a set, -1 where it lies inside
            columns = torch.cat([columns[: self.numbers], 1 - 2 * (self.members @ columns[self.numbers :])])
        beyond = self.sharpness * (columns[self.feature] - self.threshold)  # (tests, rows)
        right = torch.nn.functional.logsigmoid(beyond)
        logs = torch.cat([right - beyond, right])  # log sigmoid(-a) = log sigmoid(a) - a
        weight = torch.sparse.mm(self.path, logs).exp()  # (leaves, rows)
        added: torch.Tensor = (self.leaf_scores @ weight).T + self.base
        return added / self.divisor

    def probabilities(self, place: "torch.Tensor") -> "torch.Tensor":
        """The softmax of the scores (rows, classes); of a single score, the first class has its opposite."""
        import torch

        scores = self.scores(place)
        if scores.shape[1] == 1:
            scores = torch.cat([-scores, scores], dim=1) / 2
        return torch.softmax(self.temperature * scores, dim=1)


def _members(trees: Trees) -> Floats:
    assert trees.subset is not None and trees.subsets is not None
    counts = {j: met.shape[1] for j, met in trees.sets.items()}
    members = np.zeros((len(trees.subsets), sum(counts.values())))
    owner = np.full(len(trees.subsets), -1)
    owner[trees.subset[trees.subset >= 0]] = trees.feature[trees.subset >= 0]
    first = 0
    for j, count in counts.items():
        members[owner == j, first : first + count] = trees.subsets[owner == j, :count]
        first += count
    return members


def paths(trees: Trees) -> tuple[Integers, Integers]:
    """Pairs of a leaf and a test passed on the way to it; of k tests, number i to the left is i, to the right k + i."""
    inner = trees.feature >= 0
    number = np.cumsum(inner) - 1
    parent = np.full(len(inner), -1)
    parent[trees.right[inner]] = np.flatnonzero(inner)
    parent[trees.left[inner]] = np.flatnonzero(inner)
    test = np.full(len(inner), -1)
    test[trees.left[inner]] = number[inner]
    test[trees.right[inner]] = number[inner] + inner.sum()
    node = np.flatnonzero(~inner)
    leaf, leaves, tests = trees.leaf[node], [], []
    while len(node):
        climbs = parent[node] >= 0
        leaf, node = leaf[climbs], node[climbs]
        leaves.append(leaf)
        tests.append(test[node])
        node = parent[node]
    return np.concatenate(leaves), np.concatenate(tests)
