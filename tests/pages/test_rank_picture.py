"""Critical-difference diagrams: names, ranks and bars where they belong, in SVG that a parser reads."""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from relax_plugin.evaluation.ranks import critical_difference
from relax_plugin.pages.rank_picture import LEFT, WIDTH, rank_picture

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
