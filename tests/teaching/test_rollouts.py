"""Episodes step by step: the frame is what the environment did, and the picture is what the frame says."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from reference.tiny import QUICK, mixed_rows, mixed_space

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.errors import InputError
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.evaluation.toy import toy_task
from relax_plugin.search.actions import ActionTable
from relax_plugin.teaching.rollouts import (
    MOST_REWARDS,
    action_names,
    environment_of,
    episodes_picture,
    follow,
    outcome,
    policy_of,
)

TASK = toy_task("network")
QUERIES = TASK.X_test[:10]


def dice(seed=0):
    rng = np.random.default_rng(seed)

    def choose(states, allowed):
        return np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1), rng.random(len(allowed))

    return choose


@pytest.fixture(scope="module")
def paths() -> pd.DataFrame:
    return follow(environment_of(TASK, QUERIES), dice())


def arrows(axes):
    return [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]


def test_every_moment_has_a_row_and_an_episode_ends_with_its_goal_or_its_changes(paths) -> None:
    for query, path in paths.groupby("query_id"):
        assert path["step"].tolist() == list(range(len(path)))
        assert path[["income", "debt"]].iloc[0].tolist() == QUERIES.iloc[query].tolist()
        assert not path["met"].iloc[:-1].any()
        assert path["met"].iloc[-1] or len(path) == 3
    lengths = paths.groupby("query_id").size()
    assert set(lengths) == {2, 3}
    last = paths.groupby("query_id").tail(1)["met"]
    assert last.any() and not last.all()


def test_answers_are_the_models_and_goals_are_met_where_they_turn(paths) -> None:
    assert paths["answer"].tolist() == TASK.model.predict(paths[["income", "debt"]]).tolist()
    first = paths.groupby("query_id")["answer"].transform("first")
    assert (paths["met"] == (paths["answer"] != first)).all()


@pytest.mark.parametrize("weight", [0.0, 0.03, 0.5])
def test_rewards_are_those_of_the_paper_computed_by_hand(weight) -> None:
    paths = follow(environment_of(TASK, QUERIES, config=ReLAXConfig(distance_weight=weight)), dice(1))
    for _, path in paths.groupby("query_id"):
        gone = np.abs(path[["income", "debt"]] - path[["income", "debt"]].iloc[0]).to_numpy() / TASK.space.scale
        by_hand = path["met"].to_numpy()[1:] - weight * np.diff(gone.sum(axis=1))
        np.testing.assert_allclose(path["reward"].to_numpy()[1:], by_hand, atol=1e-12)
        assert np.isnan(path["reward"].iloc[0])


def test_actions_are_named_by_what_they_do(paths) -> None:
    moved = paths[["income", "debt"]].diff()[paths["step"] > 0]
    for change, action in zip(moved.itertuples(index=False), paths["action"][paths["step"] > 0], strict=True):
        feature, direction = action.split()
        assert np.sign(getattr(change, feature)) == {"up": 1, "down": -1}[direction]
        assert sum(value != 0 for value in change) == 1
    space = mixed_space(mixed_rows())
    names = action_names(ActionTable(space, "signed"))
    assert len(names) == len(set(names)) == len(ActionTable(space, "signed"))
    categories = [feature for feature in space.features if feature.categories]
    assert categories
    assert {f"{feature.name} to {category}" for feature in categories for category in feature.categories} <= set(names)


@pytest.mark.slow
def test_the_policy_of_an_agent_is_what_the_explainer_follows() -> None:
    explainer = ReLAX(TASK.model, TASK.space, max_changes=2, effort="policy", config=QUICK, progress=False)
    found = explainer.fit(TASK.X_train).explain(QUERIES)
    env = environment_of(TASK, QUERIES, observer=explainer.observer_, config=explainer.config_)
    paths = follow(env, policy_of(explainer.agent_))
    last = paths.groupby("query_id").tail(1)
    assert found.found.any()
    assert last["met"].tolist() == found.found[:, 0].tolist()
    np.testing.assert_allclose(last[["income", "debt"]], found.values[:, 0])
    assert paths.equals(follow(env, policy_of(explainer.agent_)))  # the same environment may be used again


def test_an_arrow_for_each_step_and_its_tip_in_the_class_of_the_goal(paths) -> None:
    figure = episodes_picture(TASK, paths, "The dice")
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    tips = np.array([arrow.xy for arrow in arrows(axes)])
    steps = paths[paths["step"] > 0]
    np.testing.assert_array_equal(tips, steps[["income", "debt"]])
    answers = TASK.model.predict(pd.DataFrame(tips, columns=["income", "debt"]))
    assert ((answers != steps["query_id"].map(paths.groupby("query_id")["answer"].first())) == steps["met"]).all()
    (crosses,) = (drawn for drawn in axes.collections if drawn.get_label() == "goal not met")
    lost = paths.groupby("query_id").tail(1).query("~met")
    np.testing.assert_array_equal(crosses.get_offsets(), lost[["income", "debt"]])
    assert {"query", "first step", "second step"} <= set(axes.get_legend_handles_labels()[1])
    assert axes.get_title() == f"The dice\n{outcome(paths)}"
    assert len(arrows(axes)) > MOST_REWARDS
    assert not [text for text in axes.texts if text.get_text()]  # too many arrows to write rewards beside them


def test_rewards_are_written_beside_the_arrows_of_few_steps(paths) -> None:
    one = paths[paths["query_id"] == 0]
    figure = episodes_picture(TASK, one, "$x_1$")
    (axes,) = figure.axes
    written = [text.get_text() for text in axes.texts if text.get_text()]
    assert written == [
        f"r{step} = {reward:.3f}" for step, reward in zip(one["step"], one["reward"], strict=True) if step
    ]
    assert axes.get_title().startswith("$x_1$\n")
    figure.canvas.draw()  # a dollar is no formula


def test_the_outcome_counts_games_steps_and_returns(paths) -> None:
    ends = paths.groupby("query_id").agg({"met": "last", "step": "last", "reward": "sum"})
    assert outcome(paths) == (
        f"{ends['met'].sum()} of 10 meet the goal, {ends['step'].mean():.1f} steps, return {ends['reward'].mean():.2f}"
    )


@pytest.mark.slow
def test_episodes_of_more_than_two_features_have_a_frame_and_no_picture() -> None:
    task = load_task("breast_cancer/mlp")
    paths = follow(environment_of(task, task.X_test[:3], max_changes=4), dice())
    assert set(task.space.names) <= set(paths) and paths["step"].max() <= 4
    with pytest.raises(InputError, match="a plane needs two numbers"):
        episodes_picture(task, paths)
