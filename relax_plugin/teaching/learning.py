"""How an agent learns: its policy at several moments of training, side by side or one after the other."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.agent.explainer import ReLAX
from relax_plugin.agent.policy import Policy, Weights
from relax_plugin.arrays import Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import InputError
from relax_plugin.evaluation.tasks import Task
from relax_plugin.pages.drawing import INK, as_written, figure_class
from relax_plugin.pages.palette import series_styles
from relax_plugin.pages.plane import LEGEND, draw_regions
from relax_plugin.pages.plots import band, label_axes
from relax_plugin.search.state import Episodes
from relax_plugin.teaching.rollouts import draw_paths, environment_of, episodes_picture, follow, outcome, policy_of
from relax_plugin.teaching.slider import Slider

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = (3.0, 2.75)  # inches of one moment
ACROSS = 3  # moments side by side
CURVES = (4.0, 3.1)  # inches of a panel of learning curves


class WatchedReLAX(ReLAX):
    """ReLAX that remembers the weights of its agent whenever its validity is told, and is the same in everything else.

    Attributes
    ----------
    snapshots_ : dict of int to weights
        Training steps, 0 being the untrained agent, and the agent's weights after so many.
    """

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.snapshots_: dict[int, Weights] = {}
        self._seen: list[Weights] = []
        super()._fit(values, rng)
        steps = [0, *(int(row["step"]) for row in self.history_.rows)]
        # Ctrl-C in a validation leaves weights without a row of the history.
        self.snapshots_ = dict(zip(steps, self._seen, strict=False))

    def _begin(self, policy: Policy) -> None:
        super()._begin(policy)
        self._remember()

    def _validate(self, world: BlackBox, checks: Episodes) -> dict[str, float]:
        self._remember()
        return super()._validate(world, checks)

    def _remember(self) -> None:
        self._seen.append({name: weight.copy() for name, weight in self.agent_.weights.items()})

    def kept(self) -> int:
        """Training steps of the agent that was kept: the best of the validations."""
        return int(max(self.history_.rows, key=lambda row: row["objective"], default={"step": 0})["step"])

    @contextmanager
    def at(self, step: int) -> Iterator["WatchedReLAX"]:
        """The explainer with its agent as it was after so many training steps, inside a `with`."""
        if step not in self.snapshots_:
            raise InputError(f"there is no snapshot at step {step}; there are {list(self.snapshots_)}.")
        trained = self.agent_
        try:
            self.agent_ = Policy(self.snapshots_[step], self.observer_)
            yield self
        finally:
            self.agent_ = trained


def paths_over_time(task: Task, explainer: WatchedReLAX, queries: Any) -> pd.DataFrame:
    """The episodes of the policy from these queries at every moment of the training that was remembered.

    Returns
    -------
    DataFrame
        As of `episodes.follow`, with the training steps in front as "trained".
    """
    env = environment_of(task, queries, config=explainer.config_, observer=explainer.observer_)
    moments = []
    for step in explainer.snapshots_:
        with explainer.at(step):
            paths = follow(env, policy_of(explainer.agent_))
        paths.insert(0, "trained", step)
        moments.append(paths)
    return pd.concat(moments, ignore_index=True)


def small_multiples(task: Task, paths: pd.DataFrame, moments: Sequence[int] | None = None) -> "Figure":
    """The same queries at several moments of training, a panel each.

    Parameters
    ----------
    task : Task
    paths : DataFrame
        What `paths_over_time` returns.
    moments : sequence of int, optional
        Training steps to be shown; by default all.
    """
    moments = list(dict.fromkeys(paths["trained"])) if moments is None else list(moments)
    _refuse_unknown(moments, paths)
    across, down = min(ACROSS, len(moments)), -(-len(moments) // ACROSS)
    figure = figure_class()(figsize=(PANEL[0] * across, PANEL[1] * down + 0.7), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for axes, moment in zip(panels.flat, moments, strict=False):
        part = paths[paths["trained"] == moment]
        draw_regions(axes, task)
        draw_paths(axes, task, part)
        axes.set_title(
            f"{moment_name(moment)}\n{outcome(part)}".replace(" meet the goal", " met"), fontsize=8.5, color=INK
        )
        axes.label_outer()
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for empty in panels.flat[len(moments) :]:
        empty.set_visible(False)
    figure.suptitle("What the policy does with the same queries as it learns", fontsize=10.5, color=INK)
    figure.legend(handles=list(handles.values()), loc="outside lower center", **(LEGEND | {"ncols": 3 * across}))
    return as_written(figure)


def learning_slider(task: Task, paths: pd.DataFrame) -> Slider:
    """The same queries at every moment of training, to be leafed through."""
    moments = list(dict.fromkeys(paths["trained"]))
    figures = [episodes_picture(task, paths[paths["trained"] == moment], moment_name(moment)) for moment in moments]
    return Slider(figures, [moment_name(moment) for moment in moments], "How the agent learns")


def learning_curves(histories: pd.DataFrame, columns: Sequence[str] = ("return", "validity")) -> "Figure":
    """What several settings learn, mean ± standard deviation over seeds, a panel for each column.

    Parameters
    ----------
    histories : DataFrame
        Rows of `History.frame()`, with "setting" and "seed" beside them. Trainings of one setting must have been
        validated at the same steps: give the config a `patience` that lasts.
    columns : sequence of str
        Of the History.
    """
    styles = series_styles(list(dict.fromkeys(histories["setting"])))
    figure = figure_class()(figsize=(CURVES[0] * len(columns), CURVES[1] + 0.5), layout="constrained")
    for axes, column in zip(figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True):
        for setting, part in histories.groupby("setting", sort=False):
            table = part.pivot(index="step", columns="seed", values=column).dropna(how="all")  # only at validations
            curves, style = list(table.T.to_numpy()), styles[str(setting)]
            band(axes, table.index.to_numpy(), curves, str(setting), style, share=column == "validity")
        label_axes(axes, "training step", column.replace("_", " "), share=column == "validity")
    seeds = histories["seed"].nunique()
    figure.suptitle(f"What each setting learns, mean ± standard deviation over {seeds} seeds", fontsize=10.5, color=INK)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    look: dict[str, Any] = {"fontsize": 8.5, "labelcolor": INK, "frameon": False}
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)), **look)
    return as_written(figure)


def moment_name(moment: int) -> str:
    """A moment of training in words."""
    return f"after {moment} training steps" if moment else "untrained"


def _refuse_unknown(moments: list[int], paths: pd.DataFrame) -> None:
    known = list(dict.fromkeys(paths["trained"]))
    unknown = [moment for moment in moments if moment not in known]
    if unknown or not moments:
        raise InputError(f"there are no paths after {unknown} training steps; there are some after {known}.")
