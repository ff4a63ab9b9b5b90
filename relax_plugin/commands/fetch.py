"""`relax-plugin fetch`: put a data set that is not part of the package where `load` finds it."""

import argparse
from pathlib import Path
from typing import Any

from relax_plugin.commands.output import DONE


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "fetch",
        help="a data set that is not part of the package, into the folder in RELAX_DATA_HOME",
        description="Verifies the table by its sha256 and puts it into the folder in the environment variable "
        "RELAX_DATA_HOME; a good copy that is there already is kept.",
        epilog="examples:\n  export RELAX_DATA_HOME=~/relax-data\n  relax-plugin fetch covid"
        "\n  relax-plugin fetch covid --folder downloads"
        "\n  relax-plugin fetch compas",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        choices=["covid", "compas"],
        help="the table of the paper's COVID-19 case study, or ProPublica's of COMPAS scores",
    )
    parser.add_argument(
        "--folder", type=Path, help="a local folder that has it, or the authors' archive; nothing is downloaded then"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Fetch it, and say where it is."""
    from relax_plugin.datasets import fetch_compas, fetch_covid

    fetch = {"covid": fetch_covid, "compas": fetch_compas}[chosen.what]
    print(fetch(chosen.folder))
    return DONE
