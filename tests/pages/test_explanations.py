"""The page of many cards: one for each row, names to find them by, and no more than can be read."""

import pandas as pd
import pytest
from reference.card_page import parsed
from reference.readable import ROWS, explained, explainer

from relax_plugin.pages.card import MOST_QUERIES, explanation_page

EVIL = "</script><script>alert(1)</script>"


def test_every_row_has_a_card_and_a_line_in_the_list():
    result = explained(rows=20, n=2)
    page = parsed(explanation_page(result, title="Why <this>?", note="A note.", foot="At the foot."))
    assert page.one("h1").text == "Why <this>?" and "A note." in page.one(".rc-head").text
    assert f"{int(result.found.any(axis=1).sum())} of 20 rows have an alternative." in page.text
    cards = page.all(".relax-card")
    assert [card.attributes["id"] for card in cards] == [f"card-{query}" for query in range(20)]
    assert all(card.one(".rc-foot").text.startswith("At the foot. ") for card in cards)
    for query, card in enumerate(cards):
        alone = parsed(result.card(query).html).one(".relax-card")
        assert card.one(".rc-found").text == alone.one(".rc-found").text
        assert card.one(".rc-who").text == alone.one(".rc-who").text
    links = page.one(".rc-index").all("a")
    assert [(link.text, link.attributes["href"]) for link in links] == [(f"Row {i}", f"#card-{i}") for i in range(20)]
    reached = [item.text.partition(str(query))[2] for query, item in enumerate(page.one(".rc-index").all("li"))]
    assert all(str(result.before[query]) in text for query, text in enumerate(reached))


@pytest.mark.slow
def test_the_page_shows_the_first_rows_and_says_so():
    queries = pd.concat([ROWS, ROWS], ignore_index=True)[: MOST_QUERIES + 7]
    page = parsed(explanation_page(explainer().explain(queries), title="t"))
    assert len(page.all(".relax-card")) == MOST_QUERIES
    assert f"The first {MOST_QUERIES} rows are shown here" in page.text
    assert f"of {MOST_QUERIES + 7} rows have an alternative" in page.text
    assert "rows are shown" not in parsed(explanation_page(explained(), title="t")).text


def test_no_rows_and_one_row_have_a_page_without_a_search():
    for rows, text in ((0, "0 of 0 rows have"), (1, "1 of 1 row has")):
        page = parsed(explanation_page(explained(rows=rows), title="t"))
        assert text in page.text and not page.all("input") and len(page.all(".relax-card")) == rows


def test_rows_named_by_markup_add_no_script():
    result = explained(rows=3, index=pd.Index([EVIL, "b", "c"], name=EVIL))
    page = parsed(explanation_page(result, title=EVIL, note=EVIL, foot=EVIL))
    assert len(page.all("script")) == 1 and EVIL in page.one("h1").text
    assert page.all(".rc-title")[0].text == f"{EVIL} {EVIL}"


def test_a_page_of_unsolved_rows_asks_the_model_once_for_all_attempts():
    result = explained(rows=40, vary=["rate"], max_changes=1)
    lost = ~result.found.any(axis=1) & (result.values[:, 0] != result.start).any(axis=1)
    assert lost.sum() >= 3
    calls = []
    model = result.blackbox.model
    original = type(model).predict
    try:
        type(model).predict = lambda self, rows: calls.append(len(rows)) or original(self, rows)
        page = parsed(explanation_page(result, title="t"))
    finally:
        type(model).predict = original
    assert calls == [lost.sum()]
    answers = [one.text for one in page.all(".rc-attempt")]
    assert len(answers) == lost.sum() and all("The model's answer to it: " in text for text in answers)
    assert [bool(card.all(".rc-attempt")) for card in page.all(".relax-card")] == lost.tolist()
