"""Moves: what may change in one query, each with its reach, its price and its effect on the first rectifiers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.limits import Limits
from relax_plugin.networks.relu import ReluNetwork

ON_GRID = 1e-6  # of a step: what a point of the grid may be off by rounding


@dataclass(frozen=True)
class Moves:
    """The moves of one query: a number that moves by an amount, or another category, which moves by just 1."""

    space: FeatureSpace
    limits: Limits
    start: Floats  # (features,)
    first: Floats  # (rectifiers,) what goes into the first ones for the query itself
    feature: Integers  # (moves,), as all below but `error`
    code: Floats  # the category; NaN of a number
    slope: Floats  # (moves, rectifiers) what one unit of the move adds to `first`
    low: Floats  # the least amount; of a value outside of its bounds, `low` and `high` have one sign
    high: Floats
    step: Floats  # amounts are origin + k step; step 0: any
    origin: Floats
    price: Floats  # of one unit
    error: Floats  # (outputs,) how far the library's outputs may be from exact ones wherever moves lead

    def __len__(self) -> int:
        return len(self.feature)

    def values(self, active: Integers, amount: Floats) -> Values:
        """The rows (n, features) in which moves (n, k) are made by some amounts, as cells can hold them."""
        values = np.repeat(self.start[None], len(active), axis=0)
        rows = np.arange(len(active))[:, None]
        code = self.code[active]
        values[rows, self.feature[active]] = np.where(np.isnan(code), self.start[self.feature[active]] + amount, code)
        return np.asarray(self.limits.project(values, np.broadcast_to(self.start, values.shape)))

    def down(self, active: Integers, amount: Floats) -> Floats:
        """The largest amount on the grid that is not larger."""
        step = np.where(self.step[active] > 0, self.step[active], 1.0)
        origin = self.origin[active]
        below = origin + np.floor((amount - origin) / step + ON_GRID) * step
        return np.where(self.step[active] > 0, below, amount)


def moves_of(
    network: ReluNetwork, space: FeatureSpace, limits: Limits, row: int, start: Floats, precision: float
) -> Moves:
    """The moves of a query, under its limits."""
    limits = limits.take(np.array([row]))
    low, high = (end[0] for end in limits.span(start[None]))
    numbers = np.flatnonzero(~space.is_categorical & ((low != start) | (high != start)))
    feature, code, rows = numbers.tolist(), [np.nan] * len(numbers), []
    for j in np.flatnonzero(space.is_categorical):
        first, last = limits.category_offsets[j : j + 2]
        for category in np.flatnonzero(limits.choices[0, first:last]):
            other = start.copy()
            other[j] = category
            if category != start[j] and low[j] <= category <= high[j] and limits.kept(other[None], start[None])[0]:
                feature.append(int(j))
                code.append(float(category))
                rows.append(other)
    count = len(numbers)
    asked = model_inputs(space, np.array([start, *rows]))
    effect = np.zeros((len(feature), asked.shape[1]))
    effect[np.arange(count), [space.columns.index(space.names[j]) for j in numbers]] = 1.0
    effect[count:] = asked[1:] - asked[0]
    many = np.array(feature, dtype=np.int64)
    least = np.r_[low[numbers] - start[numbers], np.ones(len(rows))]
    most = np.r_[high[numbers] - start[numbers], np.ones(len(rows))]
    reach = np.stack([effect * least[:, None], effect * most[:, None], np.zeros_like(effect)])
    by_feature = np.zeros((2, len(space), asked.shape[1]))  # moves of one feature exclude each other
    np.minimum.at(by_feature[0], many, reach.min(axis=0))
    np.maximum.at(by_feature[1], many, reach.max(axis=0))
    box = asked[0] + by_feature.sum(axis=1)
    return Moves(
        space=space,
        limits=limits,
        start=start,
        first=asked[0] @ network.weights[0] + network.biases[0],
        feature=many,
        code=np.array(code),
        slope=effect @ network.weights[0],
        low=least,
        high=most,
        step=np.r_[_true_steps(space, numbers, low, high), np.zeros(len(rows))],
        origin=np.r_[space.grid.anchor[numbers] - start[numbers], np.zeros(len(rows))],
        price=np.r_[space.prices[numbers] / space.scale[numbers], space.prices[many[count:]]],
        error=network.rounding(box[0], box[1], precision),
    )


def _true_steps(space: FeatureSpace, numbers: Integers, low: Floats, high: Floats) -> Floats:
    """The steps of numbers; 0 where they are so short that cells of the dtype may hold what is between them."""
    grid = space.grid.take(numbers)
    size = np.maximum(np.maximum(np.abs(low), np.abs(high))[numbers], np.abs(grid.anchor))
    eps = np.array([float(np.finfo(f"f{size_}").eps) for size_ in grid.precision])
    return np.where(grid.step > 8.0 * eps * size, grid.step, 0.0)


def model_inputs(space: FeatureSpace, values: Values) -> Floats:
    """The rows as the model gets them, as numbers."""
    return np.asarray(space.model_input(values), dtype=np.float64)


def input_precision(space: FeatureSpace) -> float:
    """The rounding of the coarsest numbers that rows are made of."""
    kinds = [np.dtype(space.array_dtype)] if space.container == "array" else _numpy_dtypes(space)
    return max([float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"], default=0.0)


def _numpy_dtypes(space: FeatureSpace) -> list[np.dtype[Any]]:
    dtypes = [dtype for f in space.features for dtype in (f.dtypes or (f.dtype,))]
    return [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes if not isinstance(dtype, pd.CategoricalDtype)]


def why_not_numbers(space: FeatureSpace) -> str | None:
    """Why rows of a space are not numbers that a network takes as they are; None if they are."""
    if space.derived:
        return f"it needs columns that are chosen, and {space.derived[0].name!r} is derived from others"
    for feature in space.features:
        if feature.carried:
            return f"it needs numbers, and {feature.name!r} is carried to the model as it is"
        if feature.vanishable:
            return f"it proves nothing where a number may become missing, as {feature.name!r} may"
        words = [one for one in feature.categories if not isinstance(one, bool | int | float | np.number)]
        if words and not feature.columns:
            return f"it needs numbers, and {feature.name!r} has categories that are none; one-hot columns are taken"
    return None


def refuse_what_is_no_number(space: FeatureSpace) -> None:
    """`why_not_numbers`, as *skipped because ...*."""
    reason = why_not_numbers(space)
    if reason is not None:
        raise UnsupportedError(f"skipped because {reason}.")
