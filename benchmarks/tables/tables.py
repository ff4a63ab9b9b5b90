"""Fill the tables of README.md and docs/ from the results in docs/results: `make tables`. No figure is typed.

`<!-- table: NAME -->` … `<!-- end of table -->` is filled with what `TABLES[NAME]` gives: `paper-…` from
docs/results/paper (`make reproduce`), `figures-…` from docs/results/figures (`relax-plugin figures`), `speed-…` from
docs/results/speed.csv (`make bench`), `field-…` from docs/results/field (`relax-plugin bench --suite field`), others
from what the scripts beside this file and in benchmarks/hosts/ have stored (`script_tables.py`).
"""

import html
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.figures import figures
from benchmarks.reproduction.report.files import changed, verdict
from benchmarks.reproduction.report.tables import all_tables
from benchmarks.reproduction.run import TABLES as STORED
from benchmarks.reproduction.run import Folder
from benchmarks.tables import field_tables, script_tables
from benchmarks.tables.markdown_table import markdown, runs
from benchmarks.tables.script_tables import LASTING
from relax_plugin.files import write_text

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAPER = Folder(DOCS / "results" / "paper")
FIGURES = DOCS / "results" / "figures"
SPEED = DOCS / "results" / "speed.csv"
BLOCK = re.compile(
    r"(?<=<!-- table: )(?P<name>[\w-]+)(?P<open> -->\n)(?P<table>.*?)(?=<!-- end of table -->)", re.DOTALL
)
IN_SHORT = (  # of the small table: those that apply to every task
    "relax-global",
    "relax-global, policy",
    "greedy",
    "surrogate-search",
    "nearest-ct",
    "lore",
    "dice-random",
)
CAP = 5  # changes, of the small table
MOSTLY = 0.5  # share of queries that must have an answer for a task to count
QUICK_FIT = 0.1  # seconds, below which the small table does not mention it
WAYS_THROUGH_DICE = {  # of the benchmark -> in code
    "dice_ml random": '`dice_ml.Dice(method="random")`',
    "relax, trained": '`Dice(method="relax")`, trained',
    "relax, training included": "the same, training included",
}
LOOK = {"held": "success", "reached": "success", "compatible": "success", "held in part": "warning"}  # else failure


@cache
def paper_results() -> dict[str, pd.DataFrame]:
    """The tidy tables of the last full run of `relax-plugin reproduce`."""
    return {name: PAPER.read(name) for name in STORED if PAPER.has(name)}


def methods_in_short() -> str:
    """Methods over the six classification tasks of the paper: the mean over tasks and seeds."""
    rows = paper_results()["sparsity"]
    rows = rows[(rows["cap"] == CAP) & (rows["state"] == "ok")]
    tasks = rows["task"].nunique()
    lines, fits, given = [], [], {}
    for method in IN_SHORT:
        mine = rows[rows["method"] == method]
        assert mine["task"].nunique() == tasks, f"{method} does not apply to every task"
        given[method] = int(mine["instances"].max())
        milliseconds = (mine["explain_seconds"] / mine["instances"]).mean() * 1000
        means = mine[["validity", "L0", "L1", "rows"]].mean()
        cells = [f"{means['validity']:.3f}", f"{means['L0']:.2f}", f"{means['L1']:.2f}", f"{means['rows']:,.0f}"]
        if mine["fit_seconds"].mean() >= QUICK_FIT:
            fits.append(f"`{method}` {mine['fit_rows'].mean():,.0f} model rows and {mine['fit_seconds'].mean():.1f} s")
        lines.append([f"`{method}`", *cells, f"{milliseconds:,.1f}"])
    headings = ["method", "valid", "features changed", "distance (L1)", "model rows a query", "ms a query"]
    most = max(given.values())
    slow = ", ".join(f"`{method}` {rows}" for method, rows in given.items() if rows < most)
    notes = [
        f"Rows of each test set, at most: {slow}, the others {most}.",
        f"Not counted is the fit: {', '.join(fits)}.",
    ]
    return "\n\n".join([markdown(headings, lines), " ".join(notes)])


def verdict_in_short(targets: bool) -> str:
    """The claims of the paper, or what this package aimed at, with a word each; the figures are folded."""
    decided = verdict(paper_results(), PAPER.covid(), PAPER.verdicts_before())
    chosen = decided[(decided["where"] == "target") == targets]
    folded = []
    for line in chosen.itertuples():
        where = "" if targets else f"{line.where}. "
        told = [html.escape(str(text), quote=False) for text in (line.verdict, f"{where}{line.claim}", line.figures)]
        before = f" (before: {line.before})" if line.before not in ("", line.verdict) else ""
        head = f"<summary><b>{told[0]}</b>{before}: {told[1]}</summary>"
        look = LOOK.get(str(line.verdict), "failure")
        folded.append(f'<details class="{look}">\n{head}\n<p>{told[2]}</p>\n</details>')
    return "\n".join(folded)


def changes() -> str:
    """What is decided otherwise than in the run before."""
    before = PAPER.verdicts_before()
    told = changed(verdict(paper_results(), PAPER.covid(), before), before)
    return "\n".join(f"- {line}" for line in told) or "Nothing is decided otherwise."


def section_of_the_paper(name: str) -> str:
    """The tables of a section of the reproduction's report, ours beside the paper's."""
    parts = []
    for table in all_tables(paper_results())[name]:
        parts += [f"**{table.caption}**", markdown(table.headings, table.lines), *(f"{note}" for note in table.notes)]
    return "\n\n".join(parts)


@cache
def measured() -> pd.DataFrame:
    """The lines of the last full run of `relax-plugin figures`."""
    return figures.stored(FIGURES)


def figure(name: str) -> str:
    """A table of `relax-plugin figures`, with what it is about."""
    table = figures.TABLES[name]
    if not (measured()["measurement"] == table.measurement).any():
        return f"**{table.about}**\n\nNot measured yet: `relax-plugin figures {table.measurement}`."
    about, _, finding = table.told(measured()).partition(". ")
    return "\n\n".join([f"**{about}**", *([finding] if finding else []), table(measured()).rstrip()])


def last_run_of(measurement: str) -> str:
    """The last run of `relax-plugin figures` that was asked for this measurement by its name."""
    entries = figures.notes(FIGURES).read()
    return runs([entry for entry in entries if measurement in entry["command"].split()][-1:])


def lasting_in_short() -> str:
    """What a higher probability buys, in one sentence."""
    lines = pd.read_csv(LASTING)
    sure = next(way for way in lines["way"] if way.startswith("min_probability"))
    solved = lines[lines["way"] == sure].groupby("task")["validity"].mean()
    lines = lines[lines["task"].isin(solved[solved > MOSTLY].index)]  # one model is never so sure
    ways = lines.groupby("way", sort=False)[["lasts", "changes"]].mean()
    default, surer = ways.loc["by default"], ways.loc[sure]
    return (
        f"`{sure}` buys answers that last: of models fitted again, {surer['lasts']:.0%} still agree "
        f"({default['lasts']:.0%} by default), for {surer['changes'] - default['changes']:.2f} changed features more "
        f"(means of {lines['task'].nunique()} tasks, {lines['seed'].nunique()} seeds)."
    )


def speeds(group: str | tuple[str, ...], columns: Mapping[str, Callable[[Any], str]]) -> str:
    """A table of the benchmarks whose group begins so: a column for each heading, and where it was measured."""
    lines = pd.read_csv(SPEED).assign(cpu_seconds=lambda table: table["seconds"] / table["wall_over_cpu"])
    lines = lines[lines["group"].str.startswith(group)]
    one = lines.iloc[0]
    where = f"CPU seconds of one thread; {one['machine']}, {one['measured'][:10]}, mean load {one['load']:.1f}."
    cells = [[cell(line) for cell in columns.values()] for _, line in lines.iterrows()]
    return f"{markdown(list(columns), cells)}\n\n{where}"


def cpu_seconds(line: Any) -> str:
    return f"{line['cpu_seconds']:,.2f}" if line["cpu_seconds"] < 1 else f"{line['cpu_seconds']:,.1f}"


def cpu_rate(line: Any) -> str:
    return f"{line['rows'] / line['cpu_seconds']:,.0f}"


def number(name: str, form: str) -> Callable[[Any], str]:
    return lambda line: form.format(line[name])


TABLES: dict[str, Callable[[], str]] = {
    "methods-in-short": methods_in_short,
    "paper-runs": lambda: runs(PAPER.notes.read()),
    "paper-claims": partial(verdict_in_short, targets=False),
    "paper-changes": changes,
    "paper-targets": partial(verdict_in_short, targets=True),
    **{
        f"paper-{name}": partial(section_of_the_paper, name)
        for name in ("models", "regression", "proximity", "architecture", "pretraining", "ablation")
    },
    "figures-runs": lambda: runs(figures.notes(FIGURES).read()),
    **{f"figures-{name}": partial(figure, name) for name in figures.TABLES},
    "figures-plausible-run": partial(last_run_of, "plausible"),
    **script_tables.TABLES,
    **field_tables.TABLES,
    "lasting-in-short": lasting_in_short,
    "speed-dice": partial(
        speeds,
        "a counterfactual for each of 1000 rows through DiCE",
        {
            "a counterfactual for each of 1,000 rows of german/rf": lambda line: WAYS_THROUGH_DICE[line["label"]],
            "CPU s": cpu_seconds,
            "times quicker": lambda line: f"{1 / line['cpu_ratio']:.0f}",
            "validity": number("validity", "{:.3f}"),
            "features changed": number("sparsity", "{:.2f}"),
        },
    ),
    "speed-faces": partial(
        speeds,
        "faces of the same agent",
        {"the same agent, 1,000 rows of wave2/xgb": number("label", "{}"), "added": number("overhead", "{:+.0%}")},
    ),
    "speed-batches": partial(
        speeds,
        "generation in large batches",
        {
            "method": number("label", "`{}`"),
            "rows a CPU second": cpu_rate,
            "validity": number("validity", "{:.3f}"),
            "model rows a query": number("model_rows", "{:,.0f}"),
        },
    ),
    "speed-instances": partial(
        speeds,
        "instances, policy of wave2/xgb",
        {
            "explained at once": number("label", "{}"),
            "rows a CPU second": cpu_rate,
            "peak of the process, MiB": number("peak_mebibytes", "{:,.0f}"),
        },
    ),
    "speed-trees": partial(
        speeds,
        ("1 row of ", "200 rows of "),
        {
            "explained": lambda line: line["group"].partition(", tree")[0],
            "the model is asked by": number("label", "{}"),
            "CPU s": cpu_seconds,
            "share of the library's": number("cpu_ratio", "{:.2f}"),
        },
    ),
    "speed-floor": partial(
        speeds,
        "floor, breast_cancer/rf",
        {"the floor of breast_cancer/rf": number("label", "{}"), "CPU s": cpu_seconds},
    ),
}


def filled(text: str) -> str:
    """The text with every table anew."""

    def anew(block: re.Match[str]) -> str:
        name = block["name"]
        if name not in TABLES:
            raise LookupError(f"there is no table {name!r}; `TABLES` has {', '.join(sorted(TABLES))}.")
        return f"{name}{block['open']}\n{TABLES[name]()}\n\n"

    return BLOCK.sub(anew, text)


def texts() -> list[Path]:
    """The files that may hold tables."""
    return [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


if __name__ == "__main__":
    for path in texts():
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            write_text(path, after)
            print(f"{path.relative_to(DOCS.parent)} is changed.", file=sys.stderr)
