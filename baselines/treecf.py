"""`treecf`: the genetic or the exact search of the package treecf (Wlazło, 2026), for tree ensembles of two classes.

The package searches, in Rust, one query at a time. It gets the trees as this package reads them, standard deviations
and prices as units of distance, the bounds, directions and grids of the query, and the score that the goal needs. It
knows no rules between columns, no plausibility and no `max_changes`. Where it changes too much, it is asked again for
each set of so many features if these are few, or for those that it moved most, and changes are undone. Where rules,
plausibility or further models deny what it finds, it is asked for a score farther beyond the goal.
"""

import math
import warnings
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats, Values
from relax_plugin.baselines.common import TreeExplainer
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import import_extra
from relax_plugin.features import FeatureSpace
from relax_plugin.parameters import one_of, param, real, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import fill_slots
from relax_plugin.search.polish import undo
from relax_plugin.trees.ensemble import Trees

BACKENDS = ("genetic", "exact")
BEYOND = 1e-7  # of the score, by which the second class has to win: equal scores are the first one's
MOST_SETS = 20  # of features, asked about one by one where more than `max_changes` of them were changed
FURTHER = (0.2, 0.5, 1.0)  # shares of the way beyond the goal, where further models or conditions deny what is nearest
OUTWARDS = (0.0, 0.5, 1.0)  # steps of a grid by which a row is moved on where rounding takes it back
LEAST_SECONDS, MOST_SECONDS = 1e-3, 86_400.0
MOST_SPARSITY = 1e6


@with_parameters
class TreeCF(TreeExplainer):
    """The package treecf's search for the least distance in a tree ensemble: near rows, quickly, or proved ones.

    What the model answers on the way is read off its trees: a query costs no more model rows than its proof. The stage
    of an answer says "treecf, optimal" where the exact search proved that nothing is nearer (for its first question).
    """

    supports = replace(
        TreeExplainer.supports,
        categorical=False,  # its own categories are codes of a model, not sets of positions behind an encoder
        extra="treecf",
        paper="Wlazło: treecf: constrained, threshold-aware counterfactual explanations for tree ensembles, 2026, "
        "https://doi.org/10.5281/zenodo.22069503",
        tier="reproduced",
        evidence="treecf 0.3.2 itself runs; its distances equal those of the package asked directly, and where it "
        "proves one, those of mace: tests/baselines/test_treecf.py",
    )

    backend: str = param("genetic", "Which of treecf's searches.", one_of(BACKENDS))
    sparsity_weight: float = param(
        0.0,
        "What a change costs beside its length, in standard deviations: treecf's own, which is 0.",
        real(0, MOST_SPARSITY),
    )
    seconds_per_row: float = param(
        10.0,
        "Time limit of each search: the exact one gives the best row known when it ends.",
        real(LEAST_SECONDS, MOST_SECONDS),
    )

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        reason = super().skip_reason(blackbox, space)
        if reason is None and blackbox.classes is not None and len(blackbox.classes) != 2:
            return f"it explains models of two classes, and this one has {len(blackbox.classes)}"
        return reason

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        _package()
        super()._fit(values, rng)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return fill_slots(problem, n, self._solve)

    def _solve(self, problem: Problem) -> Proposals:
        made = Proposals.empty(problem, 1)
        for index, part, trees in self._by_gap(problem, made):
            rows, offered, proved = self._search(part, trees, 0.0)
            for share in FURTHER if part.conditions or part.also else ():
                met = offered.copy()
                if met.any():
                    met[offered], _ = part.judge(rows[offered], np.flatnonzero(offered))
                left = np.flatnonzero(~met)
                if len(left) == 0:
                    break
                others, better, _ = self._search(part.part(left), trees, share)
                rows[left[better]], offered[left[better]], proved[left[better]] = others[better], True, False
            made.values[index, 0], made.offered[index, 0] = rows, offered
            made.stage[index, 0] = np.where(proved, "treecf, optimal", "treecf")
            made.note[index] = f"none was found by treecf's {self.backend} search in {self.seconds_per_row:g} s"
        made.stage[~made.offered] = ""
        return made

    def _search(self, problem: Problem, trees: Trees, further: float) -> tuple[Floats, Booleans, Booleans]:
        """What treecf finds for each query, whether it may be offered, and whether it is proved to be the nearest.

        With `further` the score has to go on beyond the goal by that share of the way to it.
        """
        ensemble = handed_over(trees, problem.space)
        rows, found = problem.start.copy(), np.zeros(len(problem), dtype=bool)
        proved = found.copy()
        low, high = problem.span
        for query in range(len(problem)):  # one by one: treecf compiles the constraints of each
            start, able = problem.start[query], (low[query] != high[query]) | (low[query] != problem.start[query])
            wanted = wanted_scores(problem, trees, query, further)
            one = self._asked(_explainer(problem, ensemble, query, able), start, *wanted)
            if one is None:
                continue
            moved = problem.space.distances(one.x_cf[None], start[None])[0]
            proved[query] = one.proof == "optimal"
            if (moved > 0).sum() > problem.max_changes:
                sets = lever_sets(moved, able, problem.max_changes)
                others = [self._asked(_explainer(problem, ensemble, query, some), start, *wanted) for some in sets]
                few = [other for other in others if other is not None]
                one, proved[query] = min(few, key=lambda other: float(other.distance), default=one), False
            rows[query], found[query] = np.where(one.x_cf == start, start, one.x_cf), True
        raw, (rows, met) = rows, self._delivered(problem, rows, found)
        proved &= (rows == raw).all(axis=1)  # a row that was rounded is another one
        some = np.flatnonzero(met)
        rows[some] = undo(problem, rows[some], some, down_to=problem.max_changes)
        few = (rows != problem.start).sum(axis=1) <= problem.max_changes
        return rows, met & few, proved

    def _delivered(self, problem: Problem, rows: Floats, found: Booleans) -> tuple[Floats, Booleans]:
        """The rows on the grid and in the dtypes of their cells, and whether the trees say that the goal is met.

        treecf passes a threshold by the last bit of a float64, which rounding may take back: then the next value that a
        cell can hold, away from the query, is taken.
        """
        grid, outward = problem.limits.grid, np.sign(rows - problem.start)
        spacing = np.select([grid.precision == 2, grid.precision == 4], [2.0**-10, 2.0**-23], 2.0**-52) * np.abs(rows)
        grain = np.where(grid.step > 0, grid.step, spacing)
        best, met = rows.copy(), np.zeros(len(problem), dtype=bool)
        for share in OUTWARDS:
            left = np.flatnonzero(found & ~met)
            if len(left) == 0:
                break
            trial = problem.within_limits((rows + share * outward * grain)[left], left)
            best[left], met[left] = trial, problem.goal.take(left).met(self.answer(trial))
        return best, met

    def _asked(self, explainer: Any, row: Floats, lower: float, upper: float) -> Any:
        package = _package()
        with warnings.catch_warnings():  # that a search ended before its proof, which its answer says too
            warnings.simplefilter("ignore", package.TreecfWarning)
            answer = explainer.explain(
                row,
                package.Target.raw(range=(lower, upper)),
                backend=self.backend,
                time_budget_s=float(self.seconds_per_row),
                sparsity_weight=float(self.sparsity_weight),
                seed=int(self.seed) % 2**32,
            )
        return answer if isinstance(answer, package.Counterfactual) else None


def handed_over(trees: Trees, space: FeatureSpace) -> Any:
    """The ensemble in treecf's form: one score, of the second class against the first."""
    from treecf.ir.model import EnsembleIR, Link, Node, SplitOp, Tree

    scores = trees.leaf_scores.astype(np.float64)
    base = trees.base.astype(np.float64)
    if scores.shape[1] == 2:
        scores, base = scores[:, 1:] - scores[:, :1], base[1:] - base[:1]
    made = []
    for root in trees.roots.tolist():
        order, nodes = [root], []
        for place, node in enumerate(order):  # which grows on the way: children come behind their parents
            feature = int(trees.feature[node])
            if feature < 0:
                value = float(scores[trees.leaf[node], 0]) / trees.divisor
                nodes.append(Node(place, None, None, None, None, None, None, value))
            else:
                left = len(order)
                order += [int(trees.left[node]), int(trees.right[node])]
                test = float(trees.threshold[node])
                nodes.append(Node(place, feature, test, SplitOp.LE, True, left, left + 1, None))
        made.append(Tree(tuple(nodes)))
    names = tuple(f"f{j}" for j in range(len(space)))
    return EnsembleIR(tuple(made), float(base[0]) / trees.divisor, Link.IDENTITY, len(space), names, {})


def wanted_scores(problem: Problem, trees: Trees, query: int, further: float = 0.0) -> tuple[float, float]:
    """Between which scores of the second class against the first the goal of a query is met, or is so by far."""
    goal, decision = problem.goal, trees.decision
    assert goal.wanted is not None
    second = bool(goal.wanted[query, 1])
    cut = decision.cut if decision.decide == "above" else 0.0
    least = goal.min_probability if goal.least is None else float(goal.least[query])
    needed = -math.inf
    if least is not None:
        chance = min(max(least, 1e-9), 1 - 1e-9)
        needed = 2 * chance - 1 if decision.link == "identity" else math.log(chance / (1 - chance)) / decision.slope
        needed += BEYOND
    if goal.least is None:  # else the class need not win
        needed = max(needed, cut + BEYOND if second else -cut)
    if further:
        scores = trees.scores(problem.start[[query]])[0].astype(np.float64)
        here = float(scores[1] - scores[0] if len(scores) == 2 else scores[0])
        needed += further * max(needed - (here if second else -here), 0.0)
    return (needed, math.inf) if second else (-math.inf, -needed)


def lever_sets(moved: Floats, able: Booleans, most: int) -> list[Booleans]:
    """Sets of so many features that may change: all there are, or the one of those that moved most."""
    features = np.flatnonzero(able)
    sets: list[Any] = [np.argsort(-moved, kind="stable")[:most]]
    if math.comb(len(features), most) <= MOST_SETS:
        sets = [list(some) for some in combinations(features, most)]
    return [np.isin(np.arange(len(moved)), some) for some in sets]


def _explainer(problem: Problem, ensemble: Any, query: int, able: Booleans) -> Any:
    package, space, start = _package(), problem.space, problem.start[query]
    low, high = problem.span[0][query], problem.span[1][query]
    constraints = []
    for j, name in enumerate(ensemble.feature_names):
        if not able[j]:
            constraints.append(package.Freeze(name))
        else:  # a cell outside of its bounds may stay where it is
            constraints.append(package.Range(name, float(min(low[j], start[j])), float(max(high[j], start[j]))))
    step, anchor = problem.limits.grid.step, problem.limits.grid.anchor
    return package.Explainer(
        ensemble,
        constraints=constraints,
        normalizers=space.scale,
        weights=dict(zip(ensemble.feature_names, space.prices.tolist(), strict=True)),
        value_policy={
            name: package.Grid(float(step[j]), float(anchor[j]))
            for j, name in enumerate(ensemble.feature_names)
            if step[j] > 0
        },
    )


def _package() -> Any:
    return import_extra("treecf", "the method 'treecf' needs treecf", "treecf")
