"""Pictures and tables of what methods cost: what they show is what was measured."""

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

from relax_plugin.evaluation.figures import amortised
from relax_plugin.evaluation.metrics import total_rows
from relax_plugin.evaluation.plots import COLUMNS, amortisation

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


def measured(task, method, seed, training, rows):
    numbers = {"validity": 1.0 - 0.1 * seed, "worst class": 1.0, "L0": 1.0 + seed, "L1": 2.0, "rows": rows}
    rest = {"training rows": training, "fit s": 3.0, "explain s": 1.0, "L0 ratio": 1.0, "L1 ratio": 0.5 + seed}
    return {"method": method, **numbers, **rest, "task": task, "seed": seed}


def test_total_rows_and_break_even_are_those_of_the_means_over_seeds():
    table = amortised(
        pd.DataFrame(
            [
                measured("dear", "greedy", 0, 256, 100.0),
                measured("dear", "greedy", 1, 256, 120.0),  # mean 256 + 110 n
                measured("dear", "table", 0, 256, 50.0),
                measured("dear", "table", 1, 256, 50.0),
                measured("dear", "agent", 0, 4000, 30.0),
                measured("dear", "agent", 1, 4200, 40.0),  # mean 4100 + 35 n
                measured("cheap", "agent", 0, 4000, 35.0),
                measured("cheap", "agent", 1, 4000, 35.0),
                measured("cheap", "greedy", 0, 256, 20.0),
                measured("cheap", "greedy", 1, 256, 20.0),
            ]
        )
    )
    totals = [f"rows for {instances}" for instances in ("1", "10", "100", "1,000", "10,000")]
    assert table.loc[("dear", "greedy"), totals].tolist() == [366.0, 1356.0, 11_256.0, 110_256.0, 1_100_256.0]
    assert table.loc[("dear", "agent"), totals].tolist() == [4135.0, 4450.0, 7600.0, 39_100.0, 354_100.0]
    assert table.loc[("cheap", "agent"), totals].tolist() == [4035.0, 4350.0, 7500.0, 39_000.0, 354_000.0]
    assert table["break-even"].to_dict() == {
        ("dear", "greedy"): 0.0,
        ("dear", "table"): 0.0,
        ("dear", "agent"): 52.0,  # 3844 rows more at first, 75 fewer each: 51.25
        ("cheap", "agent"): np.inf,
        ("cheap", "greedy"): 0.0,
    }
    quality = ["validity", "L0", "L1", "L0 ratio", "L1 ratio", "fit s"]
    assert table.loc[("dear", "agent"), quality].tolist() == pytest.approx([0.95, 1.5, 2.0, 1.0, 1.0, 3.0])
