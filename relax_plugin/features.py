"""FeatureSpace: what the features are, and the translation between the user's rows and plain numbers.

Inside the package a row is a vector of float64 *values*: numbers stay in the user's unit, a category is its position in
the feature's list. Networks see the *encoded* row (standardised). Keeping the user's unit is what makes an unchanged
cell bit-identical: nothing is ever scaled forth and back.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.columns import (
    Feature,
    decimals_of,
    feature_from_dict,
    feature_to_dict,
    float_bytes,
    narrowed,
)
from relax_plugin.conversion import column_of, columns_by_dtype, in_dtype, plain_numbers, values_of
from relax_plugin.errors import ColumnError, ConstraintError, InputError, did_you_mean
from relax_plugin.inference import infer_features, listed, refuse_unknown
from relax_plugin.limits import Grid, Limits
from relax_plugin.tables import Rows as Rows
from relax_plugin.tables import (
    array_dtype,
    array_with_cells,
    as_array,
    as_frame,
    pandas_or_array,
    with_cells,
)

Bounds = Mapping[Any, Sequence[Any]]


class FeatureSpace:
    """The features in order, with their kinds, bounds and constraints.

    Parameters
    ----------
    features : sequence of Feature
    container : "frame" or "array"
        What the rows came in, and so what the model is asked with.
    array_dtype : str
        Of an array.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        container: Literal["frame", "array"] = "frame",
        array_dtype: str = "object",
    ) -> None:
        self.features = tuple(features)
        self.container = container
        self.array_dtype = array_dtype

    def __repr__(self) -> str:
        lines = []
        for f in self.features:
            values = list(f.categories) if f.kind == "categorical" else f"[{f.low:g}, {f.high:g}] step {f.step}"
            rule = "immutable" if f.immutable else (f"{f.direction} only" if f.direction else "free")
            barred = [category for category, chosen in zip(f.categories, f.choices, strict=False) if not chosen]
            rule += f", never {barred}" if barred else ""
            lines.append(f"  {f.name}: {f.kind}, {values}, {rule}")
        return "FeatureSpace(\n" + "\n".join(lines) + "\n)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureSpace) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.features)

    @classmethod
    def infer(
        cls,
        X: Rows,
        *,
        categorical: Iterable[Hashable] = (),
        continuous: Iterable[Hashable] = (),
        immutable: Iterable[Hashable] = (),
        increase_only: Iterable[Hashable] = (),
        decrease_only: Iterable[Hashable] = (),
        bounds: Bounds | None = None,
        steps: Mapping[Any, float] | None = None,
    ) -> "FeatureSpace":
        """Read the space off training rows; what is not said comes from the data.

        Text, bool and pandas Categorical columns are categorical; whole numbers are integers unless named in
        `continuous`; other numbers keep the data's decimals. `bounds` maps a name to (low, high), or to the list of
        categories that may be chosen; `steps` maps a name to the grid its values lie on, counted from its low end.
        """
        X = pandas_or_array(X)
        lists = {
            "categorical": categorical,
            "continuous": continuous,
            "immutable": immutable,
            "increase_only": increase_only,
            "decrease_only": decrease_only,
        }
        features = infer_features(as_frame(X), lists, bounds or {}, steps or {})
        if isinstance(X, pd.DataFrame):
            return cls(features)
        return cls(features, "array", str(array_dtype(str(X.dtype))))

    # Arrays over the features, for vectorised code.

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
    def category_offsets(self) -> Integers:
        """Where each feature's categories begin in the list of all categories; one more entry for its length."""
        return np.cumsum([0] + [len(f.categories) for f in self.features])

    @property
    def encoded_width(self) -> int:
        """How many numbers the networks see of one row: numbers standardised, categories one-hot."""
        return int((~self.is_categorical).sum() + self.category_offsets[-1])

    # The user's rows -> values.

    def values(self, X: Rows) -> Values:
        """Check the rows and turn them into a float64 matrix (n, features); categories become positions."""
        frame = self.frame(X)
        numbers = None if self.is_categorical.any() else plain_numbers(frame, frame.dtypes)
        if numbers is not None:
            return numbers
        values = np.empty((len(frame), len(self)), dtype=np.float64)
        for j, (_, column) in enumerate(frame.items()):
            values[:, j] = values_of(self.features[j], column, self._places[j])
        return values

    def frame(self, X: Rows) -> pd.DataFrame:
        """The rows as a DataFrame with exactly this space's columns, in its order."""
        X = pandas_or_array(X)
        if not isinstance(X, pd.DataFrame):
            frame = as_frame(X, len(self))
            frame.columns = pd.Index(self.names, dtype=object)
            return frame
        if not X.columns.is_unique:
            raise ColumnError(f"column {X.columns[X.columns.duplicated()][0]!r} occurs twice.")
        if list(X.columns) == self.names:
            return X
        missing = [name for name in self.names if name not in X.columns]
        if missing:
            hint = did_you_mean(missing[0], X.columns)
            raise ColumnError(f"column {missing[0]!r} is missing; {hint}")
        extra = [name for name in X.columns if name not in self.names]
        if extra:
            raise ColumnError(f"column {extra[0]!r} is not a feature; pass only {self.names}.")
        raise ColumnError(f"the columns are in another order than in training; pass X[{self.names}].")

    def encode(self, X: Rows) -> Values:
        """The rows as standardised numbers, one column a feature; a category is its position."""
        return self.standardise(self.values(X))

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

    # Values -> the user's rows.

    def decode(self, encoded: Values, queries: Rows | None = None) -> Rows:
        """Turn standardised rows back into the user's dtypes; cells equal to their query's are copied from it."""
        values = np.asarray(encoded * self.scale + self.mean)
        if queries is None:
            grid = self.limits().round_to_grid(values)
            return self.model_input(np.where(self.is_categorical, values, grid))
        unchanged = np.asarray(encoded) == self.encode(queries)
        return self.restore(np.where(unchanged, self.values(queries), values), queries)

    def restore(self, values: Values, queries: Rows, start: Values | None = None) -> Rows:
        """Rows in the user's dtypes, cells equal to those of the queries (whose values are `start`) being their own."""
        original = self.frame(queries)
        start = self.values(queries) if start is None else start
        changed = values != start
        new = {
            int(j): column_of(self.features[j], values[changed[:, j], j]) for j in np.flatnonzero(changed.any(axis=0))
        }
        if self.container == "array" and isinstance(queries, np.ndarray):
            return array_with_cells(queries, changed, new)
        frame = pd.DataFrame(original, copy=True)
        dtypes = frame.dtypes.tolist()
        for j, feature in enumerate(self.features):
            # A query of few categories gets all those of the training data; the values stay.
            widened = isinstance(feature.dtype, pd.CategoricalDtype) and dtypes[j] != feature.dtype
            if widened or j in new:
                column: Any = frame.iloc[:, j].reset_index(drop=True)
                column = column.astype(feature.dtype) if widened else column
                column = with_cells(column, changed[:, j], new[j]) if j in new else column
                frame.isetitem(j, column.set_axis(frame.index))
        return frame if self.container == "frame" else as_array(frame, np.asarray(queries).dtype)

    def model_input(self, values: Values) -> Rows:
        """Values in the container and dtypes of the training rows, as fast as possible: the model is asked with it.

        Nobody else holds the cells: the model may write into them.
        """
        if len(self._numbers) == 1 and (self.container == "frame" or self.array_dtype in map(str, self._numbers)):
            cells = self.model_array(values)
            return pd.DataFrame(cells, columns=self._index, copy=False) if self.container == "frame" else cells
        frame = pd.DataFrame({f.name: column_of(f, values[:, j]) for j, f in enumerate(self.features)})
        return frame if self.container == "frame" else as_array(frame, np.dtype(self.array_dtype))

    def model_array(self, values: Values) -> Array:
        """The cells of `model_input` as `to_numpy` would give them, without a frame in between (if `has_arrays`)."""
        blocks = [in_dtype(values[:, columns], dtype) for dtype, columns in self._numbers.items()]
        if len(blocks) == 1:
            return blocks[0]
        cells = np.empty(values.shape, dtype=np.result_type(*blocks))
        for columns, block in zip(self._numbers.values(), blocks, strict=True):
            cells[:, columns] = block
        return cells

    @property
    def has_arrays(self) -> bool:
        """Whether arrays could stand for the frames of the training rows: every column holds numbers of numpy."""
        return self.container == "frame" and len(self._numbers) > 0

    @cached_property
    def _numbers(self) -> dict[np.dtype[Any], Any]:
        return columns_by_dtype(self.features)

    def numbers(self, values: Values) -> Values:
        """The values with categories, if these are numbers, in place of their positions."""
        cells = values.copy()
        for j in np.flatnonzero(self.is_categorical):
            cells[:, j] = np.asarray(self.features[j].categories, dtype=np.float64)[cells[:, j].astype(int)]
        return cells

    @cached_property
    def _places(self) -> list[dict[Any, int]]:
        """Where each category stands in its feature's list."""
        return [{category: place for place, category in enumerate(f.categories)} for f in self.features]

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.names)

    # Constraints.

    @cached_property
    def grid(self) -> Grid:
        """The numbers that cells can hold."""
        return Grid(
            anchor=np.array([f.anchor for f in self.features]),
            step=np.array([f.step or 0.0 for f in self.features]),
            decimals=np.array([decimals_of(f.step, f.anchor) for f in self.features]),
            precision=np.array([float_bytes(f.dtype) for f in self.features]),
        )

    def limits(self, vary: Iterable[Hashable] | None = None, bounds: Bounds | None = None) -> Limits:
        """What a row may become: this space's constraints, narrowed by those of one call."""
        if vary is None and bounds is None:
            return self._limits
        features = list(self.features)
        if bounds is not None and not isinstance(bounds, Mapping):
            raise InputError(f"bounds is {bounds!r}; give a mapping of name to (low, high) or to a list of categories.")
        refuse_unknown("bounds", bounds or {}, self.names)
        for name, bound in (bounds or {}).items():
            position = self.names.index(name)
            features[position] = narrowed(features[position], bound)
        if vary is not None:
            varied = listed(vary, "vary")
            refuse_unknown("vary", varied, self.names)
            for name in varied:
                if self.features[self.names.index(name)].immutable:
                    raise ConstraintError(f"vary names feature {name!r}, which is immutable.")
            features = [f if f.name in varied else replace(f, immutable=True) for f in features]
        return self._limits_of(features)

    @cached_property
    def _limits(self) -> Limits:
        return self._limits_of(self.features)

    def _limits_of(self, features: Sequence[Feature]) -> Limits:
        return Limits(
            low=np.array([[f.low for f in features]]),
            high=np.array([[f.high for f in features]]),
            frozen=np.array([[f.immutable for f in features]], dtype=bool),
            choices=np.array([[choice for f in features for choice in f.choices]], dtype=bool).reshape(1, -1),
            grid=self.grid,
            direction=np.array([{"increase": 1, "decrease": -1, None: 0}[f.direction] for f in self.features]),
            category_offsets=self.category_offsets,
        )

    def refuse_other_features(self, other: "FeatureSpace") -> None:
        """Refuse a space whose values do not mean the same: other names, kinds, or categories than these."""
        if other.names != self.names:
            raise ColumnError(f"the space has the features {other.names}; accepted are {self.names}, in this order.")
        for own, given in zip(self.features, other.features, strict=True):
            if list(map(str, given.categories)) != list(map(str, own.categories)):
                wanted = f"the categories {list(own.categories)}, in this order" if own.categories else "a number"
                told = f"has the categories {list(given.categories)}" if given.categories else "is a number"
                raise ConstraintError(f"feature {given.name!r} {told}; accepted is {wanted}.")

    def distance(self, a: Values, b: Values) -> Floats:
        """L1 distance in standardised space; a changed category counts 1."""
        return np.asarray(self.distances(a, b).sum(axis=-1))

    def distances(self, a: Values, b: Values) -> Values:
        return np.asarray(np.where(self.is_categorical, a != b, np.abs(a - b) / self.scale), dtype=np.float64)

    # Plain data, for `save`.

    def to_dict(self) -> dict[str, Any]:
        """The space as JSON-ready data."""
        features = [feature_to_dict(feature) for feature in self.features]
        return {"container": self.container, "array_dtype": self.array_dtype, "features": features}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "FeatureSpace":
        """What `to_dict` wrote, refused if it could not have been inferred from any rows."""
        features = [feature_from_dict(row) for row in data["features"]]
        if not features or len({feature.name for feature in features}) < len(features):
            raise InputError("the features of a space must have names of their own, and there must be one at least.")
        if data["container"] not in ("frame", "array"):
            raise InputError(f"rows come as a frame or an array, not as {data['container']!r}.")
        return cls(features, data["container"], str(array_dtype(data["array_dtype"])))
