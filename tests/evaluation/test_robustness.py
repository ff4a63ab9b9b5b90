"""Models fitted again and queries with noise: what lasts is counted by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from reference.misbehaving import small_task
from sklearn.linear_model import LogisticRegression

from relax_plugin import FeatureSpace, Goal
from relax_plugin.blackbox import BlackBox
from relax_plugin.evaluation.robustness import (
    bootstrap,
    can_be_refitted,
    future_validity,
    met_by,
    noisy,
    refit,
    refits,
)
from relax_plugin.evaluation.tasks import Task
from relax_plugin.other_models import further_models

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"x": RNG.normal(size=200).round(3), "y": RNG.integers(0, 5, 200), "town": ["Bonn", "Rome"] * 100})
NUMBERS = ROWS[["x"]]
LABELS = pd.Series((ROWS["x"] > 0.0).astype(int))


def task_of(model: Any) -> Task:
    space = FeatureSpace.infer(NUMBERS)
    return Task("made/up", model, space, None, NUMBERS[:150], NUMBERS[150:], LABELS[:150], LABELS[150:])


class Above:
    """Says 1 above a threshold."""

    classes_ = np.array([0, 1])

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def predict(self, rows: pd.DataFrame) -> Any:
        return (np.asarray(rows)[:, 0] > self.threshold).astype(int)

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        return np.eye(2)[self.predict(rows)]


def test_future_validity_is_the_share_of_models_that_still_agree() -> None:
    met = np.array([[True, False, True], [True, False, False]])
    assert future_validity(met).tolist() == [1.0, 0.0, 0.5]
    assert np.isnan(future_validity(np.zeros((0, 2), dtype=bool))).all()


def test_each_model_is_asked_about_each_row_for_the_goal_of_its_query() -> None:
    task = task_of(Above(0.0))
    space, training = task.space.taking_in(task.X_train)
    blackbox = BlackBox(task.model, space)
    blackbox.learn(training)
    models = further_models([Above(0.5), Above(-0.5), Above(1.5)], blackbox, space, training)
    rows = pd.DataFrame({"x": [1.0, 0.2, -0.2]})  # answers to queries 1, 0 and 2
    goal = Goal.flip().bind(blackbox, blackbox.confirm(pd.DataFrame({"x": [-1.0, -1.0, 1.0]})))
    told = met_by(models, space, rows, goal.take(np.array([1, 0, 2])))
    assert told.tolist() == [[True, False, True], [True, True, False], [False, False, True]]
    np.testing.assert_allclose(future_validity(told), [2 / 3, 1 / 3, 2 / 3])
    assert met_by(models, space, rows[:0], goal.take(np.zeros(0, dtype=int))).shape == (3, 0)


def test_a_bootstrap_sample_is_drawn_with_replacement_and_has_every_class() -> None:
    labels = np.array([0] * 60 + [1])
    for seed in range(20):
        rows = bootstrap(labels, seed, every_class=True)
        assert len(rows) == len(labels) and 60 in rows and len(set(rows.tolist())) < len(labels)
    assert any(60 not in bootstrap(labels, seed, every_class=False) for seed in range(20))


def test_a_model_is_fitted_again_on_other_rows_and_the_same_for_the_same_seed() -> None:
    task = task_of(LogisticRegression().fit(NUMBERS[:150], LABELS[:150]))
    one, same, other = refit(task, 7), refit(task, 7), refit(task, 8)
    assert one.coef_ == same.coef_ != other.coef_
    assert one.coef_ != task.model.coef_
    space, training = task.space.taking_in(task.X_train)
    blackbox = BlackBox(task.model, space)
    blackbox.learn(training)
    assert len(refits(task, blackbox, training, 3)) == 3


def test_what_cannot_be_fitted_again_is_not() -> None:
    task = small_task()
    assert not can_be_refitted(task_of(Above(0.0)))
    assert not can_be_refitted(replace(task_of(LogisticRegression()), y_train=pd.Series(dtype=float)))
    assert can_be_refitted(task_of(LogisticRegression()))
    assert refits(replace(task, model=Above(0.0)), BlackBox(Above(0.0), task.space), np.zeros((0, 4))) == ()


def test_noise_moves_numbers_a_little_on_their_grid_and_nothing_else() -> None:
    space = FeatureSpace.infer(ROWS, immutable=["y"], rules=["x <= 10"])
    moved, other = noisy(space, ROWS, seed=3)
    assert other.all()
    far = (moved["x"] - ROWS["x"]).abs()
    assert 0.02 < far.mean() < 0.08 and (moved["x"] == moved["x"].round(3)).all()
    assert moved["y"].dtype == ROWS["y"].dtype and (moved["y"] != ROWS["y"]).any() and moved["y"].between(0, 4).all()
    assert (moved["town"] == ROWS["town"]).all()
    pd.testing.assert_frame_equal(moved, noisy(space, ROWS, seed=3)[0])
    assert not moved.equals(noisy(space, ROWS, seed=4)[0])


def test_a_row_that_no_noise_suits_stays_as_it_is() -> None:
    strict = FeatureSpace.infer(NUMBERS, rules=["x == was(x)"])
    rows, other = noisy(strict, NUMBERS[:5], seed=0)
    assert not other.any()
    pd.testing.assert_frame_equal(rows, NUMBERS[:5])
