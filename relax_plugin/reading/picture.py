"""What the picture of a query shows: each change with its length and words, and a title."""

import numpy as np
import pandas as pd

from relax_plugin.reading.words import row_name
from relax_plugin.results import Counterfactuals, shown
from relax_plugin.table.labels import words_of, words_of_cell


def drawn_changes(result: Counterfactuals, query: int) -> pd.DataFrame:
    """The changes of a query's counterfactuals, with the length of each, whether it is a jump, and words for it."""
    space, changes = result.space, result.changes().query("query_id == @query")
    position = {name: j for j, name in enumerate(space.names)}
    features = changes["feature"].map(position).to_numpy(dtype=int)
    values, start = result.values[query, changes["cf_id"], features], result.start[query, features]
    moved, categorical = values - start, space.jumps(features, start, values)
    changes = changes.assign(move=np.where(categorical, 1.0, moved / space.scale[features]))
    labels, names = space.labels, changes["feature"]
    words = {
        end: [shown(words_of_cell(labels, name, cell)) for name, cell in zip(names, changes[end], strict=True)]
        for end in ("from", "to")
    }
    return changes.assign(categorical=categorical, label=[words_of(labels, name) for name in names], **words)


def title_of(result: Counterfactuals, query: int) -> tuple[str, str]:
    """A query's sentence as a title, and what is written where nothing is to be drawn."""
    found, before, name = result.found[query], shown(result.before[query]), row_name(result, query)
    if not found.any():
        status = str(result.status[query, 0])
        return f"{name}: no counterfactual, the answer stays {before}", f"{status[:1].upper()}{status[1:]}."
    counts = result.sparsity[query][found].astype(int)
    low, high = int(counts.min()), int(counts.max())
    if high == 0:
        return f"{name}: the answer {before} meets the goal already", "Nothing has to change."
    answers = " or ".join(dict.fromkeys(shown(answer) for answer in result.after[query][found]))
    changed = f"{low} feature{'' if low == 1 else 's'}" if low == high else f"{low} to {high} features"
    wanted = "" if len(found) == 1 else f" ({found.sum()} of {len(found)} counterfactuals found)"
    title = f"{name}: the answer would be {answers} instead of {before}"
    return f"{title}\nif {changed} were different{wanted}", ""
