"""Kept rows: training rows in a file, with those of their cells that are neither numbers nor categories."""

from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.search.neighbours import Neighbours
from relax_plugin.table.plain_cells import from_plain, to_plain
from relax_plugin.table.vocabulary import Foreign, Group


def written_rows(space: FeatureSpace, rows: Values) -> tuple[Values, dict[str, list[Any]]]:
    """The rows that a file can hold, and as plain data the foreign cells in them, by the position of their feature.

    A row with a cell that no file can hold is left out. Of a carried column there is a cell at least, with which the
    model can be asked a first question when the file is read.
    """
    kept, cells_of = np.ones(len(rows), dtype=bool), {}
    for j in map(int, np.flatnonzero(space.is_categorical)):
        written = _written(space, j, rows[:, j])
        places = rows[:, j] - len(space.features[j].categories)
        kept &= (places < 0) | np.isin(places, list(written))
        cells_of[j] = written
    rows, data = rows[kept].copy(), {}
    for j, written in cells_of.items():
        known, first = len(space.features[j].categories), list(written)[:1] if space.features[j].carried else []
        places = np.unique(np.concatenate([first, rows[rows[:, j] >= known, j] - known])).astype(np.int64)
        if len(places):
            behind = rows[:, j] >= known
            rows[behind, j] = known + np.searchsorted(places, rows[behind, j] - known)
            data[str(j)] = [written[int(place)] for place in places]
    return rows, data


def _written(space: FeatureSpace, j: int, codes: Floats) -> dict[int, Any]:
    """By their places those foreign cells of a feature that are in the rows, and that a file can hold."""
    feature, cells = space.features[j], space.foreign_cells(j)
    used = np.unique(codes[codes >= len(feature.categories)]).astype(int) - len(feature.categories)
    places: Integers = np.arange(len(cells)) if feature.carried and len(used) == 0 else used
    written, refusal = {}, None
    for place in places.tolist():
        cell = cells[place]
        try:
            written[place] = to_plain(list(cell) if isinstance(cell, Group) else cell, feature.name)
        except InputError as error:
            refusal = error
    if feature.carried and not written and refusal is not None:
        raise refusal
    return written


def read_rows(space: FeatureSpace, rows: Any, data: Any) -> tuple[FeatureSpace, Neighbours]:
    """What `written_rows` gave: the rows, and the space that knows their cells. A file may hold anything."""
    if rows.ndim != 2 or rows.shape[1] != len(space) or rows.dtype != np.float64 or not np.isfinite(rows).all():
        raise InputError(f"the training rows have shape {rows.shape}, or are not finite numbers.")
    foreign = {}
    for key, cells in data.items():
        j = int(key)
        if not 0 <= j < len(space) or not space.is_categorical[j] or not isinstance(cells, list) or not cells:
            raise InputError(f"there are no cells beside its categories in feature {key}.")
        own = [from_plain(cell) for cell in cells]
        if space.features[j].columns:
            own = [Group(cell) for cell in own]
        foreign[j] = Foreign.of(own)
        width = len(space.features[j].columns)
        if len(foreign[j].cells) != len(cells) or any(len(cell) != width for cell in own if isinstance(cell, Group)):
            raise InputError(f"the cells of feature {space.names[j]!r} are not those of training rows.")
    counts = np.diff(space.category_offsets) + [len(foreign[j].cells) if j in foreign else 0 for j in range(len(space))]
    codes, most = rows[:, space.is_categorical], counts[space.is_categorical]
    if not ((codes >= 0) & (codes < most) & (codes == np.round(codes))).all():
        raise InputError("a training row has a category that there cannot be.")
    return space.knowing(foreign), Neighbours(rows)


def middle_row(space: FeatureSpace) -> Values:
    """A row that the model can be asked about: numbers in the middle of their bounds, first categories and cells."""
    middle = [
        (float(np.argmax(f.choices)) if f.choices else 0.0) if f.kind == "categorical" else 0.5 * f.low + 0.5 * f.high
        for f in space.features
    ]
    row = np.array([middle], dtype=np.float64)
    return np.where(space.is_categorical, row, space.limits().round_to_grid(row))
