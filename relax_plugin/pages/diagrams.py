"""Pictures of a menu and of a decision tree."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_plugin.pages.drawing import CHARACTER, FAINT, INK, as_written, figure_class, shorten_text
from relax_plugin.pages.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SETS = 40  # columns that are drawn
LONGEST = 28  # characters of a name
LOOK = {  # of a status: the words for it, the colour and the mark, told apart in print too
    "found": ("would do", OKABE_ITO[2], "o"),
    "open": ("none was found", OKABE_ITO[1], "s"),
    "impossible": ("impossible, proved", FAINT, "x"),
}


def menu_picture(
    names: Sequence[str], sets: Sequence[Sequence[int]], status: Sequence[str], distance: Sequence[float]
) -> "Figure":
    """Marks where a set changes a feature, joined by a line, with the price of its answer above.

    The `sets` are positions of features, in the order in which they are drawn; each has a `status` ("found", "open" or
    "impossible") and the `distance` of its answer, NaN if there is none.
    """
    shown = range(min(len(sets), MOST_SETS))
    size = (1.2 + CHARACTER * LONGEST + 0.24 * len(shown), 1.3 + 0.26 * len(names))
    axes = figure_class()(figsize=size, layout="constrained").subplots()
    for kind, (words, colour, mark) in LOOK.items():
        own = [column for column in shown if status[column] == kind]
        points = [(column, feature) for column in own for feature in sets[column]]
        if not points:
            continue
        x, y = np.array(points, dtype=np.float64).T
        axes.scatter(x, y, s=34, color=colour, marker=mark, label=words, zorder=3)
        for column in own:
            axes.plot([column] * 2, [min(sets[column]), max(sets[column])], color=colour, linewidth=1.4, zorder=2)
            if kind == "found":
                axes.text(column, -0.7, f"{distance[column]:.2g}", rotation=90, ha="center", va="bottom", fontsize=7)
    axes.set_yticks(range(len(names)), [shorten_text(name, LONGEST) for name in names], fontsize=8, color=INK)
    axes.set_xticks([])
    axes.set_xlim(-0.8, len(shown) - 0.2)
    axes.set_ylim(len(names) - 0.4, -2.4)
    axes.grid(axis="y", color=FAINT, alpha=0.25)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    left = f"; the first {MOST_SETS} of {len(sets)}" if len(sets) > MOST_SETS else ""
    axes.set_xlabel(f"sets of features, with the distance of their answers{left}", fontsize=8.5, color=INK)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False, fontsize=8)
    figure = axes.get_figure(root=True)
    assert figure is not None
    return as_written(figure)


WIDEST = 26  # characters of a line of a question
COLUMN = 2.3  # inches from a question to the next
LINE = 0.62  # inches from an end to the next
EDGE = {"yes": ("-", OKABE_ITO[0]), "no": ((0, (4, 2)), OKABE_ITO[1])}  # told apart in print too


def policy_tree_picture(root: Any, title: str, axes: "Axes | None" = None) -> "Figure":
    """Questions as boxes, "yes" upwards and "no" downwards, and the action with its support at each end."""
    ends, depth = _ends(root), _depth(root)
    longest = max(len(text) for end in ends for text in (end.told, end.support))
    if axes is None:
        size = (max(COLUMN * depth + CHARACTER * longest + 0.4, 5.0), LINE * len(ends) + 0.6)
        axes = figure_class()(figsize=size, layout="constrained").subplots()
    axes.set_axis_off()
    axes.set_title(title, fontsize=9.5, color=INK)
    _draw(axes, root, 0, [0])
    axes.set_xlim(-0.45, depth + CHARACTER * longest / COLUMN)
    axes.set_ylim(len(ends) - 0.4, -0.6)
    figure = axes.get_figure(root=True)
    assert figure is not None
    return as_written(figure)


def _draw(axes: "Axes", node: Any, column: int, drawn: list[int]) -> float:
    """A node with all that follows from it, below the ends drawn so far; returns its height."""
    if not node.branches:
        height = float(drawn[0])
        drawn[0] += 1
        axes.annotate(node.told, (column, height), (6, 1), va="bottom", fontweight="bold", **TEXT)
        axes.annotate(node.support, (column, height), (6, -1), va="top", **TEXT)
        return height
    below = [(answer, branch, _draw(axes, branch, column + 1, drawn)) for answer, branch in node.branches]
    height = sum(end for _, _, end in below) / len(below)
    for answer, _, end in below:
        dashes, colour = EDGE[answer]
        axes.plot([column, column + 1], [height, end], color=colour, linestyle=dashes, linewidth=1.4, zorder=1)
        middle = (column + 0.6, height + 0.6 * (end - height))
        axes.text(*middle, answer, bbox=ON_THE_LINE, zorder=2, **(WRITING | CENTRED | {"color": colour}))
    question = fill(f"{node.question}?", WIDEST)
    axes.text(column, height, question, bbox=BOX, zorder=3, **(WRITING | CENTRED))
    return height


WRITING: dict[str, Any] = {"fontsize": 8.5, "color": INK}
TEXT: dict[str, Any] = {"textcoords": "offset points", "ha": "left", **WRITING}
CENTRED = {"ha": "center", "va": "center"}
BOX = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": FAINT}
ON_THE_LINE = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}


def _ends(node: Any) -> list[Any]:
    return [end for _, branch in node.branches for end in _ends(branch)] or [node]


def _depth(node: Any) -> int:
    return max((1 + _depth(branch) for _, branch in node.branches), default=0)
