"""How much a counterfactual looks like the data: pure functions of arrays, as those of `metrics`.

Shapes: n counterfactuals, d features; `start` and `values` are queries and counterfactuals as `FeatureSpace.values`
gives them, `training` the training rows. `docs/metrics.md` says what each is, and whose idea it was.
"""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.evaluation.metrics import as_points
from relax_plugin.features import FeatureSpace


class Neighbours:
    """The training rows, among which the nearest ones are looked up."""

    def __init__(self, space: FeatureSpace, training: Floats) -> None:
        self.space, self.count = space, len(training)
        self.fitted = NearestNeighbors(metric="manhattan").fit(as_points(space, training))

    def nearest(self, values: Floats, k: int) -> Integers:
        """Positions of the k nearest training rows (n, k), of all if there are fewer; a category mismatch counts 1."""
        k = min(k, self.count)
        if len(values) == 0:
            return np.zeros((0, k), dtype=np.int64)
        return np.asarray(self.fitted.kneighbors(as_points(self.space, values), k, return_distance=False))


def ynn(nearest: Integers, known: Floats, reached: Floats) -> Floats:
    """Share of the nearest training rows for which the model gives the answer reached (n,): yNN of CARLA.

    Positions in `nearest` (n, k) are of training rows, to which the model's answers are `known`.
    """
    return np.asarray((known[nearest] == reached[:, None]).mean(axis=1), dtype=np.float64)


def edge_cells(space: FeatureSpace, start: Floats, values: Floats, training: Floats) -> Floats:
    """Share of the changed cells that are numbers at the ends of what the training rows have, or beyond (n,).

    NaN where nothing has changed. A category is at no end.
    """
    seen = np.where(training == space.missing_codes, np.nan, training)
    known = np.asarray(~np.isnan(seen).all(axis=0))
    low, high = np.full(len(known), np.inf), np.full(len(known), -np.inf)  # of which no cell is known: all is beyond
    low[known], high[known] = np.nanmin(seen[:, known], axis=0), np.nanmax(seen[:, known], axis=0)
    at_an_end = ((values <= low) | (values >= high)) & ~space.is_categorical & (values != space.missing_codes)
    return _share_of_changes(start, values, at_an_end)


def unseen_cells(start: Floats, values: Floats, training: Floats) -> Floats:
    """Share of the changed cells whose very value no training row has in that column (n,); NaN without a change."""
    columns = zip(values.T, training.T, strict=True)
    unseen = np.column_stack([~np.isin(column, known) for column, known in columns])
    return _share_of_changes(start, values, unseen)


def percentile_shift(space: FeatureSpace, start: Floats, values: Floats, training: Floats) -> Floats:
    """By how much of the training rows the changed numbers overtake others, summed over features (n,).

    The total percentile shift of Ustun, Spangher and Liu (2019): a number moves by the share of the training rows
    between its two places. A changed category counts 1, and so does a number from or to a missing one.
    """
    total = np.zeros(len(values))
    for j, feature in enumerate(space.features):
        before, after = start[:, j], values[:, j]
        gone = (before == space.missing_codes[j]) | (after == space.missing_codes[j])
        known = np.sort(training[training[:, j] != space.missing_codes[j], j])
        if feature.kind == "categorical" or len(known) == 0:
            total += after != before
            continue
        places = [np.searchsorted(known, numbers, side="right") / len(known) for numbers in (before, after)]
        total += np.where(gone, after != before, np.abs(places[1] - places[0]))
    return total


def _share_of_changes(start: Floats, values: Floats, such: Booleans) -> Floats:
    changed = values != start
    count = changed.sum(axis=1)
    return np.asarray(np.divide((changed & such).sum(axis=1), count, out=np.full(len(values), np.nan), where=count > 0))
