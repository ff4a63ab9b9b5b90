"""Card: one query on one sheet. Who it is, what the model said, the alternatives, what was held, what is proved."""

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from relax_plugin.arrays import Booleans, Floats, Integers, Values
from relax_plugin.files import write_text
from relax_plugin.formatting import cell_label, feature_label, format_cell, format_labelled, percent, row_names
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.pages.drawing import shorten_text
from relax_plugin.pages.html import template
from relax_plugin.plausibility import INDEPENDENT
from relax_plugin.reading.sentences import alternatives
from relax_plugin.results import Counterfactuals, taken
from relax_plugin.table.columns import Feature

MOST_NAMES = 12  # of features in one line: each value of the row says it again


class Held(NamedTuple):
    """One thing that every answer had to keep: what it is, and what it is about."""

    what: str
    about: str


@dataclass(frozen=True)
class Allowed:
    """What was allowed for the queries of a result."""

    result: Counterfactuals
    _limits: Limits = field(init=False, repr=False)
    _span: tuple[Floats, Floats] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        space, asked, start = self.result.space, self.result.asked, self.result.start
        said = {} if asked is None else vars(asked.constraints)
        limits = space.limits(values=start, **said)
        object.__setattr__(self, "_limits", limits)
        object.__setattr__(self, "_span", limits.span(start))

    def could_become(self, query: int) -> list[str]:
        """For each feature what its value could have become, in a few words; then for each derived column."""
        missing = self._missing(query)
        told = [self._could_become(query, j, bool(missing[j])) for j in range(len(missing))]
        return told + ["computed"] * len(self.result.space.derived)

    def _could_become(self, query: int, j: int, missing: bool) -> str:
        feature = self.result.space.features[j]
        asked, own = self.result.asked, self.result.start[query, j]
        if feature.carried:
            return "passed on as it is"
        if feature.immutable:
            return "fixed"
        if asked is not None and feature.name in asked.immutable:
            return "held"
        if asked is not None and asked.vary is not None and feature.name not in asked.vary:
            return "held"
        if missing and not feature.fillable:
            return "stays missing"
        frozen = self._limits.frozen[0 if len(self._limits.frozen) == 1 else query, j]
        if frozen:  # with a direction, but of which nobody knows where it stands
            return "unseen, so held"
        gone = " or missing" * (feature.vanishable and not missing)
        low, high = float(self._span[0][query, j]), float(self._span[1][query, j])
        if feature.kind == "categorical":
            count = self._other_categories(query, j, own, low, high)
            return f"{count} other{'' if count == 1 else 's'}{gone}" if count else f"no other{gone}"
        if low == high == own:
            return f"at its end{gone}"
        ends = format_cell(_whole(low, feature)), format_cell(_whole(high, feature))
        direction = self._limits.direction[j]
        if direction > 0 and low == own:
            return f"up to {ends[1]}{gone}"
        if direction < 0 and high == own:
            return f"down to {ends[0]}{gone}"
        return f"{ends[0]} to {ends[1]}{gone}"

    def _other_categories(self, query: int, j: int, own: float, low: float, high: float) -> int:
        first, end = self._limits.category_offsets[j : j + 2]
        choices = self._limits.choices[0 if len(self._limits.choices) == 1 else query, first:end]
        codes = np.arange(end - first)
        return int((choices & (codes != own) & (codes >= low) & (codes <= high)).sum())

    def _missing(self, query: int) -> Booleans:
        return np.asarray(self.result.space.is_missing(self.result.start[[query]])[0], dtype=bool)

    def held(self, query: int) -> list[Held]:
        """What every answer to the query had to keep, and why; the goal itself is `wished`."""
        told = [*self._by_the_table(), *self._by_the_question(query), *self._directions(), *self._of_the_search()]
        return [one for one in told if one.about]

    def _by_the_table(self) -> list[Held]:
        space, labels = self.result.space, self.result.space.labels
        free = [f for f in space.features if not f.immutable]
        never = [self._never(f) for f in free if f.kind == "categorical" and not all(f.choices)]
        prices = [f"{feature_label(labels, f.name)} {f.cost:g}" for f in free if f.cost != 1]
        return [
            Held("Never change, by the table", self._names(f.name for f in space.features if _fixed(f))),
            Held("Reach the model as they are", self._names(f.name for f in space.features if f.carried)),
            Held("Never chosen", "; ".join(never)),
            *(Held("Rule", str(rule)) for rule in space.rules),
            *(Held("Computed", f"{feature_label(labels, one.name)} = {one.formula.text}") for one in space.derived),
            Held("Prices of changes (others 1)", ", ".join(prices)),
        ]

    def _by_the_question(self, query: int) -> list[Held]:
        space, asked = self.result.space, self.result.asked
        missing = zip(space.features, self._missing(query), strict=True)
        kept = Held("Missing, and kept so", self._names(f.name for f, gone in missing if gone and not f.fillable))
        if asked is None:
            older = "what it held beside this is not known: the result is from an older version, or not of one call"
            return [kept, Held("This question", older)]
        return [
            kept,
            Held("Only these could change in this question", self._names(asked.vary or ())),
            Held("Held for this question", self._names(asked.immutable)),
            Held("Range in this question", self._ranges(query)),
        ]

    def _directions(self) -> list[Held]:
        space, asked, told = self.result.space, self.result.asked, []
        for way, direction in (("upwards", "increase"), ("downwards", "decrease")):
            table = [f.name for f in space.features if f.direction == direction and not f.immutable]
            here = () if asked is None else getattr(asked, f"{direction}_only")
            told.append(Held(f"Only {way}, by the table", self._names(table)))
            told.append(Held(f"Only {way} in this question", self._names(name for name in here if name not in table)))
        return told

    def _of_the_search(self) -> list[Held]:
        asked = self.result.asked
        if asked is None:
            return []
        further = f"{asked.further_models} further model{'' if asked.further_models == 1 else 's'}"
        return [
            Held("Values changed at most", str(asked.max_changes)),
            Held("Looked for", OBJECTIVES.get(asked.objective, asked.objective)),
            Held("Plausibility", PLAUSIBLE.get(asked.plausible or "", "")),
            Held("Had to hold for", further if asked.further_models else ""),
        ]

    def _ranges(self, query: int) -> str:
        """The bounds of the question; those of the table are what each value could become."""
        space, asked = self.result.space, self.result.asked
        told = []
        for name, ends in ({} if asked is None else asked.bounds).items():
            feature, word = next(f for f in space.features if f.name == name), feature_label(space.labels, name)
            if feature.kind == "categorical":
                told.append(f"{word}: {' or '.join(str(cell_label(space.labels, name, end)) for end in ends)}")
                continue
            low, high = (end[0 if len(end) == 1 else query] if isinstance(end, tuple) else end for end in ends)
            told.append(f"{word} {_range(low, high)}")
        return "; ".join(told)

    def _never(self, feature: Feature) -> str:
        labels = self.result.space.labels
        pairs = zip(feature.categories, feature.choices, strict=True)
        barred = [str(cell_label(labels, feature.name, one)) for one, chosen in pairs if not chosen]
        return f"{feature_label(labels, feature.name)}: {listing(barred)}"

    def _names(self, names: Iterable[Hashable]) -> str:
        return listing([feature_label(self.result.space.labels, name) for name in names])

    def wished(self, query: int) -> str:
        """The goal of the query, as what a person would have asked for."""
        asked = self.result.asked
        return "" if asked is None else _wished(asked.goal, query)


OBJECTIVES = {"sparse": "the fewest changes", "closest": "the smallest changes"}
PLAUSIBLE = {
    "prefer": "rows that look like training rows were preferred",
    "require": "only rows that look like training rows were accepted",
}


def listing(names: list[str]) -> str:
    """Names in a line; the first ones, and how many more, if there are many."""
    comma = "; " if any("," in name for name in names) else ", "
    if len(names) <= MOST_NAMES:
        return comma.join(names)
    return f"{comma.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"


def _wished(goal: Goal, query: int) -> str:
    def own(each: Any) -> Any:
        return each[query] if isinstance(each, tuple) else each

    if goal.kind == "shift":
        assert goal.delta is not None
        way = {"up": "higher", "down": "lower"}.get(goal.direction or "", "higher or lower")
        return f"a number at least {format_cell(goal.delta)} {way}"
    if goal.kind == "between":
        return f"a number {_range(own(goal.low), own(goal.high))}"
    if goal.raise_by is not None:
        return f"a probability of {format_cell(own(goal.label))} that is {100 * goal.raise_by:g} points higher"
    wanted = "another answer" if goal.kind == "flip" else f"the answer {format_cell(own(goal.label))}"
    least = goal.min_probability
    return wanted if least is None else f"{wanted}, with a probability of at least {percent(least)}"


def _range(low: Any, high: Any) -> str:
    """A range in words; an end that is missing or infinite is none."""
    low, high = (None if end is None or pd.isna(end) or np.isinf(end) else end for end in (low, high))
    if low is None or high is None:
        return (
            "of any size"
            if low is high
            else f"of at most {format_cell(high)}"
            if low is None
            else f"of at least {format_cell(low)}"
        )
    return f"from {format_cell(low)} to {format_cell(high)}"


def _fixed(feature: Feature) -> bool:
    return feature.immutable and not feature.carried


def _whole(value: float, feature: Feature) -> float | int:
    return int(value) if feature.kind == "integer" and value % 1 == 0 else value


ROOM = 0.08  # of the range of numbers, left free at both ends of a line
MOST_CLASSES = 4  # whose probabilities are shown of a query, the likeliest first


@dataclass(frozen=True)
class Bar:
    """One bar; whoever cannot see it reads `text`. Places are percentages of its length."""

    label: str
    text: str
    fill: float | None = None  # up to where it is filled: a probability
    mark: float | None = None  # where the query is
    dot: float | None = None  # where the answer is, on a line of numbers
    line: float | None = None  # where the answer turns, or the goal begins; `line_text` says which it is
    line_text: str = ""
    zones: tuple[tuple[float, float], ...] = ()  # from, width: what would meet the goal, on a line of numbers


class Bars:
    """The bars of a result: none where the model gives neither probabilities nor numbers.

    The `evidence` is more answers of the same model, which may show that it decides by another line than 50%.
    """

    def __init__(self, result: Counterfactuals, evidence: Counterfactuals | None = None) -> None:
        self.result, self.asked = result, result.asked
        scores = result.scores_before
        classes = None if self.asked is None else self.asked.classes
        known = self.asked is not None and self.asked.probabilities and classes is not None and scores is not None
        self.classes: tuple[Any, ...] | None = classes if known else None
        self.numbers = self.asked is not None and self.asked.goal.kind in ("shift", "between")
        self.turns_at_half = (
            self.classes is not None and len(self.classes) == 2 and self._likeliest_wins(evidence or result)
        )

    def _likeliest_wins(self, result: Counterfactuals) -> bool:
        """Whether every answer is the likelier class: a model may decide by another line than 50%."""
        assert result.scores_before is not None and self.classes is not None
        names = np.array([str(label) for label in self.classes], dtype=object)
        pairs = [(result.scores_before[~result.refused], result.before[~result.refused])]
        if result.scores_after is not None:
            pairs.append((result.scores_after[result.found], result.after[result.found]))
        return all((names[scores.argmax(axis=1)] == np.array([*map(str, labels)])).all() for scores, labels in pairs)

    def of_query(self, query: int) -> list[Bar]:
        """What the model says of the query itself: of two classes its answer's, of several the likeliest."""
        if self.result.refused[query]:
            return []
        if self.numbers:
            return [self._number("the model's number", float(self.result.before[query]), None, query)]
        if self.classes is None:
            return []
        assert self.result.scores_before is not None
        scores = self.result.scores_before[query]
        order = np.argsort(-scores, kind="stable")[:MOST_CLASSES]
        if len(self.classes) == 2:
            own = self._position(self.result.before[query])
            wanted = self._wanted(query)
            order = np.array([own if self._line_of_goal(query) is None or wanted is None else wanted])
        told = []
        for position in order:
            label, share = self.classes[position], float(scores[position])
            line, line_text = self._line(query, int(position))
            bar = Bar(f"probability of {format_cell(label)}", percent(share), 100 * share, None, None, line, line_text)
            told.append(bar)
        return told

    def of_answer(self, query: int, answer: Any, scores: Any) -> Bar | None:
        """From the query to an answer of the model, by the probability of the class that it is, or that was wanted."""
        if self.numbers:
            return self._number("the model's number", float(self.result.before[query]), float(answer), query)
        if self.classes is None or scores is None:
            return None
        assert self.result.scores_before is not None and self.asked is not None
        wanted = self._wanted(query)
        position = self._position(answer) if wanted is None else wanted
        before, after = float(self.result.scores_before[query, position]), float(scores[position])
        line, line_text = self._line(query, position)
        text = f"{percent(before)} → {percent(after)}"
        label = f"probability of {format_cell(self.classes[position])}"
        return Bar(label, text, 100 * after, 100 * before, None, line, line_text)

    def _wanted(self, query: int) -> int | None:
        """The class that the question names, or the other one of two; None if several would do."""
        assert self.asked is not None and self.classes is not None
        goal = self.asked.goal
        if goal.kind == "to":
            return self._position(goal.label[query] if isinstance(goal.label, tuple) else goal.label)
        return 1 - self._position(self.result.before[query]) if len(self.classes) == 2 else None

    def _position(self, label: Any) -> int:
        assert self.classes is not None
        names = [str(one) for one in self.classes]
        return names.index(str(label)) if str(label) in names else 0

    def _line_of_goal(self, query: int) -> float | None:
        """The probability that the question asks for, of the class that it wants."""
        assert self.asked is not None
        goal = self.asked.goal
        if goal.raise_by is not None:
            wanted = self._wanted(query)
            assert wanted is not None and self.result.scores_before is not None
            return min(1.0, float(self.result.scores_before[query, wanted]) + goal.raise_by)
        if goal.min_probability is None:
            return None
        return max(goal.min_probability, 0.5) if self.turns_at_half else goal.min_probability

    def _line(self, query: int, position: int) -> tuple[float | None, str]:
        goal, wanted = self._line_of_goal(query), self._wanted(query)
        own = self._position(self.result.before[query])
        if goal is not None and (position == wanted or (wanted is None and position != own)):
            return 100 * goal, f"asked for: {percent(goal)}"
        return (50.0, "the answer turns at 50%") if self.turns_at_half else (None, "")

    def _number(self, label: str, before: float, after: float | None, query: int) -> Bar:
        assert self.asked is not None
        low, high, inside = self._ends(query, before)
        known = [one for one in (before, after, low, high) if one is not None and np.isfinite(one)]
        least, most = min(known), max(known)
        room = ROOM * (most - least) or 1.0
        least, most = least - room, most + room

        def place(number: float) -> float:
            return float(100 * np.clip((number - least) / (most - least), 0.0, 1.0))

        between = [(low, high)] if inside else [(-np.inf, low), (high, np.inf)]
        zones = tuple((place(a), place(b) - place(a)) for a, b in between)
        text = format_cell(before) if after is None else f"{format_cell(before)} → {format_cell(after)}"
        return Bar(
            label,
            text,
            None,
            place(before),
            None if after is None else place(after),
            None,
            "green: what was asked for",
            zones,
        )

    def _ends(self, query: int, before: float) -> tuple[float, float, bool]:
        """The ends of the range of numbers, and whether the goal is inside of it."""
        assert self.asked is not None
        goal = self.asked.goal
        if goal.kind == "between":
            low, high = (end[query] if isinstance(end, tuple) else end for end in (goal.low, goal.high))
            assert low is not None and high is not None
            return float(low), float(high), True
        assert goal.delta is not None
        low, high = before - goal.delta, before + goal.delta
        if goal.direction == "up":
            return high, np.inf, True
        return (-np.inf, low, True) if goal.direction == "down" else (low, high, False)


SIZES = (9.5, 9.0, 8.5, 8.0, 7.5, 7.0, 6.5, 6.0, 5.5)  # points; less is not read, and goes on on a second sheet
WIDTH, HEIGHT = 538.0, 712.0  # points of what both papers have within margins of 10 mm, less what rounding may take
# In letters' sizes: an average letter of a wide font, a line, a heading with the room around it, and the columns that
# `card.css` gives to alternatives, to values and to many changes.
CHARACTER, LINE, HEADING = 0.56, 1.3, 2.35
ALTERNATIVE, VALUES, MANY_WIDTH = 17.5, 20.5, 20.0
MANY_CHANGES = 4  # more changes are no sentence, and stand in columns
SHARES = (0.37, 0.31, 0.27)  # of the width of a table, its columns


def letters_for(card: Mapping[str, Any]) -> float:
    """The largest letters, in points, with which all of a card is on one sheet, be that A4 or letter."""
    return next((points for points in SIZES if _height(card, WIDTH / points) * points <= HEIGHT), SIZES[-1])


def _lines(text: Any, width: float) -> int:
    read = text.striptags() if isinstance(text, Markup) and "<" in text else str(text)  # neither tags nor titles
    return max(1, ceil(len(read) * CHARACTER / max(width, 1.0)))


def _table(rows: Iterable[tuple[Any, ...]], width: float, columns: int) -> float:
    """The height of a table of three cells a row, which stands in so many columns."""
    each = width / columns - 1.5
    heights = [LINE * max(_lines(c, s * each) for c, s in zip(row, SHARES, strict=True)) + 0.4 for row in rows]
    return 2.0 + sum(heights) / columns + max(heights, default=0.0) * (columns > 1)


def _changes(changes: list[dict[str, Any]], width: float) -> float:
    columns = max(1, int(width / MANY_WIDTH)) if len(changes) > MANY_CHANGES else 1
    return _table(((one["name"], one["old"], one["new"]) for one in changes), width, columns)


def _height(card: Mapping[str, Any], width: float) -> float:
    """About how high a card is that is so wide, both in letters' sizes; the columns are those of `card.css`."""
    told, failure = card["alternatives"], card["failure"]
    height = 4.5 * HEADING + LINE * (_lines(card["before"], 0.7 * width) + _lines(card["wished"], width))
    height += 2 * LINE * (len(card["bars"]) + 1) + _lines(card["foot"], width)
    if failure is not None:
        height += 2 * HEADING + LINE * _lines(failure["status"], width)
        height += 0.0 if failure["attempt"] is None else 4 * LINE + _changes(failure["attempt"]["changes"], 34.0)
    elif told:
        across = max(1, min(len(told), int(width / ALTERNATIVE)))
        inner = width / across - 2.2
        each = [
            HEADING
            + 3 * LINE
            + LINE * sum(_lines(one[part], inner) for part in ("after", "sentence", "plausible"))
            + _changes(one["changes"], inner)
            for one in told
        ]
        height += sum(max(each[first : first + across]) for first in range(0, len(each), across))
    rows = [(one["name"], f"{one['value']} {one['changed']}", one["could"]) for one in card["values"]]
    rows += [(name, cell, "not known to the model") for name, cell in card["carried"]]
    height += _table(rows, width, max(1, min(int(width / VALUES), 4)))
    half = width / 2 - 2.0
    held = sum(LINE * _lines(f"{one.what}: {one.about}", half) for one in card["held"])
    proved = sum(LINE * _lines(f"{kind}: {text}", half) for kind, text in card["proved"])
    return height + max(held, proved + HEADING + LINE * (220 * CHARACTER / half + 1))


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
        return data | {"boxed": len(data["values"]) > FEW_VALUES, "points": letters_for(data)}

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
