"""Rows on which a wrong reading of trees shows: values of the data, thresholds, and the floats beside them."""

from typing import Any

import numpy as np

from relax_plugin import FeatureSpace
from relax_plugin.trees.ensemble import Trees


def rows_near_thresholds(
    trees: Trees, space: FeatureSpace, values: Any, count: int, rng: np.random.Generator, gaps: tuple[str, ...] = ()
) -> Any:
    """Rows of cells drawn from `values`, half of the numbers at a threshold or beside it; some of `gaps` missing."""
    rows = np.column_stack([rng.choice(column, count) for column in np.asarray(values).T])
    for j, (feature, cuts) in enumerate(zip(space.features, trees.cuts, strict=True)):
        cuts = cuts[np.isfinite(cuts)]
        if len(cuts):
            dtype: Any = np.float32 if str(feature.dtype) == "float32" else np.float64
            near = rng.choice(cuts, count).astype(dtype)
            beside = [np.nextafter(near, dtype(side)) for side in (-np.inf, np.inf)]
            near = np.choose(rng.integers(0, 3, count), [near, *beside]).astype(np.float64)
            near = near + rng.integers(0, 2, count) if feature.kind == "integer" else near
            near = np.floor(near) if feature.kind == "integer" else near
            rows[:, j] = np.where(rng.random(count) < 0.5, near, rows[:, j])
        if feature.name in gaps:
            rows[rng.random(count) < 0.2, j] = feature.missing_code
    return rows
