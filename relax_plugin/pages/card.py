"""Card: one query on one sheet. Who it is, what the model said, the alternatives, what was held, what is proved."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from relax_plugin.arrays import Integers, Values
from relax_plugin.files import write_text
from relax_plugin.formatting import feature_label, format_cell, format_labelled, row_names
from relax_plugin.pages.allowed import Allowed
from relax_plugin.pages.bars import Bars
from relax_plugin.pages.drawing import shorten_text
from relax_plugin.pages.html import template
from relax_plugin.pages.sheet import MANY_CHANGES, sheet_for
from relax_plugin.plausibility import INDEPENDENT
from relax_plugin.reading.sentences import alternatives
from relax_plugin.results import Counterfactuals, taken

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
