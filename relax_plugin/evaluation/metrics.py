"""The numbers every method is judged by: pure functions of arrays, the same for all methods.

Shapes: n queries, d features, slots counterfactuals a query. `found` says which queries have a valid counterfactual;
`start` and `values` are the queries and their counterfactuals as `FeatureSpace.values` gives them. Where there is
nothing to average the result is NaN, never an error or a warning. How much
a counterfactual looks like the data stands at the end; `docs/metrics.md` says what each number is, and whose idea.
"""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.table.columns import EXACT, Feature, decimals_of, float_bytes

SLACK = 1e-9  # of a step, by which a number on the grid may seem to be off it


# Validity: a missing counterfactual counts as invalid, in every one of these.


def validity(found: Booleans) -> float:
    """Share of all queries with a valid counterfactual; a missing one counts as invalid."""
    return float(np.mean(found)) if len(found) else float("nan")


def validity_at(found: Booleans, sparsity: Floats, k: float) -> float:
    """Share of all queries with a valid counterfactual of at most k changes; `sparsity` is NaN where there is none."""
    return validity(found & (sparsity <= k))


def validity_curve(found: Booleans, sparsity: Floats, most: int) -> Floats:
    """validity@k for k = 1 … most, the paper's trade-off curve; shape (most,)."""
    return np.array([validity_at(found, sparsity, k) for k in range(1, most + 1)], dtype=np.float64)


def validity_by_class(found: Booleans, before: Array) -> dict[str, float]:
    """Validity over the queries of each answer the model gave before; keys sorted."""
    labels = np.asarray(before).astype(str)
    return {str(label): validity(found[labels == label]) for label in np.unique(labels)}


def solved_within(found: Booleans, rows: Array, budgets: Any) -> Floats:
    """Share of all queries solved with at most b model rows, for each budget b: the anytime curve (budgets,)."""
    return np.array([validity(found & (rows <= budget)) for budget in budgets], dtype=np.float64)


# Means, and comparisons on common rows.


def common(found: Sequence[Booleans]) -> Booleans:
    """The queries that every one of the methods solved (n,); without methods there are none."""
    return np.asarray(np.logical_and.reduce(list(found)), dtype=bool) if len(found) else np.zeros(0, dtype=bool)


def mean_over(rows: Booleans, numbers: Floats) -> float:
    """Mean of sparsity or proximity over some rows: own-valid ones, or those that all compared methods solved."""
    return float(numbers[rows].mean()) if rows.any() else float("nan")


def ratio_on_common(ours: Floats, theirs: Floats, found: Booleans, found_theirs: Booleans) -> float:
    """Ratio of means over the rows that both solved, so that giving up on hard rows does not look like closeness.

    NaN if there is no such row, or if the other method's mean is 0 (every common query met the goal already).
    """
    both = common([found, found_theirs])
    mean_theirs = mean_over(both, theirs)
    return mean_over(both, ours) / mean_theirs if mean_theirs else float("nan")


def mean_and_deviation(values: Any) -> tuple[float, float]:
    """Mean over the seeds, and the sample standard deviation: √(Σ (x − mean)² / (seeds − 1)).

    One seed has a mean and no deviation (NaN: unknown, not 0). A seed without a number makes both NaN, for leaving
    it out would make a method look better for failing.
    """
    numbers = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # an infinite break-even has no deviation
        mean = float(numbers.mean()) if len(numbers) else float("nan")
        return mean, float(numbers.std(ddof=1)) if len(numbers) > 1 else float("nan")


# Model rows.


def total_rows(training: Any, each: Any, instances: Any) -> Any:
    """Model rows to explain so many instances: what fitting cost once, and what each explanation costs."""
    return training + each * instances


def break_even(training: float, each: float, rival_training: float, rival_each: float) -> float:
    """Instances from which on a method has asked no more model rows than its rival; infinity if it never gets there."""
    if training <= rival_training and each <= rival_each:
        return 0.0
    saved = rival_each - each
    return float(np.ceil((training - rival_training) / saved - 1e-9)) if saved > 0 else float("inf")


# The counterfactual and its query.


def sparsity(start: Floats, values: Floats) -> Integers:
    """Number of changed features, L0 (n,): a cell is changed if it differs at all."""
    return np.asarray((values != start).sum(axis=-1), dtype=np.int64)


def proximity(space: FeatureSpace, start: Floats, values: Floats) -> Floats:
    """L1 distance in standardised space (n,); a changed category counts 1."""
    return space.distance(values, start)


def cost(space: FeatureSpace, prices: Mapping[Hashable, float], start: Floats, values: Floats) -> Floats:
    """What the changes cost at these prices (n,), 1 where none is given: of a standard deviation, or of a category.

    A number that was missing, or becomes so, moves by one standard deviation.
    Counted without `FeatureSpace.distance`, which the methods themselves rely on.
    """
    total = np.zeros(len(values))
    for j, feature in enumerate(space.features):
        before, after = start[:, j], values[:, j]
        at_once = (before == feature.missing_code) | (after == feature.missing_code) | (feature.kind == "categorical")
        moved = np.where(at_once, after != before, np.abs(after - before) / feature.scale)
        total += prices.get(feature.name, 1.0) * moved
    return total


def violations(
    space: FeatureSpace, limits: Limits, start: Floats, values: Floats, max_changes: float | None = None
) -> Integers:
    """Number of constraints broken by each row's changes (n,): one for each changed cell and rule, and the last one.

    The rules: an immutable or frozen feature changed; a move against the direction; a number outside its bounds; a
    category that may not be chosen; a number off its grid. Finally, more than `max_changes` changed cells. A cell left
    as it is breaks nothing, wherever it lies; neither does a number that may vanish and does. Counted without
    `Limits.kept`, which the methods themselves rely on: of the limits only the bounds, choices and frozen features of
    the call are read, the rest from the features.
    """
    broken = np.zeros(len(values), dtype=np.int64)
    for j, feature in enumerate(space.features):
        before, after = start[:, j], values[:, j]
        low, high = np.maximum(limits.low[:, j], feature.low), np.minimum(limits.high[:, j], feature.high)
        if feature.kind == "categorical":
            categories = slice(space.category_offsets[j], space.category_offsets[j + 1])
            choices = limits.choices[:, categories] & np.array(feature.choices, dtype=bool)
            chosen = (after[:, None] == np.arange(len(feature.categories))) & choices
            bad_value = ~chosen.any(axis=1)
        else:
            bad_value = _off_grid(feature, after)
        known = before != feature.missing_code  # what was missing neither rises nor falls
        wrong_way = {"increase": known & (after < before), "decrease": known & (after > before)}
        rules = [
            limits.frozen[:, j] | feature.immutable,
            wrong_way.get(str(feature.direction), False),
            ~((after >= low) & (after <= high)),  # so that NaN is outside
            bad_value,
        ]
        changed = values[:, j] != start[:, j]
        if feature.kind != "categorical" and feature.vanishable and not feature.immutable:
            changed &= (after != feature.missing_code) | limits.frozen[:, j]
        broken += changed * sum(np.asarray(rule, dtype=np.int64) for rule in rules)
    if max_changes is not None:
        broken += sparsity(start, values) > max_changes
    return broken


def _off_grid(feature: Feature, numbers: Floats) -> Booleans:
    """Whether numbers are off the feature's grid, or are none that its dtype holds; up to rounding."""
    held = np.dtype(f"float{8 * float_bytes(feature.dtype)}")
    foreign = np.asarray(numbers.astype(held) != numbers)
    if feature.step is None:
        return foreign
    steps = (numbers - feature.anchor) / feature.step
    rounding = float(np.finfo(held).eps) * (np.abs(numbers) + abs(feature.anchor)) / feature.step
    off = np.abs(steps - np.rint(steps)) > SLACK + rounding
    decimals = decimals_of(feature.step, feature.anchor)
    if decimals >= 0:  # 0.30000000000000004 is not how anyone writes it
        off |= (np.abs(numbers) * 10.0**decimals < EXACT) & (np.round(numbers, decimals).astype(held) != numbers)
    size = np.maximum(np.abs(numbers), np.abs(numbers - feature.anchor))
    tells = feature.step > 1.05 * float(np.finfo(held).eps) * size  # whether cells tell one step from the next
    return np.asarray(foreign | (off & tells))


def redundancy(start: Floats, values: Floats, meets: Callable[[Floats, Integers], Booleans]) -> Integers:
    """Number of changes of each row that can be reverted singly with the goal still met (n,).

    Parameters
    ----------
    start, values : arrays (n, d)
    meets : callable
        Given candidate rows and the row number each belongs to, whether each meets its goal. Asked once for the
        single reverts of all rows together, and not at all if nothing has changed.
    """
    owner, feature = np.nonzero(values != start)
    if len(owner) == 0:
        return np.zeros(len(values), dtype=np.int64)
    candidates = values[owner]
    candidates[np.arange(len(owner)), feature] = start[owner, feature]
    met = np.asarray(meets(candidates, owner), dtype=bool)
    return np.bincount(owner[met], minlength=len(values)).astype(np.int64)


# The counterfactual and the training rows.


def inside_box(space: FeatureSpace, values: Floats, training: Floats) -> Booleans:
    """Whether each row's numbers lie within [min, max] of the training rows and its categories occur there (n,)."""
    if len(training) == 0:
        return np.zeros(len(values), dtype=bool)
    seen = np.where(training == space.missing_codes, np.nan, training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column of which every cell is missing
        inside = (values >= np.nanmin(seen, axis=0)) & (values <= np.nanmax(seen, axis=0))
    inside |= values == space.missing_codes
    for j in np.flatnonzero(space.is_categorical):
        inside[:, j] = np.isin(values[:, j], training[:, j])
    return np.asarray(inside.all(axis=1))


def neighbour_distance(space: FeatureSpace, values: Floats, training: Floats, k: int = 5) -> Floats:
    """Mean of `FeatureSpace.distance` to the k nearest training rows (n,), to all of them if there are fewer.

    `training` are the rows that count as plausible: those of the goal's class. NaN if there are none.
    """
    if len(training) == 0 or len(values) == 0:
        return np.full(len(values), np.nan)
    # scikit-learn works in chunks of bounded memory.
    neighbours = NearestNeighbors(n_neighbors=min(k, len(training)), metric="manhattan")
    neighbours.fit(as_points(space, training))
    return np.asarray(neighbours.kneighbors(as_points(space, values))[0].mean(axis=1))


def as_points(space: FeatureSpace, values: Floats) -> Floats:
    """Rows as points whose L1 distance is `FeatureSpace.distance` without prices; a missing number is near to all.

    Halved one-hot columns make L1 count a category mismatch as 1.
    """
    weight = np.where(np.arange(space.encoded_width) < (~space.is_categorical).sum(), 1.0, 0.5)
    return np.asarray(space.encoded(values) * weight)


# Several counterfactuals of one query.


def diversity(space: FeatureSpace, values: Floats, found: Booleans) -> Floats:
    """Mean of `FeatureSpace.distance` over the pairs of a query's found counterfactuals (n,); NaN with fewer than two.

    Parameters
    ----------
    values : array (n, slots, d)
    found : bool array (n, slots)
    """
    total, pairs = np.zeros(len(values)), np.zeros(len(values))
    for a, b in combinations(range(found.shape[1]), 2):
        both = found[:, a] & found[:, b]
        total[both] += space.distance(values[both, a], values[both, b])
        pairs += both
    return np.asarray(np.divide(total, pairs, out=np.full(len(values), np.nan), where=pairs > 0))


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
