"""Filled slots: all distinct valid rows, up to the number that was asked for, and needless changes last."""

import itertools

import numpy as np
import pandas as pd
import pytest
from reference.problems import ORIGIN, problem_of

from relax_plugin import FeatureSpace, make_explainer
from relax_plugin.problem import Proposals
from relax_plugin.search.diverse import fill

CHOICES = {"letter": list("abc"), "owns": [False, True], "rooms": [1, 2, 3, 4]}
GRID = pd.DataFrame(list(itertools.product(*CHOICES.values())), columns=list(CHOICES))


@pytest.mark.parametrize("seed", range(6))
def test_of_a_small_table_every_valid_row_is_delivered_once(seed: int) -> None:
    """The model knows the 24 rows of the grid by heart, each with a probability of its own."""
    chances = dict(zip(GRID.itertuples(index=False, name=None), np.random.default_rng(seed).random(24), strict=True))

    def model(rows: pd.DataFrame) -> np.ndarray:
        upper = np.array([0.85 * chances[row] for row in rows.itertuples(index=False, name=None)])
        return np.column_stack([1 - upper, upper])

    classes = model(GRID).argmax(axis=1)

    explainer = make_explainer("greedy", model, FeatureSpace.infer(GRID, categorical=["rooms"])).fit(GRID)
    explainer.fills = True
    queries = GRID[classes == 0]
    valid = set(GRID[classes == 1].itertuples(index=False, name=None))
    for n in (4, 20):
        made = explainer.explain(queries, n=n)
        columns = list(CHOICES)
        for _, delivered in made.frame.groupby("query_id"):
            rows = [tuple(row) for row in delivered[columns].itertuples(index=False, name=None)]
            assert len(rows) == len(set(rows)) == min(n, len(valid))
            assert set(rows) <= valid
        assert made.found[:, 0].all()


def test_needless_changes_come_only_where_no_other_row_is_left() -> None:
    """Feature 0 must be at least 4; with six training values from 4 to 9, six rows need no other change."""
    rows = np.column_stack([np.arange(10.0), np.arange(10.0), np.arange(10.0)])
    problem = problem_of(lambda x: (x[:, 0] >= 4).astype(float), ORIGIN, rows)
    made = Proposals.empty(problem, 12)
    made.values[0, 0], made.offered[0, 0], made.stage[0, 0] = [4, 0, 0], True, "known"
    filled = fill(problem, made, rows, np.random.default_rng(0))
    assert filled.offered.all()
    assert sorted(filled.values[0, :6, 0]) == [4, 5, 6, 7, 8, 9]
    assert (filled.values[0, :6, 1:] == 0).all()
    assert ((filled.values[0, 6:, 1:] != 0).sum(axis=1) == 1).all()
    assert len(np.unique(filled.values[0], axis=0)) == 12
    assert filled.stage[0].tolist() == ["known", *["further"] * 11]


def test_filled_rows_keep_the_constraints_and_the_number_of_changes() -> None:
    rows = np.column_stack([np.arange(10.0), np.arange(10.0), np.arange(10.0)])
    problem = problem_of(lambda x: (x.sum(axis=1) >= 4) * 1.0, ORIGIN, rows, max_changes=1, immutable=["x2"])
    made = Proposals.empty(problem, 30)
    made.values[0, 0], made.offered[0, 0] = [4, 0, 0], True
    filled = fill(problem, made, rows, np.random.default_rng(0))
    found = filled.values[0, filled.offered[0]]
    assert sorted(found[:, 0]) == [4, 5, 6, 7, 8, 9]
    assert (found[:, 1:] == 0).all()


def test_a_query_without_a_counterfactual_and_one_whose_slots_are_full_cost_nothing() -> None:
    problem = problem_of(lambda x: (x[:, 0] >= 4).astype(float), [[0.0, 0, 0], [0.0, 0, 0]], np.eye(3) * 9)
    made = Proposals.empty(problem, 2)
    made.values[0], made.offered[0] = [[4, 0, 0], [5, 0, 0]], True
    fill(problem, made, np.eye(3) * 9, np.random.default_rng(0))
    assert problem.spent.tolist() == [0, 0]
    assert made.offered.tolist() == [[True, True], [False, False]]
