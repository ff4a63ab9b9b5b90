"""The results as tidy tables: one line for each case, small enough to be kept beside the code."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.reproduction.models import COLUMNS as MODEL_COLUMNS
from benchmarks.reproduction.plan import ALONE, MOST_CHANGES, PARTS, Case
from relax_plugin.evaluation import metrics, tables

AT_MOST = [f"validity@{k}" for k in range(1, MOST_CHANGES + 1)]
SAME_AT_MOST = [f"same_{name}" for name in AT_MOST]
ALONE_AT_MOST = [f"alone_{name}" for name in AT_MOST]
COMMON = ["common", "common_L0", "common_L0_ours", "common_L1", "common_L1_ours"]
COLUMNS = [
    *("task", "method", "cap", "setting", "seed", "state", "reason", "instances", "validity", "worst_class"),
    *("L0", "L1", "rows", "fit_rows", "fit_seconds", "explain_seconds", "fit_cpu", "explain_cpu", "violations"),
    *AT_MOST,
    *SAME_AT_MOST,
    *ALONE_AT_MOST,
    "same_L0",
    *COMMON,
]
"""`rows` are model rows a query. `validity@k` is the share of all queries solved with at most k changes. `same_…` is
ReLAX-Global (of the same cap and seed) on the very rows that this method was given, `alone_…` its agent without the
search; `common_…` are both on the rows that both solved, `common` is how many."""
YARDSTICK = "relax-global"

TEXTS = (
    *("task", "method", "setting", "state", "reason", "parameters", "measure", "version", "model", "feature"),
    *("where", "verdict", "claim", "figures"),
)
TABLE_COLUMNS: Mapping[str, Sequence[str]] = {
    "models": MODEL_COLUMNS,
    **dict.fromkeys(PARTS, COLUMNS),
    **dict.fromkeys(("verdicts", "verdicts_before"), ("where", "verdict", "claim", "figures")),
    "lore_sa": ("task", "version", "rows", "seconds_a_row"),
    "covid_models": (
        "seed",
        "model",
        "cv",
        "test",
        "majority",
        "training_rows",
        "test_rows",
        "test_high",
        "called_high",
    ),
    "covid_counterfactuals": (
        *("seed", "method", "query", "truly_high", "claimed", "valid", "violations", "sparsity", "proximity"),
        *("inside_box", "neighbour_distance", "plausible", "query_plausible", "contradiction"),
    ),
    "covid_changes": ("seed", "method", "query", "feature", "direction", "size"),
    "covid_importance": ("seed", "feature", "importance", "rank", "actionable"),
    "covid_transfer": ("seed", "method", "other_seed", "query", "held_out", "high_before", "normal_after"),
    "covid_association": (
        *("seed", "feature", "actionable", "allowed", "correlation", "given_age", "auc", "with_age"),
        "with_population",
    ),
}
"""The columns that every table of a report has."""


def results(
    cases: Sequence[Case], rows: pd.DataFrame, kept: Mapping[str, pd.DataFrame] | None = None
) -> dict[str, pd.DataFrame]:
    """A table for each part, from the judge's rows of its cases.

    Of a case without rows the line in the tables `kept` of an earlier run is taken. ReLAX, if it has rows, is put
    beside it anew; but which rows both solved cannot be known any more, so `common…` are left empty.
    """
    units = {
        (str(task), str(label), int(str(seed))): unit
        for (task, label, seed), unit in rows.groupby(["task", "method", "seed"])
    }
    earlier = {key: line for part, table in (kept or {}).items() for key, line in _by_case(part, table).items()}
    records: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        unit = units.get((case.task, case.label, case.seed))
        told = {name: getattr(case, name) for name in ("task", "method", "cap", "setting", "seed")}
        record = earlier.get((case.part, *told.values())) if unit is None else _numbers(unit) | told
        if record is None:
            continue  # not run yet
        records.setdefault(case.part, []).append(record)
        if record["state"] == "skipped":
            continue
        ours, alone = (units.get((case.task, like.label, case.seed)) for like in _like(case))
        given = record["instances"] if record["state"] == "ok" else case.rows or np.inf
        if ours is not None:
            record |= _on_the_same_rows(ours, given)
            record |= dict.fromkeys(COMMON, np.nan) if unit is None else _in_common(unit, ours)
        if alone is not None:
            same = _on_the_same_rows(alone, given)
            record |= {name: same[of] for name, of in zip(ALONE_AT_MOST, SAME_AT_MOST, strict=True)}
    return {part: pd.DataFrame(lines).reindex(columns=COLUMNS) for part, lines in records.items()}


def _by_case(part: str, table: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The lines of a table by what tells a case from all others."""
    lines: list[dict[Any, Any]] = table.to_dict("records")
    for line in lines:
        line["cap"] = None if pd.isna(line["cap"]) else line["cap"]
    return {(part, *(line[name] for name in ("task", "method", "cap", "setting", "seed"))): line for line in lines}


def _like(case: Case) -> tuple[Case, Case]:
    """The cases of ReLAX-Global that another one is compared with, of the same cap: its like, and the agent alone.

    An agent alone is compared with an agent alone, and a method without a cap with the largest one.
    """
    cap = MOST_CHANGES if case.cap is None else case.cap
    search, alone = (
        Case(case.part, case.task, f"{YARDSTICK}{effort}", case.seed, YARDSTICK, cap) for effort in ("", ALONE)
    )
    return (alone if case.method.endswith(ALONE) else search), alone


def _numbers(unit: pd.DataFrame) -> dict[str, Any]:
    first, of = unit.iloc[0], tables.of_unit(unit)
    numbers: dict[str, Any] = {name: first[name] for name in ("state", "instances", "fit_rows", "fit_seconds")}
    numbers |= {name: first[name] for name in ("explain_seconds", "fit_cpu", "explain_cpu")}
    if first["state"] == "skipped":
        return numbers | {"reason": first["reason"]}
    curve = metrics.validity_curve(unit["valid"].to_numpy(dtype=bool), unit["sparsity"].to_numpy(), MOST_CHANGES)
    return numbers | {
        "reason": first["reason"] if first["state"] != "ok" else "",
        "worst_class": of["worst class"],
        **{name: of[name] for name in ("validity", "L0", "L1", "rows", "violations")},
        **dict(zip(AT_MOST, curve, strict=True)),
    }


def _on_the_same_rows(ours: pd.DataFrame, given: float) -> dict[str, float]:
    """ReLAX on the first rows, those that another method was given; a run that crashed or timed out solved nothing."""
    if ours["state"].iloc[0] != "ok":
        return dict.fromkeys(SAME_AT_MOST, 0.0)
    mine = ours[ours["instance"] < given]
    solved, sparsity = mine["valid"].to_numpy(dtype=bool), mine["sparsity"].to_numpy()
    same = dict(zip(SAME_AT_MOST, metrics.validity_curve(solved, sparsity, MOST_CHANGES), strict=True))
    return {**same, "same_L0": metrics.mean_over(solved, sparsity)}


def _in_common(unit: pd.DataFrame, ours: pd.DataFrame) -> dict[str, float]:
    """Both on the instances that both solved: whoever gives up on hard rows must not look closer for it."""
    if {unit["state"].iloc[0], ours["state"].iloc[0]} != {"ok"}:
        return {}
    both = unit.merge(ours, on="instance", suffixes=("", "_ours"))
    common = both["valid"].to_numpy(dtype=bool) & both["valid_ours"].to_numpy(dtype=bool)
    means = {
        f"common_{name}{suffix}": metrics.mean_over(common, both[f"{column}{suffix}"].to_numpy())
        for name, column in (("L0", "sparsity"), ("L1", "proximity"))
        for suffix in ("", "_ours")
    }
    return {"common": float(common.sum()), **means}


def at_cap(lines: pd.DataFrame, k: int) -> pd.DataFrame:
    """Of one method's lines those from which its validity at a cap of k is read, in the columns `…validity@k`.

    A method that was not run at k itself is judged by the better of two runs: what it solved with at most k changes
    when more were allowed, and what it solved when fewer were, which keeps k too. Without the latter nothing is read:
    one who was never asked for so few changes may have used up what was allowed.
    """
    caps = lines["cap"].dropna()
    if not (caps <= k).any():
        return lines.iloc[:0]
    read: pd.DataFrame = lines[lines["cap"] == caps[caps >= k].min()].copy()
    if len(read) and read["cap"].iloc[0] > k:
        fewer = lines[lines["cap"] == caps[caps < k].max()].set_index("seed")
        for column in (f"validity@{k}", f"same_validity@{k}", f"alone_validity@{k}"):
            read[column] = np.fmax(read[column].to_numpy(), fewer[column].reindex(read["seed"]).to_numpy())
    return read
