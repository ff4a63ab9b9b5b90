"""Pictures of measurements: each is a function of a tidy frame that returns a matplotlib Figure.

Where methods are points, none hides another: of those that lie on each other the lower ones are larger, and each has
its name beside the panel, with a line that leads to it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.metrics import mean_and_deviation, solved_within, total_rows, validity, validity_curve
from relax_plugin.evaluation.tables import summary
from relax_plugin.pages.drawing import FAINT, INK, as_written, figure_class, shorten_text
from relax_plugin.pages.palette import OTHERS, Style, greyed, highlighted, method_styles, short_names
from relax_plugin.registry import without_option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ANSWERS = 4  # with more classes reached than that, all are taken together
ONE_WAY = 1 / 3  # mean sign from which on changes are called upward or downward


def change_shares(rows: pd.DataFrame, methods: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of features × methods: the share of valid counterfactuals that change it, and the mean sign.

    The sign is NaN for categories. Features that are changed most often come first; methods without a valid
    counterfactual are left out.
    """
    valid = rows[rows["valid"].astype(bool)]
    kept = [method for method in methods if (valid["method"] == method).any()]
    found = [
        (method, str(name), sign(old, new))
        for method, changes in zip(valid["method"], valid["changes"], strict=True)
        for name, old, new in json.loads(changes)
    ]
    cells = pd.DataFrame(found, columns=["method", "feature", "sign"]).groupby(["feature", "method"])["sign"]
    shares = cells.size().unstack(fill_value=0).reindex(columns=kept, fill_value=0)
    shares = shares / valid["method"].value_counts().reindex(kept)
    shares = shares.loc[shares.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    return shares, cells.mean().unstack().reindex(index=shares.index, columns=kept)


def by_answer(task: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The valid rows of a task by the answer reached; of a regressor, by whether it is higher or lower."""
    valid = task[task["valid"].astype(bool)]
    answers = valid["after"].astype(str)
    before, after = (pd.to_numeric(valid[name], errors="coerce") for name in ("before", "after"))
    if answers.nunique() > MOST_ANSWERS and not (before - after).isna().any():
        answers = (after > before).map({True: "higher", False: "lower"})
    if not 1 <= answers.nunique() <= MOST_ANSWERS:
        return [("", valid)]
    return [(f" → {answer}", part) for answer, part in valid.groupby(answers)]


def sign(old: Any, new: Any) -> float:
    """Whether a number grew or shrank; NaN for categories, truth values among them."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
    return float(np.sign(new - old)) if numbers else float("nan")


def arrow(mean_sign: float) -> str:
    """▲ mostly upwards, ▼ mostly downwards, ↕ both; ◆ a category."""
    if np.isnan(mean_sign):
        return "◆"
    return "▲" if mean_sign > ONE_WAY else "▼" if mean_sign < -ONE_WAY else "↕"


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


CAPTION = (
    "Features changed against plausibility (the share of counterfactuals that a LocalOutlierFactor of the training "
    "rows calls no outliers; the dashed line is that of real test rows) and, where it was measured (bench --metrics "
    "all), against the share of models fitted again for which they are still valid; then these two. Means over each "
    "method's own valid counterfactuals. Further up is better, and further left where features are counted."
)
SPARSE, PLAUSIBLE, LASTING = "features changed", "no outliers", "still valid, models fitted again"


def trade_offs(rows: pd.DataFrame, methods: Sequence[str] | None = None, *, wanted: Sequence[str] = ()) -> "Figure":
    """Methods as points between sparsity, plausibility and robustness, a panel for each two that were measured.

    `methods` and `wanted` are as for `scatter.quality`.
    """
    table = summary(rows).droplevel("task")
    table = table.assign(**{SPARSE: table["L0"], PLAUSIBLE: 1.0 - table["LOF outliers"], LASTING: table["lasting"]})
    real = {PLAUSIBLE: 1.0 - table["real LOF outliers"].mean(), LASTING: table["real lasting"].mean()}
    pairs = [(SPARSE, PLAUSIBLE), (SPARSE, LASTING), (PLAUSIBLE, LASTING)]
    shown = [pair for pair in pairs if table[list(pair)].notna().all(axis=1).any()] or pairs[:1]
    order = list(dict.fromkeys(rows["method"])) if methods is None else list(methods)
    styles = greyed(method_styles(order), highlighted(order, wanted))
    figure = new_figure((PANEL[0] * len(shown), PANEL[1]))
    for axes, (x, y) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        part = table.dropna(subset=[x, y])
        points: Any = part[[x, y]].to_numpy(dtype=np.float64)
        lowest = float(points[:, 1].min()) if len(points) else 0.0
        label_axes(axes, x, y, low=min(lowest - 0.05, 0.9))
        if x != SPARSE:
            axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
        if np.isfinite(real[y]):
            axes.axhline(real[y], color=FAINT, linestyle="--", linewidth=1.2, zorder=1)
        names = [str(name) for name in part.index]
        for name, point, area in zip(names, points, areas(inches_of(axes, points)), strict=True):
            axes.scatter(*point, area, label=name, **look_of(styles[name], area))
        axes.margins(x=0.12)
        label_points(axes, names, points, styles, [""] * len(names))
        axes.set_title(f"{x} and {y}", fontsize=10, color=INK)
    return as_written(figure)
