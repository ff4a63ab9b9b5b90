"""`relax-plugin reproduce`: the paper's experiments, its tables and figures beside ours."""

import argparse
import textwrap
from pathlib import Path
from typing import Any

from relax_plugin.commands.live import Live
from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, print_table, terminal_width
from relax_plugin.errors import InputError

WIDEST = 120  # of what is printed; longer lines are hard to read


def add(commands: Any, about: str) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "reproduce",
        help=about,
        description="Tunes the paper's models, runs every experiment under the judge, and writes FOLDER/report.html. "
        "Interrupted at any moment and started again, it does what is missing.",
        epilog="examples:\n  relax-plugin reproduce --quick        two seeds and fewer rows, under 20 minutes"
        "\n  relax-plugin reproduce                five seeds; says first how long it will take"
        "\n  relax-plugin reproduce --report-only  the report of the results that are stored"
        "\n  relax-plugin reproduce --only relax   what has ReLAX in it again; the tables keep the rest"
        "\n\nThe case study on COVID-19 needs a table that may not be shipped: relax-plugin fetch covid",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="two seeds, fewer caps, fewer rows for slow methods")
    parser.add_argument("--report-only", action="store_true", help="run nothing, write the report of stored results")
    parser.add_argument("--retry", action="store_true", help="run again what crashed, timed out or was skipped")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="run the cases whose label (part | method | at most 5 | setting) has one of these texts, and the case "
        "study if one is covid; the stored tables keep the lines of the others",
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=Path("reproduction"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run what is missing, write the report, and print the verdict."""
    from relax_plugin.evaluation.plan import check_place
    from relax_plugin.files import check_folder

    check_place(chosen.jobs)
    check_folder(chosen.output, "--output")
    path = chosen.output / ("quick" if chosen.quick else "paper")
    if chosen.report_only and not any(path.glob("*.csv")):
        raise InputError(f"{path} holds no results; `relax-plugin reproduce` makes them.")

    from benchmarks.reproduction.plan import cases, chosen_cases

    chosen_cases(cases(chosen.quick), chosen.only)

    from benchmarks.reproduction.report.files import verdict, write_report
    from benchmarks.reproduction.run import Folder, expected_minutes, reproduce
    from relax_plugin.pages.drawing import figure_class

    figure_class()  # whether the report can be drawn is better known before than after
    folder = Folder(path)
    if not chosen.report_only:
        minutes = expected_minutes(chosen.quick, chosen.jobs)
        told = f"From the beginning this takes about {minutes:.0f} minutes with {chosen.jobs} runs side by side."
        options: dict[str, Any] = {"quick": chosen.quick, "jobs": chosen.jobs, "retry": chosen.retry}
        with Live() as live:
            live.say(told)
            reproduce(folder, **options, only=chosen.only, command=chosen.said, say=live.say, watcher=live)
    report = chosen.output / "report.html"
    tables = write_report(folder, report, quick=chosen.quick)
    decided = verdict(tables, folder.covid(), folder.verdicts_before())
    if chosen.json:
        print_table(decided.set_index("where"), as_json=True)
    else:
        for line in decided.to_numpy():
            print(_paragraph(*line))
        print(f"\nThe report: {report}. Its numbers: {folder.path}")
    failed = any((frame["state"].isin(["crashed", "timed out"])).any() for frame in tables.values() if "state" in frame)
    return INCOMPLETE if failed else DONE


def _paragraph(where: str, decision: str, claim: str, figures: str, before: str) -> str:
    """A claim with its verdict, and below it the figures, for a terminal."""
    width = min(WIDEST, terminal_width())
    changed = f" (before: {before})" if before not in ("", decision) else ""
    head = textwrap.fill(f"{decision.upper()}{changed}  {where}: {claim}", width, subsequent_indent="  ")
    return head + "\n" + textwrap.fill(figures, width, initial_indent="    ", subsequent_indent="    ")
