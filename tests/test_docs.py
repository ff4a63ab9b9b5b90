"""The documentation builds without a warning, leads nowhere in vain, loads nothing, and leaves no public name out."""

import html
import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from unittest import mock
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest
from markdown_files import commands, conversations, help_of, printed, unknown_in

import relax_plugin

pytestmark = pytest.mark.slow  # the site is built

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTED = [
    *("base", "registry", "errors", "datasets", "distributed", "trees.floor", "pages.plots", "teaching.play"),
    *(f"adapters.{name}" for name in ("dice", "interpret", "shap", "alibi", "carla", "ceval", "mlflow")),
    *(f"evaluation.{name}" for name in ("tasks", "runner", "tables", "metrics", "judge")),
]


class Page(HTMLParser):
    """The anchors of a page, where it leads, what it loads, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])
        assert "mermaid" not in given.get("class", ""), "mermaid is loaded from the network"

    def handle_data(self, data: str) -> None:
        self.text += data


def loaded(name: str) -> ModuleType:
    """A script of docs/ or of benchmarks/tables as a module."""
    if not (DOCS / f"{name}.py").exists():
        return importlib.import_module(f"benchmarks.tables.{name}")
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with mock.patch.object(sys, "path", [str(DOCS), *sys.path]):  # scripts import each other
        specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """The pages of the site that `make docs` builds, around stand-ins for the live pages, which take minutes."""
    live = stand_ins(tmp_path_factory.mktemp("live"))
    done, folder = build(live, tmp_path_factory.mktemp("site"))
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.relative_to(folder / "live").as_posix() for path in (folder / "live").rglob("*.html")}
    assert made == {path.relative_to(live).as_posix() for path in live.rglob("*.html")}
    return {path: Page(path) for path in sorted(folder.rglob("*.html")) if folder / "live" not in path.parents}


def build(live: Path, folder: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What `make docs` does once the live pages are made."""
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    surroundings = {**os.environ, "RELAX_LIVE": str(live)}
    return subprocess.run(line, cwd=ROOT, env=surroundings, capture_output=True, text=True), folder


def stand_ins(folder: Path) -> Path:
    """Empty pages of the names that docs/live.py gives, and of the lessons."""
    lessons = [f"lessons/{path.stem}.html" for path in (ROOT / "examples").glob("[0-9][0-9]_*.py")]
    (folder / "lessons").mkdir()
    for name in (*loaded("live").MAKERS, *lessons):
        (folder / name).write_text("<!DOCTYPE html><title>live</title>", encoding="utf-8")
    return folder


def test_every_file_has_its_page(site: dict[Path, Page]) -> None:
    assert len(site) == len(PAGES) + 1  # and the one for addresses that do not exist


def test_no_link_is_dead(site: dict[Path, Page]) -> None:
    dead = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = site[target].anchors if target in site else set()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                dead.append((path.name, link))
    assert dead == []


def test_no_link_of_a_markdown_file_is_dead() -> None:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"):
        text = path.read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            file, _, anchor = link.partition("#")
            assert (path.parent / file).exists(), (path.name, link)
            assert file or anchor in anchors, (path.name, link)


def test_nothing_is_loaded_from_the_network(site: dict[Path, Page]) -> None:
    assert [link for page in site.values() for link in page.loaded if urlsplit(link).netloc] == []
    folder = next(path for path in site if path.name == "404.html").parent
    for style in folder.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: what it says so itself, or the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        names = {name: getattr(module, name) for name in module.__all__}
        return [name for name, value in names.items() if inspect.isclass(value) or inspect.isroutine(value)]
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return [
        name for name, value in own.items() if name[0] != "_" and (inspect.isclass(value) or inspect.isfunction(value))
    ]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_is_documented(name: str, site: dict[Path, Page]) -> None:
    address = f"relax_plugin.{name}"
    names = public_names(importlib.import_module(address))
    assert names
    anchors = {anchor for page in site.values() for anchor in page.anchors}
    assert [one for one in names if f"{address}.{one}" not in anchors] == []


def test_everything_that_the_package_exports_is_documented(site: dict[Path, Page]) -> None:
    anchors = {anchor for page in site.values() for anchor in page.anchors}
    assert [name for name in relax_plugin.__all__ if f"relax_plugin.{name}" not in anchors] == []


def test_every_command_is_documented_with_its_options(site: dict[Path, Page]) -> None:
    (page,) = [page for path, page in site.items() if path.name == "commands.html"]
    names = re.findall(
        r"^    (\w+)", help_of().partition("positional arguments")[2].partition("options:")[0], re.MULTILINE
    )
    assert {"explain", "bench", "reproduce"} <= set(names)
    for name in names:
        assert f"usage: relax-plugin {name} " in page.text
        section = page.text.partition(f"usage: relax-plugin {name} ")[2].partition("usage: ")[0]
        assert [option for option in re.findall(r"--[\w-]+", help_of(name)) if option not in section] == []


def test_search_finds_without_a_server_of_others(site: dict[Path, Page]) -> None:
    folder = next(path for path in site if path.name == "404.html").parent
    index = json.loads((folder / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("counterfactual" in entry["text"] for entry in index["docs"])


# What is written is true.


def test_the_first_five_minutes_were_walked_as_they_are_written() -> None:
    walk = loaded("walk")
    stored = pd.read_csv(walk.WALK)
    assert stored["command"].tolist() == walk.commands(), "run `python -m benchmarks.tables.walk`"
    assert stored["seconds"].sum() < 300


def test_the_gallery_shows_every_page_that_is_made(site: dict[Path, Page]) -> None:
    (page,) = [page for path, page in site.items() if path.name == "gallery.html"]
    assert {f"live/{name}" for name in loaded("live").MAKERS} <= set(page.links)
    shown = [link for link in page.loaded if link.endswith(".png") and "favicon" not in link]
    assert len(shown) == len(loaded("live").MAKERS) + 1  # and the what-if page, which asks a model of one's own


def test_without_live_pages_the_site_is_not_built(tmp_path: Path) -> None:
    done, _ = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0 and "there are no live pages in" in done.stdout + done.stderr


def test_live_pages_are_made_anew_when_something_changed(tmp_path: Path) -> None:
    live = loaded("live")
    pages, folder = list(live.MAKERS), stand_ins(tmp_path)
    assert live.stale(folder) == pages
    for page in pages:
        live.stamp(folder, page).write_text(live.made_of(), encoding="utf-8")
    assert live.stale(folder) == []
    live.stamp(folder, "play.html").write_text("another state", encoding="utf-8")
    (folder / "report.html").unlink()
    assert live.stale(folder) == ["play.html", "report.html"]


def test_a_live_page_that_fails_does_not_cost_the_others(tmp_path: Path) -> None:
    live = loaded("live")

    def fails(folder: Path) -> None:
        raise RuntimeError("methods ended with 1")

    makers = {"good.html": lambda folder: (folder / "good.html").write_text("good"), "bad.html": fails}
    with mock.patch.object(live, "MAKERS", makers):
        with pytest.raises(RuntimeError, match="methods ended with 1"):
            live.make(tmp_path)
        assert live.stale(tmp_path) == ["bad.html"]


def test_the_live_cards_speak_in_words_and_thresholds(tmp_path: Path) -> None:
    live = loaded("live")
    with mock.patch.object(live, "PEOPLE", 8):
        live.cards(tmp_path)
    text = (tmp_path / "cards.html").read_text(encoding="utf-8")
    assert "checking account (DM)" in text and "A11" not in text
    assert re.search(r"(?:months|DM|years)\) were (?:at most|at least|between) \d", text)


def test_the_commands_of_the_live_pages_exist() -> None:
    live, told = loaded("live"), []
    with mock.patch.object(live, "command", lambda *words: told.append(["relax-plugin", *words])):
        for maker in (live.play, live.methods, live.report):
            maker(Path("live"))
    assert [words[1] for words in told] == ["play", "methods", "bench", "report"]
    assert [unknown_in(words) for words in told] == [[]] * 4


def test_the_benchmark_of_the_judge_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((code, _),) = conversations((DOCS / "results" / "judge.md").read_text(encoding="utf-8"))
    for slow, quick in (('"relax-global"', '"greedy"'), ("seeds=range(5)", "seeds=[0], rows=4")):
        assert slow in code
        code = code.replace(slow, quick)
    names: dict[str, object] = {}
    printed(code, names)
    table = names["tables"].summary(names["rows"])
    assert table["validity"].tolist() == [1.0, 1.0]
    assert table["instances"].tolist() == [4, 4]
    assert (tmp_path / "results" / "run.json").is_file()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_every_command_that_a_page_names_exists(path: Path) -> None:
    told = commands(path.read_text(encoding="utf-8"))
    assert [(words, unknown_in(words)) for words in told if unknown_in(words)] == []


def test_tables_are_what_the_stored_results_say() -> None:
    tables = loaded("tables")
    used = set()
    for path in tables.texts():
        text = path.read_text(encoding="utf-8")
        assert tables.filled(text) == text, f"{path.name} is not current: run `make tables`"
        used |= {block["name"] for block in tables.BLOCK.finditer(text)}
        assert text.count("<!-- table: ") == text.count("<!-- end of table -->") == len(tables.BLOCK.findall(text))
    assert used == tables.TABLES.keys()


def test_why_plausibility_is_off_by_default_is_what_was_measured() -> None:
    """The page says that "prefer" costs no further change, and that an independent detector disagrees somewhere."""
    tables = loaded("script_tables")
    lines = tables.summary(pd.read_csv(tables.PLAUSIBLE_CHANGES))
    assert lines["ratio"].max() <= 1.0 and lines["needless prefer"].max() == 0.0
    assert (lines["gained"] < lines["lost"]).any()
    for command in ("explain", "serve"):
        assert re.search(r"--plausible \{no,prefer,require\}.*\(default\s+no\)", help_of(command), re.DOTALL)


@pytest.mark.parametrize(
    "path", [*sorted((DOCS / "results").glob("*.md")), DOCS / "toolkits.md"], ids=lambda path: path.name
)
def test_no_measured_number_is_typed(path: Path) -> None:
    text = loaded("tables").BLOCK.sub("", path.read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    assert re.findall(r"(?<![\w.])\d*\.\d+(?![\w.])", prose) == [], (
        "fractions are measured: let `make tables` write them"
    )


def test_stored_results_do_not_tell_where_they_were_made() -> None:
    for path in [*(DOCS / "results").rglob("*.csv"), *(DOCS / "results").rglob("*.json")]:
        assert not re.search(r"(?<![\w.])/(?:home|root|tmp|work|Users|var)/", path.read_text(encoding="utf-8")), (
            path.name
        )


def test_the_verdict_is_that_of_the_stored_results() -> None:
    tables = loaded("tables")
    decided = tables.verdict(tables.paper_results(), tables.PAPER.covid(), None)
    page = html.unescape((DOCS / "results" / "paper.md").read_text(encoding="utf-8"))
    for line in decided.itertuples():
        assert line.claim in page and line.figures in page and f"<b>{line.verdict}</b>" in page


def test_the_field_names_the_tasks_where_others_are_better_than_relax() -> None:
    def rows_of(task: str, method: str, changes: float, lasting: float) -> pd.DataFrame:
        made = pd.DataFrame({"seed": [0] * 20 + [1] * 20, "instance": [*range(20)] * 2})
        known = {"task": task, "method": method, "state": "ok", "features": 9, "valid": True, "local_outlier": 0.0}
        return made.assign(**known, sparsity=changes, lasting=lasting)

    rows = pd.concat(
        [
            *(rows_of(task, "relax-global", 2.0, 0.5) for task in ("a", "b")),
            *(rows_of(task, "relax-global:also=2", 1.0, 0.9) for task in ("a", "b")),
            *(rows_of(task, "greedy", 3.0, lasting) for task, lasting in (("a", 0.4), ("b", 0.7))),
            rows_of("b", "nice", 1.0, 0.5),
        ]
    )
    nowhere: dict[str, list[str]] = {}
    assert loaded("field_tables").behind(rows) == {
        "valid": nowhere,
        "changes": {"b": ["`nice`"]},
        "plausible": nowhere,
        "lasting": {"b": ["`greedy`"]},
    }


def test_a_table_that_nobody_makes_is_refused() -> None:
    with pytest.raises(LookupError, match="there is no table 'speed-of-light'"):
        loaded("tables").filled("<!-- table: speed-of-light -->\n<!-- end of table -->\n")


# What pages include.


def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    text = "# A\n\n## B\n\nb\n\n### C\n\n```sh\n# no heading\n```\n\n## D\n"
    section = loaded("hooks").section
    assert section(text, "B", "a.md") == "b\n\n### C\n\n```sh\n# no heading\n```"
    assert section(text, "D", "a.md") == ""
    with pytest.raises(LookupError, match=r"a\.md has no section 'E'"):
        section(text, "E", "a.md")


def test_links_of_what_is_included_lead_where_they_led() -> None:
    hooks = loaded("hooks")
    text = "[a](../Makefile#L1) [b](GLOSSARY.md#x) [c](https://doi.org/1) [d](#e)"
    source = hooks.PROJECT["urls"]["Source"]
    assert hooks.with_links_of(text, "examples/README.md", "results/index.md") == (
        f"[a]({source}/blob/main/Makefile#L1) [b](../glossary.md#x) [c](https://doi.org/1) [d](#e)"
    )
    assert hooks.with_links_of("![](docs/picture.svg)", "README.md", "index.md") == "![](picture.svg)"
    with pytest.raises(LookupError, match=r"README\.md links to docs/gone\.md"):
        hooks.with_links_of("[a](docs/gone.md)", "README.md", "index.md")
