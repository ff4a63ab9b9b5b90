"""A table of ratios within each group of benchmarks, measured side by side in one run of pytest-benchmark.

Usage: python -m benchmarks.speed.ratios .bench/benchmarks.json [--json] [--yardstick NAME] [--keep FILE]

Reads the JSON of pytest-benchmark, prints the table, and writes it as `ratios.csv` beside the JSON. Times are the least
of all rounds, divided by the rows that one round worked on, where the benchmark says how many (`rows`). In each group
the benchmark called NAME counts as 1, or the one that calls itself the yardstick, or else the fastest. The file of
`--keep` is what the documentation shows: the groups measured now take the place of those it had, the others stay.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from relax_plugin.evaluation.store import commit, environment, now

KEPT = ("validity", "sparsity", "proximity", "overhead", "model_rows", "steps", "model_seconds", "peak_mebibytes")
BUSY = 1.5  # seconds a CPU second: from here on the wall clock has measured others' work too


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The benchmarks of a JSON file of pytest-benchmark, and what it says of the machine."""
    try:
        data = json.loads(path.read_text())
        return data["benchmarks"], data.get("machine_info", {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path} is no JSON file of pytest-benchmark: {type(error).__name__} {error}") from error


def table_of(benchmarks: list[dict[str, Any]], yardstick: str | None = None) -> pd.DataFrame:
    """One row a benchmark, groups in the order of their first one; ratios to the yardstick of the group."""
    rows = [row_of(benchmark) for benchmark in benchmarks]
    names = list(dict.fromkeys(row["group"] for row in rows))
    measured: list[dict[str, Any]] = []
    for name in names:
        members = [row for row in rows if row["group"] == name]
        one = unit_of(members, yardstick)
        for row in members:
            ratio = row["seconds_per_row"] / one["seconds_per_row"]
            cpu = row["cpu_per_row"] / one["cpu_per_row"] if one["cpu_per_row"] else float("nan")
            measured.append({**row, "ratio": ratio, "cpu_ratio": cpu, "relative_to": one["label"]})
    first = ("group", "label", "ratio", "cpu_ratio", "relative_to", "seconds_per_row", "rows_per_second", "rows")
    frame = pd.DataFrame(measured, columns=[*first, "seconds", "rounds", "wall_over_cpu", *KEPT])
    return frame.dropna(axis=1, how="all") if len(frame) else frame


def row_of(benchmark: dict[str, Any]) -> dict[str, Any]:
    """What a benchmark measured, on one row of its work."""
    info = benchmark.get("extra_info") or {}
    seconds, rows = float(benchmark["stats"]["min"]), int(info.get("rows") or 1)
    cpu = float(info.get("cpu_seconds") or float("nan"))
    return {
        "group": benchmark.get("group") or benchmark["fullname"].partition("[")[0],
        "label": str(info.get("label") or benchmark.get("param") or benchmark["name"]),
        "yardstick": bool(info.get("yardstick")),
        "rows": rows,
        "rounds": int(benchmark["stats"].get("rounds", 1)),
        "seconds": seconds,
        "seconds_per_row": seconds / rows,
        "rows_per_second": rows / seconds if seconds > 0 else float("inf"),
        "cpu_per_row": cpu / rows,
        "wall_over_cpu": seconds / cpu,
        **{name: info.get(name) for name in KEPT},
    }


def unit_of(members: list[dict[str, Any]], yardstick: str | None) -> dict[str, Any]:
    """The member that counts as 1."""
    named = [row for row in members if row["label"] == yardstick]
    marked = [row for row in members if row["yardstick"]]
    return (named or marked or [min(members, key=lambda row: row["seconds_per_row"])])[0]


def text_of(table: pd.DataFrame) -> str:
    """The table to read: one block a group, its title saying what counts as 1."""
    blocks = []
    for group, members in table.groupby("group", sort=False):
        shown = members.drop(columns=["group", "relative_to", "seconds"]).dropna(axis=1, how="all")
        lines = shown.to_string(index=False, float_format=lambda number: f"{number:.4g}", na_rep="-")
        blocks.append(f"{group} ({members['relative_to'].iloc[0]} = 1)\n{lines}\n")
    return "\n".join(blocks)


def kept(table: pd.DataFrame, machine: dict[str, Any], path: Path) -> pd.DataFrame:
    """The table with where and when it was measured, below the groups of the file that were not measured now."""
    about = environment()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    origin = {"machine": about["machine"], "load": machine.get("load"), "measured": now(), "commit": commit()}
    measured = table.assign(**origin, versions=versions)
    if not path.exists():
        return measured
    before = pd.read_csv(path)
    return pd.concat([before[~before["group"].isin(measured["group"])], measured], ignore_index=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that others see all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="JSON written by pytest --benchmark-json")
    parser.add_argument("--json", action="store_true", help="print the table as JSON records")
    parser.add_argument("--yardstick", metavar="NAME", help="what counts as 1 in every group that has it")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="a CSV file for the documentation, filled anew")
    chosen = parser.parse_args(arguments)
    benchmarks, machine = read(chosen.path)
    table = table_of(benchmarks, chosen.yardstick)
    write_whole(chosen.path.with_name("ratios.csv"), table.to_csv(index=False))
    if chosen.keep is not None:
        write_whole(chosen.keep, kept(table, machine, chosen.keep).to_csv(index=False, float_format="%.6g"))
    if chosen.json:
        print(json.dumps(json.loads(table.to_json(orient="records")), indent=2))
        return
    print(text_of(table) if len(table) else "no benchmark was measured")
    busy = int((table["wall_over_cpu"] > BUSY).sum()) if "wall_over_cpu" in table else 0
    print(f"{len(table)} benchmarks; mean load at the end {machine.get('load', 'unknown')}.", file=sys.stderr)
    if busy:
        print(f"{busy} took over {BUSY} times their CPU time: others were at work, read cpu_ratio.", file=sys.stderr)


if __name__ == "__main__":
    main()
