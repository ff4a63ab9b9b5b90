"""Results as JSON text and back. A text is read as if a stranger had written it: whatever is wrong is a sentence."""

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array
from relax_plugin.asked import Asked
from relax_plugin.errors import InputError, SavedFileError
from relax_plugin.features import FeatureSpace
from relax_plugin.plausibility import read_table
from relax_plugin.results import Counterfactuals
from relax_plugin.table.feature_files import dtype_from_text, dtype_text
from relax_plugin.table.plain_cells import from_plain, to_plain
from relax_plugin.table.tables import array_dtype, as_array

FORMAT = "relax_plugin.Counterfactuals"
JSON_VERSION = 4  # 2 added a checksum and the dtype of arrays, 3 missing cells, groups, carried ones, 4 `asked`
ARRAYS = ("values", "found", "status", "stage", "before", "after", "scores_before", "scores_after", "rows_queried")
OPTIONAL = ("proofs", "proved", "rows_also")


def to_text(result: Counterfactuals) -> str:
    """All of a result as JSON text, with a checksum."""
    arrays = {name: getattr(result, name) for name in ARRAYS}
    arrays |= {"status": result.statuses, "stage": result.stages}  # files always have an entry for each slot
    arrays |= {name: own for name in OPTIONAL if (own := getattr(result, name)) is not None}
    if "plausibility" in vars(result):
        arrays["plausibility"] = result.plausibility.to_numpy(dtype=np.float64)
    queries = result.space.frame(result.queries)
    data = {
        "format": FORMAT,
        "version": JSON_VERSION,
        "space": result.space.to_dict(),
        "queries": {
            "index": [to_plain(key, "index") for key in queries.index],
            "index_names": [None if name is None else str(name) for name in queries.index.names],
            "index_dtype": None if isinstance(queries.index, pd.MultiIndex) else dtype_text(queries.index.dtype),
            "array": str(result.queries.dtype) if isinstance(result.queries, np.ndarray) else "object",
            **table_data(queries),
        },
        "asked": None if result.asked is None else result.asked.to_dict(),
        "carried": None if result.carried is None else table_data(result.carried),
        "seconds": result.seconds,
        "slots": result.found.shape[1],
        **{name: None if array is None else array.tolist() for name, array in arrays.items()},
    }
    text = json.dumps(_without_nan(data), default=lambda value: value.item() if hasattr(value, "item") else str(value))
    return f'{text[:-1]}, "sha256": "{_checksum(text)}"}}'


def from_text(text: str) -> Counterfactuals:
    """Read what `to_text` wrote."""
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise SavedFileError(f"this is not JSON, or it is cut off: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SavedFileError("this JSON was not written by Counterfactuals.to_json.")
    if data.get("version") != JSON_VERSION:
        raise SavedFileError(f"the JSON has version {data.get('version')}; this package reads {JSON_VERSION}.")
    checksum = data.pop("sha256", None)
    if checksum != _checksum(json.dumps(data)):
        raise SavedFileError("the JSON is damaged or was changed: its checksum is not that of its content.")
    try:
        return _from_data(data)
    except Exception as error:  # whatever was written under a right checksum
        raise SavedFileError(f"the JSON is damaged or incomplete: {type(error).__name__} {error}.") from error


def _from_data(data: dict[str, Any]) -> Counterfactuals:
    known = FeatureSpace.from_dict(data["space"])
    index = _index(data["queries"])
    queries = table_frame(data["queries"], known.columns, index, known)
    space, start = known.taking_in(queries)
    numbers = {name: _floats(data[name]) for name in ("values", "scores_before", "scores_after")}
    numbers["proved"] = _floats(data.get("proved"))
    shape = (len(queries), data["slots"])
    values = np.asarray(numbers["values"]).reshape(*shape, len(space))
    # A cell that is none of the categories is the query's own: it cannot have been chosen.
    counts = np.array([len(f.categories) if f.kind == "categorical" else np.inf for f in space.features])
    strange = values >= counts
    if (strange & (start < counts)[:, None]).any():
        raise InputError("a category among its results is none of its feature's.")
    values = np.where(strange, start[:, None], values)
    _check_numbers(space, data, numbers | {"values": values}, shape)
    proofs, carried, asked = data.get("proofs"), data["carried"], data["asked"]
    result = Counterfactuals(
        space=space,
        queries=queries if space.container == "frame" else as_array(queries, array_dtype(data["queries"]["array"])),
        values=values,
        found=np.asarray(data["found"], dtype=bool).reshape(shape),
        status=np.asarray(data["status"], dtype=object).reshape(shape),
        stage=np.asarray(data["stage"], dtype=object).reshape(shape),
        before=_labels(data["before"]).reshape(shape[0]),
        after=_labels(data["after"]).reshape(shape),
        scores_before=numbers["scores_before"],
        scores_after=numbers["scores_after"],
        rows_queried=np.asarray(data["rows_queried"], dtype=np.int64).reshape(shape[0]),
        seconds=data["seconds"],
        proofs=None if proofs is None else np.asarray(proofs, dtype=object).reshape(shape[0]),
        proved=None if numbers["proved"] is None else numbers["proved"].reshape(shape[0], 2),
        carried=None if carried is None else table_frame(carried, carried["names"], index, None),
        asked=None if asked is None else Asked.from_dict(asked),
        rows_also=np.asarray(data["rows_also"], dtype=np.int64).reshape(shape[0]) if "rows_also" in data else None,
    )
    if "plausibility" in data:
        result.__dict__["plausibility"] = read_table(data["plausibility"], result.found)
    return result


def _index(data: dict[str, Any]) -> pd.Index:
    keys, text = [from_plain(key) for key in data["index"]], data["index_dtype"]
    if text is None or text.startswith("category:"):
        made: pd.Index[Any] = pd.Index(keys)
    else:
        made = pd.Index(keys, dtype=dtype_from_text(text, (), False, carried=True))
    return made.set_names(data["index_names"])


def table_data(frame: pd.DataFrame) -> dict[str, Any]:
    """The columns of a table, cell by cell, and their dtypes."""
    return {
        "names": list(frame.columns),
        "columns": [[to_plain(cell, name) for cell in frame[name].tolist()] for name in frame.columns],
        "dtypes": [dtype_text(frame[name].dtype) for name in frame.columns],
    }


def table_frame(data: dict[str, Any], names: list[Any], index: pd.Index, space: FeatureSpace | None) -> pd.DataFrame:
    """What `table_data` wrote; categories of a Categorical are those of its feature, and its own."""
    features = {} if space is None else {f.name: f for f in space.features if not f.columns}
    columns = {}
    for name, column, text in zip(names, data["columns"], data["dtypes"], strict=True):
        cells, feature = [from_plain(cell) for cell in column], features.get(name)
        categories: list[Any] = []
        if text.startswith("category:"):
            own = [] if feature is None else [one for one in feature.categories if not pd.isna(one)]
            categories = [*own, *dict.fromkeys(cell for cell in cells if not pd.isna(cell) and cell not in own)]
        ordered = feature is not None and feature.ordered and len(categories) == len(feature.categories)
        dtype = dtype_from_text(text, categories, ordered, carried=True)
        columns[name] = pd.Series(_array(cells, dtype), index=index, dtype=dtype)
    return pd.DataFrame(columns, index=index)


def _array(cells: list[Any], dtype: Any) -> Any:
    if pd.api.types.is_object_dtype(dtype):
        array = np.empty(len(cells), dtype=object)
        for place, cell in enumerate(cells):
            array[place] = cell  # which may be a list: it must not be spread out
        return array
    return pd.array(cells, dtype=dtype)


def _check_numbers(space: FeatureSpace, data: dict[str, Any], numbers: dict[str, Any], shape: tuple[int, int]) -> None:
    values = numbers["values"]
    codes = ~space.is_categorical | ((values >= 0) & (values % 1 == 0))
    whole = all(isinstance(rows, int) and rows >= 0 for rows in data["rows_queried"])
    flags = all(isinstance(found, bool) for row in data["found"] for found in row)
    sound = shape[1] >= 1 and np.isfinite(values).all() and codes.all() and whole and flags
    seconds = data["seconds"]
    sound = sound and isinstance(seconds, int | float) and 0 <= seconds < np.inf
    for name, outer in (("scores_before", shape[:1]), ("scores_after", shape)):
        scores = numbers[name]
        if scores is not None and shape[0] > 0:
            answered = [label is not None for label in data["before"]]  # by the model, which may refuse a query
            sound = sound and scores.shape[:-1] == outer and np.isfinite(scores[answered]).all()
    if numbers["proved"] is not None:
        sound = sound and bool((np.isnan(numbers["proved"]) | (numbers["proved"] >= 0)).all())
    if not sound:
        raise InputError("a number among its results is none that a call could have left.")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _labels(values: Any) -> Array:
    array = np.asarray(values, dtype=object)
    kind = np.asarray([label for label in array.ravel().tolist() if label is not None]).dtype.kind
    missing = (array == None).any()  # noqa: E711
    return array.astype(np.float64) if kind == "f" else np.asarray(values) if kind == "i" and not missing else array


def _floats(values: Any) -> Any:
    return None if values is None else np.asarray(values, dtype=np.float64)


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_nan(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and np.isnan(data) else data
