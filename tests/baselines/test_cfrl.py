"""`cfrl`: an actor that learns from the model's labels to answer every row in one step."""

import numpy as np
import pandas as pd
import pytest
import torch

from relax_plugin import FeatureSpace
from relax_plugin.baselines.cfrl import CFRL, FARTHEST, Agent

RNG = np.random.default_rng(9)
ROWS = pd.DataFrame({"a": RNG.normal(size=300), "b": RNG.normal(size=300) * 10, "town": RNG.choice(list("uvw"), 300)})


def model(rows: pd.DataFrame) -> np.ndarray:
    """Labels alone, of two features; `b` has nothing to do with them."""
    return (rows["a"].to_numpy() + 1.5 * (rows["town"] == "w").to_numpy() > 0.8).astype(int)


def own_answers(explainer: CFRL) -> tuple[float, np.ndarray]:
    """How often the actor alone, without tries, meets the goal; and how often it changes each feature."""
    result = explainer.explain(ROWS[:100])
    by_actor = result.stages[:, 0] == "actor"
    changed = (result.values[:, 0] != result.start)[by_actor]
    return float(by_actor.mean()), changed.mean(axis=0)


@pytest.mark.slow
def test_training_makes_the_actors_own_answers_valid_and_leaves_what_does_not_matter() -> None:
    untrained, _ = own_answers(CFRL(model, steps=1).fit(ROWS))
    trained, changed = own_answers(CFRL(model, steps=400).fit(ROWS))
    assert trained >= 0.7 > untrained + 0.2
    assert changed[1] < 0.6 * max(changed[0], changed[2])


def test_an_action_gives_the_row_that_it_was_read_off() -> None:
    space = FeatureSpace.infer(ROWS)
    agent, values = Agent(space, 2, 0), space.values(ROWS)
    start, rows = values[:50], values[50:100].copy()
    near = np.abs(rows[:, :2] - start[:, :2]) / space.scale[:2] < FARTHEST
    rows[:, :2] = np.where(near, rows[:, :2], start[:, :2])
    again = agent.decoded(start, agent.action(start, rows))
    far = np.abs(rows[:, :2] - start[:, :2]) / space.scale[:2] >= 0.05
    np.testing.assert_allclose(again[:, :2][far], rows[:, :2][far])
    assert (again[:, 2] == rows[:, 2]).all()


def test_the_consistency_knows_bounds_directions_and_what_is_immutable() -> None:
    space = FeatureSpace.infer(ROWS[["a", "b"]].assign(c=ROWS["a"]), immutable=["c"], increase_only=["b"])
    least, most = Agent(space, 2, 0)._reach(torch.zeros(1, 3))
    high = [(ROWS[name].max() - ROWS[name].mean()) / space.scale[j] for j, name in enumerate("ab")]
    assert most[0].tolist() == pytest.approx([high[0], high[1], 0.0], rel=1e-3)
    assert least[0, 0] < 0 and least[0, 1:].tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_tries_with_noise_find_what_the_actor_does_not() -> None:
    explainer = CFRL(model, steps=1).fit(ROWS)
    found = explainer.explain(ROWS[:60])
    stages = set(found.stages[:, 0])
    assert "actor, with noise" in stages
    assert found.found.sum() > (found.stages[:, 0] == "actor").sum()


@pytest.mark.slow
def test_a_query_is_explained_the_same_alone_and_in_company() -> None:
    explainer = CFRL(model, steps=30).fit(ROWS)
    together = explainer.explain(ROWS[:6])
    for place in (0, 5):
        np.testing.assert_array_equal(explainer.explain(ROWS[place : place + 1]).values[0], together.values[place])
