"""The playground: what the agent does, and what it earns, from every point of a grid over the toy.

Nothing of the method is written down here a second time: the steps and their rewards are those of `CounterfactualEnv`,
the values those of `Agent.evaluate`, and the answers those of the explainers of the registry. The page only shows them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.explainer import ReLAX
from relax_plugin.agent.layers import one_thread
from relax_plugin.agent.policy_tree import PolicyTree
from relax_plugin.arrays import Booleans, Floats
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.toy import MODELS, TRAINING_ROWS, toy_task
from relax_plugin.pages.html import script_data, template
from relax_plugin.registry import make_explainer
from relax_plugin.search.state import Episodes
from relax_plugin.teaching.learning import WatchedReLAX, moment_name
from relax_plugin.teaching.packing import packed
from relax_plugin.teaching.rollouts import action_names

SPACING = 1.0  # thousand of income and of debt between two points of the grid
UNITS = {"income": "thousand a year", "debt": "thousand"}
MOMENTS = 6  # of the training that the page shows
EVERY = 5  # training steps between two moments that are remembered
NOBODY = -1  # "trained" of what has no agent
FREE = ""  # "held" where both features may change


@dataclass(frozen=True)
class Playground:
    """Everything the page shows."""

    task: Task
    explainer: WatchedReLAX  # with the agent that training kept, and those of other moments
    greedy: CounterfactualExplainer  # which it stands beside
    points: pd.DataFrame  # the grid: one line a point, the features
    spacing: float  # of the grid
    tree: PolicyTree  # the policy of the agent that was kept
    kept: int  # training steps of that agent
    steps: pd.DataFrame  # a line for each agent ("trained"), feature held ("held"), point and step; see `paths`
    answers: pd.DataFrame  # a line for each agent (NOBODY for greedy), feature held, method and point; see `answers`

    def told(self, method: str, held: str = FREE, trained: int | None = None) -> pd.DataFrame:
        """The answers of a method to every point; of the agent that was kept, if nothing else is said."""
        agent = NOBODY if method == "greedy" else self.kept if trained is None else trained
        answers = self.answers
        mine = (answers["method"] == method) & (answers["held"] == held) & (answers["trained"] == agent)
        return answers[mine].set_index("point", drop=False)


def play(
    family: str = "trees", seed: int = 0, spacing: float = SPACING, config: ReLAXConfig | None = None
) -> Playground:
    """Train an agent on the toy, and see what it does from every point as it learns; some twenty seconds.

    Parameters
    ----------
    family : "trees" or "network"
        What the model is.
    seed : int
        Of the toy, its model and the agent.
    spacing : float
        Between two points of the grid, in the features' own unit.
    config : ReLAXConfig, optional
        Of the agent; by default the package's own, but trained on the model itself as in the paper, so that the
        rewards shown are those it learned from, from points all over the plane, and validated often, so that there are
        moments to show.
    """
    config = config or ReLAXConfig(training="model", validate_every=EVERY, made_share=1.0)
    task = toy_task(family, seed)
    points = grid(task, spacing)
    explainer = WatchedReLAX(task.model, task.space, effort="policy", seed=seed, config=config, progress=False)
    explainer.fit(task.X_train)
    greedy = make_explainer("greedy", task.model, task.space, seed=seed).fit(task.X_train)
    kept, steps, told = explainer.kept(), [], []
    for held in (FREE, *map(str, task.space.names)):
        told.append(answers(greedy, points, held).assign(trained=NOBODY, method="greedy", held=held))
        for trained in moments(explainer):
            with explainer.at(trained) as agent:
                steps.append(paths(agent, points, held).assign(trained=trained, held=held))
                told.append(answers(agent, points, held).assign(trained=trained, method="policy", held=held))
    both = (pd.concat(frames, ignore_index=True) for frames in (steps, told))
    return Playground(task, explainer, greedy, points, spacing, explainer.policy_tree(), kept, *both)


def moments(explainer: WatchedReLAX, most: int = MOMENTS) -> list[int]:
    """Which agents are shown: the untrained one, the one that was kept, the last, and the earliest of the others."""
    known = list(explainer.snapshots_)
    chosen = {0, explainer.kept(), known[-1]}
    others = [step for step in known if step not in chosen]
    return sorted(chosen | set(others[: max(most - len(chosen), 0)]))


def grid(task: Task, spacing: float) -> pd.DataFrame:
    """Points at equal distances from the lower to the upper bound of two features; the first changes slowest."""
    ends = ((feature.low, feature.high) for feature in task.space.features)
    decimals = task.space.grid.decimals
    axes = [
        np.round(np.arange(low, high + spacing / 2, spacing), places)
        for (low, high), places in zip(ends, decimals, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return pd.DataFrame(points, columns=pd.Index(task.space.names))


def paths(explainer: ReLAX, points: pd.DataFrame, held: str = FREE) -> pd.DataFrame:
    """The steps of the greedy policy from every point, all points in one batch a step, with a feature held or none.

    Returns
    -------
    DataFrame
        point, step (from 0); the state before the step: the features, `answer` and `probability` of the class that
        is wanted; `Q <action>` and `v <action>` of every action there, NaN where it is not allowed; `action`, the
        position of the one taken, and `to`, the value it gives its feature; of the reward (§4.1.4) the parts `goal`
        and `distance` and their sum `reward`; `answer after` and `probability after`.
    """
    observer, blackbox, config = explainer.observer_, explainer.blackbox_, explainer.config_
    before = blackbox.confirm(points)
    goal = explainer.wanted_goal().bind(blackbox, before)
    start = explainer.space_.values(points)
    limits = explainer.space_.limits(values=start, immutable=[held] if held else None)
    starts = Episodes.begin(start, before, goal, limits, observer.max_changes)
    env = CounterfactualEnv(starts, observer, blackbox, config, width=len(points))
    states, info = env.reset(seed=0, options={"starts": np.arange(len(points))})
    running, answer, values, parts = info["allowed"].any(axis=1), before, start, []
    names = [str(name) for name in explainer.space_.names]
    actions = action_names(explainer.observer_.actions)
    for step in range(observer.max_changes):
        at = np.flatnonzero(running)  # the environment begins finished episodes anew: those are of no interest
        if len(at) == 0:
            break
        allowed = info["allowed"][at]
        with one_thread():  # as in `explain`, so that the steps are the same to the last digit
            q, parameters = explainer.agent_.evaluate(states[at], allowed)
        taken, magnitude = np.zeros(len(points), dtype=np.int64), np.zeros(len(points))
        taken[at] = q.argmax(axis=1)
        magnitude[at] = parameters[np.arange(len(at)), taken[at]]
        states, reward, met, over, info = env.step((taken, magnitude))
        after = blackbox.ask(info["values"])  # once more, since the environment keeps its answers to itself
        frame = pd.DataFrame({"point": at, "step": step})
        frame[names] = values[at]
        frame["answer"], frame["probability"] = blackbox.labels(answer.output[at]), chance(goal.wanted, answer)[at]
        frame[[f"Q {name}" for name in actions]] = np.where(allowed, q, np.nan)
        frame[[f"v {name}" for name in actions]] = np.where(allowed, parameters, np.nan)
        frame["action"] = taken[at]
        frame["to"] = info["values"][at, observer.actions.feature[taken[at]]]
        frame["goal"], frame["distance"] = met[at].astype(float), (reward - met)[at]
        frame["reward"] = reward[at]
        frame["answer after"] = blackbox.labels(after.output[at])
        frame["probability after"] = chance(goal.wanted, after)[at]
        parts.append(frame)
        running &= ~(met | over) & info["allowed"].any(axis=1)
        answer, values = after, info["values"]
    return pd.concat(parts).sort_values(["point", "step"], ignore_index=True)


def answers(explainer: CounterfactualExplainer, points: pd.DataFrame, held: str = FREE) -> pd.DataFrame:
    """What an explainer answers to every point, with a feature held or none.

    Returns
    -------
    DataFrame
        point; found; the features of the counterfactual, or of the closest attempt; L0 and L1, NaN if nothing was
        found; rows the model was asked.
    """
    result = explainer.explain(points, immutable=[held] if held else None)
    frame = pd.DataFrame({"point": np.arange(len(points)), "found": result.found[:, 0]})
    frame[[str(name) for name in explainer.space_.names]] = result.values[:, 0]
    frame["L0"], frame["L1"], frame["rows"] = result.sparsity[:, 0], result.proximity[:, 0], result.rows_queried
    return frame


def chance(wanted: Booleans | None, answer: Any) -> Floats:
    """The probability of the classes that are wanted."""
    assert wanted is not None
    return np.asarray(np.where(wanted, answer.scores, 0.0).sum(axis=1))


def render(playground: Playground) -> str:
    """The page as text; the same playground gives the same text."""
    task, explainer = playground.task, playground.explainer
    config, family = explainer.config_, task.name.partition("/")[2]
    policy = playground.told("policy")
    return template("play.html.jinja").render(
        title="An agent that explains: drag the point",
        model=MODELS[family],
        training_rows=TRAINING_ROWS,
        features=[{"name": str(name), "unit": UNITS[str(name)]} for name in task.space.names],
        spacing=f"{playground.spacing:g}",
        points=len(playground.points),
        distance_weight=f"{config.distance_weight:g}",
        discount=f"{config.discount:g}",
        quantiles=playground.greedy.get_params()["quantiles"],
        training=explainer.training_,
        fit_rows=explainer.fit_rows_,
        kept=playground.kept,
        rows=float(policy["rows"].mean()),
        rows_greedy=float(playground.told("greedy")["rows"].mean()),
        found_before=float(playground.told("policy", trained=0)["found"].mean()),
        found_after=float(policy["found"].mean()),
        tree=playground.tree._repr_html_(),
        data=script_data(page_data(playground)),
    )


def page_data(playground: Playground) -> dict[str, Any]:
    """What the script of the page reads: names as they are, and all numbers as packed columns."""
    task, explainer, points = playground.task, playground.explainer, playground.points
    names = [str(name) for name in task.space.names]
    decimals = dict(zip(names, map(int, task.space.grid.decimals), strict=True))
    assert explainer.blackbox_.classes is not None
    classes = list(explainer.blackbox_.classes)
    coded = {label: position for position, label in enumerate(classes)}
    steps, told = (
        frame.assign(**{name: frame[name].map(coded) for name in ("answer", "answer after") if name in frame})
        for frame in (playground.steps, playground.answers)
    )
    units = units_of(decimals, list(steps))
    # Training rows as marks of their class; the first test row of the toy is its most central.
    marks = task.X_train.set_axis(names, axis=1).assign(answer=task.y_train.map(coded))
    center = task.space.values(task.X_test)[0]
    nearest = task.space.distance(task.space.values(points), np.broadcast_to(center, points.shape)).argmin()
    actions, shown = explainer.observer_.actions, sorted(set(steps["trained"]))
    # The state before a step is that after the one before; where a path starts, nothing was done by any agent yet.
    start = steps[(steps["trained"] == 0) & (steps["held"] == FREE) & (steps["step"] == 0)]
    known = ["trained", "held", "step", "answer", "probability", "distance", *names]
    return {
        "features": [
            {
                "name": name,
                "unit": UNITS[name],
                "decimals": decimals[name],
                "values": np.unique(points[name]).tolist(),
            }
            for name in names
        ],
        "classes": [str(label) for label in classes],
        "actions": [
            {"name": name, "feature": int(j)} for name, j in zip(action_names(actions), actions.feature, strict=True)
        ],
        "moments": [{"trained": trained, "name": moment_name(trained)} for trained in shown],
        "kept": shown.index(playground.kept),
        "first": int(nearest),
        "marks": packed(marks, units),
        "start": packed(start[["answer", "probability"]], units),
        "steps": {
            f"{trained} {held}".strip(): packed(mine.drop(columns=known), units)
            for (trained, held), mine in steps.groupby(["trained", "held"], sort=False)
        },
        "answers": {
            f"{method} {held}".strip() if trained == NOBODY else f"{method} {trained} {held}".strip(): packed(
                mine.drop(columns=["trained", "held", "method", "point"]), units
            )
            for (trained, held, method), mine in told.groupby(["trained", "held", "method"], sort=False)
        },
    }


def units_of(decimals: dict[str, int], columns: list[Any]) -> dict[str, float]:
    """The units of the columns of a page: those of the features, 1 for what is counted, a hundredth for shares."""
    units = {name: 10.0**-places for name, places in decimals.items()}
    counted = ("point", "action", "answer", "answer after", "goal", "found", "L0", "rows")
    shares = [str(name) for name in columns if str(name).startswith("v ")]
    return units | {"to": min(units.values())} | dict.fromkeys(counted, 1.0) | dict.fromkeys(shares, 1e-2)
