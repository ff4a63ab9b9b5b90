"""A small benchmark as tidy rows: two tasks, four methods, two seeds, with a skip, a time-out and unsolved queries."""

import json
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation.schema import ROW

METHODS = ("greedy", "move-table", "relax-global", "relax-global:effort=policy")
SEEDS = (0, 1)
INSTANCES = 12
LOANS, PRICES = "loans/rf", "prices/mlp"  # a classifier with a categorical feature, and a regressor
SKIPPED = (PRICES, "move-table")  # in both seeds, since a method that does not apply never does
TIMED_OUT = (LOANS, "relax-global:effort=policy", 1)
SKIP_REASON = "skipped because it explains classification only, and the model is for regression."
TIME_OUT_REASON = "timed out after 60 s"
UNSOLVED_REASON = "none was found within 3 changes"
FEATURES = {LOANS: ("income", "debt", "purpose", "years"), PRICES: ("rooms", "distance", "age")}


def sample_rows() -> pd.DataFrame:
    """The rows, the same at every call."""
    rows = [
        row
        for task in (LOANS, PRICES)
        for method in METHODS
        for seed in SEEDS
        for row in _unit(task, method, seed, np.random.default_rng([len(task), METHODS.index(method), seed]))
    ]
    return _appraised(pd.DataFrame(rows))


def _appraised(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with how real and how lasting their counterfactuals are, and nothing where nothing is told."""
    rng = np.random.default_rng(5)
    for name in ("local_outlier", "isolated", "ynn", "lasting", "noise_distance", "edge_cells", "unseen_cells"):
        drawn = rng.random(len(rows))
        rows[name] = pd.Series((drawn < 0.2).astype(float) if "o" in name[:3] else drawn.round(2)).where(rows["valid"])
    for name in ("real_local_outlier", "real_isolated", "real_ynn", "real_lasting"):
        rows[name] = 0.9 if name in ("real_ynn", "real_lasting") else 0.05
    missing = {column.name: column.missing for column in ROW if column.name not in rows}
    return rows.assign(**missing)


def _unit(task: str, method: str, seed: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    if (task, method) == SKIPPED:
        return [_failed(task, method, seed, "skipped", SKIP_REASON)]
    if (task, method, seed) == TIMED_OUT:
        return [_failed(task, method, seed, "timed out", TIME_OUT_REASON)]
    spent = rng.integers(8, 60, INSTANCES) * (1 + METHODS.index(method))
    unit = _costs(method, int(spent.sum()))
    queries = np.random.default_rng([len(task), seed])  # the same queries for every method
    return [
        {
            **_named(task, method, seed, instance, "ok"),
            **_outcome(task, method, instance, _query(task, queries), rng),
            "rows": int(spent[instance]),
            **unit,
        }
        for instance in range(INSTANCES)
    ]


def _named(task: str, method: str, seed: int, instance: int, state: str) -> dict[str, Any]:
    names = {"task": task, "method": method, "seed": seed, "instance": instance, "state": state}
    kind = "regression" if task == PRICES else "classification"
    return {
        **names,
        "reason": "",
        "instances": INSTANCES,
        "features": len(FEATURES[task]),
        "kind": kind,
        "max_changes": 3.0,
    }


def _query(task: str, rng: np.random.Generator) -> dict[str, Any]:
    query: dict[str, Any] = {name: round(float(rng.uniform(1.0, 90.0)), 2) for name in FEATURES[task]}
    if "purpose" in query:
        query["purpose"] = ["car", "house", "study"][int(rng.integers(3))]
    return query


def _outcome(task: str, method: str, instance: int, query: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """What was found: the later methods change fewer features; every fifth query or so stays unsolved."""
    valid = bool(rng.random() < 0.7 + 0.1 * METHODS.index(method))
    most = max(1, len(query) - METHODS.index(method))
    changed = sorted(rng.permutation(len(query))[: int(rng.integers(1, most + 1))].tolist())
    names = [list(query)[j] for j in changed] if valid else []
    changes = [[name, query[name], _other(query[name], rng)] for name in names]
    regression = task == PRICES
    before = f"{20 + instance}.5" if regression else ("refused" if instance % 3 else "granted")
    after = f"{31 + instance}.5" if regression else ("granted" if instance % 3 else "refused")
    probable = valid and not regression
    told = " and ".join(f"{name} were {to} instead of {old}" for name, old, to in changes)
    return {
        "reason": "" if valid else UNSOLVED_REASON,
        "claimed": valid,
        "valid": valid,
        "violations": 0,
        "sparsity": float(len(changes)) if valid else np.nan,
        "proximity": round(float(rng.uniform(0.2, 1.0)) * len(changes), 3) if valid else np.nan,
        "redundant": float(rng.random() < 0.2) if valid else np.nan,
        "inside_box": 1.0 if valid else np.nan,
        "neighbour_distance": round(float(rng.uniform(2.0, 4.0)), 3) if valid else np.nan,
        "found_count": int(valid),
        "diversity": np.nan,
        "before": before,
        "after": after if valid else "",
        "probability_before": round(float(rng.uniform(0.05, 0.45)), 2) if probable else np.nan,
        "probability_after": round(float(rng.uniform(0.55, 0.95)), 2) if probable else np.nan,
        "stage": "search" if valid else "",
        "sentence": f"Query {instance}: if {told}, the answer would be {after} instead of {before}."
        if valid
        else f"Query {instance}: no counterfactual; {UNSOLVED_REASON}.",
        "query": json.dumps(query),
        "changes": json.dumps(changes),
    }


def _other(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, str):
        return "house" if value != "house" else "car"
    return round(value + float(rng.choice([-1.0, 1.0, 1.0])) * float(rng.uniform(0.5, 9.0)), 2)


def _costs(method: str, explain_rows: int) -> dict[str, Any]:
    slow = 1.0 + METHODS.index(method)
    return {
        "fit_seconds": 2.0 * slow,
        "fit_cpu": 1.9 * slow,
        "fit_rows": int(256 * slow),
        "fit_calls": int(4 * slow),
        "explain_seconds": 0.12 * slow,
        "explain_cpu": 0.11 * slow,
        "explain_rows": explain_rows,
        "explain_calls": int(20 * slow),
        "model_seconds": 0.7 * slow,
        "task_seconds": 1.0,
        "harness_seconds": 0.2,
    }


def _failed(task: str, method: str, seed: int, state: str, reason: str) -> dict[str, Any]:
    row: dict[str, Any] = {**_named(task, method, seed, -1, state), "reason": reason}
    row |= {"claimed": False, "valid": False, "violations": 0, "found_count": 0, "rows": np.nan}
    row |= dict.fromkeys(("sparsity", "proximity", "redundant", "inside_box", "neighbour_distance"), np.nan)
    row |= dict.fromkeys(("diversity", "probability_before", "probability_after"), np.nan)
    row |= dict.fromkeys(_costs(method, 0), np.nan)
    return row | {"before": "", "after": "", "stage": "", "sentence": "", "query": "", "changes": "[]"}
