"""`relax-plugin bench`: methods × tasks × seeds, judged alike."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands.live import Live
from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, add_wide, print_summary, print_table
from relax_plugin.errors import InputError
from relax_plugin.registry import full_name, option_names, split_method, with_option

METHODS = ("relax-global", "nearest-ct", "greedy")
SEEDS, LIMIT = 5, 600.0  # where no suite says otherwise

if TYPE_CHECKING:
    import pandas as pd

    from relax_plugin.evaluation.plan import Plan

EXAMPLES = """examples:
  relax-plugin bench
      the seven tasks of the paper, relax-global, nearest-ct and greedy, five seeds
  relax-plugin bench --tasks sonar/mlp german/rf --methods relax-global:effort=policy greedy --seeds 2 --output results
  relax-plugin bench --tasks wave2/xgb --methods relax-global move-table --budgets 10 20 40 80 160
      quality against model rows: every method that has the option max_queries, once for each budget
  relax-plugin bench --methods relax-global lore dice-random --method-rows lore=20 dice-random=50 --limit 300
  relax-plugin bench --tasks breast_cancer/rf wave2/xgb --methods relax-global greedy feat-tweak --floor 2
      beside every method, how far it is from the provable optimum, where that changes up to two features
  relax-plugin bench --suite field --output .bench/field --keep docs/results/field
      the methods of the field on the tables of the field, with every metric; the rows as one small file
  relax-plugin bench --backend dask --scheduler tcp://127.0.0.1:8786
      on the workers of a Dask cluster

Started again with the same output folder, it does what is not done yet.
"""


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="measure methods on tasks over several seeds",
        description="Runs each method on each task and seed in a process that can be ended, and prints the table.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--suite", metavar="NAME", help="a fixed benchmark: field; tasks, methods, seeds, rows and limit try part of it"
    )
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="default: the paper's seven")
    parser.add_argument("--methods", nargs="+", type=full_name, metavar="METHOD", help="name, or name:option=value")
    parser.add_argument("--budgets", nargs="+", type=int, default=[], metavar="ROWS", help="max_queries to try")
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds, from 0 on (default 5)")
    parser.add_argument("--rows", type=int, metavar="N", help="only the first N test rows")
    parser.add_argument("--method-rows", nargs="+", default=[], metavar="METHOD=N", help="the same for slow methods")
    parser.add_argument("--n", type=int, default=1, help="counterfactuals asked for each row (default 1)")
    parser.add_argument("--max-changes", type=int, metavar="K", help="for every method (default: the method's own)")
    parser.add_argument(
        "--metrics",
        choices=("cheap", "all"),
        help="all: also whether answers hold for models fitted again, and for queries with noise (default cheap)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="for one method on one task and seed; 0: none (default 600)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("bench-results"), metavar="FOLDER", help="default: bench-results"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="write the rows as one small file into it, and how they were made"
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    parser.add_argument("--backend", choices=("threading", "dask"), default="threading", help="where joblib runs them")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, such as tcp://127.0.0.1:8786")
    parser.add_argument(
        "--floor",
        type=int,
        nargs="?",
        const=3,
        metavar="K",
        help="print how far each method is from the optimum of up to K changes, on tree ensembles (K: 3 if not given)",
    )
    parser.add_argument("--retry", action="store_true", help="run again what crashed, timed out or was skipped")
    add_json(parser)
    add_wide(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run the benchmark and print its table."""
    from relax_plugin.evaluation.plan import check_place
    from relax_plugin.files import check_folder

    if chosen.floor is not None and chosen.floor < 1:
        raise InputError(f"--floor is {chosen.floor}, but must be at least 1 change.")
    for rows in chosen.budgets:
        if rows < 1:
            raise InputError(f"--budgets has {rows}, but each must be at least 1 model row.")
    plan = _plan(chosen)
    plan.units()  # refuses what could not run, before what runs it is imported
    check_place(chosen.jobs, chosen.backend, chosen.scheduler)
    check_folder(chosen.output, "--output")
    if chosen.keep is not None:
        check_folder(chosen.keep, "--keep")

    from relax_plugin.evaluation import runner, tables
    from relax_plugin.evaluation.floor_table import above_floor
    from relax_plugin.evaluation.store import now

    started = now()
    with Live() as live:
        rows = runner.run(
            plan,
            chosen.output,
            jobs=chosen.jobs,
            backend=chosen.backend,
            scheduler=chosen.scheduler,
            retry=chosen.retry,
            command=chosen.said,
            progress=live,
        )
    if chosen.keep is not None:
        _keep(rows, chosen, started)
    table, failed = tables.summary(rows), tables.failures(rows)
    above, reasons = (None, []) if chosen.floor is None else above_floor(rows, chosen.output, chosen.floor)
    if chosen.json:
        print_table(table if above is None else table.join(above), as_json=True)
    else:
        print_summary(table, wide=chosen.wide)
        if above is not None:
            print(f"\nHow far from the optimum, where that changes up to {chosen.floor} features:")
            print_table(above, as_json=False, wide=chosen.wide)
        print(*reasons, sep="\n", end="\n" if reasons else "")
        for task, method, seed, state, reason in failed.itertuples(index=False):
            print(f"{task}, {method}, seed {seed}: {state}: {reason}")
        print(f"\n{_where_time_went(rows)}")
        print(f"Rows: {chosen.output}. As a page: relax-plugin report {chosen.output}")
    return INCOMPLETE if failed["state"].isin(["crashed", "timed out"]).any() else DONE


def _plan(chosen: argparse.Namespace) -> "Plan":
    from relax_plugin.evaluation.plan import Plan, suite_of
    from relax_plugin.evaluation.tasks import CORE_TASKS

    if chosen.suite is not None:
        for option in ("budgets", "method_rows", "max_changes", "metrics"):
            if getattr(chosen, option):
                raise InputError(f"--{option.replace('_', '-')} is not for --suite {chosen.suite}, which is fixed.")
        if chosen.n != 1:
            raise InputError(f"--n is not for --suite {chosen.suite}, which is fixed.")
        suite = suite_of(chosen.suite)
        return suite.narrowed(chosen.tasks, chosen.methods, chosen.seeds, chosen.rows, chosen.limit).plan()
    limit = LIMIT if chosen.limit is None else chosen.limit
    return Plan(
        tasks=chosen.tasks or CORE_TASKS,
        methods=with_budgets(chosen.methods or list(METHODS), chosen.budgets),
        seeds=range(SEEDS if chosen.seeds is None else chosen.seeds),
        rows=chosen.rows,
        method_rows=_counts(chosen.method_rows),
        n=chosen.n,
        max_changes=chosen.max_changes,
        metrics=chosen.metrics or "cheap",
        limit=limit or None,
    )


def _where_time_went(rows: "pd.DataFrame") -> str:
    from relax_plugin.evaluation import tables

    spent = tables.wall_seconds(rows)
    return (
        f"The harness took {tables.overhead(rows):.1%} of the methods' time (fit and explain, {spent['methods']:.1f} "
        "s): to examine answers, with all metrics also to explain queries with noise, and to send rows. "
        f"Apart from that, once a worker: {spent['tasks']:.1f} s to load data and train models, "
        f"{spent['starts']:.1f} s to start, to import methods and to prepare the judge."
    )


def _keep(rows: "pd.DataFrame", chosen: argparse.Namespace, started: str) -> None:
    from relax_plugin.evaluation.store import commit, environment, keep_rows

    run = {"command": chosen.said, "started": started, "commit": commit(), **environment()}
    print(f"The rows as one file: {keep_rows(rows, chosen.keep, run)}", file=sys.stderr)


def with_budgets(methods: list[str], budgets: list[int]) -> list[str]:
    """Each method once for each budget of model evaluations, if it has an option for that."""
    if not budgets:
        return methods
    varied = []
    for method in methods:
        known = option_names(split_method(method)[0])
        option = next((option for option in ("max_queries", "rows_per_instance") if option in known), None)
        varied += [method] if option is None else [with_option(method, option, rows) for rows in budgets]
    return varied


def check_results(folder: Path) -> None:
    """Refuse a folder in which no results of a benchmark are."""
    if not any((folder / "units").glob("*.csv.gz")):
        raise InputError(f"{folder} holds no results; `relax-plugin bench --output {folder}` makes some.")


def _counts(texts: list[str]) -> dict[str, int]:
    counts = {}
    for text in texts:
        method, _, count = text.rpartition("=")
        if not method or not count.isdecimal():
            raise InputError(f"--method-rows has {text!r}; write METHOD=N, such as lore=20.")
        counts[full_name(method)] = int(count)
    return counts
