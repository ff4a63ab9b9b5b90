"""What commands print: tables for people, JSON for programs, and the exit codes that say how it went."""

import argparse
import json
import math
import sys
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from relax_plugin.commands.text_table import terminal_width, text_table
from relax_plugin.formatting import plain_scalars, printable_lines

if TYPE_CHECKING:
    import pandas as pd

DONE = 0
INCOMPLETE = 1  # it ran, but something is missing: a unit crashed or timed out, a row has no counterfactual
REFUSED = 2  # a wrong request: nothing was done
INTERRUPTED = 130  # by Ctrl-C, as shells have it
PIPE_CLOSED = 141  # as shells have it for those whom `| head` stops

LAST_SEED = 2**32 - 1  # scikit-learn and numpy's older generators know no larger one
DIGITS = 15  # more than any number of seeds, rows or runs has


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
