"""The rows of a Dask DataFrame explained: partition by partition, each on the worker that has it."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.distributed.places import Shipped
from relax_plugin.errors import ColumnError, GoalError, InputError, MissingExtraError
from relax_plugin.goal import Goal
from relax_plugin.plausibility import Plausible
from relax_plugin.results import Counterfactuals
from relax_plugin.table.constraints import Bounds

if TYPE_CHECKING:
    import dask.dataframe as dd

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


def explain(
    ddf: "dd.DataFrame",
    explainer: CounterfactualExplainer,
    *,
    goal: Goal | None = None,
    n: int = 1,
    vary: Iterable[Hashable] | None = None,
    bounds: Bounds | None = None,
    immutable: Iterable[Hashable] | None = None,
    increase_only: Iterable[Hashable] | None = None,
    decrease_only: Iterable[Hashable] | None = None,
    max_changes: int | None = None,
    rules: Iterable[str] | None = None,
    costs: Mapping[Any, float] | None = None,
    carry: Iterable[Hashable] | None = None,
    besides_query: bool = False,
    plausible: Plausible = None,
) -> "dd.DataFrame":
    """Counterfactuals for the rows of a Dask DataFrame: a lazy one, with a partition for each of its partitions.

    A query is answered as if it were alone, so that the answers are those of `explainer.explain` on all rows at once. A
    worker holds the explainer, which is unpacked once, and the partitions it works on.

    Parameters
    ----------
    ddf : dask DataFrame
        Its index names the queries, and is that of the answers.
    explainer : a fitted explainer
        It goes to the workers as a pickle with its model.
    goal : Goal, optional
        For all rows, in place of the explainer's own.
    n, vary, bounds, immutable, increase_only, decrease_only, max_changes, rules, costs, carry, besides_query, plausible
        As in `explainer.explain`; bounds are the same for all rows.

    Returns
    -------
    dask DataFrame
        A line for each row and each of its `n` counterfactuals: `cf_id`, `found`, `reason` (why none was found), the
        columns in their types, those carried, the answers `before` and `after`. Where `found` is false, the cells are
        the query's own.
    """
    _check_dask(ddf)
    fitted(explainer)
    if goal is not None and goal.rows is not None:
        raise GoalError("the goal has a label or a range for each row, which no partition could tell apart; give one.")
    for name, ends in (bounds or {}).items():
        if any(isinstance(end, pd.Series | np.ndarray) for end in ends):
            raise InputError(f"the bounds of feature {name!r} are one a row, which no partition could tell apart.")
    call: dict[str, Any] = {
        "goal": goal,
        "n": n,
        "vary": _list(vary),
        "bounds": bounds,
        "immutable": _list(immutable),
        "increase_only": _list(increase_only),
        "decrease_only": _list(decrease_only),
        "max_changes": max_changes,
        "rules": _list(rules),
        "costs": costs,
        "carry": _list(carry),
        "besides_query": besides_query,
        "plausible": plausible,
    }
    answers = answer_dtype(explainer)
    meta = _meta(ddf._meta, explainer, call["carry"] or [], answers)
    from dask.delayed import delayed

    # One node of the graph: a worker fetches it once, however many partitions it works on.
    packed = delayed(Shipped.of(explainer), pure=True)
    partitions: Any = ddf.map_partitions  # which has no types
    answered: dd.DataFrame = partitions(
        _explained, packed, call, answers, meta, meta=meta, enforce_metadata=False, align_dataframes=False
    )
    return answered


def _explained(
    queries: pd.DataFrame, shipped: Shipped, call: Mapping[str, Any], answers: Any, meta: pd.DataFrame
) -> pd.DataFrame:
    if len(queries) == 0:
        return meta.iloc[:0]
    explainer = shipped.explainer()
    result = explainer.explain(as_trained(queries, explainer), **call)
    table = all_slots(result, answers)
    return settled(table[list(meta.columns)], dict(meta.dtypes.items()))


def _meta(
    queries: pd.DataFrame, explainer: CounterfactualExplainer, carry: list[Hashable], answers: Any
) -> pd.DataFrame:
    names = [*explainer.space_.columns, *carry]
    for name in names:
        if name not in queries.columns:
            raise ColumnError(f"the Dask DataFrame has no column {name!r}; it has {list(queries.columns)}.")
        if name in CALLED:
            raise ColumnError(f"a column is called {name!r}, as is one of the answers; rename it.")
    dtypes = settled_dtypes(queries[names], explainer)
    columns: dict[Any, Any] = {"cf_id": np.dtype(np.int64), "found": np.dtype(bool), "reason": pd.Series(["a"]).dtype}
    columns |= {name: dtypes[name] for name in names} | {"before": answers, "after": answers}
    empty = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})
    return empty.set_axis(queries.index[:0], axis=0)


def _list(names: Iterable[Any] | None) -> list[Any] | None:
    if isinstance(names, str):
        raise InputError(f"{names!r} is one name; give a list of names.")
    return None if names is None else list(names)


def _check_dask(ddf: Any) -> None:
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise MissingExtraError(
            "distributed.explain needs dask.dataframe: pip install 'relax-plugin[dask]'."
        ) from error
    if not isinstance(ddf, dd.DataFrame):
        raise InputError(f"a Dask DataFrame is needed, not a {type(ddf).__name__}; explainer.explain takes others.")
