"""Self-contained HTML pages: the templates, safe data in scripts, whole files, and the page of some explanations."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from relax_plugin.results import Counterfactuals, shown

MOST_QUERIES = 200  # on a page of explanations: more are no reading, and the results can be stored as JSON or CSV


@cache
def template(name: str) -> Template:
    """A template of this package, by its file name; whatever is put into it is escaped."""
    loader = PackageLoader("relax_plugin.pages", "templates")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


def script_data(data: Any) -> Markup:
    """JSON for a script element, which no text in the data can end."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def capitalised(sentence: str) -> str:
    """A sentence of `Counterfactuals.sentences` without its "Query 3: " in front."""
    head, colon, rest = sentence.partition(": ")
    text = rest if colon and head.startswith("Query ") else sentence
    return text[:1].upper() + text[1:]


def explanation_page(
    counterfactuals: Counterfactuals, *, title: str, note: str | None = None, classes: Sequence[Any] | None = None
) -> str:
    """A page with the counterfactuals of each query: sentence, changed cells, answers before and after.

    Parameters
    ----------
    counterfactuals : Counterfactuals
        Of these the first 200 queries are shown.
    title : str
    note : str, optional
        A sentence below the title: which model, which method, under which constraints.
    classes : sequence, optional
        Labels in the order of the model's probabilities, which are not shown without.
    """
    queries = _queries(counterfactuals, classes)
    return template("explanations.html.jinja").render(
        title=title,
        note=note,
        queries=queries,
        total=len(counterfactuals),
        solved=int(counterfactuals.found.any(axis=1).sum()),
        rows=float(counterfactuals.rows_queried.mean()) if len(counterfactuals) else 0.0,
        seconds=counterfactuals.seconds,
    )


def _queries(result: Counterfactuals, classes: Sequence[Any] | None) -> list[dict[str, Any]]:
    """What the page shows of each query."""
    by_slot: dict[tuple[int, int], list[tuple[str, str, str]]] = {}
    for query, slot, name, old, new in result.changes().itertuples(index=False, name=None):
        by_slot.setdefault((int(query), int(slot)), []).append((str(name), shown(old), shown(new)))
    probability = _probabilities(result, classes)
    names = result.queries.index if isinstance(result.queries, pd.DataFrame) else range(len(result))
    return [
        {
            "number": str(names[query]),
            "sentence": capitalised(sentence),
            "before": shown(result.before[query]),
            "found": [
                {
                    "after": shown(result.after[query, slot]),
                    "changes": by_slot.get((query, int(slot)), []),
                    "probability": None if probability is None else probability[query, slot].tolist(),
                }
                for slot in np.flatnonzero(result.found[query])
            ],
        }
        for query, sentence in enumerate(result.sentences()[:MOST_QUERIES])
    ]


def _probabilities(result: Counterfactuals, classes: Sequence[Any] | None) -> Any:
    """Of the class reached, at the query and at the counterfactual (queries, slots, 2); None if scores are no such."""
    before, after = result.scores_before, result.scores_after
    if before is None or after is None or classes is None or before.shape != (len(result), len(classes)):
        return None
    told = np.concatenate([before, after[result.found]])
    if (told < 0.0).any() or not np.allclose(told.sum(axis=1), 1.0, atol=1e-3):
        return None  # margins
    column = {str(label): position for position, label in enumerate(classes)}
    positions = np.array([[column.get(str(label), 0) for label in of_query] for of_query in result.after])
    rows, slots = np.indices(positions.shape)
    return np.stack([before[rows, positions], after[rows, slots, positions]], axis=2)
