"""Methods as points: what they cost against what they change, and what they solve against how far away.

No point hides another: of those that lie on each other the lower ones are larger, and each has its name beside the
panel, with a line that leads to it.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.metrics import mean_and_deviation, validity
from relax_plugin.evaluation.tables import summary
from relax_plugin.pages.drawing import FAINT, INK, shorten_text
from relax_plugin.pages.palette import OTHERS, Style, short_names
from relax_plugin.pages.panels import PANEL, label_axes, measured_units, panels, rows_axis, solved
from relax_plugin.registry import without_option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AREA = 46.0  # square points of a marker that lies on no other
RING = 2.1  # how much larger than the one on top of it the next lower marker is
NEAR = 0.13  # inches within which two markers lie on each other
LONGEST = 24  # characters of a label
LINE = 0.062  # height of a label, as a share of the panel
SAME = 0.0005  # shares that read the same


def quality(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, wanted: Sequence[str] = ()) -> "Figure":
    """Features changed (on the queries that all methods solved) against the model rows a query costs, a panel a task.

    One method at several budgets (`max_queries`) is joined by a line: what more rows buy. The order of `methods`
    gives those of the same look other dashes; that of the rows if absent. Of more than eight methods those of `wanted`
    are in colour.
    """

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        table = summary(task).droplevel("task").dropna(subset=["rows", "L0 common"])
        for _, budgets in table.sort_values("rows").groupby(partial(without_option, option="max_queries")):
            axes.plot(budgets["rows"], budgets["L0 common"], color=FAINT, linewidth=1.5, zorder=1)
        label_axes(axes, "model rows a query", "features changed, common queries", share=False)
        names, points = [str(name) for name in table.index], table[["rows", "L0 common"]].to_numpy(dtype=np.float64)
        for name, (x, y), area in zip(names, points, areas(inches_of(axes, points)), strict=True):
            axes.scatter(x, y, area, label=name, **look_of(styles[name], area))
        axes.margins(0.08)
        rows_axis(axes)
        shares = table["validity"].to_numpy(dtype=np.float64)
        told = [f", {100 * share:.0f}% solved" if share < shares.max() - SAME else "" for share in shares]
        label_points(axes, names, points, styles, told)

    return panels(rows, methods, draw, "What model rows buy", wanted=wanted, legend=False)


def pareto(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, wanted: Sequence[str] = ()) -> "Figure":
    """Validity against the distance of the valid counterfactuals; the larger a point, the longer a query takes."""

    def draw(axes: "Axes", task: pd.DataFrame, styles: dict[str, Style]) -> None:
        names, points = [], []
        for method, units in measured_units(task):
            share, share_spread = mean_and_deviation([validity(solved(unit)) for unit in units])
            some = [unit for unit in units if unit["valid"].any()]
            if not some:
                continue  # nothing solved: there is no distance to show
            distance, spread = mean_and_deviation([unit["proximity"].mean() for unit in some])
            seconds = np.mean([unit["explain_seconds"].iloc[0] / len(unit) for unit in some])
            names.append(method)
            points.append((distance, share))
            bars = np.nan_to_num([share_spread, spread])  # none where the deviation is not known
            axes.errorbar(distance, share, *bars, color=styles[method].colour, alpha=0.6, linewidth=1.2)
            area = _area_of_time(1000.0 * float(seconds))
            axes.scatter(distance, share, area, label=method, **look_of(styles[method], area))
        front = _front(points)
        axes.plot(*zip(*front, strict=True), color=INK, linestyle=":", linewidth=1, zorder=1) if front else None
        lowest = min((share for _, share in points), default=0.0)
        axes.margins(x=0.15)
        label_axes(axes, "distance of the valid ones, standardised L1", "queries solved", low=min(lowest - 0.05, 0.9))
        label_points(axes, names, np.array(points).reshape(-1, 2), styles, [""] * len(names))

    figure = panels(rows, methods, draw, "Solved, and how far away", wanted=wanted, legend=False)
    figure.set_figheight(figure.get_figheight() + 0.4)
    sizes = [
        figure.axes[0].scatter([], [], _area_of_time(ms), color=OTHERS, label=f"{ms:g} ms") for ms in (0.1, 10, 1000)
    ]
    look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False, "title_fontsize": 8}
    key = figure.legend(handles=sizes, title="time of a query", loc="outside lower center", ncols=3, **look)
    key.get_title().set_color(INK)
    return figure


def look_of(style: Style, area: float) -> dict[str, Any]:
    """Of a marker: the larger, the lower it lies; grey ones below all others."""
    below = 2.0 if style.colour == OTHERS else 3.0
    edge, width = (INK, 0.6) if style.filled else (style.colour, 1.4)
    look = {"color": [style.face], "marker": style.marker, "edgecolors": edge, "linewidths": width}
    return {**look, "zorder": below + 0.9 / (1.0 + area / AREA)}


def inches_of(axes: "Axes", points: Any) -> Any:
    """About where the points lie in the panel: logarithms across, as `rows_axis` has them."""
    place = np.column_stack([np.log(np.maximum(points[:, 0], 1e-9)), points[:, 1]])
    reach = np.ptp(place, axis=0) if len(place) else np.zeros(2)
    return (place - place.min(axis=0, initial=np.inf)) / np.where(reach > 0, reach, 1.0) * np.array(PANEL) * 0.5


def areas(inches: Any) -> list[float]:
    """Areas of markers: of those that lie on each other each is larger than the one before, which lies on it."""
    areas: list[float] = []
    for position, place in enumerate(inches):
        near = np.hypot(*(inches[:position] - place).T) < NEAR
        under = [area for area, lies in zip(areas, near, strict=True) if lies]
        areas.append(max(under) * RING if under else AREA)
    return areas


def label_points(
    axes: "Axes", names: Sequence[str], points: Any, styles: dict[str, Style], told: Sequence[str]
) -> None:
    """The names of the methods in a column right of the panel, in the order of their points, a line from each."""
    if len(names) == 0:
        return
    left, right, (low, high) = *axes.get_xlim(), axes.get_ylim()
    order = np.lexsort((points[:, 0], points[:, 1]))
    wished = ((points[order, 1] - low) / (high - low)) if high > low else np.full(len(order), 0.5)
    short = short_names(list(styles))
    for place, height in zip(order, _apart(wished), strict=True):
        style = styles[names[place]]
        arrow = {"arrowstyle": "-", "color": style.colour, "linewidth": 0.8, "alpha": 0.7, "shrinkA": 1, "shrinkB": 3}
        axes.annotate(
            shorten_text(short[names[place]], LONGEST) + told[place],
            points[place],
            (1.05, height),
            textcoords="axes fraction",
            arrowprops={**arrow, "relpos": (0.0, 0.5)},
            va="center",
            ha="left",
            fontsize=8,
            color=INK,
            annotation_clip=False,
        )
    axes.set_xlim(left, right)


def _apart(wished: Any) -> Any:
    """Heights near those wished, in their order, so that no label covers another."""
    gap = min(LINE, 1.0 / max(len(wished) - 1, 1))
    steps = gap * np.arange(len(wished))
    up = np.maximum.accumulate(np.clip(wished, 0.0, 1.0) - steps) + steps
    most = 1.0 - steps[::-1]  # what leaves room for those above
    return np.minimum(up, most)


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats in both: nearer, and more solved."""
    front: list[tuple[float, float]] = []
    for distance, share in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or share > front[-1][1]:
            front.append((distance, share))
    return front


def _area_of_time(milliseconds: float) -> float:
    """Square points of a marker: ten times the time adds the same area."""
    return float(30.0 + 40.0 * np.clip(np.log10(max(milliseconds, 1e-9)) + 1.0, 0.0, 5.0))
