"""The playground in a real browser: pointer, touch and keys move the point, and what is shown is what is stored."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference.unpacked import unpack

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.teaching.packing import pack
from relax_plugin.teaching.play import Playground, play, render

pytestmark = pytest.mark.browser

DESKTOP = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 844}
MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def playground() -> Playground:
    return play(
        "network", config=ReLAXConfig(training="model", steps=60, validate_every=20)
    )  # a short training: the page is tested


@pytest.fixture(scope="module")
def text(playground) -> str:
    return render(playground)


@pytest.fixture(scope="module")
def address(text, tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("play") / "play.html"
    file.write_text(text, encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def stored(text) -> dict[str, Any]:
    """The data in the page, its columns as arrays."""
    data = json.loads(re.search(r'<script type="application/json" id="play-data">(.*?)</script>', text, re.S)[1])

    for part in ("steps", "answers"):
        data[part] = {key: {n: unpack(c) for n, c in table.items()} for key, table in data[part].items()}
    data["start"] = {name: unpack(column) for name, column in data["start"].items()}
    return data


@pytest.fixture
def drawn(opened, address) -> Callable[..., Any]:
    """Opens the page and waits until the point is on the plane."""

    def open_page(**options: Any) -> Any:
        page = opened(address, **options)
        page.locator("#plane .point").wait_for()
        return page

    return open_page


@pytest.fixture
def page(drawn) -> Any:
    return drawn(viewport=DESKTOP)


def point_of(page: Any) -> int:
    return int(page.locator("#plane").get_attribute("data-point"))


def place_of(page: Any) -> tuple[float, float]:
    return tuple(float(page.locator(f'[data-part="value-{i}"]').inner_text()) for i in (0, 1))


def table(page: Any, name: str) -> list[list[str]]:
    lines = page.locator(f'[data-part="{name}"] tr').all()
    return [line.locator("th, td").all_inner_texts() for line in lines]


def number(text: str) -> float:
    return float(text.replace(MINUS, "-").replace("%", ""))


def center(page: Any) -> tuple[float, float]:
    box = page.locator("#plane .point").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def check_against(page: Any, stored: dict[str, Any], moment: int | None = None, held: str = "") -> None:
    """Every number on the page is the one stored for the point, the agent (the kept one) and what is held."""
    trained = stored["moments"][stored["kept"] if moment is None else moment]["trained"]
    point, steps = point_of(page), stored["steps"][f"{trained} {held}".strip()]
    lines = np.flatnonzero(steps["point"] == point)
    shown = {row[0]: row[1:] for row in table(page, "steps")}
    assert len(shown["answer"]) == 1 + len(lines)
    for name, numbers in (
        ("goal met", steps["goal"]),
        (f"{MINUS}λ · farther", steps["reward"] - steps["goal"]),
        ("= reward", steps["reward"]),
    ):
        assert shown[name][0] == ""
        assert [number(cell) for cell in shown[name][1:]] == pytest.approx(numbers[lines].tolist(), abs=1e-9)
    chances = [stored["start"]["probability"][point], *steps["probability after"][lines]]
    wanted = next(name for name in shown if name.startswith("chance of "))
    assert [number(cell) for cell in shown[wanted]] == pytest.approx((100 * np.array(chances)).tolist(), abs=1e-6)
    codes = [stored["start"]["answer"][point], *steps["answer after"][lines]]
    assert shown["answer"] == [stored["classes"][int(code)] for code in codes]
    boxes = page.locator(".actions").all()
    assert len(boxes) == len(lines)
    for box, line in zip(boxes, lines, strict=True):
        values = {action["name"]: steps[f"Q {action['name']}"][line] for action in stored["actions"]}
        bars = [number(text[2:]) for text in box.locator("span.number").all_inner_texts() if text.startswith("Q ")]
        assert bars == pytest.approx([q for q in values.values() if np.isfinite(q)], abs=1e-9)
        assert box.locator("span.q").count() == len(bars)
        assert box.locator("span.off").count() == len(values) - len(bars)
        assert box.locator("span.chosen").first.inner_text() == stored["actions"][int(steps["action"][line])]["name"]
    beside = {row[0]: row[1:] for row in table(page, "methods")}
    for i, key in enumerate((f"policy {trained} {held}", f"greedy {held}")):
        answers = stored["answers"][key.strip()]
        assert beside["found"][i] == ("yes" if answers["found"][point] else "no")
        assert number(beside["model rows"][i]) == answers["rows"][point]
        if answers["found"][point]:
            assert number(beside["income"][i]) == pytest.approx(answers["income"][point])
            assert number(beside["debt"][i]) == pytest.approx(answers["debt"][point])
            assert number(beside["L0, changes"][i]) == answers["L0"][point]
            assert number(beside["L1, distance"][i]) == pytest.approx(answers["L1"][point], abs=5.1e-3)
    cost = page.locator('[data-part="cost"]').inner_text()
    rows = [stored["answers"][key.strip()]["rows"][point] for key in (f"policy {trained} {held}", f"greedy {held}")]
    assert cost.startswith(f"{rows[0]:.0f} model rows") and f"greedy search took {rows[1]:.0f}" in cost


def put(page: Any, point: int) -> None:
    for position, slider in zip(np.divmod(point, 61), ("slider-0", "slider-1"), strict=True):
        page.locator(f'[data-part="{slider}"]').fill(str(position))
    assert point_of(page) == point


def test_dragging_moves_the_point_to_the_grid_and_changes_the_steps(page, stored) -> None:
    before, sentence = point_of(page), page.locator('[data-part="sentence"]').inner_text()
    check_against(page, stored)
    x, y = center(page)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y + 40, steps=4)
    halfway = point_of(page)
    page.mouse.move(x - 120, y - 90, steps=4)
    page.mouse.up()
    assert len({before, halfway, point_of(page)}) == 3
    assert page.locator('[data-part="sentence"]').inner_text() != sentence
    assert center(page) == pytest.approx((x - 120, y - 90), abs=5)  # half a cell
    assert all(value == round(value) for value in place_of(page))
    check_against(page, stored)
    there = point_of(page)
    page.mouse.move(x, y)  # the button is up: nothing is dragged
    assert point_of(page) == there


def test_point_stays_on_the_plane_wherever_it_is_dragged(page, stored) -> None:
    page.mouse.move(*center(page))
    page.mouse.down()
    page.mouse.move(2, 2)
    assert place_of(page) == (10.0, 60.0)
    page.mouse.move(1195, 880)
    assert place_of(page) == (100.0, 0.0)
    page.mouse.up()
    check_against(page, stored)


def test_arrow_keys_move_the_point(page, stored) -> None:
    page.locator("#plane").focus()
    income, debt = place_of(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert place_of(page) == (income + 1, debt + 1)
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert place_of(page) == (income - 9, debt)
    check_against(page, stored)
    assert page.evaluate("scrollY") == 0
    for _ in range(12):
        page.keyboard.press("Shift+ArrowLeft")
    assert place_of(page) == (10.0, debt)
    assert "no room" in page.locator(".actions").first.inner_text()
    check_against(page, stored)


def test_plane_says_where_the_point_is(page) -> None:
    plane = page.locator("#plane")
    for keys in ("ArrowRight", "Shift+ArrowDown"):
        plane.press(keys)
        told = re.fullmatch(
            r"The plane of all applications\. The point: income ([\d.]+), debt ([\d.]+)",
            plane.get_attribute("aria-label"),
        )
        assert tuple(map(float, told.groups())) == place_of(page)


def test_numbers_of_four_bytes_are_read(page) -> None:
    numbers = [40_000.0, np.nan, -70_001.0]
    script = "async packed => { const read = await column(packed); return [0, 1, 2].map(read); }"
    read = page.evaluate(script, pack(numbers, 1.0))
    assert read == [40_000, None, -70_001]


def test_plane_switch_and_sliders_are_reached_by_tab(page) -> None:
    page.locator('[data-part="training"]').focus()
    for feature in (0, 1):
        page.keyboard.press("Tab")
        assert page.locator(f'[data-part="hold-{feature}"]').evaluate("box => box === document.activeElement")
    names = []
    for _ in range(3):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert names[0].startswith("The plane of all applications. The point: income ")
    assert names[1:] == ["income, thousand a year", "debt, thousand"]
    _, debt = place_of(page)
    page.keyboard.press("ArrowRight")
    assert place_of(page)[1] == debt + 1


def test_slider_shows_the_agent_as_it_learns(page, stored, playground) -> None:
    before, after = playground.told("policy", trained=0), playground.told("policy")
    failed = int(before.index[~before["found"] & after["found"]][100])
    put(page, failed)
    training, sentence = page.locator('[data-part="training"]'), page.locator('[data-part="sentence"]')
    assert sentence.inner_text().startswith("If ")
    assert page.locator('[data-part="moment"]').inner_text() == f"after {playground.kept} training steps (kept)"
    for moment in range(len(stored["moments"])):
        training.fill(str(moment))
        told = page.locator('[data-part="moment"]').inner_text()
        assert told.startswith(stored["moments"][moment]["name"]) and training.get_attribute("aria-valuetext") == told
        check_against(page, stored, moment)
    training.fill("0")
    assert page.locator('[data-part="moment"]').inner_text() == "untrained"
    assert sentence.inner_text().startswith("The agent finds nothing here")
    assert page.locator("#plane .failed").count() == 1
    page.locator("#plane").press("ArrowLeft")
    check_against(page, stored, 0)


@pytest.mark.parametrize(("held", "other"), [("income", "debt"), ("debt", "income")])
def test_a_feature_that_is_held_does_not_change(page, stored, playground, held, other) -> None:
    told = playground.told("policy", held)
    free = playground.told("policy")
    moved = free["found"] & (free[held] != playground.points[held])
    solved, unsolved = (int(told.index[part & moved][3]) for part in (told["found"], ~told["found"]))
    page.get_by_label(held, exact=True).check()
    sentence = page.locator('[data-part="sentence"]')
    put(page, solved)
    assert re.findall(r"(\w+) were", sentence.inner_text()) == [other]
    check_against(page, stored, held=held)
    assert "held" in page.locator(".actions").first.inner_text()
    put(page, unsolved)
    assert sentence.inner_text().startswith("The agent finds nothing here")
    assert page.locator("#plane .path-head").count() == 0
    check_against(page, stored, held=held)
    page.locator('[data-part="training"]').fill("0")
    check_against(page, stored, 0, held)
    page.get_by_label(held, exact=True).uncheck()
    check_against(page, stored, 0)


def test_with_both_features_held_nothing_may_change(page) -> None:
    for held in ("income", "debt"):
        page.get_by_label(held, exact=True).check()
    assert page.locator('[data-part="sentence"]').inner_text().startswith("Both features are held")
    assert page.locator("#plane .path-head, #plane .own-head, #plane .greedy-head").count() == 0
    page.locator("#plane").press("ArrowLeft")  # and the point can still be moved
    page.get_by_label("income", exact=True).uncheck()
    assert "Both" not in page.locator('[data-part="sentence"]').inner_text()


def test_the_delivered_answer_is_drawn_and_worded(page, playground) -> None:
    live = page.locator(".answer")
    assert live.get_attribute("aria-live") == "polite"
    told = playground.told("policy")
    several, one = (int(told.index[told["found"] & (told["L0"] == count)][5]) for count in (2, 1))
    for point in (several, one):
        put(page, point)
        result = playground.explainer.explain(playground.points.iloc[[point]])
        changes = re.findall(r"(\w+) were ([\d.]+) instead of ([\d.]+)", live.inner_text())
        assert {(name, float(to), float(old)) for name, to, old in changes} == {
            (change.feature, float(change.to), float(change[4])) for change in result.changes().itertuples()
        }
        assert f"would be {result.after[0, 0]} instead of {result.before[0]}." in live.inner_text()
        assert page.locator("#plane .path-head").count() == result.sparsity[0, 0]
        ends = page.locator("#plane .path-head").last.evaluate("head => head.getAttribute('d')")
        tip = [float(end) for end in re.match(r"M([\d.]+) ([\d.]+)L", ends).groups()]
        place = page.evaluate(
            "([x, y]) => { const f = document.querySelector('#plane .frame').getBBox();"
            " const c = [f.width / 91, f.height / 61];"
            " return [f.x + c[0] / 2 + (x - 10) / 90 * (f.width - c[0]),"
            "         f.y + f.height - c[1] / 2 - y / 60 * (f.height - c[1])]; }",
            result.values[0, 0].tolist(),
        )
        assert tip == pytest.approx(place, abs=0.01)


def test_a_finger_moves_the_point_too(drawn, stored) -> None:
    page = drawn(viewport=PHONE, is_mobile=True, has_touch=True)
    before = point_of(page)
    box = page.locator("#plane").bounding_box()
    page.touchscreen.tap(box["x"] + 90, box["y"] + 60)
    assert point_of(page) != before
    check_against(page, stored)
    assert page.locator("#plane").evaluate("plane => getComputedStyle(plane).touchAction") == "none"


@pytest.mark.parametrize("moment", [0, 1])
def test_page_is_never_wider_than_a_phone(drawn, moment) -> None:
    page = drawn(viewport=PHONE, is_mobile=True, has_touch=True)
    page.locator('[data-part="training"]').fill(str(moment))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("innerWidth") == 390
    assert page.locator("#plane text").first.evaluate("text => text.getBoundingClientRect().height") > 8
    for name in ("steps", "methods"):  # the tables need no scrolling
        assert page.locator(f'[data-part="{name}"]').evaluate(
            "t => t.parentElement.scrollWidth <= t.parentElement.clientWidth"
        )


def test_plane_is_drawn_anew_for_another_width(drawn, stored) -> None:
    page = drawn(viewport=DESKTOP)
    wide = page.locator("#plane").bounding_box()["width"]
    page.set_viewport_size(PHONE)
    narrow = "document.getElementById('plane').viewBox.baseVal.width < 390"
    for _ in range(1200):  # not wait_for_function, which evaluates text in the page, and the page's policy forbids it
        if page.evaluate(narrow):
            break
        page.wait_for_timeout(50)
    assert page.evaluate(narrow)
    assert page.locator("#plane").bounding_box()["width"] < wide
    check_against(page, stored)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_scheme(drawn, scheme) -> None:
    page = drawn(viewport=DESKTOP, color_scheme=scheme)
    shade = "getComputedStyle(document.querySelector('{}')).{}.match(/\\d+/g).slice(0, 3).map(Number)"
    paper, ink = (
        sum(page.evaluate(shade.format(*of))) for of in (("body", "backgroundColor"), ("#plane text", "fill"))
    )
    assert (paper < 120, ink < 240) == ((True, False) if scheme == "dark" else (False, True))


def test_without_scripts_the_page_says_what_is_missing(browser, address) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert "needs scripts" in page.locator("noscript").inner_text()
    assert not page.locator("#plane").is_visible()
    assert "How to read it" in page.locator("main").inner_text()
    context.close()
