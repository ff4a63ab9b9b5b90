"""Constraints of one call: what of a space's features may change, and how far, for all rows or for each its own."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats
from relax_plugin.errors import ConstraintError, InputError, UnknownNameError, did_you_mean
from relax_plugin.limits import Grid, Limits
from relax_plugin.table.columns import Feature, narrowed

Bounds = Mapping[Any, Sequence[Any]]


@dataclass(frozen=True)
class Constraints:
    """What a call says about features; as the user wrote it, not looked at yet."""

    vary: Iterable[Hashable] | None = None
    bounds: Bounds | None = None
    immutable: Iterable[Hashable] | None = None
    increase_only: Iterable[Hashable] | None = None
    decrease_only: Iterable[Hashable] | None = None

    def kept(self) -> "Constraints":
        """The same; names that can be gone through only once, such as a generator's, are lists."""
        again: dict[str, Any] = {name: list(given) for name, given in vars(self).items() if isinstance(given, Iterator)}
        return replace(self, **again)

    def any(self) -> bool:
        return any(value is not None for value in vars(self).values())


def limits_of(
    features: Sequence[Feature],
    grid: Grid,
    said: Constraints,
    rows: int | None,
    others: Mapping[Hashable, str] | None = None,
) -> Limits:
    """The limits of features under the constraints of a call; `rows` is how many rows it has, if that is known."""
    said, narrow, names = said.kept(), list(features), [f.name for f in features]
    low_of_rows: dict[int, Floats] = {}
    high_of_rows: dict[int, Floats] = {}
    if said.bounds is not None and not isinstance(said.bounds, Mapping):
        raise InputError(
            f"bounds is {said.bounds!r}; give a mapping of name to (low, high) or to a list of categories."
        )
    for argument, given in vars(said).items():
        if given is not None:
            refuse_unknown(argument, given if argument == "bounds" else listed(given, argument), names, others)
    for name, bound in (said.bounds or {}).items():
        j = names.index(name)
        if _one_a_row(narrow[j], bound):
            low_of_rows[j], high_of_rows[j] = _ends_of_rows(narrow[j], bound, rows)
        else:
            narrow[j] = narrowed(narrow[j], bound)
    narrow = _with_directions(narrow, names, said)
    if said.vary is not None:
        varied = listed(said.vary, "vary")
        for name in varied:
            if features[names.index(name)].immutable:
                raise ConstraintError(f"vary names feature {name!r}, which is immutable.")
        narrow = [f if f.name in varied else replace(f, immutable=True) for f in narrow]
    if said.immutable is not None:
        fixed = listed(said.immutable, "immutable")
        narrow = [replace(f, immutable=True) if f.name in fixed else f for f in narrow]
    low, high = np.array([[f.low for f in narrow]]), np.array([[f.high for f in narrow]])
    if low_of_rows:
        low, high = np.repeat(low, rows or 0, axis=0), np.repeat(high, rows or 0, axis=0)
        for j in low_of_rows:
            low[:, j], high[:, j] = np.maximum(low[:, j], low_of_rows[j]), np.minimum(high[:, j], high_of_rows[j])
    return Limits(
        low=low,
        high=high,
        frozen=np.array([[f.immutable for f in narrow]], dtype=bool),
        choices=np.array([[choice for f in narrow for choice in f.choices]], dtype=bool).reshape(1, -1),
        grid=grid,
        direction=np.array([{"increase": 1, "decrease": -1, None: 0}[f.direction] for f in narrow]),
        category_offsets=np.cumsum([0] + [len(f.categories) for f in features]),
        missing_codes=np.array([_missing_code(f) for f in features]),
        vanishable=np.array([f.vanishable for f in features], dtype=bool),
    )


def _missing_code(feature: Feature) -> float:
    """The value of a missing cell: of categories their last one, if they may vanish; else NaN, which nothing equals."""
    if feature.kind != "categorical":
        return feature.missing_code
    return len(feature.categories) - 1.0 if feature.vanishable else np.nan


def _with_directions(features: list[Feature], names: list[Hashable], said: Constraints) -> list[Feature]:
    for argument, direction in (("increase_only", "increase"), ("decrease_only", "decrease")):
        given = getattr(said, argument)
        if given is None:
            continue
        listed_names = listed(given, argument)
        for name in listed_names:
            j = names.index(name)
            features[j] = with_direction(features[j], direction)
    return features


def with_direction(feature: Feature, direction: Any) -> Feature:
    """The feature with a direction, refused if it has the other one, or no order."""
    if feature.direction not in (None, direction):
        raise ConstraintError(f"feature {feature.name!r} is both increase_only and decrease_only; make it immutable.")
    if feature.kind == "categorical" and not feature.ordered:
        raise ConstraintError(
            f"feature {feature.name!r} has a direction, but its categories {list(feature.categories)} have no order; "
            f"give it one, ordered={{{feature.name!r}: [...]}}, or make it an integer."
        )
    return replace(feature, direction=direction)


def _one_a_row(feature: Feature, bound: Any) -> bool:
    if feature.kind == "categorical" or not isinstance(bound, tuple | list) or len(bound) != 2:
        return False
    return any(pd.api.types.is_list_like(end) for end in bound)


def _ends_of_rows(feature: Feature, bound: Sequence[Any], rows: int | None) -> tuple[Floats, Floats]:
    """Low and high ends, one a row; infinite where None, NaN or inf says that there is none."""
    ends = []
    for end, none in zip(bound, (-np.inf, np.inf), strict=True):
        try:
            numbers = np.asarray(pd.to_numeric(pd.Series(end if pd.api.types.is_list_like(end) else [end])), float)
        except (TypeError, ValueError) as error:
            raise ConstraintError(f"the bounds of feature {feature.name!r} are no numbers: {error}.") from error
        if rows is not None and len(numbers) not in (1, rows):
            raise ConstraintError(
                f"the bounds of feature {feature.name!r} have {len(numbers)} numbers for {rows} rows; "
                "give one, or one a row."
            )
        numbers = np.where(np.isnan(numbers), none, numbers)
        ends.append(np.broadcast_to(numbers, (rows if rows is not None else len(numbers),)))
    low, high = ends
    if (low > high).any():
        row = int(np.argmax(low > high))
        raise ConstraintError(
            f"the bounds of feature {feature.name!r} are [{low[row]:g}, {high[row]:g}] in row {row}; give low <= high."
        )
    return low, high


def refuse_unknown(
    argument: str, names: Iterable[Hashable], known: Collection[Hashable], others: Mapping[Hashable, str] | None = None
) -> None:
    """Refuse names that are none of a feature; `others` are columns that are none, with what they are."""
    for name in names:
        if name not in known:
            if others and name in others:
                raise UnknownNameError(f"{argument} names column {name!r}, {others[name]}.")
            raise UnknownNameError(f"{argument} names feature {name!r}; {did_you_mean(name, known)}")


def no_features(groups: Mapping[Hashable, Iterable[Hashable]], derived: Iterable[Hashable]) -> dict[Hashable, str]:
    """The columns that are no features of their own, with what they are: parts of one-hot groups, derived ones."""
    parts = {
        column: f"which is a part of the one-hot group {group!r}; name that"
        for group, columns in groups.items()
        for column in columns
    }
    return parts | dict.fromkeys(derived, "which is derived: it follows from others, and nothing is said about it")


def mapped(costs: Mapping[Any, Any], argument: str) -> Mapping[Any, Any]:
    """The mapping itself; a sentence if it is none."""
    if not isinstance(costs, Mapping):
        wanted = "its categories in order" if argument == "ordered" else "number"
        raise InputError(f"{argument} is {costs!r}; give a mapping of feature name to {wanted}.")
    return costs


def listed(names: Iterable[Hashable], argument: str) -> list[Hashable]:
    """The names as a list; a sentence if they are none, or a single text."""
    if not isinstance(names, Iterable):
        raise InputError(f"{argument} must be a list of feature names, not {names!r}.")
    if isinstance(names, str):
        raise InputError(f"{argument} must be a list of feature names, not the string {names!r}; write [{names!r}].")
    return list(names)
