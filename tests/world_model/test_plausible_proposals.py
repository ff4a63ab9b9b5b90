"""Plausible proposals: within every limit, no outliers, with the gaps that the world model predicts."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from reference.worlds import problem_of, world_of

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.search.greedy import Moves
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.rescue import QUANTILES
from relax_plugin.wishes.plausibility import Plausibility, PlausibleRows, TrainingRows
from relax_plugin.world_model.model import ImaginedBlackBox
from relax_plugin.world_model.plausible_proposals import PlausibleImagination, PlausibleSource, plausible_rows

RNG = np.random.default_rng(3)
LINE = RNG.normal(size=300)
TOWNS = np.where(LINE + 0.3 * RNG.normal(size=300) > 0, "Rome", "Oslo")
ROWS = pd.DataFrame(
    {
        "a": LINE.round(2),
        "b": (LINE + 0.05 * RNG.normal(size=300)).round(2),
        "c": RNG.normal(size=300).round(2),
        "town": TOWNS,
    }
)
SPACE = FeatureSpace.infer(ROWS)
VALUES = SPACE.values(ROWS)
MOVES = Moves.quantiles(VALUES, SPACE, QUANTILES)


def model(rows):
    positive = 1 / (1 + np.exp(-(rows["a"] + rows["b"] + 0.1 * rows["c"]).to_numpy(dtype=float) * 3))
    return np.column_stack([1 - positive, positive])


@cache
def world():
    return world_of(model, ROWS, space=SPACE, share=0.3)


@cache
def answered():
    return AnsweredRows(Neighbours.of(VALUES), ImaginedBlackBox(world()).ask)


def problem_under_plausibility(start=VALUES[:16], limits=None, max_changes=3, quantile=0.05):
    problem = problem_of(world().blackbox, start, Goal.flip(), max_changes, limits)
    detector = TrainingRows.of(SPACE, VALUES).detector(Plausibility(quantile=quantile))
    return problem.under(PlausibleRows.of(detector, start))


def rows_of(problem, changes):
    query, position = np.nonzero(np.isfinite(changes.gap))
    return changes.of(query).rows(problem.start[query], position), query, changes.gap[query, position]


@pytest.mark.parametrize(
    "limits",
    [
        SPACE.limits(),
        SPACE.limits(bounds={"a": (-1.0, 1.0), "town": ["Rome"]}),
        SPACE.limits(vary=["a", "b"]),
    ],
)
def test_every_proposal_is_plausible_within_the_limits_and_has_the_gap_that_is_imagined(limits):
    problem = problem_under_plausibility(limits=limits)
    changes = PlausibleImagination(world(), problem, MOVES, answered()).propose()
    rows, query, gap = rows_of(problem, changes)
    assert len(np.unique(query)) > 8
    assert plausible_rows(problem).holds(rows, query).all()
    assert problem.limits.take(query).kept(rows, problem.start[query]).all()
    count = (rows != problem.start[query]).sum(axis=1)
    assert (count.min() >= 1 and count.max() == 3) or count.max() == 2 == np.count_nonzero(~limits.frozen)
    np.testing.assert_allclose(gap, world().gap(problem.goal.take(query), rows), rtol=1e-3, atol=1e-3)


def test_it_costs_no_model_rows():
    problem = problem_under_plausibility()
    PlausibleImagination(world(), problem, MOVES, answered()).propose()
    assert problem.spent.sum() == 0


def test_both_columns_of_a_line_are_moved_through_states_that_are_implausible():
    problem = problem_under_plausibility(VALUES[np.abs(VALUES[:, 0]) > 0.8][:12])
    rows, query, gap = rows_of(problem, PlausibleImagination(world(), problem, MOVES, answered()).propose())
    valid = gap < 0
    assert len(np.unique(query[valid])) >= 9
    both = (rows != problem.start[query])[:, :2].all(axis=1)
    assert both[valid].mean() > 0.9
    one_alone = rows[valid & both].copy()
    one_alone[:, 1] = problem.start[query[valid & both], 1]
    assert (~plausible_rows(problem).holds(one_alone, query[valid & both])).sum() > 5


def test_queries_are_searched_as_if_each_were_alone():
    problem = problem_under_plausibility()
    together, _, _ = rows_of(problem, PlausibleImagination(world(), problem, MOVES, answered()).propose())
    apart = []
    for query in range(len(problem)):
        part = problem.part(np.array([query]))
        apart.append(rows_of(part, PlausibleImagination(world(), part, MOVES, answered()).propose())[0])
    assert {row.tobytes() for row in together} == {row.tobytes() for row in np.concatenate(apart)}


def test_nothing_is_proposed_where_nothing_may_change_and_there_is_no_source_without_the_condition():
    problem = problem_under_plausibility(limits=SPACE.limits(vary=[]))
    changes = PlausibleImagination(world(), problem, MOVES, answered()).propose()
    assert np.isinf(changes.gap).all()
    plain = problem_of(world().blackbox, VALUES[:4])
    assert plausible_rows(plain) is None
    assert PlausibleSource.of(world(), plain, MOVES, answered().neighbours) is None


@pytest.mark.slow
def test_the_model_is_never_asked_about_rows_that_may_not_be_delivered():
    asked = []

    def watched(rows):
        asked.append(rows.copy())
        return model(rows)

    explainer = make_explainer("surrogate-search", watched, SPACE, query_budget=400).fit(ROWS)
    asked.clear()
    result = explainer.explain(ROWS[:30], plausible="require")
    assert result.found.mean() > 0.9 and result.rows_queried.mean() < 15
    detector = explainer.training_rows_.detector(Plausibility())
    start = SPACE.values(ROWS[:30])
    lowest = PlausibleRows.of(detector, start).bar.min()
    values = np.concatenate([SPACE.values(rows) for rows in asked[1:]])
    solved_all = result.found.all()
    assert not solved_all or (detector.score(values) >= lowest).all()
    assert solved_all, "else a few rows are asked to tell why"


@pytest.mark.slow
def test_a_status_tells_how_many_changes_would_do():
    explainer = make_explainer("surrogate-search", model, SPACE, query_budget=400, max_changes=1).fit(ROWS)
    far = ROWS[np.abs(ROWS["a"]) > 1.0][:20]
    result = explainer.explain(far, plausible="require")
    told = result.status[~result.found[:, 0], 0]
    assert len(told) > 10
    assert {text.partition(";")[0] for text in told} == {"none that is plausible was found within 1 changes"}
    assert any(text.endswith(("; 2 would do", "; 3 would do")) for text in told)
