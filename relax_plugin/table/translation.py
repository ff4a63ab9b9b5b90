"""Translation: the user's rows as values, and values as the user's rows. What is not changed is never rewritten."""

import warnings
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Values
from relax_plugin.cached import cached_property, state_without_cached
from relax_plugin.errors import ColumnError, did_you_mean
from relax_plugin.table.columns import Feature
from relax_plugin.table.feature_arrays import FeatureArrays
from relax_plugin.table.kinds import Columns, Kind, columns_by_dtype, in_dtype, plain_numbers
from relax_plugin.table.tables import (
    Rows,
    array_with_cells,
    as_array,
    as_frame,
    pandas_or_array,
    row_name,
    some_of,
    with_cells,
)
from relax_plugin.table.vocabulary import Foreign, is_missing


class Translation(FeatureArrays):
    """The part of a FeatureSpace that reads and writes rows."""

    _last_columns: Any = None  # of the last table whose columns were those of the space

    def __getstate__(self) -> dict[str, Any]:
        """Without the last table's columns: a pickle, and the `joblib.hash`, do not depend on what was explained."""
        return {name: value for name, value in state_without_cached(self).items() if name != "_last_columns"}

    # The user's rows -> values.

    def frame(self, X: Rows) -> pd.DataFrame:
        """The rows as a DataFrame with exactly this space's columns, in its order."""
        if isinstance(X, pd.DataFrame) and X.columns.is_(self._last_columns):  # as when it was looked at before
            return X
        X = pandas_or_array(X)
        if not isinstance(X, pd.DataFrame):
            frame = as_frame(X, len(self.columns))
            frame.columns = pd.Index(self.columns, dtype=object)
            return frame
        if not X.columns.is_unique:
            raise ColumnError(f"column {X.columns[X.columns.duplicated()][0]!r} occurs twice.")
        if list(X.columns) == self.columns:
            self._last_columns = X.columns
            return X
        missing = [name for name in self.columns if name not in X.columns]
        if missing:
            hint = did_you_mean(missing[0], X.columns)
            raise ColumnError(f"column {missing[0]!r} is missing; {hint}")
        extra = [name for name in X.columns if name not in self.columns]
        if extra:
            raise ColumnError(f"column {extra[0]!r} is not a feature; drop it, or name it: carry=[{extra[0]!r}].")
        return X[self.columns]

    def values(self, X: Rows) -> Values:
        """Check the rows and turn them into a float64 matrix (n, features); categories become positions."""
        frame = self.frame(X)
        values, foreign = self._read(frame)
        for j in foreign:
            feature = self.features[j]
            row = int(np.argmax(values[:, j] >= len(feature.categories) + len(self._foreign(j).cells)))
            raise self._kinds[j].refuse(frame, row)
        return values

    def _read(self, frame: pd.DataFrame) -> tuple[Values, dict[int, Foreign]]:
        if self.is_plain:
            numbers = None if self.is_categorical.any() else plain_numbers(frame, frame.dtypes, self.missing_codes)
            if numbers is not None:
                return numbers, {}
        values, more = np.empty((len(frame), len(self)), dtype=np.float64), {}
        for j, kind in enumerate(self._kinds):
            values[:, j], known = kind.read(frame)
            if len(known.cells) > len(kind.foreign.cells):
                more[j] = known
        return values, more

    def _warn_of_unseen(self, frame: pd.DataFrame, j: int, codes: Floats, foreign: Foreign) -> None:
        feature, known = self.features[j], len(self.features[j].categories) + len(self._foreign(j).cells)
        fresh = codes[codes >= known].astype(int) - len(feature.categories)
        unseen = [place for place in fresh if not foreign.missing[place]] if not feature.carried else []
        if unseen:
            row, more = int(np.argmax(codes == unseen[0] + len(feature.categories))), len(set(unseen)) - 1
            others = f" and has {more} more unseen {'category' if more == 1 else 'categories'}" if more else ""
            warnings.warn(
                f"feature {feature.name!r} is {foreign.cells[unseen[0]]!r} in {row_name(frame, row)}{others}, but the "
                f"training data has only {some_of(feature.categories)}. It reaches the model as it is.",
                stacklevel=5,
            )

    @cached_property
    def _kinds(self) -> list[Kind]:
        return [Kind.of(feature, self._foreign(j)) for j, feature in enumerate(self.features)]

    # Values -> the user's rows.

    def restore(self, values: Values, queries: Rows, start: Values | None = None) -> Rows:
        """Rows in the user's dtypes, cells equal to those of the queries (whose values are `start`) being their own."""
        original = self.frame(queries)
        start = self.values(queries) if start is None else start
        changed, new = self.new_cells(values, start)
        if self.container == "array" and isinstance(queries, np.ndarray):
            return array_with_cells(queries, changed, new)
        frame = pd.DataFrame(original, copy=True)
        dtypes = frame.dtypes.tolist()
        wide = {f.name: f for f in self.features if isinstance(f.dtype, pd.CategoricalDtype)}
        for j, name in enumerate(self.columns):
            # A query of few categories gets all those of the training data; the values stay.
            widened = name in wide and dtypes[j] != wide[name].dtype
            if j in new and not widened and dtypes[j] == new[j].dtype:  # nothing but some cells is another
                own = frame.iloc[:, j].array.copy()
                own[changed[:, j]] = new[j].array
                frame.isetitem(j, pd.Series(own, index=frame.index, dtype=dtypes[j]))
            elif widened or j in new:
                column: Any = frame.iloc[:, j].reset_index(drop=True)
                column = _widened(column, wide[name]) if widened else column
                column = with_cells(column, changed[:, j], new[j]) if j in new else column
                frame.isetitem(j, column.set_axis(frame.index))
        return frame if self.container == "frame" else as_array(frame, np.asarray(queries).dtype)

    def in_model_dtypes(self, rows: Rows) -> Rows:
        """The user's rows (a copy of them) as the model is asked: text where it knows a pandas category becomes one."""
        if isinstance(rows, pd.DataFrame):
            for feature in self._pandas_categories:
                if rows[feature.name].dtype != feature.dtype:
                    rows[feature.name] = _widened(rows[feature.name], feature)
        return rows

    @cached_property
    def _pandas_categories(self) -> list[Feature]:
        return [f for f in self.features if isinstance(f.dtype, pd.CategoricalDtype) and not f.columns]

    def new_cells(self, values: Values, start: Values) -> tuple[Booleans, dict[int, "pd.Series[Any]"]]:
        """Which cells of all columns change (rows, columns), and for each such column its new cells."""
        moved = values != start
        if self.is_plain:
            some = np.flatnonzero(moved.any(axis=0))
            return moved, {int(j): self._kinds[j].write(values[moved[:, j], j])[self.names[j]] for j in some}
        place = {name: at for at, name in enumerate(self.columns)}
        changed, new = np.zeros((len(values), len(self.columns)), dtype=bool), {}
        for j in np.flatnonzero(moved.any(axis=0)):
            name, written = self.names[j], self._kinds[j].write(values[moved[:, j], j])
            if not self.features[j].columns:
                changed[:, place[name]], new[place[name]] = moved[:, j], written[name]
                continue
            before = self._kinds[j].write(start[moved[:, j], j])
            for name, after in written.items():
                pairs = zip(after.tolist(), before[name].tolist(), strict=True)
                other = np.array([is_missing(old) or new_cell != old for new_cell, old in pairs], dtype=bool)
                rows = np.flatnonzero(moved[:, j])[other]  # of a group only two columns change
                if len(rows):
                    changed[rows, place[name]] = True
                    new[place[name]] = after[other].reset_index(drop=True)
        for one in self.derived:  # computed anew where what it is computed from has changed
            where = moved[:, self.inputs_of_derived[one.name]].any(axis=1)
            if where.any():
                changed[where, place[one.name]] = True
                new[place[one.name]] = one.column(self.cells(values[where]))
        return changed, new

    def model_input(self, values: Values) -> Rows:
        """Values in the container and dtypes of the training rows, as fast as possible: the model is asked with it.

        Nobody else holds the cells: the model may write into them.
        """
        if len(self._numbers) == 1 and (self.container == "frame" or self.array_dtype in map(str, self._numbers)):
            cells = self.model_array(values)
            return pd.DataFrame(cells, columns=self._index, copy=False) if self.container == "frame" else cells
        columns = self._columns_of(values)  # without indices, which pandas would join; but text of objects stays so
        frame = pd.DataFrame({name: own if own.dtype == object else own.array for name, own in columns.items()})
        return frame if self.container == "frame" else as_array(frame, np.dtype(self.array_dtype))

    def _columns_of(self, values: Values) -> Columns:
        cells = self.cells(values)
        made = {one.name: one.column(cells) for one in self.derived}
        for j, kind in enumerate(self._kinds):
            made |= kind.write(values[:, j])
        return {name: made[name] for name in self.columns}

    def columns_of(self, values: Values, names: Iterable[Hashable]) -> pd.DataFrame:
        """Some columns of rows, in the dtypes of the training rows; a one-hot group by its name is its category."""
        made = self._columns_of(values)
        for j, feature in enumerate(self.features):
            if feature.columns and feature.name not in made:
                made[feature.name] = self.categories_of_group(j, values[:, j])
        return pd.DataFrame({name: made[name] for name in names})

    def categories_of_group(self, j: int, codes: Floats) -> "pd.Series[Any]":
        """The words for categories of a one-hot group; of cells that are no code of it, these themselves."""
        known = [*self.features[j].categories, *self.foreign_cells(j)]
        return pd.Series([known[int(code)] for code in codes], dtype=object)

    def model_array(self, values: Values) -> Array:
        """The cells of `model_input` as `to_numpy` would give them, without a frame in between (if `has_arrays`)."""
        missing = values == self.missing_codes
        if missing.any():
            values = np.where(missing, np.nan, values)
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
        return columns_by_dtype(self.features) if self.is_plain else {}

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.names)


def _widened(column: Any, feature: Feature) -> Any:
    own = column.dropna()
    unseen = [cell for cell in own.unique() if cell not in feature.dtype.categories]
    if not unseen:
        return column.astype(feature.dtype)
    dtype = pd.CategoricalDtype([*feature.dtype.categories, *unseen], ordered=False)
    return column.astype(dtype)
