"""`fastar`: a policy that walks rows to the wanted class, one step of one feature at a time."""

import numpy as np
import pandas as pd
import pytest
import torch

from relax_plugin import FeatureSpace
from relax_plugin.baselines.fastar import (
    CLIP,
    DISCOUNT,
    STRIDE,
    TRACE,
    TURN,
    WALKERS,
    FastAR,
    Policy,
    Walkers,
    Ways,
)

RNG = np.random.default_rng(9)
ROWS = pd.DataFrame({"a": RNG.normal(size=300), "b": RNG.normal(size=300) * 10, "town": RNG.choice(list("uvw"), 300)})


def model(rows: pd.DataFrame) -> np.ndarray:
    """Labels alone, of two features; `b` has nothing to do with them."""
    return (rows["a"].to_numpy() + 1.5 * (rows["town"] == "w").to_numpy() > 0.8).astype(int)


@pytest.mark.slow
def test_training_makes_more_walks_arrive_in_fewer_steps_and_leaves_what_does_not_matter() -> None:
    untrained, trained = (FastAR(model, steps=steps).fit(ROWS).explain(ROWS[:100]) for steps in (1, 40_000))
    arrived = [(result.stages[:, 0] == "policy").mean() for result in (untrained, trained)]
    assert arrived[1] >= 0.95 > arrived[0] + 0.1
    assert trained.rows_queried.mean() < 0.5 * untrained.rows_queried.mean()
    changed = (trained.values[:, 0] != trained.start)[trained.found[:, 0]].mean(axis=0)
    assert changed[1] < 0.3 * max(changed[0], changed[2])


def test_a_step_moves_one_feature_within_bounds_direction_and_number_of_changes() -> None:
    table = ROWS.assign(c=ROWS["a"])
    space = FeatureSpace.infer(table, immutable=["c"], increase_only=["b"])
    start = space.values(table)[:1]
    ways = Ways(space, space.limits(values=start), start, max_changes=1)
    here, first = np.zeros(1, dtype=int), ways.open_to(start, np.zeros(1, dtype=int))[0]
    assert first[[0, 1, 2, 3]].tolist() == [True, True, True, False]
    assert not first[6:].any(), "c is immutable"
    moved = ways.moved(start, np.array([0]), here)
    assert (moved != start).sum() == 1
    reach = ROWS["a"].max() - ROWS["a"].min()
    assert moved[0, 0] - start[0, 0] == pytest.approx(STRIDE * reach, rel=1e-3)
    assert np.flatnonzero(ways.open_to(moved, here)[0]).tolist() == [0, 1], "one change is all"


def test_a_category_goes_to_the_next_one_and_ends_at_the_last() -> None:
    space = FeatureSpace.infer(ROWS)
    start = space.values(ROWS[ROWS["town"] == "v"])[:1]
    here, ways = np.zeros(1, dtype=int), Ways(space, space.limits(values=start), start, 3)
    last = ways.moved(start, np.array([4]), here)
    assert last[0, 2] == start[0, 2] + 1
    assert ways.open_to(last, here)[0, 4:].tolist() == [False, True]


def test_advantages_are_those_of_a_plain_loop_over_each_walk() -> None:
    explainer = FastAR(model, steps=1).fit(ROWS)
    walkers = Walkers(explainer, np.random.default_rng(0))
    told: list[tuple[np.ndarray, np.ndarray]] = []
    rewards = walkers._rewards

    def noted() -> tuple[np.ndarray, np.ndarray]:
        told.append(rewards())
        return told[-1]

    walkers._rewards = noted  # type: ignore[method-assign]
    *_, advantage, worth = walkers.turn()
    value = worth - advantage
    after = explainer.actor_.values(walkers.now, walkers.wanted)
    ended = np.array([arrived for _, arrived in told])
    for walker in range(WALKERS):
        for step in (0, TURN - 5):
            total, weight = 0.0, 1.0
            for later in range(step, TURN):
                following = after[walker] if later == TURN - 1 else value[later + 1, walker]
                goes_on = not ended[later, walker]
                total += weight * (told[later][0][walker] + DISCOUNT * following * goes_on - value[later, walker])
                weight *= DISCOUNT * TRACE
                if not goes_on:
                    break
            assert advantage[step, walker] == pytest.approx(total, abs=1e-5)


def test_learning_makes_an_action_that_paid_more_probable_but_not_by_leaps() -> None:
    space = FeatureSpace.infer(ROWS)
    policy, rng = Policy(space, 2, 0), np.random.default_rng(0)
    rows, wanted = space.values(ROWS)[:64], np.ones(64, dtype=int)
    open_ = np.ones((64, policy.actions), dtype=bool)
    before = policy.chances(rows, wanted, open_)
    action = rng.integers(policy.actions, size=64)
    paid = np.where(action == 2, 1.0, -0.2)
    seen = before[np.arange(64), action]
    parts = (policy.state(rows, wanted), open_, action, seen, paid, paid)
    policy.learn(tuple(part[None] for part in parts), rng)
    after = policy.chances(rows, wanted, open_)
    assert (after[:, 2] > before[:, 2]).all()
    assert np.exp(after - before).max() < 1.0 + 4 * CLIP
    assert np.exp(after).sum(axis=1) == pytest.approx(1.0, abs=1e-3)


def test_actions_that_are_not_open_have_no_chance() -> None:
    space = FeatureSpace.infer(ROWS)
    policy = Policy(space, 2, 0)
    open_ = torch.zeros(1, policy.actions, dtype=torch.bool)
    open_[0, 3] = True
    chances = policy.chances(space.values(ROWS)[:1], np.ones(1, dtype=int), open_.numpy())
    assert np.exp(chances[0]).tolist() == pytest.approx(np.eye(policy.actions)[3].tolist())


@pytest.mark.slow
def test_a_query_is_explained_the_same_alone_and_in_company() -> None:
    explainer = FastAR(model, steps=4_000).fit(ROWS)
    together = explainer.explain(ROWS[:6])
    for place in (0, 5):
        np.testing.assert_array_equal(explainer.explain(ROWS[place : place + 1]).values[0], together.values[place])
