"""`growing-spheres`: rows drawn evenly in shells, the nearest that turns the model, and few of its changes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace, make_explainer
from relax_plugin.baselines.growing_spheres import GrowingSpheres, _Shells, sparsified
from relax_plugin.problem import Problem, Proposals

RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(RNG.normal(size=(300, 3)), columns=list("abc"))
WIDE = dict.fromkeys(ROWS, (-50.0, 50.0))


def linear(rows: Any) -> Any:
    """Class 1 beyond the plane a + b = 1.5."""
    return (np.asarray(rows, dtype=float)[:, :2].sum(axis=1) > 1.5).astype(int)


class Looked(GrowingSpheres):
    """Keeps the problem that it is given."""

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        self.problem_.append(problem)
        return super()._generate(problem, n, rng)


def problem_of(space: FeatureSpace, queries: pd.DataFrame, model: Any = linear, **call: Any) -> Problem:
    explainer = Looked(model, space, samples=5).fit(ROWS)
    explainer.problem_ = []
    explainer.explain(queries, **call)
    return explainer.problem_[0]


def test_a_shell_is_filled_evenly() -> None:
    problem = problem_of(FeatureSpace.infer(ROWS, bounds=WIDE), ROWS[:1])
    shells = _Shells(problem, 20_000, 1.0, np.random.default_rng(0))
    rows = shells.rows(np.array([0]), np.array([1.0]), np.array([2.0]))
    moved = (rows - problem.start[0]) / problem.space.scale
    radius = np.sqrt(np.square(moved).sum(axis=1))
    assert radius.min() >= 1.0 - 1e-9 and radius.max() <= 2.0 + 1e-9
    # Half of the volume between 1 and 2 in three dimensions lies within the cube root of 4.5.
    assert np.mean(radius < 4.5 ** (1 / 3)) == pytest.approx(0.5, abs=0.02)
    assert np.abs(moved.mean(axis=0)).max() < 0.05


def test_a_feature_that_may_only_rise_is_drawn_above_the_query() -> None:
    space = FeatureSpace.infer(ROWS, bounds=WIDE, increase_only=["a"], immutable=["c"])
    problem = problem_of(space, ROWS[:1])
    rows = _Shells(problem, 500, 1.0, np.random.default_rng(0)).rows(np.array([0]), np.array([0.5]), np.array([1.0]))
    assert (rows[:, 0] > problem.start[0, 0]).all()
    assert (rows[:, 2] == problem.start[0, 2]).all()
    radius = np.sqrt(np.square((rows - problem.start[0]) / problem.space.scale).sum(axis=1))
    assert radius.min() >= 0.5 - 1e-9, "though it has two dimensions only"


def test_on_a_linear_model_it_ends_near_the_nearest_row_there_is() -> None:
    queries = ROWS[linear(ROWS) == 0][:20]
    found = GrowingSpheres(linear, FeatureSpace.infer(ROWS, bounds=WIDE), samples=3000).fit(ROWS).explain(queries)
    assert found.found.all()
    scale = found.space.scale
    best = (1.5 - queries[["a", "b"]].sum(axis=1).to_numpy()) / np.sqrt(np.square(scale[:2]).sum())
    away = np.sqrt(np.square((found.values[:, 0] - found.start) / scale).sum(axis=1))
    assert (away < 1.25 * best + 1e-9).all()
    assert (away > best).all()


def test_the_smallest_change_is_undone_first_and_the_first_that_is_needed_ends_it() -> None:
    start = pd.DataFrame({"a": [0.0], "b": [0.0], "c": [0.0]})
    problem = problem_of(FeatureSpace.infer(ROWS, bounds=WIDE), start)
    # c goes; then a is the smallest, and needed; b, which is not, stays: the paper ends there.
    rows = np.array([[0.4, 1.2, 0.1]])
    assert sparsified(problem, rows, np.array([0])).tolist() == [[0.4, 1.2, 0.0]]
    assert sparsified(problem, np.array([[0.1, 1.6, 0.3]]), np.array([0])).tolist() == [[0.0, 1.6, 0.0]]


def test_no_row_drawn_changes_more_than_may_be_changed() -> None:
    problem = problem_of(FeatureSpace.infer(ROWS, bounds=WIDE), ROWS[:2], max_changes=1)
    rows = _Shells(problem, 200, 1.0, np.random.default_rng(0)).rows(np.arange(2), np.zeros(2), np.ones(2))
    changed = rows != np.repeat(problem.start, 200, axis=0)
    assert (changed.sum(axis=1) == 1).all()
    assert changed.any(axis=0).all()


def test_categories_alone_are_enough() -> None:
    rows = pd.DataFrame({"town": RNG.choice(list("uvwx"), 100), "job": RNG.choice(list("mn"), 100)})

    def model(asked: pd.DataFrame) -> Any:
        return ((asked["town"] == "x") & (asked["job"] == "m")).astype(int).to_numpy()

    found = make_explainer("growing-spheres", model).fit(rows).explain(rows[:20])
    assert found.found.all()


def test_a_query_is_explained_the_same_alone_and_in_company() -> None:
    explainer = GrowingSpheres(linear, FeatureSpace.infer(ROWS)).fit(ROWS)
    together = explainer.explain(ROWS[:6])
    for place in (0, 5):
        alone = explainer.explain(ROWS[place : place + 1])
        np.testing.assert_array_equal(alone.values[0], together.values[place])
