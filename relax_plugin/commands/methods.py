"""`relax-plugin methods`: every method on one HTML page, with a picture of each on a toy."""

import argparse
import sys
from pathlib import Path
from typing import Any

from relax_plugin.commands.bench import check_results
from relax_plugin.commands.live import Live
from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, add_wide, print_table
from relax_plugin.registry import check_name, full_name, list_explainers


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "methods",
        help="an HTML page of the methods: what each is, its paper, what it supports, a picture, its results",
        description="Runs every method on a toy of two features and writes one self-contained page. About a minute.",
        epilog="examples:\n  relax-plugin methods\n  relax-plugin methods --results bench-results --output methods.html"
        "\n  relax-plugin methods --methods greedy my-method",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", default=Path("methods.html"), help="default: methods.html"
    )
    parser.add_argument(
        "--results", type=Path, metavar="FOLDER", help="output folder of bench, whose rows are shown too"
    )
    parser.add_argument(
        "--methods", nargs="+", type=full_name, metavar="NAME", help="default: all of `relax-plugin list`"
    )
    parser.add_argument("--jobs", type=int, default=2, help="methods side by side (default 2)")
    add_json(parser)
    add_wide(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run the methods on the toy, write the page, and print the numbers of its pictures."""
    from relax_plugin.evaluation.plan import check_place
    from relax_plugin.files import check_page, write_text

    check_page(chosen.output, "--output")  # better known before than after
    check_place(chosen.jobs)
    for name in chosen.methods or ():
        check_name(name)
    if chosen.results is not None:
        check_results(chosen.results)

    from relax_plugin.evaluation.runner import load_rows
    from relax_plugin.pages.methods import Pictures, described, render

    results = None if chosen.results is None else load_rows(chosen.results)
    descriptions, broken = described(chosen.methods or list_explainers())
    for reason in broken.values():
        print(f"relax-plugin: {reason}", file=sys.stderr)
    with Live() as live:
        pictures = Pictures(descriptions, chosen.jobs, live)
    write_text(chosen.output, render(descriptions, pictures, results=results, broken=broken))
    print_table(pictures.table(), as_json=chosen.json, wide=chosen.wide)
    if not chosen.json:
        print(f"\nThe page: {chosen.output}")
    return INCOMPLETE if broken or pictures.failed() else DONE
