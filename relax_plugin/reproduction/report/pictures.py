"""The pictures of the report: each a function of a tidy frame that returns a matplotlib Figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.pages.drawing import FAINT, INK, OKABE_ITO, figure_class
from relax_plugin.pages.plots import Style, method_styles
from relax_plugin.reproduction.claims.intervals import by_seed
from relax_plugin.reproduction.claims.rivals import NOT_IN_THE_PAPER
from relax_plugin.reproduction.plan import ALONE, LAMBDAS, MOST_CHANGES, PEERS, VARIANTS, base_of
from relax_plugin.reproduction.results import at_cap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3  # panels side by side
PANEL = (3.9, 3.1)  # inches; three side by side fit a page
STYLES = method_styles([*PEERS, f"relax-global{ALONE}"])
CAPS = tuple(range(1, MOST_CHANGES + 1))


def trade_off(sparsity: pd.DataFrame) -> "Figure":
    """Figure 3: actual sparsity against validity, a point for each cap, a panel for each pair."""

    def draw(axes: "Axes", part: pd.DataFrame) -> None:
        for method, of_method in _measured(part):
            runs = [of_method[of_method["cap"] == cap] for cap in CAPS]
            points = [(by_seed(lines, "L0"), by_seed(lines, "validity")) for lines in runs if len(lines)]
            points = [(changed, valid) for changed, valid in points if changed.count]
            if not points:
                continue
            style = STYLES[method]
            x, y = [changed.mean for changed, _ in points], [valid.mean for _, valid in points]
            spread = np.nan_to_num([valid.deviation for _, valid in points])
            _line(axes, x, y, spread, method, style)
        _finish(axes, "features changed (actual)", "validity")
        axes.set_xlim(0.8, MOST_CHANGES + 0.2)

    return _panels(sparsity, draw, "Sparsity against validity")


def validity_at_cap(sparsity: pd.DataFrame) -> "Figure":
    """Validity when at most k features may change, mean and standard deviation over seeds, a panel for each pair."""

    def draw(axes: "Axes", part: pd.DataFrame) -> None:
        for method, of_method in _measured(part):
            values = [by_seed(at_cap(of_method, cap), f"validity@{cap}") for cap in CAPS]
            spread = np.nan_to_num([value.deviation for value in values])
            _line(axes, CAPS, [value.mean for value in values], spread, method, STYLES[method])
        _finish(axes, "cap: features that may change", "validity")
        axes.set_xticks(CAPS)

    return _panels(sparsity, draw, "Validity at each cap")


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
        _line(axes, x, y, spread, "ReLAX-Global", Style(OKABE_ITO[0], "o", ()))
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
    for number, method in enumerate(("pretrained", "from scratch")):
        mine = table[table["method"] == method]
        steps = sorted(set(mine["setting"].astype(int)))
        parts = [mine[mine["setting"].astype(int) == count] for count in steps]
        x = [by_seed(part, "explain_seconds").mean for part in parts]
        values = [by_seed(part, "validity") for part in parts]
        style = Style(OKABE_ITO[number], "os"[number], (() if number == 0 else (6, 2)))
        spread = np.nan_to_num([value.deviation for value in values])
        _line(axes, x, [value.mean for value in values], spread, method, style)
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
                axes.plot([max(value.low, 0.0), min(value.high, 1.0)], [height] * 2, color=OKABE_ITO[0], linewidth=2)
            axes.plot(value.mean, height, "o", color=OKABE_ITO[0], markersize=5)
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
        for number, unit in enumerate(units):
            mine = global_[global_["task"].str.endswith(unit)]
            shifts = sorted({float(task.split(" ")[1]) for task in mine["task"]})
            values = [by_seed(mine[mine["task"] == f"boston/mlp {shift} {unit}"], column) for shift in shifts]
            style = Style(OKABE_ITO[number], "os^"[number], ((), (6, 2), (2, 2))[number])
            spread = np.nan_to_num([value.deviation for value in values])
            _line(axes, shifts, [value.mean for value in values], spread, unit, style)
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
    order = sorted(dict.fromkeys(ran["method"]), key=lambda name: (name.startswith("relax"), name in NOT_IN_THE_PAPER))
    return [(name, ran[ran["method"] == name]) for name in order]


def _panels(frame: pd.DataFrame, draw: Any, title: str) -> "Figure":
    tasks = list(dict.fromkeys(frame["task"]))
    across, down = min(ACROSS, len(tasks)), -(-len(tasks) // ACROSS)
    figure = _figure((PANEL[0] * across, PANEL[1] * down + 0.8))
    panels = figure.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, task in zip(panels.flat, tasks, strict=False):
        draw(axes, frame[frame["task"] == task])
        axes.set_title(f"{title}: {task}", fontsize=10, color=INK)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for position in range(len(tasks), panels.size):
        panels.flat[position].set_visible(False)
    shown = [handles[name] for name in STYLES if name in handles]
    figure.legend(handles=shown, loc="outside upper center", ncols=5, fontsize=8, labelcolor=INK, frameon=False)
    return figure


def _line(axes: "Axes", x: Any, y: Any, spread: Any, label: str, style: Style) -> None:
    """Points joined by a line, with a band of one standard deviation."""
    broad = 2.4 if label.startswith("relax") else 1.4
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "marker": style.marker}
    axes.plot(x, y, label=label, linewidth=broad, markersize=4.5, **look)
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
