"""`growing-spheres`: the nearest row that turns the model in ever wider shells around a query (Laugel et al., 2017).

Written from the paper. Generation (its algorithm 1): rows are drawn evenly in a ball, which is halved while some meet
the goal. Then shells of that width grow around it until one holds such a row, and the nearest is taken. Sparsification
(algorithm 2): the smallest change is undone, then the next, until one cannot be.

Differences from the paper: lengths are in standard deviations, divided by a feature's price. A feature that may move
only one way is drawn on that side. Rows are moved onto the grid and within the constraints before the model is asked.
In a shell of radius r, r categories are expected to be drawn anew, half of them at most. Each row changes at most
`max_changes` features, a random choice. A shell has 300 rows (the authors' program: 10,000), all queries side by side.
"""

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports, most_changes
from relax_plugin.baselines.common import in_memory
from relax_plugin.parameters import param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots

MOST_SAMPLES = 1_000_000
LEAST_RADIUS, MOST_RADIUS = 1e-9, 1e6  # standard deviations
HALVINGS = 30  # of the first ball: then it is narrower than single precision can tell
SHELLS = 60  # at most; there are fewer where the widest one reaches every corner of what is allowed
MOST_CATEGORIES = 0.5  # share of the categories that are drawn anew


@with_parameters
class GrowingSpheres(CounterfactualExplainer):
    """Rows drawn around the query, nearer and nearer or farther and farther, then as few of their changes as it takes.

    Needs labels only, and no training rows but for their standard deviations. Expect some hundred model rows for each
    shell of a query.
    """

    supports = Supports(
        paper="Laugel, Lesot, Marsala, Renard, Detyniecki: Inverse Classification for Comparison-based "
        "Interpretability in Machine Learning, 2017, https://arxiv.org/abs/1712.08443",
        tier="reproduced in part",
        evidence="the shells are filled evenly, and on a linear model the row found is nearly the nearest there is: "
        "tests/baselines/test_growing_spheres.py; none of the paper's numbers was compared",
    )

    max_changes: int | None = most_changes(None, "The rows drawn change no more features than that.")
    samples: int = param(300, "Rows drawn in each ball and shell (the paper's n).", whole(1, MOST_SAMPLES))
    radius: float = param(
        1.0,
        "Of the first ball, and width of the shells if nothing is found in it (the paper's η), in standard deviations.",
        real(LEAST_RADIUS, MOST_RADIUS),
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        """Nothing is learned but the space."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        seed = int(rng.integers(2**32))

        def solve(part: Problem) -> Proposals:
            made = Proposals.empty(part, 1)
            for index, piece in in_memory(part, int(self.samples) * part.start.shape[1]):
                search = _Shells(piece, int(self.samples), float(self.radius), np.random.default_rng(seed))
                values, met = search.run()
                some = np.flatnonzero(met)
                values[some] = sparsified(piece, values[some], some)
                made.values[index, 0], made.offered[index, 0] = values, met
            made.stage[made.offered] = "sphere"
            return made

        made = fill_slots(problem, n, solve)
        made.note[:] = "none was found among the rows drawn in shells up to the farthest that is allowed"
        return made


class _Shells:
    """The balls and shells of many queries, side by side.

    Every query is given the same random numbers, so that its answer does not depend on which others are explained with
    it.
    """

    def __init__(self, problem: Problem, samples: int, radius: float, rng: np.random.Generator) -> None:
        self.problem, self.samples, self.radius, self.rng = problem, samples, radius, rng
        space = problem.space
        self.unit = space.scale / space.prices
        self.origin = np.where(problem.start == space.missing_codes, space.mean, problem.start)
        self.low, self.high = problem.span
        self.numbers = ~space.is_categorical & (self.low < self.high)  # (queries, features) that may move
        self.categories = space.is_categorical & ~np.broadcast_to(problem.limits.frozen, problem.start.shape)
        away = np.maximum(np.abs(self.low - self.origin), np.abs(self.high - self.origin)) / self.unit
        reach = np.sqrt(np.square(np.where(self.numbers, away, 0.0)).sum(axis=1))
        self.reach = np.maximum(reach, self.categories.sum(axis=1))  # the widest shell that can bring anything new

    def run(self) -> tuple[Floats, Booleans]:
        queries = len(self.problem)
        values, met = self.problem.start.copy(), np.zeros(queries, dtype=bool)
        inner, width = np.zeros(queries), np.full(queries, self.radius)
        active = np.arange(queries)
        for _ in range(HALVINGS):  # algorithm 1: the ball is halved while it has rows that meet the goal
            found = self._draw(active, inner, width, values, met)
            active = active[found]
            if len(active) == 0:
                break
            width[active] /= 2
        inner, active = width.copy(), np.arange(queries)  # algorithm 1: from the ball that has none outwards
        for _ in range(SHELLS):
            active = active[inner[active] < self.reach[active]]
            if len(active) == 0:
                break
            self._draw(active, inner, inner + width, values, met)
            inner[active] += width[active]
            active = active[~met[active]]  # one of a ball that was halved is good enough where its shell has none
        return values, met

    def _draw(self, active: Integers, inner: Floats, outer: Floats, values: Floats, met: Booleans) -> Booleans:
        rows = self.rows(active, inner[active], outer[active])
        owner = np.repeat(active, self.samples)
        good = np.flatnonzero((rows != self.problem.start[owner]).any(axis=1))
        hit, _ = self.problem.judge(rows[good], owner[good]) if len(good) else (np.zeros(0, dtype=bool), None)
        rows, owner = rows[good[hit]], owner[good[hit]]
        away = np.square(self.problem.space.distances(rows, self.problem.start[owner])).sum(axis=1)
        order = np.lexsort((away, owner))
        best = order[np.unique(owner[order], return_index=True)[1]]
        values[owner[best]], met[owner[best]] = rows[best], True
        return np.isin(active, owner)

    def rows(self, active: Integers, inner: Floats, outer: Floats) -> Values:
        """Rows drawn evenly between two radii of each query, within the limits (queries * samples, features)."""
        shape = (len(active), self.samples, self.origin.shape[1])
        moves = self._chosen(active)
        direction = np.where(moves & self.numbers[active][:, None], self.rng.normal(size=shape[1:]), 0.0)
        one_way = np.where(self.low >= self.origin, 1.0, np.where(self.high <= self.origin, -1.0, 0.0))[active][:, None]
        direction = np.where(one_way == 0.0, direction, one_way * np.abs(direction))
        length = np.sqrt(np.square(direction).sum(axis=2, keepdims=True))
        dimensions = np.maximum((direction != 0).sum(axis=2), 1)
        between = (inner / outer)[:, None] ** dimensions  # evenly by volume, whatever the number of dimensions
        share = self.rng.random(self.samples)
        away = outer[:, None] * (between + share * (1.0 - between)) ** (1.0 / dimensions)
        moved = away[..., None] * direction / np.where(length > 0, length, 1.0) * self.unit
        rows = np.where(direction != 0, self.origin[active][:, None] + moved, self.problem.start[active][:, None])
        rows = self._with_categories(rows, active, moves, outer).reshape(-1, shape[2])
        return self.problem.within_limits(rows, np.repeat(active, self.samples))

    def _chosen(self, active: Integers) -> Booleans:
        able = self.numbers[active] | self.categories[active]
        lot = np.where(able[:, None], self.rng.random((self.samples, able.shape[1])), np.inf)
        rank = np.argsort(np.argsort(lot, axis=2), axis=2)
        return np.asarray((rank < self.problem.max_changes) & able[:, None])

    def _with_categories(self, rows: Floats, active: Integers, moves: Booleans, outer: Floats) -> Floats:
        space = self.problem.space
        count = np.maximum((moves & self.categories[active][:, None]).sum(axis=2), 1)
        chance = np.minimum(outer[:, None] / count, MOST_CATEGORIES)
        for j in np.flatnonzero(space.is_categorical):
            drawn = self.rng.integers(max(len(space.features[j].categories), 1), size=self.samples)
            anew = (self.rng.random(self.samples) < chance) & moves[..., j]
            rows[..., j] = np.where(anew, drawn, rows[..., j])
        return rows


def sparsified(problem: Problem, values: Values, owner: Integers) -> Values:
    """Algorithm 2: undo the smallest change, and the next, until the goal would be missed; all rows side by side."""
    values, start = values.copy(), problem.start[owner]
    active = np.flatnonzero((values != start).sum(axis=1) > 1)
    while len(active):
        away = problem.space.distances(values[active], start[active])
        smallest = np.argmin(np.where(values[active] != start[active], away, np.inf), axis=1)
        trial = values[active]
        trial[np.arange(len(active)), smallest] = start[active, smallest]
        met, _ = problem.judge(trial, owner[active])
        values[active[met]] = trial[met]
        active = active[met]
        active = active[(values[active] != start[active]).sum(axis=1) > 1]
    return values
