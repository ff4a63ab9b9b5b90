"""A picture of counterfactuals in the plane: the model's answer as shading, and an arrow from each query to its own."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import InputError
from relax_plugin.evaluation.tasks import Task
from relax_plugin.pages.drawing import FAINT, INK, as_written, figure_class
from relax_plugin.pages.palette import OKABE_ITO
from relax_plugin.results import Counterfactuals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (5.4, 4.6)  # inches
GRID = 240  # points of the shading in each direction
STRONGEST = 0.5  # opacity where the model is certain; where it is not, the page shines through, be it light or dark
# Blue and orange can be told apart by colour-blind readers, circles and triangles by everybody.
CLASSES = ((OKABE_ITO[1], "^"), (OKABE_ITO[0], "o"))
MARGIN = 0.03  # of the range of a feature, around the picture
LEGEND: dict[str, Any] = {"fontsize": 8, "labelcolor": INK, "frameon": False, "markerscale": 1.3}
LEGEND |= {"ncols": 5, "columnspacing": 1.2, "handletextpad": 0.4}
ARROW: dict[str, Any] = {"arrowstyle": "-|>,head_width=0.24,head_length=0.48", "mutation_scale": 11}
ARROW |= {"color": INK, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
TIP: dict[str, Any] = {"marker": ">", "markersize": 6, "markevery": [1]}  # an arrow in the legend


@dataclass(frozen=True)
class Moves:
    """What is drawn of some queries: where each starts, where its counterfactual is, and what that took.

    Parameters
    ----------
    start, end : arrays (queries, 2)
        In the features' own units; `end` is NaN where there is no counterfactual.
    distance : array (queries,)
        L1 in standard deviations; NaN where there is none.
    rows : array (queries,)
        Rows the model was asked.
    """

    start: Floats
    end: Floats
    distance: Floats
    rows: Floats

    @classmethod
    def of(cls, counterfactuals: Counterfactuals) -> "Moves":
        """The first counterfactual of each query."""
        found = counterfactuals.found[:, 0]
        end = np.where(found[:, None], counterfactuals.values[:, 0], np.nan)
        rows = counterfactuals.rows_queried.astype(np.float64)
        return cls(counterfactuals.start, end, counterfactuals.proximity[:, 0], rows)

    @classmethod
    def judged(cls, rows: pd.DataFrame) -> "Moves":
        """From the tidy rows of one unit: what the judge found valid."""
        start, end = [], []
        for query, changes, valid in zip(rows["query"], rows["changes"], rows["valid"], strict=True):
            cells = json.loads(query)
            moved = cells | {name: to for name, _, to in json.loads(changes)}
            start.append(list(cells.values()))
            end.append(list(moved.values()) if valid else [np.nan] * len(cells))
        numbers = (rows[name].to_numpy(dtype=np.float64) for name in ("proximity", "rows"))
        return cls(np.array(start, dtype=np.float64), np.array(end, dtype=np.float64), *numbers)

    @property
    def found(self) -> Booleans:
        return np.asarray(np.isfinite(self.end).all(axis=1))

    @property
    def changes(self) -> Floats:
        """Features changed, of each query that has a counterfactual."""
        return np.asarray((self.end != self.start)[self.found].sum(axis=1), dtype=np.float64)

    def told(self) -> dict[str, float]:
        """The numbers of the title: share found, mean changes and distance of those, mean model rows of all."""
        return {
            "found": _mean(self.found),
            "changes": _mean(self.changes),
            "distance": _mean(self.distance[self.found]),
            "rows": _mean(self.rows),
        }


def plane(task: Task, counterfactuals: Counterfactuals | Moves, method: str = "") -> "Figure":
    """The decision regions of a model over two numbers, its training rows, and what was found for the queries.

    Parameters
    ----------
    task : Task
        A classifier of two classes over two numeric features, such as `toy_task("trees")`.
    counterfactuals : Counterfactuals, or Moves read from the judge's rows
    method : str
        Its name, for the title.
    """
    moves = counterfactuals if isinstance(counterfactuals, Moves) else Moves.of(counterfactuals)
    figure = figure_class()(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    draw_regions(axes, task)
    _draw_moves(axes, moves)
    axes.set_title(f"{method}: {title(moves)}" if method else title(moves), fontsize=9.5, color=INK)
    figure.legend(loc="outside lower center", **LEGEND)
    return as_written(figure)


def draw_regions(axes: "Axes", task: Task) -> None:
    """What every picture in the plane begins with: the model's answer as shading, training rows, names and range."""
    blackbox = _acquainted(task)
    _shade(axes, task)
    _draw_rows(axes, task, blackbox)
    _frame(axes, task)


def title(moves: Moves) -> str:
    """How many are found, and what that takes, in two lines."""
    numbers, count = moves.told(), int(moves.found.sum())
    rows = f"{numbers['rows']:,.0f} model rows a query"
    if count == 0:
        return f"none of {len(moves.found)} found\n{rows}"
    changed = f"{count} of {len(moves.found)} found, {numbers['changes']:.1f} features changed"
    return f"{changed}\ndistance {numbers['distance']:.2f}, {rows}"


@lru_cache(maxsize=4)
def _acquainted(task: Task) -> BlackBox:
    blackbox = BlackBox(task.model, task.space)
    blackbox.learn(task.space.values(task.X_train))
    if len(task.space) != 2 or task.space.is_categorical.any():
        raise InputError(f"{task.name} has the features {task.space.names}; a plane needs two numbers.")
    if not blackbox.has_probabilities or blackbox.classes is None or len(blackbox.classes) != 2:
        raise InputError(f"the model of {task.name} cannot be drawn; probabilities of two classes are needed.")
    return blackbox


@lru_cache(maxsize=4)
def _probabilities(task: Task) -> Floats:
    """Of the second class, on a grid over the picture (vertical, horizontal)."""
    (left, right), (bottom, top) = _extent(task)
    across, up = (low + (high - low) * (np.arange(GRID) + 0.5) / GRID for low, high in ((left, right), (bottom, top)))
    points = np.stack(np.meshgrid(across, up), axis=2).reshape(-1, 2)
    scores = _acquainted(task).ask(points).scores
    assert scores is not None
    return scores[:, 1].reshape(GRID, GRID)


def _extent(task: Task) -> tuple[tuple[float, float], tuple[float, float]]:
    rows = np.concatenate([task.space.values(task.X_train), task.space.values(task.X_test)])
    low, high = task.space.limits().span(rows[:1])
    low, high = np.minimum(low[0], rows.min(axis=0)), np.maximum(high[0], rows.max(axis=0))
    edge = MARGIN * (high - low)
    return (float(low[0] - edge[0]), float(high[0] + edge[0])), (float(low[1] - edge[1]), float(high[1] + edge[1]))


def _shade(axes: "Axes", task: Task) -> None:
    from matplotlib.colors import to_rgb

    chance = _probabilities(task)
    first, second = (np.array(to_rgb(colour)) for colour, _ in CLASSES)
    pixels = np.empty((*chance.shape, 4))
    pixels[..., :3] = np.where((chance > 0.5)[..., None], second, first)
    pixels[..., 3] = STRONGEST * np.round(10 * np.abs(2 * chance - 1)) / 10
    (left, right), (bottom, top) = _extent(task)
    extent = (left, right, bottom, top)
    axes.imshow(pixels, origin="lower", extent=extent, aspect="auto", interpolation="none")
    axes.contour(chance, levels=[0.5], colors=[INK], linewidths=0.8, origin="lower", extent=extent)


def _draw_rows(axes: "Axes", task: Task, blackbox: BlackBox) -> None:
    labels, values = task.y_train.to_numpy(), task.space.values(task.X_train)
    assert blackbox.classes is not None
    for label, (colour, marker) in zip(blackbox.classes, CLASSES, strict=True):
        x, y = values[labels == label].T
        axes.scatter(x, y, s=12, marker=marker, color=colour, alpha=0.55, linewidths=0, label=str(label), zorder=2)


def _draw_moves(axes: "Axes", moves: Moves) -> None:
    found = moves.found
    for start, end in zip(moves.start[found], moves.end[found], strict=True):
        axes.annotate("", end, start, arrowprops=ARROW, zorder=4)
    if found.any():
        x, y = moves.start[found].T
        axes.scatter(x, y, s=32, color=INK, linewidths=0, zorder=5, label="query")
        axes.plot([], [], color=INK, linewidth=1.4, label="to its counterfactual", **TIP)
    if not found.all():
        x, y = moves.start[~found].T
        axes.scatter(x, y, s=48, color=INK, marker="x", linewidths=2.6, zorder=5, label="none found")


def _frame(axes: "Axes", task: Task) -> None:
    (left, right), (bottom, top) = _extent(task)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    across, up = map(str, task.space.names)
    axes.set_xlabel(across, fontsize=9, color=INK)
    axes.set_ylabel(up, fontsize=9, color=INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[:].set_color(FAINT)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
