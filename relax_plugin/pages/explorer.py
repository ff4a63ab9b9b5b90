"""What the explorer of a report shows: queries of each task, and what every method made of them."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.formatting import six_digits
from relax_plugin.pages.changes import arrow, sign
from relax_plugin.pages.html import capitalised

MOST_INSTANCES = 100  # of the first seed of each task: enough to look around, and the file stays small
MOST_SENTENCES = 8  # instances of each task that are also there without scripts


def explorer_data(rows: pd.DataFrame, methods: Sequence[str]) -> list[dict[str, Any]]:
    """For each task: names of features and methods, the queries, and the results by method and query.

    Everything is text or a plain number, so that a page has only to put it in place.
    """
    tasks = []
    for task, of_task in rows[rows["state"] == "ok"].groupby("task", sort=False):
        seed = int(of_task["seed"].min())
        mine = of_task[of_task["seed"] == seed]
        instances = sorted(set(mine["instance"].tolist()))
        kept = mine[mine["instance"].isin(instances[:MOST_INSTANCES])]
        asked = kept.drop_duplicates("instance")
        queries = {int(i): json.loads(text) for i, text in zip(asked["instance"], asked["query"], strict=True)}
        changed = [str(name) for text in kept["changes"] for name, _, _ in json.loads(text)]
        # A change may be of a one-hot group, which is no column of a query.
        features = list(dict.fromkeys([*map(str, next(iter(queries.values()))), *sorted(set(changed))]))
        order = sorted(queries)
        results = {
            method: _by_instance(kept[kept["method"] == method], features, order)
            for method in methods
            if (kept["method"] == method).any()
        }
        tasks.append(
            {
                "task": str(task),
                "seed": seed,
                "total": len(instances),
                "features": features,
                "instances": order,
                "queries": [_cells(queries[instance], features) for instance in order],
                "results": results,
                "typical": typical(kept, order),
            }
        )
    return tasks


def typical(rows: pd.DataFrame, order: Sequence[int]) -> int:
    """The position of the query to begin with: the median by the features that the methods change, on average.

    Of the queries that all methods solved, or if there is none, of those that most of them did; so that nobody looks
    good or bad there by chance.
    """
    valid = rows[rows["valid"].astype(bool)]
    if valid.empty:
        return 0
    by_query = valid.groupby("instance")["sparsity"].agg(["size", "mean"])
    solved_most = by_query.loc[by_query["size"] == by_query["size"].max(), "mean"].sort_index()
    ranked = solved_most.sort_values(kind="stable")
    return list(order).index(int(ranked.index[(len(ranked) - 1) // 2]))


def _cells(query: dict[str, Any], features: list[str]) -> list[str]:
    return [six_digits(query[name]) if name in query else "" for name in features]


def first_sentences(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sentences of the first queries of each task, for a reader without scripts."""
    return [
        {
            "task": task["task"],
            "lines": [
                (instance, method, results[position]["sentence"], results[position]["valid"])
                for position, instance in enumerate(task["instances"][:MOST_SENTENCES])
                for method, results in task["results"].items()
                if results[position] is not None
            ],
        }
        for task in data
    ]


def _by_instance(rows: pd.DataFrame, features: list[str], order: list[int]) -> list[dict[str, Any] | None]:
    """The results of a method in the order of the queries; None where it was not asked."""
    place = {name: i for i, name in enumerate(features)}
    found = {row["instance"]: _result(row, place) for row in rows.to_dict("records")}
    return [found.get(instance) for instance in order]


def _result(row: dict[Any, Any], place: dict[str, int]) -> dict[str, Any]:
    return {
        "valid": bool(row["valid"]),
        "sentence": capitalised(str(row["sentence"] if row["valid"] else f"No counterfactual; {row['reason']}.")),
        "before": str(row["before"]),
        "after": str(row["after"]),
        "probability": [_number(row["probability_before"], 4), _number(row["probability_after"], 4)],
        "changes": [
            [place[str(name)], six_digits(new), arrow(sign(old, new))] for name, old, new in json.loads(row["changes"])
        ],
        "sparsity": _number(row["sparsity"], 0),
        "proximity": _number(row["proximity"], 2),
        "rows": _number(row["rows"], 0),
    }


def _number(value: Any, digits: int) -> float | int | None:
    if not np.isfinite(value):
        return None
    return round(float(value), digits) if digits else int(value)
