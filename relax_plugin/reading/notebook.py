"""What a notebook shows of results and of spaces: narrow tables, changed columns only, colours for light and dark."""

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import feature_label, format_cell, format_labelled, percent, row_names
from relax_plugin.reading.probabilities import probabilities
from relax_plugin.results import Counterfactuals
from relax_plugin.table.columns import Feature

MOST_QUERIES = 10
MOST_CATEGORIES = 6
BOX = "overflow-x:auto;max-width:100%"
CELL = "text-align:left;vertical-align:top;padding:.2em .6em"
CHANGED = "background:rgba(46,125,50,.22)"  # seen on white and on black
FAINT = "opacity:.6"


def result_html(result: Counterfactuals) -> str:
    """The first queries, each with its counterfactuals below it: the columns that any of these changes, and answers."""
    shown = range(min(len(result), MOST_QUERIES))
    part = result[list(shown)]
    space, known, names = part.space, probabilities(part), row_names(part)
    changed = (part.values != part.start[:, None]) & part.found[..., None]
    columns = np.flatnonzero(changed.any(axis=(0, 1))).tolist()
    heads = ["", *(feature_label(space.labels, space.names[j]) for j in columns), "answer"]
    lines = [_line(heads, "th")]
    cells = part.changes().set_index(["query_id", "cf_id", "feature"])["to"].to_dict()
    for query in shown:
        own = [_cell(part, query, j) for j in columns]
        chance = None if known is None else known.own[query]
        lines.append(
            _line([escape(names[query]), *map(escape, own), _answer(part.before[query], chance)], "td", escaped=True)
        )
        for slot in range(part.found.shape[1]):
            if not part.found[query, slot]:
                if slot == 0 or part.stages[query, 0] != "query":
                    lines.append(_note(str(part.statuses[query, slot]), len(columns)))
                continue
            told = ["&rarr;"]
            for j in columns:
                new = cells.get((query, slot, space.names[j]))
                text = escape(format_labelled(space.labels, space.names[j], new))
                told.append(f"<b style='{CHANGED}'>{text}</b>" if changed[query, slot, j] else "")
            chance = None if known is None else known.after[query, slot]
            lines.append(_line([*told, _answer(part.after[query, slot], chance)], "td", escaped=True))
        if part.proofs is not None and part.proofs[query]:
            lines.append(_note(f"Proved: {part.proofs[query]}.", len(columns)))
    same = len(space.names) - len(columns)
    rest = [f"{same} of {len(space.names)} features are the same everywhere and left out."] if same else []
    rest += [f"The first {MOST_QUERIES} of {len(result)} queries are shown."] if len(result) > MOST_QUERIES else []
    note = f"<p style='{FAINT}'>{escape(' '.join(rest))}</p>" if rest else ""
    return f"<p>{escape(repr(result).splitlines()[0])}</p>{_table(lines)}{note}"


def space_html(space: FeatureSpace) -> str:
    """A line for each feature: its name and words, its kind, which values it may take, and what holds it."""
    priced = any(feature.cost != 1.0 for feature in space.features)
    lines = [_line(["feature", "kind", "values", "may change", *["price"] * priced], "th")]
    for feature in space.features:
        words = feature_label(space.labels, feature.name)
        name = escape(str(feature.name)) + ("" if words == str(feature.name) else f"<br><small>{escape(words)}</small>")
        price = ["" if feature.cost == 1.0 else format_cell(feature.cost)] * priced
        told = [name, feature.kind, escape(_values(space, feature)), _freedom(feature), *price]
        lines.append(_line(told, "td", escaped=True))
    further = [
        f"derived: {one.name} = {one.formula.text}{f' ± {one.formula.tolerance:.3g}' if one.formula.tolerance else ''}"
        for one in space.derived
    ]
    further += [f"rule: {rule}" for rule in space.rules]
    items = "".join(f"<li><code>{escape(text)}</code></li>" for text in further)
    return f"<p>FeatureSpace of {len(space.features)} features</p>{_table(lines)}" + (
        f"<ul>{items}</ul>" if items else ""
    )


def _values(space: FeatureSpace, feature: Feature) -> str:
    if feature.kind != "categorical":
        step = f", in steps of {format_cell(feature.step)}" if feature.step else ""
        return f"{format_cell(feature.low)} to {format_cell(feature.high)}{step}"
    if not feature.categories:
        return "carried along as they are"
    words = [format_labelled(space.labels, feature.name, one) for one in feature.categories]
    more = f" and {len(words) - MOST_CATEGORIES} more" if len(words) > MOST_CATEGORIES else ""
    return (" < " if feature.ordered else ", ").join(words[:MOST_CATEGORIES]) + more


def _freedom(feature: Feature) -> str:
    if feature.immutable:
        return "no"
    return {"increase": "upwards only", "decrease": "downwards only", None: "yes"}[feature.direction]


def _cell(result: Counterfactuals, query: int, j: int) -> str:
    feature = result.space.features[j]
    if feature.columns:
        known = [*feature.categories, *result.space.foreign_cells(j)]
        cell: Any = known[int(result.start[query, j])]
    else:
        cell = result.space.frame(result.queries)[feature.name].iloc[query]
    return format_labelled(result.space.labels, feature.name, cell)


def _answer(label: Any, chance: float | None) -> str:
    text = escape(format_cell(label))
    if chance is None or np.isnan(chance):
        return text
    return f"{text} <span style='{FAINT}'>({percent(float(chance))})</span>"


def _line(cells: Iterable[str], tag: str, escaped: bool = False) -> str:
    told = cells if escaped else (escape(cell) for cell in cells)
    return "<tr>" + "".join(f"<{tag} style='{CELL}'>{cell}</{tag}>" for cell in told) + "</tr>"


def _note(text: str, columns: int) -> str:
    return f"<tr><td></td><td style='{CELL}' colspan='{columns + 1}'><i>{escape(text)}</i></td></tr>"


def _table(lines: list[str]) -> str:
    return f"<div style='{BOX}'><table>{''.join(lines)}</table></div>"
