"""Features as plain data and back. What a file holds is looked at as if a stranger had written it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import InputError
from relax_plugin.table.columns import Feature, range_of
from relax_plugin.table.tables import is_arrow_dictionary, is_category_dtype, item_of


def checked(feature: Feature) -> Feature:
    """The feature, if it is one that rows could have given; else a refusal: it may come from a hostile file."""
    numbers = (feature.low, feature.high, feature.anchor, feature.mean, feature.scale, feature.step or 1.0)
    sound = all(
        isinstance(x, int | float) and not isinstance(x, bool) and np.isfinite(x) for x in (*numbers, feature.cost)
    )
    sound = sound and feature.low <= feature.high and feature.scale > 0 and (feature.step is None or feature.step > 0)
    sound = sound and feature.cost > 0
    sound = sound and isinstance(feature.name, Hashable) and feature.direction in (None, "increase", "decrease")
    flags = (feature.immutable, feature.ordered, feature.fillable, feature.vanishable, *feature.choices)
    sound = sound and all(isinstance(x, bool) for x in flags)
    if feature.carried:
        sound = sound and feature.immutable and not (feature.choices or feature.columns or feature.vanishable)
    elif feature.kind == "categorical":
        known = feature.categories
        sound = sound and len(feature.choices) == len(known) == len(set(known))
        sound = sound and (feature.low, feature.high, feature.step) == (0, len(known) - 1, 1)
        sound = sound and is_category_dtype(feature.dtype)
        sound = sound and [pd.isna(category) for category in known].count(True) == feature.vanishable
        sound = sound and (feature.direction is None or feature.ordered)
        if feature.columns:
            sound = sound and len(set(feature.columns)) == len(feature.columns) == len(feature.dtypes)
            sound = sound and len(feature.columns) <= len(known) <= len(feature.columns) + 1 and not feature.vanishable
            sound = sound and all(pd.api.types.is_numeric_dtype(dtype) for dtype in feature.dtypes)
        if pd.api.types.is_bool_dtype(feature.dtype):
            sound = sound and all(isinstance(category, bool) for category in known if not pd.isna(category))
    else:
        sound = sound and feature.kind in ("continuous", "integer") and not feature.categories and not feature.choices
        odd = pd.api.types.is_bool_dtype(feature.dtype) or pd.api.types.is_complex_dtype(feature.dtype)
        sound = sound and pd.api.types.is_numeric_dtype(feature.dtype) and not odd
        if sound and feature.kind == "integer":
            sound = feature.step is not None and feature.step % 1 == 0
        if sound and not feature.immutable:
            least, most = range_of(feature.dtype)
            sound = least <= feature.low and feature.high <= most
    if not sound:
        raise InputError(f"feature {feature.name!r} contradicts itself: {feature}.")
    return feature


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """The feature as JSON-ready data."""
    return {
        **asdict(feature),
        "name": plain(feature.name, feature.name),
        "categories": [None if pd.isna(own) else plain(feature.name, own) for own in feature.categories],
        "choices": list(feature.choices),
        "dtype": dtype_text(feature.dtype),
        "columns": [plain(feature.name, name) for name in feature.columns],
        "dtypes": [dtype_text(dtype) for dtype in feature.dtypes],
    }


def feature_from_dict(data: Mapping[str, Any]) -> Feature:
    """What `feature_to_dict` gave, refused if no column could have given it."""
    categories = tuple(np.nan if category is None else category for category in data["categories"])
    lists = {name: tuple(data[name]) for name in ("choices", "columns", "dtypes")}
    feature = Feature(**{**data, **lists, "categories": categories})
    known = [category for category in categories if not pd.isna(category)]
    dtype = dtype_from_text(feature.dtype, known, feature.ordered, carried=feature.carried)
    dtypes = tuple(dtype_from_text(text, (), False) for text in feature.dtypes)
    return checked(replace(feature, dtype=dtype, dtypes=dtypes))


def dtype_text(dtype: Any) -> str:
    """A dtype as text, from which it can be restored together with the categories."""
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category:{dtype.categories.dtype}"
    if is_arrow_dictionary(dtype):
        kind = dtype.pyarrow_dtype
        return f"arrow-dictionary:{kind.index_type}:{kind.value_type}:{int(kind.ordered)}"
    return str(dtype)


def refuse_unwritable(feature: Feature) -> None:
    """Refuse a column whose dtype no text restores: a dictionary, a list or a decimal of pyarrow, say."""
    text = dtype_text(feature.dtype)
    try:
        dtype_from_text(text, (), False, carried=True)
    except (TypeError, NotImplementedError) as error:
        raise InputError(
            f"feature {feature.name!r} has dtype {text}, which a file cannot hold; write astype('category'), or "
            "astype(object)."
        ) from error


def dtype_from_text(text: str, categories: Sequence[Any], ordered: bool, carried: bool = False) -> Any:
    """What `dtype_text` wrote; only a carried column may have any dtype."""
    if text.startswith("category:"):
        kind = dtype_from_text(text.removeprefix("category:"), (), False)
        return pd.CategoricalDtype(pd.Index(list(categories), dtype=kind), ordered=ordered)
    if text.startswith("arrow-dictionary:"):
        import pyarrow

        index, values, kept = text.removeprefix("arrow-dictionary:").split(":")
        named = pyarrow.type_for_alias(index), pyarrow.type_for_alias(values)
        return pd.ArrowDtype(pyarrow.dictionary(*named, ordered=bool(int(kept))))
    dtype = pd.api.types.pandas_dtype(text)
    if isinstance(dtype, np.dtype) and dtype.kind not in (
        "biufOmMc" if carried else "biufO"
    ):  # of a file: a text a gigabyte wide, say
        raise InputError(f"a column has dtype {text!r}; numbers, text, bool and Categorical are supported.")
    return dtype


def plain(name: Hashable, value: Any) -> Any:
    value = item_of(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InputError(f"feature {name!r} has {value!r} of type {type(value).__name__}, which JSON cannot hold.")
