"""Parts: the rows of one or many files, cut in pieces that fit in memory, each of which can be read by itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from relax_plugin.distributed.arrow_files import arrow_part, columns_with_gaps, count_rows
from relax_plugin.distributed.csv_files import Span, csv_part, cut_csv, kinds_of_csv
from relax_plugin.errors import InputError

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
