"""Regions: what was found out about how far answers may go, as a table, boxes and words."""

import html
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import cell_label, feature_label, format_choice, format_interval, format_labelled
from relax_plugin.limits import SHORT_FLOATS
from relax_plugin.regions.spans import Spans
from relax_plugin.table.constraints import refuse_unknown
from relax_plugin.table.plain_cells import to_plain
from relax_plugin.table.tables import item_of

SHOWN = 12  # lines of the table in a notebook
COLUMNS = ("query_id", "cf_id", "feature", "low", "high", "categories", "kind", "points", "wrong")


@dataclass(frozen=True)
class Box:
    """All changed cells of one counterfactual together: every row with these cells, all others as they are, will do.

    Attributes
    ----------
    ranges : mapping of feature to (low, high), or to a list of categories
        Both ends belong to it. Numbers lie on the grid of their feature, if it has one.
    kind : "proved" or "tested"
    points, wrong : int
        Rows that the model was asked in what was the box then, and those that were wrong: the box is without them.
    """

    ranges: Mapping[Hashable, tuple[float, float] | list[Any]]
    kind: str
    points: int
    wrong: int


@dataclass(frozen=True, eq=False)
class Regions:
    """For each changed cell of found counterfactuals where it may be, all other cells as delivered; and joint boxes.

    A change that can be taken back alone is needless: its cell is the query's own here, and it has no region.

    "proved": every value of the region meets the goal within the limits of the call, by the leaves of a tree ensemble
    or since each of its values was asked. "tested": the ends and `points` random rows were asked; `wrong` of them did
    not meet the goal, and the region was made smaller, so that it is without them.
    """

    space: FeatureSpace
    query: Integers  # (answers,)
    cf_id: Integers
    start: Floats  # (answers, features)
    values: Floats
    alone: Spans
    boxes: Spans
    allowed: tuple[Floats, Floats]  # (answers, features) lowest and highest number that each cell may become
    proved: Booleans  # (answers, features)
    points: Integers
    wrong: Integers
    box_proved: Booleans  # (answers,)
    box_points: Integers
    box_wrong: Integers
    rows_asked: int

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        cells, proved = int(self.changed.sum()), int((self.changed & self.proved).sum())
        wrong = int(self.wrong.sum() + self.box_wrong.sum())
        told = f", {wrong} wrong rows left out" * bool(wrong)
        answers = "answer" if len(self) == 1 else "answers"
        return f"Regions({cells} cells of {len(self)} {answers}, {proved} proved{told}, {self.rows_asked} model rows)"

    def _repr_html_(self) -> str:
        table = self.table.head(SHOWN).assign(categories=self.table["categories"].map(_listed))
        more = f"<p>... and {len(self.table) - SHOWN} more</p>" if len(self.table) > SHOWN else ""
        shown = table.to_html(index=False, na_rep="", float_format=lambda number: f"{number:.6g}")
        return f"<p>{html.escape(repr(self))}</p>{shown}{more}"

    @cached_property
    def changed(self) -> Booleans:
        return np.asarray(self.values != self.start)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A line for each changed cell: where it may be, all other cells as delivered.

        `low` and `high`, both included, of a number; `categories` of all others. NaN of a number that is missing.
        """
        answer, feature = np.nonzero(self.changed)
        categorical, gone = self.space.is_categorical[feature], self._gone[answer, feature]
        low, high = (
            np.where(categorical | gone, np.nan, end[answer, feature]) for end in (self.alone.low, self.alone.high)
        )
        columns: dict[str, Any] = {
            "query_id": self.query[answer],
            "cf_id": self.cf_id[answer],
            "feature": _objects([self.space.names[j] for j in feature]),
            "low": low,
            "high": high,
            "categories": _objects([self._categories(self.alone, i, j) for i, j in zip(answer, feature, strict=True)]),
            "kind": np.where(self.proved[answer, feature], "proved", "tested").astype(object),
            "points": self.points[answer, feature],
            "wrong": self.wrong[answer, feature],
        }
        return pd.DataFrame(columns, columns=list(COLUMNS))

    def box(self, query: int, cf_id: int = 0) -> Box:
        """The joint region of all changed cells of a counterfactual."""
        answer = self._places.get((int(query), int(cf_id)))
        if answer is None:
            raise InputError(
                f"there is no region of counterfactual {cf_id} of query {query}: it was not found, changes nothing, or "
                "was not among the rows that regions were asked for."
            )
        ranges: dict[Hashable, Any] = {}
        for j in np.flatnonzero(self.changed[answer]):
            chosen = self._categories(self.boxes, answer, j)
            ends = float(self.boxes.low[answer, j]), float(self.boxes.high[answer, j])
            lost = bool(self._gone[answer, j])
            ranges[self.space.names[j]] = chosen if chosen is not None else (np.nan, np.nan) if lost else ends
        kind = "proved" if self.box_proved[answer] else "tested"
        return Box(ranges, kind, int(self.box_points[answer]), int(self.box_wrong[answer]))

    def phrase(self, query: int, cf_id: int, feature: Hashable, *, alone: bool = False) -> str | None:
        """Where a changed cell may be, in words: "at least 6,580", "at most 12", "between 3 and 7", "one of A, B".

        Numbers are rounded inwards, to few digits: all that the words admit, within what the call allows, lies in the
        region. None if there is nothing to say: the cell has no region, or just the one value that was delivered.

        Parameters
        ----------
        query, cf_id : int
        feature : name
        alone : bool
            Whether all other cells stay as delivered. Else the words are about the joint box, so that those for all
            changed cells hold together and can stand in one sentence.
        """
        refuse_unknown("phrase", [feature], self.space.names)
        answer, j = self._places.get((int(query), int(cf_id))), self.space.names.index(feature)
        if answer is None or not self.changed[answer, j] or self._gone[answer, j]:
            return None
        spans = self.alone if alone else self.boxes
        chosen = self._categories(spans, answer, j)
        if chosen is not None:
            return format_choice(cell_label(self.space.labels, feature, cell) for cell in chosen)
        low, high, value = (float(end[answer, j]) for end in (spans.low, spans.high, self.values))
        rises = None if self.start[answer, j] == self.space.missing_codes[j] else value > float(self.start[answer, j])
        ends = low <= float(self.allowed[0][answer, j]), high >= float(self.allowed[1][answer, j])
        short = SHORT_FLOATS.get(int(self.space.grid.precision[j]))
        if short is not None:  # as its dtype writes them: the float32 that is called 0.1 is 0.100000001
            low, high, value = (float(str(short(number))) for number in (low, high, value))
        return format_interval(low, high, value, rises, ends)

    def needless(self, query: int, cf_id: int, feature: Hashable) -> bool:
        """Whether a counterfactual changes a feature without need: it also holds with the query's own value."""
        answer = self._places.get((int(query), int(cf_id)))
        return answer is not None and not self.changed[answer, self.space.names.index(feature)]

    def sentences(self) -> list[str]:
        """A sentence for each counterfactual: where its changed cells may be, all within their ranges together."""
        told, several = [], len(np.unique(self.cf_id)) > 1
        for answer, (query, cf_id) in enumerate(self._places):
            parts = []
            for j in np.flatnonzero(self.changed[answer]):
                feature, value = self.space.features[j], float(self.values[answer, j])
                cell = feature.categories[int(value)] if feature.kind == "categorical" else value
                own = format_labelled(self.space.labels, feature.name, cell)
                where = "missing" if self._gone[answer, j] else self.phrase(query, cf_id, feature.name) or own
                parts.append(f"{feature_label(self.space.labels, feature.name)} is {where}")
            which = f"Query {query}" + f", counterfactual {cf_id}" * several
            told.append(f"{which}: the goal is met if {' and '.join(parts)} ({self.box(query, cf_id).kind}).")
        return told

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def take(self, queries: Any) -> "Regions":
        """The regions of some queries, by their positions, which are 0, 1, ... from then on."""
        own = [np.flatnonzero(self.query == query) for query in np.asarray(queries, dtype=np.int64)]
        index = np.concatenate([np.zeros(0, dtype=np.int64), *own])
        names = ("cf_id", "start", "values", "proved", "points", "wrong", "box_proved", "box_points", "box_wrong")
        return replace(
            self,
            query=np.repeat(np.arange(len(own)), [len(answers) for answers in own]),
            alone=self.alone.take(index),
            boxes=self.boxes.take(index),
            allowed=(self.allowed[0][index], self.allowed[1][index]),
            **{name: getattr(self, name)[index] for name in names},
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready data: the cells, the boxes and what was asked."""
        cells = [
            {name: _plain(cell) for name, cell in zip(COLUMNS, line, strict=True)}
            for line in self.table.itertuples(index=False)
        ]
        boxes = []
        for (query, cf_id), answer in self._places.items():
            box = self.box(query, cf_id)
            ranges = [[_plain(name), _plain(list(ends))] for name, ends in box.ranges.items()]
            counts = {"kind": box.kind, "points": box.points, "wrong": box.wrong}
            boxes.append({"query_id": query, "cf_id": cf_id, "ranges": ranges, **counts})
            assert self.query[answer] == query
        return {"cells": cells, "boxes": boxes, "rows_asked": int(self.rows_asked)}

    @cached_property
    def _places(self) -> dict[tuple[int, int], int]:
        ids = zip(self.query.tolist(), self.cf_id.tolist(), strict=True)
        return {pair: answer for answer, pair in enumerate(ids)}

    @cached_property
    def _gone(self) -> Booleans:
        return np.asarray(self.changed & (self.values == self.space.missing_codes))

    def _categories(self, spans: Spans, answer: Any, j: Any) -> list[Any] | None:
        if not self.space.is_categorical[j]:
            return None
        categories = self.space.features[j].categories
        return [item_of(categories[code]) for code in np.flatnonzero(spans.of_feature(j)[answer])]


def _objects(cells: list[Any]) -> Array:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def _listed(categories: list[Any] | None) -> str:
    return "" if categories is None else ", ".join(map(str, categories))


def _plain(cell: Any) -> Any:
    if isinstance(cell, list):
        return [_plain(one) for one in cell]
    cell = item_of(cell)
    return None if cell is None or (isinstance(cell, float) and np.isnan(cell)) else to_plain(cell, "regions")
