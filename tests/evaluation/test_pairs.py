"""Methods compared as pairs of the same queries: a small difference at every query parts them, noise does not."""

import numpy as np
import pandas as pd
import pytest
from reference.sample_rows import LOANS, PRICES, TIMED_OUT, sample_rows

from relax_plugin.evaluation.ranks import SCORES, Pairing, paired

SCORE = {score.name: score for score in SCORES}


def one_task(noise: float) -> pd.DataFrame:
    """Queries that differ much, and a method that needs half a change more at each, up to noise."""
    rows = sample_rows()
    base = rows[(rows["task"] == LOANS) & (rows["method"] == "greedy")].assign(valid=True)
    rng = np.random.default_rng(0)
    numbers = rng.uniform(1.0, 40.0, len(base))
    second = numbers + 0.5 + noise * rng.normal(size=len(base))
    return pd.concat([base.assign(sparsity=numbers, method="a"), base.assign(sparsity=second, method="b")])


def test_a_small_difference_at_every_query_parts_two_methods_though_queries_differ_much() -> None:
    (first,) = paired(one_task(0.1), "a", "b", SCORE["changes"])
    (second,) = paired(one_task(0.1), "b", "a", SCORE["changes"])
    assert (first.outcome, second.outcome) == ("better", "worse")
    assert first.difference == pytest.approx(0.5, abs=0.1)
    assert second.difference == pytest.approx(-first.difference)
    assert first.pairs == 24


def test_what_noise_may_have_done_is_a_tie() -> None:
    assert paired(one_task(9.0), "a", "b", SCORE["changes"])[0].outcome == "tied"
    assert Pairing("t", 0.0, 0.0, 5).outcome == "tied", "the very same"
    assert Pairing("t", 0.3, float("inf"), 1).outcome == "tied", "one pair tells nothing"


def test_a_failed_run_counts_and_a_skipped_one_is_no_pair() -> None:
    rows = sample_rows()
    task, method, _ = TIMED_OUT
    against = {one.task: one for one in paired(rows, "greedy", method, SCORE["valid"])}
    solved = rows[(rows["task"] == task) & (rows["method"] == "greedy")]["valid"].sum()
    theirs = rows[(rows["task"] == task) & (rows["method"] == method)]["valid"].sum()  # of the seed that ran
    assert against[task].pairs == 24 and against[task].difference == pytest.approx((solved - theirs) / 24)
    dear = {one.task: one for one in paired(rows, "greedy", method, SCORE["seconds"])}
    assert dear[task].outcome == "better" and np.isinf(dear[task].difference)
    assert [one.task for one in paired(rows, "greedy", "move-table", SCORE["valid"])] == [LOANS]
    assert PRICES not in {one.task for one in paired(rows, "greedy", "move-table", SCORE["changes"])}
    assert paired(rows, "greedy", "nobody", SCORE["valid"]) == []
