"""The history: what was tried on a page, kept apart for each tab, to read and to download."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from relax_plugin.evaluation.spreadsheet import guarded

MOST_TABS = 50  # the one that was quiet longest is forgotten
MOST_ENTRIES = 500  # of a tab; the oldest are forgotten

ASKED, TRIED = "asked", "tried"  # for alternatives, or by hand
COLUMNS = ("number", "time", "kind", "row", "edited", "question", "alternative", "changes", "before", "after",
           "probability", "status")  # fmt: skip


@dataclass
class History:
    """What each tab tried. Several threads may write at once."""

    tabs: OrderedDict[str, list[dict[str, Any]]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, tab: str, kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what was tried; of values that are moved one after the other by hand, only the last state."""
        with self._lock:
            entries = self.tabs.setdefault(tab, [])
            self.tabs.move_to_end(tab)
            last = entries[-1] if entries else None
            moved_on = kind == TRIED and last is not None and last["kind"] == TRIED and last["row"] == entry["row"]
            number = 1 if last is None else last["number"] + (0 if moved_on else 1)
            if moved_on:
                entries.pop()
            told = {"number": number, "time": datetime.now().astimezone().isoformat(timespec="seconds"), "kind": kind}
            entries.append(told | dict(entry))
            del entries[:-MOST_ENTRIES]
            while len(self.tabs) > MOST_TABS:
                self.tabs.popitem(last=False)
            return entries[-1]

    def of(self, tab: str) -> list[dict[str, Any]]:
        """What a tab tried, oldest first."""
        with self._lock:
            return list(self.tabs.get(tab, ()))

    def json(self, tab: str) -> str:
        """All of it, with the Python of each question."""
        return json.dumps(self.of(tab), indent=1, ensure_ascii=False, allow_nan=False)

    def csv(self, tab: str) -> str:
        """A line for each alternative, for a spreadsheet; texts that it would take for formulas have an apostrophe."""
        lines = [line for entry in self.of(tab) for line in _lines(entry)]
        table, _ = guarded(pd.DataFrame(lines, columns=list(COLUMNS), dtype=object))
        return table.to_csv(index=False)


def _lines(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    common = {
        "number": entry["number"],
        "time": entry["time"],
        "kind": entry["kind"],
        "row": entry["row"],
        "edited": "; ".join(f"{name} = {cell}" for name, cell in entry["edited"].items()),
        "before": entry["before"]["answer"],
    }
    if entry["kind"] == TRIED:
        after = entry["after"]
        return [common | {"after": after["answer"], "probability": after["probability"], "status": ""}]
    return [
        common
        | {
            "question": entry["question"],
            "alternative": place,
            "changes": "; ".join(f"{one['label']}: {one['from_label']} → {one['to_label']}" for one in slot["changes"]),
            "after": slot["answer"],
            "probability": None if slot["probability"] is None else slot["probability"]["after"],
            "status": slot["status"],
        }
        for place, slot in enumerate(entry["alternatives"], start=1)
    ]
