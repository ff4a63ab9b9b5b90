"""Cards in a real browser: found by words and keys, printed on one sheet each, read on a phone and in the dark."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from reference.readable import explained
from reference.tiny import gaussian_rows, two_class_probabilities
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from relax_plugin import make_explainer
from relax_plugin.datasets import load
from relax_plugin.pages.card import explanation_page

pytestmark = pytest.mark.browser

PAPERS = ("A4", "Letter")


def sheets(page, paper: str) -> int:
    """Pages of what the browser prints."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper, print_background=True)))


@pytest.fixture(scope="module")
def adult():
    """Rows of adult: gaps, rules, a derived column, long words; one has no counterfactual."""
    data = load("adult")
    X, y = data.X[:1500], data.y[:1500]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer((encoder, make_column_selector(dtype_exclude="number")), remainder="passthrough")
    model = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=30, random_state=0)).fit(X, y)
    fitted = make_explainer("greedy", model, data.space).fit(X)
    low = X[(model.predict(X) == 0) & X.isna().any(axis=1)][:6]
    return fitted.explain(low.set_axis(pd.Index([f"P-{i}" for i in low.index], name="person")), n=3, max_changes=3)


@pytest.fixture(scope="module")
def wide():
    X = gaussian_rows(60, 60)
    return make_explainer("greedy", two_class_probabilities).fit(X).explain(X[:2], n=10)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards")

    def write(result, name: str) -> str:
        path = folder / f"{name}.html"
        path.write_text(explanation_page(result, title="Cards", foot="Model model.joblib; rows.csv."), encoding="utf-8")
        return path.as_uri()

    return write


def names(page) -> list[str]:
    return page.locator(".rc-sheet:visible .rc-title").all_inner_texts()


def test_words_of_names_values_and_answers_find_cards(opened, address):
    result = explained(rows=40, index=pd.Index([f"K{i}" for i in range(40)], name="customer"))
    page = opened(address(result, "search"))
    box = page.get_by_role("searchbox")
    assert len(names(page)) == 40 and page.get_by_role("status").inner_text() == "40 cards"
    box.fill("k7")
    assert names(page) == ["customer K7"], "a whole name means that card, not every one that holds it"
    assert page.get_by_role("status").inner_text() == "1 of 40 cards"
    box.fill("OVERDRAWN")
    was = result.queries["status"].eq("A11").to_numpy()
    became = (result.changes().query("to == 'A11'")["query_id"]).unique()
    expected = [f"customer K{i}" for i in range(40) if was[i] or i in became]
    assert names(page) == expected and 0 < len(expected) < 40
    amount = f"{result.queries['amount'].iloc[3]:,}"
    box.fill(f"customer {amount}")
    assert names(page) == ["customer K3"]
    box.fill("no such word")
    assert names(page) == [] and page.get_by_text("No card has all of these words.").is_visible()
    box.press("Escape")
    assert len(names(page)) == 40 and box.input_value() == ""


def test_keys_go_from_card_to_card(opened, address):
    page = opened(address(explained(rows=40), "keys"))

    def at() -> str:
        return page.evaluate("document.activeElement.id")

    page.keyboard.press("/")
    page.keyboard.type("row 12")
    page.keyboard.press("Enter")
    assert at() == "card-12" and names(page) == ["Row 12"]
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    page.locator("#card-12").focus()
    page.keyboard.press("n")
    assert at() == "card-13"
    page.keyboard.press("p")
    page.keyboard.press("p")
    assert at() == "card-11"
    page.get_by_role("button", name="Next card").click()
    page.get_by_text("List of the cards").click()
    page.get_by_role("link", name="Row 30", exact=True).click()
    assert at() == "card-30" and page.url.endswith("#card-30")
    title, bar = page.locator("#card-30 .rc-title").bounding_box(), page.locator(".rc-tools").bounding_box()
    assert title["y"] >= bar["y"] + bar["height"] - 1, "the tools do not cover it"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_card_is_one_sheet(opened, address, adult, wide, paper):
    lost = explained(rows=12, vary=["rate"], max_changes=1, n=2)
    for name, result in (("adult", adult), ("wide", wide), ("lost", lost)):
        page = opened(address(result, name))
        assert sheets(page, paper) == len(result), name


def test_one_card_is_printed_alone_and_so_are_those_that_were_found(opened, address):
    result = explained(rows=9)
    page = opened(address(result, "print"))
    page.evaluate("window.print = () => {}")
    page.locator("#card-4").locator("xpath=..").get_by_role("button", name="Print this card").click()
    assert sheets(page, "A4") == 1
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert sheets(page, "A4") == 9
    page.get_by_role("searchbox").fill(f"{result.queries['amount'].iloc[3]:,}")
    found = len(names(page))
    assert found == 1
    page.get_by_role("button", name="Print these").click()
    assert sheets(page, "A4") == found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(opened, address, adult, wide, scheme):
    long = "Donaudampfschifffahrtsgesellschaft" * 9
    named = explained(rows=3, index=pd.Index([long, "b", "c"], name="customer"), n=2)
    for name, result in (("adult", adult), ("wide", wide), ("long", named)):
        page = opened(address(result, f"phone-{name}"), viewport={"width": 390, "height": 800}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        boxes = [one.bounding_box() for one in page.locator(".rc-sheet").first.locator(".rc-alternative").all()]
        assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(boxes)), "below each other"


def test_alternatives_stand_side_by_side_on_a_desk(opened, address, adult):
    page = opened(address(adult, "desk"), viewport={"width": 1280, "height": 900})
    three = int(np.flatnonzero(adult.found.all(axis=1))[0])
    boxes = [one.bounding_box() for one in page.locator(f"#card-{three} .rc-alternative").all()]
    assert len({box["y"] for box in boxes}) == 1 and len(boxes) == 3


@pytest.mark.parametrize(("paper", "ink"), [("#ffffff", "#111111"), ("#111111", "#eeeeee")])
def test_a_card_in_a_notebook_takes_its_colours(new_page, paper, ink):
    """Whatever the system prefers: a notebook has a theme of its own."""
    page = new_page(color_scheme="dark" if paper == "#ffffff" else "light")
    fragment = explained(n=2).card(0)._repr_html_()
    page.set_content(f"<body style='background:{paper};color:{ink}'><p id='other'>other</p>{fragment}</body>")
    wanted = tuple(int(ink[i : i + 2], 16) for i in (1, 3, 5))
    for part in (".rc-title", ".rc-sentence", ".rc-values th[scope=row]", "#other"):
        colour = page.locator(part).first.evaluate("node => getComputedStyle(node).color")
        assert tuple(map(int, re.findall(r"\d+", colour)))[:3] == wanted, part
