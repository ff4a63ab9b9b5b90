"""What the pictures of tidy rows are put together from: a panel for each task, named axes, units of a method."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.pages.drawing import FAINT, INK, as_written, figure_class
from relax_plugin.pages.palette import Style, greyed, highlighted, method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.6, 3.3)  # inches: small enough to be read on a phone
ACROSS = 3  # panels side by side
MANY_DECADES = 100.0  # from which ratio of the ends on an axis names powers of ten only


def panels(
    rows: pd.DataFrame,
    methods: Sequence[str] | None,
    draw: "Callable[[Axes, pd.DataFrame, dict[str, Style]], None]",
    title: str,
    *,
    wanted: Sequence[str] = (),
    legend: bool = True,
) -> "Figure":
    """A panel for each task, side by side, with one legend for all.

    Of more than eight methods those of `wanted` have their colours, and the others are grey.
    """
    tasks = list(dict.fromkeys(rows["task"]))
    order = list(dict.fromkeys(rows["method"])) if methods is None else list(methods)
    coloured = highlighted(order, wanted)
    styles = greyed(method_styles(order), coloured)
    across, down = min(ACROSS, len(tasks)), -(-len(tasks) // ACROSS)
    figure = new_figure((PANEL[0] * across, PANEL[1] * down))
    grid = figure.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, task in zip(grid.flat, tasks, strict=False):
        draw(axes, rows[rows["task"] == task], styles)
        axes.set_title(f"{title}\n{task}", fontsize=10, color=INK)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for position in range(len(tasks), grid.size):
        grid.flat[position].set_visible(False)
    if legend and handles:
        shown = [handles[method] for method in styles if method in handles]
        columns = max(1, int(PANEL[0] * across / (0.8 + 0.07 * max(map(len, handles)))))  # as many as have room
        look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False}
        figure.legend(handles=shown, loc="outside upper center", ncols=min(columns, len(shown)), **look)
        figure.set_figheight(PANEL[1] * down + 0.2 * -(-len(shown) // columns))
    return as_written(figure)


def measured_units(task: pd.DataFrame) -> Iterator[tuple[str, list[pd.DataFrame]]]:
    """Each method of a task with the rows of its units, one for each seed; skipped ones are no measurement."""
    measured = task[task["state"] != "skipped"]
    for method, of_method in measured.groupby("method", sort=False):
        yield str(method), [unit for _, unit in of_method.groupby("seed")]


def rows_axis(axes: "Axes") -> None:
    """Model rows on a logarithmic axis, written out; between the powers of ten where there is room."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log", subs=())
    low, high = axes.dataLim.intervalx
    wide = np.isfinite([low, high]).all() and high > MANY_DECADES * max(low, 1.0)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
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


def solved(rows: pd.DataFrame) -> Any:
    """Whether each row is a valid counterfactual."""
    return rows["valid"].to_numpy(dtype=bool)


def numbers(rows: pd.DataFrame, name: str) -> Any:
    """A column as floats."""
    return rows[name].to_numpy(dtype=np.float64)


def new_figure(size: tuple[float, float]) -> "Figure":
    """An empty figure whose parts find their places."""
    return figure_class()(figsize=size, layout="constrained")
