"""The files that `explain` and `serve` read: what is said about their columns, the rows, and the model."""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from relax_plugin.commands import request
from relax_plugin.commands.first_look import check_model_path, check_parquet, header
from relax_plugin.errors import ColumnError, InputError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

RESULT_COLUMNS = ("before", "after")  # added to the features in a table of counterfactuals


def check_read(chosen: argparse.Namespace) -> None:
    """Refuse files that are not there, or that nothing here reads."""
    if not chosen.training.is_file():
        raise InputError(f"there is no file {chosen.training}.")
    check_model_path(chosen.model)
    if chosen.queries is not None and not chosen.queries.is_file():
        raise InputError(f"there is no file {chosen.queries} of queries.")
    for path in (chosen.training, chosen.queries):
        check_parquet(path)


def check_header(chosen: argparse.Namespace) -> None:
    """Refuse names that the training file does not have, as far as its first line can be read without pandas."""
    names = header(chosen.training)
    if names is not None:
        _check_columns(chosen, names)


def columns_along(chosen: argparse.Namespace) -> list[str]:
    """The columns that come along with the rows, and are no features."""
    return list(dict.fromkeys([*([] if chosen.id is None else [chosen.id]), *chosen.carry]))


def model_and_rows(
    chosen: argparse.Namespace, rows: "pd.DataFrame | None" = None
) -> tuple[Any, "pd.DataFrame", "pd.DataFrame"]:
    """The model, the columns of the training rows that it knows, and all columns of them but the target.

    If the `rows` of the training file are given, files are large: neither it nor the file of queries is read.
    """
    from relax_plugin.commands import request_of_model
    from relax_plugin.commands.models import load_model

    whole = _training(chosen, rows)
    training = whole.drop(columns=[name for name in columns_along(chosen) if name in whole.columns])
    request_of_model.check_named(chosen, training, with_queries=rows is None)
    model, training = load_model(chosen.model, training, chosen.training, chosen.task)
    return model, training, whole


def rows_to_explain(
    chosen: argparse.Namespace, training: "pd.DataFrame", whole: "pd.DataFrame", rows: Iterable[int] | None
) -> "pd.DataFrame":
    """The rows of the file of queries, or these of the training rows (None: all), with what is carried.

    Their index says which rows of their file they are, by number or by the column of --id.
    """
    from relax_plugin.commands.rows import read_queries, row_names

    if chosen.queries is not None:
        queries = read_queries(chosen, training)
    else:
        queries = whole[[*training.columns, *columns_along(chosen)]]
        queries = queries if rows is None else queries.iloc[list(dict.fromkeys(rows))]
    if chosen.id is None:
        return queries
    names = row_names(queries, chosen.id, chosen.queries or chosen.training)
    named = queries.set_axis(names, axis=0).rename_axis(chosen.id)
    return named.drop(columns=[] if chosen.id in chosen.carry else [chosen.id])


def _training(chosen: argparse.Namespace, rows: "pd.DataFrame | None") -> "pd.DataFrame":
    from relax_plugin.commands.rows import read_rows

    rows, target = read_rows(chosen.training, chosen.missing) if rows is None else rows, chosen.target
    _check_columns(chosen, [str(name) for name in rows.columns])
    for row in chosen.rows or ():
        if not 0 <= row < len(rows):
            raise InputError(f"there is no row {row} in {chosen.training}; there are 0 to {len(rows) - 1}.")
    return rows.drop(columns=[] if target is None else [str(target)])


def _check_columns(chosen: argparse.Namespace, names: Sequence[str]) -> None:
    if chosen.target is not None and chosen.target not in names:
        raise UnknownNameError(
            f"{chosen.training} has no target column {chosen.target!r}; {did_you_mean(chosen.target, names)}"
        )
    along = columns_along(chosen)
    for name in along:
        argument = "id" if name == chosen.id else "carry"
        if name in RESULT_COLUMNS:
            raise ColumnError(f"--{argument} names column {name!r}, as is a column of the results; rename it.")
        if chosen.queries is None and name not in names:
            raise UnknownNameError(f"--{argument} names column {name!r}; {did_you_mean(name, names)}")
    request.check_names(chosen, [name for name in names if name != chosen.target and name not in along])
