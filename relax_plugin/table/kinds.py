"""Kinds of features: how the user's cells are read as float64 values, and values written as cells in the user's dtypes.

Both are done for every query: a column is looked at closely only where something may be wrong with it. A missing number
is its feature's `missing_code`; a cell that is none of a feature's categories has a place behind them (`Foreign`).
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, UnknownCategoryError
from relax_plugin.table.columns import EXACT, Feature, as_integers, refuse_inexact
from relax_plugin.table.tables import numbers_of, some_of
from relax_plugin.table.vocabulary import Foreign, Group, is_missing

Columns = dict[Hashable, "pd.Series[Any]"]


@dataclass(frozen=True)
class Kind(ABC):
    """Reads and writes the cells of a feature; `foreign` are those known that are none of its categories."""

    feature: Feature
    foreign: Foreign

    @classmethod
    def of(cls, feature: Feature, foreign: Foreign) -> "Kind":
        """The kind of a feature."""
        own = OneHot if feature.columns else Category if feature.kind == "categorical" else Number
        return own(feature, foreign)

    @abstractmethod
    def read(self, frame: pd.DataFrame) -> tuple[Floats, Foreign]:
        """The value of each row, and the foreign cells with those that are new."""

    @abstractmethod
    def write(self, values: Floats) -> Columns:
        """The columns that hold these values, in the feature's dtypes."""

    def refuse(self, frame: pd.DataFrame, row: int) -> InputError:
        """What is to be said of a cell that is neither a category nor foreign and known."""
        cell = frame[self.feature.name].iloc[row]
        said = f"feature {self.feature.name!r} is {cell!r} in row {row}, "
        if is_missing(cell) or self.feature.carried:
            return InputError(f"{said}which the rows of this call did not have.")
        return UnknownCategoryError(f"{said}but the training data has only {some_of(self.feature.categories)}.")


class Number(Kind):
    """A number, whole or not."""

    def read(self, frame: pd.DataFrame) -> tuple[Floats, Foreign]:
        column = frame[self.feature.name]
        numbers = plain_numbers(column, [column.dtype], np.array(self.feature.missing_code))
        if numbers is None:
            numbers = numbers_of(self.feature.name, column)
            refuse_inexact(self.feature, numbers)
            numbers = np.where(np.isnan(numbers), self.feature.missing_code, numbers)
        return numbers, self.foreign

    def write(self, values: Floats) -> Columns:
        cells = self._cells(values)
        return {self.feature.name: pd.Series(cells, dtype=cells.dtype)}

    def _cells(self, values: Floats) -> Any:
        dtype = self.feature.dtype
        missing = values == self.feature.missing_code
        if isinstance(dtype, np.dtype):
            return in_dtype(np.where(missing, np.nan, values) if missing.any() else values, dtype)
        present = np.where(missing, self.feature.low, values)
        whole = as_integers(present, dtype) if pd.api.types.is_integer_dtype(dtype) else present
        fractions = pd.array(present, dtype="float64")  # which queries may have where training had none
        cells: Any = fractions if whole is None else pd.array(whole).astype(dtype)
        if missing.any():
            cells[missing] = pd.NA if not isinstance(cells.dtype, np.dtype) else np.nan
        return cells


class Category(Kind):
    """A category, ordered or not; or, without categories, cells that are carried to the model as they are."""

    def read(self, frame: pd.DataFrame) -> tuple[Floats, Foreign]:
        cells, known = frame[self.feature.name].tolist(), len(self.feature.categories)
        try:
            codes = np.array([self._places.get(cell, -1) for cell in cells], dtype=np.float64)
        except TypeError:  # a cell that cannot be hashed
            codes = np.full(len(cells), -1.0)
        rows = np.flatnonzero(codes < 0)
        if self.feature.vanishable:
            gaps = np.array([is_missing(cells[row]) for row in rows], dtype=bool)
            codes[rows[gaps]] = known - 1.0  # the last one, which stands for all that is missing
            rows = rows[~gaps]
        if len(rows) == 0:
            return codes, self.foreign
        places, foreign = self.foreign.and_these(cells[row] for row in rows)
        codes[rows] = known + places
        return codes, foreign

    def write(self, values: Floats) -> Columns:
        known = self._known_cells
        if known is not None and not (values >= len(known)).any():
            return {self.feature.name: pd.Series(known.take(values.astype(np.int64)), dtype=known.dtype)}
        return {self.feature.name: self._column(values)}

    @cached_property
    def _places(self) -> dict[Any, int]:
        own = self.feature.categories[: len(self.feature.categories) - self.feature.vanishable]
        return {category: place for place, category in enumerate(own)}

    @cached_property
    def _known_cells(self) -> Any:
        """All categories in the feature's dtype; None where cells need a closer look."""
        if self.feature.carried or self.feature.vanishable:
            return None
        return self._column(np.arange(len(self.feature.categories), dtype=np.float64)).array

    def _column(self, values: Floats) -> "pd.Series[Any]":
        dtype, known, codes = self.feature.dtype, len(self.feature.categories), values.astype(int)
        objects = np.empty(known + len(self.foreign.cells), dtype=object)
        objects[:known] = self.feature.categories
        for place, cell in enumerate(self.foreign.cells, start=known):
            objects[place] = cell  # which may be a list: it must not be spread out
        if isinstance(dtype, pd.CategoricalDtype):
            cells: Any = self._categorical(objects, codes)
        else:
            strange = self.feature.vanishable or (codes >= known).any()
            cells = pd.array(objects[codes], dtype=_that_holds(dtype, objects[np.unique(codes)]) if strange else dtype)
        column: pd.Series[Any] = pd.Series(cells, dtype=cells.dtype)  # else text of dtype object is read as str
        return column

    def _categorical(self, objects: Array, codes: Any) -> pd.Categorical:
        """Cells of a pandas Categorical, whose own order may be another than the feature's, with unseen categories."""
        known = self.feature.dtype.categories
        used = {place: objects[place] for place in np.unique(codes) if not is_missing(objects[place])}
        unseen = list(dict.fromkeys(cell for cell in used.values() if cell not in known))
        dtype = pd.CategoricalDtype([*known, *unseen], ordered=False) if unseen else self.feature.dtype
        place = np.full(len(objects), -1)
        for own, cell in used.items():
            place[own] = dtype.categories.get_loc(cell)
        return pd.Categorical.from_codes(place[codes], dtype=dtype)


class OneHot(Kind):
    """A category that is written as several columns, of which at most one is 1."""

    def read(self, frame: pd.DataFrame) -> tuple[Floats, Foreign]:
        columns, known = self.feature.columns, len(self.feature.categories)
        cells, sound = one_hot_cells(frame, columns)
        codes = cells.argmax(axis=1).astype(np.float64)
        none = sound & (cells.sum(axis=1) == 0)
        codes[none] = len(columns)
        rows = np.flatnonzero(~sound | (none & (known == len(columns))))
        if len(rows) == 0:
            return codes, self.foreign
        own = [frame[column].array for column in columns]
        places, foreign = self.foreign.and_these(Group(column[row] for column in own) for row in rows)
        codes[rows] = known + places
        return codes, foreign

    def write(self, values: Floats) -> Columns:
        known = len(self.feature.categories)
        rows, made = np.flatnonzero(values >= known), {}
        for place, (column, dtype) in enumerate(zip(self.feature.columns, self.feature.dtypes, strict=True)):
            cells = pd.Series((values == place).astype(np.int64)).astype(dtype)
            if len(rows):
                objects = cells.astype(object)
                odd = [self.foreign.cells[int(values[row]) - known][place] for row in rows]
                objects.iloc[rows] = pd.Series(odd, index=rows, dtype=object)
                cells = objects.infer_objects()
            made[column] = cells
        return made

    def refuse(self, frame: pd.DataFrame, row: int) -> InputError:
        return InputError(f"the columns of group {self.feature.name!r} are no one-hot code in row {row}.")


def one_hot_cells(frame: pd.DataFrame, columns: Sequence[Hashable]) -> tuple[Array, Booleans]:
    """The cells as numbers, 0 where there is none; and whether a row's are 0 and 1, with one 1 at most."""
    numbers = [
        pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64, na_value=np.nan) for column in columns
    ]
    cells = np.column_stack(numbers)
    sound = ((cells == 0) | (cells == 1)).all(axis=1) & (cells.sum(axis=1) <= 1)
    return np.nan_to_num(cells), np.asarray(sound)


def _that_holds(dtype: Any, cells: Array) -> Any:
    plain = isinstance(dtype, np.dtype) and dtype.kind in "biu"
    if plain and all(is_missing(cell) or isinstance(cell, int | float) for cell in cells):
        return np.dtype(object) if dtype.kind == "b" else np.dtype(np.float64)
    try:
        pd.array(cells, dtype=dtype)
    except (TypeError, ValueError):
        return np.dtype(object)
    return dtype


# Many columns at once.


def plain_numbers(table: Any, dtypes: Any, codes: Floats) -> Values | None:
    """All cells of a frame or column, if they are numbers of numpy about which nothing can be wrong; else None."""
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes):
        return None
    numbers = np.array(table.to_numpy(dtype=np.float64), order="C")
    exact = np.abs(numbers) < EXACT
    if exact.all():
        return numbers
    missing = np.isnan(numbers)
    return np.where(missing, codes, numbers) if (exact | missing).all() else None


def columns_by_dtype(features: Sequence[Feature]) -> dict[np.dtype[Any], Any]:
    """The columns of each dtype, if all hold numbers in dtypes of numpy; else nothing."""
    dtypes = [feature.dtype for feature in features]
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes)
    if not plain or any(feature.kind == "categorical" for feature in features):
        return {}
    if len(set(dtypes)) == 1:
        return {dtypes[0]: slice(None)}
    return {dtype: np.flatnonzero([own == dtype for own in dtypes]) for dtype in dict.fromkeys(dtypes)}


def in_dtype(values: Floats, dtype: np.dtype[Any]) -> Array:
    """A copy of the values in a dtype of numpy; as they are where it holds whole numbers and some have fractions."""
    cells = as_integers(values, dtype) if dtype.kind in "iu" else values.astype(dtype)
    return values.copy() if cells is None else cells
