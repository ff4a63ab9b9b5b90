"""The values that a changed cell can have, one by one: all of them, or for trees one on each side of each threshold."""

from decimal import Decimal
from typing import Any

import numpy as np

from relax_plugin.arrays import Floats
from relax_plugin.certificates.allowed import SHORT, Allowed
from relax_plugin.features import FeatureSpace
from relax_plugin.proofs.exact import library_of, why_altered
from relax_plugin.table.columns import Feature, float_bytes

MOST_VALUES = 2_000  # of a number, that are gone through one by one where thresholds would do
MOST_POINTS = 200_000  # of a grid, that are written down at all
OWN_TREES = ("sklearn.tree.", "sklearn.ensemble._forest", "sklearn.ensemble._gb")  # answers that hang on leaves alone


def values_of(allowed: Allowed, before: float, cuts: Floats | None) -> tuple[Floats, bool] | None:
    """What a cell may become other than `before`, and whether these are all; None if they cannot be gone through.

    `cuts` are the thresholds that the model compares the cell with; None if they are not known.
    """
    feature = allowed.feature
    if allowed.frozen:
        return np.empty(0), True
    if feature.kind == "categorical":
        if before >= len(feature.categories):
            return None  # missing or unknown: what it may become is not told by its value alone
        codes = [code for code in allowed.codes if (code - before) * allowed.direction >= 0]
        return np.array([code for code in codes if code != before], dtype=np.float64), True
    if before == feature.missing_code:
        if not feature.fillable:
            return np.empty(0), True
        low, high = allowed.low, allowed.high
    else:
        low = max(allowed.low, before) if allowed.direction > 0 else allowed.low
        high = min(allowed.high, before) if allowed.direction < 0 else allowed.high
    found = _numbers(feature, low, high, cuts)
    if found is None:
        return None
    numbers, complete = found
    numbers = numbers[(numbers >= low) & (numbers <= high) & (numbers != before)]
    if feature.vanishable and before != feature.missing_code:
        numbers = np.append(numbers, feature.missing_code)
    return np.unique(numbers), complete


def _numbers(feature: Feature, low: float, high: float, cuts: Floats | None) -> tuple[Floats, bool] | None:
    if feature.step is None:
        return None if cuts is None else (_beside(cuts, low, high), False)
    step, anchor = Decimal(repr(float(feature.step))), Decimal(repr(float(feature.anchor)))
    if max(len(one.as_tuple().digits) for one in (step, anchor)) > SHORT or float_bytes(feature.dtype) != 8:
        return None  # whose points only rounding tells
    first, last = float((Decimal(low) - anchor) / step), float((Decimal(high) - anchor) / step)
    if high < low:
        return np.empty(0), True
    count = last - first
    if count <= MOST_VALUES or (cuts is None and count <= MOST_POINTS):
        counts = np.arange(np.floor(first) - 1, np.ceil(last) + 2)
        complete = True
    elif cuts is None:
        return None
    else:  # the last point before each threshold and the first behind it, whichever way a float32 rounds
        near = np.floor((_halves(cuts) - feature.anchor) / feature.step)
        ends = np.floor([first, last])
        counts = np.unique(np.concatenate([near + k for k in (-1, 0, 1, 2)] + [ends + k for k in (-1, 0, 1)]))
        complete = False
    return _points(counts, step, anchor), complete


def _points(counts: Floats, step: Decimal, anchor: Decimal) -> Floats:
    """anchor + k step as people write it: a whole number of the last decimal, divided once."""
    decimals = max(0, *(-int(one.as_tuple().exponent) for one in (step, anchor)))
    tens = 10.0**decimals
    whole = counts * float(step.scaleb(decimals)) + float(anchor.scaleb(decimals))
    return np.asarray(np.rint(whole) / tens)


def _halves(cuts: Floats) -> Floats:
    """Where a number, read as a float32, comes to lie on the other side of each threshold."""
    under = cuts.astype(np.float32)
    under = np.where(under > cuts, np.nextafter(under, np.float32(-np.inf)), under).astype(np.float32)
    over = np.nextafter(under, np.float32(np.inf))
    return (under.astype(np.float64) + over.astype(np.float64)) / 2


def _beside(cuts: Floats, low: float, high: float) -> Floats:
    middle = _halves(cuts)
    either = [np.nextafter(middle, -np.inf), middle, np.nextafter(middle, np.inf)]
    return np.unique(np.concatenate([*either, [low, high]]))


def thresholds_of(model: Any, space: FeatureSpace) -> list[Floats] | None:
    """The thresholds of each feature, where the model has trees on the very columns of the space.

    Of scikit-learn's trees read off `tree_`, of CatBoost's told by `get_borders`: apart from the package's own readers
    of trees. None for any other model.
    """
    groups = [feature for feature in space.features if feature.columns or feature.carried]
    if space.derived or groups:
        return None
    if library_of(model) == "catboost" and hasattr(model, "get_borders") and not why_altered(model):
        return _borders_of(model, space)
    if why_altered(model) or not type(model).__module__.startswith(OWN_TREES):
        return None
    first = getattr(model, "init_", None)  # what boosting starts from may look at the row itself
    apart = first is not None and not isinstance(first, str)
    if apart and (why_altered(first) or not type(first).__module__.startswith("sklearn.dummy")):
        return None
    names = getattr(model, "feature_names_in_", None)
    if names is not None and list(names) != list(space.columns):
        return None
    parts = [model] if hasattr(model, "tree_") else list(np.ravel(np.asarray(model.estimators_, dtype=object)))
    if any(map(why_altered, parts)):
        return None
    cuts: list[list[Floats]] = [[] for _ in space.columns]
    for part in parts:
        tree = part.tree_
        for j in range(len(cuts)):
            cuts[j].append(tree.threshold[tree.feature == j])
    return [np.unique(np.concatenate(own)) for own in cuts]


def _borders_of(model: Any, space: FeatureSpace) -> list[Floats] | None:
    others = (model.get_cat_feature_indices(), model.get_text_feature_indices(), model.get_embedding_feature_indices())
    if any(len(own) for own in others):
        return None
    if space.container == "frame" and list(model.feature_names_) != list(space.columns):
        return None
    borders = model.get_borders()
    return [np.array(borders.get(j, []), dtype=np.float64) for j in range(len(space.columns))]
