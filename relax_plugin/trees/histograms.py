"""Reading scikit-learn's boosting over histograms, its native categories included."""

from dataclasses import replace
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.trees.ensemble import Decision, Tree, Trees
from relax_plugin.trees.reading import Reading, Source, Unreadable, as_numbers, refuse_altered

NUMBERS = ("squared_error", "absolute_error", "quantile")  # losses whose raw scores are the numbers answered
POSITIONS = 256  # that a set of categories can hold


def read_histogram_boosting(model: Any) -> Reading:
    """Scores are added in the precision of its baseline; x <= threshold goes left, in float64."""
    classes, outputs = getattr(model, "classes_", None), model.n_trees_per_iteration_
    if classes is None:
        if model.loss not in NUMBERS:
            raise Unreadable(f"it cannot read a {type(model).__name__} with the loss {model.loss!r}")
        decision = Decision("number")
    elif outputs == 1:
        decision = Decision("above", classes, 0.0, "sigmoid")
    else:
        decision = Decision("largest score", classes, link="softmax")
    base = np.asarray(model._baseline_prediction).ravel()
    bitsets, place_of = model._bin_mapper.make_known_categories_bitsets()
    known = (
        {feature: _members(bitsets[place]) for feature, place in enumerate(np.asarray(place_of))}
        if len(bitsets)
        else {}
    )
    prepare = getattr(model, "_preprocessor", None)
    if prepare is not None:
        refuse_altered(prepare, *(step for _, step, _ in prepare.transformers_ if not isinstance(step, str)))
    refuse_altered(*(predictor for stage in model._predictors for predictor in stage))
    trees = [
        _tree(predictor, output, outputs, base.dtype, known)
        for stage in model._predictors
        for output, predictor in enumerate(stage)
    ]
    reading = Reading.of_rows(Trees.joined(trees, decision, model.n_features_in_, base=base))
    if prepare is None:
        return reading
    # It puts columns of categories first, as their positions.
    own = np.asarray(model.is_categorical_, dtype=bool)
    order = np.concatenate([np.flatnonzero(own), np.flatnonzero(~own)])
    name = type(model).__name__
    sources = tuple(Source(int(column), name if own[column] else "") for column in order)
    return replace(reading, sources=sources, matrix=lambda rows: as_numbers(prepare.transform(rows)), plain=False)


def _tree(predictor: Any, output: int, outputs: int, dtype: Any, known: dict[int, Booleans]) -> Tree:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    scores: Floats = np.zeros((len(nodes), outputs), dtype=dtype)
    scores[:, output] = nodes["value"]
    missing_left = nodes["missing_go_to_left"].astype(bool)
    sets = {}
    for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf):
        listed = _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
        # A category that training did not have goes the way of a missing one.
        sets[int(node)] = listed | (~known[int(nodes["feature_idx"][node])] & missing_left[node])
    left, right = (np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    return Tree(nodes["feature_idx"].astype(np.int64), nodes["num_threshold"], left, right, scores, missing_left, sets)


def _members(words: Any) -> Booleans:
    """The bits of a set, the lowest first."""
    bits = np.unpackbits(np.ascontiguousarray(words, dtype="<u4").view(np.uint8), bitorder="little")
    return np.asarray(bits[:POSITIONS].astype(bool))
