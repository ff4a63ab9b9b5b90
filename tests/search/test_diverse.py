"""Several counterfactuals a query: distinct, valid, within the limits, and all there are where there are few."""

import numpy as np
import pandas as pd
import pytest
from reference.problems import ORIGIN, problem_of

from relax_plugin import FeatureSpace, make_explainer
from relax_plugin.problem import Proposals
from relax_plugin.search.diverse import fill_slots

RNG = np.random.default_rng(2)
ROWS = pd.DataFrame({"letter": RNG.choice(list("abc"), 60), "count": RNG.integers(1, 11, 60)})


def chance(rows: pd.DataFrame) -> np.ndarray:
    """Class 1 for 'b', and for 'c' with a count above four."""
    upper = (rows["letter"] == "b") | ((rows["letter"] == "c") & (rows["count"] > 4))
    return np.column_stack([~upper, upper]).astype(float)


def test_of_few_rows_that_meet_the_goal_all_are_found():
    """14 of the 30 possible rows are of class 0: whoever asks for so many gets nearly all of them."""
    queries = pd.DataFrame({"letter": list("bcb"), "count": [3, 9, 10]})
    result = make_explainer("greedy", chance).fit(ROWS).explain(queries, n=14)
    assert result.found.sum(axis=1).min() >= 12
    frame = result.frame
    assert not frame.drop(columns="cf_id").duplicated().any()
    assert (chance(frame).argmax(axis=1) == 0).all()
    assert frame["count"].between(1, 10).all()


@pytest.mark.parametrize("name", ["greedy", "move-table"])
def test_what_fills_the_last_slots_keeps_every_constraint(name):
    space = FeatureSpace.infer(ROWS, increase_only=["count"], bounds={"letter": ["a", "c"]})
    queries = pd.DataFrame({"letter": list("bbb"), "count": [2, 3, 8]})
    result = make_explainer(name, chance, space, max_changes=2).fit(ROWS).explain(queries, n=8)
    frame = result.frame
    assert (frame["count"].to_numpy() >= queries["count"].to_numpy()[frame["query_id"]]).all()
    assert set(frame["letter"]) <= {"a", "c"}
    assert result.found.sum(axis=1).tolist()[0] == 8  # "a" with a count of 2 to 10, "c" with one of 2 to 4
    assert (np.nan_to_num(result.sparsity) <= 2).all()


def test_a_single_change_fills_many_slots_only_with_values_of_one_feature():
    result = make_explainer("greedy", chance, max_changes=1).fit(ROWS).explain(ROWS[:20], n=6)
    assert np.nanmax(result.sparsity) == 1
    assert not result.frame.drop(columns="cf_id").duplicated().any()


def test_each_further_one_does_without_the_largest_change_of_the_one_before():
    problem = problem_of(lambda x: x.sum(axis=1), ORIGIN)
    frozen = []

    def solve(part):
        """Moves what may move by 5, 7 and 3."""
        made = Proposals.empty(part, 1)
        frozen.append(part.limits.frozen[0].tolist())
        made.values[:, 0] = np.where(part.limits.frozen, part.start, [5.0, 7.0, 3.0])
        made.offered[:] = True
        return made

    made = fill_slots(problem, 3, solve, np.random.default_rng(0))
    assert frozen == [[False, False, False], [False, True, False], [True, True, False]]
    assert made.values[0].tolist() == [[5, 7, 3], [5, 0, 3], [0, 0, 3]]


def test_a_slot_left_empty_is_filled_with_another_row_and_never_with_one_that_is_there():
    """Six whole numbers from 5 to 10 meet the goal: draws are bound to repeat themselves."""
    rows = np.tile(np.arange(11)[:, None], 3)
    problem = problem_of(lambda x: x[:, 0] / 5, ORIGIN, rows=rows, max_changes=1)

    def solve(part):
        """Knows one answer, and none without its feature."""
        made = Proposals.empty(part, 1)
        free = ~np.broadcast_to(part.limits.frozen, part.start.shape)[:, 0]
        made.values[free, 0, 0], made.offered[:, 0] = 7.0, free
        return made

    made = fill_slots(problem, 6, solve, np.random.default_rng(0))
    assert made.offered.all()
    assert sorted(made.values[0, :, 0]) == [5, 6, 7, 8, 9, 10]
    assert (made.values[0, :, 1:] == 0).all()
    assert made.stage[0, 1:].tolist() == ["variant"] * 5


@pytest.mark.slow
def test_two_thousand_counterfactuals_are_asked_for_and_the_call_ends():
    rows = pd.DataFrame(np.random.default_rng(0).normal(0, 1, (80, 4)).round(3), columns=list("abcd"))

    def above(asked: pd.DataFrame) -> np.ndarray:
        chance = 1 / (1 + np.exp(-2 * (asked["a"] + asked["b"]).to_numpy()))
        return np.column_stack([1 - chance, chance])

    result = make_explainer("greedy", above).fit(rows).explain(rows[:3], n=2000)
    assert result.found.shape == (3, 2000) and result.found.sum(axis=1).min() > 200
    assert not result.frame.drop(columns="cf_id").duplicated().any()
    before = above(rows[:3]).argmax(axis=1)[result.frame["query_id"]]
    assert (above(result.frame).argmax(axis=1) != before).all()
