"""Feature arrays: what a space knows of its features, as arrays for vectorised code and as cells for rules."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.limits import Grid
from relax_plugin.rules.expression import ROUNDING
from relax_plugin.rules.language import Kind
from relax_plugin.rules.rule import Rule
from relax_plugin.table.columns import Feature, decimals_of, float_bytes
from relax_plugin.table.derived import Derived
from relax_plugin.table.labels import Labels
from relax_plugin.table.vocabulary import Foreign

NOTHING_FOREIGN = Foreign()
SHORT_FLOAT_ROUNDING = 1e-6  # relative error of float32 and float16 that rules overlook


class FeatureArrays:
    """The part of a FeatureSpace that needs neither the user's rows nor constraints."""

    def __init__(
        self,
        features: Sequence[Feature],
        container: Literal["frame", "array"] = "frame",
        array_dtype: str = "object",
        columns: Sequence[Hashable] | None = None,
        foreign: Mapping[int, Foreign] | None = None,
        derived: Sequence[Derived] = (),
        rules: Sequence[Rule] = (),
        labels: Labels | None = None,
    ) -> None:
        self.features = tuple(features)
        self.container = container
        self.array_dtype = array_dtype
        own = [column for f in self.features for column in (f.columns or (f.name,))]
        self.columns: list[Hashable] = [*own, *(one.name for one in derived)] if columns is None else list(columns)
        self.foreign = dict(foreign or {})
        self.derived = tuple(derived)
        self.rules = tuple(rules)
        self.labels = dict(labels or {})

    def __len__(self) -> int:
        return len(self.features)

    # Arrays over the features.

    @cached_property
    def names(self) -> list[Hashable]:
        return [f.name for f in self.features]

    @cached_property
    def is_categorical(self) -> Booleans:
        return np.array([f.kind == "categorical" for f in self.features], dtype=bool)

    @cached_property
    def mean(self) -> Floats:
        return np.array([f.mean for f in self.features])

    @cached_property
    def scale(self) -> Floats:
        return np.array([f.scale for f in self.features])

    @cached_property
    def prices(self) -> Floats:
        """What one standard deviation of each number costs, and another category of each other feature."""
        return np.array([f.cost for f in self.features])

    @cached_property
    def ordered(self) -> Integers:
        """The features of categories that have an order."""
        return np.flatnonzero([f.kind == "categorical" and f.ordered for f in self.features])

    @cached_property
    def has_prices(self) -> bool:
        """Whether some feature costs more or less than 1."""
        return bool((self.prices != 1.0).any())

    @cached_property
    def category_offsets(self) -> Integers:
        """Where each feature's categories begin in the list of all categories; one more entry for its length."""
        return np.cumsum([0] + [len(f.categories) for f in self.features])

    @property
    def encoded_width(self) -> int:
        """How many numbers the networks see of one row: numbers standardised, categories one-hot."""
        return int((~self.is_categorical).sum() + self.category_offsets[-1])

    @cached_property
    def is_plain(self) -> bool:
        """Whether every column is a feature, and the other way round."""
        return self.columns == self.names

    def standardise(self, values: Values) -> Values:
        return np.asarray((values - self.mean) / self.scale)

    def one_hot(self, values: Values, features: Integers | None = None) -> Values:
        """What the networks see of the rows, or of some features: standardised numbers, then one column a category."""
        features = np.arange(len(self)) if features is None else features
        numbers = features[~self.is_categorical[features]]
        parts = [(values[:, numbers] - self.mean[numbers]) / self.scale[numbers]]
        for j in features[self.is_categorical[features]]:
            parts.append(values[:, j, None] == np.arange(len(self.features[j].categories)))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def known(self, values: Values) -> Values:
        """The values with the mean in place of missing numbers, whose codes would make outliers of their rows."""
        return np.where(values == self.missing_codes, self.mean, values)

    def encoded(self, values: Values) -> Values:
        """`one_hot` of the `known` values; an infinite number, which detectors would refuse, counts as the mean too."""
        return np.nan_to_num(self.one_hot(self.known(values)), nan=0.0, posinf=0.0, neginf=0.0)

    def numbers(self, values: Values) -> Values:
        """The values, NaN where one is missing; categories, if these are numbers, in place of their positions."""
        cells = np.where(values == self.missing_codes, np.nan, values)
        for j in np.flatnonzero(self.is_categorical):
            known = [*self.features[j].categories, *(np.nan for _ in self._foreign(j).cells)]
            cells[:, j] = np.asarray(known, dtype=np.float64)[values[:, j].astype(int)]
        return cells

    @cached_property
    def grid(self) -> Grid:
        """The numbers that cells can hold."""
        return Grid(
            anchor=np.array([f.anchor for f in self.features]),
            step=np.array([f.step or 0.0 for f in self.features]),
            decimals=np.array([decimals_of(f.step, f.anchor) for f in self.features]),
            precision=np.array([float_bytes(f.dtype) for f in self.features]),
        )

    def distance(self, a: Values, b: Values) -> Floats:
        """What the way costs: L1 in standardised space, a changed category counting 1, times each feature's price."""
        return np.asarray(self.distances(a, b).sum(axis=-1))

    def distances(self, a: Values, b: Values) -> Values:
        """The distance of each feature, at its price; from a missing number to any other, 1."""
        at_once = self.is_categorical | (a == self.missing_codes) | (b == self.missing_codes)
        moved = np.where(at_once, a != b, np.abs(a - b) / self.scale)
        return np.asarray(moved * self.prices, dtype=np.float64)

    # What rules and formulas see.

    @cached_property
    def kinds(self) -> dict[Hashable, Kind]:
        """What a rule has to know of each column."""
        kinds: dict[Hashable, Kind] = {}
        for f in self.features:
            known = tuple(category for category in f.categories if not pd.isna(category))
            rounding = ROUNDING if float_bytes(f.dtype) == 8 else SHORT_FLOAT_ROUNDING
            kinds[f.name] = Kind(known, f.ordered) if f.kind == "categorical" else Kind(rounding=rounding)
            kinds |= {column: Kind() for column in f.columns}
        return kinds | {one.name: Kind() for one in self.derived}

    @cached_property
    def formulas(self) -> dict[Hashable, Derived]:
        return {one.name: one for one in self.derived}

    @cached_property
    def places_of_columns(self) -> dict[Hashable, tuple[int, int | None]]:
        """Which feature a name is of, and which column of a one-hot group it is, if it is one."""
        places: dict[Hashable, tuple[int, int | None]] = {}
        for j, f in enumerate(self.features):
            places |= {column: (j, place) for place, column in enumerate(f.columns)}
            places[f.name] = j, None
        return places

    @cached_property
    def inputs_of_derived(self) -> dict[Hashable, list[int]]:
        """The features that each derived column is computed from, directly or by way of others."""
        inputs: dict[Hashable, list[int]] = {}
        for one in self.derived:
            own: set[int] = set()
            for name in one.bound.names:
                own |= set(inputs[name]) if name in inputs else {self.places_of_columns[name][0]}
            inputs[one.name] = sorted(own)
        return inputs

    def cells(self, values: Values) -> "Cells":
        """The cells of rows by name."""
        return Cells(self, values)

    # What is missing, or none of the categories.

    @cached_property
    def missing_codes(self) -> Floats:
        """The number that stands for a missing cell of each feature; NaN, which nothing equals, for categories."""
        return np.array([np.nan if f.kind == "categorical" else f.missing_code for f in self.features])

    def is_missing(self, values: Values) -> Booleans:
        """Which cells are missing (rows, features)."""
        missing = values == self.missing_codes
        for j in np.flatnonzero(self.is_categorical):
            missing[:, j] = self.missing_of(j, values[:, j])
        return np.asarray(missing)

    def missing_of(self, j: Any, codes: Floats) -> Booleans:
        """Which cells of a feature of categories are missing."""
        feature, gaps = self.features[j], self._foreign(j).missing
        known = len(feature.categories)
        missing = (codes == known - 1) & feature.vanishable
        if gaps.any():
            behind = codes >= known
            missing[behind] |= gaps[codes[behind].astype(int) - known]
        return np.asarray(missing)

    def jumps(self, feature: Any, start: Floats, values: Floats) -> Booleans:
        """Which changes are made at once or not at all: of a category, and from or to a missing number."""
        code = self.missing_codes[feature]
        return np.asarray(self.is_categorical[feature] | (start == code) | (values == code))

    def foreign_cells(self, j: int) -> tuple[Any, ...]:
        """The known cells of a feature that are none of its categories, in the order of their places behind them."""
        return self._foreign(j).cells

    def _foreign(self, j: Any) -> Foreign:
        return self.foreign.get(int(j), NOTHING_FOREIGN)


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
