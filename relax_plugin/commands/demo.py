"""`relax-plugin demo`: breast cancer, a random forest, and eight explainers side by side."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from relax_plugin.commands.bench import say_done
from relax_plugin.commands.output import DONE, INCOMPLETE, LAST_SEED, add_json, print_table, whole

TASK = "breast_cancer/rf"
METHODS = ("relax-global", "relax-local", "nearest-ct", "greedy", "move-table", "dice-random", "dice-kdtree", "lore")
SLOW = {"dice-random": 40, "dice-kdtree": 40}  # test rows that methods which take long are given
SENTENCES = 5


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="breast cancer with a random forest: sentences, a table of eight explainers, a report",
        description="Explains the test rows of the Wisconsin breast cancer data by eight methods. About two minutes.",
        epilog="examples:\n  relax-plugin demo\n  relax-plugin demo --report page.html --seed 3",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=whole(0, LAST_SEED), default=0)
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), help="default: demo-report.html")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run the methods on a fresh folder, print sentences and the table, write the page."""
    from relax_plugin.files import check_page

    check_page(chosen.report, "--report")  # better known before than after

    from relax_plugin.evaluation import runner, tables
    from relax_plugin.pages.report import write_report

    command = f"relax-plugin demo --seed {chosen.seed}"
    subsets = ", ".join(f"{method} on the first {rows}" for method, rows in SLOW.items())
    note = f"Slow methods are given fewer test rows: {subsets}. Common columns compare on the same rows."
    print(f"Breast cancer, random forest of 100 trees, seed {chosen.seed}. {note}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        plan = runner.Plan([TASK], METHODS, seeds=[chosen.seed], method_rows=SLOW)
        rows = runner.run(plan, folder, jobs=2, command=command, progress=say_done)
    about = runner.environment()
    path = write_report(
        rows,
        chosen.report,
        title="ReLAX and its rivals on breast cancer",
        command=command,
        versions=about["versions"],
        machine=about["machine"],
        note=note,
    )
    table = tables.summary(rows)
    if chosen.json:
        print_table(table, as_json=True)
    else:
        ours = rows[rows["method"] == METHODS[0]]
        print("\n".join(["", *ours["sentence"].head(SENTENCES), ""]))
        print_table(tables.readable(table.droplevel("task")), as_json=False)
        print(f"\nThe report: {path}")
    return INCOMPLETE if rows["state"].isin(["crashed", "timed out"]).any() else DONE
