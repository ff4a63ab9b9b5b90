"""The page of a result: a card for each query, one below the other, with a search box; each prints on a sheet."""

import numpy as np

from relax_plugin.pages.card import cards
from relax_plugin.pages.html import template
from relax_plugin.results import Counterfactuals

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
