"""CSV files as tables, whole or in parts: a part has the types of the whole file, and a row is never cut in two."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relax_plugin.errors import ColumnError, InputError

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
