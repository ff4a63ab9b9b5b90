"""A menu as a picture: features downwards, sets of them from left to right, the cheapest first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from relax_plugin.pages.drawing import CHARACTER, FAINT, INK, as_written, figure_class, shorten_text
from relax_plugin.pages.palette import OKABE_ITO

if TYPE_CHECKING:
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
