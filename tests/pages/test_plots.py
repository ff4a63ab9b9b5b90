"""Pictures and tables of what methods cost: what they show is what was measured."""

import json
import sys

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from reference import sample_rows

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.metrics import total_rows
from relax_plugin.evaluation.tables import summary
from relax_plugin.pages.html import inline
from relax_plugin.pages.plots import (
    COLUMNS,
    MOST_FEATURES,
    amortisation,
    anytime,
    by_answer,
    change_shares,
    changed_features,
    method_styles,
    pareto,
    quality,
    tradeoff,
)

METHODS = ["greedy", "relax-global"]


def costs(tasks):
    """Other costs for every task and method, so that no line can stand for another."""
    index = pd.MultiIndex.from_product([tasks, METHODS], names=["task", "method"])
    numbers = np.arange(len(index))
    return pd.DataFrame({"training rows": 100.0 + 300.0 * numbers, "rows": 90.0 - 3.5 * numbers}, index=index)


@pytest.mark.parametrize("count", [1, COLUMNS, COLUMNS + 1])
def test_every_task_has_a_panel_with_what_each_method_costs(count):
    tasks = [f"data/{letter}" for letter in "zyxwvutsrq"[:count]]
    table = costs(tasks)
    figure = amortisation(table, METHODS)
    assert isinstance(figure, matplotlib.figure.Figure)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == tasks
    assert len(figure.axes) == -(-len(tasks) // COLUMNS) * min(COLUMNS, len(tasks))
    for axes, task in zip(panels, tasks, strict=True):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert [line.get_label() for line in axes.lines] == METHODS
        for line, method in zip(axes.lines, METHODS, strict=True):
            instances = line.get_xdata()
            assert instances[[0, -1]] == pytest.approx([1.0, 10_000.0])
            training, each = table.loc[(task, method)]
            np.testing.assert_allclose(line.get_ydata(), total_rows(training, each, instances))
    assert len({(line.get_color(), line.get_linestyle()) for line in panels[0].lines}) == len(METHODS)


def test_the_methods_named_are_drawn_in_the_order_of_the_legend():
    table = costs(["iris"])
    figure = amortisation(table, METHODS[::-1])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == METHODS[::-1]
    assert [line.get_label() for line in figure.axes[0].lines] == METHODS[::-1]
    assert [line.get_label() for line in amortisation(table, ["greedy"]).axes[0].lines] == ["greedy"]


LOANS, PRICES = sample_rows.LOANS, sample_rows.PRICES
FIGURES = (tradeoff, pareto, anytime, quality, changed_features)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return sample_rows.sample_rows()


def lines_of(axes) -> dict:
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def shares_by_seed(rows, task, method, solved) -> np.ndarray:
    """A share of solved queries for each seed, counted one by one; a unit without results solved nothing."""
    mine = rows[(rows["task"] == task) & (rows["method"] == method)]
    return np.array(
        [
            sum(solved(row) for row in unit.to_dict("records")) / unit["instances"].iloc[0]
            for _, unit in mine.groupby("seed")
        ]
    )


@pytest.mark.slow
def test_every_figure_says_what_it_shows_in_a_panel_for_each_task(rows) -> None:
    shown = {
        tradeoff: ["Solved with at most k changes"] * 2,
        pareto: ["Solved, and how far away"] * 2,
        anytime: ["Solved within a budget of model rows"] * 2,
        quality: ["What model rows buy"] * 2,
    }
    for draw, titles in shown.items():
        assert [axes.get_title().split("\n") for axes in draw(rows).axes] == [
            [title, task] for title, task in zip(titles, (LOANS, PRICES), strict=True)
        ]
    assert [axes.get_title() for axes in changed_features(rows).axes] == [
        f"Changed features: {LOANS} → granted",
        f"Changed features: {LOANS} → refused",
        f"Changed features: {PRICES} → higher",
    ]


@pytest.mark.slow
def test_tradeoff_is_the_share_solved_with_at_most_k_changes(rows) -> None:
    axes = tradeoff(rows).axes[0]
    assert list(lines_of(axes)) == list(sample_rows.METHODS)
    for method, line in lines_of(axes).items():
        assert line.get_xdata().tolist() == [1, 2, 3, 4]
        for k, share in zip(line.get_xdata(), line.get_ydata(), strict=True):
            counted = shares_by_seed(rows, LOANS, method, lambda row, k=k: row["valid"] and row["sparsity"] <= k)
            assert share == pytest.approx(counted.mean())


def test_bands_are_one_standard_deviation_over_seeds(rows) -> None:
    loans = rows[(rows["task"] == LOANS) & (rows["method"] == "greedy")]
    (band,) = [part for part in tradeoff(loans).axes[0].collections if isinstance(part, PolyCollection)]
    counted = shares_by_seed(rows, LOANS, "greedy", lambda row: row["valid"] and row["sparsity"] <= 3)
    heights = {round(y, 9) for x, y in band.get_paths()[0].vertices if x == 3}
    spread = np.std(counted, ddof=1)
    assert heights == {round(counted.mean() - spread, 9), round(counted.mean() + spread, 9)}
    one_seed = tradeoff(loans[loans["seed"] == 0]).axes[0]
    assert not one_seed.collections


def test_failed_run_solves_nothing_and_a_skipped_method_is_not_drawn(rows) -> None:
    loans, prices = tradeoff(rows).axes
    timed_out = lines_of(loans)["relax-global:effort=policy"].get_ydata()
    first_seed = rows[(rows["task"] == LOANS) & (rows["method"] == "relax-global:effort=policy") & (rows["seed"] == 0)]
    assert timed_out[-1] == pytest.approx(first_seed["valid"].mean() / 2)
    assert list(lines_of(prices)) == [method for method in sample_rows.METHODS if method != "move-table"]


@pytest.mark.slow
def test_anytime_is_the_share_solved_within_so_many_model_rows(rows) -> None:
    for axes, task in zip(anytime(rows).axes, (LOANS, PRICES), strict=True):
        assert axes.get_xscale() == "log"
        for method, line in lines_of(axes).items():
            for spent, share in list(zip(line.get_xdata(), line.get_ydata(), strict=True))[::7]:
                counted = shares_by_seed(
                    rows, task, method, lambda row, spent=spent: row["valid"] and row["rows"] <= spent
                )
                assert share == pytest.approx(counted.mean())
        assert (
            max(line.get_xdata()[-1] for line in lines_of(axes).values())
            == rows.loc[rows["task"] == task, "rows"].max()
        )


def test_anytime_curve_of_many_budgets_is_short_and_ends_with_all_that_is_solved(rows) -> None:
    many = pd.concat([rows.assign(rows=rows["rows"] * factor + factor) for factor in range(1, 40)])
    line = lines_of(anytime(many[many["task"] == PRICES]).axes[0])["greedy"]
    assert len(line.get_xdata()) <= 80
    assert line.get_ydata()[-1] == pytest.approx(
        many[(many["task"] == PRICES) & (many["method"] == "greedy")]["valid"].mean()
    )


def test_quality_has_changes_over_rows_and_joins_the_budgets_of_one_method(rows) -> None:
    varied = rows[rows["method"].isin(["greedy", "relax-global"])].copy()
    dearer = varied[varied["method"] == "relax-global"].copy()
    dearer["method"], dearer["rows"] = "relax-global:max_queries=500", dearer["rows"] * 10
    varied = pd.concat([varied, dearer], ignore_index=True)
    axes = quality(varied).axes[0]
    table = summary(varied).loc[LOANS]
    for points in axes.collections:
        assert points.get_offsets()[0].tolist() == table.loc[points.get_label(), ["rows", "L0 common"]].tolist()
    assert sorted(len(line.get_xdata()) for line in axes.lines) == [1, 2]
    assert {points.get_label() for points in axes.collections} == set(table.index)


@pytest.mark.slow
def test_pareto_has_validity_over_distance_and_larger_points_for_slower_methods(rows) -> None:
    axes = pareto(rows).axes[0]
    points = {
        part.get_label(): part
        for part in axes.collections
        if isinstance(part, PathCollection) and len(part.get_offsets())
    }
    loans = rows[rows["task"] == LOANS]
    for method in sample_rows.METHODS:
        x, y = points[method].get_offsets()[0]
        means = loans[(loans["method"] == method) & loans["valid"]].groupby("seed")["proximity"].mean()
        assert x == pytest.approx(means.mean())
        assert y == pytest.approx(shares_by_seed(rows, LOANS, method, lambda row: row["valid"]).mean())
    areas = [points[method].get_sizes()[0] for method in sample_rows.METHODS]
    assert areas == sorted(areas) and areas[0] < areas[-1]


def changed(method, changes, after="yes", task="t"):
    return {
        "task": task,
        "method": method,
        "seed": 0,
        "state": "ok",
        "valid": True,
        "before": "no",
        "after": after,
        "changes": json.dumps(changes),
    }


def test_shares_and_directions_are_those_of_the_changes() -> None:
    frame = pd.DataFrame(
        [
            changed("a", [["age", 1, 2], ["job", "x", "y"]]),
            changed("a", [["age", 3.0, 2.5]]),
            changed("a", [["age", 1, 2], ["pay", 5, 4], ["up", False, True]]),
            changed("b", [["pay", 5, 4]]),
            {**changed("b", [["rent", 1, 2]]), "valid": False},
        ]
    )
    shares, signs = change_shares(frame, ["b", "a", "c"])
    assert list(shares.columns) == ["b", "a"]
    assert shares.index[0] == "pay" and set(shares.index) == {"pay", "age", "job", "up"}
    assert shares.loc["age"].tolist() == [0.0, 1.0]
    assert shares.loc["pay"].tolist() == pytest.approx([1.0, 1 / 3])
    assert signs.loc["age", "a"] == pytest.approx(1 / 3)
    assert signs.loc["pay"].tolist() == [-1.0, -1.0]
    assert signs.loc[["job", "up"]].isna().all(axis=None)
    axes = changed_features(frame).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(shares.index)
    texts = {(round(text.get_position()[0]), round(text.get_position()[1])): text.get_text() for text in axes.texts}
    line = list(shares.index).index
    assert texts[0, line("age")] == "↕ 100%"
    assert texts[0, line("pay")] == "▼ 33%" and texts[1, line("pay")] == "▼ 100%"
    assert texts[0, line("job")] == "◆ 33%"
    assert len(texts) == len([patch for patch in axes.patches if isinstance(patch, Rectangle)]) == 5


def test_cells_are_blue_upwards_orange_downwards_grey_for_categories_and_stronger_when_frequent() -> None:
    frame = pd.DataFrame(
        [changed("a", [["up", 1, 2], ["down", 2, 1], ["job", "x", "y"]]), changed("a", [["up", 1, 2]])]
    )
    axes = changed_features(frame).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    cells = {names[round(patch.get_y() + 0.5)]: patch for patch in axes.patches}
    assert to_hex(cells["up"].get_facecolor()) == "#0072b2"
    assert to_hex(cells["down"].get_facecolor()) == "#d55e00"
    assert to_hex(cells["job"].get_facecolor()) == "#8c8c8c"
    assert cells["up"].get_alpha() > cells["down"].get_alpha() > 0


def test_changes_are_told_apart_by_the_answer_they_lead_to() -> None:
    frame = pd.DataFrame([changed("a", [["age", 1, 2]]), changed("a", [["age", 2, 1]], after="maybe")])
    assert [axes.get_title().partition(" → ")[2] for axes in changed_features(frame).axes] == ["maybe", "yes"]
    numbers = [{**changed("a", []), "before": "3.5", "after": f"{i}.25"} for i in range(7)]
    assert [(answer, len(part)) for answer, part in by_answer(pd.DataFrame(numbers))] == [
        (" → higher", 3),
        (" → lower", 4),
    ]
    many = [changed("a", [], after=f"class {i}") for i in range(7)]
    assert [answer for answer, _ in by_answer(pd.DataFrame(many))] == [""]


def test_heat_map_of_many_features_shows_the_most_changed_and_says_so() -> None:
    frame = pd.DataFrame([changed("a", [[f"f{j}", 0, 1] for j in range(i + 1)]) for i in range(30)])
    axes = changed_features(frame).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"f{j}" for j in range(MOST_FEATURES)]
    assert f"({MOST_FEATURES} of 30)" in axes.get_title()


def test_a_method_looks_the_same_in_every_figure_and_whatever_else_is_drawn(rows) -> None:
    methods = list(sample_rows.METHODS)
    prices = rows[rows["task"] == PRICES]
    for draw in (tradeoff, anytime):
        (axes,) = draw(prices, methods).axes
        for method, line in lines_of(axes).items():
            style = method_styles(methods)[method]
            assert (to_hex(line.get_color()), line.get_marker()) == (style.colour.lower(), style.marker)
    points = [part for part in pareto(prices, methods).axes[0].collections if part.get_label() in methods]
    assert [to_hex(point.get_facecolor()[0]) for point in points] == [
        method_styles(methods)[point.get_label()].colour.lower() for point in points
    ]


def test_many_methods_are_told_apart_without_colour_by_marker_or_dashes() -> None:
    styles = method_styles([f"method {i}" for i in range(24)]).values()
    assert len({(style.marker, style.dashes) for style in styles}) == 24


def test_names_are_drawn_as_they_are_written() -> None:
    name = "$x_{$ <b> 1.23456"
    figure = changed_features(pd.DataFrame([changed(name, [[name, 1, 2]], after=name, task=name)]))
    svg = inline(figure, "one", 'a "label"')
    assert svg.count("$x_{$ &lt;b&gt; 1.23456") == 4  # feature, method, and twice in the title
    assert 'aria-label="a &quot;label&quot;"' in svg


@pytest.mark.slow
def test_inline_figures_use_the_colours_of_the_page_and_ids_of_their_own(rows) -> None:
    first, again, second = (inline(tradeoff(rows), name, "t") for name in ("first", "first", "second"))
    assert first == again
    assert "var(--method-0)" in first and "currentColor" in first
    assert "#0072b2" not in first and "http" not in first
    ids = [{part.partition('"')[0] for part in svg.split(' id="')[1:]} for svg in (first, second)]
    assert ids[0] and not ids[0] & ids[1]


def test_plots_without_matplotlib_say_what_to_install(rows, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in FIGURES:
        with pytest.raises(MissingExtraError, match=r"relax-plugin\[plots\]"):
            draw(rows)
