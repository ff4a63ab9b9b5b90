"""`relax-plugin figures`: the measurements behind README's tables of ReLAX itself."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands.output import DONE, add_json, print_table, whole
from relax_plugin.errors import UnknownNameError, did_you_mean
from relax_plugin.files import check_folder, replacing, write_text

WHAT = ("core", "masked", "labels", "local", "imagination")  # evaluation.figures.MEASUREMENTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "figures",
        help="the figures of README about ReLAX itself: efforts, controls, constraints, labels only, imagination",
        epilog="examples:\n  relax-plugin figures core\n  relax-plugin figures imagination --tasks sonar/mlp --seeds 2",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{', '.join(WHAT)}; all if none")
    parser.add_argument("--tasks", nargs="+", help="task names such as sonar/mlp; the usual ones if none")
    parser.add_argument("--seeds", type=whole(1), default=5, help="how many seeds, from 0 on (default 5)")
    parser.add_argument("--jobs", type=whole(1), default=2, help="runs side by side (default 2)")
    parser.add_argument("--output", type=Path, default=Path(".bench"), help="folder for the rows as CSV")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Measure, print, and store as CSV."""
    from relax_plugin.evaluation.tasks import check_task_name

    for what in chosen.what:
        if what not in WHAT:
            raise UnknownNameError(f"there is no measurement {what!r}; {did_you_mean(what, WHAT)}")
    for task in chosen.tasks or ():
        check_task_name(task)
    check_folder(chosen.output, "--output")

    import pandas as pd

    from relax_plugin.evaluation.figures import AMORTISED, MEASUREMENTS, amortised, measure, summary
    from relax_plugin.evaluation.runner import environment
    from relax_plugin.evaluation.spreadsheet import guarded
    from relax_plugin.pages.drawing import figure_class
    from relax_plugin.pages.plots import amortisation

    if "imagination" in (chosen.what or MEASUREMENTS):
        figure_class()  # whether it can be drawn is better known before than after
    about = environment()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    print(f"{versions}; {about['machine']}", file=sys.stderr, flush=True)
    measured = []
    for what in chosen.what or MEASUREMENTS:
        started = time.perf_counter()
        frame = measure(what, chosen.tasks, range(chosen.seeds), chosen.jobs)
        write_text(chosen.output / f"{what}.csv", guarded(frame)[0].to_csv(index=False))
        tasks = " ".join(["", "--tasks", *chosen.tasks]) if chosen.tasks else ""
        seconds = time.perf_counter() - started
        table = amortised(frame) if what == "imagination" else summary(frame)
        measured.append(table.assign(measurement=what))
        if not chosen.json:
            print(f"\n## {what}: relax-plugin figures {what}{tasks} --seeds {chosen.seeds} ({seconds:.0f} s)\n")
            print_table(table, as_json=False)
        if what == "imagination":
            _save_figure(amortisation(summary(frame), AMORTISED), chosen.output / "imagination.png")
    if chosen.json:
        print_table(pd.concat(measured), as_json=True)
    return DONE


def _save_figure(figure: "Figure", path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png")
    print(f"\nThe same as a picture: {path}", file=sys.stderr, flush=True)
