"""The look that all pictures share, and the two that results and training draw of themselves: frame in, Figure out."""

from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.errors import MissingExtraError
from relax_plugin.pages.palette import MARKERS, OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#333333", "#CCCCCC"  # of text and axes, and of grids

MOST_FEATURES = 20  # lines of a picture of changes: those that move farthest
LONGEST_CELL, LONGEST_NAME = 24, 30  # characters of a value and of a feature's name
CHARACTER = 0.068  # inches of an average one at 8 points
CHIP_GAP, ARROW_OF_CHIPS = 0.56, 0.3  # inches between the two chips of a changed category, and of what leads over
ARROWS_WIDTH = 4.6  # inches of the part in which the arrows lie


def figure_class() -> "type[Figure]":
    """matplotlib's Figure, which needs no display and no global state; matplotlib is an extra."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib: pip install 'relax-plugin[plots]'.") from error
    return Figure


def as_written(figure: "Figure") -> "Figure":
    """Without formulas: a dollar in the name of a feature is a dollar."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def changes_as_arrows(changes: pd.DataFrame, title: str, note: str = "") -> "Figure":
    """The changes of one query: an arrow for each number, from the query's value to the counterfactual's.

    A category has no length: it is a pair of chips with the names of the two. `changes` has one row a change: feature,
    label (of the feature), cf_id, from, to (as they are to be read), move (in standard deviations of the feature, 1 for
    a changed category) and categorical. `note` is written where there is no change to draw.
    """
    changes, among = _farthest(changes)
    names = list(dict.fromkeys(changes["feature"]))
    words = dict(zip(changes["feature"], changes["label"], strict=True))
    ticks, heights = _lines(changes, names)
    name_inches = CHARACTER * max((min(len(words[name]), LONGEST_NAME) for name in names), default=0)
    tall = 1.25 + 0.27 * (max(heights) + 1.0) if heights else 1.2
    figure = figure_class()(figsize=(ARROWS_WIDTH + name_inches + 0.5, tall), layout="constrained")
    axes = figure.subplots()
    axes.set_title(f"{title}{among}", fontsize=10, color=INK)
    if len(changes) == 0:
        axes.set_axis_off()
        axes.text(0.5, 0.5, fill(note, 60), ha="center", va="center", fontsize=9, color=INK, transform=axes.transAxes)
        return as_written(figure)
    only_categories = bool(changes["categorical"].all())
    if not only_categories:
        axes.axvline(0.0, color=FAINT, linewidth=1.0, zorder=0)
    for change, height in zip(changes.to_dict("records"), heights, strict=True):
        (_draw_chips if change["categorical"] else _draw_change)(axes, change, height)
    slots = sorted(set(changes["cf_id"]))
    if len(slots) > 1:
        for slot in slots:
            axes.plot([], [], linewidth=2.0, **_look(slot), label=f"counterfactual {slot}")
        look: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False}
        figure.legend(loc="outside lower center", ncols=min(3, len(slots)), **look)
        figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(slots) // 3))
    axes.set_yticks(ticks, [shorten_text(words[name], LONGEST_NAME) for name in names])
    axes.set_ylim(max(heights) + 0.8, -0.8)
    axes.set_xlim(*_room_for_text(changes))
    if only_categories:  # along no axis
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
    else:
        axes.set_xlabel("standard deviations away from the query", fontsize=8.5, color=INK)
    axes.tick_params(colors=INK, labelsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    return as_written(figure)


def training_page(history: pd.DataFrame, stopped: str) -> "Figure":
    """How a training went: a panel for each of what was recorded at the validations, the one that was kept marked.

    Columns that are missing from `history`, as in files of older versions, have no panel.
    """
    panels = [panel for panel in TRAINING_PANELS if panel[0] in history]
    kept = int(np.nanargmax(history["objective"].to_numpy(dtype=np.float64))) if "objective" in history else None
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = figure_class()(figsize=(3.1 * across, 2.25 * down + 0.9), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, squeeze=False)
    for axes, (name, title, colour, marker) in zip(grid.flat, panels, strict=False):
        _draw_course(axes, history["step"], history[name], colour, marker)
        axes.set_title(title, fontsize=9.5, color=INK)
        if name in SHARES:
            axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
        if name == "validity":
            axes.set_ylim(-0.03, 1.06)
        elif name != "return":
            axes.set_ylim(0.0, _headroom(history[name], least=0.1 if name == "top_tenth" else 0.0))
        if name == "top_tenth":
            axes.axhline(0.1, color=INK, linewidth=1.0, linestyle=":")
            axes.annotate("uniform replay", (history["step"].iloc[-1], 0.1), (0, 3), **UNDER_THE_LINE)
        if kept is not None:
            axes.axvline(history["step"].iloc[kept], color=INK, linewidth=1.0, linestyle="--", zorder=1)
    for axes in grid[-1]:
        axes.set_xlabel("training step", fontsize=8.5, color=INK)
    for empty in grid.flat[len(panels) :]:
        empty.set_visible(False)
    ends = f"Training ended at step {history['step'].iloc[-1]}: {stopped}"
    best = "" if kept is None else f"\nkept: the agent of step {history['step'].iloc[kept]} (dashed line)"
    figure.suptitle(f"{ends}{best}", fontsize=10.5, color=INK)
    return as_written(figure)


# What the page shows of a History: the column, what it is, a colour and a marker.
TRAINING_PANELS = (
    ("return", "return of an episode, exploring", OKABE_ITO[0], "o"),
    ("validity", "validity, validation rows", OKABE_ITO[2], "s"),
    ("sparsity", "features changed, if valid", OKABE_ITO[3], "D"),
    ("exploration", "exploration ε", OKABE_ITO[5], "^"),
    ("td_error", "mean |TD error| of a batch", OKABE_ITO[1], "v"),
    ("top_tenth", "draws of the top 10% priorities", OKABE_ITO[4], "P"),
)
SHARES = frozenset({"validity", "exploration", "top_tenth"})
UNDER_THE_LINE: dict[str, Any] = {
    "textcoords": "offset points",
    "ha": "right",
    "va": "bottom",
    "fontsize": 7.5,
    "color": INK,
}


def shorten_text(text: str, longest: int) -> str:
    """A text in one line, cut at a word if there is one and with an ellipsis if it is too long."""
    text = " ".join(text.split())
    cut = shorten(text, longest, placeholder=" …")
    return cut if len(text) <= longest or len(cut) > longest // 2 else f"{text[: longest - 1]}…"


def _farthest(changes: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    reach = changes["move"].abs().groupby(changes["feature"], sort=False).max()
    if len(reach) <= MOST_FEATURES:
        return changes.sort_values("cf_id", kind="stable"), ""
    most = set(reach.sort_values(ascending=False, kind="stable").index[:MOST_FEATURES])
    part = changes[changes["feature"].isin(most)].sort_values("cf_id", kind="stable")
    return part, f"\nshown are the {MOST_FEATURES} that move farthest"


def _lines(changes: pd.DataFrame, names: list[Any]) -> tuple[list[float], list[float]]:
    """Where each feature's name stands, and each change its line: those of one feature close together."""
    count = changes["feature"].value_counts()
    top, ticks = 0.0, []
    first: dict[Any, float] = {}
    for name in names:
        first[name] = top
        ticks.append(top + 0.5 * (count[name] - 1))
        top += count[name] + 0.4
    rank = changes.groupby("feature", sort=False).cumcount()
    heights = [first[name] + position for name, position in zip(changes["feature"], rank, strict=True)]
    return ticks, heights


def _draw_change(axes: "Axes", change: dict[Any, Any], height: float) -> None:
    move, side = change["move"], 1 if change["move"] >= 0 else -1
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "linewidth": 1.8, "shrinkA": 3, "shrinkB": 0}
    look = _look(change["cf_id"])
    arrow |= {"color": look["color"]}
    axes.annotate("", (move, height), (0.0, height), arrowprops=arrow, zorder=3)
    axes.plot(0.0, height, zorder=4, **look)
    old, new = _cells(change)
    text: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": INK}
    ends = ("right", "left") if side > 0 else ("left", "right")
    axes.annotate(old, (0.0, height), (-7 * side, 0), ha=ends[0], **text)
    axes.annotate(new, (move, height), (5 * side, 0), ha=ends[1], fontweight="bold", **text)


def _draw_chips(axes: "Axes", change: dict[Any, Any], height: float) -> None:
    from matplotlib.transforms import ScaledTranslation

    old, new = _cells(change)
    look = _look(change["cf_id"])
    inches = axes.figure.dpi_scale_trans
    foot, head = (axes.transData + ScaledTranslation(0.5 * side * ARROW_OF_CHIPS, 0.0, inches) for side in (-1, 1))
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0, "color": look["color"]}
    axes.annotate("", (0.0, height), (0.0, height), xycoords=head, textcoords=foot, arrowprops=arrow, zorder=3)
    axes.plot(0.0, height, transform=foot, zorder=4, **look)
    chip: dict[str, Any] = {"boxstyle": "round,pad=0.3", "linewidth": 1.2}
    text: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": INK, "zorder": 4}
    ends = (
        (old, -1, "right", "normal", {"fc": "#F4F4F4", "ec": FAINT}),
        (new, 1, "left", "bold", {"fc": "white", "ec": look["color"]}),
    )
    for cell, side, align, weight, colours in ends:
        place = (72 * side * 0.5 * CHIP_GAP, 0)
        axes.annotate(cell, (0.0, height), place, ha=align, fontweight=weight, bbox=chip | colours, **text)


def _room_for_text(changes: pd.DataFrame) -> tuple[float, float]:
    moves = changes["move"].where(~changes["categorical"], 0.0)
    low, high = min(moves.min(), 0.0), max(moves.max(), 0.0)
    low, high = (low, high) if high > low else (-1.0, 1.0)  # of chips alone
    left, right = low, high
    for _ in range(40):  # the wider the range, the more of it a text takes: this settles
        inch = (right - left) / ARROWS_WIDTH
        left, right = low, high
        for change in changes.to_dict("records"):
            side = 1 if change["move"] >= 0 else -1
            behind, beyond = (0.15 + CHARACTER * len(cell) for cell in _cells(change))
            if change["categorical"]:
                chips = (-(behind + CHIP_GAP / 2) * inch, 1.1 * (beyond + CHIP_GAP / 2) * inch)
                left, right = min(left, chips[0]), max(right, chips[1])
                continue
            ends = (-side * behind * inch, change["move"] + 1.1 * side * beyond * inch)
            left, right = min(left, *ends), max(right, *ends)
    return left, right


def _cells(change: dict[Any, Any]) -> tuple[str, str]:
    return shorten_text(str(change["from"]), LONGEST_CELL), shorten_text(str(change["to"]), LONGEST_CELL)


def _draw_course(axes: "Axes", steps: Any, values: Any, colour: str, marker: str) -> None:
    known = np.isfinite(np.asarray(values, dtype=np.float64))  # between validations some numbers are not
    axes.plot(steps[known], values[known], color=colour, marker=marker, markersize=4.5, linewidth=1.6, zorder=3)
    axes.tick_params(colors=INK, labelsize=8)
    axes.locator_params("y", nbins=5)
    axes.locator_params("x", nbins=6, integer=True)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(FAINT)


def _headroom(values: Any, least: float) -> float:
    """The upper end of an axis from 0 on which the highest marker, and a line at `least`, are seen whole."""
    numbers = np.asarray(values, dtype=np.float64)
    highest = float(np.max(numbers[np.isfinite(numbers)], initial=least))
    return 1.08 * highest if highest > 0 else 1.0


def _look(slot: int) -> dict[str, Any]:
    marker = MARKERS[slot % len(MARKERS)]
    return {"color": OKABE_ITO[slot % len(OKABE_ITO)], "marker": marker, "markersize": 5.0, "markeredgewidth": 0.0}
