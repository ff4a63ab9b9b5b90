"""Methods as points: none hides another, and each has its name beside the panel."""

import numpy as np
import pandas as pd
import pytest
from reference import sample_rows

from relax_plugin.pages.plots import LINE, _apart, areas, pareto, quality


@pytest.fixture(scope="module")
def alike() -> pd.DataFrame:
    """Four methods that solve the same queries with the same changes at the same cost, and one that costs more."""
    rows = sample_rows.sample_rows()
    one = rows[(rows["task"] == sample_rows.LOANS) & (rows["method"] == "greedy") & (rows["seed"] == 0)]
    names = ("greedy", "relax-global", "lore", "mace")
    dear = one.assign(method="focus", rows=one["rows"] * 300, valid=one["valid"] & (one["instance"] > 3))
    return pd.concat([*(one.assign(method=name) for name in names), dear], ignore_index=True)


def test_of_points_on_each_other_the_lower_ones_are_larger(alike) -> None:
    points = quality(alike).axes[0].collections
    places = {point.get_label(): tuple(point.get_offsets()[0]) for point in points}
    assert len(set(places.values())) == 2, "they would hide each other"
    together = [point for point in points if point.get_label() != "focus"]
    ordered = sorted(together, key=lambda point: point.get_zorder())
    sizes = [float(point.get_sizes()[0]) for point in ordered]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(together)


def test_every_method_is_named_and_no_label_covers_another(alike) -> None:
    axes = quality(alike).axes[0]
    labels = [text for text in axes.texts if text.get_text()]
    assert {label.get_text().partition(",")[0] for label in labels} == set(alike["method"])
    heights = sorted(label.xyann[1] for label in labels)
    assert np.diff(heights).min() >= LINE - 1e-9
    assert heights[0] >= 0.0 and heights[-1] <= 1.0
    told = next(label.get_text() for label in labels if label.get_text().startswith("focus"))
    mine = alike[alike["method"] == "focus"]
    assert told == f"focus, {100 * mine['valid'].mean():.0f}% solved"


def test_labels_lead_to_their_points(alike) -> None:
    axes = quality(alike).axes[0]
    points = {point.get_label(): tuple(point.get_offsets()[0]) for point in axes.collections}
    for label in axes.texts:
        assert tuple(label.xy) == points[label.get_text().partition(",")[0]]


def test_validity_over_distance_names_its_points_too(alike) -> None:
    assert {text.get_text() for text in pareto(alike).axes[0].texts} == set(alike["method"])


def test_cost_is_logarithmic_and_a_long_axis_names_powers_of_ten_only(alike) -> None:
    axes = quality(alike).axes[0]
    assert axes.get_xscale() == "log"
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert all(np.isclose(np.log10(tick) % 1, 0.0) for tick in ticks) and len(ticks) >= 2


@pytest.mark.parametrize("wished", [[0.5] * 9, [1.0] * 16, [0.0, 0.0, 0.97, 1.0], list(np.linspace(0, 1, 40))])
def test_heights_of_labels_are_apart_in_order_and_inside(wished) -> None:
    heights = _apart(np.array(wished))
    gap = min(LINE, 1 / (len(wished) - 1))
    assert np.diff(heights).min() >= gap - 1e-9
    assert heights[0] >= -1e-9 and heights[-1] <= 1 + 1e-9


def test_points_that_are_apart_have_the_same_area() -> None:
    first, second, under = areas(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.01]]))
    assert first == second < under
