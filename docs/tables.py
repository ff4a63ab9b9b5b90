"""Fill the tables of README.md and docs/ from the results in docs/results: `make tables`. No figure is typed.

`<!-- table: NAME -->` … `<!-- end of table -->` is filled with what `TABLES[NAME]` gives. A table whose rows are not in
docs/results yet is named in `WAITING` and left as it is: it is what its command once printed.
"""

import html
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import pandas as pd

from relax_plugin.files import write_text
from relax_plugin.reproduction.report.files import verdict
from relax_plugin.reproduction.report.tables import all_tables
from relax_plugin.reproduction.run import TABLES as STORED
from relax_plugin.reproduction.run import Folder

DOCS = Path(__file__).resolve().parent
PAPER = Folder(DOCS / "results" / "paper")
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
QUICK_FIT = 0.1  # seconds, below which the small table does not mention it
LOOK = {"held": "success", "reached": "success", "compatible": "success", "held in part": "warning"}  # else failure


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


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
    decided = verdict(paper_results(), PAPER.covid())
    chosen = decided[(decided["where"] == "target") == targets]
    folded = []
    for line in chosen.itertuples():
        where = "" if targets else f"{line.where}. "
        told = [html.escape(str(text), quote=False) for text in (line.verdict, f"{where}{line.claim}", line.figures)]
        head = f"<summary><b>{told[0]}</b>: {told[1]}</summary>"
        look = LOOK.get(str(line.verdict), "failure")
        folded.append(f'<details class="{look}">\n{head}\n<p>{told[2]}</p>\n</details>')
    return "\n".join(folded)


def section_of_the_paper(name: str) -> str:
    """The tables of a section of the reproduction's report, ours beside the paper's."""
    parts = []
    for table in all_tables(paper_results())[name]:
        parts += [f"**{table.caption}**", markdown(table.headings, table.lines), *(f"{note}" for note in table.notes)]
    return "\n\n".join(parts)


TABLES: dict[str, Callable[[], str]] = {
    "methods-in-short": methods_in_short,
    "paper-claims": partial(verdict_in_short, targets=False),
    "paper-targets": partial(verdict_in_short, targets=True),
    **{
        f"paper-{name}": partial(section_of_the_paper, name)
        for name in ("models", "regression", "proximity", "architecture", "pretraining", "ablation")
    },
}
WAITING = {  # for rows in docs/results; until then, what their commands printed
    "adapters-speed",
    "bench-inside",
    "bench-seven-tasks",
    "figures-controls",
    "figures-core",
    "figures-imagination",
    "figures-labels",
    "figures-local",
    "figures-masked",
    "figures-rows-by-instances",
}


def filled(text: str) -> str:
    """The text with every table anew."""

    def anew(block: re.Match[str]) -> str:
        name = block["name"]
        if name in WAITING:
            return block[0]
        if name not in TABLES:
            raise LookupError(f"there is no table {name!r}; docs/tables.py has {', '.join(sorted(TABLES))}.")
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
