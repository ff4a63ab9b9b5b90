"""Markdown files as the tests read them: code that runs, what it prints, commands, tables and links."""

import contextlib
import io
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from relax_plugin.cli import main

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """The language and the text of every fenced block, in order."""
    return [(block["language"], block["text"]) for block in BLOCK.finditer(text)]


def code_under(heading: str, path: Path) -> str:
    """The first block of Python below a heading of the second level."""
    section = path.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return next(code for language, code in blocks(section) if language == "python")


def conversations(text: str) -> list[tuple[str, str]]:
    """Every block of Python with the block of text that follows it: what it is said to print."""
    found = blocks(text)
    following = [*found, ("", "")][1:]
    return [
        (code, after if kind == "text" else "")
        for (language, code), (kind, after) in zip(found, following, strict=True)
        if language == "python"
    ]


def printed(code: str, names: dict[str, Any]) -> str:
    """What the code prints; `names` is what it finds, and leaves behind."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(code, names)
    return said.getvalue()


def commands(text: str) -> list[list[str]]:
    """The command lines of a text, word by word: those of its blocks for a shell, and those within sentences."""
    shell = "\n".join(code for language, code in blocks(text) if language == "sh").replace("\\\n", " ")
    lines = [re.sub(r"\s#.*", "", line) for line in shell.splitlines()]
    lines += re.findall(r"`((?:\w+=\S+ )?(?:make|pip|pytest|python|relax-plugin) [^`]+)`", BLOCK.sub("", text))
    told = [[word.strip("'") for word in line.split() if not re.match(r"[A-Z_]+=", word)] for line in lines]
    return [words for words in told if words]


def unknown_in(words: list[str]) -> list[str]:
    """What a command line names that does not exist: commands, options, targets, files, extras."""
    program, *rest = words
    if program in ("git", "cd", "."):  # `benchmarks/tables/walk.py` has run them
        return []
    if program == "relax-plugin":
        if not re.search(rf"^    {rest[0]}\b", help_of(), re.MULTILINE):
            return [rest[0]]
        return [word for word in rest if word.startswith("--") and not re.search(rf"{word}\b", help_of(rest[0]))]
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return [word for word in rest if word not in targets]
    if program in ("python", "pytest"):
        modules = [f"{word.replace('.', '/')}.py" for word in rest if word.startswith("benchmarks.")]
        return [word for word in [*rest, *modules] if word.endswith(".py") and not (ROOT / word).is_file()]
    if program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
        return [
            name
            for named in re.findall(r"\[(.*?)\]", " ".join(rest))
            for name in named.split(",")
            if name not in extras
        ]
    return [program]


@cache
def help_of(*command: str) -> str:
    """What the command line says about itself, or about a command."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return said.getvalue()


def table_widths(text: str) -> list[int]:
    """The number of columns of every table."""
    rules = re.findall(r"^\|(?:\s*:?-+:?\s*\|)+$", text, re.MULTILINE)
    return [rule.count("|") - 1 for rule in rules]
