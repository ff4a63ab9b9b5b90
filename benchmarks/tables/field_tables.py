"""The tables of the field: docs/results/field, the kept rows of `relax-plugin bench --suite field`."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.stored import noted_run, read_kept_rows
from benchmarks.tables.markdown_table import markdown, runs
from benchmarks.tables.ranks import by_task, critical_difference, friedman, ranked
from relax_plugin.evaluation.plan import suite_of
from relax_plugin.evaluation.ranks import SCORES, paired
from relax_plugin.evaluation.store import FILE as FIELD_FILE
from relax_plugin.evaluation.tables import failures, wall_seconds

FIELD = suite_of("field")

FIELD_ROWS = Path(__file__).resolve().parents[2] / "docs" / "results" / "field"
FIELD_COMMAND = "relax-plugin bench --suite field --output .bench/field --keep docs/results/field"
OURS = "relax-global"
COMPARED = ("valid", "changes", "plausible", "lasting")
BUSY = 1.3  # seconds of wall a second of CPU, above which a machine has other work too


def of_the_field(table: Callable[[pd.DataFrame], str]) -> Callable[[], str]:
    """A table of the field's rows; until it was run, the command that does."""

    def filled_in() -> str:
        if not (FIELD_ROWS / FIELD_FILE).exists():
            return f"Not measured yet: `{FIELD_COMMAND}`."
        return table(field_rows())

    return filled_in


@cache
def field_rows() -> pd.DataFrame:
    return read_kept_rows(FIELD_ROWS)


def field_means(rows: pd.DataFrame) -> str:
    """Each score of each method, the mean over the tasks that it applies to, and their number."""
    tables = {score.name: by_task(rows, score) for score in SCORES}
    ran = tables["valid"].notna().sum()
    order = ranked(tables["changes"], high=False).mean().sort_values(kind="stable")
    methods = [*order.index, *(name for name in ran.index if name not in order.index)]
    cells = [
        [f"`{name}`", f"{ran[name]}", *(field_number(tables[score.name][name].mean(), score.name) for score in SCORES)]
        for name in methods
    ]
    return markdown(["method", "tasks", *(f"{score.name}" for score in SCORES)], cells)


def field_number(value: float, score: str) -> str:
    if not np.isfinite(value):
        return "none"
    return f"{value:,.0f}" if score == "model rows" else f"{value:.2f}" if score == "changes" else f"{value:.3f}"


def field_ranks(rows: pd.DataFrame) -> str:
    """Mean ranks over tasks of the methods that apply to all of them, with what chance may do."""
    made = {score.name: ranked(by_task(rows, score), high=score.high) for score in SCORES}
    order = made["changes"].mean().sort_values(kind="stable")
    cells = [[f"`{name}`", *(f"{table[name].mean():.2f}" for table in made.values())] for name in order.index]
    tests = [f"{name} p = {friedman(table)[1]:.2g}" for name, table in made.items()]
    tasks = len(made["changes"])
    parts = [markdown(["method", *made], cells)]
    parts.append(
        f"{tasks} tasks, {len(order)} methods. By the Nemenyi test two mean ranks that differ by less than "
        f"{critical_difference(len(order), tasks):.2f} may do so by chance (5 %). Friedman's test: {', '.join(tests)}."
    )
    pictures = [f"![Critical differences: {name}](field/{name}.svg)" for name in ("changes", "plausible", "lasting")]
    return "\n\n".join([*parts, *pictures])


def field_pairs(rows: pd.DataFrame) -> str:
    """ReLAX against each other method, query by query of the same seeds, with the tasks where it is behind."""
    lines = []
    scores = [score for score in SCORES if score.name in COMPARED]
    for other in dict.fromkeys(rows["method"]):
        if other == OURS:
            continue
        cells = []
        for score in scores:
            found = paired(rows, OURS, str(other), score)
            count = {what: sum(one.outcome == what for one in found) for what in ("better", "tied", "worse")}
            lost = ", ".join(one.task for one in found if one.outcome == "worse")
            cells.append(f"{count['better']} / {count['tied']} / {count['worse']}" + (f" ({lost})" if lost else ""))
        lines.append([f"`{other}`", *cells])
    heading = f"`{OURS}` against: better / tied / worse (where)"
    return markdown([heading, *(score.name for score in scores)], lines)


def behind(rows: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    """By score and task the methods but variants of ReLAX that are better than it there, query by query."""
    found: dict[str, dict[str, list[str]]] = {}
    for score in (score for score in SCORES if score.name in COMPARED):
        tasks: dict[str, list[str]] = {task: [] for task in dict.fromkeys(rows["task"])}
        for other in (name for name in dict.fromkeys(rows["method"]) if not str(name).startswith(OURS)):
            for one in paired(rows, OURS, str(other), score):
                if one.outcome == "worse":
                    tasks[one.task].append(f"`{other}`")
        found[score.name] = {task: others for task, others in tasks.items() if others}
    return found


def field_in_short(rows: pd.DataFrame) -> str:
    """What the suite says about ReLAX: its place by each score, and where it is behind."""
    places = []
    for score in SCORES:
        means = ranked(by_task(rows, score), high=score.high).mean().sort_values(kind="stable")
        place = int((means < means[OURS] - 1e-9).sum()) + 1
        shared = ", shared" if int((abs(means - means[OURS]) <= 1e-9).sum()) > 1 else ""
        places.append(f"{score.name} {place}{shared} ({means[OURS]:.1f})")
    methods = len(ranked(by_task(rows, SCORES[1]), high=False).columns)
    tasks = rows["task"].nunique()
    lines = [
        f"{tasks} tasks, {rows['method'].nunique()} methods, {rows['seed'].nunique()} seeds, "
        f"{rows['instance'].max() + 1} queries each (`relax-plugin bench --suite field`). Among the {methods} methods "
        f"that apply to every task the place of `{OURS}` and, in brackets, its mean rank: {', '.join(places)}; two "
        f"mean ranks that differ by less than {critical_difference(methods, tasks):.1f} may do so by chance. Query by "
        f"query, {_never_parted(rows)}, and other methods are better than it here, by more than two standard errors, "
        "not corrected for so many comparisons:"
    ]
    late = rows[rows["state"].isin(["timed out", "crashed"])]["method"].value_counts()
    for name, where in behind(rows).items():
        told = "; ".join(f"{task} ({', '.join(others)})" for task, others in where.items())
        lines.append(f"- *{name}*: {told or 'nowhere'}.")
    if len(late):
        told = ", ".join(f"`{method}` {count}" for method, count in late.items())
        lines.append(f"- Runs that timed out or crashed, and so count as unsolved: {told}.")
    return "\n".join([lines[0], "", *lines[1:]])


def _never_parted(rows: pd.DataFrame) -> str:
    """Which methods ReLAX is tied with on every task by every score that is compared."""
    alike = []
    for other in (str(name) for name in dict.fromkeys(rows["method"]) if name != OURS):
        found = [one for score in SCORES if score.name in COMPARED for one in paired(rows, OURS, other, score)]
        if len(found) == len(COMPARED) * rows["task"].nunique() and all(one.outcome == "tied" for one in found):
            alike.append(f"`{other}`")
    return f"nothing parts it from {', '.join(alike)}" if alike else "every method is parted from it somewhere"


def field_run(rows: pd.DataFrame) -> str:
    """The command, date, versions and machine, and how busy that was."""
    units = rows[rows["state"] == "ok"].drop_duplicates(["task", "method", "seed"])
    wall = float((units["fit_seconds"] + units["explain_seconds"]).sum())
    cpu = float((units["fit_cpu"] + units["explain_cpu"]).sum())
    spent = wall_seconds(rows)
    once = spent["starts"] + spent["tasks"]
    told = (
        f"Fit and explain of all methods took {cpu / 60:.0f} minutes of CPU and {wall / 60:.0f} of wall, the judge and "
        f"the harness {spent['harness'] / 60:.0f} of wall, starts and models {once / 60:.0f}; two runs went side by "
        "side, and time-outs come on top."
    )
    if wall > BUSY * cpu:
        told += (
            f" **The machine was busy with other work**: a second of CPU took {wall / cpu:.1f} of wall, so that "
            "seconds are to be compared with each other only, and who timed out may not do so on a quiet machine."
        )
    return f"{runs(noted_run(FIELD_ROWS).read())}\n\n{told}"


def field_failures(rows: pd.DataFrame) -> str:
    """What did not run, and why."""
    lost = failures(rows).groupby(["method", "task", "state", "reason"], sort=False)["seed"].agg(list).reset_index()
    if lost.empty:
        return "Every run ended with results."
    cells = [
        [f"`{one.method}`", one.task, ", ".join(map(str, one.seed)), one.state, one.reason] for one in lost.itertuples()
    ]
    return markdown(["method", "task", "seeds", "state", "reason"], cells)


TABLES: dict[str, Callable[[], str]] = {
    "field-means": of_the_field(field_means),
    "field-ranks": of_the_field(field_ranks),
    "field-pairs": of_the_field(field_pairs),
    "field-failures": of_the_field(field_failures),
    "field-run": of_the_field(field_run),
    "field-in-short": of_the_field(field_in_short),
    "field-suite": lambda: (
        f"{len(FIELD.tasks)} tasks ({', '.join(FIELD.tasks)}), {len(FIELD.methods)} methods, {FIELD.seeds} seeds, the "
        f"first {FIELD.rows} test rows of each, at most {FIELD.max_changes} changes, {FIELD.limit:g} s for fit and "
        "explain of one method on one task and seed; whoever takes longer has solved nothing there."
    ),
}
