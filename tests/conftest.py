"""What tests of several rooms share: one thread a worker, doing without torch, and a real browser."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # benchmarks/, which is not installed

# Workers share the cores, and the threads of OpenMP wait for each other in a loop that keeps a core busy: a model of
# boosted trees asked row by row took thirteen times the seconds of a CPU. What is about threads sets their number.


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None):  # set before they start, who inherit it
        os.environ.setdefault("OMP_NUM_THREADS", "1")


# Lessons, the site and distributions, which take longest, lie in this folder itself: they begin, lest a worker be left
# alone with one of them at the end.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


# `make pythons TORCH=no`: a test that needs torch is skipped where it asks for it, a file of them as a whole.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-torch", action="store_true", help="torch is not installed: skip what needs it")


@contextmanager
def skipped_where_torch_is_missed(config: pytest.Config) -> Iterator[None]:
    try:
        yield
    except (ModuleNotFoundError, pytest.Collector.CollectError) as error:
        missed = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        if not config.getoption("--without-torch") or getattr(missed, "name", "") != "torch":
            raise
        pytest.skip("torch is not installed", allow_module_level=True)


class TestFile(pytest.Module):
    """A file of tests, skipped as a whole if it cannot be imported without torch."""

    def collect(self) -> Any:
        with skipped_where_torch_is_missed(self.config):
            return super().collect()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return TestFile.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with skipped_where_torch_is_missed(item.config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with skipped_where_torch_is_missed(item.config):
        return (yield)


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
        page.set_default_timeout(60_000)  # a machine may be busy
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
