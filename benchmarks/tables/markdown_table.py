"""Tables as Markdown, for the scripts that fill the documentation."""

from collections.abc import Mapping, Sequence
from typing import Any


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def runs(entries: Sequence[Mapping[str, Any]]) -> str:
    """The commands behind stored results."""
    lines: list[list[str]] = []
    places: dict[str, list[str]] = {}
    for entry in entries:
        minutes = f"{entry['seconds'] / 60:.0f} min" if "seconds" in entry else ""
        about = ", ".join(filter(None, [entry.get("commit"), minutes, entry.get("note")]))
        lines.append([f"`{entry['command']}`", entry["started"][:16].replace("T", " "), about])
        versions = ", ".join(f"{name} {version}" for name, version in entry["versions"].items())
        places.setdefault(f"On {entry['machine']}: {versions}", []).append(lines[-1][1])
    told = [
        f"{place}." if len(places) == 1 else f"{place}; started {' to '.join(sorted({min(started), max(started)}))}."
        for place, started in places.items()
    ]
    return "\n\n".join([markdown(["command", "started (UTC)", "commit, time"], lines), *told])
