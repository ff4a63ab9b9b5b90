"""`relax-plugin bench`: methods × tasks × seeds, judged alike."""

import argparse
import sys
from pathlib import Path
from typing import Any

from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, print_table
from relax_plugin.errors import InputError
from relax_plugin.registry import option_names, split_method, with_option

METHODS = ("relax-global", "nearest-ct", "greedy")

EXAMPLES = """examples:
  relax-plugin bench
      the seven tasks of the paper, relax-global, nearest-ct and greedy, five seeds
  relax-plugin bench --tasks sonar/mlp german/rf --methods relax-global:effort=policy greedy --seeds 2 --output results
  relax-plugin bench --tasks wave2/xgb --methods relax-global move-table --budgets 10 20 40 80 160
      quality against model rows: every method that has the option rows_per_instance, once for each budget
  relax-plugin bench --methods relax-global lore dice-random --method-rows lore=20 dice-random=50 --limit 300
  relax-plugin bench --tasks breast_cancer/rf wave2/xgb --methods relax-global greedy feat-tweak --floor 2
      beside every method, how far it is from the provable optimum, where that changes up to two features
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
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="default: the paper's seven")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), metavar="METHOD", help="name, or name:option=value"
    )
    parser.add_argument("--budgets", nargs="+", type=int, default=[], metavar="ROWS", help="rows_per_instance to try")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many seeds, from 0 on (default 5)")
    parser.add_argument("--rows", type=int, metavar="N", help="only the first N test rows")
    parser.add_argument("--method-rows", nargs="+", default=[], metavar="METHOD=N", help="the same for slow methods")
    parser.add_argument("--n", type=int, default=1, help="counterfactuals asked for each row (default 1)")
    parser.add_argument("--max-changes", type=int, metavar="K", help="for every method (default: the method's own)")
    parser.add_argument(
        "--limit",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="for one method on one task and seed; 0: none (default 600)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("bench-results"), metavar="FOLDER", help="default: bench-results"
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
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Run the benchmark and print its table."""
    from relax_plugin.evaluation.plan import Plan, check_place
    from relax_plugin.evaluation.tasks import CORE_TASKS
    from relax_plugin.files import check_folder

    if chosen.floor is not None and chosen.floor < 1:
        raise InputError(f"--floor is {chosen.floor}, but must be at least 1 change.")
    for rows in chosen.budgets:
        if rows < 1:
            raise InputError(f"--budgets has {rows}, but each must be at least 1 model row.")
    plan = Plan(
        tasks=chosen.tasks or CORE_TASKS,
        methods=with_budgets(chosen.methods, chosen.budgets),
        seeds=range(chosen.seeds),
        rows=chosen.rows,
        method_rows=_counts(chosen.method_rows),
        n=chosen.n,
        max_changes=chosen.max_changes,
        limit=chosen.limit or None,
    )
    plan.units()  # refuses what could not run, before what runs it is imported
    check_place(chosen.jobs, chosen.backend, chosen.scheduler)
    check_folder(chosen.output, "--output")

    from relax_plugin.evaluation import runner, tables
    from relax_plugin.evaluation.floor_table import above_floor

    rows = runner.run(
        plan,
        chosen.output,
        jobs=chosen.jobs,
        backend=chosen.backend,
        scheduler=chosen.scheduler,
        retry=chosen.retry,
        command=chosen.said,
        progress=say_done,
    )
    table, failed = tables.summary(rows), tables.failures(rows)
    above, reasons = (None, []) if chosen.floor is None else above_floor(rows, chosen.output, chosen.floor)
    if chosen.json:
        print_table(table if above is None else table.join(above), as_json=True)
    else:
        print_table(tables.readable(table), as_json=False)
        if above is not None:
            print(f"\nHow far from the optimum, where that changes up to {chosen.floor} features:")
            print_table(above, as_json=False)
        print(*reasons, sep="\n", end="\n" if reasons else "")
        for task, method, seed, state, reason in failed.itertuples(index=False):
            print(f"{task}, {method}, seed {seed}: {state}: {reason}")
        print(f"\nThe harness took {tables.overhead(rows):.1%} of the methods' time (fit and explain).")
        print(f"Rows: {chosen.output}. As a page: relax-plugin report {chosen.output}")
    return INCOMPLETE if failed["state"].isin(["crashed", "timed out"]).any() else DONE


def with_budgets(methods: list[str], budgets: list[int]) -> list[str]:
    """Each method once for each budget of model rows, if it has that option."""
    if not budgets:
        return methods
    varied = []
    for method in methods:
        has_budget = "rows_per_instance" in option_names(split_method(method)[0])
        varied += [with_option(method, "rows_per_instance", rows) for rows in budgets] if has_budget else [method]
    return varied


def say_done(done: int, of: int, unit: Any, rows: list[dict[str, Any]]) -> None:
    """One line for each unit, as it is done."""
    first = rows[0]
    if first["state"] == "ok":
        valid = sum(row["valid"] for row in rows) / len(rows)
        how = f"validity {valid:.3f}, fit {first['fit_seconds']:.1f} s, explain {first['explain_seconds']:.1f} s"
    else:
        how = f"{first['state']}: {first['reason']}"
    print(f"[{done}/{of}] {unit.task_name}, {unit.method.label}, seed {unit.seed}: {how}", file=sys.stderr, flush=True)


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
        counts[method] = int(count)
    return counts
