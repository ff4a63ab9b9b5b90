"""`nearest-ct`: the distance it sorts by, and that pieces of any size give the answers of one piece in less memory."""

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import pairwise_distances

from relax_plugin import FeatureSpace, Goal
from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.baselines.nearest_ct import ROUNDS, NearestCT
from relax_plugin.blackbox import Answer
from relax_plugin.problem import Problem
from relax_plugin.search import neighbours
from relax_plugin.search.neighbours import _l1_columns

RNG = np.random.default_rng(3)
ROWS = 400
MIXED = pd.DataFrame(
    {
        "amount": RNG.normal(size=ROWS).round(1),  # coarse, so that many rows are equally far
        "count": RNG.integers(0, 4, ROWS),
        "town": RNG.choice(["Rome", "Bonn", "Oslo"], ROWS),
        "owns": RNG.random(ROWS) > 0.5,
    }
)
MEBIBYTE = 2**20


def chances(rows: pd.DataFrame) -> Any:
    logit = rows["amount"].to_numpy(float) + rows["count"].to_numpy(float) - 1.5 + 2 * (rows["town"] == "Rome")
    chance = 1 / (1 + np.exp(-np.asarray(logit)))
    return np.column_stack([1 - chance, chance])


class Unchunked(NearestCT):
    """The formula over all queries and all training rows at once."""

    def _learn_answers(self) -> None:
        self.answered_ = Formula(self.neighbours_.rows, self.blackbox_.ask(self.neighbours_.rows))


class Formula:
    """Training rows and their answers, sorted as a whole: what `AnsweredRows` is compared with."""

    def __init__(self, rows: Values, answers: Answer) -> None:
        self.rows, self.answers = rows, answers

    def nearest(self, problem: Problem, count: int) -> tuple[Integers, Integers]:
        movable = np.asarray(~np.broadcast_to(problem.limits.frozen, problem.start.shape).all(axis=0))
        queries = _l1_columns(problem.space, problem.start, movable, False)
        distance = pairwise_distances(
            queries, _l1_columns(problem.space, self.rows, movable, False), metric="manhattan"
        )
        answers = self.answers.take(np.tile(np.arange(len(self.rows)), len(problem)))
        met = problem.goal.take(np.repeat(np.arange(len(problem)), len(self.rows))).met(answers)
        distance[~met.reshape(distance.shape)] = np.inf
        order = np.argsort(distance, axis=1, kind="stable")[:, :count]
        return order, np.minimum(np.isfinite(distance).sum(axis=1), order.shape[1])


class Compared(NearestCT):
    """Compares every order it makes with that formula's."""

    def _nearest(self, problem: Problem, n: int) -> tuple[Floats, Booleans]:
        made = self.answered_.nearest(problem, sum(ROUNDS) + len(self.space_))
        formula = Formula(self.neighbours_.rows, self.answered_.answers)
        expected = formula.nearest(problem, sum(ROUNDS) + len(self.space_))
        np.testing.assert_array_equal(made[0], expected[0])
        np.testing.assert_array_equal(made[1], expected[1])
        return super()._nearest(problem, n)


@pytest.fixture(
    params=[(1, 37, 11), (900, 150, 90), (10**9, 10**9, 10**9)], ids=["a query each", "pieces", "one piece"]
)
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one query, of a few that divide nothing evenly, and everything in one."""
    for name, size in zip(("DISTANCES", "TRAINING_CHUNK", "ASKED"), request.param, strict=True):
        monkeypatch.setattr(neighbours, name, size)


@pytest.mark.slow
@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("reverted", [False, True])
def test_pieces_of_any_size_give_the_order_and_the_answers_of_the_whole(reverted: bool) -> None:
    space = FeatureSpace.infer(MIXED, increase_only=["count"])
    queries = MIXED[:25]
    ours = Compared(chances, space, reverted=reverted, max_changes=3).fit(MIXED)
    whole = Unchunked(chances, space, reverted=reverted, max_changes=3).fit(MIXED)
    for options in ({}, {"n": 3}, {"vary": ["amount", "town"]}, {"goal": Goal.to(1, min_probability=0.9)}):
        first, second = ours.explain(queries, **options), whole.explain(queries, **options)
        pd.testing.assert_frame_equal(first.frame, second.frame, check_exact=True)
        assert first.rows_queried.tolist() == second.rows_queried.tolist()
        assert first.found.any()
    assert ours.fit_rows_ == whole.fit_rows_


def two_ways(number: float) -> pd.DataFrame:
    """A query, a row of another town, and one whose number is so many standard deviations away."""
    rows = pd.DataFrame({"x": [0.0, 0.0, 1.0, -50.0, 50.0], "town": ["Bonn", "Rome", "Bonn", "Oslo", "Oslo"]})
    rows.loc[2, "x"] = number * FeatureSpace.infer(rows).scale[0]
    return rows


def not_the_query(rows: pd.DataFrame) -> Any:
    """Every row but the query, and those beside it, is of the other class."""
    other = ((rows["town"] == "Rome") | (rows["x"] > 1e-6)).to_numpy() & (rows["town"] != "Oslo").to_numpy()
    return np.where(other, "other", "same")


@pytest.mark.parametrize(("number", "nearer"), [(0.9, "x"), (1.1, "town")])
def test_another_category_is_as_far_as_one_standard_deviation(number: float, nearer: str) -> None:
    rows = two_ways(number)
    result = NearestCT(not_the_query).fit(rows).explain(rows[:1])
    assert result.found.all()
    assert result.changes()["feature"].tolist() == [nearer]


@pytest.mark.slow
def test_memory_does_not_grow_with_queries_times_training_rows() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200_000, 4))

    def model(asked: Any) -> Any:
        chance = 1 / (1 + np.exp(-asked.sum(axis=1)))
        return np.column_stack([1 - chance, chance])

    tracemalloc.start()
    try:
        explainer = NearestCT(model).fit(rows)
        tracemalloc.reset_peak()
        held, _ = tracemalloc.get_traced_memory()
        result = explainer.explain(rows[:100])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.found.all()
    distances = 100 * 200_000 * 8  # bytes, of every query to every training row
    assert peak - held < distances, "all distances at once, and what is made of them, take several times as much"
    assert peak - held < 160 * MEBIBYTE


def test_the_model_is_not_asked_about_all_training_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "ASKED", 150)
    sizes = []

    def model(asked: Any) -> Any:
        sizes.append(len(asked))
        return chances(asked)

    explainer = NearestCT(model).fit(MIXED)
    distinct = len(MIXED.drop_duplicates())
    pieces = [150] * (distinct // 150) + [distinct % 150]
    assert sizes[-len(pieces) :] == pieces  # after those that show the classes
    assert explainer.fit_rows_ == sum(sizes)
