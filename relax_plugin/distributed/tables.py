"""The answers of a part as a table that has the same columns and types in every part."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.base import CounterfactualExplainer
from relax_plugin.errors import ColumnError
from relax_plugin.results import Counterfactuals

CALLED = ("cf_id", "found", "reason", "before", "after")  # columns beside the features and what is carried


def answer_dtype(explainer: CounterfactualExplainer) -> Any:
    """The type of the model's answers, whatever some rows of them may look like."""
    classes = explainer.blackbox_.classes
    if classes is None:
        return np.dtype(np.float64)
    classes = np.asarray(classes)
    return pd.Series(classes.tolist()).dtype if classes.dtype.kind in "OU" else classes.dtype


def settled_dtypes(queries: pd.DataFrame, explainer: CounterfactualExplainer) -> dict[Any, Any]:
    """The types that columns of answers have in every part, for queries of these types.

    They are the queries' own. Where those are whole numbers and the training rows had fractions, they are fractions:
    else it would depend on the rows of a part, since an answer may need some.
    """
    dtypes = queries.dtypes.to_dict()
    for feature in explainer.space_.features:
        own = dtypes.get(feature.name)
        trained = feature.dtype
        if isinstance(own, np.dtype) and own.kind in "iu" and isinstance(trained, np.dtype) and trained.kind == "f":
            dtypes[feature.name] = np.dtype(np.float64)
    return dtypes


def as_trained(queries: pd.DataFrame, explainer: CounterfactualExplainer) -> pd.DataFrame:
    """The queries with texts in the type of the training rows: Dask makes Arrow's of them, unknown to many models."""
    changed = {}
    for feature in explainer.space_.features:
        own = queries.dtypes.get(feature.name)
        text = isinstance(feature.dtype, pd.StringDtype) or feature.dtype == object
        if isinstance(own, pd.StringDtype) and text and own != feature.dtype:
            changed[feature.name] = feature.dtype
    return queries.astype(changed)


def settled(table: pd.DataFrame, dtypes: Mapping[Any, Any]) -> pd.DataFrame:
    """The table with these types, refused where that would change a number; categories keep their own."""
    for name, dtype in dtypes.items():
        own = table[name].dtype
        if own == dtype or isinstance(dtype, pd.CategoricalDtype):
            continue
        cast = table[name].astype(dtype)
        if pd.api.types.is_numeric_dtype(own) and not np.array_equal(cast.to_numpy(), table[name].to_numpy()):
            raise ColumnError(
                f"feature {name!r} is {own} in the answers and {dtype} in the table, which cannot hold them; "
                f"read the column as {own}."
            )
        table = table.assign(**{name: cast}) if isinstance(name, str) else _replaced(table, name, cast)
    return table


def _replaced(table: pd.DataFrame, name: Any, column: "pd.Series[Any]") -> pd.DataFrame:
    table = table.copy()
    table[name] = column
    return table


def _answers(labels: Any, index: pd.Index, dtype: Any) -> "pd.Series[Any]":
    """Answers as a column; of objects where an integer or bool cannot be missing, as of a query that was refused."""
    whole = isinstance(dtype, np.dtype) and dtype.kind in "iub"
    return pd.Series(labels, index=index, dtype=object if whole and pd.isna(labels).any() else dtype)


def all_slots(result: Counterfactuals, answers: Any) -> pd.DataFrame:
    """A line for each query and each counterfactual wanted of it, whether it was found or not.

    The index is the queries' own. Where none was found the cells are the query's own, and `reason` says why.
    """
    found = result.found
    query, slot = (place.ravel() for place in np.indices(found.shape))
    original = result.space.frame(result.queries)
    frame = result.frame
    given = frame[result.space.columns].set_axis(np.flatnonzero(found.ravel()), axis=0)
    missing = np.flatnonzero(~found.ravel())
    own = original.iloc[query[missing]].set_axis(missing, axis=0)
    cells = pd.concat([part for part in (given, own) if len(part)] or [own]).sort_index()
    reasons = np.where(found, "", result.statuses).ravel().astype(str)
    columns = {"cf_id": slot, "found": found.ravel(), "reason": reasons}
    head = pd.DataFrame(columns, index=cells.index)
    tail = pd.DataFrame(
        {
            "before": _answers(result.before[query], cells.index, answers),
            "after": _answers(result.after.ravel(), cells.index, answers),
        }
    )
    parts = [head, cells, tail]
    if result.carried is not None:
        parts.insert(2, result.carried.iloc[query].set_axis(cells.index, axis=0))
    return pd.concat(parts, axis=1).set_axis(original.index[query], axis=0)
