"""Trees that may prove something: read from a model, and compared with its answers to probe rows."""

from dataclasses import replace

import numpy as np

from relax_plugin.answers import Answer
from relax_plugin.arrays import Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.proofs.exact import why_altered
from relax_plugin.proofs.probing import probe_values, refuse_another_model
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.readers import read_trees

AS_READ = 1e-6  # by which probabilities, and numbers relatively, may differ from those of the trees that were read


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
