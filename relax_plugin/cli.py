"""The command line: `relax-plugin demo` and `relax-plugin bench`."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from relax_plugin.base import list_explainers, make_explainer
from relax_plugin.errors import ReLAXError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENTENCES = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all went well, 2 for a wrong request."""
    parser = argparse.ArgumentParser(prog="relax-plugin", description="Counterfactual explanations by ReLAX.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="fit on breast cancer with a random forest, print sentences and metrics")
    demo.add_argument("--seed", type=int, default=0)
    bench = commands.add_parser("bench", help="measure the figures of the README, over several seeds")
    bench.add_argument("what", nargs="*", metavar="WHAT", help="core, masked, labels, local, imagination; all if none")
    bench.add_argument("--tasks", nargs="+", help="task names such as sonar/mlp; the usual ones if none")
    bench.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0 on (default 5)")
    bench.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    bench.add_argument("--output", type=Path, default=Path(".bench"), help="folder for the rows as CSV")
    commands.add_parser("list", help="names of all explainers")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "demo":
            return _demo(chosen.seed)
        if chosen.command == "bench":
            return _bench(chosen)
    except ReLAXError as error:
        print(f"relax-plugin: {error}", file=sys.stderr)
        return 2
    print("\n".join(list_explainers()))
    return 0


def _demo(seed: int) -> int:
    from relax_plugin.evaluation.metrics import mean_over, validity
    from relax_plugin.evaluation.tasks import load_task

    task = load_task("breast_cancer/rf", seed=seed)
    print(f"Breast cancer, random forest of 100 trees, seed {seed}: {len(task.X_test)} test rows to explain.")
    explainer = make_explainer("relax-global", task.model, task.space, seed=seed)
    started = time.perf_counter()
    explainer.fit(task.X_train)
    fitted = time.perf_counter()
    result = explainer.explain(task.X_test)
    done = time.perf_counter()
    print("\n".join(result.sentences()[:SENTENCES]))
    found = result.found[:, 0]
    print()
    print(f"validity         {validity(found):.3f}   (share of all {len(found)} test rows, confirmed by predict)")
    print(f"sparsity         {mean_over(found, result.sparsity[:, 0]):.2f}    (features changed)")
    print(f"proximity        {mean_over(found, result.proximity[:, 0]):.2f}    (L1, standard deviations)")
    print(
        f"generation time  {done - started:.1f} s  (training {fitted - started:.1f} s, all rows {done - fitted:.2f} s)"
    )
    print(f"model rows       {result.rows_queried.mean():.1f} a test row, {explainer.fit_rows_} in training")
    return 0


def _bench(chosen: argparse.Namespace) -> int:
    from relax_plugin.evaluation.figures import AMORTISED, MEASUREMENTS, amortised, measure, summary
    from relax_plugin.evaluation.plots import amortisation

    unknown = [what for what in chosen.what if what not in MEASUREMENTS]
    if unknown:
        print(f"relax-plugin: there is no measurement {unknown[0]!r}; known are {list(MEASUREMENTS)}.", file=sys.stderr)
        return 2
    chosen.output.mkdir(parents=True, exist_ok=True)
    print(_machine(), flush=True)
    for what in chosen.what or MEASUREMENTS:
        started = time.perf_counter()
        frame = measure(what, chosen.tasks, range(chosen.seeds), chosen.jobs)
        _write(frame, chosen.output / f"{what}.csv")
        tasks = " ".join(["", "--tasks", *chosen.tasks]) if chosen.tasks else ""
        print(f"\n## {what}: relax-plugin bench {what}{tasks} --seeds {chosen.seeds} "
              f"({time.perf_counter() - started:.0f} s)\n")  # fmt: skip
        with pd.option_context("display.width", 250, "display.max_rows", None, "display.max_columns", None):
            table = amortised(frame) if what == "imagination" else summary(frame)
            print(table.to_string(float_format=lambda number: f"{number:.3f}"), flush=True)
        if what == "imagination":
            _save_figure(amortisation(summary(frame), AMORTISED), chosen.output / "imagination.png")
    return 0


def _machine() -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "numpy", "pandas", "scikit-learn"))
    return f"python {sys.version.split()[0]}, {versions}, {os.cpu_count()} cores"


def _save_figure(figure: "Figure", path: Path) -> None:
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    figure.savefig(temporary, dpi=120)
    os.replace(temporary, path)
    print(f"\nThe same as a picture: {path}", flush=True)


def _write(frame: pd.DataFrame, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    frame.to_csv(temporary, index=False)
    os.replace(temporary, path)


if __name__ == "__main__":
    sys.exit(main())
