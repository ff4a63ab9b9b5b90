"""The bar of `fit`: seen on a terminal and in a notebook, not in a log, and gone when it is over."""

import io
import sys
import warnings

import nbformat
import pytest
from nbclient import NotebookClient

from relax_plugin.agent import progress_bar as module
from relax_plugin.agent.progress_bar import TerminalBar, bar_class, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float = 0.0, **options: bool) -> str:
    """What a bar of three steps writes on a stream."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "PATIENCE", patience)
    monkeypatch.setenv("COLUMNS", "80")
    bar = progress_bar(3, "training", "step", **options)
    for _ in range(3):
        bar.set_postfix(validity="0.5", refresh=False)
        bar.update()
    bar.refresh()
    bar.close()
    return stream.getvalue()


def test_a_terminal_sees_it_and_keeps_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, Terminal())
    assert "training" in text and "3/3" in text and "validity=0.5" in text
    assert text.endswith("\r" + " " * 79 + "\r") and "\n" not in text
    assert all(len(part) <= 76 for part in text.split("\r") if part.strip())


def test_what_is_over_soon_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    bar = progress_bar(3, "training", "step")
    bar.set_postfix(validity="0.5", refresh=False)
    bar.update(3)
    bar.close()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO, True), (Terminal, False)], ids=["a log", "switched off"])
def test_a_log_and_whoever_wants_none_get_none(
    stream: type[io.StringIO], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(monkeypatch, stream(), shown=shown) == ""


def test_without_stderr_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert bar_class() == (TerminalBar, False)


def test_a_notebook_with_widgets_gets_the_bar_of_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind, visible = bar_class()
    assert kind.__module__ == "tqdm.notebook" and visible


PREPARED = """
import warnings
warnings.simplefilter("always")
import numpy as np
from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.agent import progress_bar
progress_bar.find_spec = lambda name: None  # as where ipywidgets is not installed
"""
TRAINED = """
progress_bar.PATIENCE = {patience}
rows = np.random.default_rng(0).normal(size=(100, 3))
config = ReLAXConfig(training="model", steps=20, validate_every=5, episodes=8)
fitted = ReLAX(lambda rows: (np.asarray(rows)[:, 0] > 0).astype(int), config=config, effort="policy").fit(rows)
print(len(fitted.history_.rows))
"""


@pytest.mark.slow
def test_a_notebook_without_widgets_gets_the_bar_of_a_terminal_and_no_warning() -> None:
    patient, hasty = (TRAINED.format(patience=patience) for patience in (600.0, 0.0))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (PREPARED, patient, hasty)])
    NotebookClient(book, timeout=600, startup_timeout=600, kernel_name="python3").execute()
    for cell, seen in zip(book.cells, (None, False, True), strict=True):
        texts = {"stdout": "", "stderr": ""}
        for output in cell.outputs:
            texts[output["name"]] += output["text"]
        assert "Warning" not in texts["stderr"] and "IProgress" not in texts["stderr"]
        if seen is not None:
            assert int(texts["stdout"]) >= 10
            assert ("training" in texts["stderr"]) == seen
