"""The report in a real browser: without errors, without network, sortable, and readable wherever it is opened."""

import json
from pathlib import Path
from typing import Any

import pytest
from reference.sample_rows import INSTANCES, LOANS, METHODS, PRICES, sample_rows

from relax_plugin.pages.report import explorer_data, write_report

pytestmark = pytest.mark.browser

QUALITY = f'[aria-label="Quality on {LOANS}"] table'

# The smallest contrast of any text with the first opaque background behind it, as WCAG defines it.
CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((channel) => linear(channel / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if ((channels(colour)[3] ?? 1) === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let least = 21, where = "";
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(node.ownerSVGElement ? style.fill : style.color), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) [least, where] = [ratio, node.outerHTML.slice(0, 120)];
  }
  return [least, where];
}"""


@pytest.fixture(scope="module")
def rows() -> Any:
    return sample_rows()


@pytest.fixture(scope="module")
def address(rows, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report")
    return write_report(rows, folder / "report.html", title="In a browser").as_uri()


@pytest.fixture
def page(opened, address) -> Any:
    """The report, with all that is folded opened."""
    page = opened(address, viewport={"width": 1280, "height": 900})
    page.evaluate("document.querySelectorAll('main details').forEach((folded) => (folded.open = true))")
    return page


def column(page: Any, table: str, position: int) -> list[str]:
    return page.locator(f"{table} tbody tr > :nth-child({position})").all_inner_texts()


def shown_changes(page: Any) -> list[tuple[str, str, str]]:
    lines = page.locator('[data-part="changes"] tr.changed').all()
    return [tuple(cell.inner_text() for cell in line.locator("th, td").all()) for line in lines]


def expected_changes(rows: Any, task: str, instance: int, method: str) -> list[tuple[str, str, str]]:
    here = rows["task"].eq(task) & rows["instance"].eq(instance) & rows["method"].eq(method) & rows["seed"].eq(0)
    changes = json.loads(rows[here]["changes"].iloc[0])
    way = ["◆" if isinstance(to, str) else "▲" if to > old else "▼" for _, old, to in changes]
    text = [[value if isinstance(value, str) else f"{value:.6g}" for value in change[1:]] for change in changes]
    return [(name, old, f"{arrow} {to}") for (name, _, _), (old, to), arrow in zip(changes, text, way, strict=True)]


def test_heading_sorts_by_number_both_ways(page) -> None:
    heading = page.locator(f"{QUALITY} thead th", has_text="validity")
    before = column(page, QUALITY, 2)
    numbers = sorted(float(text.split("%")[0]) for text in before)
    assert [float(text.split("%")[0]) for text in before] != numbers
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert [float(text.split("%")[0]) for text in column(page, QUALITY, 2)] == numbers
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert [float(text.split("%")[0]) for text in column(page, QUALITY, 2)] == numbers[::-1]
    assert sorted(column(page, QUALITY, 2)) == sorted(before)


def test_numbers_are_not_sorted_as_text(page) -> None:
    cost = f'[aria-label="Cost on {LOANS}"] table'
    page.locator(f"{cost} thead th", has_text="training rows").get_by_role("button").click()
    assert column(page, cost, 2) == ["256", "512", "768", "1,024"]


def test_enter_on_a_heading_sorts_too(page) -> None:
    heading = page.locator(f"{QUALITY} thead th", has_text="method")
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert column(page, QUALITY, 1) == sorted(METHODS, reverse=True)


def test_what_was_not_measured_stays_last(page) -> None:
    table = f'[aria-label="Quality on {PRICES}"] table'
    button = page.locator(f"{table} thead th", has_text="validity").get_by_role("button")
    for _ in range(2):
        button.click()
        assert column(page, table, 1)[-1] == "move-table"


def test_choosing_a_query_or_a_method_changes_the_table(page, rows) -> None:
    seen = set()
    for instance in (0, 4, 9):
        for method in ("greedy", "relax-global"):
            page.get_by_label("Query", exact=True).select_option(str(instance))
            page.get_by_label("Method", exact=True).select_option(method)
            changes = shown_changes(page)
            assert sorted(changes) == sorted(expected_changes(rows, LOANS, instance, method))
            assert f"query {instance}: {method}" in page.locator('[data-part="title"]').inner_text()
            seen.add(tuple(changes))
    assert len(seen) > 4
    page.get_by_role("button", name="next query").click()
    assert sorted(shown_changes(page)) == sorted(expected_changes(rows, LOANS, 10, "relax-global"))


def test_explorer_tells_sentence_and_probabilities_and_every_method_of_the_query(page, rows) -> None:
    solved = rows["task"].eq(LOANS) & rows["seed"].eq(0) & rows["method"].eq("move-table") & rows["valid"]
    row = rows[solved].iloc[0]
    page.get_by_label("Query", exact=True).select_option(str(row["instance"]))
    page.get_by_label("Method", exact=True).select_option("move-table")
    assert page.locator('[data-part="sentence"]').inner_text().lower() in row["sentence"].lower()
    answers = page.locator('[data-part="answers"]').inner_text()
    assert f"{100 * row['probability_before']:.1f}%" in answers and f"{100 * row['probability_after']:.1f}%" in answers
    assert page.locator('[data-part="methods"] th').all_inner_texts() == list(METHODS)
    assert page.locator('[data-part="methods"] tr.chosen td').all_inner_texts()[-1] == str(int(row["rows"]))


def test_choosing_a_task_brings_its_queries_features_and_methods(page) -> None:
    page.get_by_label("Task", exact=True).select_option(PRICES)
    assert sorted(page.locator('[data-part="changes"] th').all_inner_texts()) == ["age", "distance", "rooms"]
    assert "move-table" not in page.get_by_label("Method", exact=True).inner_text()
    assert f"All {INSTANCES} queries of seed 0." in page.locator('[data-part="limit"]').inner_text()


def test_without_scripts_tables_figures_and_sentences_are_there(opened, address) -> None:
    page = opened(address, java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page.get_by_text("All numbers: quality and cost").first.click()
    assert column(page, QUALITY, 1) == list(METHODS)
    assert page.locator("figure svg").count() == 13  # five and a heat map for each answer, of two tasks
    assert not page.get_by_label("Query", exact=True).is_visible()
    page.get_by_text("as plain text").first.click()
    sentences = page.locator(f'[aria-label="First queries of {LOANS}"] table')
    assert sentences.is_visible() and "instead of" in sentences.inner_text()


def test_page_is_never_wider_than_a_phone(opened, address) -> None:
    page = opened(address, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("innerWidth") == 390
    box = page.locator(QUALITY).locator("..")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")  # the table scrolls in its own box
    assert page.locator("figure svg text").first.evaluate("text => text.getBoundingClientRect().height") > 8


def test_menu_of_a_phone_leads_to_every_section_and_closes(opened, address) -> None:
    page = opened(address, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    menu = page.locator("nav details.menu")
    assert menu.is_visible() and not page.locator("nav .spread").is_visible()
    menu.locator("summary").click()
    links = menu.locator("a")
    assert set(page.evaluate("[...document.querySelectorAll('main section')].map((part) => `#${part.id}`)")) == {
        link.get_attribute("href") for link in links.all()
    }
    for link in links.all():
        assert link.is_visible()
    links.last.click()
    assert not links.last.is_visible()
    assert page.evaluate("location.hash") == "#reproduce"


@pytest.mark.parametrize("width", [1280, 390])
def test_box_with_more_than_it_shows_says_so_until_its_end(opened, address, width: int) -> None:
    page = opened(address, viewport={"width": width, "height": 844})
    page.evaluate("document.querySelectorAll('main details').forEach((folded) => (folded.open = true))")
    box = page.locator(QUALITY).locator("..")
    hint = page.locator(f'p.more:has(+ [aria-label="Quality on {LOANS}"])')
    wide = box.evaluate("box => box.scrollWidth > box.clientWidth + 2")
    page.wait_for_function(
        "box => box.classList.contains('more-right') === (box.scrollWidth > box.clientWidth + 2)",
        arg=box.element_handle(),
    )
    assert wide or width > 390
    assert (hint.inner_text() != "") == wide
    if wide:
        assert box.evaluate("box => getComputedStyle(box).maskImage") != "none"
        box.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
        page.wait_for_function("box => !box.classList.contains('more-right')", arg=box.element_handle())
        assert box.evaluate("box => getComputedStyle(box).maskImage") == "none"


def test_explorer_begins_with_the_typical_query(opened, address, rows) -> None:
    page = opened(address, viewport={"width": 1280, "height": 900})
    data = explorer_data(rows, list(METHODS))
    shown = [task["instances"][task["typical"]] for task in data]
    assert shown != [0, 0]
    for task, instance in zip((LOANS, PRICES), shown, strict=True):
        page.get_by_label("Task", exact=True).select_option(task)
        assert f"query {instance}:" in page.locator('[data-part="title"]').inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(opened, address, scheme) -> None:
    page = opened(address, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    shade = sum(map(int, page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")[:3]))
    assert (shade < 120) == (scheme == "dark")
    least, where = page.evaluate(CONTRAST)
    assert least >= 4.5, where


def test_print_is_on_white_with_the_chosen_query_and_without_controls(opened, address, tmp_path: Path) -> None:
    page = opened(address, color_scheme="dark", viewport={"width": 1280, "height": 900})
    page.get_by_label("Query", exact=True).select_option("4")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible() and not page.locator(".controls").is_visible()
    assert "query 4" in page.locator('[data-part="title"]').inner_text()
    assert page.locator('[data-part="changes"]').is_visible()
    assert page.locator(QUALITY).is_visible(), "what is folded is printed"
    assert page.evaluate(CONTRAST)[0] >= 4.5
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
