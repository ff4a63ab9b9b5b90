"""Trees that were read from a model, beside the model: in its place for small batches, and to prove something.

A call of a scikit-learn ensemble takes some ten milliseconds whatever its size. The arrays of its trees give the same
answers, and are used only where they have proved it on rows that the model has answered.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Floats, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.proofs.exact import why_altered
from relax_plugin.proofs.probing import probe_values, refuse_another_model
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.readers import read_trees

# Tests of trees (rows times trees times depth) up to which the arrays are quicker: some 4 ms of numpy, and 1 ms.
MOST_TESTS = 400_000
MOST_TESTS_OF_OTHERS = 100_000  # XGBoost's, LightGBM's and CatBoost's own calls are quick
AS_READ = 1e-6  # by which probabilities, and numbers relatively, may differ from those of the trees that were read


@dataclass(frozen=True)
class FastTrees:
    """Arrays that answer as the model does, and how many rows they are worth asking."""

    trees: Trees
    most_rows: int

    def quicker(self, rows: int) -> bool:
        return rows <= self.most_rows

    def knows(self, values: Values) -> bool:
        """Whether they have an answer to all of these rows, and are worth asking."""
        return self.quicker(len(values)) and not self.trees.unknown(values).any()

    def read(self, values: Values, *, by_predict: bool) -> tuple[Floats, Floats | None]:
        """Outputs and probabilities: the class of `predict`, or that of the largest probability; or numbers."""
        told = answer_of(self.trees, values)
        if by_predict or told.scores is None:
            return told.output, told.scores
        return told.scores.argmax(axis=1).astype(np.float64), told.scores


def fast_trees(
    model: Any, space: FeatureSpace, classes: Any, values: Values, outputs: Floats, scores: Floats | None
) -> FastTrees | None:
    """The arrays of the model's trees, if it has some that agree with what it answered.

    `outputs` are its answers by `predict` to the first of the `values`, `scores` its probabilities for all of them.
    """
    try:
        trees = read_trees(model, space)
    except UnsupportedError:
        return None
    known = trees.decision.classes
    if (known is None) != (classes is None) or not np.array_equal(np.asarray(known), np.asarray(classes)):
        return None
    sure = ~trees.unknown(values)
    if not sure.all():
        values, outputs = values[sure], outputs[sure[: len(outputs)]]
        scores = None if scores is None else scores[sure]
    same = np.allclose(trees.labels(values[: len(outputs)]), outputs, rtol=1e-6)
    if known is not None:
        same = same and scores is not None and np.allclose(trees.probabilities(values), scores, rtol=0.0, atol=1e-6)
    most = MOST_TESTS if type(model).__module__.startswith("sklearn") else MOST_TESTS_OF_OTHERS
    return FastTrees(trees, most // max(len(trees) * trees.depth, 1)) if same else None


def proving_trees(blackbox: BlackBox, space: FeatureSpace, values: Values) -> Trees:
    """The trees of a model; UnsupportedError, *skipped because ...*, if they cannot be read or answer otherwise.

    The classes of `blackbox` are learned from `values` where they are not known yet; `space` is that of the rows that
    something is to be proved of, with cells that came with them.
    """
    # `accelerate` has read them already, from a model that may have been altered since.
    ready = None if blackbox.space is not space or why_altered(blackbox.model) else blackbox.trees
    trees = read_trees(blackbox.model, space) if ready is None or ready.trees.unknown(values).any() else ready.trees
    if blackbox.classes is None and blackbox.task == "classification":
        blackbox.classes = blackbox.reader.classes(None)
        if blackbox.classes is None:
            blackbox.learn(values)
    if not np.array_equal(np.asarray(trees.decision.classes), np.asarray(blackbox.classes)):  # of a regressor None
        raise other_answers(blackbox)
    if len(values) == 0:
        return trees

    def probes() -> Values:
        rows = probe_values(space, values[0], trees.cuts)
        refused = trees.missing(rows)
        if trees.missing_left is not None:  # the model takes missing numbers, but perhaps not those of each feature
            refused &= False if trees.refuses is None else trees.refuses
        return rows[~trees.unknown(rows) & ~refused.any(axis=1)]

    def read(rows: Values) -> Answer:
        made = answer_of(trees, rows)
        return made if blackbox.has_probabilities else replace(made, scores=None)

    refuse_another_model(blackbox, space, "trees", probes, read, AS_READ)
    return trees


def answer_of(trees: Trees, values: Values) -> Answer:
    """What the trees say: labels and probabilities, or numbers."""
    scores = trees.scores(values)
    chances = None if trees.decision.classes is None else trees.linked(scores).astype(np.float64)
    return Answer(trees.decided(scores), chances)


def other_answers(blackbox: BlackBox) -> UnsupportedError:
    """The refusal of trees that do not answer as their model does."""
    name = type(blackbox.model).__name__
    return UnsupportedError(f"skipped because the trees read from the {name} do not answer as it does.")
