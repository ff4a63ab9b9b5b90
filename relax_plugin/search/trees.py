"""Tree ensembles as the oracle of a search: rows found in them need no model evaluations but the confirmation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.problem import FROM_TREES, Problem, Proposals
from relax_plugin.search.candidates import Candidates
from relax_plugin.search.neighbours import AnsweredRows
from relax_plugin.trees.masks import NoMasksError
from relax_plugin.trees.profiles import TreeProfiles
from relax_plugin.trees.readers import read_trees
from relax_plugin.trees.search import NONE

CHECKED = 32  # training rows whose labels, and not their probabilities alone, must be those of the trees
MOST_WITHOUT_NUMBA = 50_000  # cells times scores, above which numpy takes longer than asking the model
AS_READ = 1e-6  # by which probabilities, and numbers relatively, may differ


def read_profiles(blackbox: BlackBox, known: tuple[Values, Answer]) -> tuple[TreeProfiles | None, str]:
    """The profiles of the model's trees, or None and why not; "" if it has none that can be read.

    `known` are rows and the model's answers to them, which those of the trees must equal.
    """
    space = blackbox.space
    assert space is not None
    try:
        trees = read_trees(blackbox.model, space) if blackbox.trees is None else blackbox.trees.trees
    except UnsupportedError:
        return None, ""
    if not trees.additive:
        return None, "the answer of its trees is a median"
    values, answer = known
    sure = np.flatnonzero(~trees.unknown(values))
    values, answer = values[sure], answer.take(sure)
    same = np.array_equal(np.asarray(trees.decision.classes), np.asarray(blackbox.classes))
    if same and trees.decision.classes is None:
        same = np.allclose(trees.labels(values), answer.output, rtol=AS_READ)
    elif same:
        some = slice(min(CHECKED, (len(values) + 1) // 2))
        same = bool((trees.labels(values[some]) == answer.output[some]).all())
        if answer.scores is not None and blackbox.has_probabilities:
            same = same and np.allclose(trees.probabilities(values), answer.scores, rtol=0.0, atol=AS_READ)
    if not same:
        return None, "its trees do not answer as it does"
    try:
        profiles = TreeProfiles.of(trees, space)
    except NoMasksError as reason:
        return None, str(reason)
    if profiles.kernel is None and profiles.masks.cells * profiles.masks.outputs > MOST_WITHOUT_NUMBA:
        return None, f"its trees tell {profiles.masks.cells:,} cells apart, for which numba is needed (`[fast]`)"
    return profiles, ""


@dataclass(frozen=True)
class TreeSolver:
    """Counterfactuals found in the trees of a model; another solver looks for those that are not found there.

    Parameters
    ----------
    profiles : TreeProfiles
    otherwise : callable
        The solver for queries whose best counterfactual in the trees does not keep what else is required, such as
        rules, and for those that the trees cannot be asked about.
    by_predict : bool
        Whether labels come from `predict` at every question from the beginning.
    answered : AnsweredRows, optional
        Training rows whose changes are put back for a query that is unsolved.
    natural : array, optional
        The steps that people count each number in.
    thorough : bool
    """

    profiles: TreeProfiles
    otherwise: Callable[[Problem], Proposals]
    by_predict: bool
    answered: AnsweredRows | None = None
    natural: Floats | None = None
    thorough: bool = False

    def solve(self, problem: Problem) -> Proposals:
        """One counterfactual for each query, or its closest attempt."""
        # Queries that come again to be asked about by `predict` are those whose answers the model did not confirm.
        if problem.blackbox.strict != self.by_predict:
            return self.otherwise(problem)
        made, found = Proposals.empty(problem, 1), self.profiles.find(problem, self.natural, self.near, self.thorough)
        owner = np.flatnonzero(found.solved)
        # What is best of all rows is best of those that may be delivered, too, if it is one of them.
        if problem.also:
            found.solved[owner] = problem.judge(found.values[owner], owner)[0]
        else:
            found.solved[owner] = problem.admits(found.values[owner], owner)
        made.values[:, 0] = found.values
        made.stage[found.solved, 0] = FROM_TREES
        made.offered[:, 0] = made.minimal[:, 0] = found.solved
        for query in np.flatnonzero(~found.solved & (found.enough < NONE)):
            made.note[query] = f"none was found within {problem.max_changes} changes; {found.enough[query]} would do"
        other = np.zeros(len(problem), dtype=bool)
        if problem.conditions or problem.also:
            other = ~found.solved
        left = np.flatnonzero(other | ~self.profiles.masks.knows(problem.start))
        if len(left):
            made.put(left, self.otherwise(problem.part(left)))
        return made

    def near(self, problem: Problem, count: int) -> tuple[Values, Integers]:
        """Near training rows that meet the goals of queries, so many for each, and whose they are."""
        if self.answered is None or len(self.answered.neighbours) == 0:
            return problem.start[:0], np.zeros(0, dtype=np.int64)
        order, available = self.answered.nearest(problem, count)
        query, place = np.nonzero(np.arange(order.shape[1]) < available[:, None])
        rows = self.answered.neighbours.rows[order[query, place]]
        return problem.limits.take(query).project(rows, problem.start[query]), query


@dataclass(frozen=True)
class TreeRows:
    """Proposes what meets the goal in the trees, whatever else is required: rules, plausibility, other models."""

    profiles: TreeProfiles
    name: str = FROM_TREES

    def propose(self, candidates: Candidates) -> None:
        found = self.profiles.find(candidates.problem)
        owner = np.flatnonzero(found.solved)
        candidates.ask(found.values[owner], owner, candidates.problem.start[owner])
