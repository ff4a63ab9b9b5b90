"""Run the examples of README.md and of the documentation, and store what they print: `make outputs`.

The outputs go to docs/results/outputs.json together with the code that printed them, and from there into the blocks of
text of the pages. `make tables` draws docs/picture.svg from the same file. Training ends in other digits on another
processor, so `tests/test_outputs.py` compares the form of an output and asks the model about the printed rows.
"""

import contextlib
import io
import json
import os
import platform
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "docs")]

import pictures  # noqa: E402
from markdown_files import blocks, conversations, printed  # noqa: E402

from relax_plugin.cli import main as run_command  # noqa: E402
from relax_plugin.files import write_text  # noqa: E402

OUTPUTS = ROOT / "docs" / "results" / "outputs.json"
PYTHON_PAGES = (
    ("README.md", "docs/quick_start.md"),
    ("docs/real_tables.md",),
)  # the second page goes on from the first
COMMAND_PAGE = "docs/first_five_minutes.md"


def explain_command(text: str) -> str:
    """The line of `relax-plugin explain` on the page of the command line."""
    shell = "".join(code for language, code in blocks(text) if language == "sh").replace("\\\n", " ")
    (line,) = [line for line in shell.splitlines() if line.startswith("relax-plugin explain ")]
    return " ".join(line.split())


def run_explain(line: str) -> str:
    """What the command prints in a folder that examples/own_table.py has filled."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(ROOT / "examples" / "own_table.py"))
    with contextlib.redirect_stdout(said):
        assert run_command(shlex.split(line)[1:]) == 0
    return said.getvalue()


def run_pages() -> dict[str, list[dict[str, str]]]:
    """The code of each page, with what it prints here."""
    found: dict[str, list[dict[str, str]]] = {}
    for pages in PYTHON_PAGES:
        names: dict[str, Any] = {}
        for page in pages:
            told = conversations((ROOT / page).read_text(encoding="utf-8"))
            found[page] = [{"code": code, "printed": printed(code, names)} for code, _ in told]
    line = explain_command((ROOT / COMMAND_PAGE).read_text(encoding="utf-8"))
    found[COMMAND_PAGE] = [{"code": line, "printed": run_explain(line)}]
    return found


def filled(text: str, outputs: list[dict[str, str]]) -> str:
    """The page with each block of text replaced by the stored output."""
    said = [output["printed"] for output in outputs if output["printed"]]
    old = [block for language, block in blocks(text) if language == "text"]
    assert len(said) == len(old), f"{len(said)} outputs for {len(old)} blocks of text"
    for before, after in zip(old, said, strict=True):
        text = text.replace(f"```text\n{before}```\n", f"```text\n{after}```\n", 1)
    return text


def main() -> None:
    """Run everything, store it, and fill the pages."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            pages, picture = run_pages(), pictures.run_for_picture()
        finally:
            os.chdir(here)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    made = {"commit": commit.stdout.strip(), "python": platform.python_version(), "machine": platform.machine()}
    write_text(OUTPUTS, json.dumps({"made": made, "pages": pages, "picture": picture}, indent=1) + "\n")
    for page, outputs in pages.items():
        write_text(ROOT / page, filled((ROOT / page).read_text(encoding="utf-8"), outputs))
    print(f"{OUTPUTS.relative_to(ROOT)} and {len(pages)} pages are written. Now run `make tables`.", file=sys.stderr)


if __name__ == "__main__":
    main()
