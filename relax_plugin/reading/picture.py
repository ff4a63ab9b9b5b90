"""What the picture of a query shows: each change with its length and words, and a title."""

import numpy as np
import pandas as pd

from relax_plugin.formatting import cell_label, feature_label, row_name, six_digits
from relax_plugin.results import Counterfactuals


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
        end: [six_digits(cell_label(labels, name, cell)) for name, cell in zip(names, changes[end], strict=True)]
        for end in ("from", "to")
    }
    return changes.assign(categorical=categorical, label=[feature_label(labels, name) for name in names], **words)


def title_of(result: Counterfactuals, query: int) -> tuple[str, str]:
    """A query's sentence as a title, and what is written where nothing is to be drawn."""
    found, before, name = result.found[query], six_digits(result.before[query]), row_name(result, query)
    if not found.any():
        status = str(result.statuses[query, 0])
        stays = "" if result.refused[query] else f", the answer stays {before}"
        return f"{name}: no counterfactual{stays}", f"{status[:1].upper()}{status[1:]}."
    counts = result.sparsity[query][found].astype(int)
    low, high = int(counts.min()), int(counts.max())
    if high == 0:
        return f"{name}: the answer {before} meets the goal already", "Nothing has to change."
    answers = " or ".join(dict.fromkeys(six_digits(answer) for answer in result.after[query][found]))
    changed = f"{low} feature{'' if low == 1 else 's'}" if low == high else f"{low} to {high} features"
    wanted = "" if len(found) == 1 else f" ({found.sum()} of {len(found)} counterfactuals found)"
    title = f"{name}: the answer would be {answers} instead of {before}"
    return f"{title}\nif {changed} were different{wanted}", ""
