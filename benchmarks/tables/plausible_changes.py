"""What `plausible="prefer"` costs and brings: `python -m benchmarks.tables.plausible_changes`, some 15 minutes of CPU.

The first test rows of every embedded classification table are explained with `plausible=None` and with "prefer". The
script counts changes, answers with a change that can be taken back, and answers that look plausible to a
LocalOutlierFactor (the kind of detector that the search sees) and to an IsolationForest (which no search sees), both
fitted by the judge on its own encoding of the training rows. What was seen is in docs/results/plausible_changes.csv,
and the commit and time of the run in plausible_changes.json.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import FeatureSpace, ReLAX
from relax_plugin.datasets import load
from relax_plugin.evaluation.judge import Examination
from relax_plugin.evaluation.store import commit, now
from relax_plugin.evaluation.tasks import TEST_SHARE, Task, load_task
from relax_plugin.evaluation.yardsticks import detector_of
from relax_plugin.files import write_text

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "plausible_changes.csv"
TASKS = (
    *("breast_cancer/rf", "breast_cancer/mlp", "breast_cancer/leaves8", "diabetes/ada", "diabetes/xgb"),
    *("wave2/xgb", "wave2/mlp", "wave3/xgb", "wave3/mlp", "sonar/mlp", "sonar/imputed", "german/rf"),
    *("german/dummies", "adult/lgbm", "adult/pipeline", "default/xgb", "default/mlp"),
)
FREE = ("german", "adult", "default")  # tables of mixed columns that are also explained with every feature free
TABLE_ROWS = 6000  # of them at most
SEEDS, ROWS = (0,), 100
LIMIT = 5  # changes
WAYS = {"without": None, "prefer": "prefer"}
ALPHA = 0.05


def free_table(table: str, seed: int) -> Task:
    """A mixed table without constraints under gradient boosting, as someone who has just met the package uses it."""
    data = load(table)
    X = data.X.sample(min(len(data.X), TABLE_ROWS), random_state=seed)
    X = X.dropna(axis=1).astype(
        {name: str for name in data.constraints["categorical"] if name in X and X[name].notna().all()}
    )
    y = data.y[X.index]
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=seed, stratify=y)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer(
        [("categories", encoder, make_column_selector(dtype_exclude="number"))], remainder="passthrough"
    )
    model = make_pipeline(columns, GradientBoostingClassifier(random_state=seed)).fit(X_train, y_train)
    return Task(f"{table}/free", model, FeatureSpace.infer(X_train), None, X_train, X_test, y_train, y_test)


def look_at(name: str, make: Callable[[], Task], seed: int) -> Iterator[dict[str, Any]]:
    """One line for each query and each way of asking."""
    task = make()
    explainer = ReLAX(task.model, task.space, max_changes=LIMIT, seed=seed, progress=False).fit(task.X_train)
    queries = task.X_test.iloc[:ROWS]
    for way, plausible in WAYS.items():
        result = explainer.explain(queries, goal=task.goal_of(ROWS), plausible=plausible)
        judged = pd.DataFrame(Examination(task, queries, result, LIMIT, float(result.rows_queried.sum())).rows())
        changed = judged["sparsity"].to_numpy() > 0  # a query that meets its goal already is its own answer
        rows = result.frame[result.frame["cf_id"] == 0].set_index("query_id")[list(task.X_train.columns)]
        rows = rows.reindex(np.flatnonzero(changed)).astype(task.X_train.dtypes.to_dict(), errors="ignore")
        for query in range(len(queries)):
            line = {"task": name, "seed": seed, "way": way, "query": query, "valid": bool(judged["valid"][query])}
            yield line | {
                "changes": judged["sparsity"][query] if changed[query] else np.nan,
                "needless": judged["redundant"][query] if changed[query] else np.nan,
                "model_rows": result.rows_queried[query],
                **{
                    kind: float(not detector_of(task, "training", kind)(rows.loc[[query]])[0])
                    if changed[query]
                    else np.nan
                    for kind in ("lof", "forest")
                },
            }


def lines_of(names: list[str]) -> Iterator[dict[str, Any]]:
    """The lines of these tasks, by default of all."""
    every: dict[str, Callable[[int], Task]] = {name: lambda seed, name=name: load_task(name, seed) for name in TASKS}
    every |= {f"{table}/free": lambda seed, table=table: free_table(table, seed) for table in FREE}
    for name in names or every:
        for seed in SEEDS:
            yield from look_at(name, lambda name=name, seed=seed: every[name](seed), seed)
            print(name, seed, file=sys.stderr, flush=True)


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """One line a task: both ways side by side, on the queries that both solved.

    The independent detector's share is compared pair by pair: `gained` and `lost` are queries of which only the answer
    of "prefer", or only that of None, is plausible by it, and `p` is the one-sided exact sign test (McNemar) of a loss.
    """
    told = []
    for name, of in lines.groupby("task", sort=False):
        none, prefer = (of[of["way"] == way].set_index(["seed", "query"]) for way in WAYS)
        both = none["changes"].notna() & prefer["changes"].notna()
        gained = int(((prefer["forest"] > none["forest"]) & both).sum())
        lost = int(((prefer["forest"] < none["forest"]) & both).sum())
        line: dict[str, Any] = {"task": name}
        for way, own in (("None", none), ("prefer", prefer)):
            line[f"valid {way}"] = own["valid"].mean()
            line[f"changes {way}"] = own["changes"][both].mean()
            line[f"needless {way}"] = (own["needless"][own["changes"].notna()] > 0).mean()
            line[f"lof {way}"], line[f"forest {way}"] = own["lof"][both].mean(), own["forest"][both].mean()
            line[f"rows {way}"] = own["model_rows"].mean()
        line["ratio"] = line["changes prefer"] / line["changes None"]
        p = binomtest(lost, gained + lost, 0.5, alternative="greater").pvalue if gained + lost else 1.0
        told.append(line | {"gained": gained, "lost": lost, "p": p})
    return pd.DataFrame(told)


def main() -> None:
    """Look at every task and seed, print the summary, and store the lines."""
    warnings.simplefilter("ignore")
    about = {"commit": commit(), "started": now()}
    lines = pd.DataFrame(lines_of(sys.argv[1:]))
    print(summary(lines).round(3).to_string(index=False))
    if not sys.argv[1:]:
        write_text(STORED, lines.round(6).to_csv(index=False))
        write_text(STORED.with_suffix(".json"), json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
