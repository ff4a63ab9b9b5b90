"""What is given for what: how plausible, how lasting and how sparse answers are, two of them against each other.

A method can win any one of these by losing another: rows copied from the data are plausible and change many features,
a tiny step over the boundary changes one and does not last.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.tables import summary
from relax_plugin.pages.drawing import FAINT, INK, as_written
from relax_plugin.pages.palette import greyed, highlighted, method_styles
from relax_plugin.pages.panels import PANEL, label_axes, new_figure
from relax_plugin.pages.scatter import areas, inches_of, label_points, look_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
