"""The history of a what-if page: bounded, apart for each tab, and safe in a spreadsheet."""

import csv
import io
import json
from typing import Any

from relax_plugin.whatif.session import ASKED, MOST_ENTRIES, MOST_TABS, TRIED, History


def tried(row: str = "Row 1", **edited: str) -> dict[str, Any]:
    return {"row": row, "edited": edited, "before": {"answer": "no"}, "after": {"answer": "yes", "probability": 0.75}}


def asked(row: str = "Row 1") -> dict[str, Any]:
    change = {"label": "=cmd()", "from_label": "1", "to_label": "2"}
    found = {"found": True, "status": "found", "changes": [change], "answer": "yes", "probability": {"after": 0.6}}
    none = {"found": False, "status": "none was found", "changes": [], "answer": None, "probability": None}
    before = {"answer": "no"}
    return {"row": row, "edited": {}, "before": before, "question": "explain(row)", "alternatives": [found, none]}


def test_edits_of_one_row_are_one_entry_until_something_else_is_tried():
    history = History()
    for age in ("30", "31"):
        history.add("a", TRIED, tried(age=age))
    history.add("a", ASKED, asked())
    history.add("a", TRIED, tried(age="32"))
    history.add("a", TRIED, tried("Row 2", age="33"))
    assert [(one["number"], one["edited"].get("age")) for one in history.of("a")] == [
        (1, "31"),
        (2, None),
        (3, "32"),
        (4, "33"),
    ]


def test_old_entries_and_quiet_tabs_are_forgotten():
    history = History()
    for number in range(MOST_ENTRIES + 5):
        history.add("long", ASKED, asked(f"Row {number}"))
    assert len(history.of("long")) == MOST_ENTRIES and history.of("long")[-1]["number"] == MOST_ENTRIES + 5
    for tab in range(MOST_TABS):
        history.add(f"tab{tab}", ASKED, asked())
    assert len(history.tabs) == MOST_TABS and history.of("long") == []


def test_the_table_has_a_line_for_each_alternative_and_no_formula():
    history = History()
    history.add("a", ASKED, asked("=1+1"))
    history.add("a", TRIED, tried(age="30"))
    lines = list(csv.DictReader(io.StringIO(history.csv("a"))))
    assert [(line["kind"], line["alternative"], line["after"], line["status"]) for line in lines] == [
        ("asked", "1", "yes", "found"),
        ("asked", "2", "", "none was found"),
        ("tried", "", "yes", ""),
    ]
    assert lines[0]["row"] == "'=1+1" and lines[0]["changes"].startswith("'=cmd(): 1 → 2")
    assert lines[2]["edited"] == "age = 30" and lines[2]["probability"] == "0.75"
    assert len(json.loads(history.json("a"))) == 2
    assert history.csv("nobody").count("\n") == 1
