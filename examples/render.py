"""Run the lessons as notebooks and write them as web pages that need no network.

    python examples/render.py               # all lessons, into lessons/: what `make lessons` does
    python examples/render.py 01 06         # those whose names begin so
    python examples/render.py --output pages 02

A page is written whole or not at all. A lesson that fails is named, the others are still written, and the exit code
is 1.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from traitlets.config import Config

from relax_plugin.files import write_text

EXAMPLES = Path(__file__).resolve().parent
OUTPUT = EXAMPLES.parent / "lessons"
CELL_SECONDS = 600  # a cell that takes longer hangs

# nbconvert's page without the scripts that it would fetch, and not wider than one can read.
PAGE = """
{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block html_head_css -%}
<style>
  body.jp-Notebook { max-width: 64rem; margin: 0 auto; padding: 1rem; }
  .jp-RenderedHTMLCommon { max-width: 50rem; }
  .jp-OutputArea-output { overflow-x: auto; }
  .jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }
</style>
{%- endblock -%}
"""
INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lessons</title>
<style>
  body {{ font: 1.05rem/1.5 sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
  li {{ margin-bottom: 0.8rem; }}
</style>
</head>
<body>
<h1>Counterfactual explanations in seven lessons</h1>
<ol>
{items}
</ol>
</body>
</html>
"""


def lessons() -> list[Path]:
    """The lessons, in their order."""
    return sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))


def executed(lesson: Path) -> NotebookNode:
    """The lesson as a notebook with its outputs; files that it writes are thrown away."""
    notebook = jupytext.read(lesson)
    private = Config(
        {"KernelManager": {"transport_encryption": "auto"}}
    )  # else the kernel warns that others may listen
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            config=private,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute(env={**os.environ, "OMP_NUM_THREADS": "1"})
    return notebook


def page(notebook: NotebookNode, title: str) -> str:
    """The notebook as a web page."""
    # Jupyter looks for templates below sys.prefix only; nbconvert knows where its own were installed.
    installed = metadata.files("nbconvert") or []
    template = next(Path(str(file.locate())) for file in installed if file.match("lab/index.html.j2"))
    folder = str(template.resolve().parents[1])
    exporter = HTMLExporter(
        raw_template=PAGE,
        extra_template_basedirs=[folder],
        extra_template_paths=[folder],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    return str(exporter.from_notebook_node(notebook, {"metadata": {"name": title}})[0])


class _Fetched(HTMLParser):
    """Collects the addresses that a browser would fetch by itself to show a page; links may lead anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        given = {name: value or "" for name, value in attrs}
        address = given.get("href" if tag == "link" else "src", "")
        if address and not address.startswith("data:"):
            self.addresses.append(address)

    def handle_data(self, data: str) -> None:
        if self.inside == "style" and ("@import" in data or "url(http" in data.replace("'", "").replace('"', "")):
            self.addresses.append("a style sheet")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""


def fetched(text: str) -> list[str]:
    """What a browser would fetch to show a page; nothing, if it is complete in itself."""
    parser = _Fetched()
    parser.feed(text)
    return parser.addresses


def heading(lesson: Path) -> tuple[str, str]:
    """Title and first paragraph of a lesson."""
    text = jupytext.read(lesson).cells[0].source
    title, _, rest = text.partition("\n")
    return title.removeprefix("# "), " ".join(rest.strip().split("\n\n")[0].split())


def write_index(output: Path) -> None:
    """A page with a link to every lesson that was rendered."""
    written = [lesson for lesson in lessons() if (output / f"{lesson.stem}.html").exists()]
    items = []
    for lesson in written:
        title, about = map(escape, heading(lesson))
        items.append(f'<li><a href="{lesson.stem}.html">{title}</a><br>{about}</li>')
    write_text(output / "index.html", INDEX.format(items="\n".join(items)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the lessons and write them as web pages.")
    parser.add_argument("lessons", nargs="*", help="how the names of the lessons begin, such as 01; all if absent")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the pages")
    asked = parser.parse_args(arguments)
    chosen = [lesson for lesson in lessons() if not asked.lessons or lesson.name.startswith(tuple(asked.lessons))]
    if not chosen:
        parser.error(f"no lesson begins with {' or '.join(asked.lessons)}; there are {[p.stem for p in lessons()]}.")
    failed = 0
    for lesson in chosen:
        started = time.perf_counter()
        try:
            text = page(executed(lesson), heading(lesson)[0])
            if fetched(text):
                raise ValueError(f"the page would fetch {fetched(text)[0]}")
            write_text(asked.output / f"{lesson.stem}.html", text)
        except (CellControlSignal, ValueError) as error:
            failed += 1
            print(f"{lesson.stem}: failed\n{error}", file=sys.stderr, flush=True)
        else:
            print(f"{lesson.stem}: {time.perf_counter() - started:.0f} s", flush=True)
    write_index(asked.output)
    print(f"open {asked.output / 'index.html'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
