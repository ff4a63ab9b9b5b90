"""What the methods that look inside a tree ensemble share."""

from collections.abc import Iterator

import numpy as np

from relax_plugin.arrays import Integers, Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import Problem, Proposals
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.missing import gaps, trees_for
from relax_plugin.trees.readers import read_trees, why_unreadable


class TreeExplainer(CounterfactualExplainer):
    """Base of the methods that look inside a tree ensemble; `trees_` is what they see."""

    supports = Supports(tasks=("classification",))

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        return super().skip_reason(blackbox, space) or why_unreadable(blackbox.model, space)

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.trees_ = self._read_trees()
        asked, answer = self.known_
        count = len(asked) if self.blackbox_.task == "regression" else (len(asked) + 1) // 2  # these `predict` answered
        sure = np.flatnonzero(~self.trees_.unknown(asked[:count]))
        if not np.allclose(self.answer(asked[sure]).output, answer.output[sure], rtol=1e-6):
            name = type(self.blackbox_.model).__name__
            raise UnsupportedError(f"skipped because the trees read from the {name} do not answer as it does.")

    def _read_trees(self) -> Trees:
        return read_trees(self.blackbox_.model, self.space_)

    def answer(self, values: Values) -> Answer:
        """What the model answers, read off its trees without asking it; labels are those of its `predict`."""
        scores = self.trees_.scores(values)
        if self.blackbox_.task == "regression":
            return Answer(self.trees_.decided(scores))
        return Answer(self.trees_.decided(scores), self.trees_.linked(scores).astype(np.float64))

    def _by_gap(self, problem: Problem, made: Proposals) -> Iterator[tuple[Integers, Problem, Trees]]:
        """The queries by the numbers they lack: which, their problem, and the trees as they see them.

        Those that cannot be looked at are left out, and a note says why.
        """
        unknown = self.trees_.unknown(problem.start)
        made.note[unknown] = "none was looked for, since it has a category that is missing or unknown"
        some = np.flatnonzero(~unknown)
        for gap in gaps(self.trees_, problem.limits.take(some), problem.start[some]):
            index, trees = some[gap.index], trees_for(self.trees_, gap)
            if trees is None:
                made.note[index] = "none was looked for, since too many of its missing numbers may be filled in"
                continue
            yield index, problem if len(index) == len(problem) else problem.part(index), trees


class TreesInPlace(BlackBox):
    """The trees in the model's place: the same answers, and nothing is charged."""

    rows_per_question = 0

    def __init__(self, explainer: TreeExplainer) -> None:
        self.explainer = explainer

    def ask(self, values: Values) -> Answer:
        return self.explainer.answer(values)
