"""The arguments of `explain` for a table larger than memory."""

import argparse
import os
from pathlib import Path
from typing import Any

from relax_plugin.commands.output import whole
from relax_plugin.errors import InputError

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
