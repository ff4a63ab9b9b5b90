"""`relax-plugin report`: a folder of results as one HTML page."""

import argparse
from pathlib import Path
from typing import Any

from relax_plugin.commands.bench import check_results
from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, add_wide, print_summary, print_table
from relax_plugin.errors import InputError

TABLES = ("summary", "validity-at-k", "anytime", "by-class", "failures")  # functions of relax_plugin.evaluation.tables


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="an HTML page of the results of bench",
        description="Reads the rows that bench stored and writes one self-contained page; nothing is measured again.",
        epilog="examples:\n  relax-plugin report bench-results\n  relax-plugin report bench-results --output page.html"
        "\n  relax-plugin report bench-results --table validity-at-k --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="output folder of bench")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: report.html in the folder")
    parser.add_argument("--table", choices=TABLES, default="summary", help="which table to print (default summary)")
    parser.add_argument("--title", default="Counterfactual explainers compared", help="of the page")
    add_json(parser)
    add_wide(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Write the page, and print the table."""
    from relax_plugin.files import check_folder

    check_results(chosen.folder)
    page = chosen.output or chosen.folder / "report.html"
    check_folder(page.parent, "the folder of --output")
    if page.is_dir():
        raise InputError(f"--output is {page}, which is a folder; give the name of a file.")

    from relax_plugin.evaluation import tables
    from relax_plugin.evaluation.runner import Store
    from relax_plugin.pages.report import write_report

    store = Store(chosen.folder)
    rows, notes = store.rows(), store.notes()
    last = notes[-1] if notes else {}
    path = write_report(
        rows,
        page,
        title=chosen.title,
        command="\n".join(dict.fromkeys(note["command"] for note in notes if note["command"])) or None,
        versions=last.get("versions"),
        machine=last.get("machine"),
    )
    table = getattr(tables, chosen.table.replace("-", "_"))(rows)
    if chosen.json:
        print_table(table, as_json=True)
    else:
        if chosen.table == "summary":
            print_summary(table, wide=chosen.wide)
        elif len(table):
            print_table(table.set_index(["task", "method"]), as_json=False, wide=chosen.wide)
        else:
            print(f"The table {chosen.table} is empty.")
        print(f"\nThe page: {path}")
    return INCOMPLETE if rows["state"].isin(["crashed", "timed out"]).any() else DONE
