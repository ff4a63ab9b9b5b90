"""Cells by name: rows of values as rules and formulas see them."""

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from relax_plugin.arrays import Floats, Values

if TYPE_CHECKING:
    from relax_plugin.table.feature_arrays import FeatureArrays


class Cells(Mapping[Hashable, Floats]):
    """The cells of rows: numbers, places of categories, columns of one-hot groups, derived columns; NaN is missing."""

    def __init__(self, space: "FeatureArrays", values: Values) -> None:
        self.space, self.values_ = space, values
        self._known: dict[Hashable, Floats] = {}

    def __getitem__(self, name: Hashable) -> Floats:
        if name not in self._known:
            self._known[name] = self._computed(name)
        return self._known[name]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.space.kinds)

    def __len__(self) -> int:
        return len(self.space.kinds)

    def _computed(self, name: Hashable) -> Floats:
        if name in self.space.formulas:
            return self.space.formulas[name].bound.value(self)
        j, place = self.space.places_of_columns[name]
        feature, column = self.space.features[j], self.values_[:, j]
        if feature.kind != "categorical":
            return np.where(column == feature.missing_code, np.nan, column)
        codes = np.where(self.space.missing_of(j, column), np.nan, column)
        if place is None:
            return codes
        return np.where(codes < len(feature.categories), (codes == place).astype(np.float64), np.nan)
