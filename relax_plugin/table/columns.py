"""Feature: one column, how it is read off training data, and bounded."""

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Floats
from relax_plugin.errors import ConstraintError, InputError, UnknownCategoryError
from relax_plugin.table.tables import item_of, numbers_of, refuse_unhashable, some_of

Direction = Literal["increase", "decrease"] | None

DIGITS = {2: 3, 4: 6, 8: 15}  # decimal digits that a float of so many bytes holds, whatever the number
MOST_DECIMALS = 22  # powers of ten up to this one are exact as float64
NO_DECIMALS = -1  # says that no short decimals write a number
EXACT = 2.0**53  # whole numbers from here on are not exact as float64, in which values are computed
LOOKED_AT = 1000  # first numbers of a column that may show quickly that it has no decimals in common
MANY_CATEGORIES = 1000  # more are worth a warning
MANY_FOR_ITS_ROWS = 50  # so many are worth one if every second row has its own
NEARLY_ALL = 0.9  # share of the rows with a text of their own from which on a column is carried: it names rows
FAR_BELOW = 1024.0  # standard deviations below the mean, or the bounds, where the code of a missing number is


@dataclass(frozen=True)
class Feature:
    """One column: its kind, what it may become, and its dtype.

    `low`, `high`, `step`, `mean`, `scale` are in the user's unit, allowed values being `anchor` + k `step`. For a
    categorical feature `low` and `high` are positions in `categories`, and `choices` says which may be chosen; one
    without categories is *carried*: whatever its cells are, they reach the model as they are. A feature of several
    `columns` is a one-hot group: a category for each column, and a last one where no column is set, if rows have it.
    """

    name: Hashable
    kind: Literal["continuous", "integer", "categorical"]
    dtype: Any
    low: float
    high: float
    step: float | None = None
    anchor: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[Any, ...] = ()
    choices: tuple[bool, ...] = ()
    ordered: bool = False
    immutable: bool = False
    direction: Direction = None
    fillable: bool = False  # whether a missing cell may get a value
    vanishable: bool = False  # whether a value may become missing
    columns: tuple[Hashable, ...] = ()  # of a one-hot group,
    dtypes: tuple[Any, ...] = ()  # and theirs
    cost: float = 1.0  # the price of one standard deviation of a number, or of another category

    @property
    def carried(self) -> bool:
        """Whether its cells are neither numbers nor categories: they never change."""
        return self.kind == "categorical" and not self.categories

    @property
    def missing_code(self) -> float:
        """The number that stands for a missing cell of a number: finite, and far below all that it may be.

        It is the same under other bounds, unless these reach so far.
        """
        code = self.mean - FAR_BELOW * self.scale
        # Far away from 0 a step must be long to be one at all.
        return code if code < self.low - self.scale else self.low - max(FAR_BELOW * self.scale, abs(self.low))


def with_bounds(feature: Feature, bound: Sequence[Any]) -> Feature:
    """The feature with these bounds in place of the data's: (low, high), or the categories that may be chosen."""
    if isinstance(bound, str) or not isinstance(bound, Iterable):
        raise ConstraintError(f"the bounds of feature {feature.name!r} are {bound!r}; give (low, high) or a list.")
    bound = list(bound)
    if feature.kind == "categorical":
        unknown = [category for category in bound if category not in feature.categories]
        if unknown:
            raise UnknownCategoryError(
                f"the bounds of feature {feature.name!r} name {unknown[0]!r}, "
                f"but the training data has only {some_of(feature.categories)}."
            )
        chosen = [category in bound for category in feature.categories]
        if feature.vanishable:
            chosen[-1] = True  # bounds say what a value may be, not whether there is one
        return replace(feature, choices=tuple(chosen))
    if len(bound) != 2:
        raise ConstraintError(f"the bounds of feature {feature.name!r} are {bound}; give (low, high).")
    try:
        if any(isinstance(end, str) for end in bound):
            raise TypeError("text")
        low = feature.low if bound[0] is None or bound[0] == -np.inf else float(bound[0])
        high = feature.high if bound[1] is None or bound[1] == np.inf else float(bound[1])
    except (TypeError, ValueError, OverflowError) as error:
        raise ConstraintError(f"the bounds of feature {feature.name!r} are {bound}; give numbers.") from error
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        told = "give finite low <= high."
        if None in bound and np.isfinite(low) and np.isfinite(high):  # the end not given is that of the feature
            told = f"its values reach from {feature.low:g} to {feature.high:g}; give the other end, too."
        raise ConstraintError(f"the bounds of feature {feature.name!r} are {bound}; {told}")
    least, most = range_of(feature.dtype)
    if low < least or high > most:
        raise ConstraintError(
            f"the bounds of feature {feature.name!r} are {bound}, but its dtype {feature.dtype} holds only "
            f"[{least:g}, {most:g}]; widen the dtype of the training rows."
        )
    return replace(feature, low=low, high=high)


def narrowed(feature: Feature, bound: Sequence[Any]) -> Feature:
    """The feature within both its own bounds and those of one call."""
    asked = with_bounds(feature, bound)
    choices = tuple(own and new for own, new in zip(feature.choices, asked.choices, strict=True))
    low, high = max(feature.low, asked.low), min(feature.high, asked.high)
    if low > high:
        raise ConstraintError(
            f"the bounds {list(bound)} of feature {feature.name!r} lie outside its own, "
            f"[{feature.low}, {feature.high}]."
        )
    return replace(asked, choices=choices, low=low, high=high)


def refuse_inexact(feature: Feature, numbers: Floats) -> None:
    """Refuse whole numbers that float64 cannot tell apart, if the feature may change: an ID, a time in nanoseconds."""
    if feature.immutable or not pd.api.types.is_integer_dtype(feature.dtype) or np.isnan(numbers).all():
        return
    row = int(np.nanargmax(np.abs(numbers)))
    if abs(numbers[row]) >= EXACT:
        raise InputError(
            f"feature {feature.name!r} is {numbers[row]:.0f} in row {row}; whole numbers from 2^53 on are not exact in "
            "float64. Make the feature immutable, or rescale it (nanoseconds to seconds, say)."
        )


def names_rows(feature: Feature, column: "pd.Series[Any]") -> bool:
    """Whether nearly every row has a text of its own: an identifier, a remark."""
    if not all(isinstance(category, str) for category in feature.categories):
        return False
    return len(feature.categories) > max(MANY_FOR_ITS_ROWS, NEARLY_ALL * int(column.notna().sum()))


def warn_of_many_categories(feature: Feature, rows: int) -> None:
    count = sum(feature.choices)
    if not feature.immutable and (count > MANY_CATEGORIES or count > max(MANY_FOR_ITS_ROWS, rows / 2)):
        warnings.warn(
            f"feature {feature.name!r} has {count} categories in {rows} rows; is it an identifier? Make it immutable "
            "or leave it out.",
            stacklevel=3,
        )


def carried_feature(name: Hashable, column: "pd.Series[Any]") -> Feature:
    """A column whose cells reach the model as they are."""
    return Feature(name=name, kind="categorical", dtype=column.dtype, low=0.0, high=0.0, step=1.0, immutable=True)


def categorical_feature(name: Hashable, column: "pd.Series[Any]", order: Sequence[Any] | None = None) -> Feature:
    """A column of categories, in the given order, that of its dtype, or none."""
    if pd.api.types.is_object_dtype(column.dtype):
        refuse_unhashable(name, column)
    observed = set(column.dropna().astype(object))
    dtype: Any = column.dtype
    if order is not None:
        categories, ordered = _in_order(name, column, order), True
    elif isinstance(dtype, pd.CategoricalDtype):
        categories, ordered = tuple(dtype.categories), bool(dtype.ordered)
    else:
        ordered = False
        try:
            categories = tuple(sorted(observed))
        except TypeError:  # values of several types have no order of their own
            categories = tuple(sorted(observed, key=lambda value: (type(value).__name__, str(value))))
    return Feature(
        name=name,
        kind="categorical",
        dtype=dtype,
        low=0.0,
        high=float(len(categories) - 1),
        step=1.0,
        categories=tuple(item_of(category) for category in categories),
        choices=tuple(category in observed for category in categories),
        ordered=ordered,
    )


def _in_order(name: Hashable, column: "pd.Series[Any]", order: Any) -> tuple[Any, ...]:
    if isinstance(order, str) or not isinstance(order, Iterable):
        raise ConstraintError(f"the order of feature {name!r} is {order!r}; give the list of its categories, in order.")
    listed = tuple(order)
    if not all(isinstance(category, Hashable) for category in listed):
        raise ConstraintError(f"the order of feature {name!r} is {list(listed)}; a category is one number or text.")
    if len(set(listed)) < len(listed) or not listed:
        raise ConstraintError(f"the order of feature {name!r} is {list(listed)}; name each category once.")
    known = set(listed)
    strange = column.notna().to_numpy() & ~np.array([cell in known for cell in column.tolist()], dtype=bool)
    if strange.any():
        row = int(np.argmax(strange))
        raise ConstraintError(
            f"feature {name!r} is {column.iloc[row]!r} in row {row}, which its order {list(listed)} does not name."
        )
    return listed


def numeric_feature(name: Hashable, column: "pd.Series[Any]", continuous: bool) -> Feature:
    numbers = numbers_of(name, column)
    numbers = numbers[~np.isnan(numbers)]
    if len(numbers) == 0:
        raise InputError(f"feature {name!r} has no rows to be inferred from; pass the training rows.")
    decimals = _decimals_in_common(numbers, column.dtype)
    whole = pd.api.types.is_integer_dtype(column.dtype) or (decimals == 0 and not continuous)
    step = 1.0 if whole else None if decimals is None or decimals == 0 else float(f"1e-{decimals}")
    with np.errstate(over="ignore"):
        deviation = float(numbers.std())
    if not np.isfinite(deviation):
        raise InputError(f"feature {name!r} reaches {numbers.max():g}, too large to be standardised; rescale it.")
    return Feature(
        name=name,
        kind="integer" if whole else "continuous",
        dtype=column.dtype,
        low=float(numbers.min()),
        high=float(numbers.max()),
        step=step,
        mean=float(numbers.mean()),
        scale=deviation if deviation > 0 else 1.0,
    )


def with_step(feature: Feature, step: Any) -> Feature:
    if feature.kind == "categorical":
        raise ConstraintError(f"steps names feature {feature.name!r}, which is categorical; a step needs numbers.")
    number = isinstance(step, int | float | np.number) and not isinstance(step, bool)
    if not number or not 0 < step < np.inf:
        raise ConstraintError(f"the step of feature {feature.name!r} is {step!r}, but must be a positive number.")
    if feature.kind == "integer" and step != int(step):
        raise ConstraintError(f"the step of the integer feature {feature.name!r} is {step}, but must be whole.")
    # as written: the float32 nearest to 0.7 is 0.699999988
    low = feature.low if float_bytes(feature.dtype) == 8 else float(str(_numpy_dtype(feature.dtype).type(feature.low)))
    return replace(feature, step=float(step), anchor=float(np.ceil(low)) if feature.kind == "integer" else low)


def with_cost(feature: Feature, cost: Any) -> Feature:
    """The feature with another price of changing it."""
    number = isinstance(cost, int | float | np.number) and not isinstance(cost, bool)
    if not number or not 0 < cost < np.inf:
        raise ConstraintError(f"the cost of feature {feature.name!r} is {cost!r}, but must be a finite number above 0.")
    return replace(feature, cost=float(cost))


def decimals_of(step: float | None, anchor: float) -> int:
    """Decimals that write every grid point anchor + k * step, so that 0.1 + 2 * 0.1 is delivered as 0.3.

    NO_DECIMALS if there is no grid, or if it cannot be written in as many digits as a float64 surely holds.
    """
    if step is None:
        return NO_DECIMALS

    def places(number: float) -> int:
        for decimals in range(MOST_DECIMALS + 1):
            if abs(number) * 10.0**decimals >= 10.0 ** DIGITS[8]:
                break
            if round(number, decimals) == number:
                return decimals
        return NO_DECIMALS

    both = places(step), places(anchor)
    return NO_DECIMALS if NO_DECIMALS in both else max(both)


def _decimals_in_common(numbers: Floats, dtype: Any) -> int | None:
    """With how many decimals all numbers of a column are written; None if the digits of its dtype do not suffice."""
    held = np.float64 if pd.api.types.is_integer_dtype(dtype) else _numpy_dtype(dtype).type
    largest = float(np.abs(numbers).max())

    def writes(decimals: int, some: Floats) -> bool:
        return bool((np.round(some, decimals).astype(held) == some).all())

    for decimals in range(MOST_DECIMALS + 1):
        if decimals and largest * 10.0**decimals >= 10.0 ** DIGITS[float_bytes(dtype)]:
            return None
        if writes(decimals, numbers[:LOOKED_AT]) and writes(decimals, numbers):
            return decimals
    return None


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(getattr(dtype, "numpy_dtype", dtype))
    return kind


def as_integers(values: Floats, dtype: Any) -> Array | None:
    """The values in an integer dtype of numpy, or None if some are fractions.

    Those of an immutable feature may lie beyond 2^53, rounded; they must not be wrapped around.
    """
    if (values % 1 != 0).any():
        return None
    info = np.iinfo(_numpy_dtype(dtype))
    most = float(info.max) if int(float(info.max)) <= info.max else np.nextafter(float(info.max), 0.0)
    return np.asarray(np.clip(values, float(info.min), most).astype(info.dtype))


def float_bytes(dtype: Any) -> int:
    """Bytes of a float dtype, pandas' own included; 8 for all others, whose values are computed as float64."""
    return min(_numpy_dtype(dtype).itemsize, 8) if pd.api.types.is_float_dtype(dtype) else 8


def range_of(dtype: Any) -> tuple[float, float]:
    """Least and greatest number the dtype holds."""
    kind = _numpy_dtype(dtype)
    if kind.kind in "iu":
        return max(float(np.iinfo(kind).min), 1.0 - EXACT), min(float(np.iinfo(kind).max), EXACT - 1.0)
    return float(np.finfo(kind).min), float(np.finfo(kind).max)
