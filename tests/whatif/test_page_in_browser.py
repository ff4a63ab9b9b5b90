"""The what-if page in a real browser: from choosing a row to the downloaded history, on a desk and on a phone."""

import csv
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reference.what_if import HOSTILE, Loans, session, table

from relax_plugin.whatif.app import address_of, listening, run, what_if_app

pytestmark = pytest.mark.browser

MODEL = Loans()
FIELD = '[data-feature="{}"]'


@pytest.fixture(scope="module")
def address() -> str:
    """A real server, in a thread that ends with the tests."""
    bound, ready = listening(0), threading.Event()
    own = session(model=MODEL, setup="# the setup", title="What if, in a browser?")
    own.warm_up()
    app = what_if_app(own, "token", bound.getsockname()[1])
    threading.Thread(target=run, args=(app, bound, ready.set), daemon=True).start()
    assert ready.wait(120)
    return address_of(bound, "token")


@pytest.fixture
def opened_page(new_page, address) -> Iterator[Callable[..., Any]]:
    """Pages of the server; at the end nothing may have been asked of another."""
    requests: list[str] = []

    def make(**options: Any) -> Any:
        page = new_page(**options)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        page.wait_for_selector(".one")
        return page

    yield make
    assert requests and all(url.startswith((address, "data:")) for url in requests)


def choose(page: Any, text: str) -> None:
    page.get_by_label("Find a row").fill(text)
    page.locator("#matches button", has_text=text).first.click()  # the list of all rows, shown before, will not do
    page.wait_for_selector("#matches", state="hidden")


def ask(page: Any) -> None:
    page.locator(".ask").click()
    page.wait_for_selector(".ask:not([disabled])")
    page.wait_for_selector(".relax-card")


def chances(page: Any) -> list[str]:
    return [text.split("%")[0] for text in page.locator(".meter .amount").all_inner_texts()]


def expected(rows: Any) -> list[str]:
    shares = [100 * share for share in MODEL.predict_proba(rows)[0]]
    return [f"{share:.1f}" if 0 < share < 10 else f"{share:.0f}" for share in shares]


def test_the_whole_walk(opened_page):
    """Choose a row, lock a feature, ask, read the card, edit a value, see the probability move, download."""
    page = opened_page(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    choose(page, "1007")
    assert page.locator("[data-part=name]").inner_text() == "customer 1007"
    assert "person 7" in page.locator("[data-part=carried]").inner_text()
    assert chances(page) == expected(table().iloc[[7]])

    page.get_by_label("lock age").check()
    page.get_by_label("Alternatives").fill("2")
    ask(page)
    card = page.locator(".relax-card")
    assert card.locator(".rc-title").inner_text() == "customer 1007"
    assert card.locator(".rc-alternative").count() >= 1
    assert "age" not in card.locator(".rc-changes").all_inner_texts()[0]
    assert "Held for this question: age" in card.locator(".rc-held").inner_text()
    assert 'immutable=["age"]' in page.locator("[data-part=python]").text_content()

    before = chances(page)
    page.locator(FIELD.format("income")).get_by_role("spinbutton").fill("899")
    page.wait_for_selector(".one.edited")
    row = table().iloc[[7]].assign(income=899.0)
    row["total"] = row["income"] + row["rent"]
    page.wait_for_selector(".met")
    assert chances(page) == expected(row) != before
    assert page.locator(FIELD.format("total")).locator("output").inner_text() == f"{row['total'].iloc[0]:,.0f}"
    assert page.locator(FIELD.format("income")).locator(".was").inner_text().startswith("was ")

    page.wait_for_selector(".history li >> nth=1")
    entries = page.locator(".history li").all_inner_texts()
    assert entries[0].startswith("by hand") and entries[1].startswith("asked customer 1007")
    with page.expect_download() as got:
        page.get_by_role("link", name="JSON").click()
    kept = json.loads(got.value.path().read_text())
    assert [one["kind"] for one in kept] == ["asked", "tried"] and got.value.suggested_filename == "what-if.json"
    with page.expect_download() as got:
        page.get_by_role("link", name="CSV").click()
    assert len(list(csv.DictReader(got.value.path().read_text().splitlines()))) == 3


def test_an_alternative_is_put_into_the_form_and_taken_back(opened_page):
    page = opened_page()
    choose(page, "1009")
    ask(page)
    page.get_by_role("button", name="Put alternative 1 into the form").click()
    page.wait_for_selector(".met.yes")
    assert page.locator(".one.edited").count() >= 1
    page.get_by_role("button", name="Undo all edits").click()
    page.wait_for_selector(".met", state="detached")
    assert page.locator(".one.edited").count() == 0
    assert chances(page) == expected(table().iloc[[9]])


def test_ranges_categories_and_directions_reach_the_question(opened_page):
    page = opened_page()
    choose(page, "1003")
    page.locator(FIELD.format("income")).locator("summary").click()
    page.get_by_label("income (€) to").fill("850")
    page.get_by_label("direction of income (€)").select_option("up")
    page.locator(FIELD.format("town")).locator("summary").click()
    page.locator(FIELD.format("town")).get_by_label("Bonn").uncheck()
    page.get_by_label("The answer should be").first.select_option("=yes")
    page.get_by_label("Like rows that exist").select_option("no")
    ask(page)
    python = page.locator("[data-part=python]").text_content()
    for text in ('Goal.to("yes")', '"income": (None, 850', 'increase_only=["income"]', "plausible=False", HOSTILE):
        assert text in python
    assert '"B"' not in python
    choose(page, "1004")  # limits stay, edits do not
    assert page.locator(".limit.said").count() == 3  # and age, which the space lets only rise


def test_two_tabs_have_histories_of_their_own_and_a_reload_keeps_them(opened_page):
    first, second = opened_page(), opened_page()
    choose(first, "1001")
    choose(second, "1002")
    ask(first)
    ask(second)
    first.wait_for_selector(".history li")  # asked for after the answer is shown
    second.wait_for_selector(".history li")
    assert ["customer 1001" in text for text in first.locator(".history li").all_inner_texts()] == [True]
    assert ["customer 1002" in text for text in second.locator(".history li").all_inner_texts()] == [True]
    first.reload()
    first.wait_for_selector(".history li")
    assert "customer 1001" in first.locator(".history li").inner_text()


def test_what_goes_wrong_is_said_on_the_page_which_goes_on(browser, address):
    page = browser.new_context().new_page()  # on which errors are expected
    page.goto(address)
    page.wait_for_selector(".one")
    page.locator(FIELD.format("age")).get_by_role("spinbutton").fill("99")
    page.get_by_role("alert").filter(has_text="no luck today").wait_for()
    page.locator(FIELD.format("age")).get_by_role("spinbutton").fill("50")
    page.get_by_role("alert").wait_for(state="hidden")
    page.get_by_label("Alternatives").fill("99")
    page.locator(".ask").click()
    page.get_by_role("alert").filter(has_text="from 1 to 10").wait_for()
    page.locator(FIELD.format("age")).get_by_role("spinbutton").fill("51")
    page.wait_for_selector(".history li:has-text('51')")
    assert "from 1 to 10" in page.get_by_role("alert").inner_text()  # another question's answer does not wipe it off
    page.get_by_label("Alternatives").fill("1")
    ask(page)
    page.get_by_role("alert").wait_for(state="hidden")
    page.context.close()


def test_texts_of_the_data_are_never_run(opened_page):
    page = opened_page()
    hostile = int(table()["town"].eq(HOSTILE).to_numpy().argmax())
    choose(page, str(1000 + hostile))
    ask(page)
    assert page.locator(FIELD.format("town")).locator("select option:checked").inner_text() == HOSTILE
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_can_be_read(opened_page, width, scheme):
    page = opened_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    ask(page)
    wide, paper = page.evaluate(
        "[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]"
    )
    assert wide == width
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.locator(".ask-too").is_visible() == (width == 390)


def test_on_a_phone_the_upper_button_leads_to_the_answer(opened_page):
    page = opened_page(viewport={"width": 390, "height": 844})
    page.locator(".ask-too").click()
    page.wait_for_selector(".ask-too:not([disabled])")
    top = "document.querySelector('.relax-card').getBoundingClientRect().top"
    assert page.wait_for_function(f"{top} >= 0 && {top} < 844")
