"""Parts: the rows of one or many files, cut in pieces that fit in memory, each of which can be read by itself.

A part of a CSV, Parquet or Arrow file has the types that the whole table has, and no row is cut in two.
"""

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

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


# In a column of numbers these are missing cells too; in a column of texts NA may be Namibia.
NO_NUMBERS = ("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "<NA>")

NUMBER_KINDS = frozenset({"whole", "large", "number", "nothing", "gap words", "numbers and gap words"})


class Span(NamedTuple):
    """Some rows of a CSV file: where their bytes begin and end, and how many there are."""

    start: int
    end: int
    rows: int


def csv_frame(
    source: Path | BytesIO, name: Path, missing: Sequence[str], dtypes: Mapping[str, Any] | None
) -> pd.DataFrame:
    """The rows of a CSV: whole numbers are integers, true and false bools, the rest text; `name` is for messages."""
    frame = _plain_frame(source, name, missing, dtypes)
    for column in frame.columns:
        if column not in (dtypes or {}) and _kind(frame[column]) == "numbers and gap words":
            frame[column] = _numbers(frame[column])
    return frame


def _plain_frame(
    source: Path | BytesIO, name: Path, missing: Sequence[str], dtypes: Mapping[str, Any] | None
) -> pd.DataFrame:
    # Which texts are missing cells is said here, and not by pandas, to which None, NA and null are always some.
    gaps: Any = {"keep_default_na": False, "na_values": ["", *missing]}
    try:
        header = pd.read_csv(source, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
        if isinstance(source, BytesIO):
            source.seek(0)
        frame: pd.DataFrame = pd.read_csv(
            source, dtype=dtypes, low_memory=False, **gaps
        )  # one type a column, however long it is
    except (OSError, ValueError) as error:  # pandas' own are ValueErrors: no columns, cells too many, another encoding
        raise InputError(f"{name} cannot be read as CSV: {str(error).strip()}.") from error
    twice = header[header.duplicated() & (header != "")]
    if len(twice):
        raise ColumnError(f"column {twice.iloc[0]!r} occurs twice in {name}.")
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes a column without a name for an index
        raise InputError(f"the rows of {name} have more cells than its header has names.")
    return frame


def cut_csv(path: Path, rows: int) -> list[Span]:
    """The spans of so many rows of a CSV file, at least one; the first begins after the header."""
    with path.open("rb") as file:
        records = _records(file)
        at = _end_of_header(records, path)
        spans, start, count = [], at, 0
        for end, filled in records:
            at, count = end, count + filled
            if count == rows:
                spans.append(Span(start, at, count))
                start, count = at, 0
    if count or not spans:
        spans.append(Span(start, at, count))
    return spans


def _records(file: Iterable[bytes]) -> Iterator[tuple[int, bool]]:
    """Where each record ends, and whether it is one that pandas counts: empty lines are none."""
    at, lines = 0, iter(file)
    for line in lines:
        at += len(line)
        if b'"' not in line:
            yield at, bool(line.strip())
            continue
        taken = [0]  # a quoted cell may hold line ends, so that a record may be several lines

        def followed(first: bytes = line, taken: list[int] = taken) -> Iterator[str]:
            yield first.decode("utf-8", "replace")
            for more in lines:
                taken[0] += len(more)
                yield more.decode("utf-8", "replace")

        next(csv.reader(followed()))
        at += taken[0]
        yield at, True


def _end_of_header(records: Iterator[tuple[int, bool]], path: Path) -> int:
    for end, filled in records:
        if filled:
            return end
    raise InputError(f"{path} is empty; a header and rows are needed.")


def csv_part(path: Path, span: Span, missing: Sequence[str], kinds: Mapping[str, str]) -> pd.DataFrame:
    """Some rows of a CSV file, in the types that the whole file has (`kinds_of_csv`)."""
    dtypes: dict[str, Any] = {}
    for name, kind in kinds.items():
        dtype = {"whole": "int64", "large": "uint64", "number": "float64", "flag": "bool"}.get(kind)
        if dtype is not None or kind in ("text", "numbers and gap words"):
            dtypes[name] = dtype or str
    frame = _plain_frame(_bytes_of(path, span), path, missing, dtypes)
    for name, kind in kinds.items():
        if kind == "numbers and gap words":
            frame[name] = _numbers(frame[name]).astype(np.float64)
        elif kind == "flag with gaps":
            frame[name] = frame[name].astype(object)
    return frame


def kinds_of_csv(spans: Iterable[tuple[Path, Span]], missing: Sequence[str], texts: Iterable[str]) -> dict[str, str]:
    """What each column is, in all rows of the spans together; those of `texts` are texts, whatever they hold.

    A part may hold whole numbers where another one has fractions: each part is read as the whole would be.
    """
    seen: dict[str, set[str]] = {}
    forced = dict.fromkeys(texts, str)
    for path, span in spans:
        frame = _plain_frame(_bytes_of(path, span), path, missing, forced)
        if seen and list(seen) != list(frame.columns):
            odd = sorted(set(seen) ^ set(map(str, frame.columns))) or list(frame.columns)
            raise ColumnError(f"{path} has other columns than the files before it, or another order: {odd[0]!r}.")
        for name in frame.columns:
            kind = "text" if name in forced else _kind(frame[name]) if span.rows else "nothing"
            seen.setdefault(str(name), set()).add(kind)
    return {name: _together(kinds) for name, kinds in seen.items()}


def _together(kinds: set[str]) -> str:
    if len(kinds) == 1 and kinds <= {"whole", "large", "flag", "flag with gaps", "text"}:
        return next(iter(kinds))
    if kinds <= {"whole", "large"}:
        return "large"
    if kinds <= {"flag", "flag with gaps", "nothing"} and kinds != {"nothing"}:
        return "flag with gaps"
    if kinds <= NUMBER_KINDS:
        if not kinds & {"gap words", "numbers and gap words"}:
            return "number"
        return "text" if kinds <= {"gap words", "nothing"} else "numbers and gap words"
    return "text"


def _kind(column: "pd.Series[Any]") -> str:
    if pd.api.types.is_bool_dtype(column):
        return "flag"
    if pd.api.types.is_unsigned_integer_dtype(column):
        return "large"
    if pd.api.types.is_integer_dtype(column):
        return "whole"
    present = column.dropna()
    if len(present) == 0:
        return "nothing"
    if pd.api.types.is_numeric_dtype(column):
        return "number"
    if all(isinstance(cell, bool) for cell in present):
        return "flag with gaps"
    if present.isin(NO_NUMBERS).all():
        return "gap words"
    # Most columns of texts are told by their first cells.
    for some in (present.iloc[:100], present):
        if not (pd.to_numeric(some, errors="coerce").notna() | some.isin(NO_NUMBERS)).all():
            return "text"
    return "numbers and gap words"


def _numbers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    numbers: pd.Series[Any] = pd.to_numeric(column.replace(dict.fromkeys(NO_NUMBERS, np.nan)), errors="coerce")
    return numbers


def _bytes_of(path: Path, span: Span) -> BytesIO:
    with path.open("rb") as file:
        header = _end_of_header(_records(file), path)
        file.seek(0)
        head = file.read(header)
        file.seek(span.start)
        return BytesIO(head + file.read(span.end - span.start))


def parquet_bytes(table: pd.DataFrame) -> bytes:
    """A table as a Parquet file, which holds texts as texts and gaps as gaps."""
    try:
        content: bytes = table.to_parquet(engine="pyarrow", index=False)
    except (ValueError, TypeError) as error:  # those of pyarrow
        raise InputError(f"the counterfactuals cannot be written as Parquet: {error}; write a .json.") from error
    return content


def arrow_bytes(table: pd.DataFrame) -> bytes:
    """A table as an Arrow file of record batches, which Feather is too."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            "an Arrow file needs pyarrow, which is not installed: pip install 'relax-plugin[parquet]'."
        ) from error
    sink: Any = BytesIO()
    try:
        content = pyarrow.Table.from_pandas(table, preserve_index=False)
    except (ValueError, TypeError) as error:
        raise InputError(f"the counterfactuals cannot be written as Arrow: {error}; write a .json.") from error
    with pyarrow.ipc.new_file(sink, content.schema) as file:
        file.write_table(content)
    written: bytes = sink.getvalue()
    return written


ENDINGS = (".csv", ".parquet", ".arrow", ".feather", ".ipc")
PART_ROWS = 65_536


@dataclass(frozen=True)
class Part:
    """Some rows of a file that follow each other."""

    number: int  # from 0 on, over all files
    path: Path
    first: int  # number of its first row, in its file
    rows: int
    before: int = 0  # rows of the files before its own
    span: Span | None = None  # where they are in a CSV file

    def __str__(self) -> str:
        return f"rows {self.first} to {self.first + self.rows - 1} of {self.path}"


@dataclass(frozen=True)
class Parts:
    """The parts of a table, and what has to be known of all of them to read one as the whole table would be read."""

    parts: tuple[Part, ...]
    missing: tuple[str, ...] = ()  # texts that mean a missing cell
    kinds: dict[str, str] = field(default_factory=dict)  # what the columns of CSV files are (`kinds_of_csv`)
    gaps: frozenset[str] = frozenset()  # columns of other files that have missing cells somewhere

    @classmethod
    def of(cls, path: Path, rows: int = PART_ROWS, missing: Sequence[str] = (), texts: Sequence[str] = ()) -> "Parts":
        """The parts of a file, or of the files of a folder in the order of their names, none across the ends of files.

        Texts in `missing` mean a missing cell, as an empty one does; `texts` are columns of CSV files that are texts,
        whatever they hold.
        """
        files = table_files(path)
        parts: list[Part] = []
        before = 0
        for file in files:
            first = 0
            for span, count in _pieces(file, rows):
                parts.append(Part(len(parts), file, first, count, before, span))
                first += count
            before += first
        if before == 0:
            raise InputError(f"{path} has no rows.")
        parts = [part for part in parts if part.rows]
        if files[0].suffix.lower() != ".csv":
            return cls(tuple(parts), tuple(missing), gaps=columns_with_gaps(files))
        spans = [(part.path, part.span) for part in parts if part.span is not None]
        return cls(tuple(parts), tuple(missing), kinds=kinds_of_csv(spans, missing, texts))

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def files(self) -> list[Path]:
        return list(dict.fromkeys(part.path for part in self.parts))

    def read(self, part: Part) -> pd.DataFrame:
        """The rows of a part, in the types of the whole table; their index counts from 0."""
        if part.span is not None:
            frame = csv_part(part.path, part.span, self.missing, self.kinds)
        else:
            frame = arrow_part(part.path, part.first, part.rows, self.missing, self.gaps)
        if len(frame) != part.rows:
            raise InputError(f"{part.path} has changed while it was read: {part} are not there as they were.")
        return frame

    def drawn(self, rows: int, seed: int) -> pd.DataFrame:
        """So many rows of all parts, drawn evenly, in their order; all rows if there are not more."""
        if self.rows <= rows:
            chosen = np.arange(self.rows)
        else:
            chosen = np.sort(np.random.default_rng(seed).choice(self.rows, rows, replace=False))
        return pd.concat(self._taken(chosen), ignore_index=True)

    def _taken(self, positions: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[pd.DataFrame]:
        for part in self.parts:
            first = part.before + part.first
            own = positions[(positions >= first) & (positions < first + part.rows)] - first
            if len(own):
                yield self.read(part).iloc[own]


def table_files(path: Path) -> list[Path]:
    """The file itself, or the tables of a folder, which are of one kind."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith((".", "_"))]
        if not files:
            raise InputError(f"there is no table in the folder {path}.")
    else:
        raise InputError(f"there is no file {path}.")
    for file in files:
        if file.suffix.lower() not in ENDINGS:
            raise InputError(f"{file} is no table that is read in parts; a name that ends in {', '.join(ENDINGS)} is.")
        if file.suffix.lower() != files[0].suffix.lower():
            raise InputError(f"{path} holds tables of two kinds, {files[0].name} and {file.name}; one is needed.")
    return files


def _pieces(path: Path, rows: int) -> Iterator[tuple[Span | None, int]]:
    if path.suffix.lower() == ".csv":
        for span in cut_csv(path, rows):
            yield span, span.rows
        return
    left = count_rows(path)
    while left > 0:
        yield None, min(rows, left)
        left -= rows
