"""Pictures of measurements: each is a function of a tidy frame that returns a matplotlib Figure."""

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.metrics import total_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours can be told apart by colour-blind readers; line styles do it in print.
COLOURS = ("#000000", "#E69F00", "#009E73", "#D55E00", "#56B4E9")
STYLES = (":", "-.", (0, (6, 2)), "--", "-")
WIDTHS = (1.5, 1.5, 1.5, 1.5, 4.5)  # the last line lies broad under the others, which may coincide with it
COLUMNS = 5


def amortisation(table: pd.DataFrame, methods: list[str]) -> "Figure":
    """Total model rows (training and generation) against the number of instances explained, one panel a task.

    Parameters
    ----------
    table : DataFrame
        Means over seeds, indexed by (task, method), with columns "training rows" and "rows".
    methods : list of str
        Those to be drawn, in the order of the legend.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib: pip install 'relax-plugin[plots]'.") from error
    tasks = list(dict.fromkeys(table.index.get_level_values("task")))
    lines = -(-len(tasks) // COLUMNS)
    figure = Figure(figsize=(3.1 * min(COLUMNS, len(tasks)), 2.7 * lines + 0.7), layout="constrained")
    panels = figure.subplots(lines, min(COLUMNS, len(tasks)), sharex=True, sharey=True, squeeze=False)
    instances = np.geomspace(1, 10_000, 60)
    for axes, task in zip(panels.flat, tasks, strict=False):
        for method, colour, style, width in zip(methods, cycle(COLOURS), cycle(STYLES), cycle(WIDTHS), strict=False):
            row = table.loc[(task, method)]
            total = total_rows(row["training rows"], row["rows"], instances)
            axes.plot(instances, total, color=colour, linestyle=style, linewidth=width, zorder=3 - width, label=method)
        axes.set_title(task, fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
    for position in range(len(tasks), panels.size):
        panels.flat[position].set_visible(False)
        panels.flat[position - panels.shape[1]].tick_params(labelbottom=True)
    figure.supxlabel("instances explained")
    figure.supylabel("model rows, training included")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    return figure
