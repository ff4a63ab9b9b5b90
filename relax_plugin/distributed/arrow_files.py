"""Parquet and Arrow files as tables, whole or in parts: a part has the types that the whole file has."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.errors import ColumnError, InputError, MissingExtraError, ReLAXError

BATCH_ROWS = 65_536  # decoded at once: a row group of Parquet may be as long as the file


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def arrow_frame(path: Path, missing: Sequence[str]) -> pd.DataFrame:
    """All rows of a Parquet or Arrow file."""
    try:
        frame = pd.read_parquet(path, engine="pyarrow") if is_parquet(path) else pd.read_feather(path)
    except (OSError, ValueError) as error:  # those of pyarrow are ValueErrors
        raise InputError(f"{path} cannot be read as {_kind_of(path)}: {str(error).strip()}.") from error
    return _tidy(frame, missing)


def _tidy(frame: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    frame = frame.reset_index(drop=all(name is None for name in frame.index.names))
    frame.columns = frame.columns.map(str)
    for name in frame.columns if missing else ():
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].mask(frame[name].isin(list(missing)))
    return frame


def count_rows(path: Path) -> int:
    """How many rows a file has; of Parquet its end alone is read."""
    if is_parquet(path):
        with _opened(path) as file:
            return int(file.metadata.num_rows)
    return sum(batch.num_rows for _, batch in _batches(path))


def columns_with_gaps(paths: Iterable[Path]) -> frozenset[str]:
    """The columns of whole numbers, or of true and false, that have missing cells anywhere in the files.

    pandas reads such a column as fractions, or as objects, and one without gaps otherwise: a part that has none by
    chance is read as the whole would be.
    """
    found: set[str] = set()
    schema: Any = None
    for path in paths:
        own = schema_of(path)
        if schema is not None and own.names != schema.names:
            odd = sorted(set(own.names) ^ set(schema.names)) or own.names
            raise ColumnError(f"{path} has other columns than the files before it, or another order: {odd[0]!r}.")
        schema = own
        types = _pyarrow().types
        concerned = [field.name for field in own if types.is_integer(field.type) or types.is_boolean(field.type)]
        found |= set(_with_gaps(path, [name for name in concerned if name not in found]))
    return frozenset(found)


def _with_gaps(path: Path, names: list[str]) -> Iterator[str]:
    known = _gaps_by_statistics(path, names) if is_parquet(path) else {}
    yield from (name for name, gaps in known.items() if gaps)
    open_ = [name for name in names if name not in known]
    if open_:
        for _, batch in _batches(path, columns=open_):
            yield from (name for name in open_ if batch.column(name).null_count)


def _gaps_by_statistics(path: Path, names: list[str]) -> dict[str, bool]:
    with _opened(path) as file:
        metadata = file.metadata
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    told = {}
    for name in names:
        groups = [metadata.row_group(group).column(places[name]).statistics for group in range(metadata.num_row_groups)]
        if all(group is not None and group.has_null_count for group in groups):
            told[name] = any(group.null_count for group in groups)
    return told


def arrow_part(path: Path, first: int, rows: int, missing: Sequence[str], gaps: Collection[str]) -> pd.DataFrame:
    """Some rows of a Parquet or Arrow file, from `first` on, as the whole file would have them."""
    taken = []
    for at, batch in _batches(path, first, rows):
        begin, end = max(first - at, 0), min(first + rows - at, batch.num_rows)
        if begin < end:
            taken.append(batch.slice(begin, end - begin))
    frame = _tidy(_pyarrow().Table.from_batches(taken, schema=schema_of(path)).to_pandas(), missing)
    for name in frame.columns:
        if name in gaps and isinstance(frame[name].dtype, np.dtype):  # pandas' own Int64 holds gaps as it is
            frame[name] = frame[name].astype(object if frame[name].dtype.kind in "bO" else np.float64)
    return frame


def schema_of(path: Path) -> Any:
    """The columns of a file and their types."""
    with _opened(path) as file:
        return file.schema_arrow if is_parquet(path) else file.schema


def _batches(
    path: Path, first: int = 0, rows: int | None = None, columns: list[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Record batches that hold these rows (None: all from the first on), and the number of the first row of each."""
    last = None if rows is None else first + rows
    with _opened(path) as file:
        if is_parquet(path):
            lengths = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            groups = [g for g in range(len(lengths)) if starts[g + 1] > first and (last is None or starts[g] < last)]
            at = int(starts[groups[0]]) if groups else 0
            batches = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns)
        else:
            at = 0
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
        for batch in batches:
            if last is not None and at >= last:
                return
            if at + batch.num_rows > first:
                yield at, batch
            at += batch.num_rows


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pyarrow = _pyarrow()
    try:
        if is_parquet(path):
            with pyarrow.parquet.ParquetFile(path) as file:
                yield file
        else:
            with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_file(source) as file:
                yield file
    except (OSError, ValueError) as error:  # those of pyarrow are ValueErrors
        if isinstance(error, ReLAXError):
            raise
        raise InputError(f"{path} cannot be read as {_kind_of(path)}: {str(error).strip()}.") from error


def _kind_of(path: Path) -> str:
    return "Parquet" if is_parquet(path) else "Arrow"


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet and Arrow files need pyarrow, which is not installed: pip install 'relax-plugin[parquet]'."
        ) from error
    return pyarrow
