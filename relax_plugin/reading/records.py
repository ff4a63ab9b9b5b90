"""Records: a result as a web client or a table wants it, in plain data that JSON holds."""

import math
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.formatting import cell_label, feature_label, row_names
from relax_plugin.reading.probabilities import Probabilities, probabilities, reached_labels
from relax_plugin.reading.sentences import alternatives
from relax_plugin.results import Counterfactuals


def record_of_result(result: Counterfactuals) -> dict[str, Any]:
    """What was asked, and of each query its cells, its answer and its counterfactuals, as plain data."""
    asked = result.asked
    queries, labels = result.space.frame(result.queries), result.space.labels
    index = result.queries.index if isinstance(result.queries, pd.DataFrame) else range(len(result))
    known, told, reached = probabilities(result), alternatives(result), reached_labels(result)
    changes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for query, slot, name, old, new in result.changed_cells:
        ends = {"from": old, "to": new}
        changes.setdefault((query, slot), []).append(
            {
                "feature": plain(name),
                "label": feature_label(labels, name),
                **{end: plain(cell) for end, cell in ends.items()},
                **{f"{end}_label": str(cell_label(labels, name, cell)) for end, cell in ends.items()},
            }
        )
    rows = dict(zip(map(tuple, np.argwhere(result.found).tolist()), _rows(result.delivered), strict=True))
    records = []
    for query, (name, cells) in enumerate(zip(row_names(result), _rows(queries), strict=True)):
        texts = iter(told[query])
        found = [
            {
                "found": bool(result.found[query, slot]),
                "status": str(result.statuses[query, slot]),
                "stage": str(result.stages[query, slot]),
                "changes": changes.get((query, slot), []),
                "row": rows.get((query, slot)),
                "answer": plain(result.after[query, slot]),
                **_chances(known, query, slot, reached[query, slot]),
                "sentence": next(texts) if result.found[query, slot] else None,
            }
            for slot in range(result.found.shape[1])
        ]
        records.append(
            {
                "id": plain(index[query]),
                "name": name,
                "query": cells,
                "carried": None if result.carried is None else _record(result.carried.iloc[query]),
                "answer": plain(result.before[query]),
                "probability": None if known is None else plain(known.own[query]),
                "counterfactuals": found,
                "proved": None if result.proofs is None else str(result.proofs[query]) or None,
                "model_rows": int(result.rows_queried[query]),
            }
        )
    return {
        "method": None if asked is None else asked.method,
        "classes": None if asked is None or asked.classes is None else [plain(label) for label in asked.classes],
        "solved": int(result.found.any(axis=1).sum()),
        "seconds": float(result.seconds),
        "queries": records,
    }


def summary_of_result(result: Counterfactuals) -> pd.Series:
    """The result in a few numbers: how many queries are solved, with how many changes, how far, at which cost."""
    found, solved = result.found, result.found.any(axis=1)
    first = np.where(solved, found.argmax(axis=1), 0)
    each = np.arange(len(result))
    sparsity, proximity = result.sparsity[each, first][solved], result.proximity[each, first][solved]
    numbers = {
        "queries": len(result),
        "solved": int(solved.sum()),
        "counterfactuals": int(found.sum()),
        "changed features": float(sparsity.mean()) if len(sparsity) else np.nan,
        "distance": float(proximity.mean()) if len(proximity) else np.nan,
        "model rows a query": float(result.rows_queried.mean()) if len(result) else np.nan,
        "seconds": float(result.seconds),
    }
    if "plausibility" in vars(result):  # not asked for here: detectors are fitted for it
        plausible = result.plausibility["plausible"].to_numpy(dtype=float)[found.ravel()]
        numbers["plausible"] = float(plausible.mean()) if len(plausible) else np.nan
    return pd.Series(numbers, name=None if result.asked is None else result.asked.method, dtype=object)


def plain(cell: Any) -> Any:
    """A cell as JSON holds it: None where it is missing or infinite, text where JSON has no such kind."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if cell is None or isinstance(cell, str | bool | int):
        return cell
    if isinstance(cell, list | tuple | set | np.ndarray):
        return [plain(one) for one in cell]
    if pd.api.types.is_scalar(cell) and pd.isna(cell):
        return None
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain data; `to_dict` of pandas takes longer than the search for one row."""
    names = list(map(str, frame.columns))
    return [dict(zip(names, map(plain, cells), strict=True)) for cells in frame.to_numpy(dtype=object)]


def _record(row: pd.Series) -> dict[str, Any]:
    return {str(name): plain(cell) for name, cell in row.items()}


def _chances(known: Probabilities | None, query: int, slot: int, label: Any) -> dict[str, Any]:
    if known is None:
        return {"probability": None}
    before, after = plain(known.before[query, slot]), plain(known.after[query, slot])
    return {"probability": {"of": plain(label), "before": before, "after": after}}
