"""Run the lessons as notebooks and write them as web pages that need no network.

    python examples/render.py               # all lessons, into lessons/: what `make lessons` does
    python examples/render.py 01 06         # those whose names begin so
    python examples/render.py --output pages 02
    python examples/render.py --stored      # runs nothing: pages of the notebooks that lie beside the scripts

A page is written whole or not at all. A lesson that fails is named, the others are still written, and the exit code
is 1.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path

import jupytext
import nbformat
import notebooks
from nbclient.exceptions import CellControlSignal
from nbconvert import HTMLExporter
from nbconvert.filters.markdown import markdown2html
from nbformat import NotebookNode
from notebooks import chosen_lessons, executed, faults, lessons, stored, without_added

from relax_plugin.files import write_text

OUTPUT = notebooks.EXAMPLES.parent / "lessons"

# nbconvert's page without the scripts that it would fetch, and not wider than one can read.
PAGE = """
{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block html_head_css -%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  body.jp-Notebook { max-width: 64rem; margin: 0 auto; padding: 1rem; }
  .jp-RenderedHTMLCommon { max-width: 50rem; }
  .jp-OutputArea-output { overflow-x: auto; }
  .jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }
  .lessons { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: .75rem .5rem; font: 15px/1.5 sans-serif; }
  .lessons a { color: #0a58a6; }
  .lessons .next { margin-left: auto; text-align: right; }
  @media (prefers-color-scheme: dark) {
    :root {
      color-scheme: dark; --jp-layout-color0: #13161b; --jp-layout-color1: #13161b; --jp-layout-color2: #1c2129;
      --jp-layout-color3: #2a313c; --jp-cell-editor-background: #1c2129; --jp-cell-editor-border-color: #2a313c;
      --jp-ui-font-color0: #e5e9ef; --jp-ui-font-color1: #e5e9ef; --jp-content-font-color0: #fff;
      --jp-content-font-color1: #e5e9ef; --jp-content-font-color2: #b9c1cc; --jp-content-link-color: #86bdf5;
      --jp-border-color0: #3a4350; --jp-border-color1: #3a4350; --jp-border-color2: #2a313c;
      --jp-rendermime-table-row-background: #1c2129; --jp-rendermime-table-row-hover-background: #2a313c;
      --jp-mirror-editor-keyword-color: #7fc98b; --jp-mirror-editor-operator-color: #c9a0f0;
      --jp-mirror-editor-number-color: #8fd0a5; --jp-mirror-editor-string-color: #f0a08a;
      --jp-mirror-editor-comment-color: #8fb5b5; --jp-mirror-editor-builtin-color: #7fc98b;
      --jp-mirror-editor-def-color: #86bdf5; --jp-mirror-editor-variable-color: #e5e9ef;
      --jp-mirror-editor-punctuation-color: #86bdf5; --jp-mirror-editor-property-color: #86bdf5;
    }
    .jp-OutputArea-output img { background: #fff; } /* pictures are drawn for paper */
    .lessons a { color: #86bdf5; }
  }
</style>
{%- endblock -%}
{%- block body_header -%}{{ super() }}{{ resources.navigation }}{%- endblock -%}
{%- block body_footer -%}{{ resources.navigation }}{{ super() }}{%- endblock -%}
"""
INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Lessons</title>
<style>
  :root {{ color-scheme: light dark; --paper: #fff; --ink: #1d2430; --accent: #0a58a6; --panel: #f6f8fa; }}
  @media (prefers-color-scheme: dark) {{
    :root {{ --paper: #13161b; --ink: #e5e9ef; --accent: #86bdf5; --panel: #1c2129; }}
  }}
  body {{ font: 1.05rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }}
  body {{ max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }}
  h1 {{ line-height: 1.2; }}
  a {{ color: var(--accent); font-weight: 600; }}
  li {{ margin-bottom: 1rem; padding-left: .4rem; }}
  li p {{ margin: .15rem 0; }}
  code {{ background: var(--panel); padding: 0 .2em; border-radius: .2em; }}
</style>
</head>
<body>
<h1>Counterfactual explanations in {count}</h1>
<ol>
{items}
</ol>
</body>
</html>
"""
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def page(notebook: NotebookNode, title: str, navigation: str = "") -> str:
    """The notebook as a web page, without the cells that belong to notebooks only."""
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
    given = {"metadata": {"name": title}, "navigation": navigation}
    return str(exporter.from_notebook_node(without_added(notebook), given)[0])


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
    """Title and first paragraph of a lesson, in Markdown."""
    text = jupytext.read(lesson).cells[0].source
    title, _, rest = text.partition("\n")
    return title.removeprefix("# "), " ".join(rest.strip().split("\n\n")[0].split())


def navigation(lesson: Path, written: Sequence[Path]) -> str:
    """Links to the lessons before and after it, of those that have a page, and to the index."""
    place = written.index(lesson)
    links = ['<a href="index.html">All lessons</a>']
    if place > 0:
        links.append(_link(written[place - 1], "previous"))
    if place + 1 < len(written):
        links.append(_link(written[place + 1], "next"))
    return f'<nav class="lessons" aria-label="Lessons">{" ".join(links)}</nav>'


def _link(lesson: Path, which: str) -> str:
    arrows = {"previous": ("\N{LEFTWARDS ARROW} ", ""), "next": ("", " \N{RIGHTWARDS ARROW}")}[which]
    title = escape(heading(lesson)[0]).join(arrows)
    return f'<a class="{which}" rel="{which[:4]}" href="{lesson.stem}.html">{title}</a>'


def index_page(written: Sequence[Path]) -> str:
    """A page with a link to every lesson that has a page; the list numbers them."""
    items = []
    for lesson in written:
        title, about = heading(lesson)
        named = escape(re.sub(r"^\d+\. ", "", title))
        number = int(lesson.name[:2])
        items.append(f'<li value="{number}"><a href="{lesson.stem}.html">{named}</a>{markdown2html(about)}</li>')
    count = COUNTS[len(written)] if len(written) < len(COUNTS) else str(len(written))
    return INDEX.format(items="\n".join(items), count=f"{count} lesson" if len(written) == 1 else f"{count} lessons")


def ran(lesson: Path, from_stored: bool) -> NotebookNode:
    """The lesson with its outputs: run now, or as its notebook has them, if that is current."""
    if not from_stored:
        return executed(lesson)
    if not stored(lesson).exists():
        raise ValueError(f"there is no {stored(lesson).name}; `make notebooks` writes it.")
    notebook = nbformat.read(stored(lesson), as_version=4)
    told = faults(notebook, lesson)
    if told:
        raise ValueError("\n".join(told))
    return notebook


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the lessons and write them as web pages.")
    parser.add_argument("lessons", nargs="*", help="how the names of the lessons begin, such as 01; all if absent")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the pages")
    parser.add_argument("--stored", action="store_true", help="run nothing: take the notebooks beside the scripts")
    asked = parser.parse_args(arguments)
    done: dict[Path, NotebookNode] = {}
    chosen = chosen_lessons(parser, asked.lessons)
    for lesson in chosen:
        started = time.perf_counter()
        try:
            notebook = ran(lesson, asked.stored)
            loads = fetched(page(notebook, heading(lesson)[0]))
            if loads:
                raise ValueError(f"the page would fetch {loads[0]}")
        except (CellControlSignal, ValueError) as error:
            print(f"{lesson.stem}: failed\n{error}", file=sys.stderr, flush=True)
        else:
            done[lesson] = notebook
            print(f"{lesson.stem}: {time.perf_counter() - started:.0f} s", flush=True)
    # Only now is known which pages there will be to link to.
    written = [lesson for lesson in lessons() if lesson in done or (asked.output / f"{lesson.stem}.html").exists()]
    for lesson, notebook in done.items():
        text = page(notebook, heading(lesson)[0], navigation(lesson, written))
        write_text(asked.output / f"{lesson.stem}.html", text)
    write_text(asked.output / "index.html", index_page(written))
    print(f"open {asked.output / 'index.html'}")
    return 0 if len(done) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
