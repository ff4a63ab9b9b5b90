"""Tables of what the scripts beside this file have measured: each stores its lines in docs/results, by its own name."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.speed.trees import targets
from benchmarks.tables.markdown_table import markdown
from benchmarks.tables.plausible_changes import LIMIT, summary
from relax_plugin.registry import BUILT_IN, explainer_class
from relax_plugin.supports import TIERS

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
LASTING = RESULTS / "lasting.csv"
PLAUSIBLE_CHANGES = RESULTS / "plausible_changes.csv"
CALIBRATION = RESULTS / "calibration.csv"
NETWORKS = RESULTS / "networks.csv"
HOSTS = RESULTS / "hosts"  # benchmarks/hosts/own_tests_of_*.py
WALK = RESULTS / "walk.csv"
LARGE_TABLES = RESULTS / "large_tables.csv"
OTHERS = RESULTS / "others.csv"
TREES = RESULTS / "trees.csv"  # benchmarks/speed/trees.py
TREECF = RESULTS / "treecf.csv"  # benchmarks/hosts/against_treecf.py


def lasting() -> str:
    """How many answers still hold when the model is fitted again, by what was asked of them."""
    lines = pd.read_csv(LASTING)
    means = lines.groupby(["task", "way"], sort=False)[["validity", "lasts", "changes", "rows"]].mean().reset_index()
    told = (
        f"{lines['task'].nunique()} tasks, {lines['seed'].nunique()} seeds; *lasts* is the share of answers that still "
        "hold for models fitted again on bootstrap samples, which no search has seen:"
    )
    cells = []
    for row in means.itertuples():
        numbers = [f"{row.validity:.3f}", f"{row.lasts:.3f}", f"{row.changes:.2f}", f"{row.rows:.1f}"]
        way = f"`{row.way}`" if "=" in row.way else row.way
        cells.append([row.task, way, *("none" if number == "nan" else number for number in numbers)])
    return f"{told}\n\n{markdown(['task', 'asked for', 'valid', 'lasts', 'features', 'model rows a query'], cells)}"


def plausible_changes() -> str:
    """What a preference for plausible counterfactuals costs and brings, task by task."""
    lines = pd.read_csv(PLAUSIBLE_CHANGES)
    told = (
        f"{plausible_measured()} `None` / `prefer`. *Needless* is the share of counterfactuals with a "
        "change that can be taken back. Plausible shares are those of rows that are no outliers by the "
        "benchmark's own detectors. *Gained, "
        "lost* counts the queries of which only the counterfactual of `prefer`, or only that of `None`, is plausible "
        "by the independent detector; p is the one-sided sign test of a loss:"
    )
    cells = []
    for row in summary(lines).to_dict("records"):
        forms = {"valid": ".2f", "changes": ".2f", "needless": ".2f", "lof": ".2f", "forest": ".2f", "rows": ".1f"}
        pairs = [f"{row[f'{name} None']:{form}} / {row[f'{name} prefer']:{form}}" for name, form in forms.items()]
        cells.append([row["task"], *pairs, f"{row['gained']}, {row['lost']} ({row['p']:.2f})"])
    headings = ["task", "valid", "changes", "needless", "plausible, LOF", "plausible, IsolationForest"]
    return f"{told}\n\n{markdown([*headings, 'model rows a query', 'gained, lost (p)'], cells)}"


def plausible_measured() -> str:
    """Which run `plausible_changes` shows, and of how many queries."""
    lines = pd.read_csv(PLAUSIBLE_CHANGES)
    about = json.loads(PLAUSIBLE_CHANGES.with_suffix(".json").read_text(encoding="utf-8"))
    seeds = ", ".join(map(str, lines["seed"].unique()))
    return (
        f"Measured on {lines['task'].nunique()} tasks with at most {lines['query'].max() + 1} test rows each, at most "
        f"{LIMIT} changes, {'seed' if lines['seed'].nunique() == 1 else 'seeds'} {seeds}, at commit {about['commit']} "
        f"({about['started'][:10]})."
    )


def plausible_in_short() -> str:
    """Why a preference for plausible counterfactuals is not the default, in short."""
    lines = summary(pd.read_csv(PLAUSIBLE_CHANGES))
    return (
        '`plausible="prefer"` is off by default in Python, on the command line and on the pages. It chooses the more '
        f"plausible of counterfactuals with equally few changes. On {len(lines)} tasks the mean share of plausible "
        f"counterfactuals is {_share(lines['lof None'])} without it and {_share(lines['lof prefer'])} with it, by the "
        f"kind of detector that the search uses. {_independent(lines)} "
        "[Details](docs/constraints_and_goals.md#plausible-answers)."
    )


def plausible_default() -> str:
    """What a preference for plausible counterfactuals costs and brings over all tasks."""
    lines = summary(pd.read_csv(PLAUSIBLE_CHANGES))
    worst = lines.loc[lines["ratio"].idxmax()]
    needless = lines[["needless None", "needless prefer"]].max()
    rows = lines[["rows None", "rows prefer"]].mean()
    points = [
        f"Cost in changes: at most {worst['ratio'] - 1.0:.1%} more changes on any task.",
        f"Needless changes: in at most {needless.iloc[0]:.1%} of the counterfactuals of a task without it, "
        f"{needless.iloc[1]:.1%} with it.",
        f"Cost in model evaluations: {rows.iloc[0]:.1f} per query without it, {rows.iloc[1]:.1f} with it (means over "
        "the tasks).",
        f"By a `LocalOutlierFactor`, the kind of detector that the search uses: the share of plausible counterfactuals "
        f"is {_share(lines['lof None'])} without it and {_share(lines['lof prefer'])} with it (means over the tasks).",
        _independent(lines),
    ]
    return "\n".join([*(f"- {point}" for point in points), "", plausible_measured()])


def _share(of: pd.Series) -> str:
    return f"{of.mean():.2f}"


def _independent(lines: pd.DataFrame) -> str:
    """On which tasks the share of the independent detector rises, and on which it falls."""
    told = []
    for word, of in (("rises", lines["gained"] > lines["lost"]), ("falls", lines["gained"] < lines["lost"])):
        tasks = [
            f"{row['task']} ({row['forest None']:.2f} to {row['forest prefer']:.2f}; {row['gained']} gained, "
            f"{row['lost']} lost)"
            for row in lines[of].to_dict("records")
        ]
        told.append(f"{word} on {' and '.join(tasks) or 'no task'}")
    same = int((lines["gained"] == lines["lost"]).sum())
    return (
        f"By an `IsolationForest`, which no search sees, the share {told[0]}, {told[1]}, and stays the same on the "
        f"other {same}."
    )


def tiers() -> str:
    """How far each method is that of its paper, and by what that is known."""
    lines: dict[tuple[str, str], list[str]] = {}
    for name in BUILT_IN:
        supports = explainer_class(name)[0].supports
        if supports.tier:
            lines.setdefault((supports.tier, supports.evidence), []).append(f"`{name}`")
    order = sorted(lines, key=lambda line: TIERS.index(line[0]))
    cells = [[", ".join(lines[tier, evidence]), tier, evidence] for tier, evidence in order]
    return markdown(["method", "tier", "evidence"], cells)


def calibration() -> str:
    """On how many rows a method gives the counterfactuals of its authors' package."""
    lines = pd.read_csv(CALIBRATION)
    cells = []
    for _, line in lines.iterrows():
        pairs = [f"{line[what]:.2f} / {line[f'{what}, theirs']:.2f}" for what in ("valid", "changes", "distance")]
        method = f"`{line['method']}:{line['options']}`"
        cells.append([method, line["against"], line["task"], f"{line['rows']}", f"{line['same']:.0%}", *pairs])
    return markdown(
        ["method", "against", "task", "rows", "the same, cell by cell", "valid", "features changed", "L1"], cells
    )


def trees() -> str:
    """Counterfactuals a second of the search in tree ensembles and of others, and how good they are."""
    lines = pd.read_csv(TREES)
    lines = lines[lines["per_second"].notna()]
    cells = [
        [
            *(line.unit, f"`{line.method}`", f"{line.per_second:,.4g}", _number(line.per_second_alone, ",.4g")),
            *(f"{line.valid:.3f}", f"{line.l0_ratio:.3f}", f"{line.l1_ratio:.3f}"),
            *(f"{line.fewest:.0f} of {line.proved:.0f}", _number(line.above_optimum, ".3f")),
        ]
        for line in lines.itertuples()
    ]
    headings = ["task", "method", "a CPU second", "without the model", "valid", "L0 / greedy", "L1 / greedy"]
    return markdown([*headings, "fewest changes", "L1 / optimum"], cells)


def trees_targets() -> str:
    """What the search in tree ensembles had to reach, and what it reached."""
    cells = []
    for line in targets(pd.read_csv(TREES)).to_dict("records"):
        asked = f"{'at least' if line['at least'] else 'at most'} {line['asked']:,g}"
        cells.append([line["target"], asked, f"{line['measured']:,.4g}", "yes" if line["held"] else "no"])
    return markdown(["target", "asked", "measured", "held"], cells)


def trees_picture(path: Path) -> None:
    """Counterfactuals a CPU second of each method, and how far they are, in a panel each."""
    import matplotlib.pyplot as plt

    lines = pd.read_csv(TREES)
    plt.rcParams["svg.hashsalt"] = "trees"
    panels = {"per_second": "counterfactuals a CPU second", "l1_ratio": "distance / greedy's"}
    figure, all_axes = plt.subplots(2, 1, figsize=(9, 6), sharex=True)
    for axes, (name, label) in zip(all_axes, panels.items(), strict=True):
        table = lines.pivot(index="unit", columns="method", values=name).reindex(lines["unit"].unique())
        table[lines["method"].unique().tolist()].plot.bar(ax=axes, logy=True, width=0.85, rot=20, legend=False)
        axes.set(xlabel="", ylabel=label)
    all_axes[0].legend(ncols=3, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _number(value: float, how: str) -> str:
    return "" if pd.isna(value) else format(value, how)


def large_tables() -> str:
    """Rows a second and memory of runs in parts, by effort and processes, with the load of the machine at the time."""
    lines = pd.read_csv(LARGE_TABLES)
    cells = []
    for _, line in lines.iterrows():
        by = "Dask worker" if line["backend"] == "dask" else "process"
        by = f"{line['processes']} {by}" if line["processes"] == 1 else f"{line['processes']} {_several(by)}"
        own = [line["effort"], f"{line['rows']:,}", by, f"{line['at work']:.2f}", f"{line['solved']:.4f}"]
        paces = [f"{line[name]:,.0f}" for name in ("rows a CPU second", "rows a second")]
        memory = [f"{line[name]:,.0f}" for name in ("MiB of a worker", "MiB of the largest")]
        told_of = [*own, *paces, *memory, f"{line['load']:.1f}", line["measured"][:10]]
        cells.append(["not noted" if cell == "nan" else cell for cell in told_of])
    headings = ["effort", "rows", "by", "at work", "solved", "rows a CPU second", "rows a second"]
    headings += ["MiB of a worker", "MiB of the largest process", "load", "measured"]
    told = (
        f"wave2/xgb with `--plausible no` on {', '.join(lines['machine'].unique())}, from the begin of the first part "
        "to the end of the last; the first part of a process loads the explainer too, which small tables show. *At "
        "work* is how many of the processes had a part, on the mean. Rows a second are of the clock: where the load is "
        "above the number of cores, others had most of the machine, more processes cannot be quicker, and rows a CPU "
        "second tell more. A run without a load was ended from outside: its line is about the parts that it had noted."
    )
    return f"{told}\n\n{markdown(headings, cells)}\n\n{_larger_by_search(lines)}"


def _several(one: str) -> str:
    return f"{one}es" if one.endswith("s") else f"{one}s"


def _larger_by_search(lines: pd.DataFrame) -> str:
    """How long tables would take that were not searched."""
    searched = lines[lines["effort"] == "search"]
    longest = searched.loc[searched["rows"].idxmax()]
    hours = [f"{rows / longest['rows a CPU second'] / 3600:.1f} CPU hours for {rows:,}" for rows in (10**6, 10**7)]
    return (
        f"Larger tables than {longest['rows']:,} rows were not searched. Extrapolated, not measured: at the pace of "
        f"that line a search would take {' and '.join(hours)} rows."
    )


def networks() -> str:
    """How many proofs about networks end in time, and what they say."""
    lines = pd.read_csv(NETWORKS)
    limits = sorted(lines["limit"].unique())
    cells = []
    for (question, task), some in lines.groupby(["question", "task"], sort=False):
        at = {limit: some[some["limit"] == limit] for limit in limits}
        last = at[limits[-1]]
        shares = [f"{at[limit]['proved'].mean():.0%}" for limit in limits]
        nearest = [f"{at[limit]['closest'].mean():.0%}" for limit in limits]
        changes = f"{last.loc[last['changes'] > 0, 'changes'].mean():.2f}"
        spent = [f"{last['seconds'].median():.2f}", f"{some['load'].mean():.1f}"]
        cells.append([question, task, len(last), *shares, *nearest, changes, *spent])
    told = [f"{limit:g} s" for limit in limits]
    headings = ["proved", "task", "rows", *(f"proved in {limit}" for limit in told)]
    headings += [*(f"and the closest, in {limit}" for limit in told), "features", "median s", "load"]
    return f"{markdown(headings, cells)}\n\nWall clock of one thread; the load is that of two cores."


def hosts_table() -> str:
    """What became of the tests and the documentation of other toolkits with our class in place of theirs, by file."""
    lines, told = [], []
    for path in sorted(HOSTS.glob("*.csv")):
        tests = pd.read_csv(path)
        tests = tests.assign(file=tests["test"].str.partition("::")[0], own=tests.get("own", "unknown"))
        tests = tests[tests["outcome"] != "skipped"]
        for (host, release, file), some in tests.groupby(["host", "version", "file"], sort=False):
            numbers = [len(some), (some["outcome"] == "passed").sum(), (some["own"] == "passed").sum()]
            own = numbers[2] if (some["own"] != "unknown").all() else "not run"
            lines.append([f"{host} {release}", f"`{file}`", *numbers[:2], own, (~some["touched"]).sum()])
        for kind, some in tests.groupby(
            np.where(tests["file"].str.endswith(".py"), "tests", "blocks of documentation")
        ):
            passed, untouched = (some["outcome"] == "passed").sum(), (~some["touched"]).sum()
            told.append(f"of {len(some)} {kind} of {host} {passed} pass, and {untouched} never touch our class")
    headings = ["host", "file", "tests", "pass with our class", "with its own", "never touch ours"]
    return f"{markdown(headings, lines)}\n\nSkipped ones apart, {'; '.join(told)}."


def walked() -> str:
    """The commands of the first five minutes, with the seconds that each took."""
    lines, about = pd.read_csv(WALK), json.loads(WALK.with_suffix(".json").read_text(encoding="utf-8"))
    rows = [[f"`{line.command}`", f"{line.seconds:.1f}"] for line in lines.itertuples()]
    total = lines["seconds"].sum()
    told = f"On {about['date']}, with Python {about['python']} on {about['cores']} cores that were not idle: on average"
    told += f" {about['others']} programs ran or waited. What a person reads and types comes on top."
    table = markdown(["command", "seconds"], [*rows, ["together", f"{total:.1f} ({total / 60:.1f} minutes)"]])
    return f"{table}\n\n{told}"


def others() -> str:
    """What FastAR published, and what our methods do on the same tables."""
    lines = pd.read_csv(OTHERS)
    cells = []
    for _, line in lines.iterrows():
        published = line["source"] == "published"
        method = line["method"] if published else f"`{line['method']}`"
        rows = "" if published else f"{line['refused']:,.0f}"
        seconds = shown(line["seconds"] + (0.0 if published else line["fit seconds"]), "{:,.1f}")
        changes = shown(line["changes"], "{:.2f}")
        cells.append([line["table"], method, rows, f"{100 * line['validity']:.2f}", changes, seconds])
    return markdown(["table", "method", "rows refused", "valid, %", "features changed", "seconds, fit included"], cells)


def against_treecf() -> str:
    """treecf and ReLAX on the same queries."""
    lines = pd.read_csv(TREECF)
    cells = []
    for _, line in lines.iterrows():
        if isinstance(line.get("note"), str):
            cells.append([line["model"], line["method"], line["note"], *[""] * 7])
            continue
        proved = line["proved closest"] if np.isfinite(line["proved closest"]) else line["proved fewest"]
        kind = "closest" if np.isfinite(line["proved closest"]) else "fewest"
        wrong = shown(line["region points wrong"], "{:,.0f}") + " of " + shown(line["region points"], "{:,.0f}")
        cells.append(
            [
                *(line["model"], line["method"], shown(line["valid"], "{:.3f}")),
                *(shown(line["changes"], "{:.2f}"), shown(line["distance"], "{:.2f}")),
                *(shown(line["ms a query"], "{:,.1f}"), shown(line["ms a single query"], "{:,.1f}")),
                f"{kind}: {proved:.0%}" if np.isfinite(proved) else "",
                wrong if np.isfinite(line["region points"]) else "",
                f"{line['wrong certificates refused']:,.0f} of {line['wrong certificates']:,.0f}"
                if np.isfinite(line["wrong certificates"])
                else "",
            ]
        )
    headings = ["model", "method", "valid", "features changed", "L1", "CPU ms a query", "one by one", "proved"]
    return markdown([*headings, "wrong points of regions", "wrong certificates refused"], cells)


def shown(value: float, form: str) -> str:
    """A number as text; nothing where there is none."""
    return form.format(value) if np.isfinite(value) else ""


TABLES: dict[str, Callable[[], str]] = {
    "lasting": lasting,
    "plausible-changes": plausible_changes,
    "plausible-in-short": plausible_in_short,
    "plausible-default": plausible_default,
    "networks": networks,
    "hosts": hosts_table,
    "walk": walked,
    "tiers": tiers,
    "calibration": calibration,
    "large-tables": large_tables,
    "trees": trees,
    "trees-targets": trees_targets,
    "others": others,
    "treecf": against_treecf,
}
