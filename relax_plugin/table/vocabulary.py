"""Foreign cells: what a column of categories holds beside them. Missing cells, unseen categories, whatever is carried.

Inside the package such a cell is a number too, a place behind the last category. It can be kept, never chosen.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.cached import cached_property


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, pd.NA or NaT."""
    return cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float | np.floating) and cell != cell)


def _key(cell: Any) -> Hashable:
    """What tells a cell from others: its type too, since 1 and True are equal; of what cannot be hashed, itself."""
    if is_missing(cell):
        return is_missing, type(cell)
    if isinstance(cell, Group):
        plain = (one.item() if isinstance(one, np.generic) else one for one in cell)
        return Group, tuple(map(_key, plain))  # NaN equals nothing, not even itself
    try:
        return type(cell), hash(cell), cell
    except TypeError:
        return "itself", id(cell)  # the list of cells keeps it alive


@dataclass(frozen=True)
class Foreign:
    """The foreign cells of one feature, in the order in which they were seen."""

    cells: tuple[Any, ...] = ()
    places: dict[Hashable, int] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, cells: Iterable[Any]) -> "Foreign":
        return cls().and_these(cells)[1]

    def find(self, cells: Sequence[Any]) -> Floats:
        """The place of each cell; -1 for those not known."""
        return np.array([self.places.get(_key(cell), -1) for cell in cells], dtype=np.float64)

    def and_these(self, cells: Iterable[Any]) -> tuple[Floats, "Foreign"]:
        """The place of each cell, and the foreign cells with those that are new."""
        known, places, found = list(self.cells), dict(self.places), []
        for cell in cells:
            key = _key(cell)
            if key not in places:
                places[key] = len(known)
                known.append(cell)
            found.append(places[key])
        return np.array(found, dtype=np.float64), Foreign(tuple(known), places)

    def __reduce__(self) -> Any:
        """A copy in another process finds its cells anew: what cannot be hashed is another object there."""
        return Foreign.of, (self.cells,)

    @cached_property
    def missing(self) -> Booleans:
        """Which of the cells are missing ones; of a group of columns, those where one of them is."""
        gaps = [any(map(is_missing, cell)) if isinstance(cell, Group) else is_missing(cell) for cell in self.cells]
        return np.array(gaps, dtype=bool)


class Group(tuple[Any, ...]):
    """The cells of a one-hot group of columns in one row, where they are none of its categories."""

    __slots__ = ()
