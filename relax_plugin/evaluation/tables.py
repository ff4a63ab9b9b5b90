"""Tables over the rows of a benchmark: validity first, means over seeds with their standard deviation.

Every number is computed for each seed and then averaged, so that the deviation says what another seed would change.
A unit that crashed or timed out solved nothing: it counts as validity 0. One that was skipped counts nowhere.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.evaluation import metrics, schema


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each task and method: the numbers of `schema.SUMMARY`, with ± where they have a spread."""
    return over_seeds(by_seed(rows))


def by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each unit: task, method, seed, state, and the numbers of `summary` for this seed alone."""
    ran = rows[rows["state"] == "ok"]
    solved = {
        (task, seed): [set(unit.loc[unit["valid"], "instance"]) for _, unit in units.groupby("method")]
        for (task, seed), units in ran.groupby(["task", "seed"])
    }
    by_all = {key: set.intersection(*parts) for key, parts in solved.items()}
    records = []
    for (task, method), units in _units(rows).items():
        for unit in units:
            first = unit.iloc[0]
            numbers = of_unit(unit, by_all.get((task, first["seed"]), set()))
            key = {"task": task, "method": method, "seed": first["seed"], "state": first["state"]}
            records.append(key | (numbers if first["state"] != "skipped" else {}))
    return pd.DataFrame(records, columns=["task", "method", "seed", "state", *schema.NUMBERS])


def over_seeds(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines such as those of `by_seed`, and whatever numbers they have besides, averaged for each task and method."""
    names = [name for name in lines.columns if name not in ("task", "method", "seed", "state")]
    # A few seeds a task and method, but many numbers: picked from arrays, since a Series each would take far longer.
    numbers = {name: lines[name].to_numpy(np.float64, na_value=np.nan) for name in names}
    states = lines["state"].to_numpy(dtype=object)
    records = []
    cases = lines[["task", "method"]].reset_index(drop=True)
    for (task, method), part in cases.groupby(["task", "method"], sort=False):
        units = part.index.to_numpy()
        ran = units[states[units] != "skipped"]
        record: dict[str, Any] = {"task": task, "method": method, "seeds": len(ran)}
        for name in names:
            told, known = schema.SUMMARY.get(name), numbers[name][ran]
            if told is None or not told.of_all_seeds:
                known = known[~np.isnan(known)]
            record[name], deviation = metrics.mean_and_deviation(known) if len(known) else (np.nan, np.nan)
            if told is not None and told.spread:
                record[f"± {name}"] = deviation
        record["failed"] = int(np.isin(states[ran], ["crashed", "timed out"]).sum())
        record["skipped"] = len(units) - len(ran)
        records.append(record)
    return pd.DataFrame(records, columns=None if records else ["task", "method"]).set_index(["task", "method"])


def validity_at_k(rows: pd.DataFrame) -> pd.DataFrame:
    """Validity with at most k changes: task, method, k = 1 … features, mean and deviation over seeds."""
    return _curve(rows, "k", lambda unit, task: np.arange(1, int(task["features"].max()) + 1), _at_most)


def anytime(rows: pd.DataFrame, budgets: Sequence[int] = (5, 10, 20, 40, 80, 160, 320, 640, 1280)) -> pd.DataFrame:
    """Share of all instances solved within so many model rows each: task, method, rows, mean, deviation."""
    return _curve(rows, "rows", lambda unit, task: np.asarray(budgets), _within)


def by_class(rows: pd.DataFrame) -> pd.DataFrame:
    """Validity for each answer of the model before: task, method, class, mean and deviation over seeds that ran."""
    records = []
    for (task, method), units in _units(rows).items():
        shares = [_validity_by_class(unit) for unit in units if unit["state"].iloc[0] == "ok"]
        for label in sorted({label for share in shares for label in share}):
            known = [share[label] for share in shares if label in share]
            mean, deviation = metrics.mean_and_deviation(known)
            records.append((task, method, label, mean, deviation))
    return pd.DataFrame(records, columns=["task", "method", "class", "validity", "± validity"])


def failures(rows: pd.DataFrame) -> pd.DataFrame:
    """Units that were skipped, crashed or timed out, with the reason."""
    return rows.loc[rows["state"] != "ok", ["task", "method", "seed", "state", "reason"]].reset_index(drop=True)


def overhead(rows: pd.DataFrame) -> float:
    """Time of the harness as a share of that of the methods (fit and explain), what is done once apart."""
    spent = wall_seconds(rows)
    return spent["harness"] / spent["methods"] if spent["methods"] > 0 else float("nan")


def wall_seconds(rows: pd.DataFrame) -> dict[str, float]:
    """Where the wall seconds of all units went, those that gave no results apart.

    "methods" is fit and explain; "tasks" is to load data and train models, and "starts" to start workers, import
    methods and prepare the judge (the model's answers to the training rows, detectors, models fitted again), once a
    worker each; "harness" is what is left: to examine answers, to send rows.
    """
    units = rows.drop_duplicates(["task", "method", "seed"])
    total = units[units["state"] == "ok"].sum(numeric_only=True)
    return {
        "methods": float(total["fit_seconds"] + total["explain_seconds"]),
        "tasks": float(total["task_seconds"]),
        "starts": float(total["start_seconds"]),
        "harness": float(total["harness_seconds"]),
    }


def _units(rows: pd.DataFrame) -> dict[tuple[str, str], list[pd.DataFrame]]:
    groups: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for key, unit in rows.groupby(["task", "method", "seed"], sort=False):
        task, method, _ = key
        groups.setdefault((str(task), str(method)), []).append(unit)
    return groups


def of_unit(unit: pd.DataFrame, solved_by_all: Collection[int] = ()) -> dict[str, float]:
    """The numbers of one unit, from its rows and the instances that all methods solved."""
    first = unit.iloc[0]
    valid = unit["valid"].to_numpy()
    shared = valid & unit["instance"].isin(list(solved_by_all)).to_numpy()
    sparsity, proximity = unit["sparsity"].to_numpy(), unit["proximity"].to_numpy()
    seconds = first["fit_seconds"] + first["explain_seconds"]
    ran = first["state"] == "ok"
    numbers = {
        "instances": first["instances"] if ran else np.nan,
        "validity": metrics.validity(valid),
        "worst class": min(_validity_by_class(unit).values()) if ran else 0.0,
        "L0": metrics.mean_over(valid, sparsity),
        "L1": metrics.mean_over(valid, proximity),
        "L0 common": metrics.mean_over(shared, sparsity),
        "L1 common": metrics.mean_over(shared, proximity),
        "common": float(shared.sum()) if ran else np.nan,
    }
    means = {name: told.mean_of for name, told in schema.SUMMARY.items() if told.mean_of}
    numbers |= {name: float(unit[column].mean()) for name, column in means.items()}
    return numbers | {
        "violations": float(unit["violations"].sum()),
        "broken rules": float(unit["broken_rules"].sum()),
        "calls": first["explain_calls"],
        "training rows": first["fit_rows"],
        "max changes": first["max_changes"],
        "fit s": first["fit_seconds"],
        "fit CPU s": first["fit_cpu"],
        "explain s": first["explain_seconds"],
        "explain CPU s": first["explain_cpu"],
        "ms each": 1000 * first["explain_seconds"] / max(first["instances"], 1),
        "in model": first["model_seconds"] / seconds if seconds > 0 else np.nan,
    }


def _validity_by_class(unit: pd.DataFrame) -> dict[str, float]:
    """A regressor's answers are no classes: its instances form one group."""
    before, valid = unit["before"].to_numpy(), unit["valid"].to_numpy()
    if unit["kind"].iloc[0] == "regression":
        before = np.full(len(before), "all")
    return metrics.validity_by_class(valid, before)


def _at_most(unit: pd.DataFrame, caps: Any) -> Any:
    return metrics.validity_curve(unit["valid"].to_numpy(), unit["sparsity"].to_numpy(), len(caps))


def _within(unit: pd.DataFrame, budgets: Any) -> Any:
    return metrics.solved_within(unit["valid"].to_numpy(), unit["rows"].to_numpy(), budgets)


def _curve(rows: pd.DataFrame, name: str, positions: Any, values: Any) -> pd.DataFrame:
    records = []
    for (task, method), units in _units(rows).items():
        ran = [unit for unit in units if unit["state"].iloc[0] != "skipped"]
        for unit in ran[:1]:
            at = positions(unit, rows[rows["task"] == task])
            curves = np.array([values(each, at) for each in ran])
            for position, column in zip(at, curves.T, strict=True):
                records.append((task, method, position, *metrics.mean_and_deviation(column)))
    return pd.DataFrame(records, columns=["task", "method", name, "validity", "± validity"])


def core(table: pd.DataFrame) -> pd.DataFrame:
    """The summary for a terminal: what says most about each method, as text; `readable` has more columns.

    "model rows" are those of one query, those of fit apart; "seconds" are of fit and of all queries together.
    """
    shown = pd.DataFrame(index=table.index)
    for name, decimals in (("validity", 3), ("L0", 2), ("L1", 2)):
        pairs = zip(table[name], table[f"± {name}"], strict=True)
        shown[name] = [with_deviation(mean, deviation, decimals) for mean, deviation in pairs]
    shown["model rows"] = table["rows"].map(whole)
    shown["seconds"] = (table["fit s"] + table["explain s"]).map(lambda value: number(value, 1))
    if (table["found"] > 1).any():
        shown["found"] = table["found"].map(lambda value: number(value, 2))
    return shown


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The summary for people with a wide screen, as text with deviations beside the means."""
    shown = pd.DataFrame(index=table.index)
    shown["instances"] = table["instances"].map(whole)
    shown["max changes"] = table["max changes"].map(whole)
    for name in ("validity", "L0", "L1"):
        shown[name] = [with_deviation(*pair) for pair in zip(table[name], table[f"± {name}"], strict=True)]
    for name in ("L0 common", "L1 common"):
        shown[name] = table[name].map(lambda value: number(value, 2))
    for name in ("common", "violations", "rows", "training rows"):
        shown[name] = table[name].map(whole)
    shown["fit s"] = table["fit s"].map(lambda value: number(value, 1))
    shown["ms each"] = table["ms each"].map(lambda value: number(value, 1))
    if (table["found"] > 1).any():
        for name in ("found", "diversity"):
            shown[name] = table[name].map(lambda value: number(value, 2))
    for name in ("failed", "skipped"):
        if table[name].any():
            shown[name] = table[name].map(whole)
    return shown


def with_deviation(mean: float, deviation: float, decimals: int = 3) -> str:
    """A mean, and how far seeds deviate from it, if there are several."""
    return number(mean, decimals) + ("" if np.isnan(deviation) else f" ± {deviation:.{decimals}f}")


def number(value: float, decimals: int) -> str:
    """A number; a dash if it is none."""
    return "-" if np.isnan(value) else f"{value:,.{decimals}f}"


def whole(value: float) -> str:
    """A number without decimals."""
    return number(value, 0)
