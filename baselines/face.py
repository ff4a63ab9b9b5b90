"""`face`: the training row that is reached from the query by the shortest way through dense regions (Poyiadzi, 2020).

Written from the paper. Training rows are the nodes of a graph that joins near ones; an edge is longer the farther apart
they are and the fewer rows lie there. Of the rows that meet the goal, with enough others around, Dijkstra's algorithm
(scipy) finds the one with the shortest way from the query.

Differences from the paper: its weight d · f(r / d), f = −log, becomes negative in wide tables; here r is the shortest
edge and f(z) = 1 − log z. Distances are Euclidean in standard deviations, 1 for another category, at the price of a
feature. Edges cannot be forbidden: up to a hundred rows, in the order of their ways, are moved within the constraints
and asked of the model. Densities by kernels, the third variant, are left out.
"""

import numpy as np
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.csgraph import dijkstra
from sklearn.neighbors import NearestNeighbors

from relax_plugin.arrays import Booleans, Floats, Values
from relax_plugin.base import Supports
from relax_plugin.baselines.common import NeighbourExplainer, valid_rows
from relax_plugin.cached import cached_property
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import one_of, param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.neighbours import Neighbours

GRAPHS = ("knn", "epsilon")
MOST_ROWS = 5_000  # training rows in the graph, evenly spaced
CHUNK = 64  # queries whose ways are looked for together
ROUNDS = (1, 9, 90)  # rows tried in turn by the queries that are still unsolved
SPARSE_SHARE = 0.05  # of the training rows have too few around them to be an answer (the paper's least density)
MOST_NEIGHBOURS = 10_000
TINY = 1e-12  # weight of an edge between rows that do not differ: an edge of weight 0 would be none
LEAST_RADIUS, MOST_RADIUS = 1e-6, 1e6


@with_parameters
class Face(NeighbourExplainer):
    """The training row of the goal with the shortest way from the query over other training rows, near each other.

    Its answers are rows that exist, where others exist, and between which and the query others lie: plausible, dense,
    and rather far. Asks the model about all training rows once, when it is fitted.
    """

    supports = Supports(
        paper="Poyiadzi, Sokol, Santos-Rodriguez, De Bie, Flach: FACE: Feasible and Actionable Counterfactual "
        "Explanations, AIES 2020, https://arxiv.org/abs/1909.09369",
        tier="from the description only",
        evidence="its ways equal those of a plain loop of Dijkstra's algorithm, and lead around a gap in the data as "
        "in the paper's pictures: tests/baselines/test_face.py; none of the paper's numbers was compared",
    )

    graph: str = param(
        "knn",
        'Which rows are joined: "knn", each with its nearest ones; "epsilon", all that are less than a radius apart.',
        one_of(GRAPHS),
    )
    neighbours: int = param(20, "How many are the nearest ones (the paper's k).", whole(1, MOST_NEIGHBOURS))
    radius: float = param(
        1.0,
        "Of the epsilon graph (the paper's ε); its unit is the median distance of a training row to the last of its "
        "nearest ones.",
        real(LEAST_RADIUS, MOST_RADIUS),
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.neighbours_ = Neighbours.of(values, MOST_ROWS)
        self.ways_ = Ways(self.space_, self.neighbours_.rows, self.graph, int(self.neighbours), float(self.radius))
        self._learn_answers()

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        for index, part in problem.parts(CHUNK):
            made.values[index], made.offered[index] = self._reached(part, n)
        made.stage[made.offered] = "path"
        made.note[:] = (
            f"none was found among the {sum(ROUNDS)} training rows of the goal with the shortest ways to them"
        )
        return made

    def _reached(self, problem: Problem, n: int) -> tuple[Floats, Booleans]:
        values, offered = Proposals.empty(problem, n).values, np.zeros((len(problem), n), dtype=bool)
        length = self.ways_.lengths(problem.start)
        met = self.neighbours_.meet(problem, np.arange(len(problem)), self.answered_.answers)
        length[~(met & self.ways_.dense)] = np.inf
        order = np.argsort(length, axis=1, kind="stable")[:, : sum(ROUNDS)]
        available = np.isfinite(length).sum(axis=1)
        for near, owner in self._in_rounds(order, available, (max(n, ROUNDS[0]), *ROUNDS[1:]), offered):
            rows, owner = valid_rows(problem, near, owner, problem.max_changes)
            for query, one in zip(owner, rows, strict=True):  # in the order of their ways
                slot = int(offered[query].sum())
                if slot < n and not (values[query, :slot] == one).all(axis=1).any():
                    values[query, slot], offered[query, slot] = one, True
        return values, offered


class Ways:
    """The graph of distinct training rows, and how long the ways from other rows to each of them are.

    `graph`, `neighbours` and `radius` are as for `Face`. A row is `dense` if its nearest ones are not farther than
    those of nearly all rows; `shortest` is the length of the shortest edge.
    """

    def __init__(self, space: FeatureSpace, rows: Values, graph: str, neighbours: int, radius: float) -> None:
        self.space, self.count = space, max(1, min(neighbours, len(rows) - 1))
        self.rows = rows
        away, _ = self.index.kneighbors(self._columns(rows))  # the nearest to each is the row itself
        last = away[:, -1]
        self.dense = last <= np.quantile(last, 1.0 - SPARSE_SHARE)
        self.reach = radius * float(np.median(last)) if graph == "epsilon" else None
        lengths = away[:, 1:][away[:, 1:] > 0]
        self.shortest = float(lengths.min()) if len(lengths) else 1.0
        edges = self._edges(rows, self.count + 1)
        self.edges = edges.maximum(edges.T)  # joined both ways

    @cached_property
    def index(self) -> NearestNeighbors:
        count = min(self.count + 1, len(self.rows))
        return NearestNeighbors(n_neighbors=count).fit(self._columns(self.rows))

    def lengths(self, start: Values) -> Floats:
        """Of the shortest ways from each of these rows to each row of the graph (starts, rows); infinite if none."""
        total, starts = self.edges.shape[0], len(start)
        first = self._edges(start, self.count)
        whole = vstack([self.edges, first], format="csr")
        whole = csr_matrix((whole.data, whole.indices, whole.indptr), shape=(total + starts, total + starts))
        found = dijkstra(whole, directed=True, indices=np.arange(total, total + starts))
        return np.asarray(found[:, :total])

    def _edges(self, values: Values, count: int) -> csr_matrix:
        columns = self._columns(values)
        if self.reach is None:
            edges = self.index.kneighbors_graph(columns, min(count, self.index.n_samples_fit_), mode="distance")
        else:
            edges = self.index.radius_neighbors_graph(columns, self.reach, mode="distance")
        length = np.maximum(edges.data, 0.0)
        # FACE, equations 2 and 3: d · f(r / d); an edge to a row at no distance is the shortest there can be.
        edges.data = np.where(length > 0, length * (1.0 + np.log(np.maximum(length / self.shortest, 1.0))), TINY)
        return edges.tocsr()

    def _columns(self, values: Values) -> Floats:
        """Columns whose Euclidean distance is in standard deviations, at the prices of the features."""
        weights = [self.space.prices[~self.space.is_categorical]]
        for j in np.flatnonzero(self.space.is_categorical):
            weights.append(np.full(len(self.space.features[j].categories), self.space.prices[j] / np.sqrt(2.0)))
        return np.asarray(self.space.encoded(values) * np.concatenate(weights))
