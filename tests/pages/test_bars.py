"""Bars: places between 0 and 100 that agree with the numbers they stand for."""

import numpy as np
import pytest
from reference.readable import ROWS, explained, regression

from relax_plugin import Goal
from relax_plugin.pages.card import Bars


def test_a_probability_fills_its_bar_and_marks_where_it_was():
    result = explained()
    bars = Bars(result)
    for query in range(len(result)):
        reached = list(result.asked.classes).index(result.after[query, 0])
        bar = bars.of_answer(query, result.after[query, 0], result.scores_after[query, 0])
        assert bar.fill == 100 * result.scores_after[query, 0, reached]
        assert bar.mark == 100 * result.scores_before[query, reached]
        assert bar.mark < bar.line == 50.0 < bar.fill


def test_a_rise_that_was_asked_for_is_a_line_above_where_the_query_is():
    result = explained(rows=30, goal=Goal.to("good", raise_by=0.1))
    query = int(np.flatnonzero(result.found[:, 0])[0])
    (bar,) = Bars(result).of_query(query)
    assert bar.label == "probability of good" and bar.line == pytest.approx(bar.fill + 10)
    answer = Bars(result).of_answer(query, result.after[query, 0], result.scores_after[query, 0])
    assert answer.line == pytest.approx(answer.mark + 10) and answer.fill >= answer.line


def test_a_line_of_the_goal_below_one_half_does_not_let_a_class_win_sooner():
    result = explained(rows=30, goal=Goal.to("good", min_probability=0.2))
    assert Bars(result).of_query(0)[0].line == 50.0


@pytest.mark.parametrize(
    ("goal", "zones"),
    [
        (Goal.shift(0.3), 2),
        (Goal.shift(0.3, direction="down"), 1),
        (Goal.between(0.9, 1.1), 1),
        (Goal.between(1.2, None), 1),
    ],
)
def test_answers_that_meet_the_goal_lie_in_a_zone_and_their_queries_outside(goal, zones):
    result = regression().explain(ROWS[:20], goal=goal)
    bars = Bars(result)
    for query in np.flatnonzero(result.found[:, 0] & (result.stages[:, 0] != "query")):
        bar = bars.of_answer(query, result.after[query, 0], None)
        assert len(bar.zones) == zones and bar.fill is None

        def inside(place, bar=bar):
            return any(left - 1e-9 <= place <= left + width + 1e-9 for left, width in bar.zones)

        assert inside(bar.dot) and not inside(bar.mark)
        assert all(left >= 0 and left + width <= 100 + 1e-9 for left, width in bar.zones)
