"""Tables as Markdown, for the scripts that fill the documentation."""

from collections.abc import Mapping, Sequence
from typing import Any


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def runs(entries: Sequence[Mapping[str, Any]]) -> str:
    """The commands behind stored results."""
    lines = []
    for entry in entries:
        minutes = f"{entry['seconds'] / 60:.0f} min" if "seconds" in entry else ""
        about = ", ".join(filter(None, [entry.get("commit"), minutes, entry.get("note")]))
        lines.append([f"`{entry['command']}`", entry["started"][:16].replace("T", " "), about])
    versions = ", ".join(f"{name} {version}" for name, version in entries[-1]["versions"].items())
    table = markdown(["command", "started (UTC)", "commit, time"], lines)
    return f"{table}\n\nOn {entries[-1]['machine']}: {versions}."
