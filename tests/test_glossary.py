"""The glossary names only what exists, where it exists. `python tests/test_glossary.py` sets its line numbers anew."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "examples" / "GLOSSARY.md"

# The last two cells of a line: | `Agent.learn.target` | [relax_plugin/agent/pdqn.py:84](../relax_plugin/agent.py#L84) |
PLACE = re.compile(
    r"\| `(?P<name>[\w.]+)` \| \[(?P<file>[\w/.]+):(?P<line>\d+)\]\(\.\./(?P<link>[\w/.]+)#L(?P<to>\d+)\) \|$"
)


@cache
def definitions(file: str) -> dict[str, int]:
    """Where each name of a module is first defined: `Class.method.variable`, `Class.attribute`, `function.argument`."""
    lines: dict[str, int] = {}
    for name, line in _defined(ast.parse((ROOT / file).read_text(encoding="utf-8")), "", ""):
        lines.setdefault(name, line)
    return lines


def _defined(node: ast.AST, scope: str, class_: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            # The line of the word itself: a decorator stands above it.
            yield f"{scope}{child.name}", child.lineno
            inner = f"{scope}{child.name}."
            yield from _defined(child, inner, inner if isinstance(child, ast.ClassDef) else class_)
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield f"{scope}{child.id}", child.lineno
        elif isinstance(child, ast.arg):
            yield f"{scope}{child.arg}", child.lineno
        elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store) and _is_self(child.value):
            yield f"{class_}{child.attr}", child.lineno
        yield from _defined(child, scope, class_)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def refreshed(text: str) -> str:
    """The glossary with the lines at which its names are now; what no longer exists is an error that says so."""
    lines = []
    for line in text.splitlines():
        place = PLACE.search(line)
        if place is not None:
            name, file = place["name"], place["file"]
            if not (ROOT / file).is_file():
                raise LookupError(f"the glossary names {file}, which does not exist.")
            if name not in definitions(file):
                raise LookupError(f"the glossary names {name}, which {file} does not define.")
            now = definitions(file)[name]
            line = f"{line[: place.start()]}| `{name}` | [{file}:{now}](../{file}#L{now}) |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def test_every_name_is_defined_at_the_line_given() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    wrong = [old for old, new in zip(text.splitlines(), refreshed(text).splitlines(), strict=True) if old != new]
    assert not wrong, "code has moved: run `python tests/test_glossary.py` to set the line numbers anew"


def test_every_line_of_the_tables_names_a_place() -> None:
    rows = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    entries = [row for row in rows if not row.startswith(("| symbol |", "| word |"))]
    assert len(entries) > 50
    assert [row for row in entries if PLACE.search(row) is None] == []
    assert all(row.count(" | ") == 3 for row in entries), "symbol, meaning, name, place"


def test_the_name_stands_in_the_line_and_the_link_leads_there() -> None:
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        place = PLACE.search(line)
        if place is not None:
            source = (ROOT / place["file"]).read_text(encoding="utf-8").splitlines()[int(place["line"]) - 1]
            assert re.search(rf"\b{place['name'].rpartition('.')[2]}\b", source), line
            assert (place["link"], place["to"]) == (place["file"], place["line"])


@pytest.mark.parametrize(
    ("name", "file"), [("Agent.learn.aim", "relax_plugin/agent/pdqn.py"), ("Agent", "relax_plugin/agents.py")]
)
def test_what_does_not_exist_is_noticed(name, file) -> None:
    with pytest.raises(LookupError, match="the glossary names"):
        refreshed(f"| y | a target | `{name}` | [{file}:1](../{file}#L1) |")


def test_moved_lines_are_set_anew() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    assert refreshed(re.sub(r"(:|#L)\d+", r"\g<1>1", text)) == refreshed(text)


if __name__ == "__main__":
    GLOSSARY.write_text(refreshed(GLOSSARY.read_text(encoding="utf-8")), encoding="utf-8")
