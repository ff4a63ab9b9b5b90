"""The History of a training: a row a validation; and the progress that is shown meanwhile."""

import io
import sys
from dataclasses import replace

import nbformat
import pytest
from nbclient import NotebookClient
from reference.tiny import QUICK, gaussian_rows, two_class_probabilities

from relax_plugin import ReLAX
from relax_plugin.agent import history as history_module

ROWS = gaussian_rows()
ON_THE_MODEL = replace(QUICK, training="model", steps=24, validate_every=12)


def fitted(config, model=two_class_probabilities):
    return ReLAX(model, config=config, max_changes=2, effort="policy", progress=False).fit(ROWS)


@pytest.fixture(scope="module")
def trained():
    return fitted(ON_THE_MODEL)


@pytest.mark.slow
def test_each_validation_is_a_row(trained):
    frame = trained.history_.frame()
    assert frame["step"].tolist() == [12, 24]
    assert frame.notna().all(axis=None) and frame["validity"].between(0.0, 1.0).all()
    assert frame["rows"].is_monotonic_increasing


def test_what_was_interrupted_before_its_first_validation_counts_as_untrained():
    class Interrupting:
        calls = 0

        def __call__(self, rows):
            self.calls += 1
            if self.calls == 20:
                raise KeyboardInterrupt
            return two_class_probabilities(rows)

    explainer = fitted(replace(ON_THE_MODEL, steps=100, validate_every=50), Interrupting())
    assert explainer.history_.stopped == "interrupted"
    assert explainer.history_.rows == []


@pytest.mark.slow
def test_the_page_of_a_training_is_of_every_validation(trained):
    frame = trained.history_.frame()
    lines = {axes.get_title(): axes.lines[0] for axes in trained.history_.plot().axes}
    assert lines["exploration ε"].get_xdata().tolist() == frame["step"].tolist()
    assert lines["validity, validation rows"].get_ydata().tolist() == frame["validity"].tolist()


TRAINED = """
import sys
import numpy as np
from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.agent import history
history.PATIENCE = 0.0
rows = np.random.default_rng(0).normal(size=(100, 3))
config = ReLAXConfig(training="model", steps=20, validate_every=5, episodes=8)
ReLAX(lambda rows: (np.asarray(rows)[:, 0] > 0).astype(int), config=config, effort="policy").fit(rows)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("stream", [Terminal(), io.StringIO(), None], ids=["a terminal", "a log", "no stderr"])
def test_a_terminal_shows_the_progress_and_a_log_does_not(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    exec(TRAINED, {})
    if stream is not None:
        assert ("training" in stream.getvalue() and "/20" in stream.getvalue()) == stream.isatty()
        assert "\n" not in stream.getvalue()


@pytest.mark.slow
def test_a_notebook_without_widgets_shows_no_warning() -> None:
    hidden = "import sys, warnings\nsys.modules['ipywidgets'] = None\nwarnings.simplefilter('always')\n"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(hidden + TRAINED)])
    NotebookClient(book, timeout=600, startup_timeout=600, kernel_name="python3").execute()
    assert not [output for output in book.cells[0].outputs if "IProgress" in output.get("text", "")]
