"""What runs the tests of other toolkits with our classes: what it reads, counts, and stored."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.hosts import sdists

ROOT = Path(__file__).resolve().parents[2]
STORED = sorted((ROOT / "docs" / "results" / "hosts").glob("*.csv"))

PLUGIN = """
import sys, types
from sdists import subject, watch

class Theirs:
    answer = 1

class Ours(Theirs):
    answer = 2

def pytest_configure():
    toolkit = types.ModuleType("toolkit")
    toolkit.Explainer = Theirs
    if subject():
        watch(Ours)
        toolkit.Explainer = Ours
    sys.modules["toolkit"] = toolkit
"""
TESTS = """
import pytest, toolkit

@pytest.fixture(scope="module")
def explainer():
    return toolkit.Explainer()

def test_that_holds_for_both(explainer): assert explainer.answer > 0
def test_that_holds_for_theirs(explainer): assert explainer.answer == 1, "in /some/where/else.py"
def test_that_touches_nothing(): pass
@pytest.mark.skip(reason="no time")
def test_that_is_skipped(): pass
"""
README = """
```python
from toolkit import Explainer
%matplotlib inline
```
```sh
not python
```
```python
answer = Explainer().answer
```
"""


@pytest.mark.slow
def test_a_run_tells_what_passed_and_what_touched_our_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name, text in (("plugin_of_toolkit.py", PLUGIN), ("test_it.py", TESTS), ("README.md", README)):
        (work / name).write_text(text)
    (work / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "needed" / "pytest_timeout").mkdir(parents=True)
    (tmp_path / "needed" / "plugin_of_toolkit.py").write_text(PLUGIN)
    host = sdists.Host("toolkit", "pytest", [], ["test_it.py", "README.md"], "plugin_of_toolkit")
    monkeypatch.setattr(sdists, "TIMEOUT", [])  # its plugin would have to be fetched
    own, ours = (sdists.run(host, tmp_path, subject, host.tests) for subject in (sdists.OWN, "relax-global"))
    table = sdists.beside(host, own, ours).set_index("test")
    assert list(table.columns) == [name for name in sdists.COLUMNS if name != "test"]
    told = {name.partition("::")[2]: tuple(line) for name, line in table[["outcome", "own", "touched"]].iterrows()}
    assert told == {
        "test_that_holds_for_both": ("passed", "passed", True),
        "test_that_holds_for_theirs": ("failed", "passed", True),
        "test_that_touches_nothing": ("passed", "passed", False),
        "test_that_is_skipped": ("skipped", "skipped", False),
        "block 1": ("passed", "passed", False),
        "block 2": ("passed", "passed", True),
    }
    assert table.loc["test_it.py::test_that_holds_for_theirs", "reason"].startswith("AssertionError: in else.py")
    assert "4 of 6 pass, with the host's own class 5; 3 never touch our class" in sdists.told(table)


def test_blocks_of_texts_and_notebooks_are_their_python_code(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text\n```python\nx = 1\n!pip install x\n```\n```\nplain\n```\n")
    (tmp_path / "a.rst").write_text("text\n\n.. code:: python\n\n    x = 1\n    if x:\n        y = 2\n\ntext\n")
    cells = [{"cell_type": "code", "source": ["%magic\n", "x = 1"]}, {"cell_type": "markdown", "source": ["y"]}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert sdists.blocks(tmp_path / "a.md") == sdists.blocks(tmp_path / "a.ipynb") == ["x = 1"]
    assert [code.strip() for code in sdists.blocks(tmp_path / "a.rst")] == ["x = 1\nif x:\n    y = 2"]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_table_has_every_test_once_and_says_why_one_failed(path: Path) -> None:
    table = pd.read_csv(path, keep_default_na=False)
    assert list(table.columns[:5]) == ["host", "version", "test", "outcome", "touched"]
    assert set(table["host"]) == {path.stem}
    assert table["test"].is_unique
    assert set(table["outcome"]) <= {"passed", "failed", "skipped", "not run"}
    assert table["touched"].any()
