"""Card: one query on one sheet. Who it is, what the model said, the alternatives, what was held, what is proved."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.files import write_text
from relax_plugin.formatting import feature_label, format_cell, format_labelled, row_names
from relax_plugin.pages.allowed import Allowed
from relax_plugin.pages.bars import Bars
from relax_plugin.pages.drawing import shorten_text
from relax_plugin.pages.html import template
from relax_plugin.plausibility import INDEPENDENT
from relax_plugin.reading.sentences import alternatives
from relax_plugin.results import Counterfactuals, taken

SIZES = (9.5, 9.0, 8.5, 8.0, 7.5, 7.0, 6.5, 6.0, 5.5)  # points; less is not read, and goes on on a second sheet
WIDTH, HEIGHT = 538.0, 712.0  # points of what both papers have within margins of 10 mm, less what rounding may take
CHARACTER = 0.56  # of the letters' size, the width of an average one in a wide font
LINE = 1.3  # of the letters' size
HEADING = 2.35  # a heading with the room around it
LEAST_ALTERNATIVE, LEAST_VALUES = 14.0, 19.0  # letters' sizes: the narrowest column of each kind
MOST_VALUE_COLUMNS = 4
MANY_CHANGES, MANY_WIDTH = 4, 20.0  # more changes are no sentence, and stand in columns of such a width
ENDS, SHARES = ("old", "new"), np.array([0.37, 0.31, 0.27])  # of a change; and of the width, the columns of the values
SMALL = 0.93  # tables and notes, against the letters of the card


@dataclass(frozen=True)
class Sheet:
    """The letters in points, and how many columns the alternatives and the values have."""

    points: float
    across: int
    value_columns: int


def sheet_for(card: Mapping[str, Any]) -> Sheet:
    """The sheet on which a card, as the template gets it, has room."""
    lengths = _lengths(card)
    for points in SIZES:
        width = WIDTH / points
        count = max(len(card["alternatives"]), 1)
        across = min(
            range(1, min(count, int(width / LEAST_ALTERNATIVE)) + 1), key=lambda k: (_found(card, width, k), k)
        )
        most = max(1, min(int(width / LEAST_VALUES), MOST_VALUE_COLUMNS))
        columns = min(range(1, most + 1), key=lambda k: (_values(lengths, width, k), k))
        height = (
            _said(card, width) + _found(card, width, across) + _values(lengths, width, columns) + _small(card, width)
        )
        if height * points <= HEIGHT:
            break
    return Sheet(points, across, columns)


def _lines(text: Any, width: float) -> int:
    return max(1, ceil(len(_read(text)) * CHARACTER / max(width, 1.0)))


def _read(text: Any) -> str:
    """What is read of a text: of markup neither tags nor titles."""
    return text.striptags() if isinstance(text, Markup) and "<" in text else str(text)


def _said(card: Mapping[str, Any], width: float) -> float:
    height = 0.3 + 1.9 * _lines(card["name"], width / 1.6) + 1.15 * LINE * _lines(card["before"], width * 0.7) + 0.6
    height += sum(_bar(one, min(width, 32.0)) for one in card["bars"])
    return height + (LINE * _lines(card["wished"], width) + 0.6 if card["wished"] else 0.0)


def _bar(bar: Any, width: float, *, brief: bool = False) -> float:
    told = bar.text if brief else f"{bar.label}: {bar.text} ({bar.line_text})"
    return SMALL * LINE * _lines(told, width) + 2.15


def _changes(changes: list[dict[str, Any]], width: float) -> float:
    columns = max(1, int((width + 1.5) / (MANY_WIDTH + 1.5))) if len(changes) > MANY_CHANGES else 1
    each = (width - 1.5 * (columns - 1)) / columns / SMALL
    heights = [
        SMALL * (LINE * max(_lines(one["name"], 0.38 * each), *(_lines(one[end], 0.28 * each) for end in ENDS)) + 0.4)
        for one in changes
    ]
    return 2.1 + sum(heights) / columns + max(heights, default=0.0) * (columns > 1)


def _found(card: Mapping[str, Any], width: float, across: int) -> float:
    if card["already"]:
        return HEADING + 2.0
    if card["failure"] is not None:
        attempt, height = card["failure"]["attempt"], HEADING + LINE * _lines(card["failure"]["status"], width) + 0.6
        if attempt is None:
            return height
        bar = 0.0 if attempt["bar"] is None else _bar(attempt["bar"], 32.0)
        return height + 5.5 + bar + _changes(attempt["changes"], 34.0)
    inner = (width - 0.5 * (across - 1)) / across - 1.7
    heights = [_alternative(one, inner) for one in card["alternatives"]]
    height = sum(max(heights[first : first + across]) + 0.5 for first in range(0, len(heights), across))
    return HEADING + height + 2.0 * bool(card["fewer"])


def _alternative(one: Mapping[str, Any], width: float) -> float:
    height = 1.6 + 1.4 * _lines(one["after"], width - 10.0) + LINE * _lines(one["sentence"], width) + 0.8
    height += 0.0 if one["bar"] is None else _bar(one["bar"], min(width, 32.0), brief=not one["many"])
    height += LINE * _lines(one["plausible"], width) + 0.6 if one["plausible"] else 0.0
    return height + _changes(one["changes"], width)


def _lengths(card: Mapping[str, Any]) -> Floats:
    """Characters of name, value and what it could become, of each value of the card (values, 3)."""
    rows = [
        (_read(line["name"]), f"{_read(line['value'])} {line['changed']}", line["could"]) for line in card["values"]
    ]
    rows += [(_read(name), _read(cell), "not known to the model") for name, cell in card["carried"]]
    return np.array([[len(text) for text in row] for row in rows], dtype=np.float64)


def _values(lengths: Floats, width: float, columns: int) -> float:
    each = (width - 1.5 * (columns - 1)) / columns / SMALL
    lines = np.maximum(np.ceil(lengths * CHARACTER / (SHARES * each)), 1.0).max(axis=1)
    heights = SMALL * (LINE * lines + 0.4)
    return float(HEADING + 1.6 + heights.sum() / columns + heights.max())


def _small(card: Mapping[str, Any], width: float) -> float:
    each = (width / 2 - 1.0) / SMALL
    held = sum(LINE * _lines(f"{one.what}: {one.about}", each - 1.1) + 0.2 for one in card["held"])
    proved = sum(LINE * _lines(f"{kind}: {text}", each - 1.1) + 0.2 for kind, text in card["proved"])
    proved += HEADING + LINE * 5 * max(1.0, 38.0 / each)
    return SMALL * (HEADING + max(held, proved)) + 0.9 * LINE * _lines(card["foot"], width) + 0.8


LONGEST = 120  # characters of a cell or a name that are shown; the whole text is its title
FEW_VALUES = 24  # more stand in a box of their own that scrolls


@dataclass(frozen=True)
class Card:
    """The card of one query.

    A notebook shows it; `html` is a page that needs nothing else, and `save` writes it.

    Attributes
    ----------
    title : str
        What the query is called.
    html : str
        The whole page.
    """

    title: str
    html: str
    _fragment: str

    def __repr__(self) -> str:
        return f"Card({self.title!r})"

    def _repr_html_(self) -> str:
        return self._fragment

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all, and say where it is."""
        path = Path(path)
        write_text(path, self.html)
        return path


def card_of(result: Counterfactuals, query: int) -> Card:
    """The card of one query of a result."""
    (data,) = cards(result, np.array([query]))
    fragment = template("card.html.jinja").render(card=data, styled=True)
    page = template("explanations.html.jinja").render(title=data["name"], alone=True, cards=[data], note=None)
    return Card(data["name"], page, fragment)


def cards(result: Counterfactuals, rows: Integers, foot: str | None = None) -> list[dict[str, Any]]:
    """What the cards of some queries say, for the template; `foot` stands at the end of each."""
    if len(rows) == 0:
        return []
    writer = CardWriter(result.take(rows), result, foot)
    return [writer.card(position) | {"id": f"card-{query}"} for position, query in enumerate(rows)]


class CardWriter:
    """Writes the cards of a result; what all of them need is looked up once.

    The `evidence` is more answers of the same model; `foot` stands at the end of each card.
    """

    def __init__(self, result: Counterfactuals, evidence: Counterfactuals, foot: str | None) -> None:
        self.result, self.foot = result, foot
        self.allowed, self.bars = Allowed(result), Bars(result, evidence)
        derived = [one.name for one in result.space.derived]
        self.features = [*result.space.names, *derived]
        self.words = [feature_label(result.space.labels, name) for name in self.features]
        self.names, self.sentences = row_names(result), alternatives(result)
        self.already = result.stages[:, 0] == "query"
        every = np.arange(len(result))
        self.own = self._cells(result.start, every)
        self.lines, self.made = self._made(every)
        self.attempts = self._attempts()
        self.plausibility = self._plausibility()

    def _cells(self, values: Values, rows: Integers) -> list[list[str]]:
        """Rows made of the queries as they are read: a cell for each feature, then for each derived column."""
        space = self.result.space
        delivered = space.frame(space.restore(values, taken(self.result.queries, rows), self.result.start[rows]))
        cells, own = space.by_feature(delivered), set(space.names)
        columns = [
            [format_labelled(space.labels, name, cell) for cell in (cells if name in own else delivered)[name]]
            for name in self.features
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _made(self, every: Integers) -> tuple[dict[tuple[int, int], int], list[list[str]]]:
        """The cells of what was found or tried, and which of these lines is whose."""
        result = self.result
        told = result.found.copy()
        told[:, 0] |= (result.values[:, 0] != result.start).any(axis=1)
        query, slot = np.nonzero(told)
        lines = {pair: line for line, pair in enumerate(zip(query.tolist(), slot.tolist(), strict=True))}
        return lines, self._cells(result.values[query, slot], every[query])

    def _attempts(self) -> dict[int, tuple[Any, Any]]:
        """The model's answer and scores to the closest attempts where nothing was found; it is asked for them here."""
        result = self.result
        lost = np.flatnonzero(~result.found.any(axis=1) & (result.values[:, 0] != result.start).any(axis=1))
        if len(lost) == 0 or result.blackbox is None:
            return {}
        delivered = result.space.restore(result.values[lost, 0], taken(result.queries, lost), result.start[lost])
        answer = result.blackbox.for_call().confirm(delivered)
        labels = result.blackbox.labels(answer.output)
        scores = [None] * len(lost) if answer.scores is None else answer.scores
        return {int(query): (label, own) for query, label, own in zip(lost, labels, scores, strict=True)}

    def _plausibility(self) -> pd.DataFrame | None:
        """How plausible they are, where that is known or the call asked for it: else it would cost a fit."""
        result = self.result
        asked = result.asked is not None and result.asked.plausible is not None and result.detectors is not None
        return result.plausibility if "plausibility" in vars(result) or (asked and result.found.any()) else None

    def card(self, query: int) -> dict[str, Any]:
        """All that one card says."""
        result, found = self.result, self.result.found[query]
        told = [] if self.already[query] else self._alternatives(query)
        some = 0 < len(told) < len(found)
        data: dict[str, Any] = {
            "name": self.names[query],
            "before": "none" if result.refused[query] else format_cell(result.before[query]),
            "after": list(dict.fromkeys(one["after"] for one in told)),
            "bars": self.bars.of_query(query),
            "wished": self.allowed.wished(query),
            "already": bool(self.already[query]),
            "values": self._values(query, told),
            "carried": self._carried(query),
            "alternatives": told,
            "wanted": len(found),
            "many_changes": MANY_CHANGES,
            "fewer": _sentence(result.statuses[query, int(found.argmin())]) if some else "",
            "failure": None if found.any() else self._failure(query),
            "held": self.allowed.held(query),
            "proved": self._proved(query),
            "foot": self._foot(query),
        }
        return data | {"boxed": len(data["values"]) > FEW_VALUES, "sheet": sheet_for(data)}

    def _foot(self, query: int) -> str:
        rows, asked = int(self.result.rows_queried[query]), self.result.asked
        told = [self.foot or (f"Method {asked.method}." if asked is not None else "")]
        return " ".join([*told, f"{rows:,} model row{'' if rows == 1 else 's'} asked."]).strip()

    def _values(self, query: int, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Every value of the query, those that change in an alternative first."""
        changed: dict[int, list[int]] = {}
        for one in told:
            for change in one["changes"]:
                changed.setdefault(change["feature"], []).append(one["number"])
        could = self.allowed.could_become(query)
        lines = [
            {
                "name": cut_name(word),
                "value": cut(cell),
                "could": could[j],
                "changed": _where(changed.get(j, []), len(told)),
            }
            for j, (word, cell) in enumerate(zip(self.words, self.own[query], strict=True))
        ]
        return sorted(lines, key=lambda line: not line["changed"])

    def _carried(self, query: int) -> list[tuple[Markup, Markup]]:
        carried = self.result.carried
        if carried is None:
            return []
        return [(cut(str(n)), cut(format_labelled({}, n, carried[n].iloc[query]))) for n in carried.columns]

    def _alternatives(self, query: int) -> list[dict[str, Any]]:
        result, told = self.result, []
        for slot, sentence in zip(np.flatnonzero(result.found[query]).tolist(), self.sentences[query], strict=False):
            scores = None if result.scores_after is None else result.scores_after[query, slot]
            changes, after = self._changes(query, slot), format_cell(result.after[query, slot])
            many = sum(not change["computed"] for change in changes) > MANY_CHANGES
            told.append(
                {
                    "number": slot + 1,
                    "sentence": f"If these {len(changes)} values were as below, the answer would be {after}."
                    if many
                    else sentence,
                    "many": many,
                    "after": after,
                    "bar": self.bars.of_answer(query, result.after[query, slot], scores),
                    "changes": changes,
                    "plausible": self._plausible(query, slot),
                }
            )
        return told

    def _changes(self, query: int, slot: int) -> list[dict[str, Any]]:
        result, old, new = self.result, self.own[query], self.made[self.lines[query, slot]]
        moved = np.flatnonzero(result.values[query, slot] != result.start[query]).tolist()
        first = len(result.space.names)
        derived = [j for j in range(first, len(old)) if new[j] != old[j]]
        if len(moved) > MANY_CHANGES and result.known_regions is not None and result.found[query, slot]:
            phrases = {j: result.known_regions.phrase(query, slot, self.features[j]) for j in moved}
            new = [f"{cell} ({phrases[j]})" if phrases.get(j) else cell for j, cell in enumerate(new)]
        return [
            {
                "feature": j,
                "name": cut_name(self.words[j]),
                "old": cut(old[j]),
                "new": cut(new[j]),
                "computed": j >= first,
            }
            for j in [*moved, *derived]
        ]

    def _failure(self, query: int) -> dict[str, Any]:
        attempt: dict[str, Any] | None = None
        if (query, 0) in self.lines:
            attempt = {"changes": self._changes(query, 0), "answer": None, "bar": None}
        if attempt is not None and query in self.attempts:
            answer, scores = self.attempts[query]
            attempt |= {"answer": format_cell(answer), "bar": self.bars.of_answer(query, answer, scores)}
        return {"status": _sentence(self.result.statuses[query, 0]), "attempt": attempt}

    def _plausible(self, query: int, slot: int) -> str:
        if self.plausibility is None:
            return ""
        line = self.plausibility.iloc[query * self.result.found.shape[1] + slot]
        judges = sum(bool(line[f"{prefix}plausible"]) for prefix in ("", INDEPENDENT))
        return LIKENESS[judges]

    def _proved(self, query: int) -> list[tuple[str, str]]:
        result = self.result
        proof = "" if result.proofs is None else str(result.proofs[query])
        told = [("Proved", _sentence(proof))] if proof else []
        if self.already[query]:
            return told
        if not result.found[query].any():
            return told or [("Not proved", "That there is none; the search found none.")]
        told.insert(0, ("Tested", "The model itself was asked about each alternative; the answers are its own."))
        told += self._ranges(query)
        return told + [("Not proved", "That no alternative has fewer or smaller changes.")] * (not proof)

    def _ranges(self, query: int) -> list[tuple[str, str]]:
        """How sure the ranges are that the sentences name, where `regions` was asked."""
        regions = self.result.known_regions
        if regions is None:
            return []
        table = regions.table
        kinds = table.loc[table["query_id"] == query, ["kind", "points"]]
        told = []
        if (kinds["kind"] == "proved").any():
            told.append(("Proved", f"{int((kinds['kind'] == 'proved').sum())} of {len(kinds)} ranges of values."))
        tested = kinds[kinds["kind"] == "tested"]
        if len(tested):
            rows = f"{len(tested)} of {len(kinds)} ranges of values, by {int(tested['points'].sum()):,} rows."
            told.append(("Tested", rows))
        return told


LIKENESS = (
    "Does not look like the training rows: few or none are like it.",
    "Looks like the training rows by one detector, not by another.",
    "Looks like the training rows, by two detectors.",
)


def _where(numbers: list[int], alternatives: int) -> str:
    if not numbers or alternatives == 1:
        return "changes" * bool(numbers)
    if len(numbers) == alternatives:
        return "changes in all"
    return f"changes in {', '.join(map(str, numbers))}"


def _sentence(text: Any) -> str:
    return f"{str(text)[:1].upper()}{str(text)[1:]}."


def cut(text: str) -> Markup:
    """A text in one line, escaped; of a long one its beginning, with the whole of it as the title."""
    short = shorten_text(text, LONGEST)
    if short == " ".join(text.split()):
        return Markup.escape(short)
    return Markup('<span title="{}">{}</span>').format(text, short)


def cut_name(text: str) -> Markup:
    """A name as `cut` has it, which a narrow column breaks after an underscore or a slash, not in a word."""
    short = cut(text)
    return short if "<" in short else Markup(re.sub("([_/])(?=.)", r"\1<wbr>", str(short)))


MOST_QUERIES = 200  # on a page of explanations: more are no reading, and the results can be stored as JSON or CSV


def explanation_page(
    counterfactuals: Counterfactuals, *, title: str, note: str | None = None, foot: str | None = None
) -> str:
    """A page with a card for each of the first 200 queries.

    `note` is a sentence below the title: which model, which method, which rows. `foot` stands at the foot of each card,
    which may be printed and handed on alone.
    """
    shown = np.arange(min(len(counterfactuals), MOST_QUERIES))
    return template("explanations.html.jinja").render(
        title=title,
        note=note,
        alone=False,
        cards=cards(counterfactuals, shown, foot),
        total=len(counterfactuals),
        solved=int(counterfactuals.found.any(axis=1).sum()),
        rows=float(counterfactuals.rows_queried.mean()) if len(counterfactuals) else 0.0,
        seconds=counterfactuals.seconds,
    )
