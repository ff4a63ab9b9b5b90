"""The notebooks of examples/ are the lessons, run whole and shown without warnings: `make notebooks` writes them."""

import copy

import nbformat
import pytest
from lesson_files import LESSONS, command, name
from nbformat.v4 import new_output

notebooks = command("notebooks")


@pytest.fixture(scope="module")
def lesson():
    return LESSONS[2]


@pytest.fixture
def notebook(lesson):
    return nbformat.read(notebooks.stored(lesson), as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_notebook_is_current(path):
    """Its cells are those of the script, run in order by this version, with no error, warning or path, below 1 MB."""
    stored = nbformat.read(notebooks.stored(path), as_version=4)
    nbformat.validate(stored)
    assert notebooks.faults(stored, path) == [], "run `make notebooks`"
    assert any(cell.outputs for cell in code_cells(stored))


def test_notebook_opens_in_colab_and_installs_what_is_missing_first(notebook, lesson):
    title, link, install = notebook.cells[:3]
    assert title.source.startswith("# 3. ")
    assert f"/blob/main/examples/{lesson.stem}.ipynb)" in link.source
    assert link.source.startswith("[Open this lesson in Colab](https://colab.research.google.com/github/relax-plugin/")
    assert "%pip install" in install.source and install.outputs == []  # where the package is there, nothing happens
    assert notebooks.without_added(notebook).cells[0].source == title.source
    assert len(notebooks.without_added(notebook).cells) == len(notebook.cells) - 2


def warn(notebook):
    code_cells(notebook)[1].outputs.append(new_output("stream", name="stderr", text="FutureWarning: tomorrow"))


def fail(notebook):
    code_cells(notebook)[1].outputs.append(new_output("error", ename="ValueError", evalue="", traceback=[]))


def tell_a_path(notebook):
    code_cells(notebook)[1].outputs.append(new_output("stream", name="stdout", text="in /home/somebody/relax"))


def tell_a_path_in_a_table(notebook):
    code_cells(notebook)[1].outputs.append(new_output("display_data", {"text/html": "<td>C:\\Users</td>"}))


def skip_a_cell(notebook):
    code_cells(notebook)[1].execution_count = None


def run_a_cell_twice(notebook):
    code_cells(notebook)[-1].execution_count += 1


def change_a_cell(notebook):
    code_cells(notebook)[-1].source += " "


def lose_a_cell(notebook):
    del notebook.cells[0]


def grow(notebook):
    code_cells(notebook)[1].outputs.append(new_output("display_data", {"image/png": "A" * 1_000_000}))


def grow_old(notebook):
    notebook.metadata.relax_plugin.version = "0.0.1"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (warn, "warns"),
        (fail, "failed"),
        (tell_a_path, "path of the machine"),
        (tell_a_path_in_a_table, "path of the machine"),
        (skip_a_cell, "not run once each"),
        (run_a_cell_twice, "not run once each"),
        (change_a_cell, "not those of the script"),
        (lose_a_cell, "not those of the script"),
        (grow, "bytes"),
        (grow_old, "not made with version"),
    ],
)
def test_every_fault_of_a_notebook_is_told(notebook, lesson, fault, told):
    broken = copy.deepcopy(notebook)
    fault(broken)
    (sentence,) = notebooks.faults(broken, lesson)
    assert told in sentence


def test_a_progress_bar_is_not_kept_and_a_warning_is():
    bar = new_output("stream", name="stderr", text="training:  40%|####      | 4/10")
    widget = new_output("display_data", {notebooks.WIDGET: {}, "text/plain": "training:   0%|"})
    assert notebooks.is_progress(bar) and notebooks.is_progress(widget)
    assert not notebooks.is_progress(new_output("stream", name="stderr", text="UserWarning: 40 rows"))
    assert not notebooks.is_progress(new_output("stream", name="stdout", text="40%| of the rows"))
    assert not notebooks.is_progress(new_output("execute_result", {"text/plain": "40%|"}))


def test_check_names_the_notebook_that_is_not_current(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "EXAMPLES", tmp_path)
    (tmp_path / "01_own.py").write_text("# %% [markdown]\n# # Own\n\n# %%\nprint(1)\n")
    assert notebooks.main(["--check"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "01_own.ipynb: it does not exist.\n" and captured.out.startswith("0 of 1")


@pytest.mark.slow
def test_a_lesson_is_run_and_written_whole_or_not_at_all(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "EXAMPLES", tmp_path)
    script = "# %% [markdown]\n# # Own\n\n# %%\nprint(6 * 7)\n"
    (tmp_path / "01_own.py").write_text(script)
    (tmp_path / "02_warns.py").write_text(script + "\n# %%\nimport warnings\n\nwarnings.warn('on purpose')\n")
    assert notebooks.main([]) == 1
    told = capsys.readouterr().err
    assert told.startswith("02_warns: failed\n") and "the cell 'import warnings' warns." in told
    assert sorted(path.name for path in tmp_path.glob("*.ipynb")) == ["01_own.ipynb"]
    assert notebooks.main(["--check", "01"]) == 0
    made = nbformat.read(tmp_path / "01_own.ipynb", as_version=4)
    assert made.cells[-1].outputs[0].text == "42\n"
    assert set(made.metadata) == {"kernelspec", "language_info", "relax_plugin"}
