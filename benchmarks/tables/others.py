"""Others' published tables, repeated with our methods beside them: `python -m benchmarks.tables.others`.

It takes some minutes of CPU.

FastAR (Verma, Hines and Dickerson, "Amortized Generation of Sequential Algorithmic Recourses for Black-box Models",
AAAI 2022) explains every row of German credit, Adult and Default that a small network refuses. Here the same kind of
network (5 and 3 hidden units, L-BFGS, codes of categories scaled to -1..1, 80 % of the rows) is trained on our copies
of the three tables, with the immutable features and directions of its authors' published environments, and every
refused row is explained. What was seen is in results/others.csv, with what FastAR published beside it.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.datasets import load
from relax_plugin.files import write_text
from relax_plugin.registry import read_method

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "others.csv"
METHODS = ("relax-global", "relax-global:effort=policy", "relax-global:effort=refined", "greedy", "fastar")
SEED = 0  # of our methods


@dataclass(frozen=True)
class Table:
    """One table of the protocol: what is wanted, and what its authors hold fixed."""

    name: str
    wanted: int  # our label of the desired class
    seed: int  # the random state of its authors, for split and network: with others the network may learn nothing
    immutable: tuple[str, ...]
    increase_only: tuple[str, ...] = ()
    decrease_only: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    published: dict[str, tuple[float, float, float]] = field(default_factory=dict)  # validity, changes, seconds


TABLES = (
    Table(
        "german",
        wanted=0,
        seed=26,
        immutable=("personal", "liable", "foreign", "purpose"),
        increase_only=("age", "job"),
        published={"FastAR": (0.9728, 1.22, 16.0), "FastAR's greedy": (0.498, np.nan, np.nan)},
    ),
    Table(
        "adult",
        wanted=1,
        seed=50,
        immutable=("marital-status", "race", "sex", "native-country", "education"),  # education-num tells education
        increase_only=("age", "education-num"),
        rules=("`education-num` <= was(`education-num`) or age >= was(age) + 2",),
        published={"FastAR": (1.0, 1.0, 115.0), "FastAR's greedy": (0.977, np.nan, np.nan)},
    ),
    Table(
        "default",
        wanted=0,
        seed=32,
        immutable=("SEX", "MARRIAGE"),
        increase_only=("AGE",),
        decrease_only=("EDUCATION",),  # a smaller code is a higher degree
        rules=("EDUCATION >= was(EDUCATION) or AGE >= was(AGE) + 2",),
        published={"FastAR": (0.9994, 1.0, 189.0), "FastAR's greedy": (0.651, np.nan, np.nan)},
    ),
)


def coded(rows: pd.DataFrame) -> pd.DataFrame:
    """The table with a whole number for each category, as FastAR has it; a missing cell has a number of its own."""
    texts = [name for name in rows if not pd.api.types.is_numeric_dtype(rows[name])]
    codes = {name: pd.factorize(rows[name], sort=True, use_na_sentinel=False)[0] for name in texts}
    return rows.assign(**codes)


def look_at(table: Table) -> Iterator[dict[str, Any]]:
    """One line for each method, and those that FastAR published."""
    data = load(table.name)
    rows = coded(data.X)
    train, _, labels, _ = train_test_split(rows, data.y, test_size=0.2, random_state=table.seed)
    network = MLPClassifier((5, 3), solver="lbfgs", alpha=1e-5, max_iter=10_000, random_state=table.seed)
    model = make_pipeline(MinMaxScaler((-1, 1)), network).fit(train, labels)
    categorical = [
        name for name in rows if not pd.api.types.is_numeric_dtype(data.X[name]) and name not in table.increase_only
    ]
    space = FeatureSpace.infer(
        train,
        categorical=categorical,
        immutable=list(table.immutable),
        increase_only=list(table.increase_only),
        decrease_only=list(table.decrease_only),
        rules=list(table.rules),
    )
    refused = rows[model.predict(rows) != table.wanted]
    for method in METHODS:
        name, options = read_method(method)
        explainer = make_explainer(name, model, space, goal=Goal.to(table.wanted), seed=SEED, **options)
        begin, wall = time.process_time(), time.perf_counter()
        explainer.fit(train)
        fitted = time.process_time()
        result = explainer.explain(refused)
        yield {
            "table": table.name,
            "method": method,
            "source": "measured here",
            "refused": len(refused),
            "validity": result.found[:, 0].mean(),
            "changes": np.nanmean(result.sparsity[:, 0]),
            "fit seconds": fitted - begin,
            "seconds": time.process_time() - fitted,
            "wall seconds": time.perf_counter() - wall,
            "model rows": result.rows_queried.mean(),
        }
    for method, (validity, changes, seconds) in table.published.items():
        yield {
            "table": table.name,
            "method": method,
            "source": "published",
            "validity": validity,
            "changes": changes,
            "seconds": seconds,
        }


def main() -> None:
    """Look at every table, and store the lines."""
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    for table in TABLES:
        if len(sys.argv) == 1 or table.name in sys.argv[1:]:
            lines += list(look_at(table))
            print(pd.DataFrame(lines).round(3).to_string(index=False), flush=True)
    if len(sys.argv) == 1:
        write_text(STORED, pd.DataFrame(lines).round(6).to_csv(index=False))


if __name__ == "__main__":
    main()
