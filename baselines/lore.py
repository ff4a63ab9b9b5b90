"""`lore`: rules of a decision tree grown on a genetic neighbourhood (Guidotti et al., 2018, arXiv:1805.10820).

Written from the paper: the package lore-sa (1.1.3) answers rules and not instances, takes no constraints, leaves
categorical conditions out of its counterfactuals, draws from global random states and needs some 15 seconds a row.

Differences from the paper: the tree separates rows that meet the goal from the others, and is scikit-learn's (CART).
Values move onto the grid and within the constraints from the start. Euclidean distances are of features divided by
their range. A rule is turned into a row; where the model denies all of them, the nearest neighbour is offered.
"""

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports, most_changes
from relax_plugin.baselines.common import in_memory, ranges
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals

CROSSOVER = 0.5  # share of pairs that swap genes; the authors' default
MUTATION = 0.2  # share of individuals that mutate, and of their genes that are drawn anew; the authors' default
TOURNAMENT = 3  # individuals of which the fittest is selected; the paper says no more than "select"
LEAST_POPULATION, MOST_POPULATION = 8, 1_000_000
MOST_GENERATIONS = 1_000_000
MARGIN = 1e-3  # standard deviations by which a feature without a grid passes a threshold


@with_parameters
class Lore(CounterfactualExplainer):
    """A tree learns the model around the query; its nearest path to the goal says what to change.

    Needs labels only. Expect some thousand model rows a query: a neighbourhood is bred for each. Not made for few
    changes; with `max_changes`, what changes more is not offered.
    """

    supports = Supports(
        paper="Guidotti, Monreale, Ruggieri, Pedreschi, Turini, Giannotti: Local Rule-Based Explanations of Black Box "
        "Decision Systems, 2018, https://arxiv.org/abs/1805.10820",
        tier="from the description only",
        evidence="the fitness is the paper's formula: tests/baselines/test_lore.py; the authors' package lore-sa "
        "1.1.3 answers rules and no rows, and only its time was compared: docs/results/paper/lore_sa.csv",
    )

    max_changes: int | None = most_changes(None, "What changes more is not offered.")
    population: int = param(
        1000,
        "Size of a query's neighbourhood, rounded down to a multiple of four: half of it is bred to meet the goal and "
        "half not to.",
        whole(LEAST_POPULATION, MOST_POPULATION),
    )
    generations: int = param(10, "How often it is selected, crossed and mutated.", whole(1, MOST_GENERATIONS))

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.genes_ = values

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        seed = int(rng.integers(2**32))
        for index, part in in_memory(problem, int(self.population) * len(problem.space)):
            self._propose_chunk(part, index, made, seed)
        return made

    def _propose_chunk(self, problem: Problem, index: Integers, made: Proposals, seed: int) -> None:
        breeding = Breeding(problem, self.genes_, int(self.population) // 4 * 2)
        neighbours, met = breeding.evolve(int(self.generations), np.random.default_rng(seed))
        columns = Columns(problem.space)
        rules = [  # one by one: every query has a tree of its own
            apply_rules(problem, query, neighbours[query], met[query], columns, seed) for query in range(len(problem))
        ]
        counts = [len(rows) for rows in rules]
        owner = np.repeat(np.arange(len(problem)), counts)
        confirmed = problem.judge(np.concatenate(rules), owner)[0] if len(owner) else np.zeros(0, dtype=bool)
        for query, kept in enumerate(np.split(confirmed, np.cumsum(counts)[:-1])):
            valid, start = rules[query][kept], problem.start[query]
            near = neighbours[query][met[query]]
            near = near[(near != start).sum(axis=1) <= problem.max_changes]
            near = near[np.argsort(problem.space.distance(near, start), kind="stable")]
            offers = np.concatenate([valid, near])
            chosen = _distinct(offers)[: made.values.shape[1]]
            slots = index[query], slice(len(chosen))
            made.values[slots], made.offered[slots] = offers[chosen], True
            made.stage[slots] = np.where(chosen < len(valid), "rule", "neighbour")


class Breeding:
    """The neighbourhoods of all queries, bred side by side: arrays (queries, 2 groups, individuals, features).

    The first group is bred not to meet the goal (the paper's Z=), the second to meet it (Z≠). Every query is given
    the same random numbers, so that its neighbourhood does not depend on which others are explained with it.
    """

    def __init__(self, problem: Problem, genes: Values, size: int) -> None:
        self.problem, self.genes, self.size = problem, genes, size
        self.width = ranges(problem.space, genes)
        self.start = problem.start[:, None, None, :]
        shape = (len(problem), 2, size)
        self.values = np.broadcast_to(self.start, (*shape, genes.shape[1])).copy()  # LORE: the first are all the query
        self.met = np.zeros(shape, dtype=bool)

    def evolve(self, generations: int, rng: np.random.Generator) -> tuple[Floats, Booleans]:
        """Neighbours (queries, individuals, features), and whether each meets its query's goal."""
        for _ in range(generations):
            selected, met = self.select(rng)
            self.values = self.mutate(self.cross(selected, rng), rng)
            self.met = self.judge(selected, met)
        queries, features = self.problem.start.shape
        return self.values.reshape(queries, -1, features), self.met.reshape(queries, -1)

    def fitness(self) -> Floats:
        """The paper's: I[label as wanted] + (1 - distance to the query) - I[the query itself]."""
        space = self.problem.space
        categorical, codes = space.is_categorical, space.missing_codes
        at_once = categorical | (self.values == codes) | (self.start == codes)  # a number that comes or goes: its range
        away = np.where(at_once, self.values != self.start, (self.values - self.start) / self.width)
        away = away * space.prices
        numbers = int((~categorical).sum())
        mismatches = away[..., categorical].sum(axis=-1)
        euclidean = np.sqrt(np.square(away[..., ~categorical]).sum(axis=-1) / max(numbers, 1))
        distance = (mismatches + numbers * euclidean) / len(categorical)
        as_wanted = self.met == np.array([False, True])[:, None]
        return np.asarray(as_wanted + (1.0 - distance) - (away == 0).all(axis=-1))

    def select(self, rng: np.random.Generator) -> tuple[Floats, Booleans]:
        """The winners of random tournaments, each within its group."""
        group = np.arange(2)[:, None, None]
        entrants = rng.integers(self.size, size=(2, self.size, TOURNAMENT))
        winner = self.fitness()[:, group, entrants].argmax(axis=-1)
        parent = np.take_along_axis(entrants[None], winner[..., None], axis=-1)[..., 0]
        query = np.arange(len(self.values))[:, None, None]
        return self.values[query, group[..., 0], parent], self.met[query, group[..., 0], parent]

    def cross(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Pairs of neighbours in the array swap the features between two random points."""
        queries, _, _, features = values.shape
        points = np.sort(rng.integers(features + 1, size=(2, self.size // 2, 2)), axis=-1)
        position = np.arange(features)
        swapped = (points[..., :1] <= position) & (position < points[..., 1:])
        swapped &= rng.random((2, self.size // 2, 1)) < CROSSOVER
        pairs = values.reshape(queries, 2, self.size // 2, 2, features)
        return np.where(swapped[:, :, None], pairs[..., ::-1, :], pairs).reshape(values.shape)

    def mutate(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Some individuals get values of random training rows, feature by feature, as far as the limits allow."""
        queries, features = self.problem.start.shape
        position = np.flatnonzero(rng.random(2 * self.size) < MUTATION)
        anew = rng.random((len(position), features)) < MUTATION
        anew[np.arange(len(position)), rng.integers(features, size=len(position))] = True  # one at least
        drawn = self.genes[rng.integers(len(self.genes), size=anew.shape), np.arange(features)]
        owner = np.repeat(np.arange(queries), len(position))
        allowed = self.problem.limits.take(owner).project(np.tile(drawn, (queries, 1)), self.problem.start[owner])
        flat = values.reshape(queries, -1, features)
        flat[:, position] = np.where(anew, allowed.reshape(queries, -1, features), flat[:, position])
        return flat.reshape(values.shape)

    def judge(self, parents: Floats, met: Booleans) -> Booleans:
        """Whether each individual meets the goal; those equal to their parent, or to the query, need not be asked."""
        itself = (self.values == self.start).all(axis=-1)
        asked, met = (self.values != parents).any(axis=-1) & ~itself, met & ~itself
        if asked.any():
            met[asked], _ = self.problem.judge(self.values[asked], np.nonzero(asked)[0])
        return met


class Columns:
    """What a tree sees of a row: a number as its difference from the query's, a category as one column each."""

    def __init__(self, space: FeatureSpace) -> None:
        counts = np.where(space.is_categorical, np.maximum(np.diff(space.category_offsets), 1), 1)
        self.first = np.cumsum(counts) - counts  # of each feature's columns
        self.feature = np.repeat(np.arange(len(counts)), counts)
        self.code = np.arange(len(self.feature)) - self.first[self.feature]
        self.is_category = space.is_categorical[self.feature]
        # Trees see float32: differences keep its digits for what differs. Powers of two divide without rounding.
        self.unit = 2.0 ** np.round(np.log2(space.scale))

    def of(self, values: Values, origin: Floats) -> np.ndarray[Any, np.dtype[np.float32]]:
        numbers = ((values - origin) / self.unit)[..., self.feature]
        columns = np.where(self.is_category, values[..., self.feature] == self.code, numbers)
        return np.asarray(columns, dtype=np.float32)


def apply_rules(problem: Problem, query: int, neighbours: Values, met: Booleans, columns: Columns, seed: int) -> Values:
    """The query with the falsified conditions of each counterfactual rule made true, fewest changes first.

    A rule is a path of the tree that ends among neighbours that meet the goal.
    """
    start = problem.start[query]
    if not met.any():
        return neighbours[:0]
    origin = _origin(problem, query)
    seen = columns.of(neighbours, origin)
    tree = DecisionTreeClassifier(random_state=seed).fit(seen, met).tree_
    low, high = path_intervals(tree)
    # Of the neighbours at each such leaf, the one nearest to the query vouches that the path can be gone at all.
    leaf, leads = tree.apply(seen), np.flatnonzero(met)
    leads = leads[np.argsort(problem.space.distance(neighbours[leads], start), kind="stable")]
    leads = leads[np.unique(leaf[leads], return_index=True)[1]]
    low, high, witness = low[leaf[leads]], high[leaf[leads]], neighbours[leads]
    itself = columns.of(start, origin)
    falsified = np.logical_or.reduceat((itself <= low) | (itself > high), columns.first, axis=1)
    nearer = just_beyond(problem, query, low[:, columns.first] * columns.unit, high[:, columns.first] * columns.unit)
    nearer = np.where(problem.space.is_categorical | np.isnan(nearer), witness, nearer)
    # A threshold lies halfway between neighbours, the model's own boundary anywhere between them: both are tried.
    rows = np.concatenate([np.where(falsified, nearer, start), np.where(falsified, witness, start)])
    changes = (rows != start).sum(axis=1)
    order = np.lexsort((problem.space.distance(rows, start), changes))
    rows = rows[order[(changes[order] > 0) & (changes[order] <= problem.max_changes)]]
    return np.asarray(rows[_distinct(rows)])


def path_intervals(tree: Any) -> tuple[Floats, Floats]:
    """Each node's intervals, low < column <= high: the conditions on its path, joined (nodes, columns)."""
    low = np.full((tree.node_count, tree.n_features), -np.inf)
    high = np.full((tree.node_count, tree.n_features), np.inf)
    for node in np.flatnonzero(tree.children_left >= 0):  # parents come before their children
        left, right, column = tree.children_left[node], tree.children_right[node], tree.feature[node]
        low[[left, right]], high[[left, right]] = low[node], high[node]
        high[left, column] = low[right, column] = tree.threshold[node]
    return low, high


def just_beyond(problem: Problem, query: int, low: Floats, high: Floats) -> Floats:
    """The allowed value nearest to the query's within origin + (low, high], (paths, features); NaN if there is none."""
    start, origin, index = problem.start[query], _origin(problem, query), np.full(len(low), query)
    limits = problem.limits.take(index)
    grain = np.where(limits.grid.step > 0, limits.grid.step, MARGIN * problem.space.scale)
    rises = low >= start - origin
    room = np.where(limits.grid.step > 0, np.inf, 0.5 * (high - low))
    bound = origin + np.where(rises, low, high)
    best = np.full(low.shape, np.nan)
    toward = np.where(rises, np.minimum(grain, room), -grain)
    starts = np.broadcast_to(start, low.shape)
    for steps in (1.0, 0.0):  # rounding to a grid may fall short of the bound; the nearer one is kept where it does not
        trial = limits.project(np.where(np.isfinite(bound), bound + steps * toward, start), starts)
        inside = (trial - origin > low) & (trial - origin <= high)
        best = np.where(inside, trial, best)
    return best


def _origin(problem: Problem, query: int) -> Floats:
    """Where differences are counted from: the query; of a number that it lacks the mean, since its code is far away."""
    start, space = problem.start[query], problem.space
    return np.where(start == space.missing_codes, space.mean, start)


def _distinct(rows: Values) -> Integers:
    """The first of equal rows, in their order."""
    return np.sort(np.unique(rows, axis=0, return_index=True)[1])
