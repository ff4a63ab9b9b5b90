"""Episodes step by step: what happened in each as a tidy frame, and as arrows over the decision regions of a model."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.policy import Policy as TrainedPolicy
from relax_plugin.agent.starts import typical_gap
from relax_plugin.arrays import Booleans, Floats, Integers
from relax_plugin.blackbox import BlackBox
from relax_plugin.evaluation.tasks import Task
from relax_plugin.goal import Goal
from relax_plugin.pages.drawing import INK, as_written, figure_class
from relax_plugin.pages.plane import ARROW, LEGEND, SIZE, draw_regions
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Episodes, Observer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# States and allowed actions in, the discrete action and its magnitude for each episode out.
Policy = Callable[[Any, Booleans], tuple[Integers, Floats]]

MOST_REWARDS = 4  # arrows that have their reward written beside them: more would be no reading
DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)))  # of the first step, the second, and all later ones


def environment_of(
    task: Task,
    rows: Any,
    *,
    max_changes: int = 2,
    config: ReLAXConfig | None = None,
    observer: Observer | None = None,
) -> CounterfactualEnv:
    """The paper's environment with one episode for each of these rows, in their order.

    Parameters
    ----------
    task : Task
    rows : DataFrame
        Where the episodes start.
    max_changes : int
        The length of an episode; an observer has one of its own.
    config : ReLAXConfig, optional
        Its `actions` and its λ (`distance_weight`) are those of the environment.
    observer : Observer, optional
        That of an explainer whose agent is to act (`explainer.observer_`), since agents see states as they were
        trained to.
    """
    config, space = config or ReLAXConfig(), task.space
    blackbox = BlackBox(task.model, space)
    blackbox.learn(space.values(task.X_train))
    values = space.values(rows)
    answer = blackbox.ask(values)
    goal = (task.goal or Goal.flip()).bind(blackbox, answer)
    length = max_changes if observer is None else observer.max_changes
    starts = Episodes.begin(values, answer, goal, space.limits(), length)
    if observer is None:
        observer = Observer(space, ActionTable(space, config.actions), length, typical_gap(starts))
    return CounterfactualEnv(starts, observer, blackbox, config, width=len(values))


def action_names(actions: ActionTable) -> list[str]:
    """The discrete actions in words, by their numbers: "debt down", "town to Rome"; signed ones "debt by"."""
    names = []
    for j, sign, category in zip(actions.feature, actions.sign, actions.category, strict=True):
        feature = actions.space.features[j]
        what = f"to {feature.categories[category]}" if category >= 0 else {1: "up", -1: "down", 0: "by"}[int(sign)]
        names.append(f"{feature.name} {what}")
    return names


def policy_of(agent: TrainedPolicy) -> Policy:
    """What the agent does when it does not explore: the action of the highest Q-value, with its own parameter."""

    def choose(states: Any, allowed: Booleans) -> tuple[Integers, Floats]:
        q, parameters = agent.evaluate(states, allowed)
        taken = q.argmax(axis=1)
        return taken, parameters[np.arange(len(taken)), taken]

    return choose


def follow(env: CounterfactualEnv, policy: Policy) -> pd.DataFrame:
    """One episode from each start of the environment's pool, which must be as many as its instances.

    Returns
    -------
    DataFrame
        One row for each moment: query_id (position of the start), step (0 is the start), action in words, magnitude,
        reward (the paper's, §4.1.4), answer of the model, met (whether the goal is), and the features.
    """
    states, info = env.reset(seed=0, options={"starts": np.arange(env.num_envs)})
    names = np.array(action_names(env.observer.actions), dtype=object)
    begun, nothing = env.episodes, np.full(env.num_envs, np.nan)
    met = begun.goal.met(begun.answer)
    running = np.flatnonzero(~met & info["allowed"].any(axis=1))
    moments = [_moment(env, np.arange(env.num_envs), 0, begun.values, met)]
    moments[0] = moments[0].assign(action="", magnitude=nothing, reward=nothing)
    step = 0
    while len(running):
        step += 1
        taken, magnitude = policy(states, info["allowed"])
        states, reward, met, over, info = env.step((taken, magnitude))
        moment = _moment(env, running, step, info["values"], met)
        done = {"action": names[taken], "magnitude": magnitude, "reward": reward}
        moments.append(moment.assign(**{name: np.asarray(all_)[running] for name, all_ in done.items()}))
        running = running[~(met | over)[running]]  # those that ended began anew, and that is another story
    paths = pd.concat(moments).sort_values(["query_id", "step"], kind="stable", ignore_index=True)
    first = ["query_id", "step", "action", "magnitude", "reward", "answer", "met"]
    return paths[[*first, *(name for name in paths if name not in first)]]


def episodes_picture(task: Task, paths: pd.DataFrame, title: str = "") -> "Figure":
    """Episodes as arrows over the decision regions of a model of two numbers: an arrow for each step.

    Parameters
    ----------
    task : Task
        Such as `toy_task("network")`.
    paths : DataFrame
        What `follow` returns.
    title : str
        Whose episodes these are.
    """
    figure = figure_class()(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    draw_regions(axes, task)
    draw_paths(axes, task, paths)
    told = outcome(paths)
    axes.set_title(f"{title}\n{told}" if title else told, fontsize=9.5, color=INK)
    figure.legend(loc="outside lower center", **(LEGEND | {"ncols": 3}))
    return as_written(figure)


def outcome(paths: pd.DataFrame) -> str:
    """How many episodes meet the goal, and what an episode takes and earns, in a line."""
    last = paths.groupby("query_id").tail(1)
    earned = paths.groupby("query_id")["reward"].sum()
    return (
        f"{int(last['met'].sum())} of {len(last)} meet the goal, {last['step'].mean():.1f} steps, "
        f"return {earned.mean():.2f}"
    )


def draw_paths(axes: "Axes", task: Task, paths: pd.DataFrame) -> None:
    """A dot where each episode starts, an arrow for each step, a cross where it ended without meeting the goal."""
    across, up = task.space.names
    moves = 0
    for _, path in paths.groupby("query_id"):
        points = path[[across, up]].to_numpy(dtype=np.float64)
        rewards = path["reward"].to_numpy()
        for step in range(1, len(points)):
            look = ARROW | {"linestyle": DASHES[min(step, len(DASHES)) - 1]}
            axes.annotate("", points[step], points[step - 1], arrowprops=look, zorder=4)
            if len(paths) - paths["query_id"].nunique() <= MOST_REWARDS:
                _write_reward(axes, points[step - 1], points[step], step, rewards[step])
        moves = max(moves, len(points) - 1)
    start, last = paths[paths["step"] == 0], paths.groupby("query_id").tail(1)
    axes.scatter(start[across], start[up], s=30, color=INK, linewidths=0, zorder=5, label="query")
    for step, name in zip(range(1, moves + 1), ("first step", "second step", "later steps"), strict=False):
        axes.plot([], [], color=INK, linewidth=1.4, linestyle=DASHES[step - 1], label=name)
    lost = last[~last["met"]]
    if len(lost):
        cross: dict[str, Any] = {"s": 48, "color": INK, "marker": "x", "linewidths": 2.4, "zorder": 6}
        axes.scatter(lost[across], lost[up], label="goal not met", **cross)


def _write_reward(axes: "Axes", start: Floats, end: Floats, step: int, reward: float) -> None:
    low, high = np.transpose([axes.get_xlim(), axes.get_ylim()])
    at, reach = ((start + end) / 2 - low) / (high - low), np.abs(end - start) / (high - low)
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "color": INK, "zorder": 6}
    if reach[0] > reach[1]:
        offset, look["va"], look["ha"] = ((0, -5), "top", "center") if at[1] > 0.5 else ((0, 5), "bottom", "center")
    else:
        offset, look["va"], look["ha"] = ((-7, 0), "center", "right") if at[0] > 0.5 else ((7, 0), "center", "left")
    text = axes.annotate(f"r{step} = {reward:.3f}", tuple((start + end) / 2), offset, **look)
    text.set_bbox({"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1.2})


def _moment(env: CounterfactualEnv, running: Integers, step: int, values: Any, met: Booleans) -> pd.DataFrame:
    at = pd.DataFrame(env.observer.space.frame(env.observer.space.model_input(values[running]))).reset_index(drop=True)
    answer = env.blackbox.labels(env.blackbox.ask(values[running]).output)
    return at.assign(query_id=running, step=step, answer=answer, met=met[running])
