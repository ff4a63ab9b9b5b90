"""The picture of what is given for what: its points are the numbers of the summary."""

import numpy as np
import pytest
from reference.sample_rows import LOANS, sample_rows

from relax_plugin.evaluation.tables import summary
from relax_plugin.pages.plots import LASTING, PLAUSIBLE, SPARSE, trade_offs

pytestmark = pytest.mark.slow


def points(axes):
    return {one.get_label(): one.get_offsets()[0] for one in axes.collections}


def test_every_method_stands_where_its_numbers_are_and_real_rows_beside_it():
    rows = sample_rows()
    rows = rows[rows["task"] == LOANS]
    table = summary(rows).droplevel("task").dropna(subset=["L0"])
    figure = trade_offs(rows)
    wanted = {SPARSE: table["L0"], PLAUSIBLE: 1.0 - table["LOF outliers"], LASTING: table["lasting"]}
    assert [axes.get_title() for axes in figure.axes] == [
        f"{x} and {y}" for x, y in ((SPARSE, PLAUSIBLE), (SPARSE, LASTING), (PLAUSIBLE, LASTING))
    ]
    for axes in figure.axes:
        x, y = axes.get_title().split(" and ")
        drawn = points(axes)
        assert set(drawn) == set(table.index)
        for method, place in drawn.items():
            np.testing.assert_allclose(place, [wanted[x][method], wanted[y][method]])
    (real,) = figure.axes[0].lines
    assert real.get_ydata()[0] == pytest.approx(0.95)


def test_what_was_not_measured_has_no_panel():
    rows = sample_rows().assign(lasting=np.nan)
    figure = trade_offs(rows[rows["task"] == LOANS])
    assert [axes.get_title() for axes in figure.axes] == [f"{SPARSE} and {PLAUSIBLE}"]
