"""Pictures of measurements: each is a function of a tidy frame that returns a matplotlib Figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.metrics import mean_and_deviation, solved_within, total_rows, validity_curve
from relax_plugin.pages.changes import arrow, by_answer, change_shares
from relax_plugin.pages.drawing import FAINT, INK, as_written
from relax_plugin.pages.palette import OTHERS, Style, method_styles
from relax_plugin.pages.panels import label_axes, measured_units, new_figure, numbers, panels, rows_axis, solved
from relax_plugin.pages.scatter import pareto, quality

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BROAD, THIN = 4.5, 1.5  # the last line lies broad under the others, which may coincide with it
COLUMNS = 5
DOWN, EITHER, UP = "#D55E00", "#8C8C8C", "#0072B2"  # of changes in the heat map
MOST_BUDGETS = 80  # steps of an anytime curve
MOST_FEATURES = 15  # lines of a panel of the heat map


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
    figure = new_figure((3.1 * min(COLUMNS, len(tasks)), 2.7 * lines + 0.7))
    grid = figure.subplots(lines, min(COLUMNS, len(tasks)), sharex=True, sharey=True, squeeze=False)
    instances = np.geomspace(1, 10_000, 60)
    for axes, task in zip(grid.flat, tasks, strict=False):
        for method, style in method_styles(methods).items():
            row = table.loc[(task, method)]
            total = total_rows(row["training rows"], row["rows"], instances)
            width = BROAD if method == methods[-1] and len(methods) > 1 else THIN
            look: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": width}
            axes.plot(instances, total, zorder=3 - width, label=method, **look)
        axes.set_title(task, fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
    for position in range(len(tasks), grid.size):
        grid.flat[position].set_visible(False)
        grid.flat[position - grid.shape[1]].tick_params(labelbottom=True)
    figure.supxlabel("instances explained")
    figure.supylabel("model rows, training included")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    return figure


# Figures of tidy rows. Each takes `methods`, their order (that of the rows if absent), `wanted`, those in colour where
# there are more than eight, and `legend`, to leave it out where a page has one for all figures. A unit that crashed or
# timed out has solved nothing; one that was skipped was not measured.


def tradeoff(
    rows: pd.DataFrame, methods: Sequence[str] | None = None, *, wanted: Sequence[str] = (), legend: bool = True
) -> "Figure":
    """Share of queries solved with at most k changed features, mean ± standard deviation over seeds, a panel a task."""

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        largest = task["sparsity"].max()
        most = max(1, int(largest)) if np.isfinite(largest) else 1
        for method, units in measured_units(task):
            curves = [validity_curve(solved(unit), numbers(unit, "sparsity"), most) for unit in units]
            band(axes, np.arange(1, most + 1), curves, method, styles[method])
        axes.locator_params("x", integer=True)
        label_axes(axes, "k: features changed at most", "queries solved")

    return panels(rows, methods, draw, "Solved with at most k changes", wanted=wanted, legend=legend)


def anytime(
    rows: pd.DataFrame, methods: Sequence[str] | None = None, *, wanted: Sequence[str] = (), legend: bool = True
) -> "Figure":
    """Share of queries solved against the model rows spent on each, mean ± standard deviation over seeds."""

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        spent = np.unique(np.maximum(numbers(task[task["state"] == "ok"], "rows"), 1.0))
        budgets = spent if len(spent) else np.ones(1)
        if len(spent) > MOST_BUDGETS:
            budgets = np.unique(np.ceil(np.geomspace(spent[0], spent[-1], MOST_BUDGETS)))
        for method, units in measured_units(task):
            curves = [solved_within(solved(unit), numbers(unit, "rows"), budgets) for unit in units]
            band(axes, budgets, curves, method, styles[method], steps=True)
        rows_axis(axes)
        label_axes(axes, "model rows spent on the query", "queries solved")

    return panels(rows, methods, draw, "Solved within a budget of model rows", wanted=wanted, legend=legend)


def changed_features(rows: pd.DataFrame, methods: Sequence[str] | None = None) -> "Figure":
    """How often each method changes each feature, and whether upwards (▲, blue) or downwards (▼, orange).

    A panel for each answer reached, since what leads to one answer is often the reverse of what leads to another.
    """
    order = list(dict.fromkeys(rows["method"])) if methods is None else list(methods)
    parts = [
        (f"Changed features: {task}{answer}", *change_shares(part, order))
        for task, of_task in rows.groupby("task", sort=False)
        for answer, part in by_answer(of_task)
    ]
    lines = [min(max(len(shares), 1), MOST_FEATURES) for _, shares, _ in parts]
    across = max(4, *(len(shares.columns) for _, shares, _ in parts))
    names = 0.04 * max((len(method) for method in order), default=0)  # inches that slanted names rise
    figure = new_figure((2.2 + 0.62 * across, sum(lines) * 0.25 + (0.6 + names) * len(parts)))
    for axes, (title, shares, signs) in zip(
        figure.subplots(len(parts), squeeze=False, height_ratios=lines)[:, 0], parts, strict=True
    ):
        _heat(axes, shares.head(MOST_FEATURES), signs.head(MOST_FEATURES))
        among = f" ({MOST_FEATURES} of {len(shares)})" if len(shares) > MOST_FEATURES else ""
        axes.set_title(f"{title}{among}", fontsize=10, color=INK)
    return as_written(figure)


def band(
    axes: "Axes", x: Any, curves: list[Any], method: str, style: Style, *, steps: bool = False, share: bool = True
) -> None:
    """The mean of the curves of all seeds, and a band of one standard deviation where all of several have a number."""
    mean, spread = np.transpose([mean_and_deviation(values) for values in np.transpose(curves)])
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 1.8}
    look |= {"drawstyle": "steps-post"} if steps else {}
    look |= {"marker": style.marker, "markersize": 4.5, "markevery": max(1, len(x) // 8), "markerfacecolor": style.face}
    look |= {"zorder": 2.1 if style.colour == OTHERS else 2.5}
    axes.plot(x, mean, label=method, **look)
    known = np.isfinite(spread)
    if spread[known].any():
        low, high = np.clip([mean - spread, mean + spread], *((0.0, 1.0) if share else (-np.inf, np.inf)))
        axes.fill_between(
            x, low, high, where=known, color=style.colour, alpha=0.12, linewidth=0, step="post" if steps else None
        )


def _heat(axes: "Axes", shares: pd.DataFrame, signs: pd.DataFrame) -> None:
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


__all__ = ["DOWN", "EITHER", "UP", "Style", "amortisation", "anytime", "band", "changed_features"]
__all__ += ["label_axes", "method_styles", "pareto", "quality", "tradeoff"]
