"""The picture of the COVID-19 study, after the paper's Figure 5: what the model attends to, and what is suggested."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.reproduction.covid.discussion import METHOD, directions
from benchmarks.reproduction.covid.study import FREE
from relax_plugin.pages.drawing import FAINT, INK, figure_class
from relax_plugin.pages.plots import DOWN, EITHER, UP, arrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (9.6, 4.6)  # inches
THICK, THIN = 0.42, 0.3  # of bars, in lines
GAP = 0.04


def picture(frames: Mapping[str, pd.DataFrame]) -> "Figure":
    """The ranking of features by importance beside the suggested directions of the actionable ones.

    Parameters
    ----------
    frames : mapping
        Of `study` or `combine`: `importance`, `changes`, `counterfactuals` and `association` are drawn.
    """
    figure = figure_class()(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    _ranking(left, frames["importance"])
    _suggestions(right, frames)
    for axes in (left, right):
        axes.tick_params(colors=INK, labelsize=8)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[:].set_color(FAINT)
    return figure


def _ranking(axes: "Axes", importance: pd.DataFrame) -> None:
    """Mean importance over the splits, with its standard deviation; the actionable features stand out."""
    table = importance.groupby("feature").agg(
        mean=("importance", "mean"), deviation=("importance", "std"), actionable=("actionable", "first")
    )
    table = table.sort_values("mean", ascending=False, kind="stable")
    lines = np.arange(len(table))
    splits = importance["seed"].nunique()
    for actionable, colour, label in ((True, UP, "actionable"), (False, EITHER, "held fixed")):
        here = (table["actionable"] == actionable).to_numpy()
        axes.barh(lines[here], table["mean"][here], height=0.7, color=colour, label=label)
    if splits > 1:
        axes.errorbar(table["mean"], lines, xerr=table["deviation"], fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
    axes.set_yticks(lines, list(table.index))
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("share of the gain", fontsize=9, color=INK)
    spread = f"\nmean ± standard deviation over {splits} splits" if splits > 1 else ""
    axes.set_title(f"Importance of each feature to XGBoost{spread}", fontsize=10, color=INK)
    axes.legend(loc="lower right", fontsize=8, labelcolor=INK, frameon=False)


def _suggestions(axes: "Axes", frames: Mapping[str, pd.DataFrame]) -> None:
    """Counterfactuals that lower (left) and raise (right) each feature, with the directions and without them."""
    from matplotlib.patches import Patch

    association = frames["association"].drop_duplicates("feature")
    allowed = association[association["actionable"].astype(bool)].set_index("feature")["allowed"]
    table = directions(frames)
    counts = table.pivot_table(index="feature", columns=["method", "direction"], values="count", aggfunc="sum")
    counts = counts.reindex(allowed.index).fillna(0)
    usual = table[table["method"] == METHOD].groupby("feature")["count"].sum().reindex(allowed.index).fillna(0)
    features = list(usual.sort_values(ascending=False, kind="stable").index)
    lines = np.arange(len(features))
    for method, height, shift in ((METHOD, THICK, -THICK / 2 - GAP / 2), (FREE, THIN, THIN / 2 + GAP / 2)):
        for direction, colour in ((-1, DOWN), (1, UP)):
            if (method, direction) in counts:
                numbers = direction * counts[(method, direction)].reindex(features).to_numpy()
                look = {"height": height, "edgecolor": colour, "facecolor": colour if method == METHOD else "none"}
                _bars(axes, lines + shift, numbers, look)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(lines, [f"{feature} {arrow(float(allowed[feature]))}" for feature in features])
    axes.set_ylim(len(features) - 0.4, -0.6)
    most = max(float(counts.to_numpy().max(initial=0)), 1.0) * 1.15
    axes.set_xlim(-most, most)
    axes.xaxis.set_major_formatter(lambda number, _: f"{abs(number):g}")
    axes.set_xlabel("lowered ←  counterfactuals  → raised", fontsize=9, color=INK)
    found = int(frames["counterfactuals"].query("method == @METHOD")["valid"].sum())
    splits = frames["counterfactuals"]["seed"].nunique()
    over = f", {splits} splits" if splits > 1 else ""
    axes.set_title(
        f"Changes that turn the answer to normal\n{found} counterfactuals of ReLAX{over}", fontsize=10, color=INK
    )
    filled = Patch(facecolor=INK, edgecolor=INK, label="in the direction beside the name only")
    open_ = Patch(facecolor="none", edgecolor=INK, label="asked for either direction")
    text: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False}
    axes.figure.legend(handles=[filled, open_], loc="outside lower right", ncols=2, **text)


def _bars(axes: "Axes", lines: Any, numbers: Any, look: dict[str, Any]) -> None:
    """Bars to the left or right, each with its number at the end."""
    axes.barh(lines, numbers, linewidth=1, **look)
    for line, number in zip(lines, numbers, strict=True):
        if number:
            side = 1 if number > 0 else -1
            text: dict[str, Any] = {"fontsize": 7, "color": INK, "va": "center", "ha": "left" if side > 0 else "right"}
            axes.annotate(f"{abs(number):.0f}", (number, line), (3 * side, 0), textcoords="offset points", **text)
