"""The arguments of `explain` and `serve`: files, goal, what may change, the table, the method, and large tables."""

import argparse
import os
from pathlib import Path
from typing import Any

from relax_plugin.commands.output import LAST_SEED, whole
from relax_plugin.errors import InputError
from relax_plugin.registry import full_name


def add_files(parser: argparse.ArgumentParser) -> None:
    """The training rows, the model, and what it is for."""
    parser.add_argument("training", type=Path, metavar="TRAINING", help=".csv, .parquet or .feather: learned from")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="saved by joblib, or an .onnx file")
    parser.add_argument("--task", choices=("auto", "classification", "regression"), default="auto")
    parser.add_argument("--target", metavar="COLUMN", help="column of TRAINING that is no feature")


def add_along(parser: argparse.ArgumentParser, carried: str) -> None:
    """The columns that come along with the rows; `carried` says what becomes of them."""
    along = parser.add_argument_group("what comes along")
    along.add_argument("--id", metavar="COLUMN", help="whose cells name the rows in the output; no feature")
    along.add_argument("--carry", nargs="+", action="extend", default=[], metavar="COLUMN", help=carried)


def add_goal(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """What is wanted of the model's answer."""
    goal = parser.add_argument_group(title)
    kinds = goal.add_mutually_exclusive_group()
    kinds.add_argument("--to", metavar="LABEL", help="this class")
    kinds.add_argument("--shift", type=float, metavar="DELTA", help="a regressor's answer at least so far away")
    goal.add_argument(
        "--direction", choices=("up", "down", "either"), help="where --shift leads: up, down or either (default)"
    )
    kinds.add_argument(
        "--between", nargs=2, metavar=("LOW", "HIGH"), help="a regressor's answer in this range; - for no limit"
    )
    goal.add_argument("--min-probability", type=float, metavar="P", help="of the class reached")
    return goal


def add_limits(parser: argparse.ArgumentParser) -> None:
    """What may change."""
    limits = parser.add_argument_group("what may change")
    limits.add_argument("--max-changes", type=whole(1), metavar="K", help="features (default: the method's own)")
    for option, text in (
        ("--categorical", "numbers that are names"),
        ("--immutable", "never change"),
        ("--increase-only", "never fall"),
        ("--decrease-only", "never rise"),
        ("--vary", "only these change"),
    ):
        limits.add_argument(option, nargs="+", action="extend", default=[], metavar="FEATURE", help=text)
    limits.add_argument(
        "--bounds",
        nargs="+",
        action="extend",
        default=[],
        metavar="FEATURE=RANGE",
        help="age=18:80, either end may be empty; 'town=Rome|Bonn' (default: what the training rows show)",
    )


def add_table(parser: argparse.ArgumentParser) -> None:
    """What the cells and columns of the table mean."""
    table = parser.add_argument_group("the table", "names that are no single words stand in backticks in rules")
    for option, metavar, text in (
        ("--missing", "TEXT", "means a missing cell, as an empty one does: '?' NA"),
        ("--fill-missing", "FEATURE", "missing cells may get a value; else they stay missing"),
        ("--may-vanish", "FEATURE", "values may become missing"),
        ("--one-hot", "NAME=A,B,...", "columns that are one feature; auto: find them"),
        ("--ordered", "NAME=A<B<...", "texts in their order: 'size=S<M<L'"),
        (
            "--derived",
            "NAME=FORMULA",
            "computed anew, never chosen: 'total=salary + rent'; rounded to 1%%: 'total=... ~ 0.01'",
        ),
        ("--rule", "RULE", "every answer keeps it: 'age >= work_years + 16', 'rent <= was(rent)'"),
        ("--cost", "FEATURE=PRICE", "of one standard deviation, or of another category (default 1)"),
    ):
        table.add_argument(option, nargs="+", action="extend", default=[], metavar=metavar, help=text)
    table.add_argument(
        "--labels",
        type=Path,
        metavar="FILE.json",
        help='words for people: {"amount": "amount (DM)", "status": {"A11": "overdrawn"}, "job": ["trade", {...}]}',
    )


def add_method(parser: argparse.ArgumentParser) -> None:
    """The method, its options and its seed."""
    method = parser.add_argument_group("method")
    method.add_argument(
        "--method", default="relax-global", type=full_name, help="see `relax-plugin list` (default relax-global)"
    )
    method.add_argument("--option", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="of the method")
    method.add_argument(
        "--plausible",
        choices=("no", "prefer", "require"),
        default="no",
        help="counterfactuals that look like training rows: ignored, preferred among equally few changes, or required "
        "(default no)",
    )
    method.add_argument("--seed", type=whole(0, LAST_SEED), default=0, help="default 0")


PART_ROWS = 65_536
TRAINING_ROWS = 100_000
FORMATS = ("csv", "parquet", "arrow", "feather")
BACKENDS = ("processes", "dask")


class Output(argparse.Action):
    """The argument --output: a name that ends in a slash is a folder of parts."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        namespace.output = Path(values)
        namespace.parts = str(values).endswith(("/", os.sep))


def add_parts(parser: argparse.ArgumentParser) -> None:
    """The arguments of a table larger than memory."""
    group = parser.add_argument_group(
        "a table larger than memory",
        "--output FOLDER/ explains all rows of --queries (else of TRAINING), a file or a folder of files, part by\n"
        "part, and writes a file for each part. The same command goes on where a run was ended.",
    )
    group.add_argument("--backend", choices=BACKENDS, help="processes of this machine (default), or a Dask cluster")
    group.add_argument("--scheduler", metavar="ADDRESS", help="of the cluster, such as tcp://127.0.0.1:8786")
    group.add_argument("--jobs", type=whole(1, 1024), metavar="N", help="processes (default: as many as cores)")
    group.add_argument(
        "--part-rows", type=whole(1), default=PART_ROWS, metavar="N", help=f"of a part, at most (default {PART_ROWS})"
    )
    group.add_argument(
        "--training-rows",
        type=whole(1),
        default=TRAINING_ROWS,
        metavar="N",
        help=f"drawn of TRAINING to learn from, if it has more (default {TRAINING_ROWS})",
    )
    group.add_argument("--format", choices=FORMATS, help="of the parts (default: that of the rows explained)")
    parser.set_defaults(parts=False)


def in_parts(chosen: argparse.Namespace) -> bool:
    """Whether a folder of parts is to be written; refused where arguments for one come with a file."""
    if chosen.parts or (chosen.backend is not None and chosen.output is not None and not chosen.output.suffix):
        return True
    for name in ("backend", "scheduler", "jobs", "format"):
        if getattr(chosen, name) is not None:
            raise InputError(f"--{name} is for a folder of parts; name one that ends in a slash: --output parts/.")
    return False
