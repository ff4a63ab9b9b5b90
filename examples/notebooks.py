"""Run the lessons and write them, with all that they show, as notebooks beside the scripts.

    python examples/notebooks.py            # all lessons: what `make notebooks` does
    python examples/notebooks.py 01 06      # those whose names begin so
    python examples/notebooks.py --check    # runs nothing, and says which notebooks are not what they should be

A notebook has the cells of its script, and after the title a link to Colab and a cell that installs the package where
it is missing. It is written whole or not at all; a lesson that fails is named, and the exit code is 1.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from traitlets.config import Config

from relax_plugin.files import write_text

EXAMPLES = Path(__file__).resolve().parent
PROJECT = EXAMPLES.parent / "pyproject.toml"
CELL_SECONDS = 600  # a cell that takes longer hangs
LARGEST = 1_000_000  # bytes of a notebook: GitHub shows no large ones
ADDED = "notebook-only"  # tag of the cells that the script does not have
EXTRAS = {"07": "dice,interpret,shap,plots", "08": "lightgbm,plots"}  # what a lesson needs beside the package
COLAB = "https://colab.research.google.com/github"
FILES = re.compile(r"(?<![\w.:/])/(?:home|root|work|tmp|var|usr|opt|mnt|Users|private)/\w|\b[A-Z]:\\\w")
PROGRESS = re.compile(r"\d+%\|")  # a bar of tqdm
WIDGET = "application/vnd.jupyter.widget-view+json"
# The kernel has no widgets, of which libraries complain as they are imported: a matter of this machine, not the lesson.
QUIET = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}


def lessons() -> list[Path]:
    """The lessons, in their order."""
    return sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))


def chosen_lessons(parser: argparse.ArgumentParser, beginnings: Sequence[str]) -> list[Path]:
    """The lessons whose names begin so; all, if nothing is said."""
    chosen = [lesson for lesson in lessons() if not beginnings or lesson.name.startswith(tuple(beginnings))]
    if not chosen:
        parser.error(f"no lesson begins with {' or '.join(beginnings)}; there are {[p.stem for p in lessons()]}.")
    return chosen


def project() -> dict[str, str]:
    """Name, version and address of the package."""
    said = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return {"name": said["name"], "version": said["version"], "source": said["urls"]["Source"]}


def installing(lesson: Path) -> list[NotebookNode]:
    """What a notebook has that its script has not: how to open it in Colab, and a cell that installs the package."""
    package = project()
    where = package["source"].removeprefix("https://github.com")
    link = f"{COLAB}{where}/blob/main/examples/{lesson.stem}.ipynb"
    words = f"[Open this lesson in Colab]({link}). The next cell installs the package where it is missing."
    needs = f"{package['name']}[{EXTRAS.get(lesson.name[:2], 'plots')}] @ git+{package['source']}"
    code = (
        'import importlib.util\n\nif importlib.util.find_spec("relax_plugin") is None:\n'
        f'    %pip install --quiet "{needs}"'
    )
    tags = {"tags": [ADDED]}
    return [new_markdown_cell(words, metadata=tags), new_code_cell(code, metadata=tags)]


def notebook_of(lesson: Path) -> NotebookNode:
    """The lesson as a notebook that was not run yet; the same script gives the same notebook."""
    notebook = jupytext.read(lesson)
    notebook.cells[1:1] = installing(lesson)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:02}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made_with = {"version": project()["version"]}
    notebook.metadata = NotebookNode(kernelspec=kernel, language_info={"name": "python"}, relax_plugin=made_with)
    return notebook


def executed(lesson: Path) -> NotebookNode:
    """The lesson as a notebook with its outputs; files that it writes are thrown away."""
    notebook = notebook_of(lesson)
    metadata = notebook.metadata.copy()
    private = Config(
        {"KernelManager": {"transport_encryption": "auto"}}
    )  # else the kernel warns that others may listen
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            config=private,
            timeout=CELL_SECONDS,
            startup_timeout=CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute(env={**os.environ, **QUIET})
    notebook.metadata = metadata  # without the versions of this machine
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_progress(output)]
    return notebook


def is_progress(output: NotebookNode) -> bool:
    """Whether an output is a progress bar, which is of the moment only."""
    if output.output_type == "stream":
        return output.name == "stderr" and bool(PROGRESS.search(output.text))
    return WIDGET in output.get("data", {})


def without_added(notebook: NotebookNode) -> NotebookNode:
    """The notebook with the cells of its script alone."""
    kept = [cell for cell in notebook.cells if ADDED not in cell.metadata.get("tags", [])]
    return NotebookNode({**notebook, "cells": kept})


def stored(lesson: Path) -> Path:
    """Where the notebook of a lesson lies."""
    return lesson.with_suffix(".ipynb")


def texts(cell: NotebookNode) -> Iterator[str]:
    """What a person reads of the outputs of a cell; pictures are left out."""
    for output in cell.get("outputs", []):
        yield output.get("text", "")
        for kind, data in output.get("data", {}).items():
            if not kind.startswith("image/"):
                yield re.sub(r"base64,[A-Za-z0-9+/=]+", "", data if isinstance(data, str) else json.dumps(data))


def faults(notebook: NotebookNode, lesson: Path) -> list[str]:
    """What is wrong with the notebook of a lesson, in sentences; nothing, if it is current and was run whole."""
    expected = notebook_of(lesson)
    found = []
    if [(cell.cell_type, cell.source) for cell in notebook.cells] != [(c.cell_type, c.source) for c in expected.cells]:
        found.append("its cells are not those of the script.")
    if notebook.metadata != expected.metadata:
        found.append(f"it was not made with version {project()['version']}.")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("its cells were not run once each, in their order.")
    for cell in code:
        begins = cell.source.partition("\n")[0]
        if any(output.output_type == "error" for output in cell.outputs):
            found.append(f"the cell {begins!r} failed.")
        if any(output.output_type == "stream" and output.name == "stderr" for output in cell.outputs):
            found.append(f"the cell {begins!r} warns.")
        if any(FILES.search(text) for text in texts(cell)):
            found.append(f"the cell {begins!r} tells a path of the machine it was run on.")
    size = len(nbformat.writes(notebook).encode())
    if size > LARGEST:
        found.append(f"it has {size:,} bytes; at most {LARGEST:,} are accepted.")
    return found


def check(chosen: Sequence[Path]) -> int:
    """Say what is wrong with the notebooks that are there."""
    wrong = 0
    for lesson in chosen:
        path = stored(lesson)
        told = faults(nbformat.read(path, as_version=4), lesson) if path.exists() else ["it does not exist."]
        wrong += bool(told)
        for fault in told:
            print(f"{path.name}: {fault}", file=sys.stderr)
    print(f"{len(chosen) - wrong} of {len(chosen)} notebooks are current")
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the lessons and write them as notebooks.")
    parser.add_argument("lessons", nargs="*", help="how the names of the lessons begin, such as 01; all if absent")
    parser.add_argument("--check", action="store_true", help="run nothing: say which notebooks are not current")
    asked = parser.parse_args(arguments)
    chosen = chosen_lessons(parser, asked.lessons)
    if asked.check:
        return check(chosen)
    failed = 0
    for lesson in chosen:
        started = time.perf_counter()
        try:
            notebook = executed(lesson)
            told = faults(notebook, lesson)
            if told:
                raise ValueError("\n".join(told))
        except (CellControlSignal, ValueError) as error:
            failed += 1
            print(f"{lesson.stem}: failed\n{error}", file=sys.stderr, flush=True)
        else:
            text = nbformat.writes(notebook) + "\n"
            write_text(stored(lesson), text)
            print(f"{lesson.stem}: {time.perf_counter() - started:.0f} s, {len(text) // 1000} kB", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
