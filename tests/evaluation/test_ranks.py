"""Ranks over tasks: by hand, and against the numbers that Demšar prints."""

import numpy as np
import pandas as pd
import pytest
from reference.sample_rows import INSTANCES, LOANS, PRICES, TIMED_OUT, sample_rows

from relax_plugin.evaluation.ranks import (
    SCORES,
    Score,
    by_query,
    by_task,
    critical_difference,
    friedman,
    groups,
    ranked,
)

SCORE = {score.name: score for score in SCORES}

# Numbers that rank as those of Demšar, JMLR 2006, table 6 do: C4.5 with and without two kinds of tuning, 14 data sets.
AUC = pd.DataFrame(
    {
        "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957],
        "+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978],
        "+cf": [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.000, 0.965, 0.614, 0.9751, 0.946],
        "+m+cf": [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.000, 0.962, 0.669, 0.975, 0.970],
    }
)


def test_ranks_and_test_are_those_that_demsar_prints() -> None:
    ranks = ranked(AUC, high=True)
    np.testing.assert_allclose(ranks.mean(), [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    squares = (ranks.mean() ** 2).sum()
    by_hand = 12 * 14 / (4 * 5) * (squares - 4 * 5**2 / 4)  # without a correction for ties: 9.28 in the paper
    assert by_hand == pytest.approx(9.28, abs=0.01)
    tied = [sum(count**3 - count for count in line.value_counts()) for _, line in ranks.iterrows()]
    statistic, chance = friedman(ranks)
    assert statistic == pytest.approx(by_hand / (1.0 - sum(tied) / (14 * (4**3 - 4)))) and chance < 0.05
    assert critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=0.005)
    assert critical_difference(4, 14, alpha=0.05) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)


def test_methods_that_did_not_run_on_every_task_are_not_ranked() -> None:
    ranks = ranked(AUC.assign(some=[np.nan] + [0.5] * 13), high=True)
    assert list(ranks) == list(AUC)
    assert ranked(pd.DataFrame({"a": [1.0], "b": [1.0], "c": [3.0]}), high=False).iloc[0].tolist() == [1.5, 1.5, 3.0]


def test_where_nothing_can_be_told_it_is_not() -> None:
    assert np.isnan(friedman(ranked(AUC[["+m", "+cf"]], high=True))).all()
    assert np.isnan(friedman(ranked(pd.DataFrame({"a": [1.0] * 3, "b": [1.0] * 3, "c": [1.0] * 3}), high=True))).all()
    assert np.isnan(critical_difference(1, 5))


def test_bars_join_what_differs_by_less_than_the_critical_difference() -> None:
    assert groups([1.0, 1.8, 2.1, 3.5], 1.2) == [(0, 2)]
    assert groups([1.0, 2.0, 3.0], 1.5) == [(0, 1), (1, 2)]
    assert groups([1.0, 3.0], 1.0) == []


def test_an_unsolved_query_counts_as_the_worst_and_a_failed_run_as_nothing_solved() -> None:
    rows = sample_rows()
    task, method, seed = TIMED_OUT
    changes, valid = by_query(rows, SCORE["changes"]), by_query(rows, SCORE["valid"])
    features = int(rows.loc[rows["task"] == LOANS, "features"].iloc[0])
    assert (changes.loc[(task, seed), method] == features).all()
    assert (valid.loc[(task, seed), method] == 0.0).all()
    assert np.isinf(by_query(rows, SCORE["model rows"]).loc[(task, seed), method]).all()
    assert np.isinf(by_query(rows, SCORE["seconds"]).loc[(task, seed), method]).all()
    assert changes.loc[PRICES, "move-table"].isna().all(), "it was skipped"
    greedy = rows[(rows["task"] == LOANS) & (rows["method"] == "greedy")]
    expected = greedy["sparsity"].fillna(features).mean()
    assert by_task(rows, SCORE["changes"]).loc[LOANS, "greedy"] == pytest.approx(expected)
    assert len(changes.loc[LOANS]) == 2 * INSTANCES
    plausible = (greedy["valid"] & (greedy["local_outlier"] == 0.0)).mean()
    assert by_task(rows, SCORE["plausible"]).loc[LOANS, "greedy"] == pytest.approx(plausible)


def test_every_score_has_a_column_of_the_rows() -> None:
    rows = sample_rows()
    for score in SCORES:
        assert score.column == "seconds" or score.column in rows
    made = by_task(rows, Score("worst", "", "sparsity", 99.0, False))
    assert made.loc[LOANS, "greedy"] > by_task(rows, SCORE["changes"]).loc[LOANS, "greedy"]
