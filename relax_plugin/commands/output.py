"""What commands print: tables for people, JSON for programs, and the exit codes that say how it went."""

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

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


def whole(least: int, most: int | None = None) -> Any:
    """The type of an argument that is a whole number, of these at least and at most."""
    accepted = f"of at least {least}" if most is None else f"of at least {least} and at most {most}"

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > DIGITS or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number {accepted}")
        return int(text)

    return number


def print_table(table: "pd.DataFrame", as_json: bool, decimals: int = 3) -> None:
    """The table as text, or as a JSON list of one object a line of it."""
    if as_json:
        print(json.dumps([_plain(row) for row in table.reset_index().to_dict("records")], indent=1))
        return
    import pandas as pd

    with pd.option_context("display.width", 250, "display.max_rows", None, "display.max_columns", None):
        print(table.to_string(float_format=lambda number: f"{number:.{decimals}f}", na_rep="-"), flush=True)


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    """Numbers of Python; what is not a number is null in JSON."""
    plain = {str(key): value.item() if hasattr(value, "item") else value for key, value in row.items()}
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in plain.items()
    }
