"""`feat-tweak`: the cheapest path of a single tree that turns the whole ensemble (Tolomei et al., KDD 2017).

Written from the paper: of every tree that votes for the class to leave, every path to a wanted class is tried. The
tests that the query fails are passed by a margin ε, and the whole ensemble decides.

Differences from the paper: each query has the cheapest row over several ε. (Of seven single ε and four lists, tried on
training rows of four tree tasks, this list is the nearest of the most valid ones.) A feature tested twice gets the
interval of both tests, and a margin is at most half of it. Costs are L1 in standard deviations, or L0 first. Values
move onto the grid and within the constraints; a path that is impossible there is left out. In boosting a leaf votes for
the class that its score favours, or, with more classes, for a wanted one favoured over the class to leave. A missing
number goes the way of each test; a path may need it filled in. Each margin tries another of the allowed categories.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.base import most_changes
from relax_plugin.baselines.common import TreeExplainer, in_memory
from relax_plugin.errors import InputError
from relax_plugin.limits import Limits
from relax_plugin.parameters import one_of, param, real_number, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.trees.cells import allowed_categories
from relax_plugin.trees.ensemble import Trees

EPSILONS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # standard deviations
EPSILON_RANGE = 1e-6, 1e6  # standard deviations
COSTS = ("distance", "changes")
FIRST_ROUND = 4  # paths a query asks about at first, the cheapest; twice as many in each further round


def _check_epsilon(name: str, value: Any) -> None:
    margins = epsilons(value)
    if not margins:
        raise InputError(f"{name} is {value!r}, but must be a number above 0, or several of them.")
    several = isinstance(value, tuple | list | np.ndarray)
    for position, margin in enumerate(margins):
        real_number(f"{name} is {value!r}, and number {position} of it" if several else name, margin, *EPSILON_RANGE)


@with_parameters
class FeatTweak(TreeExplainer):
    """Moves a query along the paths of single trees, cheapest first, until the ensemble answers as wanted.

    Sparse, since a path tests few features; not always successful, since no two trees are turned on purpose.
    """

    supports = replace(
        TreeExplainer.supports,
        paper="Tolomei, Silvestri, Haines, Lalmas: Interpretable Predictions of Tree-based Ensembles via Actionable "
        "Feature Tweaking, KDD 2017, https://arxiv.org/abs/1706.06691",
        tier="from the description only",
        evidence="its rows equal those of a loop over the paper's paths: tests/baselines/test_feat_tweak.py; none "
        "of the paper's numbers was compared",
    )

    max_changes: int | None = most_changes(None, "Paths that need more are left out.")
    epsilon: float | tuple[float, ...] = param(
        EPSILONS,
        "By how many standard deviations a test is passed (the paper's ε); of several, each query has the cheapest "
        "that works. Wider margins turn more trees at once: more queries are solved, further away. Boosting of many "
        "small scores needs them: no single path outweighs a large margin. One ε asks fewer model rows than several.",
        _check_epsilon,
    )
    cost: str = param(
        "distance",
        'What is cheap: "distance", near in L1, or "changes", few of them and then near (the paper tries these and '
        "others).",
        one_of(COSTS),
    )

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made = Proposals.empty(problem, n)
        made.note[:] = "none was found on the paths of single trees"
        margins = epsilons(self.epsilon)
        for index, alike, trees in self._by_gap(problem, made):
            for place, part in in_memory(alike, len(trees.leaf_tree) * len(problem.space) * len(margins)):
                rows, owner = tweaked(trees, part, margins, self.cost)
                values, offered = _ask_cheapest_first(part, rows, owner, n)
                made.values[index[place]], made.offered[index[place]] = values, offered
        made.stage[made.offered] = "path"
        return made


def epsilons(epsilon: Any) -> tuple[Any, ...]:
    """One margin or several, as several."""
    return tuple(epsilon) if isinstance(epsilon, tuple | list | np.ndarray) else (epsilon,)


def tweaked(trees: Trees, problem: Problem, margins: tuple[float, ...], cost: str) -> tuple[Values, Integers]:
    """The ε-instances of all queries that keep the constraints: rows and their owners, cheapest first for each."""
    low, high = trees.boxes
    start, limits = problem.start, problem.limits
    speaks = evidence(trees, problem)  # (queries, leaves)
    reached = np.take_along_axis(speaks, trees.leaves(start), axis=1)  # (queries, trees)
    owner, leaf = np.nonzero((speaks > 0) & (reached <= 0)[:, trees.leaf_tree])
    fails = (start[owner] <= low[leaf]) | (start[owner] > high[leaf])
    for j, met in trees.sets.items():
        fails[:, j] = ~met[leaf, start[owner, j].astype(np.int64)]
    possible = (fails.sum(axis=1) <= problem.max_changes) & ~(fails & _frozen(problem)[owner]).any(axis=1)
    possible &= np.asarray((low < high).all(axis=1))[leaf]
    epsilon = np.repeat(np.asarray(margins, dtype=np.float64), possible.sum())[:, None]
    each = np.tile(np.flatnonzero(possible), len(margins))  # every path once for every margin
    owner, leaf, fails = owner[each], leaf[each], fails[each]
    turn = np.repeat(np.arange(len(margins)), possible.sum())
    chosen = {j: _categories(met, limits, start, j, owner, leaf, turn) for j, met in trees.sets.items()}
    low, high, start, limits = low[leaf], high[leaf], start[owner], limits.take(owner)
    rises = start <= low
    bound = np.where(fails, np.where(rises, low, high), start)
    with np.errstate(invalid="ignore"):
        room = np.where(fails, 0.5 * (high - low), np.inf)
    values, inside = start.copy(), ~fails
    for j, new in chosen.items():
        values[:, j] = np.where(fails[:, j] & ~np.isnan(new), new, values[:, j])
        inside[:, j] |= ~np.isnan(new)
    fails = fails & ~np.isin(np.arange(start.shape[1]), list(chosen))
    # A margin of ε; where the grid rounds it back over the threshold, or on past the interval, the next grid value.
    for margin in (np.minimum(epsilon * problem.space.scale, room), limits.grid.step):
        trial = limits.project(np.where(fails, bound + np.where(rises, margin, -margin), start), start)
        better = fails & ~inside & (trial > low) & (trial <= high)
        values, inside = np.where(better, trial, values), inside | better
    reachable = inside.all(axis=1)
    values, owner = values[reachable], owner[reachable]
    changes = problem.changed(values, owner).sum(axis=1) if cost == "changes" else np.zeros(len(owner))
    # By value last: rows that several paths or margins lead to then lie side by side.
    order = np.lexsort((*values.T, problem.distance(values, owner), changes, owner))
    return values[order], owner[order]


def _categories(
    met: Booleans, limits: Limits, start: Values, j: int, owner: Integers, leaf: Integers, turn: Integers
) -> Floats:
    """An allowed category of a feature with which each leaf is met, another one at each turn; NaN if there is none."""
    count = met.shape[1]
    allowed = ~np.isnan(allowed_categories(limits.of_feature(j), start[:, j], count))
    allowed &= np.arange(count) != start[:, j, None]
    fits = met[leaf] & allowed[owner]
    several = fits.sum(axis=1)
    rank = np.cumsum(fits, axis=1) - 1
    place = (fits & (rank == (turn % np.maximum(several, 1))[:, None])).argmax(axis=1)
    return np.where(several > 0, place.astype(np.float64), np.nan)


def evidence(trees: Trees, problem: Problem) -> Floats:
    """How much each leaf speaks for a wanted class and against the class to leave (queries, leaves)."""
    scores = trees.leaf_scores.astype(np.float64)
    if scores.shape[1] == 1:  # one score for two classes: below 0 it speaks for the first
        scores = np.column_stack([-scores, scores]) / 2
    wanted, current = problem.goal.wanted, problem.before.output.astype(int)
    assert wanted is not None
    left_out = np.zeros_like(wanted)
    left_out[np.arange(len(current)), current] = True
    # A query of the wanted class that lacks probability: what speaks for the others is to be left.
    left_out = np.where(wanted[np.arange(len(current)), current][:, None], ~wanted, left_out)
    best = np.full((len(wanted), len(scores)), -np.inf)
    worst = best.copy()
    for position, score in enumerate(scores.T):
        best = np.where(wanted[:, [position]], np.maximum(best, score), best)
        worst = np.where(left_out[:, [position]], np.maximum(worst, score), worst)
    return np.asarray(best - worst)


def _frozen(problem: Problem) -> Booleans:
    low, high = problem.span
    return np.asarray((low == problem.start) & (high == problem.start))


def _ask_cheapest_first(problem: Problem, rows: Values, owner: Integers, n: int) -> tuple[Floats, Booleans]:
    made = Proposals.empty(problem, n)
    values, offered = made.values, made.offered
    if len(owner):
        new = np.r_[True, (np.diff(owner) != 0) | (rows[1:] != rows[:-1]).any(axis=1)]  # equal rows lie side by side
        rows, owner = rows[new], owner[new]
    first = np.searchsorted(owner, np.arange(len(problem)))
    rank = np.arange(len(owner)) - first[owner]
    done, size = 0, max(FIRST_ROUND, 2 * n)
    filled = np.zeros(len(problem), dtype=np.int64)
    while done < rank.max(initial=-1) + 1:
        asked = np.flatnonzero((rank >= done) & (rank < done + size) & (filled[owner] < n))
        done, size = done + size, 2 * size
        if len(asked) == 0:
            continue
        met, _ = problem.judge(rows[asked], owner[asked])
        good = asked[met]
        slot = filled[owner[good]] + np.arange(len(good)) - np.searchsorted(owner[good], owner[good])
        fits = slot < n
        values[owner[good[fits]], slot[fits]] = rows[good[fits]]
        offered[owner[good[fits]], slot[fits]] = True
        filled = offered.sum(axis=1)
    return values, offered
