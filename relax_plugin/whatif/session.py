"""WhatIf: a fitted explainer and rows to ask it about, one question of a browser at a time; and what was tried."""

import json
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.blackbox import ONE_AT_A_TIME, Answer, BlackBox
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError
from relax_plugin.evaluation.store import guarded
from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import cell_label, feature_label, format_cell, format_labelled
from relax_plugin.results import Counterfactuals
from relax_plugin.rules.repair import RowRules
from relax_plugin.whatif.form import (
    PLAUSIBLE,
    Form,
    Question,
    brief_cell,
    distinct_texts,
    read_question,
    read_row,
    read_tab,
)
from relax_plugin.whatif.python_text import question_text

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


def plain_answer(box: BlackBox, answer: Answer) -> dict[str, Any]:
    """The model's answer to one row: in words, as a number of a regressor, and with what probability."""
    label = box.labels(answer.output)[0]
    told: dict[str, Any] = {"answer": format_cell(label), "probability": None, "number": None, "probabilities": None}
    if box.task == "regression":
        return told | {"number": float(label)}
    if not box.has_probabilities or answer.scores is None or box.classes is None:
        return told
    chances = [float(chance) for chance in answer.scores[0]]
    position = int(answer.output[0])
    each = [
        {"answer": format_cell(one), "probability": p} for one, p in zip(box.classes.tolist(), chances, strict=True)
    ]
    return told | {"probability": chances[position] if position >= 0 else None, "probabilities": each}


def alternatives(found: Counterfactuals, form: Form) -> list[dict[str, Any]]:
    """The counterfactuals of the only query as plain data; each change with the cell that the form has for it."""
    (record,) = found.to_dict()["queries"]
    told: list[dict[str, Any]] = record["counterfactuals"]
    row, labels = found.space.frame(found.queries), found.space.labels
    for slot, one in enumerate(told):
        cells = form.cells(found.space, found.values[0, [slot]], row)
        for change in one["changes"]:
            change["cell"] = cells[str(change["feature"])]["cell"]
            for end in ("from", "to"):  # as the card has them: 950, not 950.0
                change[f"{end}_label"] = format_labelled(labels, change["feature"], change[end])
        if not one["found"]:
            one["answer"] = None  # of the closest attempt, which is none
    return told


def card_html(found: Counterfactuals) -> str:
    """The card of the only query, with its styles."""
    return found.card(0)._repr_html_()


MOST_LISTED = 20  # rows that a search shows
TOLD_CELLS = 4  # of each of them


@dataclass
class WhatIf:
    """What the page can ask. Every method takes and gives plain data; several threads may call them.

    Parameters
    ----------
    explainer : CounterfactualExplainer
        Fitted.
    rows : DataFrame
        Rows to choose from: the columns of the features, and those that are carried. Their index names them.
    setup : str
        Python that makes `explainer` and `rows`; shown before the Python of a question.
    title : str
    plausible : "no", "prefer" or "require"
        What the page begins with.
    """

    explainer: CounterfactualExplainer
    rows: pd.DataFrame
    setup: str = ""
    title: str = "What if?"
    plausible: str = "no"
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        fitted(self.explainer).wanted_goal()
        if not all(isinstance(name, str) for name in [*self.space.columns, *self.space.names]):
            raise InputError("the page needs columns whose names are texts; give the explainer a DataFrame with such.")
        if len(self.rows) == 0:
            raise InputError("there are no rows to choose from.")
        missing = [name for name in self.space.columns if name not in self.rows.columns]
        if missing:
            raise InputError(f"the rows have no column {missing[0]!r}, which is a feature of the explainer.")

    # What holds for every row.

    @property
    def space(self) -> FeatureSpace:
        return self.explainer.space_

    @property
    def classes(self) -> list[Any] | None:
        known = self.explainer.blackbox_.classes
        return None if self.explainer.blackbox_.task == "regression" or known is None else known.tolist()

    @cached_property
    def carried(self) -> list[str]:
        """The columns that the model does not know."""
        return [name for name in self.rows.columns if name not in self.space.columns]

    @cached_property
    def form(self) -> Form:
        numbers = [f.name for f in self.space.features if f.kind != "categorical"]
        return Form(self.space, frozenset(name for name in numbers if self.rows[name].isna().any()))

    def describe(self) -> dict[str, Any]:
        """All that the page has to know before a row is chosen."""
        classes = self.classes
        goal = self.explainer.wanted_goal()
        texts = distinct_texts(classes or [])
        one_label = goal.label is not None and not isinstance(goal.label, tuple)
        wanted = int(self.explainer.blackbox_.positions([goal.label])[0]) if one_label else -1
        return {
            "title": self.title,
            "rows": len(self.rows),
            "row_word": self.row_word,
            "fields": self.form.fields(),
            "rules": [str(rule) for rule in self.space.rules],
            "classes": None
            if classes is None
            else [{"value": text, "words": format_cell(label)} for text, label in zip(texts, classes, strict=True)],
            "probabilities": self.explainer.blackbox_.has_probabilities,
            "goal": goal.to_dict() | {"label": texts[wanted] if wanted >= 0 else None},
            "most_changes": self.explainer._most_changes(),
            "features": len(self.space),
            "plausible": self.plausible,
            "setup": self.setup,
        }

    # Rows.

    def name(self, position: int) -> str:
        """What people call a row."""
        return f"{self.row_word} {self.rows.index[position]}"

    @property
    def row_word(self) -> str:
        """What the index of the rows is: numbers of rows, or the cells of a column."""
        return "Row" if self.rows.index.name is None else str(self.rows.index.name)

    @cached_property
    def _texts(self) -> "pd.Series[str]":
        labels = self.space.labels
        texts = pd.Series(" ", index=range(len(self.rows)))
        for name in self.rows.columns:
            column = self.rows[name].reset_index(drop=True)
            words = labels[name][1] if name in labels else {}
            cells = column.astype(object).replace(words) if words else column
            texts = texts + cells.astype(str).fillna("").str.lower() + " "
        return texts

    def find(self, text: str) -> dict[str, Any]:
        """Rows with this name, then those whose name begins so, then those with a cell that contains it."""
        wanted = text.strip().lower()
        if not wanted:
            positions = np.arange(min(len(self.rows), MOST_LISTED))
            total = len(self.rows)
        else:
            names = pd.Series(self.rows.index.astype(str)).str.lower()
            same, begins = (names == wanted).to_numpy(), names.str.startswith(wanted).to_numpy()
            contains = self._texts.str.contains(wanted, regex=False).to_numpy(dtype=bool)
            order = np.argsort(np.select([same, begins, contains], [0, 1, 2], 3), kind="stable")
            total = int((same | begins | contains).sum())
            positions = order[: min(total, MOST_LISTED)]
        return {"total": total, "rows": [self._told(int(position)) for position in positions]}

    def _told(self, position: int) -> dict[str, Any]:
        cells = self.rows.iloc[position]
        names = [*self.carried, *(str(f.name) for f in self.space.features if not f.columns)][:TOLD_CELLS]
        labels = self.space.labels
        told = [f"{feature_label(labels, name)}: {brief_cell(cell_label(labels, name, cells[name]))}" for name in names]
        return {"row": position, "name": self.name(position), "told": ", ".join(told)}

    def answers(self, positions: Sequence[Any]) -> list[str]:
        """The model's answers to some rows."""
        if len(positions) > MOST_LISTED:
            raise InputError(f"{len(positions)} rows are too many at once; ask for at most {MOST_LISTED}.")
        chosen = [read_row(position, len(self.rows)) for position in positions]
        if not chosen:
            return []
        _, box, answer = self._asked(self.rows.iloc[chosen], mark_refused=True)
        labels = zip(box.labels(answer.output), answer.answered, strict=True)
        return [format_cell(label) if answered else "none" for label, answered in labels]

    def row(self, position: Any) -> dict[str, Any]:
        """A row as a form, and the model's answer to it."""
        place = read_row(position, len(self.rows))
        row = self.rows.iloc[[place]]
        space, box, answer = self._asked(row)
        return {
            "row": place,
            "name": self.name(place),
            "cells": self.form.cells(space, space.values(row[space.columns]), row),
            "carried": [{"name": name, "shown": brief_cell(row[name].iloc[0])} for name in self.carried],
            "answer": plain_answer(box, answer),
        }

    # Questions.

    def read(self, sent: Any) -> Question:
        return read_question(sent, self.form, len(self.rows), self.classes, len(self.space))

    def edited(self, question: Question) -> tuple[pd.DataFrame, list[Any]]:
        """The row as it was edited by hand, and the columns that differ from the row itself."""
        row = self.rows.iloc[[question.row]]
        if not question.values:
            return row, []
        space, start = self._taken_in(row[self.space.columns])
        values = start.copy()
        values[0, list(question.values)] = list(question.values.values())
        changed, _ = space.new_cells(values, start)
        columns = [name for name, new in zip(space.columns, changed[0], strict=True) if new]
        if not columns:
            return row, []
        restored: Any = space.restore(values, row[space.columns], start)
        edited = row.copy()
        for name in columns:
            edited[name] = restored[name]
        return edited, columns

    def predict(self, sent: Any) -> dict[str, Any]:
        """The model's answer to a row edited by hand; what it has to say of goal, rules and ranges."""
        question = self.read(sent)
        row, columns = self.edited(question)
        space, box, answer = self._asked(row)
        _, own_box, own = self._asked(self.rows.iloc[[question.row]])
        values = space.values(row[space.columns])
        cells = self.form.cells(space, values, row)
        goal = self.explainer.wanted_goal(question.arguments.get("goal"))
        told = {
            "answer": plain_answer(box, answer),
            "derived": {str(name): cells[str(name)]["shown"] for name in space.formulas},
            "met": bool(goal.bind(box, own).met(answer)[0]) if columns else None,
            "notes": self._notes(question, space, values),
        }
        if columns and question.keep:
            before, after = plain_answer(own_box, own), told["answer"]
            entry = self._entry(question, cells) | {"before": before, "after": after, "met": told["met"]}
            told["number"] = self.history.add(question.tab, TRIED, entry)["number"]
        return told

    def explain(self, sent: Any) -> dict[str, Any]:
        """The alternatives to a row, as a card, as data and as Python."""
        question = self.read(sent)
        row, columns = self.edited(question)
        arguments = {**question.arguments, **({"carry": self.carried} if self.carried else {})}
        started = time.perf_counter()
        found = self.explainer.explain(row, **arguments)
        seconds = time.perf_counter() - started
        if found.refused[0]:
            raise found.refusal(0)
        space = found.space
        cells = self.form.cells(space, found.start, row)
        text = question_text(question.row, self.rows.iloc[[question.row]], row, columns, arguments)
        told: dict[str, Any] = {
            "row": question.row,
            "name": self.name(question.row),
            "before": plain_answer(*self._before(found)),
            "alternatives": alternatives(found, self.form),
            "card": card_html(found),
            "python": text,
            "seconds": seconds,
            "rows_queried": int(found.rows_queried[0]),
        }
        entry = self._entry(question, cells) | {
            "question": " ".join(text.partition("found = ")[2].split()),
            "before": told["before"],
            "alternatives": told["alternatives"],
            "python": text,
        }
        if question.keep:
            told["number"] = self.history.add(question.tab, ASKED, entry)["number"]
        return told

    def tried(self, tab: Any) -> list[dict[str, Any]]:
        """The history of a tab, in short."""
        return self.history.of(read_tab(tab))

    def warm_up(self) -> float:
        """Ask once as the page will, so that what is fitted at first use is fitted; the seconds that it took."""
        started = time.perf_counter()
        plausible: Any = PLAUSIBLE[self.plausible]
        card_html(self.explainer.explain(self.rows.iloc[[0]], plausible=plausible, carry=self.carried or None))
        return time.perf_counter() - started

    def _before(self, found: Counterfactuals) -> tuple[BlackBox, Answer]:
        assert found.blackbox is not None
        output = found.blackbox.codes(found.before) if self.classes is not None else np.asarray(found.before, float)
        return found.blackbox, Answer(output, found.scores_before)

    def _entry(self, question: Question, cells: dict[str, Any]) -> dict[str, Any]:
        labels = self.space.labels
        names = [self.space.names[j] for j in question.values]
        return {
            "row": self.name(question.row),
            "edited": {feature_label(labels, name): cells[str(name)]["shown"] for name in names},
        }

    def _taken_in(self, rows: pd.DataFrame) -> tuple[FeatureSpace, Values]:
        """The rows as values; that a cell is unseen can be read off the form, and need not be told to the terminal."""
        with ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.space.taking_in(rows)

    def _asked(self, rows: pd.DataFrame, mark_refused: bool = False) -> tuple[FeatureSpace, BlackBox, Answer]:
        frame = rows[self.space.columns]
        space, _ = self._taken_in(frame)
        box = self.explainer.blackbox_.over(space)
        return space, box, box.confirm(frame, mark_refused=mark_refused)

    def _notes(self, question: Question, space: FeatureSpace, values: Values) -> list[str]:
        notes = []
        for j in question.values:
            feature, value = space.features[j], values[0, j]
            if (
                feature.kind != "categorical"
                and value != feature.missing_code
                and not feature.low <= value <= feature.high
            ):
                low, high = format_cell(feature.low), format_cell(feature.high)
                notes.append(f"{feature_label(space.labels, feature.name)} is outside {low} to {high}.")
        if space.rules:
            _, start = self._taken_in(self.rows.iloc[[question.row]][self.space.columns])
            broken = RowRules(space, space.bound_rules, start).first_broken(values, np.zeros(1, dtype=int))[0]
            if broken >= 0:
                notes.append(f"The rule {str(space.rules[broken])!r} is broken.")
        return notes
