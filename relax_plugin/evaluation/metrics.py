"""The numbers every method is judged by: pure functions of arrays (design: one judge for all methods)."""

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


def validity(found: Booleans) -> float:
    """Share of all queries with a valid counterfactual; a missing one counts as invalid."""
    return float(np.mean(found)) if len(found) else float("nan")


def mean_over(rows: Booleans, numbers: Floats) -> float:
    """Mean of sparsity or proximity over some rows: own-valid ones, or those that all compared methods solved."""
    return float(numbers[rows].mean()) if rows.any() else float("nan")


def ratio_on_common(ours: Floats, theirs: Floats, found: Booleans, found_theirs: Booleans) -> float:
    """Ratio of means over the rows that both solved, so that giving up on hard rows does not look like closeness."""
    common = found & found_theirs
    return mean_over(common, ours) / mean_over(common, theirs)


def total_rows(training: Any, each: Any, instances: Any) -> Any:
    """Model rows to explain so many instances: what fitting cost once, and what each explanation costs."""
    return training + each * instances


def break_even(training: float, each: float, rival_training: float, rival_each: float) -> float:
    """Instances from which on a method has asked no more model rows than its rival; infinity if it never gets there."""
    if training <= rival_training and each <= rival_each:
        return 0.0
    saved = rival_each - each
    return float(np.ceil((training - rival_training) / saved - 1e-9)) if saved > 0 else float("inf")
