"""Fast trees: the arrays of a tree ensemble in place of its library, for batches so small that a call costs more.

A call of a scikit-learn ensemble takes some ten milliseconds whatever its size. The arrays give the same answers
(`trees.py`); they are used only where they have proved it on the rows a `BlackBox` learns from.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.readers import read_trees

# Tests of trees (rows times trees times depth) up to which the arrays are quicker: some 4 ms of numpy, and 1 ms.
MOST_TESTS = 400_000
MOST_TESTS_OF_OTHERS = 100_000  # XGBoost's, LightGBM's and CatBoost's own calls are quick


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
        scores = self.trees.scores(values)
        if self.trees.decision.classes is None:
            return self.trees.decided(scores), None
        chances = self.trees.linked(scores).astype(np.float64)
        return self.trees.decided(scores) if by_predict else chances.argmax(axis=1).astype(np.float64), chances


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
