"""What commands print: tables for people, JSON for programs, and the exit codes that say how it went."""

import argparse
import io
import json
import math
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from relax_plugin.formatting import plain_scalars, printable, printable_lines

if TYPE_CHECKING:
    import pandas as pd

DONE = 0
INCOMPLETE = 1  # it ran, but something is missing: a unit crashed or timed out, a row has no counterfactual
REFUSED = 2  # a wrong request: nothing was done
INTERRUPTED = 130  # by Ctrl-C, as shells have it
PIPE_CLOSED = 141  # as shells have it for those whom `| head` stops

LAST_SEED = 2**32 - 1  # scikit-learn and numpy's older generators know no larger one
DIGITS = 15  # more than any number of seeds, rows or runs has
NARROWEST = 40  # columns of a terminal for which tables are laid out; one that says it has fewer wraps by itself
LONGEST_WORD = 20  # columns below which a word is not broken to make room
PRIVATE = 0xE000  # the first of the letters that no text has
GAP = 2  # columns between two columns
NUMBER = re.compile(r"[-+\d.,%±()/ ]*\Z|nan\Z|-\Z")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the table as JSON and nothing else")


def add_wide(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wide", action="store_true", help="print every column of the table, in lines as long as they need to be"
    )


def whole(least: int, most: int | None = None) -> Any:
    """The type of an argument that is a whole number, of these at least and at most."""
    accepted = f"of at least {least}" if most is None else f"of at least {least} and at most {most}"

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > DIGITS or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number {accepted}")
        return int(text)

    return number


def say(sentence: str) -> None:
    """Print a sentence on stderr: stdout is for the table."""
    print(printable_lines(plain_scalars(sentence)), file=sys.stderr, flush=True)


@contextmanager
def said_warnings() -> Iterator[None]:
    """Warnings as sentences on stderr, each once, without the line of code that they come from."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("default")
        try:
            yield
        finally:  # what is wrong with a row may be why the model raised
            told = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
            for sentence in dict.fromkeys(told):
                say(f"Note: {sentence[:1].upper()}{sentence[1:]}")


def print_table(table: "pd.DataFrame", as_json: bool, decimals: int = 3, *, wide: bool = False) -> None:
    """The table as text that fits the terminal, or as wide as it is, or as a JSON list of one object a line of it.

    An index of two levels, such as task and method, is a line for each task and below it its methods.
    """
    if as_json:
        print(json.dumps([_plain(row) for row in table.reset_index().to_dict("records")], indent=1))
        return
    if wide:
        text = table.to_string(float_format=lambda number: f"{number:.{decimals}f}", na_rep="-")
        print(printable_lines(text), flush=True)
        return
    levels = 0 if list(table.index.names) == [None] else table.index.nlevels
    shown = table.reset_index(drop=levels == 0)
    lines = [[_cell(cell, decimals) for cell in line] for line in shown.astype(object).to_numpy()]
    print(text_table(list(map(str, shown.columns)), lines, terminal_width(), grouped=levels == 2), flush=True)


def terminal_width() -> int:
    """Columns of the terminal, or what COLUMNS says; 80 where there is none."""
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def text_table(heads: Sequence[str], lines: Sequence[Sequence[str]], width: int, *, grouped: bool = False) -> str:
    """A table as text of at most so many columns; texts are wrapped, and numbers stay whole.

    Columns for which there is no room stand in a second table below, after the names in the first column. In a
    `grouped` table the first column is a group, such as the task: it becomes a line above the lines of the group.
    """
    columns = [[printable(cell) for cell in column] for column in zip(heads, *lines, strict=True)]
    above: dict[str, str] = {}  # the groups, and the letter that stands for each until the table is drawn
    if grouped:
        groups, names, *others = columns
        held = [(head, list(places)) for head, places in groupby(range(1, len(names)), key=groups.__getitem__)]
        above = {chr(PRIVATE + place): "\n".join(textwrap.wrap(head, width)) for place, (head, _) in enumerate(held)}
        rows = [(mark, places) for mark, (_, places) in zip(above, held, strict=True)]
        columns = [[names[0], *(cell for mark, at in rows for cell in (mark, *(f"  {names[i]}" for i in at)))]]
        columns += [[one[0], *(cell for _, at in rows for cell in ("", *(one[i] for i in at)))] for one in others]
    drawn = "\n\n".join(_drawn(part, width) for part in _side_by_side(columns, width))
    return "\n".join(above.get(line, line) for line in drawn.split("\n"))


def _side_by_side(columns: list[list[str]], width: int) -> Iterator[list[list[str]]]:
    """The names, and as many other columns as there is room for, until every column had its turn."""
    part, used = columns[:1], _least(columns[0])
    for column in columns[1:]:
        if len(part) > 1 and used + GAP + _least(column) > width:
            yield part
            part, used = columns[:1], _least(columns[0])
        part.append(column)
        used += GAP + _least(column)
    yield part


def _least(column: list[str]) -> int:
    """The columns of the terminal that a column needs."""
    from rich.cells import cell_len

    head, *cells = [max(map(cell_len, cell.split()), default=1) for cell in column]
    if _is_number(column):
        return max(head, *map(cell_len, column[1:]))
    return min(max(head, *cells), LONGEST_WORD)


def _is_number(column: list[str]) -> bool:
    return all(map(NUMBER.match, column[1:]))


def _widths(columns: list[list[str]], width: int) -> list[int]:
    """What each column needs, and the room that is left for those that lack least of it."""
    from rich.cells import cell_len

    widths = [_least(column) for column in columns]
    lacks = [max(map(cell_len, column[1:]), default=0) - own for column, own in zip(columns, widths, strict=True)]
    left = width - sum(widths) - GAP * (len(columns) - 1)
    for place in sorted(range(len(columns)), key=lacks.__getitem__):
        more = max(0, min(left, lacks[place]))
        widths[place], left = widths[place] + more, left - more
    if left < 0:  # two columns are wider than the terminal
        widest = max(range(len(widths)), key=widths.__getitem__)
        widths[widest] = max(8, widths[widest] + left)
    return widths


def _drawn(columns: list[list[str]], width: int) -> str:
    from rich.box import Box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    line = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
    table = Table(box=line, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for place, (column, own) in enumerate(zip(columns, _widths(columns, width), strict=True)):
        right = place > 0 and _is_number(column)
        table.add_column(Text(column[0]), justify="right" if right else "left", width=own, overflow="fold")
    for cells in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def print_summary(summary: "pd.DataFrame", *, wide: bool) -> None:
    """The judge's table for people: six columns, or with `--wide` all that one looks at."""
    from relax_plugin.evaluation import tables

    core, readable = tables.core(summary), tables.readable(summary)
    print_table(readable if wide else core, as_json=False, wide=wide)
    if not wide:
        more = [str(name) for name in readable if name not in (*core, "rows")]
        told = f"model rows: a query; seconds: fit and all queries. More with --wide: {', '.join(more)}."
        failed, skipped = int(summary["failed"].sum()), int(summary["skipped"].sum())
        told += f" Runs that failed, which count as validity 0: {failed}." if failed else ""
        told += f" Runs that were skipped, which count nowhere: {skipped}." if skipped else ""
        print("\n".join(["", *textwrap.wrap(told, terminal_width())]), flush=True)


def _cell(cell: Any, decimals: int) -> str:
    if cell is None or cell != cell:
        return "-"
    number = isinstance(cell, Real) and not isinstance(cell, Integral)
    return f"{cell:.{decimals}f}" if number else str(cell)


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    """Numbers of Python; what is not a number is null in JSON."""
    plain = {str(key): value.item() if hasattr(value, "item") else value for key, value in row.items()}
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in plain.items()
    }
