"""Pictures of measurements: each is a function of a tidy frame that returns a matplotlib Figure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.metrics import mean_and_deviation, solved_within, total_rows, validity, validity_curve
from relax_plugin.evaluation.tables import summary
from relax_plugin.pages.changes import arrow, by_answer, change_shares
from relax_plugin.pages.drawing import FAINT, INK, MARKERS, OKABE_ITO, as_written, figure_class
from relax_plugin.registry import without_option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours can be told apart by colour-blind readers; line styles do it in print.
COLOURS = ("#000000", "#E69F00", "#009E73", "#D55E00", "#56B4E9")
STYLES = (":", "-.", (0, (6, 2)), "--", "-")
WIDTHS = (1.5, 1.5, 1.5, 1.5, 4.5)  # the last line lies broad under the others, which may coincide with it
COLUMNS = 5

METHOD_COLOURS, METHOD_MARKERS = OKABE_ITO, MARKERS  # all eight of them for methods; markers and dashes for print
METHOD_DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2), (12, 3))
DOWN, EITHER, UP = "#D55E00", "#8C8C8C", "#0072B2"  # of changes in the heat map
PANEL = (4.6, 3.3)  # inches: small enough to be read on a phone
ACROSS = 3  # panels side by side
MOST_BUDGETS = 80  # steps of an anytime curve
MOST_FEATURES = 15  # lines of a panel of the heat map


@dataclass(frozen=True)
class Style:
    """How a method is drawn, the same in all figures."""

    colour: str
    marker: str
    dashes: tuple[int, ...]

    @property
    def line(self) -> Any:
        return (0, self.dashes) if self.dashes else "-"


def method_styles(methods: Sequence[str]) -> dict[str, Style]:
    """A style for each method by its position; no two of the first 280 are the same."""
    return {
        method: Style(
            METHOD_COLOURS[i % len(METHOD_COLOURS)],
            METHOD_MARKERS[i % len(METHOD_MARKERS)],
            METHOD_DASHES[i % len(METHOD_DASHES)],
        )
        for i, method in enumerate(methods)
    }


def amortisation(table: pd.DataFrame, methods: list[str]) -> "Figure":
    """Total model rows (training and generation) against the number of instances explained, one panel a task.

    Parameters
    ----------
    table : DataFrame
        Means over seeds, indexed by (task, method), with columns "training rows" and "rows".
    methods : list of str
        Those to be drawn, in the order of the legend.
    """
    tasks = list(dict.fromkeys(table.index.get_level_values("task")))
    lines = -(-len(tasks) // COLUMNS)
    figure = _figure((3.1 * min(COLUMNS, len(tasks)), 2.7 * lines + 0.7))
    panels = figure.subplots(lines, min(COLUMNS, len(tasks)), sharex=True, sharey=True, squeeze=False)
    instances = np.geomspace(1, 10_000, 60)
    for axes, task in zip(panels.flat, tasks, strict=False):
        for method, colour, style, width in zip(methods, cycle(COLOURS), cycle(STYLES), cycle(WIDTHS), strict=False):
            row = table.loc[(task, method)]
            total = total_rows(row["training rows"], row["rows"], instances)
            axes.plot(instances, total, color=colour, linestyle=style, linewidth=width, zorder=3 - width, label=method)
        axes.set_title(task, fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
    for position in range(len(tasks), panels.size):
        panels.flat[position].set_visible(False)
        panels.flat[position - panels.shape[1]].tick_params(labelbottom=True)
    figure.supxlabel("instances explained")
    figure.supylabel("model rows, training included")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    return figure


# Figures of tidy rows. Each takes `methods`, the order that gives a method its style (that of the rows if absent), and
# `legend`, to leave it out where a page has one for all figures. A unit that crashed or timed out has solved nothing;
# one that was skipped was not measured.


def tradeoff(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, legend: bool = True) -> "Figure":
    """Share of queries solved with at most k changed features, mean ± standard deviation over seeds, a panel a task."""

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        largest = task["sparsity"].max()
        most = max(1, int(largest)) if np.isfinite(largest) else 1
        for method, units in measured_units(task):
            curves = [validity_curve(_solved(unit), _numbers(unit, "sparsity"), most) for unit in units]
            band(axes, np.arange(1, most + 1), curves, method, styles[method])
        axes.locator_params("x", integer=True)
        label_axes(axes, "k: features changed at most", "queries solved")

    return _panels(rows, methods, draw, "Solved with at most k changes", legend)


def anytime(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, legend: bool = True) -> "Figure":
    """Share of queries solved against the model rows spent on each, mean ± standard deviation over seeds."""

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        spent = np.unique(np.maximum(_numbers(task[task["state"] == "ok"], "rows"), 1.0))
        budgets = spent if len(spent) else np.ones(1)
        if len(spent) > MOST_BUDGETS:
            budgets = np.unique(np.ceil(np.geomspace(spent[0], spent[-1], MOST_BUDGETS)))
        for method, units in measured_units(task):
            curves = [solved_within(_solved(unit), _numbers(unit, "rows"), budgets) for unit in units]
            band(axes, budgets, curves, method, styles[method], steps=True)
        _rows_axis(axes)
        label_axes(axes, "model rows spent on the query", "queries solved")

    return _panels(rows, methods, draw, "Solved within a budget of model rows", legend)


def quality(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, legend: bool = True) -> "Figure":
    """Features changed (on the queries that all methods solved) against the model rows a query costs.

    One method at several budgets (`rows_per_instance`) is joined by a line: what more rows buy.
    """

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        table = summary(task).droplevel("task").dropna(subset=["rows", "L0 common"])
        for _, budgets in table.sort_values("rows").groupby(partial(without_option, option="rows_per_instance")):
            axes.plot(budgets["rows"], budgets["L0 common"], color=FAINT, linewidth=1.5, zorder=1)
        for method, line in table.iterrows():
            style = styles[str(method)]
            look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "edgecolors": INK, "linewidths": 0.6}
            axes.scatter(line["rows"], line["L0 common"], 60, label=method, alpha=0.85, zorder=3, **look)
        _rows_axis(axes)
        label_axes(axes, "model rows a query", "features changed, common queries", share=False)

    return _panels(rows, methods, draw, "What model rows buy", legend)


def pareto(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, legend: bool = True) -> "Figure":
    """Validity against the distance of the valid counterfactuals; the larger a point, the longer a query takes."""

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        points = []
        for method, units in measured_units(task):
            solved, solved_spread = mean_and_deviation([validity(_solved(unit)) for unit in units])
            some = [unit for unit in units if unit["valid"].any()]
            if not some:
                continue  # nothing solved: there is no distance to show
            distance, spread = mean_and_deviation([unit["proximity"].mean() for unit in some])
            seconds = np.mean([unit["explain_seconds"].iloc[0] / len(unit) for unit in some])
            style = styles[method]
            points.append((distance, solved))
            bars = np.nan_to_num([solved_spread, spread])  # none where the deviation is not known
            axes.errorbar(distance, solved, *bars, color=style.colour, alpha=0.6, linewidth=1.2)
            look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "edgecolors": INK, "linewidths": 0.6}
            axes.scatter(distance, solved, _area(1000.0 * seconds), label=method, alpha=0.85, zorder=3, **look)
        front = _front(points)
        axes.plot(*zip(*front, strict=True), color=INK, linestyle=":", linewidth=1, zorder=1) if front else None
        lowest = min((solved for _, solved in points), default=0.0)
        axes.margins(x=0.15)
        label_axes(axes, "distance of the valid ones, standardised L1", "queries solved", low=min(lowest - 0.05, 0.9))

    figure = _panels(rows, methods, draw, "Solved, and how far away", legend)
    figure.set_figheight(figure.get_figheight() + 0.4)
    sizes = [figure.axes[0].scatter([], [], _area(ms), color=EITHER, label=f"{ms:g} ms") for ms in (0.1, 10, 1000)]
    look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False, "title_fontsize": 8}
    key = figure.legend(handles=sizes, title="time of a query", loc="outside lower center", ncols=3, **look)
    key.get_title().set_color(INK)
    return figure


def changed_features(rows: pd.DataFrame, methods: Sequence[str] | None = None) -> "Figure":
    """How often each method changes each feature, and whether upwards (▲, blue) or downwards (▼, orange).

    A panel for each answer reached, since what leads to one answer is often the reverse of what leads to another.
    """
    order = list(dict.fromkeys(rows["method"])) if methods is None else list(methods)
    panels = [
        (f"Changed features: {task}{answer}", *change_shares(part, order))
        for task, of_task in rows.groupby("task", sort=False)
        for answer, part in by_answer(of_task)
    ]
    lines = [min(max(len(shares), 1), MOST_FEATURES) for _, shares, _ in panels]
    across = max(4, *(len(shares.columns) for _, shares, _ in panels))
    names = 0.04 * max((len(method) for method in order), default=0)  # inches that slanted names rise
    figure = _figure((2.2 + 0.62 * across, sum(lines) * 0.25 + (0.6 + names) * len(panels)))
    for axes, (title, shares, signs) in zip(
        figure.subplots(len(panels), squeeze=False, height_ratios=lines)[:, 0], panels, strict=True
    ):
        _heat(axes, shares.head(MOST_FEATURES), signs.head(MOST_FEATURES))
        among = f" ({MOST_FEATURES} of {len(shares)})" if len(shares) > MOST_FEATURES else ""
        axes.set_title(f"{title}{among}", fontsize=10, color=INK)
    return as_written(figure)


def measured_units(task: pd.DataFrame) -> Iterator[tuple[str, list[pd.DataFrame]]]:
    """Each method of a task with the rows of its units, one for each seed; skipped ones are no measurement."""
    measured = task[task["state"] != "skipped"]
    for method, of_method in measured.groupby("method", sort=False):
        yield str(method), [unit for _, unit in of_method.groupby("seed")]


def _panels(
    rows: pd.DataFrame,
    methods: Sequence[str] | None,
    draw: "Callable[[Axes, pd.DataFrame, dict[str, Style]], None]",
    title: str,
    legend: bool,
) -> "Figure":
    """A panel for each task, side by side, with one legend for all."""
    tasks = list(dict.fromkeys(rows["task"]))
    styles = method_styles(list(dict.fromkeys(rows["method"])) if methods is None else methods)
    across, down = min(ACROSS, len(tasks)), -(-len(tasks) // ACROSS)
    figure = _figure((PANEL[0] * across, PANEL[1] * down))
    panels = figure.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, task in zip(panels.flat, tasks, strict=False):
        draw(axes, rows[rows["task"] == task], styles)
        axes.set_title(f"{title}\n{task}", fontsize=10, color=INK)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for position in range(len(tasks), panels.size):
        panels.flat[position].set_visible(False)
    if legend and handles:
        shown = [handles[method] for method in styles if method in handles]
        columns = max(1, int(PANEL[0] * across / (0.8 + 0.07 * max(map(len, handles)))))  # as many as have room
        look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False}
        figure.legend(handles=shown, loc="outside upper center", ncols=min(columns, len(shown)), **look)
        figure.set_figheight(PANEL[1] * down + 0.2 * -(-len(shown) // columns))
    return as_written(figure)


def band(
    axes: "Axes", x: Any, curves: list[Any], method: str, style: Style, *, steps: bool = False, share: bool = True
) -> None:
    """The mean of the curves of all seeds, and a band of one standard deviation where all of several have a number."""
    mean, spread = np.transpose([mean_and_deviation(values) for values in np.transpose(curves)])
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 1.8}
    look |= {"drawstyle": "steps-post"} if steps else {}
    look |= {"marker": style.marker, "markersize": 4.5, "markevery": max(1, len(x) // 8)}
    axes.plot(x, mean, label=method, **look)
    known = np.isfinite(spread)
    if spread[known].any():
        low, high = np.clip([mean - spread, mean + spread], *((0.0, 1.0) if share else (-np.inf, np.inf)))
        axes.fill_between(
            x, low, high, where=known, color=style.colour, alpha=0.12, linewidth=0, step="post" if steps else None
        )


def _rows_axis(axes: "Axes") -> None:
    """Model rows on a logarithmic axis, written out."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log", subs=())
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda spent, _: f"{spent:,.0f}")


def label_axes(axes: "Axes", x: str, y: str, low: float = 0.0, *, share: bool = True) -> None:
    """Names of the axes, a faint grid, and the vertical one in per cent if it is a share."""
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    if share:
        low = max(low, -0.02)
        axes.set_ylim(low, 1.0 + 0.06 * (1.0 - low))
        axes.locator_params("y", nbins=5)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    axes.tick_params(which="both", colors=INK, labelsize=8)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(FAINT)


def _heat(axes: "Axes", shares: pd.DataFrame, signs: pd.DataFrame) -> None:
    """Cells as strong as the change is frequent, in the colour of its direction, with both written into them."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    colours = LinearSegmentedColormap.from_list("direction", [DOWN, EITHER, UP])
    for line, feature in enumerate(shares.index):
        for column, method in enumerate(shares.columns):
            share, sign = shares.loc[feature, method], signs.loc[feature, method]
            if share == 0:
                continue
            colour = EITHER if np.isnan(sign) else colours((sign + 1) / 2)
            # Faint at least, so that a rare change is seen; never so strong that the text on it is not.
            axes.add_patch(Rectangle((column - 0.5, line - 0.5), 1, 1, color=colour, alpha=0.06 + 0.6 * share, lw=0))
            text = f"{100 * share:.0f}%" if share >= 0.01 else "<1%"
            axes.text(column, line, f"{arrow(sign)} {text}", ha="center", va="center", fontsize=8, color=INK)
    axes.set_xlim(-0.5, len(shares.columns) - 0.5)
    axes.set_ylim(max(len(shares), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(shares)), list(shares.index))
    axes.set_xticks(range(len(shares.columns)), list(shares.columns), rotation=30, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.spines[:].set_color(FAINT)


def _solved(rows: pd.DataFrame) -> Any:
    return rows["valid"].to_numpy(dtype=bool)


def _numbers(rows: pd.DataFrame, name: str) -> Any:
    return rows[name].to_numpy(dtype=np.float64)


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats in both: nearer, and more solved."""
    front: list[tuple[float, float]] = []
    for distance, solved in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or solved > front[-1][1]:
            front.append((distance, solved))
    return front


def _area(milliseconds: float) -> float:
    """Square points of a marker: ten times the time adds the same area."""
    return float(30.0 + 40.0 * np.clip(np.log10(max(milliseconds, 1e-9)) + 1.0, 0.0, 5.0))


def _figure(size: tuple[float, float]) -> "Figure":
    return figure_class()(figsize=size, layout="constrained")
