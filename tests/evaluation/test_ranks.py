"""Ranks over tasks: by hand, and against the numbers that Demšar prints."""

import numpy as np
import pytest
from reference.sample_rows import INSTANCES, LOANS, PRICES, TIMED_OUT, sample_rows

from relax_plugin.evaluation.ranks import SCORES, Score, by_query

SCORE = {score.name: score for score in SCORES}


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
    assert by_query(rows, SCORE["changes"]).groupby("task").mean().loc[LOANS, "greedy"] == pytest.approx(expected)
    assert len(changes.loc[LOANS]) == 2 * INSTANCES
    plausible = (greedy["valid"] & (greedy["local_outlier"] == 0.0)).mean()
    assert by_query(rows, SCORE["plausible"]).groupby("task").mean().loc[LOANS, "greedy"] == pytest.approx(plausible)


def test_every_score_has_a_column_of_the_rows() -> None:
    rows = sample_rows()
    for score in SCORES:
        assert score.column == "seconds" or score.column in rows
    made = by_query(rows, Score("worst", "", "sparsity", 99.0, False)).groupby("task").mean()
    assert made.loc[LOANS, "greedy"] > by_query(rows, SCORE["changes"]).groupby("task").mean().loc[LOANS, "greedy"]
