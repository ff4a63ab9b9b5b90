"""One-hot groups: several columns of the user's that are one feature, named or found."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from os.path import commonprefix
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import ConstraintError, UnknownNameError, did_you_mean
from relax_plugin.table.columns import Feature
from relax_plugin.table.kinds import one_hot_cells

NONE = "(none)"  # the category of rows in which no column of a group is set
LEAST_COLUMNS = 2  # of a group that is found, or warned of
SEPARATORS = "_=:.- "  # between the name of a group and that of a category, as pandas, scikit-learn and people write it


def group_feature(name: Hashable, frame: pd.DataFrame, columns: Sequence[Hashable]) -> Feature:
    """The feature that a group of columns is."""
    cells, sound = one_hot_cells(frame, columns)
    wrong = ~sound
    if wrong.any():
        row = int(np.argmax(wrong))
        told = ", ".join(f"{column!r} is {frame[column].iloc[row]!r}" for column in columns)
        raise ConstraintError(
            f"the columns of one_hot group {name!r} are no one-hot code in row {row}: {told}; one of them must be 1, "
            "or none, and the others 0."
        )
    labels = _labels(name, columns)
    none = bool((cells.sum(axis=1) == 0).any())
    categories = (*labels, *([NONE] if none else []))
    seen = (*(cells.sum(axis=0) > 0).tolist(), *([True] if none else []))
    return Feature(
        name=name,
        kind="categorical",
        dtype=np.dtype(object),
        low=0.0,
        high=float(len(categories) - 1),
        step=1.0,
        categories=categories,
        choices=tuple(bool(one) for one in seen),
        columns=tuple(columns),
        dtypes=tuple(frame[column].dtype for column in columns),
    )


def read_groups(groups: Any, frame: pd.DataFrame) -> dict[Hashable, list[Hashable]]:
    """The groups that the user names, refused if they are none; "auto": those that are found."""
    if isinstance(groups, str):
        if groups != "auto":
            raise ConstraintError(f"one_hot is {groups!r}; give 'auto', or a mapping of name to a list of columns.")
        return find_groups(frame)
    if not isinstance(groups, Mapping):
        raise ConstraintError(f"one_hot is {groups!r}; give 'auto', or a mapping of name to a list of columns.")
    owner: dict[Hashable, Hashable] = {}
    for name, columns in groups.items():
        if isinstance(columns, str) or not isinstance(columns, Iterable) or len(list(columns)) < LEAST_COLUMNS:
            raise ConstraintError(f"one_hot group {name!r} is {columns!r}; give a list of two columns or more.")
        if name in frame.columns and name not in columns:
            raise ConstraintError(f"one_hot group {name!r} has the name of a column; give it another.")
        for column in columns:
            if column not in frame.columns:
                known = did_you_mean(column, frame.columns)
                raise UnknownNameError(f"one_hot group {name!r} names column {column!r}; {known}")
            if column in owner:
                raise ConstraintError(f"column {column!r} is in the one_hot groups {owner[column]!r} and {name!r}.")
            owner[column] = name
    return {name: list(columns) for name, columns in groups.items()}


def find_groups(frame: pd.DataFrame) -> dict[Hashable, list[Hashable]]:
    """Groups of columns of 0 and 1 with a common beginning of their names, of which each row sets exactly one."""
    zero_one = [name for name in frame.columns if isinstance(name, str) and _is_zero_or_one(frame[name])]
    by_prefix: dict[str, list[Hashable]] = {}
    for name in zero_one:
        for place, letter in enumerate(name):
            if letter in SEPARATORS and 0 < place < len(name) - 1:
                by_prefix.setdefault(name[: place + 1], []).append(name)
    found: dict[Hashable, list[Hashable]] = {}
    taken: set[Hashable] = set()
    for prefix, names in sorted(by_prefix.items(), key=lambda item: len(item[0])):
        free = [name for name in names if name not in taken]
        if len(free) >= LEAST_COLUMNS and (frame[free].to_numpy(dtype=np.float64).sum(axis=1) == 1).all():
            found[_free_name(prefix.rstrip(SEPARATORS), frame)] = free
            taken.update(free)
    return found


def _free_name(name: str, frame: pd.DataFrame) -> str:
    while name in frame.columns:
        name += "_group"
    return name


def _labels(name: Hashable, columns: Sequence[Hashable]) -> list[str]:
    texts = [str(column) for column in columns]
    shared = commonprefix(texts)  # noqa: RUF071 (no paths: letter by letter is right)
    cut = max((shared.rfind(letter) for letter in SEPARATORS), default=-1) + 1
    if not cut and shared == str(name):
        cut = len(shared)
    short = [text[cut:] for text in texts]
    return short if all(short) and len(set(short)) == len(short) and NONE not in short else texts


def _is_zero_or_one(column: "pd.Series[Any]") -> bool:
    dtype = column.dtype
    if not (pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype)):
        return False
    if pd.api.types.is_complex_dtype(dtype) or isinstance(dtype, pd.SparseDtype) or column.isna().any():
        return False
    return bool(column.isin((0, 1)).all())
