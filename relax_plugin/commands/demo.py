"""`relax-plugin demo`: sonar, a network, and eight explainers side by side.

Of the tasks whose results are stored in docs/results/paper, methods differ most on this one: not all queries are
solved, and sparsity, distance and cost have the widest range (`tests/commands/test_demo.py` holds it to that).
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from relax_plugin.commands.live import Live
from relax_plugin.commands.output import (
    DONE,
    INCOMPLETE,
    LAST_SEED,
    add_json,
    add_wide,
    print_summary,
    print_table,
    whole,
)

TASK = "sonar/mlp"
MOST_CHANGES = 5  # for all methods alike, as in the paper
METHODS = (
    *("relax-global", "relax-local", "greedy", "move-table", "surrogate-search", "nearest-ct", "lore"),
    "dice-random",
)
SLOW = {"dice-random": 40}  # test rows that methods which take long are given
SENTENCES = 5


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="sonar with a network: sentences, a table of eight explainers, a report",
        description="Explains the test rows of the sonar data (mine or rock, 60 frequencies) by eight methods, each of "
        f"which may change at most {MOST_CHANGES} features. About two minutes.",
        epilog="examples:\n  relax-plugin demo\n  relax-plugin demo --report page.html --seed 3",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=whole(0, LAST_SEED), default=0)
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), help="default: demo-report.html")
    add_json(parser)
    add_wide(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run the methods on a fresh folder, print sentences and the table, write the page."""
    from relax_plugin.files import check_page

    check_page(chosen.report, "--report")  # better known before than after

    from relax_plugin.evaluation import runner, tables
    from relax_plugin.pages.report import write_report

    command = f"relax-plugin demo --seed {chosen.seed}"
    subsets = ", ".join(f"{method} on the first {rows}" for method, rows in SLOW.items())
    note = (
        f"Every method may change at most {MOST_CHANGES} of the 60 features. Slow methods are given fewer test rows: "
        f"{subsets}. Common columns compare on the same rows."
    )
    print(f"Sonar, network of 256 and 256 units, seed {chosen.seed}. {note}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder, Live() as live:
        plan = runner.Plan([TASK], METHODS, seeds=[chosen.seed], method_rows=SLOW, max_changes=MOST_CHANGES)
        rows = runner.run(plan, folder, jobs=2, command=command, progress=live)
    about = runner.environment()
    path = write_report(
        rows,
        chosen.report,
        title="ReLAX and its rivals on sonar",
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
        print_summary(table.droplevel("task"), wide=chosen.wide)
        print(f"\nThe report: {path}")
    return INCOMPLETE if rows["state"].isin(["crashed", "timed out"]).any() else DONE
