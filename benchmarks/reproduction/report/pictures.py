"""The pictures of the report: each a function of a tidy frame that returns a matplotlib Figure."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.reproduction.claims.intervals import by_seed
from benchmarks.reproduction.plan import ALONE, LAMBDAS, LOOK_INSIDE, MOST_CHANGES, PEERS, VARIANTS, base_of
from benchmarks.reproduction.results import at_cap
from relax_plugin.pages.drawing import FAINT, INK, figure_class
from relax_plugin.pages.palette import OTHERS, STYLES, Style, base_name, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.9, 3.1)  # inches; three side by side fit a page
SMALL = (2.95, 2.3)  # of a small multiple, four side by side
OURS = "relax-global"  # in the panels of all groups, to be held against
CAPS = tuple(range(1, MOST_CHANGES + 1))
GROUPS = {
    "ReLAX": ("relax-local", f"{OURS}{ALONE}"),
    "other searches": ("greedy", "move-table", "surrogate-search"),
    "other black-box methods": ("nearest-ct", "lore", "dice-random", "dice-genetic", "dice-kdtree"),
    "methods that look inside": tuple(name for name in PEERS if name in LOOK_INSIDE),
}
"""The sixteen methods of Figure 3, a column of panels each: all at once are more than colours can tell apart."""


def trade_off(sparsity: pd.DataFrame) -> "Figure":
    """Figure 3: actual sparsity against validity, a point for each cap; panels by pair and by group of methods."""

    def points(of_method: pd.DataFrame) -> tuple[list[float], list[float]]:
        runs = [of_method[of_method["cap"] == cap] for cap in CAPS]
        both = [(by_seed(lines, "L0"), by_seed(lines, "validity")) for lines in runs if len(lines)]
        both = [(changed, valid) for changed, valid in both if changed.count]
        return [changed.mean for changed, _ in both], [valid.mean for _, valid in both]

    return _multiples(sparsity, points, "features changed (actual)")


def validity_at_cap(sparsity: pd.DataFrame) -> "Figure":
    """Validity when at most k features may change, mean over seeds; panels by pair and by group of methods."""

    def points(of_method: pd.DataFrame) -> tuple[list[float], list[float]]:
        return list(CAPS), [by_seed(at_cap(of_method, cap), f"validity@{cap}").mean for cap in CAPS]

    return _multiples(sparsity, points, "cap: features that may change")


def _multiples(
    frame: pd.DataFrame, points: "Callable[[pd.DataFrame], tuple[list[float], list[float]]]", across: str
) -> "Figure":
    """A line of panels for each pair and a column for each group: its methods in colour, all others thin and grey."""
    tasks = list(dict.fromkeys(frame["task"]))
    figure = _figure((SMALL[0] * len(GROUPS), SMALL[1] * len(tasks) + 1.2))
    grid = figure.subplots(len(tasks), len(GROUPS), sharex=True, sharey=True, squeeze=False)
    handles: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for line, task in zip(grid, tasks, strict=True):
        drawn = {name: points(mine) for name, mine in _measured(frame[frame["task"] == task])}
        for axes, (group, members) in zip(line, GROUPS.items(), strict=True):
            for name, (x, y) in drawn.items():
                if name == OURS or name in members:
                    (handles[group][name],) = _line(axes, x, y, name)
                elif x:
                    axes.plot(x, y, color=OTHERS, linewidth=0.8, alpha=0.45, zorder=1)
            _finish(axes, across, "validity")
            axes.set_xlim(0.8, MOST_CHANGES + 0.2)
            axes.set_xticks(CAPS)
            axes.set_title(task, fontsize=9, color=INK)
            if group != next(iter(GROUPS)):
                axes.set_ylabel("")
    for axes, (group, shown) in zip(grid[0], handles.items(), strict=True):
        look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False, "title_fontsize": 9}
        where: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.12), "borderaxespad": 0.0}
        order = [name for name in (OURS, *GROUPS[group]) if name in shown]
        key = axes.legend([shown[name] for name in order], order, title=group, alignment="left", **where, **look)
        key.get_title().set_color(INK)
    return figure


def lambda_effect(table: pd.DataFrame) -> "Figure":
    """Figure 4: λ against sparsity (left) and validity (right)."""
    figure = _figure((2 * PANEL[0], PANEL[1]))
    for axes, column, name in zip(
        figure.subplots(1, 2), ("L0", "validity"), ("features changed", "validity"), strict=True
    ):
        runs = [table[table["setting"].astype(float) == weight] for weight in LAMBDAS]
        points = [(weight, by_seed(run, column), len(run)) for weight, run in zip(LAMBDAS, runs, strict=True)]
        points = [point for point in points if point[1].count == point[2]]  # a seed that solves nothing has no sparsity
        spread = np.nan_to_num([value.deviation for _, value, _ in points])
        x, y = [weight for weight, _, _ in points], [value.mean for _, value, _ in points]
        _band(axes, x, y, spread, "ReLAX-Global", STYLES[OURS])
        axes.set_xscale("log")
        axes.set_xlim(LAMBDAS[0] / 2, LAMBDAS[-1] * 2)
        _finish(axes, "λ", name, share=column == "validity")
        axes.set_title(f"λ and {name}: ReLAX-Global on Sonar", fontsize=10, color=INK)
    figure.axes[0].set_ylim(bottom=0.0)
    return figure


def pretraining_effect(table: pd.DataFrame) -> "Figure":
    """Validity of Local against the seconds of generation, with Global's weights and from scratch."""
    figure = _figure((PANEL[0] * 1.3, PANEL[1] * 1.1))
    axes = figure.subplots()
    for method, style in series_styles(("pretrained", "from scratch")).items():
        mine = table[table["method"] == method]
        steps = sorted(set(mine["setting"].astype(int)))
        parts = [mine[mine["setting"].astype(int) == count] for count in steps]
        x = [by_seed(part, "explain_seconds").mean for part in parts]
        values = [by_seed(part, "validity") for part in parts]
        spread = np.nan_to_num([value.deviation for value in values])
        _band(axes, x, [value.mean for value in values], spread, method, style)
        for count, across, value in zip(steps, x, values, strict=True):
            axes.annotate(str(count), (across, value.mean), (4, -11), textcoords="offset points", fontsize=7, color=INK)
    _finish(axes, "seconds of generation (numbers: steps of fine-tuning)", "validity", low=0.5)
    axes.set_title("Local on Sonar, with and without pretraining", fontsize=10, color=INK)
    axes.legend(fontsize=8, labelcolor=INK, frameon=False, loc="lower right")
    return figure


def ablation_effect(table: pd.DataFrame) -> "Figure":
    """Validity of each variant with its 95 % interval; the bands are those of what it is held against."""
    tasks = list(dict.fromkeys(table["task"]))
    names = [name for name in VARIANTS if (table["setting"] == name).any()]
    figure = _figure((1.2 + 3.6 * len(tasks), 1.0 + 0.3 * len(names)))
    panels: Sequence[Axes] = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for axes, task in zip(panels, tasks, strict=True):
        part = table[table["task"] == task]
        values = [by_seed(part[part["setting"] == name], "validity") for name in names]
        for height, (name, value) in enumerate(zip(names, values, strict=True)):
            base = by_seed(part[part["setting"] == base_of(name)], "validity")
            if np.isfinite(base.low):
                band = [max(base.low, 0.0), min(base.high, 1.0)]
                axes.fill_between(band, height - 0.5, height + 0.5, color=FAINT, alpha=0.6, linewidth=0)
            if np.isfinite(value.low):
                axes.plot(
                    [max(value.low, 0.0), min(value.high, 1.0)], [height] * 2, color=STYLES[OURS].colour, linewidth=2
                )
            axes.plot(value.mean, height, "o", color=STYLES[OURS].colour, markersize=5)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        _finish(axes, "validity of the policy alone", "", vertical=False)
        axes.set_title(f"What each part is worth: {task}", fontsize=10, color=INK)
    return figure


def unit_effect(regression: pd.DataFrame) -> "Figure":
    """Validity and features changed against δ, in each of the units it may be measured in."""
    figure = _figure((2 * PANEL[0], PANEL[1]))
    alone = regression[regression["method"] == f"relax-global{ALONE}"]
    searched = regression[regression["method"] == "relax-global"]
    full = alone["task"].nunique() == searched["task"].nunique()  # a quick run has the agent alone in one unit only
    global_ = alone if full else searched
    units = list(dict.fromkeys(task.split(" ")[2] for task in global_["task"]))
    for axes, column in zip(figure.subplots(1, 2), ("validity", "L0"), strict=True):
        for unit, style in series_styles(units).items():
            mine = global_[global_["task"].str.endswith(unit)]
            shifts = sorted({float(task.split(" ")[1]) for task in mine["task"]})
            values = [by_seed(mine[mine["task"] == f"boston/mlp {shift} {unit}"], column) for shift in shifts]
            spread = np.nan_to_num([value.deviation for value in values])
            _band(axes, shifts, [value.mean for value in values], spread, unit, style)
        name = "validity" if column == "validity" else "features changed"
        _finish(axes, "δ", name, share=column == "validity", low=0.5)
        of = "agent alone" if full else "default search"
        axes.set_title(f"Boston: δ and {name} ({of})", fontsize=10, color=INK)
    figure.axes[0].legend(
        fontsize=8, labelcolor=INK, frameon=False, loc="lower left", title="unit of δ", title_fontsize=8
    )
    return figure


def _measured(part: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The methods that ran, ReLAX last so that it lies on top."""
    ran = part[(part["state"] != "skipped") & part["cap"].notna()]
    order = sorted(dict.fromkeys(ran["method"]), key=lambda name: (name.startswith("relax"), name == OURS))
    return [(name, ran[ran["method"] == name]) for name in order]


def _line(axes: "Axes", x: Any, y: Any, method: str) -> list[Any]:
    """The points of a method joined by a line; the agent alone is hollow and dotted beside the default search.

    ReLAX-Global lies broad and pale under the others: what ties with it is still seen.
    """
    style, alone = STYLES[base_name(method)], method.endswith(ALONE)
    look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "markersize": 4.5}
    look |= {"linestyle": ":" if alone else style.line, "linewidth": 5.0 if method == OURS else 1.5}
    look |= {"alpha": 0.5} if method == OURS else {}
    look |= {"markerfacecolor": (style.colour, 0.15)} if alone else {}
    return list(axes.plot(x, y, label=method, zorder=2 if method == OURS else 3, **look))


def _band(axes: "Axes", x: Any, y: Any, spread: Any, label: str, style: Style) -> None:
    """Points joined by a line, with a band of one standard deviation."""
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "marker": style.marker}
    axes.plot(x, y, label=label, linewidth=1.6, markersize=4.5, **look)
    low, high = np.asarray(y) - spread, np.asarray(y) + spread
    axes.fill_between(x, low, high, color=style.colour, alpha=0.12, linewidth=0)


def _finish(axes: "Axes", x: str, y: str, *, share: bool = True, low: float = 0.0, vertical: bool = True) -> None:
    """Names of the axes, a faint grid, and the axis of a share from `low` to 1."""
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    if share and vertical:
        bottom, _ = axes.get_ylim()
        axes.set_ylim(max(-0.03, min(bottom, low)), 1.04)
    elif share:
        axes.set_xlim(-0.03, 1.03)
    axes.tick_params(which="both", colors=INK, labelsize=8)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(FAINT)


def _figure(size: tuple[float, float]) -> "Figure":
    return figure_class()(figsize=size, layout="constrained")
