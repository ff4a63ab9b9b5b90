"""`relax-plugin figures`: the measurements behind the tables about ReLAX itself, and these tables."""

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands.live import Live
from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, print_table, terminal_width, text_table, whole
from relax_plugin.errors import InputError, UnknownNameError, did_you_mean
from relax_plugin.files import check_folder

WHAT = (  # measurements.MEASUREMENTS
    *("judged", "core", "masked", "targeted", "coordinated", "labels", "local", "inside"),
    *("rivals", "unlimited", "slow", "plausible", "costs", "closest", "rules", "missing"),
)

if TYPE_CHECKING:
    import pandas as pd


def add(commands: Any, about: str) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "figures",
        help=about,
        description="Runs each measurement under the judge, keeps its lines as FOLDER/WHAT.csv, and prints its tables. "
        "Interrupted at any moment and started again, it does what is missing.",
        epilog="examples:\n  relax-plugin figures core\n  relax-plugin figures core --tasks sonar/mlp --seeds 2"
        "\n  relax-plugin figures --tables docs/results/figures   the tables of lines that are stored; runs nothing",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{', '.join(WHAT)}; all if none")
    parser.add_argument("--tasks", nargs="+", default=[], help="task names such as sonar/mlp; the usual ones if none")
    parser.add_argument("--seeds", type=whole(1), default=5, help="how many seeds, from 0 on (default 5)")
    parser.add_argument("--jobs", type=whole(1), default=2, help="runs side by side (default 2)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=Path(".bench/figures"))
    parser.add_argument("--tables", type=Path, metavar="FOLDER", help="print the tables of this folder, run nothing")
    add_json(parser)
    parser.add_argument("--wide", action="store_true", help="print the tables as Markdown, in lines of any length")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Measure and keep what is asked for, unless it is stored, and print it."""
    from relax_plugin.evaluation.tasks import check_task_name

    for what in chosen.what:
        if what not in WHAT:
            raise UnknownNameError(f"there is no measurement {what!r}; {did_you_mean(what, WHAT)}")
    for task in chosen.tasks:
        check_task_name(task)
    wanted, folder = chosen.what or WHAT, chosen.tables or chosen.output
    check_folder(folder, "--output" if chosen.tables is None else "--tables")
    if chosen.tables is not None and not any((folder / f"{what}.csv").exists() for what in wanted):
        raise _no_figures(folder)

    from benchmarks.figures.figures import stored

    if chosen.tables is None:
        _measure(chosen, wanted)
    lines = stored(folder)
    lines = lines[lines["measurement"].isin(wanted)]
    if lines.empty:
        raise _no_figures(folder)
    _print(lines, as_json=chosen.json, wide=chosen.wide)
    return INCOMPLETE if lines["state"].isin(["crashed", "timed out"]).any() else DONE


def _no_figures(folder: Path) -> InputError:
    return InputError(f"{folder} holds no figures; `relax-plugin figures --output {folder}` makes them.")


def _measure(chosen: argparse.Namespace, wanted: tuple[str, ...]) -> None:
    """Run what is not stored yet, and keep the lines."""
    from benchmarks.figures.figures import notes
    from benchmarks.figures.measurements import measure
    from benchmarks.stored import write_table
    from relax_plugin.evaluation.store import commit, environment, now

    notes(chosen.output).add({"command": chosen.said, "started": now(), "commit": commit(), **environment()})
    for place, what in enumerate(wanted, start=1):
        with Live(f"{what} ({place} of {len(wanted)})") as live:
            lines = measure(
                what,
                chosen.output / "units",
                tasks=chosen.tasks,
                seeds=range(chosen.seeds),
                jobs=chosen.jobs,
                command=chosen.said,
                progress=live,
            )
        write_table(chosen.output / f"{what}.csv", lines)


def _print(lines: "pd.DataFrame", *, as_json: bool, wide: bool) -> None:
    """Every table of the measurements; as JSON, the means over seeds that they are made of."""
    import pandas as pd

    from benchmarks.figures.figures import TABLES
    from relax_plugin.evaluation.tables import over_seeds

    measured = list(dict.fromkeys(lines["measurement"]))
    if as_json:
        parts = [
            over_seeds(lines[lines["measurement"] == what].drop(columns="measurement")).assign(measurement=what)
            for what in measured
        ]
        print_table(pd.concat(parts), as_json=True)
        return
    for name, table in TABLES.items():
        if table.measurement in measured:
            if wide:
                print(f"\n## {name}: {table.told(lines)}\n\n{table(lines)}", flush=True)
                continue
            heads, cells = table.cells(lines)
            told = [[cell.replace("`", "") for cell in line] for line in cells]
            text = text_table(heads, told, terminal_width(), grouped=bool(table.of_methods))
            print(
                "\n".join(["", *textwrap.wrap(f"## {name}: {table.told(lines)}", terminal_width()), "", text]),
                flush=True,
            )
