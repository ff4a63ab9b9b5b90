"""A decision tree as a picture: questions from left to right, what is done at the right end, one line each."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

from relax_plugin.pages.drawing import CHARACTER, FAINT, INK, as_written, figure_class
from relax_plugin.pages.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
