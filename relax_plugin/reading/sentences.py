"""Sentences: what would have to be different for another answer, as one person tells it to another."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from relax_plugin.formatting import feature_label, format_cell, format_labelled, percent, printable, row_names
from relax_plugin.reading.probabilities import probabilities, reached_labels
from relax_plugin.results import Counterfactuals
from relax_plugin.table.constraints import refuse_unknown


def sentences(result: Counterfactuals, names: Mapping[Any, str] | None = None) -> list[str]:
    """A text for each query: all of its counterfactuals, or why there is none, and what is proved."""
    told = []
    for query, (name, every) in enumerate(zip(row_names(result), alternatives(result, names), strict=True)):
        first, *others = every
        text = f"{name}: {first[0].lower()}{first[1:]}"
        text += "".join(f" Or {other[0].lower()}{other[1:]}" for other in others)
        if result.proofs is not None and result.proofs[query]:
            text += f" Proved: {result.proofs[query]}."
        told.append(printable(text))
    return told


def alternatives(result: Counterfactuals, names: Mapping[Any, str] | None = None) -> list[list[str]]:
    """A sentence for each counterfactual of each query; where there is none, one that says why."""
    refuse_unknown("sentences(names=...)", names or {}, result.space.names)
    parts, known = _conditions(result, names or {}), probabilities(result)
    labels = reached_labels(result)
    told: list[list[str]] = []
    for query in range(len(result)):
        before, every = format_cell(result.before[query]), []
        for slot in np.flatnonzero(result.found[query]).tolist():
            if (query, slot) not in parts:
                every.append(f"The answer {before} meets the goal already.")
                continue
            after = format_cell(result.after[query, slot])
            same = result.before[query] == result.after[query, slot]  # with `besides_query`, or a higher probability
            would = f"still be {after}" if same else f"be {after} instead of {before}"
            text = f"If {_and(parts[query, slot])}, the answer would {would}"
            if known is not None and not np.isnan(known.after[query, slot]):
                chances = f"{percent(known.before[query, slot])} before, {percent(known.after[query, slot])} after"
                text += f" (probability of {format_cell(labels[query, slot])}: {chances})"
            every.append(f"{text}.")
        told.append([printable(one) for one in every or [f"No counterfactual; {result.statuses[query, 0]}."]])
    return told


def _conditions(result: Counterfactuals, names: Mapping[Any, str]) -> dict[tuple[int, int], list[str]]:
    """What would be different in each counterfactual, feature by feature; nothing where nothing is.

    Where regions are known, changes that these show to be needless are left out.
    """
    labels, regions = result.space.labels, result.known_regions
    words = {name: names.get(name, feature_label(labels, name)) for name in result.space.names}
    parts: dict[tuple[int, int], list[str]] = {}
    for query, slot, name, old, new in result.changed_cells:
        if regions is not None and regions.needless(query, slot, name):
            continue
        before, after = (format_labelled(labels, name, cell) for cell in (old, new))
        phrase = None if regions is None else regions.phrase(query, slot, name)
        parts.setdefault((query, slot), []).append(f"{words[name]} were {phrase or after} instead of {before}")
    return parts


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
