"""What tests of several rooms share: a real browser."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# The browser is stopped after each file: while it runs, no test could start an event loop of its own.

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The Chromium of the machine; without one, or without playwright, the tests that ask for it are skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=QUIET)
        yield launched
        launched.close()


@pytest.fixture
def new_page(browser) -> Iterator[Callable[..., Any]]:
    """`new_page(**options)` is an empty page in a window of its own; at the end none may have reported an error."""
    contexts, complaints = [], []

    def make(**options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def opened(new_page) -> Iterator[Callable[..., Any]]:
    """`opened(address, **options)` is a page that we wrote; at the end nothing may have been asked of a network."""
    requests = []

    def open_page(address: str, **options: Any) -> Any:
        page = new_page(**options)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield open_page
    assert requests
    assert all(url.startswith(("file:", "data:")) for url in requests)
