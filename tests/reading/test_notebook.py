"""Tables of a notebook: narrow, escaped, with probabilities and reasons."""

import pandas as pd
from reference.readable import ROWS, explained, explainer

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.reading.notebook import result_html, space_html


def test_only_columns_that_change_are_shown_with_probabilities():
    page = result_html(explained(rows=60, vary=["status"])[30:])
    heads = page.partition("</tr>")[0]
    assert "status" in heads and "amount" not in heads
    assert "no account" in page and "%)" in page and "3 of 4 features are the same" in page


def test_reasons_and_more_queries_are_told():
    page = result_html(explained(rows=30, vary=["rate"], goal=Goal.to("good", min_probability=0.99)))
    assert "<i>" in page and "The first 10 of 30 queries are shown." in page


def test_hostile_names_and_cells_are_escaped():
    rows = ROWS.rename(columns={"status": "<script>"}).replace({"A11": "<b>", "A12": "&x"})
    model = make_explainer("greedy", lambda table: (table["<script>"] == "&x").to_numpy() * 0.8 + 0.1).fit(rows)
    found = model.explain(rows[:5].set_axis(pd.Index(["<i>x", "b", "c", "d", "e"])))
    page = result_html(found) + space_html(model.space_)
    assert "<script" not in page and "<b>" not in page and "<i>x" not in page and "&amp;x" in page


def test_a_space_shows_words_ranges_and_what_holds_each_feature():
    space = FeatureSpace.infer(
        ROWS.assign(total=ROWS["amount"] + ROWS["age"]),
        immutable=["age"],
        increase_only=["rate"],
        costs={"rate": 3.0},
        labels={"amount": "amount (DM)"},
        derived={"total": "amount + age"},
        rules=["amount >= age"],
    )
    page = space_html(space)
    for text in ("amount (DM)", "upwards only", "<td style", ">no<", ">3<", "total = amount + age", "amount &gt;= age"):
        assert text in page, text
    assert explainer().space_._repr_html_().count("<tr>") == 5
