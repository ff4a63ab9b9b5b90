"""Ranks against the numbers that Demšar prints; critical-difference diagrams: names, ranks and bars in their places."""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables.rank_picture import LEFT, WIDTH, rank_picture
from benchmarks.tables.ranks import critical_difference, friedman, groups, ranked

RANKS = pd.DataFrame({"first & best": [1.0] * 9, "second": [2.0] * 9, "third": [3.0] * 9, "last": [4.0] * 9})


def lines(svg: str, width: str) -> list[tuple[float, ...]]:
    found = re.findall(rf'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"[^>]*width="{width}"', svg)
    return [tuple(map(float, one)) for one in found]


def test_methods_are_named_with_their_mean_ranks_and_the_axis_goes_from_first_to_last() -> None:
    svg = rank_picture(RANKS, "features changed")
    root = ElementTree.fromstring(svg)
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"first & best  1.00", "second  2.00", "3.00  third", "4.00  last"} <= set(texts)
    assert "features changed" in texts
    feet = {one[0] for one in lines(svg, "1") if one[0] == one[2] and one[3] > 64.0}
    np.testing.assert_allclose(sorted(feet), np.linspace(LEFT, WIDTH - LEFT, 4), atol=0.1)
    assert svg == rank_picture(RANKS, "features changed")


def test_bars_lie_over_what_chance_may_part_and_are_as_long() -> None:
    difference = critical_difference(4, 9)
    assert 1.0 < difference < 2.0  # so that neighbours are not parted, and others are
    bars = lines(rank_picture(RANKS, ""), "3.5")
    step = (WIDTH - 2 * LEFT) / 3
    assert [round((x2 - x1 - 6) / step, 2) for x1, _, x2, _ in bars] == [1.0, 1.0, 1.0]
    ruler = lines(rank_picture(RANKS, ""), "2")[0]
    np.testing.assert_allclose((ruler[2] - ruler[0]) / step, difference, atol=0.01)


def test_two_tasks_part_nobody_and_the_picture_says_so() -> None:
    svg = rank_picture(RANKS[:2], "")
    assert "more than any two ranks can differ" in svg
    assert len(lines(svg, "3.5")) == 1


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
