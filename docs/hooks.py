"""What mkdocs learns from this repository: texts that stand elsewhere are included, never copied.

- `<!-- include: FILE -->` is replaced by a file of the repository, `<!-- include: FILE, HEADING -->` by one section of
  it. Links in it lead where they lead there: to a page, or else to the file in the repository.
- `<!-- help: bench -->` is replaced by what `relax-plugin bench --help` prints.
- The pages that `docs/live.py` wrote to .live (or where RELAX_LIVE says) are part of the site, under live/.
"""

import contextlib
import io
import os
import posixpath
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

from relax_plugin.cli import main

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = {  # files that a page includes whole
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/GLOSSARY.md": "glossary.md",
    "examples/README.md": "lessons.md",
}
INCLUDE = re.compile(r"^<!-- include: (?P<file>[\w./]+)(?:, (?P<section>.+?))? -->$", re.MULTILINE)
HELP = re.compile(r"^<!-- help:(?P<command> \w+)? -->$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HELP_WIDTH = "100"

_sources = tempfile.TemporaryDirectory()


@event_priority(100)  # before mkdocstrings reads its own part of the configuration
def on_config(config: Any) -> Any:
    """Show mkdocstrings the package as it is installed: adapters/ and baselines/ inside relax_plugin/."""
    package = Path(_sources.name) / "relax_plugin"
    if not package.exists():
        package.mkdir()
        for path in (*(ROOT / "relax_plugin").iterdir(), ROOT / "adapters", ROOT / "baselines"):
            (package / path.name).symlink_to(path)
    config.plugins["mkdocstrings"].config["handlers"]["python"]["paths"] = [_sources.name]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the live pages, which the gallery links to."""
    folder = Path(os.environ.get("RELAX_LIVE", ROOT / ".live"))
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        raise PluginError(f"there are no live pages in {folder}: `make docs`, or python docs/live.py {folder}.")
    for path in pages:
        address = f"live/{path.relative_to(folder).as_posix()}"
        files.append(File.generated(config, address, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in what a page includes."""

    def included(match: re.Match[str]) -> str:
        file = match["file"]
        text = (ROOT / file).read_text(encoding="utf-8")
        text = text if match["section"] is None else section(text, match["section"], file)
        return with_links_of(text, file, page.file.src_uri)

    filled = INCLUDE.sub(included, markdown)
    return HELP.sub(lambda match: help_of((match["command"] or "").split()), filled)


def section(text: str, title: str, file: str) -> str:
    """The section with this heading, the heading itself left out, up to the next heading of its level or above."""
    searched = FENCE.sub(lambda fence: re.sub(r"[^\n]", "x", fence[0]), text)  # a comment in code is no heading
    heading = re.search(rf"^(#+) {re.escape(title)}\n", searched, re.MULTILINE)
    if heading is None:
        raise LookupError(f"{file} has no section {title!r}, which a page of docs/ includes.")
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", searched[heading.end() :], re.MULTILINE)
    return text[heading.end() : None if end is None else heading.end() + end.start()].strip()


def with_links_of(text: str, file: str, page: str) -> str:
    """The text of a file with links that lead from the page to where they led from the file."""

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["path"]))
        if not (ROOT / target).exists():
            raise LookupError(f"{file} links to {match['path']}, which does not exist.")
        on_site = PAGES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        anchor = match["anchor"] or ""
        if on_site is None:
            return f"{PROJECT['urls']['Source']}/blob/main/{target}{anchor}"
        return posixpath.relpath(on_site, posixpath.dirname(page)) + anchor

    return LINK.sub(moved, text)


def help_of(command: list[str]) -> str:
    """What the command line says about a command, as a block of code."""
    printed = io.StringIO()
    wide = mock.patch.dict(os.environ, {"COLUMNS": HELP_WIDTH})
    with wide, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return f"```text\n{printed.getvalue().rstrip()}\n```"
